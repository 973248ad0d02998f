//! Connections to one member that carry several requests at once (RFC 9113), of one worker.
//!
//! The first one that has room takes the next request, so that there are few. Where none has, another is opened, and
//! who comes meanwhile waits for it: a burst at a cold service makes one connection, not hundreds. When that fails it
//! has failed for all of them. Where no other may be opened, they wait in line for the end of a request.
//!
//! Pure bookkeeping: what a multiplexed connection is made of is the proxy's business.

use crate::connection::Connection;
use crate::service::PoolPolicy;
use crate::wire::Wire;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use thalweg_core::Fault;

/// A connection that carries several requests at once.
pub trait Multiplexed<W>: Debug {
    /// Takes up one more request; `None`: not now.
    fn open(&self) -> Option<W>;
    /// Whether it would take up one more.
    fn has_room(&self) -> bool;
    /// Whether it never takes one again.
    fn is_over(&self) -> bool;
    /// Whether nothing is under way on it.
    fn is_idle(&self) -> bool;
    /// Takes no more; it ends when those under way have.
    fn leave(&self);
}

/// What a member speaks, as its last connection told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Speaks {
    /// HTTP/1.1: a request at a time on a connection.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The multiplexed connections to one member.
#[derive(Debug)]
pub struct MultiplexedPool<W: Wire> {
    open: RefCell<Vec<Kept<W>>>,
    /// One is on its way.
    is_opening: Cell<bool>,
    /// The last failure to open one, and how many there were.
    failed: Cell<(u64, Option<Fault>)>,
    line: Rc<StreamLine>,
    speaks: Cell<Option<Speaks>>,
}

#[derive(Debug)]
struct Kept<W> {
    multiplexed: Rc<dyn Multiplexed<W>>,
    opened: Instant,
    requests: u32,
}

impl<W: Wire> Default for MultiplexedPool<W> {
    fn default() -> Self {
        Self {
            open: RefCell::default(),
            is_opening: Cell::new(false),
            failed: Cell::new((0, None)),
            line: Rc::default(),
            speaks: Cell::new(None),
        }
    }
}

impl<W: Wire> MultiplexedPool<W> {
    /// What the member speaks, as its last connection told; `None`: there was none.
    pub fn speaks(&self) -> Option<Speaks> {
        self.speaks.get()
    }

    /// A new connection has told what the member speaks.
    pub fn note(&self, speaks: Speaks) {
        self.speaks.set(Some(speaks));
        if speaks == Speaks::Http1 {
            self.line.wake(usize::MAX);
        }
    }

    /// Where exchanges wait for the end of others.
    pub fn line(&self) -> &Rc<StreamLine> {
        &self.line
    }

    /// A stream on the first multiplexed connection that has room; those that are too old or have carried enough take
    /// no more. Who has not waited stands behind those who do (`waited`).
    pub fn take(&self, policy: &PoolPolicy, now: Instant, waited: bool) -> Option<Connection<W>> {
        let mut open = self.open.borrow_mut();
        if open.is_empty() || (!waited && !self.line.is_empty()) {
            return None;
        }
        open.retain(|kept| {
            let young = now.saturating_duration_since(kept.opened) < policy.max_age
                && kept.requests < policy.max_requests;
            if !young {
                kept.multiplexed.leave();
            }
            young && !kept.multiplexed.is_over()
        });
        let (kept, wire) =
            open.iter_mut().find_map(|kept| kept.multiplexed.open().map(|wire| (kept, wire)))?;
        kept.requests += 1;
        Some(Connection::stream(wire, kept.opened, kept.requests - 1))
    }

    /// Whether one would take up a request of who waits for none.
    pub fn has_room(&self) -> bool {
        self.line.is_empty() && self.open.borrow().iter().any(|kept| kept.multiplexed.has_room())
    }

    /// Keeps a new multiplexed connection; who waits for it goes on.
    pub fn add(&self, multiplexed: Rc<dyn Multiplexed<W>>, now: Instant) {
        self.speaks.set(Some(Speaks::Http2));
        self.open.borrow_mut().push(Kept { multiplexed, opened: now, requests: 0 });
        self.line.wake(usize::MAX);
    }

    /// Whether somebody is opening one.
    pub fn is_opening(&self) -> bool {
        self.is_opening.get()
    }

    /// Whether there is one that is not over.
    pub fn is_empty(&self) -> bool {
        self.open.borrow().iter().all(|kept| kept.multiplexed.is_over())
    }

    /// Says that one is opened, until what it gives is dropped.
    pub fn begin_opening(&self) -> OpeningGuard<'_, W> {
        self.is_opening.set(true);
        OpeningGuard(self)
    }

    /// How often it has failed.
    pub fn failures(&self) -> u64 {
        self.failed.get().0
    }

    /// Why it has failed since there were so many failures.
    pub fn failed_since(&self, failures: u64) -> Option<Fault> {
        let (now, fault) = self.failed.get();
        fault.filter(|_| now > failures)
    }

    /// MultiplexedPool on which nothing is under way.
    pub fn idle(&self) -> usize {
        let open = self.open.borrow();
        open.iter().filter(|kept| kept.multiplexed.is_idle() && !kept.multiplexed.is_over()).count()
    }

    /// Ends one on which nothing is under way; says whether there was one.
    pub fn evict(&self) -> bool {
        let mut open = self.open.borrow_mut();
        let Some(at) = open.iter().position(|kept| kept.multiplexed.is_idle() && !kept.multiplexed.is_over())
        else {
            return false;
        };
        open.remove(at).multiplexed.leave();
        true
    }

    /// Forgets those that are over.
    pub fn sweep(&self) {
        self.open.borrow_mut().retain(|kept| !kept.multiplexed.is_over());
    }

    /// None takes a request from now on.
    pub fn close(&self) {
        self.open.take().into_iter().for_each(|kept| kept.multiplexed.leave());
        self.line.wake(usize::MAX);
    }
}

/// A multiplexed connection that is on its way. Dropped without a word, the next in line tries it.
#[derive(Debug)]
pub struct OpeningGuard<'a, W: Wire>(&'a MultiplexedPool<W>);

impl<W: Wire> OpeningGuard<'_, W> {
    /// There will be none: nor for those who wait for it.
    pub fn fail(self, fault: Fault) {
        let (failures, _) = self.0.failed.get();
        self.0.failed.set((failures + 1, Some(fault)));
        self.0.line.wake(usize::MAX);
    }
}

impl<W: Wire> Drop for OpeningGuard<'_, W> {
    fn drop(&mut self) {
        self.0.is_opening.set(false);
        self.0.line.wake(1);
    }
}

/// Exchanges that wait for a stream, first come first served.
#[derive(Debug, Default)]
pub struct StreamLine {
    next: Cell<u64>,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
}

impl StreamLine {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Calls the first `count`.
    pub fn wake(&self, count: usize) {
        let mut waiting = self.waiting.borrow_mut();
        let count = count.min(waiting.len());
        waiting.drain(..count).for_each(|(_, waker)| waker.wake());
    }

    /// Joins the end; what it gives is called with [`Waiting::poll`].
    pub fn join(self: &Rc<Self>) -> Waiting {
        Waiting { line: self.clone(), number: None }
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.waiting.borrow().binary_search_by_key(&number, |waiting| waiting.0).ok()
    }
}

/// A place in line. Dropped when it has been called and not used that ([`Waiting::served`]), it hands the call on.
#[derive(Debug)]
pub struct Waiting {
    line: Rc<StreamLine>,
    number: Option<u64>,
}

impl Waiting {
    /// Whether it has been called.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.number {
            None => {
                let number = self.line.next.get();
                self.line.next.set(number + 1);
                self.number = Some(number);
                self.line.waiting.borrow_mut().push_back((number, context.waker().clone()));
                Poll::Pending
            }
            Some(number) if self.line.position(number).is_some() => Poll::Pending,
            Some(_) => Poll::Ready(()),
        }
    }

    /// It has what it waited for, or goes another way: nobody else is called for it.
    pub fn served(mut self) {
        self.number = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        match self.line.position(number) {
            Some(at) => drop(self.line.waiting.borrow_mut().remove(at)),
            None => self.line.wake(1),
        }
    }
}

#[cfg(test)]
mod tests;
