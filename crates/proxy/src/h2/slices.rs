//! Connections of HTTP/2 take their turns: other exchanges of a worker do not wait for many heads, or for few that take long to
//! unpack.
//!
//! One that is served gets a few heads (`thalweg_http::h2::Meter::turn`), and stands in line again when it has more. All of them together
//! get [`SHARE`] of a turn, or as much as everything else in it took; who is not reached waits for the next. Only the last one
//! that is served in a turn may exceed that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time of a turn that is theirs, however little else there is.
const SHARE: Duration = Duration::from_micros(500);

/// The line of a worker, and what is left of the turn.
#[derive(Debug)]
pub(crate) struct Slices {
    /// When the turn began.
    began: Cell<Instant>,
    spent: Cell<Duration>,
    line: RefCell<Line>,
    /// The one that is being served has more than it got.
    has_more: Cell<bool>,
}

/// Those who wait, in order, each once.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<u32>,
    stands: Vec<bool>,
}

impl Slices {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: Cell::new(now),
            spent: Cell::default(),
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

    /// The one being served has more than it gets at once.
    pub(crate) fn ask_for_more(&self) {
        self.has_more.set(true);
    }

    /// Stands in line, at its end.
    pub(crate) fn put_off(&self, session: u32) {
        let line = &mut *self.line.borrow_mut();
        let place = session as usize;
        if line.stands.len() <= place {
            line.stands.resize(place + 1, false);
        }
        if !std::mem::replace(&mut line.stands[place], true) {
            line.waiting.push_back(session);
        }
    }

    /// The next in line, while there is time.
    pub(crate) fn next(&self) -> Option<u32> {
        if self.is_over() {
            return None;
        }
        let line = &mut *self.line.borrow_mut();
        let session = line.waiting.pop_front()?;
        line.stands[session as usize] = false;
        Some(session)
    }

    /// Serves one, and notes the time that it takes.
    pub(crate) fn serve(&self, session: u32, serve: impl FnOnce(u32)) {
        let begin = Instant::now();
        self.has_more.set(false);
        serve(session);
        self.spent.set(self.spent.get() + begin.elapsed());
        if self.has_more.take() {
            self.put_off(session);
        }
    }

    fn is_over(&self) -> bool {
        let spent = self.spent.get();
        spent >= SHARE && spent >= self.began.get().elapsed().saturating_sub(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn each_stands_in_line_once_and_who_has_more_stands_in_it_again() {
        let slices = Slices::new(Instant::now());
        slices.begin_turn();
        [3, 1, 3].into_iter().for_each(|session| slices.put_off(session));
        assert_eq!(slices.next(), Some(3));
        slices.serve(3, |_| slices.ask_for_more());
        assert_eq!([slices.next(), slices.next(), slices.next()], [Some(1), Some(3), None]);
        slices.serve(1, |_| {});
        assert!(slices.is_empty());
    }

    #[test]
    fn they_get_their_share_or_as_much_as_all_others() {
        let slices = Slices::new(Instant::now());
        slices.begin_turn();
        [1, 2, 3].into_iter().for_each(|session| slices.put_off(session));
        slices.serve(1, |_| busy(SHARE));
        assert_eq!(slices.next(), None);
        busy(SHARE * 2);
        assert_eq!(slices.next(), Some(1), "the others have had more");
        slices.serve(2, |_| busy(SHARE * 20));
        assert_eq!(slices.next(), None);
        slices.begin_turn();
        assert_eq!(slices.next(), Some(2));
    }
}
