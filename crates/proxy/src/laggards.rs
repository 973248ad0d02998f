//! Clients for which exchanges wait, and who of them makes room when every place is taken.
//!
//! Who sends a head or a body, or takes a response, byte by byte holds a place for as long as its
//! deadlines allow. That is fine while there are places. When there are none, the slowest of them
//! is called off for each new connection, so that an attacker with any number of slow
//! connections keeps nobody out. Endpoints that are slow cost no client its place.

use crate::exchange::{Client, Exchange};
use crate::owner::Target;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use thalweg_net::SocketId;

/// A client is not called off before it has kept an exchange waiting for so long.
const PATIENCE: Duration = Duration::from_millis(250);
/// Nor while it moves more bytes per second than this.
const BRISK: u64 = 1024;
/// Clients looked at for one that is called off.
const LOOKED_AT: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Laggard {
    socket: SocketId,
    /// The position of its listener in the plan.
    listener: u16,
    since: Instant,
    /// Bytes that it had moved then, and has moved now.
    bytes: (u64, u64),
}

impl Laggard {
    /// Bytes per second since the exchange waits for it; `None`: it is not to be called off.
    fn pace(&self, now: Instant) -> Option<u64> {
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
}

impl Laggards {
    fn note(&self, seat: u32, (socket, listener): (SocketId, u16), now: Instant, bytes: u64) {
        let mut seats = self.seats.borrow_mut();
        let index = seat as usize;
        if seats.len() <= index {
            seats.resize(index + 1, None);
        }
        match &mut seats[index] {
            Some(laggard) => laggard.bytes.1 = bytes.max(laggard.bytes.0),
            none => *none = Some(Laggard { socket, listener, since: now, bytes: (bytes, bytes) }),
        }
    }

    /// The exchange at this seat does not wait for its client any more, or is over.
    pub(crate) fn forget(&self, seat: u32) {
        if let Some(place) = self.seats.borrow_mut().get_mut(seat as usize) {
            *place = None;
        }
    }

    /// Takes the slowest of the next few out, of one listener or of all, if one may be called off.
    fn slowest(&self, now: Instant, of: Option<u16>) -> Option<(u32, Laggard)> {
        let mut seats = self.seats.borrow_mut();
        let (count, hand) = (seats.len(), self.hand.get());
        let places = (0..count).map(|step| (hand + step) % count);
        let noted = places.filter_map(|at| seats[at].map(|laggard| (laggard, at)));
        let noted = noted.filter(|(laggard, _)| of.is_none_or(|of| laggard.listener == of));
        let noted = noted.filter_map(|(laggard, at)| Some((laggard.pace(now)?, at)));
        let (_, at) = noted.take(LOOKED_AT).min()?;
        self.hand.set(at + 1);
        Some((at as u32, seats[at].take()?))
    }

    /// Seats to be polled because their clients have been called off.
    pub(crate) fn take_called_off(&self) -> Vec<u32> {
        self.called_off.take()
    }
}

impl Worker {
    /// The exchange waits for its client, which has moved so many bytes by now.
    pub(crate) fn note_lag(&self, client: &Client, x: &mut Exchange, bytes: u64) {
        if let Target::Seat(seat) = Target::from(x.owner) {
            x.lags = true;
            let who = (client.socket.id(), client.listener);
            self.laggards.note(seat, who, self.reactor.now(), bytes);
        }
    }

    /// The exchange does not wait for its client.
    pub(crate) fn forget_lag(&self, x: &mut Exchange) {
        if let (true, Target::Seat(seat)) = (std::mem::take(&mut x.lags), Target::from(x.owner)) {
            self.laggards.forget(seat);
        }
    }

    /// Lets the slowest client make room, of one listener or of all, by the end of this turn; says
    /// whether there was one.
    pub(crate) fn call_off_laggard(&self, of: Option<u16>) -> bool {
        let Some((seat, laggard)) = self.laggards.slowest(self.reactor.now(), of) else { return false };
        self.reactor.expire_now(laggard.socket);
        self.laggards.called_off.borrow_mut().push(seat);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_goes_first_and_who_is_brisk_or_new_stays() {
        let (laggards, start) = (Laggards::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let (socket, other) = ((SocketId::default(), 0), (SocketId::default(), 1));
        for (seat, moved) in [(0, 100), (1, 50), (2, 5000), (5, 70)] {
            laggards.note(seat, socket, start, 10);
            laggards.note(seat, socket, at(900), 10 + moved);
        }
        laggards.note(6, socket, at(900), 0);
        let slowest = |ms| laggards.slowest(at(ms), None).map(|(seat, _)| seat);
        assert_eq!(slowest(100), None, "nobody has had its time");
        laggards.note(7, other, start, 0);
        assert_eq!(laggards.slowest(at(1000), Some(1)).map(|(seat, _)| seat), Some(7), "of its listener");
        assert!(laggards.slowest(at(1000), Some(1)).is_none());
        assert_eq!([slowest(1000), slowest(1000), slowest(1000)], [Some(1), Some(5), Some(0)]);
        assert_eq!(slowest(1000), None, "one is brisk, one is new");
        laggards.forget(2);
        assert_eq!([slowest(1150), slowest(9000)], [Some(6), None]);
    }
}
