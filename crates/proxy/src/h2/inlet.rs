//! What comes on a stream, from the engine to the exchange: the head of a response, payload, trailers.
//!
//! Small DATA frames cost the engine more than their payload, as long as nobody takes them, and all that it keeps of a
//! connection is shared: so those of a stream whose exchange does not take them are taken over here and kept as one
//! piece of bytes. Their window stays closed as if they were still there, so what is kept is at most the window of the
//! stream.

use super::body::{Notifier, Receiving, promised};
use super::guarded::{Guarded, RelayError};
use ::h2::client::ResponseFuture;
use ::h2::{Error, RecvStream};
use ::http::Response;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use thalweg_core::{Fault, Side, limits};

/// One direction of a stream, shared by its exchange and its connection.
pub(super) struct Inlet {
    pub(super) bell: Notifier,
    pub(super) incoming: RefCell<Incoming>,
    /// Small frames that the engine may have of it.
    crumbs: Cell<u32>,
    /// The section that ends the message has pseudo-fields.
    has_pseudo_at_end: Cell<bool>,
}

/// How far the message is.
pub(super) enum Incoming {
    /// Nothing has been asked.
    None,
    /// The head of the response is awaited.
    Awaited(Awaited),
    /// The head has been taken.
    Begun(Receiving),
    /// There will be none: the request could not be sent.
    Failed(Fault),
}

/// A response to come.
pub(super) struct Awaited {
    response: Guarded<ResponseFuture>,
    /// What came of it when small frames came behind its head.
    arrived: Option<Result<Arrived, Error>>,
    pub(super) proof: Option<String>,
    /// The request was HEAD: no payload comes, whatever the head says.
    is_head: bool,
}

/// A response whose head is here.
pub(super) struct Arrived {
    pub(super) head: Response<()>,
    pub(super) body: Receiving,
    /// Nothing comes behind the head.
    pub(super) is_whole: bool,
}

impl Awaited {
    pub(super) fn new(response: Guarded<ResponseFuture>, proof: Option<String>, is_head: bool) -> Self {
        Self { response, arrived: None, proof, is_head }
    }

    /// Bytes received after the head.
    fn waiting(&mut self) -> usize {
        match &mut self.arrived {
            Some(Ok(arrived)) => arrived.body.waiting(),
            _ => 0,
        }
    }

    /// The next interim response.
    pub(super) fn poll_interim(&mut self, context: &mut Context<'_>) -> Option<Response<()>> {
        let response = self.response.get_mut().filter(|_| self.arrived.is_none())?;
        match response.poll_informational(context) {
            Poll::Ready(Some(Ok(interim))) => Some(interim),
            Poll::Ready(_) | Poll::Pending => None,
        }
    }

    /// The response; `None`: the engine has panicked.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        engine: &RelayError,
    ) -> Poll<Option<Result<Arrived, Error>>> {
        if let Some(arrived) = self.arrived.take() {
            return Poll::Ready(Some(arrived));
        }
        let Some(response) = self.response.get_mut() else { return Poll::Ready(None) };
        Pin::new(response).poll(context).map(|response| Some(response.map(|it| self.arrive(it, engine))))
    }

    fn arrive(&self, response: Response<RecvStream>, engine: &RelayError) -> Arrived {
        let (parts, body) = response.into_parts();
        let head = Response::from_parts(parts, ());
        let is_whole = body.is_end_stream();
        let is_bare = self.is_head || matches!(head.status().as_u16(), 204 | 304);
        let promised = if is_bare { Some(0) } else { promised(head.headers()) };
        let body = Receiving::new(Guarded::new(body, engine), Side::Upstream, promised);
        Arrived { head, body, is_whole }
    }
}

impl Inlet {
    pub(super) fn new(bell: Notifier, incoming: Incoming) -> Self {
        Self {
            bell,
            incoming: RefCell::new(incoming),
            crumbs: Cell::new(0),
            has_pseudo_at_end: Cell::new(false),
        }
    }

    /// Asks something of the message whose head has been taken.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&mut Receiving) -> T) -> Option<T> {
        match &mut *self.incoming.borrow_mut() {
            Incoming::Begun(receiving) => Some(ask(receiving)),
            Incoming::None | Incoming::Awaited(_) | Incoming::Failed(_) => None,
        }
    }

    /// Received bytes that wait for the exchange.
    pub(super) fn held(&self) -> usize {
        match &mut *self.incoming.borrow_mut() {
            Incoming::Begun(receiving) => receiving.waiting(),
            Incoming::Awaited(awaited) => awaited.waiting(),
            Incoming::None | Incoming::Failed(_) => 0,
        }
    }

    /// Takes payload; 0: the message is over.
    pub(super) fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let is_malformed = self.has_pseudo_at_end.get();
        let polled = self.with(|receiving| receiving.poll(&self.bell.waker(), buffer, is_malformed));
        if polled.as_ref().is_some_and(Poll::is_pending) {
            // The engine has nothing left.
            self.crumbs.set(0);
        }
        polled.unwrap_or(Poll::Pending)
    }

    /// Whether the message has come to an end that makes it malformed.
    pub(super) fn is_malformed(&self) -> bool {
        self.with(|receiving| receiving.is_malformed()).unwrap_or(false)
    }

    /// The section that ends the message has pseudo-fields.
    pub(super) fn note_pseudo_at_end(&self) {
        self.has_pseudo_at_end.set(true);
    }

    /// The engine has a small frame more. Some of them it may keep.
    pub(super) fn note_crumb(&self, engine: &RelayError) {
        self.crumbs.set(self.crumbs.get() + 1);
        if self.crumbs.get() <= limits::H2_CRUMBS {
            return;
        }
        self.crumbs.set(0);
        let waker = self.bell.waker();
        let is_malformed = self.has_pseudo_at_end.get();
        match &mut *self.incoming.borrow_mut() {
            Incoming::Begun(receiving) => receiving.keep(&waker, is_malformed),
            // Interim responses are late where the final one is here.
            Incoming::Awaited(awaited) => {
                let polled = awaited.poll(&mut Context::from_waker(&waker), engine);
                if let Poll::Ready(Some(mut arrived)) = polled {
                    if let Ok(arrived) = &mut arrived {
                        arrived.body.keep(&waker, is_malformed);
                    }
                    awaited.arrived = Some(arrived);
                }
            }
            Incoming::None | Incoming::Failed(_) => {}
        }
    }
}
