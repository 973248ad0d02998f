//! The state of one worker: all that its thread owns. The event loop that turns it stands in `worker/`.
//!
//! Everything here belongs to this thread: `Rc`, `Cell` and `RefCell`, no lock and no atomic per exchange but the
//! meters' plain stores.

use crate::buffers::chunk_queue::ChunkPool;
use crate::buffers::pool::BufferPools;
use crate::h2::Connections;
use crate::l4::tunnels::Tunnels;
use crate::l4::udp::Udp;
use crate::plan::{ClientTimeouts, ListenerProtocol};
use crate::records::{Decisions, Taps};
use crate::state::acceptors::Acceptors;
use crate::state::admission::AdmissionControl;
use crate::state::exchange::{Client, Exchange};
use crate::state::handshake_budget::HandshakeBudget;
use crate::state::held_bytes::HeldBytes;
use crate::state::idle_connections::IdleConnections;
use crate::state::local_listener::{LISTENER_GONE, Standing};
use crate::state::local_plan::{LocalContext, LocalPlan, LocalService, ServiceSlots};
use crate::state::refused_labels::RefusedLabels;
use crate::state::scheduler::Scheduler;
use crate::state::shared::{Command, Shared};
use crate::state::slow_clients::SlowClients;
use crate::state::spools::Spools;
use crate::state::subrequests::Subrequests;
use crate::state::tasks::TaskPool;
use crate::state::token::Token;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_cache::{Key, UnixMillis};
use thalweg_core::limits::FIRST_WORD_TIME;
use thalweg_core::{Fault, FaultKind, Notice, RequestId};
use thalweg_filter::DecoderMemory;
use thalweg_net::{Mailbox, OwnerWaker, Reactor};
use thalweg_observe::{LogBatch, RouteMeters, WorkerMeters};
use thalweg_upstream::{Member, OpenCount, PeerAddress};

/// Bytes taken from a socket at once.
const SCRATCH: usize = 256 * 1024;
/// The same kind of fault is reported to the operator once in this time.
const REPORTS: Duration = Duration::from_secs(1);

/// What belongs to one worker.
pub(crate) struct Worker {
    pub(crate) id: usize,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) meters: Arc<WorkerMeters>,
    /// What belonged to another plan has been freed since the last heartbeat.
    pub(crate) is_untidy: Cell<bool>,
    /// For requests that no route takes.
    pub(crate) no_route: Arc<RouteMeters>,
    /// Where sockets are received into; what must last is copied out.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) warm: BufferPools,
    /// For what stalled receivers keep waiting.
    pub(crate) chunks: Rc<ChunkPool>,
    /// For bodies that are too long for memory and are to be whole.
    pub(crate) spools: Rc<Spools>,
    /// For bodies that filters decode.
    pub(crate) decoders: Rc<DecoderMemory>,
    /// Bytes that exchanges hold in buffers of their own.
    pub(crate) held: HeldBytes,
    pub(crate) log: RefCell<Option<LogBatch>>,
    pub(crate) upstream_open: OpenCount,
    pub(crate) pressure: Rc<AdmissionControl>,
    pub(crate) acceptors: RefCell<Acceptors>,
    pub(crate) idle_connections: RefCell<IdleConnections>,
    pub(crate) slow_clients: SlowClients,
    pub(crate) handshakes: HandshakeBudget,
    pub(crate) tunnels: Tunnels,
    pub(crate) udp: Udp,
    pub(crate) sessions: Connections,
    pub(crate) scheduler: Scheduler,
    pub(crate) decisions: Decisions,
    pub(crate) taps: Taps,
    pub(crate) view: RefCell<Rc<LocalPlan>>,
    pub(crate) slots: ServiceSlots,
    pub(crate) tasks: TaskPool<Client>,
    /// Requests that the proxy makes by itself.
    pub(crate) subrequests: Rc<Subrequests>,
    /// The key of the request that asks the cache: a buffer.
    pub(crate) cache_key: Cell<Key>,
    pub(crate) random: RefCell<fastrand::Rng>,
    /// Labels that were refused, by client.
    pub(crate) guesses: RefusedLabels,
    /// Milliseconds since the Unix epoch, at the last turn.
    pub(crate) unix_ms: Cell<u64>,
    /// The same in microseconds.
    pub(crate) unix_us: Cell<u64>,
    /// By kind of fault: when it may be reported again, and how many were not.
    pub(crate) reports: RefCell<[(Option<Instant>, u64); FaultKind::ALL.len()]>,
    pub(crate) draining: Cell<bool>,
    /// Nothing is accepted yet.
    pub(crate) is_waiting: Cell<bool>,
    /// It ends: what is under way is cut.
    pub(crate) cut: Cell<bool>,
}

impl Worker {
    /// A worker whose acceptors are shut.
    pub(crate) fn new(id: usize, shared: Arc<Shared>) -> io::Result<Rc<Self>> {
        let reactor = Rc::new(Reactor::new()?);
        let mailbox = shared.mailbox(id).clone();
        let (current, endpoint_sets) = shared.current_with_endpoint_sets();
        let slots = ServiceSlots::default();
        let ground = LocalContext {
            worker: id,
            registry: &shared.registry,
            concurrency_limits: &shared.concurrency_limits,
            slots: &slots,
        };
        let view = LocalPlan::new((current, &endpoint_sets), &ground, None);
        let meters = shared.registry.worker(id);
        let chunks = Rc::new(ChunkPool::default());
        chunks.pipes.set_most(shared.loads.budget.pipes);
        let log = shared.log.as_ref().map(|log| log.batch(meters.clone()));
        Ok(Rc::new(Self {
            id,
            reactor,
            meters,
            is_untidy: Cell::new(false),
            no_route: shared.registry.route(id, ""),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            warm: BufferPools::default(),
            chunks,
            spools: Rc::default(),
            decoders: DecoderMemory::new(shared.loads.budget.decoder_bytes()),
            held: HeldBytes::default(),
            log: RefCell::new(log),
            upstream_open: OpenCount::default(),
            pressure: Rc::new(AdmissionControl::new(shared.loads.clone())),
            acceptors: RefCell::new(Acceptors::new()),
            idle_connections: RefCell::new(IdleConnections::new()),
            slow_clients: SlowClients::default(),
            handshakes: HandshakeBudget::default(),
            tunnels: Tunnels::default(),
            udp: Udp::default(),
            sessions: Connections::default(),
            scheduler: Scheduler::new(Instant::now()),
            decisions: Decisions::new(view.plan.requests),
            taps: Taps::default(),
            view: RefCell::new(Rc::new(view)),
            slots,
            tasks: TaskPool::new(move |task| OwnerWaker::waker(Token::Task(task).into(), mailbox.clone())),
            subrequests: Rc::default(),
            random: RefCell::new(fastrand::Rng::new()),
            guesses: RefusedLabels::default(),
            cache_key: Cell::default(),
            unix_ms: Cell::new(0),
            unix_us: Cell::new(0),
            reports: RefCell::new([(None, 0); FaultKind::ALL.len()]),
            is_waiting: Cell::new(shared.waits),
            draining: Cell::new(false),
            cut: Cell::new(false),
            shared,
        }))
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Command>> {
        self.shared.mailbox(self.id)
    }

    /// An exchange or a tunnel has ended in a panic.
    pub(crate) fn note_panic(&self) {
        self.meters.panics.add(1);
        self.notice(|| "a bug in the proxy ended an exchange; the message above says where".into());
    }

    /// The plan in force.
    pub(crate) fn view(&self) -> Rc<LocalPlan> {
        self.view.borrow().clone()
    }

    /// Whether texts may hold labels, which nobody is to see.
    pub(crate) fn has_labels(&self) -> bool {
        !self.view.borrow().current.redactor.is_empty()
    }

    /// The plan with the deadlines and head limits for a client. It routes no request: see [`Self::standing_of`].
    pub(crate) fn view_for(&self, client: &Client) -> Rc<LocalPlan> {
        client.listener().standing().map_or_else(|| self.view(), |standing| standing.view)
    }

    /// The plan and position that route and filter a client's next request.
    ///
    /// # Errors
    /// 421 if its listener was removed: with any other plan the request would bypass filters.
    pub(crate) fn standing_of(&self, client: &Client) -> Result<Standing, Fault> {
        client.listener().standing().ok_or(LISTENER_GONE)
    }

    /// Counts the buffers of a waiting exchange, plus `beside` further bytes.
    pub(crate) fn note_held(&self, x: &Exchange, beside: usize) {
        if let Token::Task(task) = Token::from(x.owner) {
            let own = [&x.received, &x.answered, &x.path.written].map(Vec::capacity);
            self.held.set(task, own.iter().sum::<usize>() + beside);
        }
    }

    /// Whether the proxy is stopping, the client's listener is gone, or its connection has brought all the requests
    /// that it may: it is not kept.
    pub(crate) fn is_leaving(&self, client: &Client) -> bool {
        let is_of_old = client.requests > 0 && is_of_old(client);
        let is_spent = client.listener().limits().are_spent(client.requests);
        self.draining.get() || client.listener().is_leaving() || is_of_old || is_spent
    }

    /// Whether the proxy is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether the worker ends, and with it what is under way.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Seconds since the Unix epoch, at the last turn.
    pub(crate) fn unix(&self) -> UnixMillis {
        UnixMillis(self.unix_ms.get())
    }

    /// The same in seconds.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.unix_ms.get() / 1000
    }

    /// Milliseconds of the worker's own clock, at the last turn.
    pub(crate) fn now_ms(&self) -> u64 {
        self.reactor.elapsed().as_millis() as u64
    }

    /// A new request id; its time is that of the turn.
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId::new(self.unix_ms.get(), self.random.borrow_mut().u128(..))
    }

    /// Microseconds since the Unix epoch, at a time of this turn or before.
    pub(crate) fn unix_us(&self, at: Instant) -> u64 {
        let ago = self.reactor.now().saturating_duration_since(at);
        self.unix_us.get().saturating_sub(ago.as_micros() as u64)
    }

    /// A number for choices that should differ from time to time.
    pub(crate) fn chance(&self) -> usize {
        self.random.borrow_mut().usize(..)
    }

    /// Keeps upstream sockets within the worker's share of descriptors: an idle one makes room. Says whether there
    /// is some.
    pub(crate) fn make_upstream_room(&self) -> bool {
        if self.upstream_open.current() < self.shared.loads.budget.upstream_places() {
            return true;
        }
        let view = self.view();
        view.services().iter().any(|service| service.state.evict())
    }

    /// Why the address is blocked everywhere; `None`: it is not.
    pub(crate) fn blocked(&self, address: IpAddr) -> Option<String> {
        let view = self.view();
        let blocked = &view.plan.access.blocked;
        if blocked.is_empty() {
            return None;
        }
        blocked.find(address).map(|found| format!("{address} is denied: {found}"))
    }

    /// A line for the operator, who may have to act; written by the control thread, dropped when it cannot keep up.
    pub(crate) fn notice(&self, text: impl FnOnce() -> String) {
        self.tell(|| Notice::warn(text()));
    }

    /// The same of ordinary life: something is well again.
    pub(crate) fn inform(&self, text: impl FnOnce() -> String) {
        self.tell(|| Notice::info(text()));
    }

    fn tell(&self, notice: impl FnOnce() -> Notice) {
        if let Ok(permit) = self.shared.notices.try_reserve() {
            permit.send(notice());
        }
    }

    /// Tells the operator of a fault that may need a hand; each kind at most once in [`REPORTS`].
    pub(crate) fn report(&self, fault: &Fault, of: impl Display, id: Option<&RequestId>) {
        let mut reports = self.reports.borrow_mut();
        let Some((next, left_out)) = reports.get_mut(fault.kind as usize) else { return };
        let now = self.reactor.now();
        if next.is_some_and(|next| now < next) {
            *left_out += 1;
            return;
        }
        let more = std::mem::take(left_out);
        *next = Some(now + REPORTS);
        self.notice(|| {
            let id = id.map(|id| format!("; request {}", id.as_str())).unwrap_or_default();
            let more = if more > 0 { format!(" (and {more} more of this kind)") } else { String::new() };
            format!("{of}: {fault}{id}{more}")
        });
    }

    /// How an operator knows a member: its service and the endpoint as written.
    pub(crate) fn name_of(&self, local: &LocalService, member: &Member) -> String {
        let service = &local.state.service;
        let url = service.endpoints.get(member.endpoint as usize).map_or("", |endpoint| &endpoint.url);
        match member.address() {
            PeerAddress::Tcp(address) => format!("service `{}`, endpoint {url} at {address}", service.name),
            PeerAddress::Unix(_) => format!("service `{}`, endpoint {url}", service.name),
        }
    }

    /// Lets a connection wait for its next request.
    pub(crate) fn park(&self, client: Client) {
        client.socket.rest(true);
        let ClientTimeouts { head, keep_alive } = self.view.borrow().plan.client_timeouts;
        match self.is_leaving(&client) {
            // One that has shaken hands and not asked yet.
            false if client.requests == 0 => self.park_for(client, head),
            false => self.park_for(client, keep_alive),
            // A client that has not been served yet, or was promised that its connection is kept, may just be about to
            // speak.
            true => self.park_for(client, FIRST_WORD_TIME),
        }
    }

    pub(crate) fn park_for(&self, client: Client, time: Duration) {
        client.socket.set_deadline(Some(time));
        client.socket.rest(true);
        let mut idle_connections = self.idle_connections.borrow_mut();
        let place = idle_connections.insert(client, self.now_ms());
        if let Some(client) = idle_connections.peek(place) {
            client.socket.set_owner(Token::Idle(place).into());
        }
    }
}

/// Whether a reload has brought TLS to the client's listener, or taken it away, or there is no HTTP any more.
pub(crate) fn is_of_old(client: &Client) -> bool {
    let local_listener = client.listener();
    client.socket.is_layered() != local_listener.is_secure()
        || local_listener.protocol() != ListenerProtocol::Http
}
