//! After a 101: bytes go both ways, as they come, until both sides have ended.

use crate::connect::Upstream;
use crate::exchange::{Client, Exchange};
use crate::relay::{Broken, Ends, Keep, Means, Pumped};
use crate::serve::Served;
use crate::worker::Worker;
use std::future::poll_fn;
use std::task::Poll;
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_http::Framing;

/// Relays a switched connection. What the client sent right behind its request goes first.
pub(crate) async fn tunnel(worker: &Worker, client: &Client, x: &mut Exchange, upstream: Upstream) -> Served {
    x.keep_alive = false;
    x.ends_at = None;
    let early = x.received.split_off(x.consumed);
    x.upward.reset();
    x.upward.start(Framing::UntilClose, Side::Downstream, false).extend_from_slice(&early);
    // The 101 and what came behind it wait in the downward buffer.
    x.downward.start(Framing::UntilClose, Side::Upstream, false);
    let idle = x.route().map(|route| route.timeouts).unwrap_or_default().idle;
    let (mut up_open, mut down_open) = (true, true);
    let mut none = Vec::new();
    client.socket.set_deadline(Some(idle));
    let outcome = poll_fn(|context| {
        if client.socket.expired() {
            return Poll::Ready(Err(Fault::new(
                FaultKind::ConnectionReadTimeout,
                "the tunnel was idle for too long",
            )));
        }
        let (down, up) = (&client.socket, &upstream.connection.socket);
        let mut moved = false;
        let mut scratch = worker.scratch.borrow_mut();
        let mut means = Means::of(&mut scratch, &worker.chunks);
        for (flow, ends, open) in [
            (&mut x.upward, Ends { from: down, to: up }, &mut up_open),
            (&mut x.downward, Ends { from: up, to: down }, &mut down_open),
        ] {
            if !*open {
                continue;
            }
            match flow.poll_pump(&ends, &mut means, Keep::Surplus(&mut none), &mut moved) {
                Poll::Pending => {}
                Poll::Ready(Ok(Pumped::Share)) => context.waker().wake_by_ref(),
                Poll::Ready(Ok(Pumped::All)) => {
                    *open = false;
                    ends.to.shutdown_write();
                }
                Poll::Ready(Err(broken)) => return Poll::Ready(Err(fault_of(broken))),
            }
        }
        if moved {
            client.socket.set_deadline(Some(idle));
        }
        if !up_open && !down_open { Poll::Ready(Ok(())) } else { Poll::Pending }
    });
    match outcome.await {
        Ok(()) => Served::Whole,
        Err(fault) => Served::Broken(fault),
    }
}

fn fault_of(broken: Broken) -> Fault {
    match broken {
        Broken::Sender(fault) => fault,
        Broken::SenderGone | Broken::ReceiverGone => {
            Fault::new(FaultKind::ConnectionTerminated, "one side of the tunnel was reset")
        }
    }
}
