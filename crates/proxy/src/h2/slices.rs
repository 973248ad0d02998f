//! Connections of HTTP/2 take their turns: other exchanges of a worker do not wait for many heads, for few that take long to
//! unpack, or for a hundred streams that end at one time.
//!
//! What is to be done for a connection is its engine's work and that of the exchanges on its streams, and it stands in line with all of
//! that once. The first in line is served for a [`QUANTUM`], and goes to the end when it has more; what it does at once is small
//! (`thalweg_http::h2::Meter::turn`). All of them together get [`SHARE`] of a turn, or as much as everything else in it took; who is
//! not reached waits for the next. Only the last that is served in a turn may exceed that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time of a turn that is theirs, however little else there is.
const SHARE: Duration = Duration::from_micros(200);
/// Time after which another connection is served.
const QUANTUM: Duration = Duration::from_micros(50);

/// What is done at once for a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    /// An exchange on one of its streams, by its seat.
    Exchange(u32),
    /// What its engine has to do.
    Engine,
}

/// The line of a worker, and what is left of the turn.
#[derive(Debug)]
pub(crate) struct Slices {
    /// When the turn began.
    began: Cell<Instant>,
    spent: Cell<Duration>,
    /// What the first in line has left of its quantum.
    left: Cell<Duration>,
    line: RefCell<Line>,
    /// The engine that is being served has more than it got.
    has_more: Cell<bool>,
}

/// Connections that wait, in order, each once.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<u32>,
    /// By connection.
    wanted: Vec<Wanted>,
    /// By seat: whether it is in a queue.
    queued: Vec<bool>,
}

/// What is to be done for one.
#[derive(Debug, Default)]
struct Wanted {
    stands: bool,
    engine: bool,
    exchanges: VecDeque<u32>,
}

impl Line {
    fn add(&mut self, connection: u32, work: Work) {
        let wanted = at(&mut self.wanted, connection);
        match work {
            Work::Engine => wanted.engine = true,
            Work::Exchange(seat) if !std::mem::replace(at(&mut self.queued, seat), true) => {
                wanted.exchanges.push_back(seat);
            }
            Work::Exchange(_) => {}
        }
        if !std::mem::replace(&mut wanted.stands, true) {
            self.waiting.push_back(connection);
        }
    }

    /// What the first one wants next: first its exchanges, so that its engine sends together what they have said.
    fn take(&mut self) -> Option<(u32, Work)> {
        let connection = *self.waiting.front()?;
        let wanted = at(&mut self.wanted, connection);
        let work = match wanted.exchanges.pop_front() {
            Some(seat) => {
                *at(&mut self.queued, seat) = false;
                Work::Exchange(seat)
            }
            None => {
                wanted.engine = false;
                Work::Engine
            }
        };
        wanted.stands = wanted.engine || !wanted.exchanges.is_empty();
        if !wanted.stands {
            self.waiting.pop_front();
        }
        Some((connection, work))
    }
}

/// The place of a number in a table that grows as it has to.
fn at<T: Default>(table: &mut Vec<T>, number: u32) -> &mut T {
    let place = number as usize;
    if table.len() <= place {
        table.resize_with(place + 1, T::default);
    }
    &mut table[place]
}

impl Slices {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: Cell::new(now),
            spent: Cell::default(),
            left: Cell::new(QUANTUM),
            line: RefCell::default(),
            has_more: Cell::default(),
        }
    }

    /// A turn of the worker begins.
    pub(crate) fn begin_turn(&self) {
        self.began.set(Instant::now());
        self.spent.set(Duration::ZERO);
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.borrow().waiting.is_empty()
    }

    /// The engine being served has more than it gets at once.
    pub(crate) fn ask_for_more(&self) {
        self.has_more.set(true);
    }

    /// Stands in line, at its end.
    pub(crate) fn put_off(&self, connection: u32, work: Work) {
        self.line.borrow_mut().add(connection, work);
    }

    /// The next in line, while there is time.
    pub(crate) fn next(&self) -> Option<(u32, Work)> {
        if self.is_over() { None } else { self.line.borrow_mut().take() }
    }

    /// Serves one, and notes the time that it takes.
    pub(crate) fn serve(&self, connection: u32, serve: impl FnOnce()) {
        let begin = Instant::now();
        serve();
        let took = begin.elapsed();
        self.spent.set(self.spent.get() + took);
        let line = &mut *self.line.borrow_mut();
        if self.has_more.take() {
            line.add(connection, Work::Engine);
        }
        let left = self.left.get().saturating_sub(took);
        let is_first = line.waiting.front() == Some(&connection);
        if is_first && !left.is_zero() {
            self.left.set(left);
            return;
        }
        if is_first {
            line.waiting.rotate_left(1);
        }
        self.left.set(QUANTUM);
    }

    fn is_over(&self) -> bool {
        let spent = self.spent.get();
        spent >= SHARE && spent >= self.began.get().elapsed().saturating_sub(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::Work::{Engine, Exchange};
    use super::*;

    fn busy(time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    /// Serves all who wait, each for so long, and says in which order.
    fn serve(slices: &Slices, time: Duration) -> Vec<(u32, Work)> {
        let served = std::iter::from_fn(|| {
            let (connection, work) = slices.next()?;
            slices.serve(connection, || busy(time));
            Some((connection, work))
        });
        served.collect()
    }

    #[test]
    fn each_stands_in_line_once_and_who_has_more_stands_in_it_again() {
        let slices = Slices::new(Instant::now());
        slices.begin_turn();
        [3, 1, 3].into_iter().for_each(|connection| slices.put_off(connection, Engine));
        assert_eq!(slices.next(), Some((3, Engine)));
        slices.serve(3, || slices.ask_for_more());
        assert_eq!(
            [slices.next(), slices.next(), slices.next()],
            [Some((1, Engine)), Some((3, Engine)), None]
        );
        slices.serve(1, || {});
        assert!(slices.is_empty());
    }

    #[test]
    fn an_engine_comes_behind_its_exchanges() {
        let slices = Slices::new(Instant::now());
        slices.begin_turn();
        let wanted = [(1, Exchange(7)), (1, Engine), (1, Exchange(4)), (1, Exchange(7))];
        wanted.into_iter().for_each(|(connection, work)| slices.put_off(connection, work));
        assert_eq!(serve(&slices, Duration::ZERO), [(1, Exchange(7)), (1, Exchange(4)), (1, Engine)]);
    }

    #[test]
    fn one_with_much_to_do_lets_another_go_first() {
        let slices = Slices::new(Instant::now());
        slices.begin_turn();
        (0..3).for_each(|seat| slices.put_off(1, Exchange(seat)));
        slices.put_off(2, Exchange(9));
        let served = serve(&slices, QUANTUM);
        assert_eq!(served[..3], [(1, Exchange(0)), (2, Exchange(9)), (1, Exchange(1))]);
    }

    #[test]
    fn they_get_their_share_or_as_much_as_all_others() {
        let slices = Slices::new(Instant::now());
        slices.begin_turn();
        [1, 2, 3].into_iter().for_each(|connection| slices.put_off(connection, Engine));
        assert_eq!(slices.next(), Some((1, Engine)));
        slices.serve(1, || busy(SHARE));
        assert_eq!(slices.next(), None);
        busy(SHARE * 2);
        assert_eq!(slices.next(), Some((2, Engine)), "the others have had more");
        slices.serve(2, || busy(SHARE * 20));
        assert_eq!(slices.next(), None);
        slices.begin_turn();
        assert_eq!(slices.next(), Some((3, Engine)));
    }
}
