//! The two directions of a stream of HTTP/2, whichever side opened it (RFC 9113 §8.1).

use super::heads;
use super::shared::Shared;
use crate::worker::pool::Command;
use ::h2::{Reason, RecvStream, SendStream};
use ::http::header::{CONTENT_LENGTH, HeaderMap};
use bytes::{Buf, Bytes, BytesMut};
use std::cell::{Ref, RefCell};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use thalweg_core::Side;
use thalweg_net::{Mailbox, Owner, OwnerWaker};

/// Payload of one frame.
const FRAME: usize = 16 * 1024;

/// Whom the engine calls for a stream.
pub(super) struct Notifier {
    waker: RefCell<Waker>,
    mailbox: Arc<Mailbox<Command>>,
}

impl Notifier {
    pub(super) fn new(mailbox: &Arc<Mailbox<Command>>) -> Self {
        Self { waker: RefCell::new(Waker::noop().clone()), mailbox: mailbox.clone() }
    }

    pub(super) fn set_owner(&self, owner: Owner) {
        self.waker.replace(OwnerWaker::waker(owner, self.mailbox.clone()));
    }

    pub(super) fn waker(&self) -> Ref<'_, Waker> {
        self.waker.borrow()
    }
}

/// What the peer sends of a message behind its head.
pub(super) struct Receiving {
    /// There until the stream is over.
    body: Option<RecvStream>,
    from: Side,
    /// Bytes that the head has promised, less those that have come.
    promised: Option<u64>,
    /// Taken from the engine and not from here.
    rest: Bytes,
    /// Bytes taken from here for which the peer has no new window yet.
    unreleased: usize,
    ended: bool,
    /// What came behind the last byte, as lines.
    trailers: Vec<u8>,
}

impl Receiving {
    /// Behind a head that has promised so much.
    pub(super) fn new(body: RecvStream, from: Side, promised: Option<u64>) -> Self {
        Self {
            body: Some(body),
            from,
            promised,
            rest: Bytes::new(),
            unreleased: 0,
            ended: false,
            trailers: Vec::new(),
        }
    }

    /// Whether nothing comes behind the head.
    pub(super) fn is_nothing(&self) -> bool {
        self.body.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    /// The body when all of it has come, and only the word that it was all has not. The engine resets a stream that nobody
    /// holds before the peer has said its end: some that say it in a frame of its own would take that for a failure.
    pub(super) fn take_ending(&mut self) -> Option<RecvStream> {
        self.body.take_if(|body| self.promised == Some(0) && !self.ended && !body.is_end_stream())
    }

    pub(super) fn poll(&mut self, waker: &Waker, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_payload(&mut Context::from_waker(waker)))?;
        let n = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..n]);
        self.unreleased += n;
        Poll::Ready(Ok(n))
    }

    fn poll_payload(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() && !self.ended {
            let Some(body) = &mut self.body else { break };
            match ready!(body.poll_data(context)) {
                Some(Ok(bytes)) => {
                    let len = bytes.len() as u64;
                    self.promised = self.promised.map(|promised| promised.saturating_sub(len));
                    self.rest = bytes;
                }
                // One that comes behind the end does not come here.
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    let trailers = ready!(body.poll_trailers(context)).map_err(io::Error::other)?;
                    let lines = trailers.map(|map| heads::received_trailers(self.from, &map));
                    self.trailers = lines.unwrap_or(Ok(Vec::new())).map_err(io::Error::other)?;
                    self.ended = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.rest.is_empty()
    }

    /// What came behind the last byte, as lines.
    pub(super) fn trailers(&self) -> Vec<u8> {
        self.trailers.clone()
    }

    /// So much of what was taken is held still: the peer may send as much less.
    pub(super) fn hold(&mut self, bytes: usize) {
        let released = self.unreleased.saturating_sub(bytes);
        if released > 0 {
            self.unreleased -= released;
            // It can only fail for more than has come.
            let _ = self.body.as_mut().map(|body| body.flow_control().release_capacity(released));
        }
    }
}

/// The length that a head with these fields promises.
pub(super) fn promised(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What is sent of a message behind its head.
pub(super) struct Sending {
    stream: SendStream<Bytes>,
    has_ended: bool,
}

impl Sending {
    /// `ended`: the head is the whole message.
    pub(super) fn new(stream: SendStream<Bytes>, ended: bool) -> Self {
        Self { stream, has_ended: ended }
    }

    pub(super) fn poll(
        &mut self,
        (shared, waker): (&Shared, &Waker),
        scheduler: &[IoSlice<'_>],
        last: bool,
    ) -> Poll<io::Result<usize>> {
        if self.has_ended {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        }
        let offered: usize = scheduler.iter().map(|slice| slice.len()).sum();
        let wanted = offered.min(FRAME);
        if !shared.may_give(waker) {
            return Poll::Pending;
        }
        let send = &mut self.stream;
        if send.capacity() < wanted {
            send.reserve_capacity(wanted);
        }
        let mut capacity = send.capacity();
        while capacity == 0 {
            // It tells of what has been added, not of what there is.
            match ready!(send.poll_capacity(&mut Context::from_waker(waker))) {
                Some(Ok(_)) => capacity = send.capacity(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let n = wanted.min(capacity);
        let mut payload = BytesMut::with_capacity(n);
        for slice in scheduler {
            payload.extend_from_slice(&slice[..slice.len().min(n - payload.len())]);
        }
        self.has_ended = last && n == offered;
        send.send_data(payload.freeze(), self.has_ended).map_err(io::Error::other)?;
        shared.gave(send.stream_id().as_u32(), n, n < wanted);
        Poll::Ready(Ok(n))
    }

    /// Says that the message is over, but for these trailers.
    pub(super) fn finish(&mut self, trailers: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        let sent = match heads::trailers(trailers) {
            None => self.stream.send_data(Bytes::new(), true),
            Some(trailers) => self.stream.send_trailers(trailers),
        };
        sent.map_err(io::Error::other)
    }

    pub(super) fn is_gone(&mut self, waker: &Waker) -> bool {
        self.stream.poll_reset(&mut Context::from_waker(waker)).is_ready()
    }

    /// The exchange is over: what the engine holds of a stream that has been reset is not written any more.
    pub(super) fn leave(&mut self, shared: &Shared) {
        // In a panic the engine's lock may be poisoned, and a second panic would end the process.
        if shared.held() > 0 && !std::thread::panicking() && self.is_gone(Waker::noop()) {
            shared.forget(self.stream.stream_id().as_u32());
        }
    }

    /// Whether its end has been said.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends the stream, unless its end has been said.
    pub(super) fn reset(&mut self, reason: Reason) {
        if !self.has_ended {
            self.stream.send_reset(reason);
        }
    }
}
