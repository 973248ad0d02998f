//! The path of a request, phase by phase: the table of contents of the product.
//!
//! ```text
//! admit → challenge → redirect_https → find_route → filter_request → enter → forward (choose, connect, send, await) →
//! respond → record
//! ```
//!
//! Every phase is one call and one file. A phase that cannot go on returns a [`Fault`]; the fault
//! becomes an answer in one place (`exchange/local_reply.rs`) and is recorded in one place (`exchange/record.rs`). An exchange that
//! becomes a tunnel leaves here after `forward` (`l4/tunnel.rs`).

use crate::exchange::acme_http01::challenge;
use crate::exchange::filter_request::filter_request;
use crate::exchange::find_route::find_route;
use crate::exchange::grpc;
use crate::exchange::local_reply::{reply_fault, reply_redirect, reply_text};
use crate::exchange::permits::enter;
use crate::exchange::read_request::{Admitted, admit};
use crate::exchange::record::record;
use crate::exchange::redirect_https::redirect_https;
use crate::exchange::respond::respond;
use crate::exchange::upstream::forward::forward;
use crate::l4::tunnel::Switched;
use crate::state::exchange::{Client, Exchange};
use crate::worker::Worker;
use std::sync::Arc;
use thalweg_core::Fault;

/// What becomes of the client's connection after an exchange.
#[derive(Debug)]
pub(crate) enum Next {
    /// It waits for another request.
    Again,
    /// It is closed, after what the client still sends was drained within bounds.
    Drain,
    /// It is closed now.
    Close,
    /// It is one end of a tunnel, whose exchange goes on.
    Tunnel(Box<Switched>),
}

/// How a response that was begun came to its end.
#[derive(Debug)]
pub(crate) enum Served {
    /// Whole.
    Whole,
    /// It report_broken off: the client is made to see it.
    RelayError(Fault),
    /// Both sides have switched protocols.
    Switched(Box<Switched>),
    /// Nothing was asked of a service: this is the answer to an authority that checks a host.
    Checked(Arc<str>),
    /// Nothing was asked of a service: the client is sent to this place.
    Redirected(Vec<u8>),
}

/// Serves one request of a client's connection, or finds that none came.
pub(crate) async fn serve(worker: &Worker, client: &mut Client, x: &mut Exchange) -> Next {
    let next = match admit(worker, client, x).await {
        Ok(Admitted::Request) => match exchange(worker, client, x).await {
            Ok(Served::Whole) if x.keep_alive => Next::Again,
            Ok(Served::Whole) => Next::Drain,
            Ok(Served::RelayError(fault)) => {
                broken(client, x, fault);
                Next::Close
            }
            Ok(Served::Switched(switched)) => return Next::Tunnel(switched),
            Ok(Served::Checked(answer)) => reply_text(worker, client, x, &answer).await,
            Ok(Served::Redirected(place)) => reply_redirect(worker, client, x, &place).await,
            Err(fault) => reply_fault(worker, client, x, fault).await,
        },
        Ok(Admitted::Silence) => return Next::Again,
        Ok(Admitted::End) => {
            client.socket.rest(true);
            return Next::Close;
        }
        Err(fault) => {
            x.id.get_or_insert_with(|| worker.next_id());
            if may_be_http2(client, x, fault) {
                (x.fault, x.status) = (Some(fault), fault.status);
                Next::Close
            } else {
                reply_fault(worker, client, x, fault).await
            }
        }
    };
    record(worker, client, x);
    next
}

async fn exchange(worker: &Worker, client: &mut Client, x: &mut Exchange) -> Result<Served, Fault> {
    let underway = worker.take_on(x)?;
    if let Some(answer) = challenge(worker, client, x) {
        return Ok(Served::Checked(answer));
    }
    if let Some(place) = redirect_https(worker, client, x)? {
        return Ok(Served::Redirected(place));
    }
    find_route(worker, client, x)?;
    filter_request(worker, x)?;
    let places = enter(worker, client, x).await?;
    let upstream = forward(worker, client, x).await?;
    if x.status == 101 {
        return Ok(Served::Switched(Box::new(Switched { upstream, places, underway, preface: Vec::new() })));
    }
    Ok(respond(worker, client, x, upstream).await)
}

/// Whether what began with no request line of HTTP/1 may have been meant as HTTP/2: there, words would be frames.
fn may_be_http2(client: &Client, x: &Exchange, fault: Fault) -> bool {
    let has_no_line = matches!(fault.status, 400 | 505) && x.request.fields.is_empty();
    has_no_line && client.requests == 0 && client.listener().speaks_h2c() && client.socket.is_plain()
}

/// A response that breaks off must look broken. A length that is not reached and a last chunk that
/// does not come do; where only the close tells the end, a reset does. A gRPC call ends with the status that says so.
pub(crate) fn broken(client: &Client, x: &mut Exchange, fault: Fault) {
    x.fault = Some(fault);
    if grpc::tell_end(client, x, fault) {
        return;
    }
    if x.downward.is_open_ended() || client.socket.substream().is_some() {
        client.socket.reset_on_close();
    }
}
