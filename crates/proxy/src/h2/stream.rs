//! A stream of HTTP/2 as the client end of an exchange (RFC 9113 §5, §8.1).

use super::heads;
use super::shared::Shared;
use crate::fleet::Command;
use crate::relay::Framed;
use ::h2::server::SendResponse;
use ::h2::{Reason, RecvStream, SendStream};
use bytes::{Buf, Bytes, BytesMut};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use thalweg_net::{Mailbox, Owner, OwnerWaker, Socket, Substream};

/// Payload of one frame.
const FRAME: usize = 16 * 1024;

/// The stream that a socket is, if it is one.
#[inline]
pub(crate) fn stream(socket: &Socket) -> Option<&Stream> {
    socket.substream()?.as_any().downcast_ref()
}

/// One stream.
pub(crate) struct Stream {
    waker: RefCell<Waker>,
    mailbox: Arc<Mailbox<Command>>,
    shared: Rc<Shared>,
    /// The request's head, until it is admitted.
    request: RefCell<Option<http::Request<()>>>,
    receive: RefCell<Receive>,
    send: RefCell<Send>,
    staged: RefCell<Option<http::Response<()>>>,
}

struct Receive {
    /// There until the stream is over.
    body: Option<RecvStream>,
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

enum Send {
    /// The head of the response has not been sent.
    Waiting(SendResponse<Bytes>),
    /// `true`: and its end has been said.
    Begun(SendStream<Bytes>, bool),
}

impl Stream {
    pub(super) fn new(
        (request, respond): (http::Request<RecvStream>, SendResponse<Bytes>),
        shared: &Rc<Shared>,
        mailbox: &Arc<Mailbox<Command>>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let length = parts.headers.get(http::header::CONTENT_LENGTH);
        let promised = length.and_then(|length| length.to_str().ok()?.parse().ok());
        shared.streams.set(shared.streams.get() + 1);
        Self {
            waker: RefCell::new(Waker::noop().clone()),
            mailbox: mailbox.clone(),
            shared: shared.clone(),
            request: RefCell::new(Some(http::Request::from_parts(parts, ()))),
            receive: RefCell::new(Receive {
                body: Some(body),
                promised,
                rest: Bytes::new(),
                unreleased: 0,
                ended: false,
                trailers: Vec::new(),
            }),
            send: RefCell::new(Send::Waiting(respond)),
            staged: RefCell::default(),
        }
    }

    /// What is known of its connection.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Takes the head of its request, and whether the request is nothing but that.
    pub(super) fn take_request(&self) -> Option<(http::Request<()>, bool)> {
        let request = self.request.borrow_mut().take()?;
        let body = &self.receive.borrow().body;
        Some((request, body.as_ref().is_none_or(RecvStream::is_end_stream)))
    }

    /// Sends an interim response, given as lines.
    pub(crate) fn inform(&self, head: &mut [u8]) {
        if let (Send::Waiting(respond), Some(response)) =
            (&mut *self.send.borrow_mut(), heads::response(head))
        {
            // The stream may be gone; that shows elsewhere.
            let _ = respond.send_informational(response);
        }
    }

    fn poll_payload(&self, receive: &mut Receive) -> Poll<io::Result<()>> {
        let waker = self.waker.borrow();
        let mut context = Context::from_waker(&waker);
        while receive.rest.is_empty() && !receive.ended {
            let Some(body) = &mut receive.body else { break };
            match ready!(body.poll_data(&mut context)) {
                Some(Ok(bytes)) => {
                    let len = bytes.len() as u64;
                    receive.promised = receive.promised.map(|promised| promised.saturating_sub(len));
                    receive.rest = bytes;
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    let trailers = ready!(body.poll_trailers(&mut context));
                    let trailers = trailers.map_err(io::Error::other)?;
                    let lines = trailers.map(|map| heads::request_trailers(&map)).unwrap_or(Ok(Vec::new()));
                    receive.trailers = lines.map_err(io::Error::other)?;
                    receive.ended = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Substream for Stream {
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let receive = &mut *self.receive.borrow_mut();
        ready!(self.poll_payload(receive))?;
        let n = receive.rest.len().min(buffer.len());
        receive.rest.copy_to_slice(&mut buffer[..n]);
        receive.unreleased += n;
        Poll::Ready(Ok(n))
    }

    fn poll_send(&self, slices: &[IoSlice<'_>], last: bool) -> Poll<io::Result<usize>> {
        let Send::Begun(send, has_ended @ false) = &mut *self.send.borrow_mut() else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let waker = self.waker.borrow();
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let wanted = offered.min(FRAME);
        if !self.shared.may_give(&waker) {
            return Poll::Pending;
        }
        if send.capacity() < wanted {
            send.reserve_capacity(wanted);
        }
        let mut capacity = send.capacity();
        while capacity == 0 {
            // It tells of what has been added, not of what there is.
            match ready!(send.poll_capacity(&mut Context::from_waker(&waker))) {
                Some(Ok(_)) => capacity = send.capacity(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let n = wanted.min(capacity);
        let mut payload = BytesMut::with_capacity(n);
        for slice in slices {
            payload.extend_from_slice(&slice[..slice.len().min(n - payload.len())]);
        }
        *has_ended = last && n == offered;
        send.send_data(payload.freeze(), *has_ended).map_err(io::Error::other)?;
        self.shared.gave(n, n < wanted);
        Poll::Ready(Ok(n))
    }

    fn set_owner(&self, owner: Owner) {
        self.waker.replace(OwnerWaker::waker(owner, self.mailbox.clone()));
    }

    fn is_readable(&self) -> bool {
        !self.receive.borrow().rest.is_empty()
    }

    fn is_gone(&self) -> bool {
        let waker = self.waker.borrow();
        let context = &mut Context::from_waker(&waker);
        match &mut *self.send.borrow_mut() {
            Send::Waiting(respond) => respond.poll_reset(context).is_ready(),
            Send::Begun(send, _) => send.poll_reset(context).is_ready(),
        }
    }

    fn shutdown_write(&self) {
        let _ = self.finish(&[]);
    }

    fn reset(&self) {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(respond) => respond.send_reset(Reason::INTERNAL_ERROR),
            Send::Begun(send, false) => send.send_reset(Reason::INTERNAL_ERROR),
            Send::Begun(_, true) => {}
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Framed for Stream {
    fn stage(&self, head: &mut [u8]) {
        self.staged.replace(heads::response(head));
    }

    fn begin(&self, ended: bool) -> io::Result<()> {
        let Some(head) = self.staged.take() else { return Ok(()) };
        let place = &mut *self.send.borrow_mut();
        let Send::Waiting(respond) = place else { return Err(io::ErrorKind::AlreadyExists.into()) };
        let send = respond.send_response(head, ended).map_err(io::Error::other)?;
        *place = Send::Begun(send, ended);
        Ok(())
    }

    fn finish(&self, trailers: &[u8]) -> io::Result<()> {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(_) => Err(io::ErrorKind::NotConnected.into()),
            Send::Begun(_, true) => Ok(()),
            Send::Begun(send, has_ended) => {
                *has_ended = true;
                let sent = match heads::trailers(trailers) {
                    None => send.send_data(Bytes::new(), true),
                    Some(trailers) => send.send_trailers(trailers),
                };
                sent.map_err(io::Error::other)
            }
        }
    }

    fn trailers(&self) -> Vec<u8> {
        self.receive.borrow().trailers.clone()
    }

    fn hold(&self, bytes: usize) {
        let receive = &mut *self.receive.borrow_mut();
        let released = receive.unreleased.saturating_sub(bytes);
        if released > 0 {
            receive.unreleased -= released;
            // It can only fail for more than has come.
            let _ = receive.body.as_mut().map(|body| body.flow_control().release_capacity(released));
        }
    }
}

impl Drop for Stream {
    /// The engine resets a stream that nobody holds before the client has said its end. Where nothing but that is to come
    /// it is waited for: clients that say it in a frame of its own would take the reset for a failure.
    fn drop(&mut self) {
        let receive = self.receive.get_mut();
        if let (Send::Begun(_, true), Some(0)) = (self.send.get_mut(), receive.promised) {
            self.shared.await_end(receive.body.take());
        }
        self.shared.leave();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
