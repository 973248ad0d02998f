//! Phase 5: the response goes to the client as it comes.

use crate::connect::{Upstream, put_back};
use crate::exchange::{Client, Exchange};
use crate::relay::{Broken, Ends, Pumped};
use crate::serve::Served;
use crate::worker::Worker;
use std::future::poll_fn;
use std::task::{Context, Poll};
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_http::h1::encode::{CHUNKED_FIELD, write_fields, write_status_line};
use thalweg_http::h1::framing::{response_framing, response_keeps_alive};
use thalweg_http::rules::strip_response;
use thalweg_http::{FieldId, Framing, Version};

/// Composes the head of the final response, of which `head` is the start, and takes what came of
/// its body. Nothing is sent yet.
pub(crate) fn begin(worker: &Worker, x: &mut Exchange, head: &[u8]) -> Result<(), Fault> {
    let framing = response_framing(x.request.method, &x.response, head)?;
    let status = x.response.status;
    x.upstream_reusable = status != 101 && response_keeps_alive(&x.response, head, framing);
    strip_response(&mut x.response, head, status == 101);
    if framing != Framing::Chunked && status >= 200 && status != 204 {
        // The length is true for the client too (for HEAD and 304 it is information): it stays in its place.
        let fields = x.response.fields.iter_mut();
        fields.filter(|field| field.id == FieldId::ContentLength).for_each(|field| field.keep = true);
    }
    // The rest of an unfinished request could not be told from the next one.
    x.keep_alive &= x.upward.is_done() && !worker.is_draining();
    let http11 = x.request.version == Version::Http11;
    let open_ended = matches!(framing, Framing::Chunked | Framing::UntilClose);
    let chunked = open_ended && http11;
    x.keep_alive &= !open_ended || http11;
    let mut flow = std::mem::take(&mut x.downward);
    worker.warm.buffers.lend(flow.buffer());
    let framing = if status == 101 { Framing::Empty } else { framing };
    let out = flow.start(framing, Side::Upstream, chunked);
    let composed_from = out.len();
    write_status_line(out, status, x.response.reason.of(head));
    write_fields(out, head, &x.response.fields);
    if chunked {
        out.extend_from_slice(CHUNKED_FIELD);
    }
    if status == 101 {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
    } else if !x.keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if !http11 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
    let rest = &head[x.response.len..];
    if status == 101 {
        out.extend_from_slice(rest);
        x.downward = flow;
    } else {
        let fed = flow.feed(rest);
        if fed.is_err() {
            // Nothing of this response has been sent: it gives way to an answer that says why.
            flow.buffer().truncate(composed_from);
        }
        x.downward = flow;
        // Bytes behind the end belong to nobody: they are dropped, and the connection with them.
        x.upstream_reusable &= fed? == rest.len();
    }
    x.status = status;
    Ok(())
}

/// Relays the response to its end, and the rest of the request beside it.
pub(crate) async fn respond(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: Upstream,
) -> Served {
    let mut surplus = Vec::new();
    let mut upward_open = !x.upward.is_done();
    let mut timed = false;
    let idle = x.route().map(|route| route.timeouts).unwrap_or_default().idle;
    let outcome = poll_fn(|context| {
        if timed && client.socket.expired() {
            return Poll::Ready(Err(late(x)));
        }
        let ends = Ends { from: &upstream.connection.socket, to: &client.socket };
        let mut moved = false;
        let pumped = x.downward.poll_pump(&ends, &mut worker.scratch.borrow_mut(), &mut surplus, &mut moved);
        match pumped {
            Poll::Ready(Ok(Pumped::All)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(Pumped::Share)) => context.waker().wake_by_ref(),
            Poll::Ready(Err(broken)) => return Poll::Ready(Err(fault_of(broken))),
            Poll::Pending => {}
        }
        if upward_open {
            upward_open = send_rest(worker, client, x, &upstream, (context, &mut moved))?;
        }
        if client.socket.is_gone() || (client.socket.peer_closed() && x.upward.is_received()) {
            return Poll::Ready(Err(Fault::new(
                FaultKind::ClientGone,
                "the client left within the response",
            )));
        }
        if moved || !timed {
            timed = true;
            client.socket.set_deadline(Some(idle));
        }
        Poll::Pending
    });
    let outcome = outcome.await;
    x.downward.cool(&worker.warm.buffers);
    match outcome {
        Ok(()) => {
            if x.upstream_reusable && surplus.is_empty() && x.upward.is_done() {
                put_back(x, upstream);
            }
            Served::Whole
        }
        Err(fault) => Served::Broken(fault),
    }
}

/// Moves what can be moved of a request whose response has begun; says whether there may be more.
fn send_rest(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    upstream: &Upstream,
    (context, moved): (&mut Context<'_>, &mut bool),
) -> Result<bool, Fault> {
    let ends = Ends { from: &client.socket, to: &upstream.connection.socket };
    let pumped = x.upward.poll_pump(&ends, &mut worker.scratch.borrow_mut(), &mut x.received, moved);
    match pumped {
        Poll::Pending => Ok(true),
        Poll::Ready(Ok(Pumped::Share)) => {
            context.waker().wake_by_ref();
            Ok(true)
        }
        Poll::Ready(Ok(Pumped::All) | Err(Broken::ReceiverGone)) => Ok(false),
        Poll::Ready(Err(Broken::Sender(fault))) => Err(fault),
        Poll::Ready(Err(Broken::SenderGone)) => {
            Err(Fault::new(FaultKind::ClientGone, "the client left within its request body"))
        }
    }
}

fn fault_of(broken: Broken) -> Fault {
    match broken {
        Broken::Sender(fault) => fault,
        Broken::SenderGone => {
            Fault::new(FaultKind::HttpResponseIncomplete, "the endpoint reset within its response")
        }
        Broken::ReceiverGone => Fault::new(FaultKind::ClientGone, "the client left within the response"),
    }
}

fn late(x: &Exchange) -> Fault {
    if x.downward.is_stalled() {
        Fault::new(FaultKind::ClientTimeout, "the client stopped reading the response")
    } else {
        Fault::new(FaultKind::ConnectionReadTimeout, "the endpoint stopped within its response")
    }
}
