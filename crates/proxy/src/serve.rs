//! The path of a request, phase by phase: the table of contents of the product.
//!
//! ```text
//! admit → refuse_blocked → challenge → redirect_https → find_route → filter_request → ask_cache → buffer_body →
//! enter → start_copies → forward (choose, connect, send, await) → respond → record
//! ```
//!
//! Every phase is one call and one file. A phase that cannot go on returns a [`Fault`]; the fault
//! becomes an answer in one place (`exchange/local_reply.rs`) and is recorded in one place (`exchange/record.rs`). An
//! exchange that becomes a tunnel leaves here after `forward` (`l4/tunnel.rs`).

use crate::exchange::acme_http01::challenge;
use crate::exchange::blocked::refuse_blocked;
use crate::exchange::buffer_body::buffer_body;
use crate::exchange::cache::{Looked, Ruled, cache_rule, load, look, receive, wait};
use crate::exchange::filter_facts::WorkerConnection;
use crate::exchange::filter_request::{Filtered, From, filter_request, resume, run_job, send_to_chosen};
use crate::exchange::find_route::find_route;
use crate::exchange::local_reply::{reply_fault, reply_with};
use crate::exchange::outcome::{Next, STOPPED, Served, Switched, broken, until_cut};
use crate::exchange::permits::enter;
use crate::exchange::read_request::{Admitted, admit};
use crate::exchange::record::record;
use crate::exchange::redirect_https::{redirect_https, redirect_to};
use crate::exchange::respond::{respond, wait_for_filters};
use crate::exchange::subrequest::start_copies;
use crate::exchange::upstream::connect::put_back;
use crate::exchange::upstream::forward::forward;
use crate::h2::has_request_line;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::{Hooks, Reply};

/// Serves one request of a client's connection, or finds that none came.
pub(crate) async fn serve(worker: &Worker, client: &mut Client, x: &mut Exchange) -> Next {
    let next = match admit(worker, client, x).await {
        Ok(Admitted::Request) => match until_cut(worker, exchange(worker, client, x)).await {
            None => {
                broken(worker, client, x, Fault::new(FaultKind::ProxyStopped, STOPPED));
                Next::Close
            }
            Some(outcome) => match outcome {
                Ok(Served::Whole) if x.keep_alive => Next::Again,
                Ok(Served::Whole) => Next::Drain,
                Ok(Served::Broken(fault)) => {
                    broken(worker, client, x, fault);
                    Next::Close
                }
                Ok(Served::Switched(switched)) => return Next::Tunnel(switched),
                Ok(Served::Answered(reply)) => reply_with(worker, client, x, *reply).await,
                Err(fault) => reply_fault(worker, client, x, fault).await,
            },
        },
        Ok(Admitted::Silence) => return Next::Again,
        Ok(Admitted::End) => {
            client.socket.rest(true);
            return Next::Close;
        }
        Err(fault) => {
            x.id.get_or_insert_with(|| worker.next_id());
            if is_meant_as_http2(client, x, fault) {
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
    refuse_blocked(worker, x)?;
    if let Some(reply) = challenge(worker, client, x) {
        return Ok(Served::Answered(Box::new(reply)));
    }
    if let Some(place) = redirect_https(worker, client, x)? {
        return Ok(Served::Answered(Box::new(redirect_to(&place))));
    }
    find_route(worker, client, x)?;
    if x.chain().is_some_and(|chain| chain.has(Hooks::REQUEST))
        && let Some(reply) = filter(worker, client, x).await?
    {
        return Ok(Served::Answered(reply));
    }
    if let Some(ruled) = cache_rule(worker, client, x)
        && let Some(reply) = ask_cache(worker, client, x, &ruled).await?
    {
        return Ok(Served::Answered(reply));
    }
    buffer_body(worker, client, x).await?;
    let places = enter(worker, client, x).await?;
    start_copies(worker, client, x);
    let upstream = forward(worker, client, x).await?;
    if x.status == 101 {
        return Ok(Served::Switched(Box::new(Switched { upstream, places, underway, preface: Vec::new() })));
    }
    if x.filtering.as_ref().is_some_and(|filtering| filtering.held.is_some()) {
        // In a box because it is rare: every task would be larger for it.
        Box::pin(wait_for_filters(worker, client, x)).await?;
    }
    if let Some(reply) = x.filtering.as_mut().and_then(|filtering| filtering.replaced.take()) {
        if x.upstream_reusable && x.upward.is_done() {
            put_back(worker, x, upstream);
        }
        return Ok(Served::Answered(reply));
    }
    Ok(respond(worker, client, x, upstream).await)
}

/// Brings the request through the filters of its route; an answer that one of them gives.
async fn filter(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<Option<Box<Reply>>, Fault> {
    let connection = WorkerConnection(worker, client);
    let mut done = filter_request(&connection.surroundings(), x, &mut |_, _, _| {})?;
    loop {
        match done {
            Filtered::Through => return Ok(None),
            Filtered::Answered(reply) => return Ok(Some(reply)),
            // In a box because it is rare: every task would be larger for it.
            Filtered::Waits(job) => {
                let got = Box::pin(run_job(worker, client, x, job)).await?;
                done = resume(&connection.surroundings(), x, From::Job(got), &mut |_, _, _| {})?;
            }
            Filtered::SentTo(name) => {
                send_to_chosen(worker, client, x, &name)?;
                done = resume(&connection.surroundings(), x, From::Choice, &mut |_, _, _| {})?;
            }
        }
    }
}

/// Asks the cache; an answer from there.
async fn ask_cache(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    ruled: &Ruled,
) -> Result<Option<Box<Reply>>, Fault> {
    receive(worker, client, x, ruled).await?;
    let mut looked = look(worker, client, x, ruled);
    loop {
        // In boxes: what answers at once is not to pay for what waits.
        match looked {
            Looked::Forward => return Ok(None),
            Looked::Answered(reply) => return Ok(Some(reply)),
            Looked::Waits(waiting) => return Box::pin(wait(worker, client, x, waiting)).await,
            // The disk is asked once.
            Looked::Loads(loading) => looked = Box::pin(load(worker, client, x, loading)).await?,
        }
    }
}

/// Whether what cannot be read as a request was meant as HTTP/2: there, words would be frames.
fn is_meant_as_http2(client: &Client, x: &Exchange, fault: Fault) -> bool {
    let is_unread = matches!(fault.status, 400 | 505) && x.request.fields.is_empty();
    let may_be = client.requests == 0 && client.listener().speaks_h2c() && client.socket.is_plain();
    is_unread && may_be && !has_request_line(&x.received)
}
