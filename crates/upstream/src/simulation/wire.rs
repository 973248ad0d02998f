//! A connection of the simulation: what the kernel knows of it, and what a worker has been told.

use crate::connection_handoff::Handover;
use crate::wire::Wire;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use thalweg_net::Owner;
use thalweg_net::connect::PeerAddress;

pub(super) type Handed = Handover<DetachedSocket>;

/// The connection itself.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Where it leads.
    pub(super) address: Option<PeerAddress>,
    /// Our side has not closed it.
    pub(super) open: AtomicBool,
    /// The other side has: the kernel knows.
    pub(super) ended: AtomicBool,
    /// An exchange is using it.
    pub(super) busy: AtomicBool,
    /// Requests sent on it.
    pub(super) requests: AtomicU32,
}

/// It on a worker.
#[derive(Debug)]
pub(super) struct SimulatedWire {
    pub(super) link: Arc<Link>,
    /// `None` once it is off the worker.
    watch: Option<Watch>,
}

/// What events have told a worker of it.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) link: Arc<Link>,
    pub(super) told: Rc<Cell<bool>>,
    deadline: Rc<Cell<Option<Instant>>>,
    clock: Rc<Cell<Instant>>,
}

/// It between two workers.
#[derive(Debug)]
pub(super) struct DetachedSocket(Option<Arc<Link>>);

impl Watch {
    pub(super) fn is_due(&self) -> bool {
        self.deadline.get().is_some_and(|deadline| deadline <= self.clock.get())
    }
}

impl SimulatedWire {
    /// It, watched from now on.
    pub(super) fn new(link: Arc<Link>, clock: &Rc<Cell<Instant>>) -> (Self, Watch) {
        let watch =
            Watch { link: link.clone(), told: Rc::default(), deadline: Rc::default(), clock: clock.clone() };
        (Self { link, watch: Some(watch.clone()) }, watch)
    }

    fn watch(&self) -> &Watch {
        self.watch.as_ref().unwrap()
    }
}

impl DetachedSocket {
    pub(super) fn take(mut self) -> Arc<Link> {
        self.0.take().unwrap()
    }
}

impl Wire for SimulatedWire {
    type DetachedSocket = DetachedSocket;

    fn is_spent(&self) -> bool {
        self.watch().told.get() || self.watch().is_due()
    }

    fn is_quiet(&self) -> bool {
        !self.link.ended.load(SeqCst)
    }

    fn set_owner(&self, _: Owner) {}

    fn set_deadline(&self, after: Option<Duration>) {
        let watch = self.watch();
        watch.deadline.set(after.map(|after| watch.clock.get() + after));
    }

    fn rest(&self, _at_rest: bool) {}

    fn loosen(mut self) -> DetachedSocket {
        self.watch = None;
        DetachedSocket(Some(self.link.clone()))
    }
}

impl Drop for SimulatedWire {
    fn drop(&mut self) {
        if self.watch.is_some() {
            self.link.open.store(false, SeqCst);
        }
    }
}

impl Drop for DetachedSocket {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.open.store(false, SeqCst);
        }
    }
}
