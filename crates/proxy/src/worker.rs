//! A worker: one thread that accepts connections and serves their exchanges from first to last byte.
//!
//! A turn takes what the reactor has, calls the owners, polls woken tasks and meets deadlines ([`event_loop`]); what control says is heard
//! at its begin ([`commands`]).
//! Everything here belongs to this thread: `Rc`, `Cell` and `RefCell`, no lock and no atomic per exchange but the meters'
//! plain stores.

pub(crate) mod pool;
pub(crate) mod tasks;

mod commands;
mod event_loop;

use crate::buffers::chunk_queue::ChunkPool;
use crate::buffers::pool::BufferPools;
use crate::connection::serve::serve_connection;
use crate::exchange::unseal::RefusedLabels;
use crate::h2::{Connections, Scheduler, Work};
use crate::l4::tunnels::Tunnels;
use crate::l4::udp::Udp;
use crate::listener::acceptors::Acceptors;
use crate::listener::idle::IdleConnections;
use crate::listener::proxy_protocol;
use crate::overload::admission::AdmissionControl;
use crate::overload::slow_clients::SlowClients;
use crate::plan::{ClientTimeouts, ListenerProtocol};
use crate::records::Decisions;
use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::{LocalContext, LocalPlan, LocalService, ServiceSlots};
use crate::state::token::Token;
use crate::tls::handshake_budget::HandshakeBudget;
use crate::worker::pool::{Command, Shared};
use crate::worker::tasks::{TaskFuture, TaskPool, TaskSlot};
use commands::is_of_old;
use event_loop::Lists;
use rustix::fd::AsFd;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use thalweg_core::limits::FIRST_WORD_TIME;
use thalweg_core::{Fault, FaultKind, RequestId, limits};
use thalweg_net::allocator::tidy_up;
use thalweg_net::{Mailbox, OwnerWaker, Reactor};
use thalweg_observe::{LogBatch, RouteMeters, WorkerMeters};
use thalweg_upstream::{Member, OpenCount, PeerAddress};

/// Bytes taken from a socket at once.
const SCRATCH: usize = 256 * 1024;
/// How often a worker says that it lives, flushes its log and trims its memory.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// Bytes of chunks given back at once that are worth tidying up after.
const MUCH: usize = 256 * 1024;

/// The same kind of fault is reported to the operator once in this time.
const REPORTS: Duration = Duration::from_secs(1);

/// What belongs to one worker.
pub(crate) struct Worker {
    pub(crate) id: usize,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) meters: Arc<WorkerMeters>,
    /// What belonged to another plan has been freed since the last heartbeat.
    is_untidy: Cell<bool>,
    /// For requests that no route takes.
    pub(crate) no_route: Arc<RouteMeters>,
    /// Where sockets are received into; what must last is copied out.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) warm: BufferPools,
    /// For what stalled receivers keep waiting.
    pub(crate) chunks: Rc<ChunkPool>,
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
    view: RefCell<Rc<LocalPlan>>,
    slots: ServiceSlots,
    tasks: TaskPool<Client>,
    random: RefCell<fastrand::Rng>,
    /// Labels that were refused, by client.
    pub(crate) guesses: RefusedLabels,
    /// Milliseconds since the Unix epoch, at the last turn.
    unix_ms: Cell<u64>,
    /// The same in microseconds.
    unix_us: Cell<u64>,
    /// By kind of fault: when it may be reported again, and how many were not.
    reports: RefCell<[(Option<Instant>, u64); FaultKind::ALL.len()]>,
    draining: Cell<bool>,
}

impl Worker {
    /// A worker whose acceptors are shut.
    pub(crate) fn new(id: usize, shared: Arc<Shared>) -> io::Result<Rc<Self>> {
        let reactor = Rc::new(Reactor::new()?);
        let mailbox = shared.mailbox(id).clone();
        let current = shared.current();
        let slots = ServiceSlots::default();
        let ground = LocalContext {
            worker: id,
            registry: &shared.registry,
            concurrency_limits: &shared.concurrency_limits,
            slots: &slots,
        };
        let view = LocalPlan::new(current, &ground, None);
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
            view: RefCell::new(Rc::new(view)),
            slots,
            tasks: TaskPool::new(move |task| {
                OwnerWaker::waker(Token::TaskSlot(task).into(), mailbox.clone())
            }),
            random: RefCell::new(fastrand::Rng::new()),
            guesses: RefusedLabels::default(),
            unix_ms: Cell::new(0),
            unix_us: Cell::new(0),
            reports: RefCell::new([(None, 0); FaultKind::ALL.len()]),
            draining: Cell::new(false),
            shared,
        }))
    }

    /// Runs until the worker pool says stop.
    pub(crate) fn run(self: Rc<Self>) -> io::Result<()> {
        self.reactor.watch(self.mailbox().as_fd(), Token::Notifier.into())?;
        self.bind_listeners();
        let mut lists = Lists::default();
        let mut beat = self.reactor.now() + HEARTBEAT;
        let mut full = false;
        loop {
            let has_more = full
                || self.tunnels.have_more()
                || self.udp.have_more()
                || self.slow_clients.has_queue()
                || !lists.woken.is_empty()
                || !self.scheduler.is_empty();
            let sleeps = !has_more && self.mailbox().may_sleep();
            let look = self.pressure.next_look(self.reactor.now(), beat);
            let next = self.reactor.next_deadline().map_or(look, |deadline| deadline.min(look));
            let timeout =
                if sleeps { next.saturating_duration_since(self.reactor.now()) } else { Duration::ZERO };
            let events = self.reactor.wait(Some(timeout), &mut lists.called)?;
            self.mailbox().awake();
            full = events == limits::EVENTS_PER_TURN;
            if self.turn(&mut lists) {
                self.end_sessions();
                self.end_tunnels();
                self.heartbeat(Duration::ZERO);
                return Ok(());
            }
            let now = self.reactor.now();
            if now >= beat {
                self.heartbeat(now.saturating_duration_since(beat));
                beat = now + HEARTBEAT;
            }
        }
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Command>> {
        self.shared.mailbox(self.id)
    }

    /// Something happened on a silent connection: it has a request, has ended, or was silent too long.
    fn resume(self: &Rc<Self>, place: u32) {
        let mut idle_connections = self.idle_connections.borrow_mut();
        let Some(client) = idle_connections.peek(place) else { return };
        // One that was to say on whose behalf it comes is recorded when it did not.
        let is_owed =
            client.socket.expired() && proxy_protocol::due(client).is_some_and(|policy| policy.required);
        if client.socket.is_readable() || is_owed {
            let Some(client) = idle_connections.remove(place) else { return };
            drop(idle_connections);
            self.task(client, None);
        } else if client.socket.expired() {
            let ended = idle_connections.remove(place);
            drop(idle_connections);
            drop(ended);
        }
    }

    /// Serves a client that has something to say: a stream of `session`, or a connection of its own.
    pub(crate) fn task(self: &Rc<Self>, client: Client, session: Option<u32>) {
        client.socket.rest(false);
        let task = self.tasks.start(client, session, |index, task| self.new_task(index, task));
        match session {
            None => {
                self.scheduler.note_other();
                self.poll_task(task);
            }
            Some(session) => self.scheduler.put_off(session, Work::Exchange(task)),
        }
    }

    /// The future of a task: one conversation after the other.
    fn new_task(self: &Rc<Self>, index: u32, task: Rc<TaskSlot<Client>>) -> TaskFuture {
        let worker = self.clone();
        Box::pin(async move {
            let owner = Token::TaskSlot(index).into();
            let mut exchange = Exchange::new(owner);
            loop {
                let client = task.next().await;
                client.socket.set_owner(owner);
                serve_connection(&worker, client, &mut exchange).await;
                worker.tasks.finish(index);
            }
        })
    }

    fn poll_task(&self, task: u32) {
        if self.tasks.poll(task).is_err() {
            self.slow_clients.forget(task);
            self.note_panic();
        }
    }

    /// An exchange or a tunnel has ended in a panic.
    pub(crate) fn note_panic(&self) {
        self.meters.panics.add(1);
        self.notice(|| "a bug in the proxy ended an exchange; the message above says where".into());
    }

    /// Lets a new connection wait for its first request. Where endpoints may have the first word, nothing is waited for.
    pub(crate) fn park_first(self: &Rc<Self>, client: Client) {
        let local_listener = client.listener();
        let begins = !local_listener.is_secure() && proxy_protocol::due(&client).is_none();
        if begins && local_listener.protocol() == ListenerProtocol::Tcp {
            return self.task(client, None);
        }
        let head = self.view.borrow().plan.client_timeouts.head;
        let time = if client.listener().is_leaving() { FIRST_WORD_TIME } else { head };
        self.park_for(client, time);
    }

    /// Lets a connection wait for its next request.
    pub(crate) fn park(&self, client: Client) {
        client.socket.rest(true);
        let ClientTimeouts { head, keep_alive } = self.view.borrow().plan.client_timeouts;
        match self.is_leaving(&client) {
            // One that has shaken hands and not asked yet.
            false if client.requests == 0 => self.park_for(client, head),
            false => self.park_for(client, keep_alive),
            // A client that has not been served yet may just be about to speak.
            true if client.requests == 0 => self.park_for(client, FIRST_WORD_TIME),
            true => {}
        }
    }

    fn park_for(&self, client: Client, time: Duration) {
        client.socket.set_deadline(Some(time));
        client.socket.rest(true);
        let mut idle_connections = self.idle_connections.borrow_mut();
        let place = idle_connections.insert(client, self.now_ms());
        if let Some(client) = idle_connections.peek(place) {
            client.socket.set_owner(Token::IdleConnections(place).into());
        }
    }

    /// The plan in force.
    pub(crate) fn view(&self) -> Rc<LocalPlan> {
        self.view.borrow().clone()
    }

    /// Whether texts may hold labels, which nobody is to see.
    pub(crate) fn has_labels(&self) -> bool {
        !self.view.borrow().current.redactor.is_empty()
    }

    /// The plan that holds for a client's next request.
    pub(crate) fn view_for(&self, client: &Client) -> Rc<LocalPlan> {
        client.listener().last().unwrap_or_else(|| self.view())
    }

    /// Whether the proxy is stopping or the client's listener is gone: its connection is not kept.
    pub(crate) fn is_leaving(&self, client: &Client) -> bool {
        let is_of_old = client.requests > 0 && is_of_old(client);
        self.draining.get() || client.listener().is_leaving() || is_of_old
    }

    /// Whether the proxy is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
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
        view.services.iter().any(|service| service.state.evict())
    }

    /// A line for the operator, written by the control thread; dropped when it cannot keep up.
    pub(crate) fn notice(&self, text: impl FnOnce() -> String) {
        if let Ok(permit) = self.shared.notices.try_reserve() {
            permit.send(text());
        }
    }

    /// Tells the operator of a fault that may need a hand; each kind at most once in [`REPORTS`].
    pub(crate) fn report(&self, fault: &Fault, route: &str, id: Option<&RequestId>) {
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
            let id = id.map_or("", RequestId::as_str);
            let more = if more > 0 { format!(" (and {more} more of this kind)") } else { String::new() };
            format!("route `{route}`: {fault}; request {id}{more}")
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

    fn heartbeat(&self, late: Duration) {
        self.meters.lag_us.set(late.as_micros() as i64);
        self.tasks.trim();
        self.sessions.look();
        let (given_back, is_untidy) = (self.chunks.trim(), self.is_untidy.take());
        if given_back >= MUCH || is_untidy {
            tidy_up();
        }
        self.return_credits();
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.flush();
        }
        let idle: usize = self.view().services.iter().map(|service| service.state.idle()).sum();
        self.meters.upstream_idle.set(idle as i64);
        self.meters.tick(Instant::now());
    }

    fn publish(&self) {
        let load = &self.shared.loads.workers[self.id];
        let active = self.tasks.occupied() + self.tunnels.len();
        load.active.store(active, Relaxed);
        load.upstream.store(self.upstream_open.current(), Relaxed);
        load.fresh.store(self.idle_connections.borrow().fresh(), Relaxed);
        load.multiplexed.store(self.sessions.of_clients(), Relaxed);
        load.bodies.store(self.pressure.bodies.in_use(), Relaxed);
        load.held.store(self.chunks.held() + self.sessions.held(), Relaxed);
        self.meters.active_exchanges.set(active as i64);
        let idle_connections = self.idle_connections.borrow().len();
        self.meters.idle_connections.set((idle_connections + self.sessions.idle()) as i64);
        let drained = self.draining.get()
            && active == 0
            && idle_connections == 0
            && self.sessions.of_clients() == 0
            && self.udp.len() == 0;
        load.drained.store(drained, Relaxed);
    }
}
