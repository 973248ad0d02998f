//! After a 101: bytes go both ways, as they come, until both sides have ended.
//!
//! A tunnel may be silent for hours, and there may be many. So it leaves the task in which its exchange
//! began and keeps, in one block of memory, only what it needs to the end (`l4/tunnels.rs`).

use crate::exchange::outcome::Switched;
use crate::exchange::outcome::broken;
use crate::exchange::permits::Permits;
use crate::exchange::record::{count_bytes, record};
use crate::exchange::upstream::connect::Upstream;
use crate::relay::{Ends, IoScratch, RelayError, RelayProgress, ReplayBuffer};
use crate::state::admission::Underway;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::task::Poll;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_http::Framing;
use thalweg_net::Owner;
use thalweg_net::connect::PeerAddress;

/// A switched connection.
#[derive(Debug)]
pub(crate) struct Tunnel {
    client: Client,
    x: Exchange,
    upstream: Upstream,
    up_open: bool,
    down_open: bool,
    /// What neither side had acknowledged when the deadline passed; more than there can be since something moved.
    left: u32,
    /// Counted until the end.
    _places: Permits,
    _underway: Underway,
}

const _: () =
    assert!(size_of::<Tunnel>() < 1536, "the next size class of the allocator costs 256 bytes a tunnel");

/// Why a tunnel has ended before both sides had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cut {
    /// Nothing was moved for as long as the route allows: nobody's fault.
    Idle,
    /// Something went wrong.
    Fault(Fault),
}

impl From<Fault> for Cut {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// How far a tunnel has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Moved {
    /// As far as both sides let it.
    All,
    /// Its share of the turn is used up; it goes on in the next.
    Share,
}

impl Tunnel {
    /// Takes over from the exchange, whose task is free after this. What the client sent right behind its
    /// request goes first; the 101 and what came behind it wait in the downward flow.
    pub(crate) fn new(client: Client, x: &mut Exchange, switched: Switched, owner: Owner) -> Box<Self> {
        let Switched { upstream, places, underway, preface } = switched;
        let early = x.received.split_off(x.consumed);
        let mut x = x.leave_task(owner);
        x.keep_alive = false;
        x.ends_at = None;
        // `check_switch` has seen to it: bytes of the request that a layer has sealed and not sent would count as the
        // tunnel's.
        debug_assert!(x.is_connection || x.upward.is_done(), "the request has been sent");
        x.upward.reset();
        x.upward.start(Framing::UntilClose, Side::Downstream, false).extend_from_slice(&preface);
        x.upward.begin_with(&early);
        x.downward.start(Framing::UntilClose, Side::Upstream, false);
        x.downward.stays_framed(&client.socket);
        // A layer says its end in bytes of its own.
        let is_tcp = matches!(upstream.attempt_guard.address(), PeerAddress::Tcp(_));
        if !client.listener().is_unix() && upstream.connection.socket.is_plain() {
            x.upward.joins_end();
        }
        if is_tcp && client.socket.is_plain() {
            x.downward.joins_end();
        }
        // Many close the connection and say no more: what is said in a tunnel knows its own end.
        for socket in [&client.socket, &upstream.connection.socket] {
            socket.set_owner(owner);
            socket.believe_any_end();
        }
        client.socket.set_deadline(Some(idle(&x)));
        let (up_open, down_open) = (true, true);
        let (_places, _underway) = (places, underway);
        Box::new(Self { client, x, upstream, up_open, down_open, left: u32::MAX, _places, _underway })
    }

    /// Whose it is, and the exchange that it goes on with.
    pub(crate) fn parts(&self) -> (&Client, &Exchange) {
        (&self.client, &self.x)
    }

    /// Moves what can be moved; `Ready` when the tunnel has ended. Cancel-safe.
    pub(crate) fn poll(&mut self, worker: &Worker) -> Poll<Result<(), Cut>> {
        match self.pump(worker) {
            Ok(_) if !self.up_open && !self.down_open => Poll::Ready(Ok(())),
            Ok(Moved::All) => Poll::Pending,
            Ok(Moved::Share) => {
                worker.tunnels.go_on(self.x.owner);
                Poll::Pending
            }
            Err(cut) => Poll::Ready(Err(cut)),
        }
    }

    fn pump(&mut self, worker: &Worker) -> Result<Moved, Cut> {
        if self.upstream.attempt_guard.standing.is_cut() {
            let detail = "the endpoint was removed and its drain time is over";
            return Err(Fault::new(FaultKind::ConnectionTerminated, detail).into());
        }
        if self.client.socket.expired() && !self.goes_on() {
            return Err(Cut::Idle);
        }
        let mut directions = u8::from(self.up_open) + u8::from(self.down_open);
        let Self { client, x, upstream, .. } = self;
        let (down, up) = (&client.socket, &upstream.connection.socket);
        let (mut moved, mut come) = (false, Moved::All);
        let mut none = Vec::new();
        let mut scratch = worker.scratch.borrow_mut();
        let mut means = IoScratch::of(&mut scratch, &worker.chunks);
        for (flow, ends, open) in [
            (&mut x.upward, Ends { from: down, to: up }, &mut self.up_open),
            (&mut x.downward, Ends { from: up, to: down }, &mut self.down_open),
        ] {
            if !*open {
                continue;
            }
            match flow.poll_pump(&ends, &mut means, ReplayBuffer::Surplus(&mut none), &mut moved) {
                Poll::Pending => {}
                Poll::Ready(Ok(RelayProgress::Share)) => come = Moved::Share,
                Poll::Ready(Ok(RelayProgress::All)) => {
                    *open = false;
                    directions -= 1;
                    // Where this was the last one, both are closed now, which says the same.
                    if directions > 0 || !ends.to.is_plain() {
                        ends.to.shutdown_write();
                    }
                }
                Poll::Ready(Err(broken)) => return Err(fault_of(broken).into()),
            }
            if moved {
                // Silence may be long: nothing is kept for what comes after it.
                flow.release_buffers(&worker.warm.buffers);
            }
        }
        // Who is not read any more has no other way to tell that it is gone.
        match (self.up_open, self.down_open) {
            (false, true) if down.is_gone() => return Err(fault_of(RelayError::SenderGone).into()),
            // It has said its last word, and wants to hear no other: servers of HTTP/2 end streams so.
            (true, false) if up.is_gone() => self.up_open = false,
            _ => {}
        }
        if moved {
            client.socket.set_deadline(Some(idle(x)));
            self.left = u32::MAX;
            count_bytes(worker, x);
        }
        Ok(come)
    }

    /// Nothing has been moved for too long. A side that reads what the kernel holds for it gets another deadline.
    fn goes_on(&mut self) -> bool {
        let left = self.client.socket.unacknowledged() + self.upstream.connection.socket.unacknowledged();
        // Socket buffers hold less than 4 GiB.
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let goes_on = left > 0 && left < self.left;
        if goes_on {
            self.left = left;
            self.client.socket.set_deadline(Some(idle(&self.x)));
        }
        goes_on
    }

    /// Records the exchange and closes both connections.
    pub(crate) fn end(mut self, worker: &Worker, outcome: Result<(), Cut>) {
        if let Err(cut) = outcome {
            // Where only the end says that all has come, an end would say so.
            if self.x.is_connection && self.up_open {
                self.upstream.connection.socket.reset_on_close();
            }
            // What is on its way to a client who has been told of the end is not taken back.
            match cut {
                Cut::Idle => {
                    self.x.ended_idle = true;
                    if self.down_open {
                        self.client.socket.reset_on_close();
                    }
                }
                Cut::Fault(fault) if self.down_open => broken(worker, &self.client, &mut self.x, fault),
                Cut::Fault(fault) => self.x.fault = Some(fault),
            }
        }
        record(worker, &self.client, &mut self.x);
    }
}

/// The longest silence that the route allows.
fn idle(x: &Exchange) -> Duration {
    x.timeouts().idle
}

fn fault_of(broken: RelayError) -> Fault {
    match broken {
        RelayError::Sender(fault) => fault,
        RelayError::SenderGone | RelayError::ReceiverGone => {
            Fault::new(FaultKind::ConnectionTerminated, "one side of the tunnel was reset")
        }
    }
}
