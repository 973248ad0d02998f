//! A stream of HTTP/2 as the client end of an exchange (RFC 9113 §5, §8.1).

use super::body::{Notifier, Receiving, Sending, promised};
use super::guarded::Guarded;
use super::heads;
use super::inlet::{Incoming, Inlet};
use super::shared::Shared;
use crate::relay::Framed;
use crate::state::shared::Command;
use ::h2::server::SendResponse;
use ::h2::{Reason, RecvStream};
use bytes::Bytes;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use thalweg_core::Side;
use thalweg_net::{Mailbox, Owner, Socket, Substream};

/// The stream of a client that a socket is, if it is one.
#[inline]
pub(crate) fn stream(socket: &Socket) -> Option<&Stream> {
    socket.substream()?.as_any().downcast_ref()
}

/// One stream.
pub(crate) struct Stream {
    shared: Rc<Shared>,
    id: u32,
    /// The request's head, until it is admitted.
    request: RefCell<Option<http::Request<()>>>,
    /// Its `:path` has a `#`, of which the engine says nothing.
    has_fragment: bool,
    inlet: Rc<Inlet>,
    send: RefCell<Send>,
    staged: RefCell<Option<http::Response<()>>>,
}

enum Send {
    /// The head of the response has not been sent.
    Waiting(Guarded<SendResponse<Bytes>>),
    Begun(Sending),
}

impl Stream {
    pub(super) fn new(
        (request, respond): (http::Request<RecvStream>, SendResponse<Bytes>),
        shared: &Rc<Shared>,
        mailbox: &Arc<Mailbox<Command>>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let body = Guarded::new(body, &shared.engine);
        let receive = Receiving::new(body, Side::Downstream, promised(&parts.headers));
        let (id, has_more) = (respond.stream_id().as_u32(), !receive.is_nothing());
        let inlet = Rc::new(Inlet::new(Notifier::new(mailbox), Incoming::Begun(receive)));
        shared.enter();
        if has_more {
            shared.open_inlet(id, &inlet);
        }
        Self {
            has_fragment: shared.has_fragment(id),
            shared: shared.clone(),
            id,
            request: RefCell::new(Some(http::Request::from_parts(parts, ()))),
            inlet,
            send: RefCell::new(Send::Waiting(Guarded::new(respond, &shared.engine))),
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
        Some((request, self.inlet.with(|receiving| receiving.is_nothing())?))
    }

    /// Whether the engine has cut a `#` off the path of its request, with all behind it.
    pub(super) fn has_fragment(&self) -> bool {
        self.has_fragment
    }

    /// Ends the stream for what the client has done.
    fn reset_with(&self, reason: Reason) {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(respond) => {
                let _ = respond.get_mut().map(|respond| respond.send_reset(reason));
            }
            Send::Begun(sending) => sending.reset(reason),
        }
    }

    /// Sends an interim response, given as lines.
    pub(crate) fn inform(&self, head: &mut [u8]) {
        if let (Send::Waiting(respond), Some(response)) =
            (&mut *self.send.borrow_mut(), heads::response(head))
        {
            // The stream may be gone; that shows elsewhere.
            let _ = respond.get_mut().map(|respond| respond.send_informational(response));
        }
    }
}

impl Substream for Stream {
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let received = self.inlet.poll_recv(buffer);
        if matches!(received, Poll::Ready(Err(_))) && self.inlet.is_malformed() {
            self.reset_with(Reason::PROTOCOL_ERROR);
        }
        received
    }

    fn poll_send(&self, scheduler: &[IoSlice<'_>], last: bool) -> Poll<io::Result<usize>> {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Send::Begun(sending) => sending.poll((&self.shared, &self.inlet.bell.waker()), scheduler, last),
        }
    }

    fn set_owner(&self, owner: Owner) {
        self.inlet.bell.set_owner(owner);
    }

    fn is_readable(&self) -> bool {
        self.inlet.with(|receiving| receiving.is_readable()).unwrap_or(false)
    }

    fn is_gone(&self) -> bool {
        let waker = self.inlet.bell.waker();
        match &mut *self.send.borrow_mut() {
            Send::Waiting(respond) => {
                let context = &mut Context::from_waker(&waker);
                respond.get_mut().is_none_or(|respond| respond.poll_reset(context).is_ready())
            }
            Send::Begun(sending) => sending.is_gone(&waker),
        }
    }

    fn shutdown_write(&self) {
        let _ = self.finish(&[]);
    }

    fn reset(&self) {
        self.reset_with(Reason::INTERNAL_ERROR);
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
        let Some(respond) = respond.get_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let stream = respond.send_response(head, ended).map_err(io::Error::other)?;
        *place = Send::Begun(Sending::new(Guarded::new(stream, &self.shared.engine), ended));
        Ok(())
    }

    fn finish(&self, trailers: &[u8]) -> io::Result<()> {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(_) => Err(io::ErrorKind::NotConnected.into()),
            Send::Begun(sending) => sending.finish(trailers),
        }
    }

    fn trailers(&self) -> Vec<u8> {
        self.inlet.with(|receiving| receiving.trailers()).unwrap_or_default()
    }

    fn hold(&self, bytes: usize) {
        let _ = self.inlet.with(|receiving| receiving.hold(bytes));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Send::Begun(sending) = self.send.get_mut() {
            sending.leave(&self.shared);
            if sending.has_ended() && !std::thread::panicking() {
                self.shared.await_end(self.inlet.with(Receiving::take_ending).flatten());
            }
        }
        self.shared.close_inlet(self.id);
        self.shared.leave();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
