//! Between phases 3 and 4: a request body that a filter wants whole (`buffer`) is received before the request takes
//! anything of a service.
//!
//! It is kept in memory up to a bound, where it takes the place of what has come of it, and beyond that in a file
//! without a name. Its length is known then, so the request goes on with it. Calls of gRPC and upgrades are left alone:
//! both sides of them speak at once. Trailers of a request are not kept. A filter that reads the body (`ext`) has it
//! received in the same way, in phase 3.

use crate::exchange::grpc;
use crate::exchange::upstream::request_head::max_body;
use crate::h2;
use crate::overload::min_rate::RateMonitor;
use crate::relay::{IoScratch, Stream, too_large};
use crate::state::exchange::{Client, Exchange};
use crate::state::spools::{SpoolPlace, Spooled};
use crate::state::worker::Worker;
use std::fs::File;
use std::future::poll_fn;
use std::mem;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll};
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_filter::Buffering;
use thalweg_http::grpc::Kind;
use thalweg_http::h1::encode::write_status_line;
use thalweg_http::{BodyReader, BodyStep, FieldId, Framing, Upgrade, Version};
use thalweg_observe::Limit;

/// Receives the body, where a filter has asked for that.
#[inline]
pub(crate) async fn buffer_body(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<(), Fault> {
    match x.filtered().and_then(|filtering| filtering.outcome.buffering) {
        None => Ok(()),
        // In a box because it is rare: every task would be larger for it.
        Some(buffering) => Box::pin(receive(worker, client, x, buffering)).await.map(drop),
    }
}

/// Receives the body for a filter that reads it, `most` bytes at most, all in memory; `None`: nobody can wait for its
/// end. Cancel-safe: the request is over then.
pub(crate) async fn body_for_filter(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    most: usize,
) -> Result<Option<Vec<u8>>, Fault> {
    if x.framing.is_empty() {
        return Ok(Some(Vec::new()));
    }
    if !receive(worker, client, x, Buffering { max_body: most as u64, memory: most }).await? {
        return Ok(None);
    }
    Ok(x.received.get(x.request.len..x.consumed).map(<[u8]>::to_vec))
}

/// Receives a body of this length, for the key of the cache.
pub(crate) async fn receive_for_key(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    length: u64,
) -> Result<(), Fault> {
    // All of it in memory.
    let memory = usize::try_from(length).unwrap_or(usize::MAX);
    receive(worker, client, x, Buffering { max_body: length, memory }).await.map(drop)
}

/// Receives the body; whether it is one that anybody can wait for. It may have been received before, for another
/// filter.
async fn receive(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    buffering: Buffering,
) -> Result<bool, Fault> {
    if x.framing.is_empty() || x.upgrade != Upgrade::None || grpc::kind(x) != Kind::No {
        return Ok(false);
    }
    let most = max_body(x).map_or(buffering.max_body, |bytes| bytes.min(buffering.max_body));
    if matches!(x.framing, Framing::Length(length) if length > most) {
        return Err(too_large(Side::Downstream));
    }
    ask_for_body(client, x);
    let began = worker.reactor.now();
    let mut body = Body {
        reader: BodyReader::new(x.framing, Side::Downstream),
        has_ended: false,
        length: 0,
        most,
        in_memory: Vec::new(),
        memory: buffering.memory,
        file: None,
        behind: Vec::new(),
    };
    let early = x.received.split_off(x.request.len);
    body.take(worker, &early)?;
    drop(early);
    let mut pace = None;
    poll_fn(|context| poll_body(worker, client, x, (&mut body, &mut pace), context)).await?;
    worker.clear_slow(x);
    client.socket.set_deadline(None);
    x.waited += worker.reactor.now().saturating_duration_since(began);
    body.put_into(x);
    worker.note_held(x, 0);
    Ok(true)
}

/// Tells a client that waits to be asked for the body (RFC 9110 §10.1.1); the endpoint is not to do so again.
fn ask_for_body(client: &Client, x: &mut Exchange) {
    if !x.request.present.contains(FieldId::Expect) {
        return;
    }
    let mut asks = false;
    for field in x.request.fields.iter_mut().filter(|field| field.id == FieldId::Expect && field.keep) {
        (field.keep, asks) = (false, true);
    }
    // It was asked before, for another filter.
    if !asks || x.request.version == Version::Http10 {
        return;
    }
    let out = x.downward.buffer();
    write_status_line(out, 100, b"Continue");
    out.extend_from_slice(b"\r\n");
    match h2::stream(&client.socket) {
        Some(stream) => stream.inform(&mut mem::take(x.downward.buffer())),
        None => drop(x.downward.poll_flush(&client.socket)),
    }
}

fn poll_body(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (body, pace): (&mut Body, &mut Option<RateMonitor>),
    context: &mut Context<'_>,
) -> Poll<Result<(), Fault>> {
    let now = worker.reactor.now();
    if pace.is_some() && client.socket.expired() {
        let late = Fault::new(FaultKind::ClientTimeout, "the request body took too long");
        return Poll::Ready(Err(x.overdue_by_client(now).unwrap_or(late)));
    }
    if !body.receive(worker, client, context)? && pace.is_some() {
        let gone = client.socket.is_gone() && !body.is_whole();
        return if gone { Poll::Ready(Err(GONE)) } else { Poll::Pending };
    }
    if body.is_whole() {
        return Poll::Ready(Ok(()));
    }
    if let Some(fault) = x.overdue_by_client(now) {
        return Poll::Ready(Err(fault));
    }
    let (rate, bytes) = (x.rate(), body.length);
    if pace.get_or_insert_with(|| RateMonitor::new(now)).is_too_slow(now, bytes.cast_signed(), rate) {
        let detail = "the client sends the request body too slowly";
        return Poll::Ready(Err(Fault::new(FaultKind::ClientTimeout, detail)));
    }
    worker.mark_slow(client, x, bytes);
    worker.note_held(x, body.in_memory.capacity() + body.behind.capacity());
    x.set_deadline(client, now, rate.window);
    Poll::Pending
}

const GONE: Fault =
    Fault::new(FaultKind::ClientGone, "the client closed the connection inside the request body");

/// What has been received.
struct Body {
    reader: BodyReader,
    has_ended: bool,
    length: u64,
    /// Bytes that it may have.
    most: u64,
    in_memory: Vec<u8>,
    /// Bytes that may be there.
    memory: usize,
    file: Option<(Rc<File>, SpoolPlace)>,
    /// What has come behind it.
    behind: Vec<u8>,
}

impl Body {
    fn is_whole(&self) -> bool {
        self.has_ended || self.reader.is_complete()
    }

    /// Receives what is there, up to the share of one turn; whether something was.
    fn receive(&mut self, worker: &Worker, client: &Client, context: &Context<'_>) -> Result<bool, Fault> {
        let mut scratch = worker.scratch.borrow_mut();
        let means = IoScratch::of(&mut scratch, &worker.chunks);
        let (mut share, mut has_moved) = (means.share, false);
        while !self.is_whole() {
            if share == 0 {
                context.waker().wake_by_ref();
                break;
            }
            match client.socket.poll_recv(means.scratch) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => {
                    self.reader.end_of_input()?;
                    self.has_ended = true;
                }
                Poll::Ready(Ok(n)) => {
                    self.take(worker, &means.scratch[..n])?;
                    share = share.saturating_sub(n);
                }
                // One that frames its messages by itself may have found a fault in them.
                Poll::Ready(Err(error)) => {
                    let fault = error.get_ref().and_then(|error| error.downcast_ref::<Fault>());
                    return Err(fault.copied().unwrap_or(GONE));
                }
            }
            has_moved = true;
            if let Some(framed) = client.socket.framed() {
                // What has been taken makes room for more.
                framed.hold(0);
            }
        }
        Ok(has_moved)
    }

    /// Takes bytes as they were received.
    fn take(&mut self, worker: &Worker, input: &[u8]) -> Result<(), Fault> {
        let mut at = 0;
        while !self.reader.is_complete() {
            match self.reader.read(&input[at..])? {
                BodyStep::Data { skip, len } => {
                    self.keep(worker, &input[at + skip..at + skip + len])?;
                    at += skip + len;
                }
                BodyStep::More { .. } => return Ok(()),
                BodyStep::End { consumed } => {
                    at += consumed;
                    self.has_ended = true;
                    break;
                }
            }
        }
        self.behind.extend_from_slice(&input[at..]);
        Ok(())
    }

    fn keep(&mut self, worker: &Worker, payload: &[u8]) -> Result<(), Fault> {
        let length = self.length + payload.len() as u64;
        if length > self.most {
            return Err(too_large(Side::Downstream));
        }
        if self.file.is_none() && self.in_memory.len() + payload.len() <= self.memory {
            self.in_memory.extend_from_slice(payload);
            self.length = length;
            return Ok(());
        }
        let no_place = |limit_hit: bool| {
            if limit_hit {
                worker.meters.limit(Limit::Buffers);
            }
            let detail = "there is no room for another buffered request body";
            Fault::new(FaultKind::ConnectionLimitReached, detail)
        };
        if self.file.is_none() {
            let place = worker.spools.place().ok_or_else(|| no_place(true))?;
            let file = place.open().map_err(|_| no_place(false))?;
            self.file = Some((Rc::new(file), place));
        }
        if let Some((file, place)) = &mut self.file {
            let earlier = mem::take(&mut self.in_memory);
            if !place.take((earlier.len() + payload.len()) as u64) {
                return Err(no_place(true));
            }
            let written =
                file.write_all_at(&earlier, 0).and_then(|()| file.write_all_at(payload, self.length));
            written.map_err(|_| no_place(false))?;
        }
        self.length = length;
        Ok(())
    }

    /// The request has this body from now on, and nothing of it is to come.
    fn put_into(self, x: &mut Exchange) {
        x.framing = Framing::Length(self.length);
        x.received.extend_from_slice(&self.in_memory);
        x.consumed = x.received.len();
        x.received.extend_from_slice(&self.behind);
        if let Some((file, place)) = self.file {
            x.filtering.get_or_insert_default().spooled = Some(Spooled { file, _place: place });
        }
        x.upward.reset();
        x.upward.start(Framing::Empty, Side::Downstream, false);
    }
}
