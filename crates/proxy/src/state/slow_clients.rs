//! Which clients keep their exchanges waiting, by task; `overload/slow_clients.rs` says who of them makes room.

use crate::state::listener_sockets::ListenerId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use thalweg_net::SocketId;

/// A client is not called off before it has kept an exchange waiting for so long.
const GRACE: Duration = Duration::from_millis(250);
/// Nor while it moves more bytes per second than this.
const MIN_RATE: u64 = 1024;
/// The pace is that of a window of this length, so that nobody lives on what it did long ago; who has
/// not been heard of for as long moves nothing.
const WINDOW: Duration = Duration::from_secs(2);
/// Clients looked at for one that is called off.
const LOOKED_AT: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowClient {
    pub(crate) socket: SocketId,
    listener: ListenerId,
    /// When its present window began.
    since: Instant,
    /// When it was heard of last.
    last: Instant,
    /// Bytes that it had moved when the window began, and has moved now.
    bytes: (u64, u64),
    /// It stands in the queue.
    queued: bool,
}

impl SlowClient {
    /// Bytes per second since the exchange waits for it; `None`: it is not to be called off.
    pub(crate) fn pace(&self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.last) >= WINDOW {
            return Some(0);
        }
        let waited = now.saturating_duration_since(self.since);
        let pace = (self.bytes.1 - self.bytes.0).saturating_mul(1000) / (waited.as_millis() as u64).max(1);
        (waited >= GRACE && pace < MIN_RATE).then_some(pace)
    }
}

/// The slow clients of a worker, by their tasks.
#[derive(Debug, Default)]
pub(crate) struct SlowClients {
    tasks: RefCell<Vec<Option<SlowClient>>>,
    /// Where the next look begins.
    hand: Cell<usize>,
    /// Tasks whose clients were shed and that were not polled since.
    pub(crate) called_off: RefCell<Vec<u32>>,
    /// Tasks whose connections have events, in that order.
    queue: RefCell<VecDeque<u32>>,
}

impl SlowClients {
    pub(crate) fn note(
        &self,
        task: u32,
        (socket, listener): (SocketId, ListenerId),
        now: Instant,
        bytes: u64,
    ) {
        let mut tasks = self.tasks.borrow_mut();
        let index = task as usize;
        if tasks.len() <= index {
            tasks.resize(index + 1, None);
        }
        match &mut tasks[index] {
            Some(slow) => {
                slow.last = now;
                slow.bytes.1 = bytes.max(slow.bytes.1);
                if now.saturating_duration_since(slow.since) >= WINDOW {
                    (slow.since, slow.bytes.0) = (now, slow.bytes.1);
                }
            }
            none => {
                let (since, last, bytes, queued) = (now, now, (bytes, bytes), false);
                *none = Some(SlowClient { socket, listener, since, last, bytes, queued });
            }
        }
    }

    /// The exchange at this task does not wait for its client any more, or is over.
    pub(crate) fn forget(&self, task: u32) {
        if let Some(place) = self.tasks.borrow_mut().get_mut(task as usize) {
            *place = None;
        }
    }

    /// Where the slowest of the next few sits, of one listener or of all, if one may be called off.
    pub(crate) fn find_slowest(&self, now: Instant, of: Option<ListenerId>) -> Option<usize> {
        let tasks = self.tasks.borrow();
        let (count, hand) = (tasks.len(), self.hand.get());
        let places = (0..count).map(|step| (hand + step) % count);
        let noted = places.filter_map(|at| tasks[at].map(|slow| (slow, at)));
        let noted = noted.filter(|(slow, _)| of.is_none_or(|of| slow.listener == of));
        let noted = noted.filter_map(|(slow, at)| Some((slow.pace(now)?, at)));
        noted.take(LOOKED_AT).min().map(|(_, at)| at)
    }

    pub(crate) fn knows(&self, task: u32) -> bool {
        matches!(self.tasks.borrow().get(task as usize), Some(Some(_)))
    }

    /// Takes it out.
    pub(crate) fn take_slowest(&self, now: Instant, of: Option<ListenerId>) -> Option<(u32, SlowClient)> {
        let at = self.find_slowest(now, of)?;
        self.hand.set(at + 1);
        Some((at as u32, self.tasks.borrow_mut()[at].take()?))
    }

    /// Queues the task if its client is slow; says whether it is.
    pub(crate) fn put_off(&self, task: u32) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        let Some(Some(slow)) = tasks.get_mut(task as usize) else { return false };
        if !std::mem::replace(&mut slow.queued, true) {
            self.queue.borrow_mut().push_back(task);
        }
        true
    }

    /// The next one whose turn it is. Its exchange may have ended meanwhile.
    pub(crate) fn next_in_queue(&self) -> Option<u32> {
        let task = self.queue.borrow_mut().pop_front()?;
        if let Some(Some(slow)) = self.tasks.borrow_mut().get_mut(task as usize) {
            slow.queued = false;
        }
        Some(task)
    }

    /// Whether somebody waits for a turn.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    /// Tasks to poll because their clients were shed.
    pub(crate) fn take_shed(&self) -> Vec<u32> {
        self.called_off.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_goes_first_and_who_is_brisk_or_new_stays() {
        let (slow_clients, start) = (SlowClients::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let (socket, other) = ((SocketId::default(), ListenerId(0)), (SocketId::default(), ListenerId(1)));
        for (task, moved) in [(0, 100), (1, 50), (2, 5000), (5, 70)] {
            slow_clients.note(task, socket, start, 10);
            slow_clients.note(task, socket, at(900), 10 + moved);
        }
        slow_clients.note(6, socket, at(900), 0);
        let slowest = |ms| slow_clients.take_slowest(at(ms), None).map(|(task, _)| task);
        assert_eq!(slowest(100), None, "nobody has had its time");
        slow_clients.note(7, other, start, 0);
        assert_eq!(
            slow_clients.take_slowest(at(1000), Some(ListenerId(1))).map(|(task, _)| task),
            Some(7),
            "of its listener"
        );
        assert!(slow_clients.take_slowest(at(1000), Some(ListenerId(1))).is_none());
        assert_eq!([slowest(1000), slowest(1000), slowest(1000)], [Some(1), Some(5), Some(0)]);
        assert_eq!(slowest(1000), None, "one is brisk, one is new");
        slow_clients.forget(2);
        assert_eq!([slowest(1150), slowest(9000)], [Some(6), None]);
    }

    #[test]
    fn a_laggard_stands_in_the_queue_once_and_again_after_its_turn() {
        let (slow_clients, now) = (SlowClients::default(), Instant::now());
        [3, 1]
            .into_iter()
            .for_each(|task| slow_clients.note(task, (SocketId::default(), ListenerId(0)), now, 0));
        assert!(
            !slow_clients.put_off(2) && !slow_clients.put_off(9) && !slow_clients.has_queue(),
            "no slow_clients"
        );
        assert!([3, 1, 3].into_iter().all(|task| slow_clients.put_off(task)));
        assert_eq!(slow_clients.next_in_queue(), Some(3));
        assert!(slow_clients.put_off(3));
        slow_clients.forget(1);
        let rest: Vec<_> = std::iter::from_fn(|| slow_clients.next_in_queue()).collect();
        assert_eq!(rest, [1, 3], "whose exchange waits no more still gets its turn");
    }

    #[test]
    fn what_was_moved_long_ago_buys_no_time() {
        let (slow_clients, start) = (SlowClients::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let who = (SocketId::default(), ListenerId(0));
        slow_clients.note(0, who, start, 0);
        slow_clients.note(0, who, at(100), 1 << 30);
        assert!(slow_clients.find_slowest(at(2000), None).is_none(), "it was brisk just now");
        assert!(slow_clients.find_slowest(at(2100), None).is_some(), "and has not been heard of since");
        slow_clients.note(0, who, at(2200), (1 << 30) + 1);
        assert!(slow_clients.find_slowest(at(2300), None).is_none(), "a new window");
        assert!(slow_clients.find_slowest(at(2500), None).is_some(), "in which it moved next to nothing");
    }
}
