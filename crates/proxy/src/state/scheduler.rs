//! Connections of HTTP/2 take their turns: other exchanges of a worker do not wait for many heads, for few that take
//! long to unpack, or for a hundred streams that end at one time.
//!
//! What is to be done for a connection is its engine's work and that of the exchanges on its streams, and it stands in
//! line with all of that once. The first in line is served for a [`QUANTUM`], and goes to the end when it has more;
//! what it does at once is small (`thalweg_http::h2::FloodGuard::turn`). All of them together get a share of a turn, or
//! as much as everything else in it took; who is not reached waits for the next. Only the last that is served in a turn
//! may exceed that. The share is [`AMONG_OTHERS`] where other exchanges have been served of late, which wait for the
//! end of a turn twice, and [`ALONE`] where there are none.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time of a turn that is theirs where there is nothing else.
const ALONE: Duration = Duration::from_micros(100);
/// The same, however little else there is.
const AMONG_OTHERS: Duration = Duration::from_micros(30);
/// Time for which others count that have been served.
const OF_LATE: Duration = Duration::from_millis(100);
/// Time after which another connection is served.
const QUANTUM: Duration = Duration::from_micros(50);

/// Quanta of a connection's exchanges after which its engine comes first: each time it runs its client is woken.
const PATIENCE: u8 = 8;

/// What is done at once for a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    /// An exchange on one of its streams, by its task.
    Exchange(u32),
    /// What its engine has to do.
    Engine,
}

/// The line of a worker, and what is left of the turn.
#[derive(Debug)]
pub(crate) struct Scheduler {
    /// When the turn began.
    began: Cell<Instant>,
    spent: Cell<Duration>,
    /// When others were served last, at the begin of a turn.
    others: Cell<Option<Instant>>,
    /// What the first in line has left of its quantum.
    left: Cell<Duration>,
    line: RefCell<WaitQueue>,
    /// The engine that is being served has more than it got.
    has_more: Cell<bool>,
}

/// Connections that wait, in order, each once.
#[derive(Debug, Default)]
struct WaitQueue {
    waiting: VecDeque<u32>,
    /// By connection.
    wanted: Vec<Wanted>,
    /// By task: whether it is in a queue.
    queued: Vec<bool>,
}

/// What is to be done for one.
#[derive(Debug, Default)]
struct Wanted {
    stands: bool,
    engine: bool,
    /// Quanta of its exchanges that its engine has waited for.
    waited: u8,
    exchanges: VecDeque<u32>,
}

impl WaitQueue {
    fn add(&mut self, connection: u32, work: Work) {
        let wanted = at(&mut self.wanted, connection);
        match work {
            Work::Engine => wanted.engine = true,
            Work::Exchange(task) if !std::mem::replace(at(&mut self.queued, task), true) => {
                wanted.exchanges.push_back(task);
            }
            Work::Exchange(_) => {}
        }
        if !std::mem::replace(&mut wanted.stands, true) {
            self.waiting.push_back(connection);
        }
    }

    /// What the first one wants next: first its exchanges, so that its engine sends together what they have said; but
    /// they come without end where many bodies trickle, and then the engine has its turn between them.
    fn take(&mut self) -> Option<(u32, Work)> {
        let connection = *self.waiting.front()?;
        let wanted = at(&mut self.wanted, connection);
        let next =
            if wanted.engine && wanted.waited >= PATIENCE { None } else { wanted.exchanges.pop_front() };
        let work = match next {
            Some(task) => {
                *at(&mut self.queued, task) = false;
                Work::Exchange(task)
            }
            None => {
                (wanted.engine, wanted.waited) = (false, 0);
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

impl Scheduler {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: Cell::new(now),
            spent: Cell::default(),
            others: Cell::default(),
            left: Cell::new(QUANTUM),
            line: RefCell::default(),
            has_more: Cell::default(),
        }
    }

    /// A turn of the worker begins.
    pub(crate) fn begin_turn(&self, now: Instant) {
        self.began.set(now);
        self.spent.set(Duration::ZERO);
    }

    /// An exchange is served that is on no stream.
    pub(crate) fn note_other(&self) {
        self.others.set(Some(self.began.get()));
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.borrow().waiting.is_empty()
    }

    /// Whether exchanges of a connection wait, which have something to say through it.
    pub(crate) fn has_exchanges(&self, connection: u32) -> bool {
        let line = self.line.borrow();
        line.wanted.get(connection as usize).is_some_and(|wanted| !wanted.exchanges.is_empty())
    }

    /// The engine being served has more than it gets at once.
    pub(crate) fn ask_for_more(&self) {
        self.has_more.set(true);
    }

    /// Stands in line, at its end.
    pub(crate) fn put_off(&self, connection: u32, work: Work) {
        self.line.borrow_mut().add(connection, work);
    }

    /// Serves who waits, while there is time by this clock.
    pub(crate) fn serve(&self, clock: impl Fn() -> Instant, mut serve: impl FnMut(u32, Work)) {
        if self.is_empty() {
            return;
        }
        let mut begin = clock();
        while !self.is_over(begin) {
            let Some((connection, work)) = self.line.borrow_mut().take() else { return };
            serve(connection, work);
            let now = clock();
            self.note((connection, work), now - begin);
            begin = now;
        }
    }

    /// What was done for a connection took so long.
    fn note(&self, (connection, work): (u32, Work), took: Duration) {
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
            if work != Work::Engine {
                let waited = &mut at(&mut line.wanted, connection).waited;
                *waited = waited.saturating_add(1);
            }
            line.waiting.rotate_left(1);
        }
        self.left.set(QUANTUM);
    }

    fn is_over(&self, now: Instant) -> bool {
        let (began, spent) = (self.began.get(), self.spent.get());
        let is_alone = self.others.get().is_none_or(|others| began - others >= OF_LATE);
        let share = if is_alone { ALONE } else { AMONG_OTHERS };
        spent >= share && spent >= (now - began).saturating_sub(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::Work::{Engine, Exchange};
    use super::*;

    /// Scheduler, and the clock that they go by.
    struct Scene {
        scheduler: Scheduler,
        now: Cell<Instant>,
    }

    impl Scene {
        fn new(wanted: &[(u32, Work)]) -> Self {
            let now = Instant::now();
            let scheduler = Scheduler::new(now);
            wanted.iter().for_each(|(connection, work)| scheduler.put_off(*connection, *work));
            Self { scheduler, now: Cell::new(now) }
        }

        fn pass(&self, time: Duration) {
            self.now.set(self.now.get() + time);
        }

        /// Serves, each for so long: who was served, in order.
        fn serve(&self, time: Duration) -> Vec<(u32, Work)> {
            let mut served = Vec::new();
            self.scheduler.serve(
                || self.now.get(),
                |connection, work| {
                    self.pass(time);
                    served.push((connection, work));
                },
            );
            served
        }

        /// The same in a turn that begins.
        fn turn(&self, time: Duration) -> Vec<(u32, Work)> {
            self.scheduler.begin_turn(self.now.get());
            self.serve(time)
        }
    }

    #[test]
    fn each_stands_in_line_once_and_who_has_more_stands_in_it_again() {
        let scene = Scene::new(&[(3, Engine), (1, Engine), (3, Engine)]);
        let mut served = Vec::new();
        scene.scheduler.serve(
            || scene.now.get(),
            |connection, _| {
                if served.is_empty() {
                    scene.scheduler.ask_for_more();
                }
                served.push(connection);
            },
        );
        assert_eq!(served, [3, 1, 3]);
        assert!(scene.scheduler.is_empty());
    }

    #[test]
    fn an_engine_comes_behind_its_exchanges() {
        let scene = Scene::new(&[(1, Exchange(7)), (1, Engine), (1, Exchange(4)), (1, Exchange(7))]);
        assert!(scene.scheduler.has_exchanges(1) && !scene.scheduler.has_exchanges(0));
        assert_eq!(scene.turn(Duration::ZERO), [(1, Exchange(7)), (1, Exchange(4)), (1, Engine)]);
        assert!(!scene.scheduler.has_exchanges(1));
    }

    #[test]
    fn one_with_much_to_do_lets_another_go_first() {
        let wanted = [(1, Exchange(0)), (1, Exchange(1)), (1, Exchange(2)), (2, Exchange(9))];
        let scene = Scene::new(&wanted);
        let order = [(1, Exchange(0)), (1, Exchange(1)), (2, Exchange(9)), (1, Exchange(2))];
        assert_eq!(scene.turn(QUANTUM / 2), order);
    }

    #[test]
    fn exchanges_without_end_let_their_engine_have_its_turn() {
        let exchanges = (0..12).map(|task| (1, Exchange(task)));
        let scene = Scene::new(&std::iter::once((1, Engine)).chain(exchanges).collect::<Vec<_>>());
        let served: Vec<_> = (0..6).flat_map(|_| scene.turn(QUANTUM)).collect();
        assert_eq!(served.iter().position(|(_, work)| *work == Engine), Some(8), "{served:?}");
    }

    #[test]
    fn an_engine_with_more_lets_its_exchanges_have_their_turn() {
        let scene = Scene::new(&[(1, Engine)]);
        let mut served = Vec::new();
        scene.scheduler.serve(
            || scene.now.get(),
            |_, work| {
                scene.pass(QUANTUM);
                if work == Engine {
                    scene.scheduler.ask_for_more();
                    scene.scheduler.put_off(1, Exchange(0));
                }
                served.push(work);
            },
        );
        assert_eq!(served, [Engine, Exchange(0)]);
    }

    #[test]
    fn they_get_their_share_or_as_much_as_all_others() {
        let scene = Scene::new(&[(1, Engine), (2, Engine), (3, Engine), (4, Engine)]);
        assert_eq!(scene.turn(ALONE), [(1, Engine)]);
        scene.pass(ALONE * 2);
        assert_eq!(scene.serve(ALONE * 20), [(2, Engine)], "the others have had more, and then they have");
        assert_eq!(scene.turn(Duration::ZERO), [(3, Engine), (4, Engine)]);
    }

    #[test]
    fn they_get_less_where_others_have_been_served_of_late() {
        let wanted = [(1, Engine), (2, Engine), (3, Engine), (4, Engine), (5, Engine)];
        let scene = Scene::new(&wanted);
        scene.scheduler.note_other();
        assert_eq!(scene.turn(AMONG_OTHERS), [(1, Engine)]);
        scene.pass(OF_LATE / 2);
        assert_eq!(scene.turn(AMONG_OTHERS), [(2, Engine)]);
        scene.pass(OF_LATE / 2);
        assert_eq!(scene.turn(ALONE / 2), [(3, Engine), (4, Engine)], "nobody else for a while");
    }
}
