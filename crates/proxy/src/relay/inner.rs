//! The client end of a request that the proxy makes by itself: there is no client, only memory.
//!
//! The whole request is there before it is served, so nothing is ever received from this end. What is sent to it is the
//! response, which is kept up to a bound for the one who waits for it, counted and dropped where nobody does, or given
//! to a sink as it comes.

use super::Framed;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thalweg_core::{Fault, FaultKind};
use thalweg_net::{Owner, Socket, Substream};

/// What has come of a response.
#[derive(Debug, Default)]
pub(crate) struct InnerResponse {
    /// Lines, the first one the status line.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Who takes a response as it comes.
pub(crate) trait ResponseSink {
    /// An interim response, as lines.
    fn inform(&mut self, _lines: &[u8]) {}
    /// The head of the final response, as lines, the first one the status line; it goes out now.
    fn head(&mut self, head: &[u8]);
    /// Bytes of the body; says how many were taken. Pending: `context` is called when there is room.
    fn poll_push(&mut self, bytes: &[u8], context: &Context<'_>) -> Poll<io::Result<usize>>;
    /// It has taken nothing for some time: who holds others up is not waited for any longer.
    fn let_go(&mut self) {}
    /// Whether nobody wants the rest.
    fn is_done(&self) -> bool;
    /// What came of it; once. After `Ok`, the response was complete.
    fn end(&mut self, outcome: Result<(), Fault>);
}

/// A request of the proxy's own, shared by the task that serves it and whoever waits for it.
pub(crate) struct Inner {
    /// What is asked, until the task takes it.
    request: Cell<Option<Box<dyn Any>>>,
    response: RefCell<InnerResponse>,
    /// Bytes of body received.
    received: Cell<usize>,
    /// Bytes of body that may come.
    most: usize,
    /// Whether the body is kept.
    is_kept: bool,
    /// What came of it; `None` while it is under way.
    outcome: Cell<Option<Result<(), Fault>>>,
    /// It has been served, whether anybody has heard of it or not.
    has_ended: Cell<bool>,
    is_too_large: Cell<bool>,
    /// Nobody waits any more.
    is_given_up: Cell<bool>,
    /// Calls the task that serves it.
    task: RefCell<Option<Waker>>,
    /// Calls the one who waits.
    waiter: RefCell<Option<Waker>>,
    /// Takes the response in place of the one who waits.
    sink: Option<RefCell<Box<dyn ResponseSink>>>,
}

impl Inner {
    /// A request whose response has at most so many bytes of body, which are kept, or not.
    pub(crate) fn new(request: impl Any, (most, is_kept): (usize, bool)) -> Rc<Self> {
        Rc::new(Self::of(Box::new(request), (most, is_kept), None))
    }

    /// A request whose response goes to a sink, however long it is.
    pub(crate) fn to_sink(request: impl Any, sink: Box<dyn ResponseSink>) -> Rc<Self> {
        Rc::new(Self::of(Box::new(request), (usize::MAX, true), Some(RefCell::new(sink))))
    }

    fn of(
        request: Box<dyn Any>,
        (most, is_kept): (usize, bool),
        sink: Option<RefCell<Box<dyn ResponseSink>>>,
    ) -> Self {
        Self {
            request: Cell::new(Some(request)),
            response: RefCell::default(),
            received: Cell::new(0),
            most,
            is_kept,
            outcome: Cell::new(None),
            has_ended: Cell::new(false),
            is_too_large: Cell::new(false),
            is_given_up: Cell::new(false),
            task: RefCell::new(None),
            waiter: RefCell::new(None),
            sink,
        }
    }

    /// What is asked.
    pub(crate) fn take_request<T: 'static>(&self) -> Option<T> {
        Some(*self.request.take()?.downcast().ok()?)
    }

    /// Changes what is asked, while it waits to be served.
    pub(crate) fn change_request<T: 'static>(&self, change: impl FnOnce(&mut T)) {
        let mut request = self.request.take();
        if let Some(known) = request.as_mut().and_then(|request| request.downcast_mut()) {
            change(known);
        }
        self.request.set(request);
    }

    /// It has been served: tells the one who waits. What is said after the first time is not heard.
    pub(crate) fn end(&self, outcome: Result<(), Fault>) {
        if self.has_ended.replace(true) {
            return;
        }
        if let Some(sink) = &self.sink {
            sink.borrow_mut().end(outcome);
        }
        self.outcome.set(Some(outcome));
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    /// The response, when it is there; `waiter` is called then.
    pub(crate) fn poll(&self, waiter: &Waker) -> Poll<Result<InnerResponse, Fault>> {
        match self.outcome.take() {
            Some(outcome) => Poll::Ready(outcome.map(|()| self.response.take())),
            None => {
                self.waiter.replace(Some(waiter.clone()));
                Poll::Pending
            }
        }
    }

    /// An interim response has come, given as lines: who waits for the whole does not hear of it.
    pub(crate) fn inform(&self, lines: &[u8]) {
        if let Some(sink) = &self.sink {
            sink.borrow_mut().inform(lines);
        }
    }

    /// Its sink has taken nothing for some time.
    pub(crate) fn let_go(&self) {
        if let Some(sink) = &self.sink {
            sink.borrow_mut().let_go();
        }
    }

    /// Whether its response has more bytes than it may have.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is_too_large.get()
    }

    /// Nobody waits any more: what is under way is ended.
    pub(crate) fn give_up(&self) {
        self.is_given_up.set(true);
        if let Some(task) = self.task.borrow().as_ref() {
            task.wake_by_ref();
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("most", &self.most).finish_non_exhaustive()
    }
}

/// The end itself, as a socket holds it.
pub(crate) struct InnerEnd {
    inner: Rc<Inner>,
    /// Makes what calls an owner.
    waker: Box<dyn Fn(Owner) -> Waker>,
}

impl InnerEnd {
    /// The end of a request.
    pub(crate) fn new(inner: Rc<Inner>, waker: impl Fn(Owner) -> Waker + 'static) -> Self {
        Self { inner, waker: Box::new(waker) }
    }
}

impl InnerEnd {
    fn push(&self, sink: &mut dyn ResponseSink, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let task = self.inner.task.borrow();
        let context = Context::from_waker(task.as_ref().unwrap_or(Waker::noop()));
        let mut taken = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            match sink.poll_push(slice, &context) {
                Poll::Ready(Ok(n)) if n < slice.len() => return Poll::Ready(Ok(taken + n)),
                Poll::Ready(Ok(n)) => taken += n,
                Poll::Pending if taken > 0 => break,
                other => return other,
            }
        }
        Poll::Ready(Ok(taken))
    }
}

/// The request of the proxy's own that a socket stands for, if it does.
#[inline]
pub(crate) fn inner(socket: &Socket) -> Option<&Rc<Inner>> {
    end(socket).map(|end| &end.inner)
}

/// The end that a socket is, if it is one.
pub(super) fn end(socket: &Socket) -> Option<&InnerEnd> {
    socket.substream()?.as_any().downcast_ref()
}

impl Substream for InnerEnd {
    fn poll_recv(&self, _buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_send(&self, slices: &[IoSlice<'_>], _last: bool) -> Poll<io::Result<usize>> {
        if let Some(sink) = &self.inner.sink {
            return self.push(&mut **sink.borrow_mut(), slices);
        }
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let received = self.inner.received.get() + bytes;
        if received > self.inner.most {
            self.inner.is_too_large.set(true);
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.inner.received.set(received);
        if self.inner.is_kept {
            let mut response = self.inner.response.borrow_mut();
            slices.iter().for_each(|slice| response.body.extend_from_slice(slice));
        }
        Poll::Ready(Ok(bytes))
    }

    fn set_owner(&self, owner: Owner) {
        self.inner.task.replace(Some((self.waker)(owner)));
    }

    fn is_readable(&self) -> bool {
        false
    }

    fn is_gone(&self) -> bool {
        self.inner.is_given_up.get()
            || self.inner.is_too_large.get()
            || self.inner.sink.as_ref().is_some_and(|sink| sink.borrow().is_done())
    }

    fn shutdown_write(&self) {}

    fn reset(&self) {}

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Framed for InnerEnd {
    fn stage(&self, head: &mut [u8]) {
        if self.inner.is_kept {
            let mut response = self.inner.response.borrow_mut();
            response.head.clear();
            response.head.extend_from_slice(head);
        }
    }

    fn begin(&self, _ended: bool) -> io::Result<()> {
        if let Some(sink) = &self.inner.sink {
            sink.borrow_mut().head(&std::mem::take(&mut self.inner.response.borrow_mut().head));
        }
        Ok(())
    }

    fn finish(&self, _trailers: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn trailers(&self) -> Vec<u8> {
        Vec::new()
    }

    fn hold(&self, _bytes: usize) {}
}

impl Drop for InnerEnd {
    fn drop(&mut self) {
        // After an end this tells nobody anything; without one its task has panicked.
        self.inner.end(Err(Fault::new(FaultKind::ProxyInternalError, "a bug in the proxy ended it")));
    }
}

impl fmt::Debug for InnerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InnerEnd").finish_non_exhaustive()
    }
}
