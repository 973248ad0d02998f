//! What the streams of a connection have in common.

use crate::secure::Known;
use ::h2::RecvStream;
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use thalweg_core::Side;
use thalweg_http::h2::{Allow, Flood, Meter, MeterLimits};

/// Bytes of payload that all streams of a connection may hand to the engine before it has passed them on: more would wait there,
/// for a client that takes it slowly.
const GIVEN: usize = 256 * 1024;

/// Of one connection.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What is made of its frames.
    pub(super) meter: RefCell<Meter>,
    /// What the client has done that the meter does not bear.
    pub(super) flood: Cell<Option<Flood>>,
    /// The time of this turn, in milliseconds of the worker's clock.
    pub(super) now_ms: Cell<u64>,
    /// Streams whose exchanges are under way.
    pub(super) streams: Cell<u32>,
    /// Bodies of exchanges that are over, of which all has come but the word that it was all. The engine counts them as open, which
    /// bounds them.
    ending: RefCell<Vec<RecvStream>>,
    /// Bytes that the engine holds for the client.
    given: Cell<usize>,
    /// Those who wait for it to hold less.
    waiting: RefCell<Vec<Waker>>,
    /// Wakes who drives the engine.
    session: Waker,
    /// What TLS has agreed on; `None`: the connection is plain.
    tls: Option<Known>,
}

impl Shared {
    pub(super) fn new(session: Waker, tls: Option<Known>, limits: MeterLimits) -> Self {
        let meter = RefCell::new(Meter::new(Side::Downstream, limits));
        let (flood, now_ms) = (Cell::new(None), Cell::new(0));
        Self {
            meter,
            flood,
            now_ms,
            streams: Cell::new(0),
            ending: RefCell::default(),
            given: Cell::new(0),
            waiting: RefCell::default(),
            session,
            tls,
        }
    }

    /// What TLS has agreed on; `None`: the connection is plain.
    pub(crate) fn tls(&self) -> Option<&Known> {
        self.tls.as_ref()
    }

    /// Whether a stream may hand over more; if not, it is woken when it may.
    pub(super) fn may_give(&self, waker: &Waker) -> bool {
        let may = self.given.get() < GIVEN;
        if !may {
            self.waiting.borrow_mut().push(waker.clone());
        }
        may
    }

    /// A stream has handed over so much. `is_cramped`: it has more, and the client has no window for that.
    pub(super) fn gave(&self, bytes: usize, is_cramped: bool) {
        self.given.set(self.given.get() + bytes);
        if is_cramped {
            self.meter.borrow_mut().cramped(bytes);
        }
    }

    /// The engine has written this.
    pub(super) fn wrote(&self, bytes: &[u8]) {
        let sent = self.meter.borrow_mut().outbound(bytes);
        let left = self.given.get().saturating_sub(sent.payload);
        if self.given.replace(left) >= GIVEN && left < GIVEN {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// What of these received bytes the engine may have; `None`: nothing ever again.
    pub(super) fn inbound(&self, bytes: &[u8]) -> Option<Allow> {
        let judged = self.meter.borrow_mut().inbound(bytes, self.now_ms.get());
        judged.inspect_err(|flood| self.flood.set(Some(*flood))).ok()
    }

    /// Keeps a body until its end has been said.
    pub(super) fn await_end(&self, body: Option<RecvStream>) {
        self.ending.borrow_mut().extend(body);
    }

    /// Lets go of those whose end has been said, or will never be. Called when the engine has read.
    pub(super) fn end(&self) {
        let context = &mut Context::from_waker(Waker::noop());
        self.ending.borrow_mut().retain_mut(|body| {
            loop {
                match body.poll_data(context) {
                    // A frame without payload.
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return false,
                    Poll::Pending => return true,
                }
            }
        });
    }

    /// A stream is over.
    pub(super) fn leave(&self) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() == 0 {
            self.session.wake_by_ref();
        }
    }
}
