//! What the streams of a connection have in common.

use std::cell::{Cell, RefCell};
use std::task::Waker;
use thalweg_tls::Facts;

/// Bytes of payload that all streams of a connection may hand to the engine before it has passed them on: more would wait there,
/// for a client that takes it slowly.
const GIVEN: usize = 256 * 1024;

/// Of one connection.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Streams whose exchanges are under way.
    pub(super) streams: Cell<u32>,
    /// Bytes that the engine holds for the client.
    given: Cell<usize>,
    /// Those who wait for it to hold less.
    waiting: RefCell<Vec<Waker>>,
    /// Wakes who drives the engine.
    session: Waker,
    /// What TLS has agreed on; `None`: the connection is plain.
    tls: Option<Facts>,
}

impl Shared {
    pub(super) fn new(session: Waker, tls: Option<Facts>) -> Self {
        Self { streams: Cell::new(0), given: Cell::new(0), waiting: RefCell::default(), session, tls }
    }

    /// What TLS has agreed on; `None`: the connection is plain.
    pub(crate) fn tls(&self) -> Option<&Facts> {
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

    /// A stream has handed over so much.
    pub(super) fn gave(&self, bytes: usize) {
        self.given.set(self.given.get() + bytes);
    }

    /// The engine has passed on all that it can.
    pub(super) fn took_all(&self) {
        if self.given.replace(0) >= GIVEN {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// A stream is over.
    pub(super) fn leave(&self) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() == 0 {
            self.session.wake_by_ref();
        }
    }
}
