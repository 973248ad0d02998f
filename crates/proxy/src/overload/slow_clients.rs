//! Clients for which exchanges wait, and who of them makes room when every place is taken.
//!
//! Who sends a head or a body, or takes a response, byte by byte holds a place for as long as its
//! deadlines allow. That is fine while there are places. When there are none, the slowest of them
//! is called off for each new connection, so that an attacker with any number of slow
//! connections keeps nobody out. Endpoints that are slow cost no client its place.
//!
//! Where slow clients are a crowd, what happens on their connections waits in a queue of its own, of which a few are
//! served per turn: thousands of them that can go on at once would otherwise all stand in front of a small request.

use crate::listener::sockets::ListenerId;
use crate::state::exchange::{Client, Exchange};
use crate::state::token::Token;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use thalweg_net::SocketId;

/// A client is not called off before it has kept an exchange waiting for so long.
const PATIENCE: Duration = Duration::from_millis(250);
/// Nor while it moves more bytes per second than this.
const BRISK: u64 = 1024;
/// The pace is that of a window of this length, so that nobody lives on what it did long ago; who has
/// not been heard of for as long moves nothing.
const WINDOW: Duration = Duration::from_secs(2);
/// Clients looked at for one that is called off.
const LOOKED_AT: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Laggard {
    socket: SocketId,
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

impl Laggard {
    /// Bytes per second since the exchange waits for it; `None`: it is not to be called off.
    fn pace(&self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.last) >= WINDOW {
            return Some(0);
        }
        let waited = now.saturating_duration_since(self.since);
        let pace = (self.bytes.1 - self.bytes.0).saturating_mul(1000) / (waited.as_millis() as u64).max(1);
        (waited >= PATIENCE && pace < BRISK).then_some(pace)
    }
}

/// The slow clients of a worker, by their tasks.
#[derive(Debug, Default)]
pub(crate) struct SlowClients {
    tasks: RefCell<Vec<Option<Laggard>>>,
    /// Where the next look begins.
    hand: Cell<usize>,
    /// TaskPool whose clients have been called off and that have not been polled since.
    called_off: RefCell<Vec<u32>>,
    /// TaskPool on whose connections something has happened, in that order.
    queue: RefCell<VecDeque<u32>>,
}

impl SlowClients {
    fn note(&self, task: u32, (socket, listener): (SocketId, ListenerId), now: Instant, bytes: u64) {
        let mut tasks = self.tasks.borrow_mut();
        let index = task as usize;
        if tasks.len() <= index {
            tasks.resize(index + 1, None);
        }
        match &mut tasks[index] {
            Some(laggard) => {
                laggard.last = now;
                laggard.bytes.1 = bytes.max(laggard.bytes.1);
                if now.saturating_duration_since(laggard.since) >= WINDOW {
                    (laggard.since, laggard.bytes.0) = (now, laggard.bytes.1);
                }
            }
            none => {
                let (since, last, bytes, queued) = (now, now, (bytes, bytes), false);
                *none = Some(Laggard { socket, listener, since, last, bytes, queued });
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
    fn find_slowest(&self, now: Instant, of: Option<ListenerId>) -> Option<usize> {
        let tasks = self.tasks.borrow();
        let (count, hand) = (tasks.len(), self.hand.get());
        let places = (0..count).map(|step| (hand + step) % count);
        let noted = places.filter_map(|at| tasks[at].map(|laggard| (laggard, at)));
        let noted = noted.filter(|(laggard, _)| of.is_none_or(|of| laggard.listener == of));
        let noted = noted.filter_map(|(laggard, at)| Some((laggard.pace(now)?, at)));
        noted.take(LOOKED_AT).min().map(|(_, at)| at)
    }

    fn knows(&self, task: u32) -> bool {
        matches!(self.tasks.borrow().get(task as usize), Some(Some(_)))
    }

    /// Takes it out.
    fn take_slowest(&self, now: Instant, of: Option<ListenerId>) -> Option<(u32, Laggard)> {
        let at = self.find_slowest(now, of)?;
        self.hand.set(at + 1);
        Some((at as u32, self.tasks.borrow_mut()[at].take()?))
    }

    /// Lets a slow clients wait for its turn; whether the one at this task is a slow clients.
    pub(crate) fn put_off(&self, task: u32) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        let Some(Some(laggard)) = tasks.get_mut(task as usize) else { return false };
        if !std::mem::replace(&mut laggard.queued, true) {
            self.queue.borrow_mut().push_back(task);
        }
        true
    }

    /// The next one whose turn it is. Its exchange may have ended meanwhile.
    pub(crate) fn next_in_queue(&self) -> Option<u32> {
        let task = self.queue.borrow_mut().pop_front()?;
        if let Some(Some(laggard)) = self.tasks.borrow_mut().get_mut(task as usize) {
            laggard.queued = false;
        }
        Some(task)
    }

    /// Whether somebody waits for a turn.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    /// TaskPool to be polled because their clients have been called off.
    pub(crate) fn take_shed(&self) -> Vec<u32> {
        self.called_off.take()
    }
}

impl Worker {
    /// The exchange waits for its client, which has moved so many bytes by now.
    pub(crate) fn mark_slow(&self, client: &Client, x: &mut Exchange, bytes: u64) {
        // Calling off a stream makes no room: its connection has the place.
        if let (Token::TaskSlot(task), None) = (Token::from(x.owner), client.socket.substream()) {
            x.is_slow = true;
            let who = (client.socket.id(), client.listener().state.id);
            self.slow_clients.note(task, who, self.reactor.now(), bytes);
        }
    }

    /// The exchange does not wait for its client.
    pub(crate) fn clear_slow(&self, x: &mut Exchange) {
        if let (true, Token::TaskSlot(task)) = (std::mem::take(&mut x.is_slow), Token::from(x.owner)) {
            self.slow_clients.forget(task);
        }
    }

    /// Whether a client can be called off, of one listener or of all.
    pub(crate) fn has_slow(&self, of: Option<ListenerId>) -> bool {
        self.slow_clients.find_slowest(self.reactor.now(), of).is_some()
    }

    /// Lets the slowest client make room, of one listener or of all: its exchange ends in this turn.
    pub(crate) fn shed_slowest(&self, of: Option<ListenerId>) {
        if let Some((task, laggard)) = self.slow_clients.take_slowest(self.reactor.now(), of) {
            self.reactor.expire_now(laggard.socket);
            self.slow_clients.called_off.borrow_mut().push(task);
        }
    }

    /// Whether the client of the exchange has been called off, so that others have its place.
    pub(crate) fn is_shed(&self, x: &Exchange) -> bool {
        matches!(Token::from(x.owner), Token::TaskSlot(task) if x.is_slow && !self.slow_clients.knows(task))
    }

    /// Whether others need the place of this client soon.
    pub(crate) fn is_short_of_places(&self, client: &Client) -> bool {
        let loads = &self.shared.loads;
        loads.workers[self.id].clients.load(Relaxed) >= loads.places.load(Relaxed)
            || client.listener().is_crowded()
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
