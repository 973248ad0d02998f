//! The two directions of a stream of HTTP/2, whichever side opened it (RFC 9113 §8.1).

use super::guarded::Guarded;
use super::heads;
use super::shared::Shared;
use crate::state::shared::Command;
use ::h2::{Reason, RecvStream, SendStream};
use ::http::header::{CONTENT_LENGTH, HeaderMap};
use bytes::{Buf, Bytes, BytesMut};
use std::cell::{Ref, RefCell};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use thalweg_core::{Fault, Side};
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
    body: Option<Guarded<RecvStream>>,
    from: Side,
    /// Bytes that the head has promised, less those that have come.
    promised: Option<u64>,
    /// Taken from the engine and not from here.
    rest: Bytes,
    /// Behind that: what came in many small frames.
    kept: BytesMut,
    /// Behind that: no more than an error.
    failed: Option<io::Error>,
    /// Bytes taken from here for which the peer has no new window yet.
    unreleased: usize,
    /// The engine has nothing more.
    ended: bool,
    /// What came behind the last byte, as lines.
    trailers: Vec<u8>,
    /// Its trailers have pseudo-fields.
    is_malformed: bool,
}

impl Receiving {
    /// Behind a head that has promised so much.
    pub(super) fn new(body: Guarded<RecvStream>, from: Side, promised: Option<u64>) -> Self {
        Self {
            body: Some(body),
            from,
            promised,
            rest: Bytes::new(),
            kept: BytesMut::new(),
            failed: None,
            unreleased: 0,
            ended: false,
            trailers: Vec::new(),
            is_malformed: false,
        }
    }

    /// Whether nothing comes behind the head.
    pub(super) fn is_nothing(&self) -> bool {
        // What has been taken over from the engine is not nothing.
        let has_some = self.is_readable() || self.failed.is_some() || !self.trailers.is_empty();
        !has_some && self.body.as_ref().and_then(Guarded::get).is_none_or(RecvStream::is_end_stream)
    }

    /// The body when all of it has come, and only the word that it was all has not. The engine resets a stream that
    /// nobody holds before the peer has said its end: some that say it in a frame of its own would take that for a
    /// failure.
    pub(super) fn take_ending(&mut self) -> Option<Guarded<RecvStream>> {
        let is_ending = |body: &RecvStream| self.promised == Some(0) && !self.ended && !body.is_end_stream();
        self.body.take_if(|body| body.get().is_some_and(is_ending))
    }

    /// Takes payload; 0: the message is over. `is_malformed`: its trailers are, if it has any.
    pub(super) fn poll(
        &mut self,
        waker: &Waker,
        buffer: &mut [u8],
        is_malformed: bool,
    ) -> Poll<io::Result<usize>> {
        while self.rest.is_empty() {
            if !self.kept.is_empty() {
                self.rest = std::mem::take(&mut self.kept).freeze();
            } else if let Some(error) = self.failed.take() {
                return Poll::Ready(Err(error));
            } else if self.ended {
                break;
            } else if let Some(bytes) = ready!(self.poll_engine(waker, is_malformed))? {
                self.rest = bytes;
            }
        }
        let n = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..n]);
        self.unreleased += n;
        Poll::Ready(Ok(n))
    }

    /// Takes over what the engine has: the peer gets no window for it.
    pub(super) fn keep(&mut self, waker: &Waker, is_malformed: bool) {
        while !self.ended && self.failed.is_none() {
            match self.poll_engine(waker, is_malformed) {
                Poll::Ready(Ok(Some(bytes))) => self.kept.extend_from_slice(&bytes),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Err(error)) => self.failed = Some(error),
                Poll::Pending => break,
            }
        }
    }

    /// The next that the engine has; `None` where that was all.
    fn poll_engine(&mut self, waker: &Waker, is_malformed: bool) -> Poll<io::Result<Option<Bytes>>> {
        let context = &mut Context::from_waker(waker);
        let Some(body) = self.body.as_mut().and_then(Guarded::get_mut) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        match ready!(body.poll_data(context)) {
            Some(Ok(bytes)) => {
                let len = bytes.len() as u64;
                self.promised = self.promised.map(|promised| promised.saturating_sub(len));
                Poll::Ready(Ok(Some(bytes)))
            }
            // One that comes behind the end does not come here.
            Some(Err(error)) => Poll::Ready(Err(io::Error::other(error))),
            None => {
                let trailers = ready!(body.poll_trailers(context)).map_err(io::Error::other)?;
                if let Some(map) = trailers {
                    self.is_malformed = is_malformed;
                    self.trailers = self.read_trailers(&map).map_err(io::Error::other)?;
                }
                self.ended = true;
                Poll::Ready(Ok(None))
            }
        }
    }

    /// The engine gives trailers without their pseudo-fields.
    fn read_trailers(&self, map: &HeaderMap) -> Result<Vec<u8>, Fault> {
        const DETAIL: &str = "a pseudo-field in the trailers";
        match (self.is_malformed, self.from) {
            (false, from) => heads::received_trailers(from, map),
            (true, Side::Upstream) => Err(Fault::response(DETAIL)),
            (true, _) => Err(Fault::request(400, DETAIL)),
        }
    }

    /// Whether its trailers have pseudo-fields, which makes all of it malformed (RFC 9113 §8.1).
    pub(super) fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.rest.is_empty() || !self.kept.is_empty()
    }

    /// Received bytes that the exchange has not taken yet, and for which no window was returned.
    pub(super) fn waiting(&mut self) -> usize {
        let body = self.body.as_mut().and_then(Guarded::get_mut);
        let received = body.map_or(0, |body| body.flow_control().used_capacity());
        received.saturating_sub(self.unreleased)
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
            let body = self.body.as_mut().and_then(Guarded::get_mut);
            let _ = body.map(|body| body.flow_control().release_capacity(released));
        }
    }
}

/// The length that a head with these fields promises.
pub(super) fn promised(fields: &HeaderMap) -> Option<u64> {
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What is sent of a message behind its head.
pub(super) struct Sending {
    stream: Guarded<SendStream<Bytes>>,
    has_ended: bool,
}

impl Sending {
    /// `ended`: the head is the whole message.
    pub(super) fn new(stream: Guarded<SendStream<Bytes>>, ended: bool) -> Self {
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
        let Some(send) = self.stream.get_mut() else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
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
        let Some(send) = self.stream.get_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let sent = match heads::trailers(trailers) {
            None => send.send_data(Bytes::new(), true),
            Some(trailers) => send.send_trailers(trailers),
        };
        sent.map_err(io::Error::other)
    }

    pub(super) fn is_gone(&mut self, waker: &Waker) -> bool {
        let context = &mut Context::from_waker(waker);
        self.stream.get_mut().is_none_or(|stream| stream.poll_reset(context).is_ready())
    }

    /// The exchange is over: what the engine holds of a stream that has been reset is not written any more.
    pub(super) fn leave(&mut self, shared: &Shared) {
        // In a panic the engine's lock may be poisoned, and a second panic would end the process.
        if shared.held() > 0
            && !std::thread::panicking()
            && self.is_gone(Waker::noop())
            && let Some(stream) = self.stream.get()
        {
            shared.forget(stream.stream_id().as_u32());
        }
    }

    /// Whether its end has been said.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends the stream, unless its end has been said.
    pub(super) fn reset(&mut self, reason: Reason) {
        if !self.has_ended
            && let Some(stream) = self.stream.get_mut()
        {
            stream.send_reset(reason);
        }
    }
}
