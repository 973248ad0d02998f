//! How fast the client of a response takes it: who reads next to nothing is refused, and who is slow is known.

use crate::buffers::chunk_queue::{Counted, Unsent};
use crate::exchange::record::count_bytes;
use crate::overload::min_rate::RateMonitor;
use crate::relay::inner;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind};

/// For so long, slow readers of what is fetched for the cache hold up others; a part of the time after which those who
/// get nothing are given up, where that is less.
const HELD_UP: Duration = Duration::from_secs(5);
const HELD_UP_PART: u32 = 4;

/// Tells the kernel to hold no more for the client than it should now, when that is less than it has been told.
pub(crate) fn narrow(worker: &Worker, client: &Client, told: &mut Unsent) {
    let unsent = worker.chunks.unsent();
    if unsent > *told {
        *told = unsent;
        match unsent {
            Unsent::Any => {}
            Unsent::Some => client.socket.hold_some_unsent(),
            Unsent::Little => client.socket.hold_little_unsent(),
        }
    }
}

/// Says what time it is to bodies that are throttled, before they move.
#[inline]
pub(crate) fn tick(worker: &Worker, x: &mut Exchange) {
    x.upward.tick(worker.reactor.now());
    x.downward.tick(worker.reactor.now());
}

/// What is watched while a response takes more than one turn.
#[derive(Default)]
pub(crate) struct Pace {
    /// Of the client, with what it sends and takes.
    rate: Option<RateMonitor>,
    /// Counted from the second turn on.
    under_way: Option<Counted>,
    /// Counted while the client keeps bytes waiting.
    slow: Option<Counted>,
    /// What the kernel has been told to hold for the client.
    unsent: Unsent,
    /// The deadline that runs is the one at which a throttled body goes on.
    is_throttled: bool,
}

impl Pace {
    /// Whether it has been watched before.
    pub(crate) fn has_begun(&self) -> bool {
        self.rate.is_some()
    }

    /// Moves the deadline on, and refuses a client that keeps the exchange alive with next to nothing.
    pub(crate) fn keep(&mut self, worker: &Worker, client: &Client, x: &mut Exchange) -> Result<(), Fault> {
        let (now, least) = (worker.reactor.now(), x.rate());
        // Bytes that move put the deadline off that would tell.
        let overdue = if x.downward.is_stalled() { x.overdue_by_client(now) } else { x.overdue(now) };
        if let Some(fault) = overdue {
            return Err(fault);
        }
        let pace = self.rate.get_or_insert_with(|| RateMonitor::new(now));
        if is_held_up(x) {
            // Each of those who read has a pace of its own.
            pace.restart();
        } else if x.downward.is_stalled() {
            if pace.is_too_slow(now, moved(client, x), least) {
                return Err(Fault::new(FaultKind::ClientTimeout, "the client reads too slowly"));
            }
            // What its receive buffer takes at first is no reason to spare it when places run out.
            let handed = x.downward.bytes() + x.upward.body();
            worker.mark_slow(client, x, handed);
            self.slow.get_or_insert_with(|| worker.chunks.count_slow());
        } else {
            // The endpoint has sent no more: an event stream may be as slow as it likes.
            pace.restart();
            worker.clear_slow(x);
            self.slow = None;
        }
        self.under_way.get_or_insert_with(|| worker.chunks.count_under_way());
        narrow(worker, client, &mut self.unsent);
        self.is_throttled = false;
        let after = if is_held_up(x) { HELD_UP.min(least.window / HELD_UP_PART) } else { least.window };
        x.set_deadline(client, now, after);
        count_bytes(worker, x);
        Ok(())
    }

    /// A body that is throttled goes on in time. Neither side is waited for until then.
    #[inline]
    pub(crate) fn hold_back(&mut self, worker: &Worker, client: &Client, x: &mut Exchange) {
        let after = match (x.upward.paused_by_pace(), x.downward.paused_by_pace()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (only, None) | (None, only) => only,
        };
        let Some(after) = after else { return };
        if let Some(rate) = &mut self.rate {
            rate.restart();
        }
        worker.clear_slow(x);
        (self.slow, self.is_throttled) = (None, true);
        x.set_exact_deadline(client, worker.reactor.now(), after);
    }

    /// The deadline has passed. A client that reads what the kernel holds for it gets another, and so do both sides
    /// when a throttled body goes on.
    pub(crate) fn expire(&mut self, worker: &Worker, client: &Client, x: &Exchange) -> Result<(), Fault> {
        let (now, least) = (worker.reactor.now(), x.rate());
        if let Some(fault) = x.overdue(now) {
            return Err(fault);
        }
        if std::mem::take(&mut self.is_throttled) {
            x.set_deadline(client, now, least.window);
            return Ok(());
        }
        if is_held_up(x) {
            if let Some(inner) = inner(&client.socket) {
                inner.let_go();
            }
            x.set_deadline(client, now, HELD_UP.min(least.window / HELD_UP_PART));
            return Ok(());
        }
        let pace = self.rate.as_mut().filter(|_| x.downward.is_stalled() && !worker.is_shed(x));
        if pace.is_some_and(|pace| pace.goes_on(now, moved(client, x), least)) {
            x.set_deadline(client, now, least.window);
            return Ok(());
        }
        Err(late(x))
    }
}

/// Whether those who read what is fetched for the cache are behind. Who leaves, or is too slow for its own exchange,
/// holds up nobody any more.
fn is_held_up(x: &Exchange) -> bool {
    x.is_fill && x.downward.is_stalled()
}

/// What the client has done for the exchange: bytes that it has acknowledged, and sent.
pub(crate) fn moved(client: &Client, x: &Exchange) -> i64 {
    x.downward.acknowledged(&client.socket) + x.upward.body().cast_signed()
}

fn late(x: &Exchange) -> Fault {
    if x.downward.is_stalled() {
        Fault::new(FaultKind::ClientTimeout, "the client stopped reading the response")
    } else {
        Fault::new(FaultKind::ConnectionReadTimeout, "the endpoint stopped sending inside its response")
    }
}
