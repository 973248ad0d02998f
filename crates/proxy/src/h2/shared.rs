//! What the streams of a connection have in common.

use super::guarded::{Guarded, RelayError};
use super::inlet::Inlet;
use crate::tls::layer::Known;
use ::h2::RecvStream;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thalweg_core::Side;
use thalweg_http::h2::{Allow, Flood, FloodGuard, FloodLimits, Note};
use thalweg_upstream::StreamLine;

/// Bytes of payload that all streams of a connection may hand to the engine before it has passed them on: more would
/// wait there, for a peer that takes it slowly.
const GIVEN: usize = 256 * 1024;

/// How long an end is waited for that says nothing new, in milliseconds.
const ENDING_MS: u64 = 5000;

/// Of one connection.
pub(crate) struct Shared {
    /// Whether its engine has panicked.
    pub(super) engine: RelayError,
    /// What is made of its frames.
    pub(super) meter: RefCell<FloodGuard>,
    /// What the peer has done that the meter does not bear.
    pub(super) flood: Cell<Option<Flood>>,
    /// The time of this turn, in milliseconds of the worker's clock.
    pub(super) now_ms: Cell<u64>,
    /// Streams whose exchanges are under way.
    pub(super) streams: Cell<u32>,
    /// Where connections without one are counted.
    idle: RefCell<Option<Rc<Cell<usize>>>>,
    /// Bodies of exchanges that are over, of which all has come but the word that it was all, and since when. The
    /// engine counts them as open, which bounds them.
    ending: RefCell<Vec<(Guarded<RecvStream>, u64)>>,
    /// Where what comes on a stream waits, by stream.
    inlets: RefCell<BTreeMap<u32, Rc<Inlet>>>,
    /// Those who wait for the engine to hold less.
    waiting: RefCell<Vec<Waker>>,
    /// Wakes who drives the engine.
    session: Waker,
    /// Those who wait for the peer's settings.
    settling: RefCell<Vec<Waker>>,
    /// They would wait in vain.
    is_over: Cell<bool>,
    /// Those who wait for a stream, where the peer is an endpoint.
    line: Option<Rc<StreamLine>>,
    /// What TLS has agreed on; `None`: the connection is plain.
    tls: Option<Known>,
}

impl Shared {
    /// Of a connection with a client.
    pub(super) fn with_client(session: Waker, tls: Option<Known>, limits: FloodLimits) -> Self {
        Self { tls, ..Self::new(Side::Downstream, session, limits) }
    }

    /// Of a connection with an endpoint, for whose streams there is a line.
    pub(super) fn with_endpoint(session: Waker, line: Rc<StreamLine>, limits: FloodLimits) -> Self {
        Self { line: Some(line), ..Self::new(Side::Upstream, session, limits) }
    }

    fn new(peer: Side, session: Waker, limits: FloodLimits) -> Self {
        Self {
            engine: RelayError::default(),
            meter: RefCell::new(FloodGuard::new(peer, limits)),
            flood: Cell::new(None),
            now_ms: Cell::new(0),
            streams: Cell::new(0),
            idle: RefCell::default(),
            ending: RefCell::default(),
            inlets: RefCell::default(),
            waiting: RefCell::default(),
            session,
            settling: RefCell::default(),
            is_over: Cell::new(false),
            line: None,
            tls: None,
        }
    }

    /// What TLS has agreed on; `None`: the connection is plain.
    pub(crate) fn tls(&self) -> Option<&Known> {
        self.tls.as_ref()
    }

    /// Whether a stream may hand over more; if not, it is woken when it may.
    pub(super) fn may_give(&self, waker: &Waker) -> bool {
        let may = self.held() < GIVEN;
        if !may {
            add(&self.waiting, waker);
        }
        may
    }

    /// Bytes that the engine holds for the peer.
    pub(super) fn held(&self) -> usize {
        self.meter.borrow().held()
    }

    /// Bytes received on streams that wait for their exchanges.
    pub(super) fn received(&self) -> usize {
        self.inlets.borrow().values().map(|inlet| inlet.held()).sum()
    }

    /// A stream has handed over so much. `is_cramped`: it has more, and the peer has no window for that.
    pub(super) fn gave(&self, stream: u32, bytes: usize, is_cramped: bool) {
        self.meter.borrow_mut().gave(stream, bytes, is_cramped);
    }

    /// The engine has written this.
    pub(super) fn wrote(&self, bytes: &[u8]) {
        self.meter.borrow_mut().outbound(bytes);
        self.let_go();
    }

    /// The engine holds nothing of a stream any more.
    pub(super) fn forget(&self, stream: u32) {
        self.meter.borrow_mut().forget(stream);
        self.let_go();
    }

    /// It may hold less than before.
    fn let_go(&self) {
        if !self.waiting.borrow().is_empty() && self.held() < GIVEN {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Something comes on a stream, which waits here.
    pub(super) fn open_inlet(&self, stream: u32, inlet: &Rc<Inlet>) {
        self.inlets.borrow_mut().insert(stream, inlet.clone());
    }

    /// Nobody takes any more of what comes on a stream.
    pub(super) fn close_inlet(&self, stream: u32) {
        let inlet = self.inlets.borrow_mut().remove(&stream);
        drop(inlet);
    }

    /// Whether the `:path` of a request that the engine has just given has a `#`.
    pub(super) fn has_fragment(&self, stream: u32) -> bool {
        self.meter.borrow().has_fragment(stream)
    }

    /// Tells streams what the engine does not. Called when the engine has taken in what has come.
    pub(super) fn tell_streams(&self) {
        let notes = self.meter.borrow_mut().take_notes();
        if notes.is_empty() {
            return;
        }
        let inlets = self.inlets.borrow();
        // What is told of the end is known before the end is taken.
        for note in &notes {
            if let Note::PseudoAtEnd { stream } = note {
                inlets.get(stream).iter().for_each(|inlet| inlet.note_pseudo_at_end());
            }
        }
        for note in &notes {
            if let Note::Crumb { stream } = note {
                inlets.get(stream).iter().for_each(|inlet| inlet.note_crumb(&self.engine));
            }
        }
    }

    /// The engine has panicked: nothing of it is called any more, and those who wait for it are woken.
    pub(super) fn engine_panicked(&self) {
        self.engine.set();
        self.inlets.borrow().values().for_each(|inlet| inlet.bell.waker().wake_by_ref());
        self.is_over();
    }

    /// What of these received bytes the engine may have; `None`: nothing ever again.
    pub(super) fn inbound(&self, bytes: &[u8]) -> Option<Allow> {
        let judged = self.meter.borrow_mut().inbound(bytes, self.now_ms.get());
        self.let_go();
        judged.inspect_err(|flood| self.flood.set(Some(*flood))).ok()
    }

    /// Whether the peer's settings have come, or its connection is over; if not, who asks is woken then.
    pub(super) fn poll_settled(&self, waker: &Waker) -> Poll<()> {
        if self.is_over.get() || self.meter.borrow().has_settings() {
            return Poll::Ready(());
        }
        add(&self.settling, waker);
        Poll::Pending
    }

    /// No stream begins any more.
    pub(super) fn is_over(&self) {
        self.is_over.set(true);
        self.settling.take().into_iter().for_each(Waker::wake);
    }

    /// The engine has taken in what has come.
    pub(super) fn took(&self) {
        if self.meter.borrow().has_settings() {
            self.settling.take().into_iter().for_each(Waker::wake);
        }
    }

    /// A stream begins.
    pub(super) fn enter(&self) {
        if self.streams.get() == 0 {
            self.idle.borrow().iter().for_each(|idle| idle.set(idle.get() - 1));
        }
        self.streams.set(self.streams.get() + 1);
    }

    /// Connections without a stream are counted here, and this one is one.
    pub(super) fn count_in(&self, idle: &Rc<Cell<usize>>) {
        idle.set(idle.get() + 1);
        self.idle.replace(Some(idle.clone()));
    }

    /// The connection is over, whatever becomes of its streams.
    pub(super) fn count_out(&self) {
        if let Some(idle) = self.idle.take().filter(|_| self.streams.get() == 0) {
            idle.set(idle.get() - 1);
        }
    }

    /// Keeps a body until its end has been said.
    pub(super) fn await_end(&self, body: Option<Guarded<RecvStream>>) {
        self.ending.borrow_mut().extend(body.map(|body| (body, self.now_ms.get())));
    }

    /// Streams that the engine counts as open.
    pub(super) fn open(&self) -> usize {
        self.streams.get() as usize + self.ending.borrow().len()
    }

    /// Waits for no end any longer.
    pub(super) fn await_nothing(&self) {
        self.ending.take();
    }

    /// Lets go of those whose end has been said, or will never be. Called when the engine has read.
    pub(super) fn end(&self) {
        let before = self.ending.borrow().len();
        let context = &mut Context::from_waker(Waker::noop());
        let now_ms = self.now_ms.get();
        self.ending.borrow_mut().retain_mut(|(body, since)| {
            loop {
                let Some(body) = body.get_mut() else { return false };
                match body.poll_data(context) {
                    // A frame without payload.
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return false,
                    Poll::Pending => return now_ms.saturating_sub(*since) < ENDING_MS,
                }
            }
        });
        if let Some(line) = &self.line {
            line.wake(before - self.ending.borrow().len());
        }
    }

    /// A stream is over.
    pub(super) fn leave(&self) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() == 0 {
            self.idle.borrow().iter().for_each(|idle| idle.set(idle.get() + 1));
            self.session.wake_by_ref();
        }
        if let Some(line) = &self.line {
            line.wake(1);
        }
    }

    /// Whoever waits for a stream looks again.
    pub(super) fn wake_line(&self) {
        if let Some(line) = &self.line {
            line.wake(usize::MAX);
        }
    }
}

/// Adds one, once.
fn add(wakers: &RefCell<Vec<Waker>>, waker: &Waker) {
    let mut wakers = wakers.borrow_mut();
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (streams, flood) = (self.streams.get(), self.flood.get());
        f.debug_struct("Shared").field("streams", &streams).field("flood", &flood).finish_non_exhaustive()
    }
}
