//! Clients for which exchanges wait, and who of them makes room when every place is taken.
//!
//! Who sends a head or a body, or takes a response, byte by byte holds a place for as long as its
//! deadlines allow. That is fine while there are places. When there are none, the slowest of them
//! is called off for each new connection, so that an attacker with any number of slow
//! connections keeps nobody out. Endpoints that are slow cost no client its place.
//!
//! Where laggards are a crowd, what happens on their connections waits in a queue of its own, of which a few are
//! served per turn: thousands of them that can go on at once would otherwise all stand in front of a small request.

use crate::exchange::{Client, Exchange};
use crate::listeners::ListenerId;
use crate::owner::Target;
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

/// The laggards of a worker, by their seats.
#[derive(Debug, Default)]
pub(crate) struct Laggards {
    seats: RefCell<Vec<Option<Laggard>>>,
    /// Where the next look begins.
    hand: Cell<usize>,
    /// Seats whose clients have been called off and that have not been polled since.
    called_off: RefCell<Vec<u32>>,
    /// Seats on whose connections something has happened, in that order.
    queue: RefCell<VecDeque<u32>>,
}

impl Laggards {
    fn note(&self, seat: u32, (socket, listener): (SocketId, ListenerId), now: Instant, bytes: u64) {
        let mut seats = self.seats.borrow_mut();
        let index = seat as usize;
        if seats.len() <= index {
            seats.resize(index + 1, None);
        }
        match &mut seats[index] {
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

    /// The exchange at this seat does not wait for its client any more, or is over.
    pub(crate) fn forget(&self, seat: u32) {
        if let Some(place) = self.seats.borrow_mut().get_mut(seat as usize) {
            *place = None;
        }
    }

    /// Where the slowest of the next few sits, of one listener or of all, if one may be called off.
    fn find_slowest(&self, now: Instant, of: Option<ListenerId>) -> Option<usize> {
        let seats = self.seats.borrow();
        let (count, hand) = (seats.len(), self.hand.get());
        let places = (0..count).map(|step| (hand + step) % count);
        let noted = places.filter_map(|at| seats[at].map(|laggard| (laggard, at)));
        let noted = noted.filter(|(laggard, _)| of.is_none_or(|of| laggard.listener == of));
        let noted = noted.filter_map(|(laggard, at)| Some((laggard.pace(now)?, at)));
        noted.take(LOOKED_AT).min().map(|(_, at)| at)
    }

    fn knows(&self, seat: u32) -> bool {
        matches!(self.seats.borrow().get(seat as usize), Some(Some(_)))
    }

    /// Takes it out.
    fn take_slowest(&self, now: Instant, of: Option<ListenerId>) -> Option<(u32, Laggard)> {
        let at = self.find_slowest(now, of)?;
        self.hand.set(at + 1);
        Some((at as u32, self.seats.borrow_mut()[at].take()?))
    }

    /// Lets a laggard wait for its turn; whether the one at this seat is a laggard.
    pub(crate) fn put_off(&self, seat: u32) -> bool {
        let mut seats = self.seats.borrow_mut();
        let Some(Some(laggard)) = seats.get_mut(seat as usize) else { return false };
        if !std::mem::replace(&mut laggard.queued, true) {
            self.queue.borrow_mut().push_back(seat);
        }
        true
    }

    /// The next one whose turn it is. Its exchange may have ended meanwhile.
    pub(crate) fn next_in_queue(&self) -> Option<u32> {
        let seat = self.queue.borrow_mut().pop_front()?;
        if let Some(Some(laggard)) = self.seats.borrow_mut().get_mut(seat as usize) {
            laggard.queued = false;
        }
        Some(seat)
    }

    /// Whether somebody waits for a turn.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    /// Seats to be polled because their clients have been called off.
    pub(crate) fn take_called_off(&self) -> Vec<u32> {
        self.called_off.take()
    }
}

impl Worker {
    /// The exchange waits for its client, which has moved so many bytes by now.
    pub(crate) fn note_lag(&self, client: &Client, x: &mut Exchange, bytes: u64) {
        // Calling off a stream makes no room: its connection has the place.
        if let (Target::Seat(seat), None) = (Target::from(x.owner), client.socket.substream()) {
            x.lags = true;
            let who = (client.socket.id(), client.door().state.id);
            self.laggards.note(seat, who, self.reactor.now(), bytes);
        }
    }

    /// The exchange does not wait for its client.
    pub(crate) fn forget_lag(&self, x: &mut Exchange) {
        if let (true, Target::Seat(seat)) = (std::mem::take(&mut x.lags), Target::from(x.owner)) {
            self.laggards.forget(seat);
        }
    }

    /// Whether a client can be called off, of one listener or of all.
    pub(crate) fn has_laggard(&self, of: Option<ListenerId>) -> bool {
        self.laggards.find_slowest(self.reactor.now(), of).is_some()
    }

    /// Lets the slowest client make room, of one listener or of all: its exchange ends in this turn.
    pub(crate) fn call_off_laggard(&self, of: Option<ListenerId>) {
        if let Some((seat, laggard)) = self.laggards.take_slowest(self.reactor.now(), of) {
            self.reactor.expire_now(laggard.socket);
            self.laggards.called_off.borrow_mut().push(seat);
        }
    }

    /// Whether the client of the exchange has been called off, so that others have its place.
    pub(crate) fn is_called_off(&self, x: &Exchange) -> bool {
        matches!(Target::from(x.owner), Target::Seat(seat) if x.lags && !self.laggards.knows(seat))
    }

    /// Whether others need the place of this client soon.
    pub(crate) fn is_short_of_places(&self, client: &Client) -> bool {
        let loads = &self.shared.loads;
        loads.workers[self.id].clients.load(Relaxed) >= loads.places.load(Relaxed)
            || client.door().is_crowded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_goes_first_and_who_is_brisk_or_new_stays() {
        let (laggards, start) = (Laggards::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let (socket, other) = ((SocketId::default(), ListenerId(0)), (SocketId::default(), ListenerId(1)));
        for (seat, moved) in [(0, 100), (1, 50), (2, 5000), (5, 70)] {
            laggards.note(seat, socket, start, 10);
            laggards.note(seat, socket, at(900), 10 + moved);
        }
        laggards.note(6, socket, at(900), 0);
        let slowest = |ms| laggards.take_slowest(at(ms), None).map(|(seat, _)| seat);
        assert_eq!(slowest(100), None, "nobody has had its time");
        laggards.note(7, other, start, 0);
        assert_eq!(
            laggards.take_slowest(at(1000), Some(ListenerId(1))).map(|(seat, _)| seat),
            Some(7),
            "of its listener"
        );
        assert!(laggards.take_slowest(at(1000), Some(ListenerId(1))).is_none());
        assert_eq!([slowest(1000), slowest(1000), slowest(1000)], [Some(1), Some(5), Some(0)]);
        assert_eq!(slowest(1000), None, "one is brisk, one is new");
        laggards.forget(2);
        assert_eq!([slowest(1150), slowest(9000)], [Some(6), None]);
    }

    #[test]
    fn a_laggard_stands_in_the_queue_once_and_again_after_its_turn() {
        let (laggards, now) = (Laggards::default(), Instant::now());
        [3, 1].into_iter().for_each(|seat| laggards.note(seat, (SocketId::default(), ListenerId(0)), now, 0));
        assert!(!laggards.put_off(2) && !laggards.put_off(9) && !laggards.has_queue(), "no laggards");
        assert!([3, 1, 3].into_iter().all(|seat| laggards.put_off(seat)));
        assert_eq!(laggards.next_in_queue(), Some(3));
        assert!(laggards.put_off(3));
        laggards.forget(1);
        let rest: Vec<_> = std::iter::from_fn(|| laggards.next_in_queue()).collect();
        assert_eq!(rest, [1, 3], "whose exchange waits no more still gets its turn");
    }

    #[test]
    fn what_was_moved_long_ago_buys_no_time() {
        let (laggards, start) = (Laggards::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let who = (SocketId::default(), ListenerId(0));
        laggards.note(0, who, start, 0);
        laggards.note(0, who, at(100), 1 << 30);
        assert!(laggards.find_slowest(at(2000), None).is_none(), "it was brisk just now");
        assert!(laggards.find_slowest(at(2100), None).is_some(), "and has not been heard of since");
        laggards.note(0, who, at(2200), (1 << 30) + 1);
        assert!(laggards.find_slowest(at(2300), None).is_none(), "a new window");
        assert!(laggards.find_slowest(at(2500), None).is_some(), "in which it moved next to nothing");
    }
}
