//! What the control thread and all workers share, and what workers are told.

use crate::plan::{Banned, ServiceId};
use crate::records::{OpenTap, QueryRequest};
use crate::state::active_config::{ActiveConfig, EndpointSetList, InForce, RetiredConfigs};
use crate::state::background::Background;
use crate::state::challenges::Challenges;
use crate::state::client_limits::Prefix;
use crate::state::keep_off::KeepOff;
use crate::state::listener_sockets::{Binder, ListenerState};
use crate::state::load::Loads;
use crate::state::local_listener::ListenerTransport;
use rustix::fd::OwnedFd;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use thalweg_core::Notice;
use thalweg_net::Mailbox;
use thalweg_observe::trace::ExchangeSpan;
use thalweg_observe::{LogWriter, Registry};
use thalweg_sealed::reach::Own;
use thalweg_upstream::{EndpointSet, EndpointSets, LimitRegistry};
use tokio::sync::{Semaphore, mpsc};

/// What a worker can be told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Exchanges that begin from now on follow this plan, whose services have these endpoint sets.
    Plan(Arc<ActiveConfig>, EndpointSetList),
    /// This is the endpoint set of one service of the plan now.
    EndpointSet(ServiceId, Arc<EndpointSet>),
    /// A connection that another worker accepted, at this listener, and what is spoken there.
    Client(AcceptedConnection, Arc<ListenerState>, ListenerTransport),
    /// Let idle upstream connections go: somebody waits for one, or for its place.
    Evict(Arc<Eviction>),
    /// Tell what is remembered of exchanges.
    Recall(Arc<QueryRequest>),
    /// Somebody watches exchanges as they end.
    Tap(Arc<OpenTap>),
    /// That is over.
    Untap(Arc<OpenTap>),
    /// Look at what is under way: some of it is to end.
    Cut,
    /// Begin to accept: the process that had the sockets before lets go.
    Accept,
    /// Accept no more, end what is under way.
    Drain,
    /// Accept no more, since another process does; who is connected stays until the end of the next exchange.
    Leave,
    /// End the thread.
    Stop,
}

/// Whose place is needed.
#[derive(Debug)]
pub(crate) struct Eviction {
    pub(crate) service: Arc<str>,
    /// Its URL; `None`: whichever endpoint.
    pub(crate) endpoint: Option<Arc<str>>,
}

/// A connection that was just accepted.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: IpAddr,
    pub(crate) port: u16,
    /// The client among whose connections it has been counted.
    pub(crate) client: Option<Box<Prefix>>,
}

/// What workers and the control thread share.
pub(crate) struct Shared {
    pub(crate) loads: Arc<Loads>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Option<Arc<LogWriter>>,
    pub(crate) notices: mpsc::Sender<Notice>,
    /// Clients that are to be banned.
    pub(crate) bans: mpsc::Sender<Banned>,
    /// Exchanges of which traces tell.
    pub(crate) spans: mpsc::Sender<Box<ExchangeSpan>>,
    /// What is stored of responses.
    pub(crate) cache: thalweg_store::Store,
    /// The same on a disk, where one is configured.
    pub(crate) disk: Option<thalweg_disk::Disk>,
    /// Bytes that are being read from it as wholes.
    pub(crate) disk_reading: AtomicU64,
    /// Clients that are sent bodies from it.
    pub(crate) disk_streams: AtomicUsize,
    /// Where filters have done what is not for workers.
    pub(crate) background: Background,
    /// The bounds on what is under way.
    pub(crate) concurrency_limits: LimitRegistry,
    /// What authorities are answered that check a host.
    pub(crate) challenges: Arc<Challenges>,
    /// Where the process listens beside its listeners.
    pub(crate) beside: OnceLock<Arc<Own>>,
    /// Leaves out endpoints that lead to the process itself.
    pub(crate) keep_off: KeepOff,
    /// Places for those who watch exchanges as they end.
    pub(crate) taps: Arc<Semaphore>,
    pub(crate) mailboxes: Vec<Arc<Mailbox<Command>>>,
    pub(crate) endpoint_sets: EndpointSets,
    pub(crate) binder: Binder,
    /// Workers begin to accept when they are told to, and not at once.
    pub(crate) waits: bool,
    pub(crate) retired: RetiredConfigs,
    /// Locked while workers are told of a change, so that all hear of changes in the same order.
    pub(crate) in_force: Mutex<InForce>,
}

impl Shared {
    /// What is in force.
    pub(crate) fn current(&self) -> Arc<ActiveConfig> {
        self.lock().current.clone()
    }

    /// The same, and the endpoint sets of its services now.
    pub(crate) fn current_with_endpoint_sets(&self) -> (Arc<ActiveConfig>, Vec<Arc<EndpointSet>>) {
        let in_force = self.lock();
        (in_force.current.clone(), in_force.endpoint_sets.clone())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a worker something. Connections under way are bounded by the places counted for them;
    /// everything else is rare.
    pub(crate) fn hand(&self, worker: usize, command: Command) {
        self.mailboxes[worker].send(command);
    }

    /// Tells all workers something.
    pub(crate) fn tell(&self, command: impl Fn() -> Command) {
        // Who has ended by a bug hears of nothing: what it is told would be kept for ever.
        let alive = self.loads.workers.iter().enumerate().filter(|(_, load)| !load.dead.load(Relaxed));
        alive.for_each(|(worker, _)| self.hand(worker, command()));
    }

    /// A worker's mailbox.
    pub(crate) fn mailbox(&self, worker: usize) -> &Arc<Mailbox<Command>> {
        &self.mailboxes[worker]
    }
}
