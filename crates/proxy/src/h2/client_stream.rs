//! A stream of HTTP/2 as the endpoint's end of an exchange (RFC 9113 §5, §8.1).
//!
//! The request's head is staged as it was composed, in lines, and goes out when the exchange begins to send. The
//! response's head is given as lines too, once, before its payload.

use super::body::{Notifier, Receiving, Sending};
use super::client_connection::ConnectionHandle;
use super::guarded::Guarded;
use super::heads;
use super::inlet::{Arrived, Awaited, Incoming, Inlet};
use super::websocket;
use crate::relay::Framed;
use crate::state::exchange::{Client, Exchange};
use crate::state::waiting::{LATE, given_up};
use crate::state::worker::Worker;
use ::h2::client::SendRequest;
use ::h2::{Error, Reason};
use ::http::Method;
use ::http::header::CONTENT_TYPE;
use bytes::Bytes;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::h1::HeadLimits;
use thalweg_http::{Progress, ResponseHead};
use thalweg_net::{Owner, Socket, Substream};

/// A stream's end that is not that of its connection.
pub(crate) const RESET: &str = "the endpoint reset the stream before its response";

/// What has been composed is no request of HTTP/2.
pub(crate) const UNSAYABLE: Fault = Fault::request(400, "a request that cannot be said in HTTP/2");

/// The stream to an endpoint that a socket is, if it is one.
#[inline]
pub(crate) fn call(socket: &Socket) -> Option<&Call> {
    socket.substream()?.as_any().downcast_ref()
}

/// One stream.
pub(crate) struct Call {
    multiplexed: Rc<ConnectionHandle>,
    staged: RefCell<Option<Staged>>,
    send: RefCell<Send>,
    /// The answer.
    inlet: Rc<Inlet>,
    /// The stream, once its head went out; 0 before.
    id: Cell<u32>,
    /// When its head went out, in milliseconds of the worker's clock.
    began_ms: Cell<u64>,
}

/// A request's head that waits.
struct Staged {
    request: http::Request<()>,
    /// The proof that the client's WebSocket handshake was understood, which HTTP/2 does without.
    proof: Option<String>,
}

enum Send {
    /// The head of the request has not been sent.
    Waiting(Guarded<SendRequest<Bytes>>),
    Begun(Sending),
}

impl Call {
    pub(super) fn new(multiplexed: &Rc<ConnectionHandle>, requests: Guarded<SendRequest<Bytes>>) -> Self {
        multiplexed.shared.enter();
        Self {
            multiplexed: multiplexed.clone(),
            staged: RefCell::default(),
            send: RefCell::new(Send::Waiting(requests)),
            inlet: Rc::new(Inlet::new(Notifier::new(&multiplexed.mailbox), Incoming::None)),
            id: Cell::new(0),
            began_ms: Cell::new(0),
        }
    }

    /// Whether what is staged could be said in HTTP/2.
    pub(crate) fn is_staged(&self) -> bool {
        self.staged.borrow().is_some()
    }

    /// Waits until it is known whether the endpoint takes WebSockets over streams (RFC 8441 §3), within the time for a
    /// connect.
    ///
    /// # Errors
    /// `http_upgrade_failed`: it does not.
    pub(crate) async fn await_websockets(
        &self,
        worker: &Worker,
        client: &Client,
        x: &Exchange,
    ) -> Result<(), Fault> {
        let connect = x.timeouts().connect;
        x.set_deadline(client, worker.reactor.now(), connect);
        let known = poll_fn(|_| {
            if self.multiplexed.shared.poll_settled(&self.inlet.bell.waker()).is_ready() {
                return Poll::Ready(Ok(()));
            }
            given_up(worker, client, x, LATE).map_or(Poll::Pending, |fault| Poll::Ready(Err(fault)))
        });
        known.await?;
        client.socket.set_deadline(None);
        match &*self.send.borrow() {
            Send::Waiting(requests)
                if requests.get().is_some_and(SendRequest::is_extended_connect_protocol_enabled) =>
            {
                Ok(())
            }
            _ => Err(Fault::new(
                FaultKind::HttpUpgradeFailed,
                "the endpoint takes no WebSockets over HTTP/2 (RFC 8441)",
            )),
        }
    }

    /// The next head of the response, written to `out`, which is empty, as lines, and read into `head`. Says whether
    /// nothing comes behind it.
    ///
    /// # Errors
    /// As [`thalweg_http::h2::read_response`] says, and why there is none: `stream_refused` where the endpoint has not
    /// begun to work on the request.
    pub(crate) fn poll_head(
        &self,
        limits: &HeadLimits,
        head: &mut ResponseHead,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, Fault>> {
        let incoming = &mut *self.inlet.incoming.borrow_mut();
        let awaited = match incoming {
            Incoming::Awaited(awaited) => awaited,
            Incoming::Failed(fault) => return Poll::Ready(Err(*fault)),
            Incoming::None | Incoming::Begun(_) => return Poll::Pending,
        };
        let waker = self.inlet.bell.waker();
        let context = &mut Context::from_waker(&waker);
        if let Some(interim) = awaited.poll_interim(context) {
            heads::read_response(&interim, limits, head, out)?;
            return Poll::Ready(Ok(false));
        }
        let Some(arrived) = ready!(awaited.poll(context, &self.multiplexed.shared.engine)) else {
            let detail = "the connection to the endpoint failed within the proxy";
            return Poll::Ready(Err(Fault::new(FaultKind::ConnectionTerminated, detail)));
        };
        let Arrived { head: response, body, is_whole } = arrived.map_err(|error| self.fault_of(&error))?;
        heads::read_response(&response, limits, head, out)?;
        if let Some(proof) = awaited.proof.take().filter(|_| response.status().is_success()) {
            websocket::write_switch(out, head.len, &proof);
            head.clear();
            if head.parse(out, limits)? == Progress::Partial {
                return Poll::Ready(Err(Fault::response("a response head without its end")));
            }
        }
        *incoming = Incoming::Begun(body);
        Poll::Ready(Ok(is_whole))
    }

    /// What the end of a stream means for which no response has come.
    fn fault_of(&self, error: &Error) -> Fault {
        let detail = match error.reason() {
            // What is above the last stream that it named (RFC 9113 §6.8).
            _ if error.is_go_away() && error.is_remote() => "the endpoint was about to close the connection",
            Some(Reason::REFUSED_STREAM) if error.is_remote() => "the endpoint refused the stream",
            _ => return self.fault_of_end(error),
        };
        Fault::new(FaultKind::StreamRefused, detail)
    }

    fn fault_of_end(&self, error: &Error) -> Fault {
        // Who says nothing at all and closes is not there; who says something else speaks something else.
        if !error.is_io() && !self.multiplexed.shared.meter.borrow().has_settings() {
            return Fault::response("the endpoint does not speak HTTP/2");
        }
        if error.is_reset() && error.is_remote() {
            return Fault::new(FaultKind::ConnectionTerminated, RESET);
        }
        if error.is_io() || error.is_remote() {
            let detail = "the endpoint closed the connection before it answered";
            return Fault::new(FaultKind::ConnectionTerminated, detail);
        }
        Fault::response("the endpoint broke the rules of HTTP/2")
    }

    /// The endpoint has not answered in time. Where nothing at all has come on the connection since it was asked, that
    /// may be the connection's end: it takes no more requests.
    pub(crate) fn suspect(&self) {
        if self.multiplexed.is_silent_since(self.began_ms.get()) {
            self.multiplexed.retire();
        }
    }

    fn send_head(&self, requests: &mut Guarded<SendRequest<Bytes>>, ended: bool) -> Result<Sending, Fault> {
        let Some(Staged { request, proof }) = self.staged.take() else { return Err(UNSAYABLE) };
        let shared = &self.multiplexed.shared;
        let Some(requests) = requests.get_mut() else {
            return Err(Fault::new(FaultKind::StreamRefused, "the connection to the endpoint is over"));
        };
        let is_head = request.method() == Method::HEAD;
        let sent = requests.send_request(request, ended);
        let (response, stream) = sent.map_err(|error| self.fault_of(&error))?;
        let response = Guarded::new(response, &shared.engine);
        self.inlet.incoming.replace(Incoming::Awaited(Awaited::new(response, proof, is_head)));
        self.id.set(stream.stream_id().as_u32());
        shared.open_inlet(self.id.get(), &self.inlet);
        self.began_ms.set(shared.now_ms.get());
        Ok(Sending::new(Guarded::new(stream, &shared.engine), ended))
    }
}

impl Call {
    fn reset_with(&self, reason: Reason) {
        if let Send::Begun(sending) = &mut *self.send.borrow_mut() {
            sending.reset(reason);
        }
    }
}

impl Substream for Call {
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
            Send::Begun(sending) => {
                sending.poll((&self.multiplexed.shared, &self.inlet.bell.waker()), scheduler, last)
            }
        }
    }

    fn set_owner(&self, owner: Owner) {
        self.inlet.bell.set_owner(owner);
    }

    fn is_readable(&self) -> bool {
        self.inlet.with(|receiving| receiving.is_readable()).unwrap_or(false)
    }

    fn is_gone(&self) -> bool {
        match &mut *self.send.borrow_mut() {
            Send::Waiting(requests) => {
                let context = &mut Context::from_waker(Waker::noop());
                let ready = requests.get_mut().map(|requests| requests.poll_ready(context));
                matches!(ready, None | Some(Poll::Ready(Err(_))))
            }
            Send::Begun(sending) => sending.is_gone(&self.inlet.bell.waker()),
        }
    }

    fn shutdown_write(&self) {
        let _ = self.finish(&[]);
    }

    fn reset(&self) {
        self.reset_with(Reason::CANCEL);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Framed for Call {
    fn stage(&self, head: &mut [u8]) {
        let staged = heads::request(head, self.multiplexed.is_secure, &self.multiplexed.authority);
        self.staged.replace(staged.map(|(request, key)| {
            let proof = key.map(|key| websocket::answer_to(&key));
            Staged { request, proof }
        }));
    }

    fn begin(&self, ended: bool) -> io::Result<()> {
        let place = &mut *self.send.borrow_mut();
        let Send::Waiting(requests) = place else { return Err(io::ErrorKind::AlreadyExists.into()) };
        let sent = self.send_head(requests, ended);
        // Who sends looks at the answer for the reason.
        *place = Send::Begun(sent.map_err(|fault| {
            self.inlet.incoming.replace(Incoming::Failed(fault));
            io::Error::other(fault)
        })?);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.staged.borrow().as_ref().is_some_and(|staged| staged.proof.is_some())
    }

    /// A request of gRPC says its end with a frame of its own, also where nothing else stands in it ("gRPC over
    /// HTTP/2", EOS): grpc-go waits for ever otherwise.
    fn ends_apart(&self) -> bool {
        let staged = self.staged.borrow();
        let media = staged.as_ref().and_then(|staged| staged.request.headers().get(CONTENT_TYPE));
        media.is_some_and(|media| media.as_bytes().starts_with(b"application/grpc"))
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

impl Drop for Call {
    fn drop(&mut self) {
        if let Send::Begun(sending) = self.send.get_mut() {
            sending.leave(&self.multiplexed.shared);
            if sending.has_ended() && !std::thread::panicking() {
                self.multiplexed.shared.await_end(self.inlet.with(Receiving::take_ending).flatten());
            }
        }
        self.multiplexed.shared.close_inlet(self.id.get());
        self.multiplexed.shared.leave();
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
