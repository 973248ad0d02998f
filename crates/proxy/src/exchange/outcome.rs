//! How an exchange came to its end, and what becomes of its client's connection.

use crate::exchange::grpc;
use crate::exchange::permits::Permits;
use crate::exchange::upstream::connect::Upstream;
use crate::state::admission::Underway;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use thalweg_core::Fault;
use thalweg_filter::Reply;

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
    /// It broke off: the client is made to see it.
    Broken(Fault),
    /// Both sides have switched protocols.
    Switched(Box<Switched>),
    /// Not at all: the proxy answers itself.
    Answered(Box<Reply>),
}

/// What an exchange has beside itself and its client when both sides have switched protocols.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) upstream: Upstream,
    pub(crate) places: Permits,
    pub(crate) underway: Underway,
    /// What the endpoint is told before anything of the client.
    pub(crate) preface: Vec<u8>,
}

/// Why the proxy has cut what was under way.
pub(crate) const STOPPED: &str = "the proxy stopped: `shutdown.grace` was over, or it was told to stop now";

/// A response that breaks off must look broken. A length that is not reached and a last chunk that
/// does not come do; where only the close tells the end, a reset does. A gRPC call ends with the status that says so.
pub(crate) fn broken(worker: &Worker, client: &Client, x: &mut Exchange, fault: Fault) {
    x.fault = Some(fault);
    let has_details = worker.view_for(client).plan.error_details;
    let detail = if has_details { fault.detail } else { "the exchange broke off" };
    if grpc::tell_end(client, x, (fault, detail)) {
        return;
    }
    if x.downward.is_open_ended() || client.socket.substream().is_some() {
        client.socket.reset_on_close();
    }
}

/// Runs an exchange to its end, or to that of the worker: `None`.
pub(crate) async fn until_cut<T>(worker: &Worker, exchange: impl Future<Output = T>) -> Option<T> {
    let mut exchange = pin!(exchange);
    poll_fn(|context| match worker.is_cut() {
        true => Poll::Ready(None),
        false => exchange.as_mut().poll(context).map(Some),
    })
    .await
}
