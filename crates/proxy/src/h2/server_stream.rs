//! A stream of HTTP/2 as the client end of an exchange (RFC 9113 §5, §8.1).

use super::body::{Notifier, Receiving, Sending, promised};
use super::heads;
use super::shared::Shared;
use crate::relay::Framed;
use crate::worker::pool::Command;
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
    bell: Notifier,
    shared: Rc<Shared>,
    /// The request's head, until it is admitted.
    request: RefCell<Option<http::Request<()>>>,
    receive: RefCell<Receiving>,
    send: RefCell<Send>,
    staged: RefCell<Option<http::Response<()>>>,
}

enum Send {
    /// The head of the response has not been sent.
    Waiting(SendResponse<Bytes>),
    Begun(Sending),
}

impl Stream {
    pub(super) fn new(
        (request, respond): (http::Request<RecvStream>, SendResponse<Bytes>),
        shared: &Rc<Shared>,
        mailbox: &Arc<Mailbox<Command>>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let receive = Receiving::new(body, Side::Downstream, promised(&parts.headers));
        shared.enter();
        Self {
            bell: Notifier::new(mailbox),
            shared: shared.clone(),
            request: RefCell::new(Some(http::Request::from_parts(parts, ()))),
            receive: RefCell::new(receive),
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
        Some((request, self.receive.borrow().is_nothing()))
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
}

impl Substream for Stream {
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.receive.borrow_mut().poll(&self.bell.waker(), buffer)
    }

    fn poll_send(&self, scheduler: &[IoSlice<'_>], last: bool) -> Poll<io::Result<usize>> {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Send::Begun(sending) => sending.poll((&self.shared, &self.bell.waker()), scheduler, last),
        }
    }

    fn set_owner(&self, owner: Owner) {
        self.bell.set_owner(owner);
    }

    fn is_readable(&self) -> bool {
        self.receive.borrow().is_readable()
    }

    fn is_gone(&self) -> bool {
        let waker = self.bell.waker();
        match &mut *self.send.borrow_mut() {
            Send::Waiting(respond) => respond.poll_reset(&mut Context::from_waker(&waker)).is_ready(),
            Send::Begun(sending) => sending.is_gone(&waker),
        }
    }

    fn shutdown_write(&self) {
        let _ = self.finish(&[]);
    }

    fn reset(&self) {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(respond) => respond.send_reset(Reason::INTERNAL_ERROR),
            Send::Begun(sending) => sending.reset(Reason::INTERNAL_ERROR),
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
        let stream = respond.send_response(head, ended).map_err(io::Error::other)?;
        *place = Send::Begun(Sending::new(stream, ended));
        Ok(())
    }

    fn finish(&self, trailers: &[u8]) -> io::Result<()> {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(_) => Err(io::ErrorKind::NotConnected.into()),
            Send::Begun(sending) => sending.finish(trailers),
        }
    }

    fn trailers(&self) -> Vec<u8> {
        self.receive.borrow().trailers()
    }

    fn hold(&self, bytes: usize) {
        self.receive.borrow_mut().hold(bytes);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Send::Begun(sending) = self.send.get_mut() {
            sending.leave(&self.shared);
            if sending.has_ended() {
                self.shared.await_end(self.receive.get_mut().take_ending());
            }
        }
        self.shared.leave();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
