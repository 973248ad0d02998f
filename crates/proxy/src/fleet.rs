//! All workers together: starting them, telling them things, stopping them.
//!
//! The control thread holds a [`Fleet`]. It speaks to workers through their mailboxes; workers
//! never wait for it.

use crate::budget::Budget;
use crate::clients::Prefix;
use crate::decisions::{Inquiry, Question, Recalled};
use crate::load::Loads;
use crate::plan::{ListenAddress, Plan};
use crate::worker::Worker;
use rustix::fd::OwnedFd;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use thalweg_net::connect::Manner;
use thalweg_net::{Mailbox, listen};
use thalweg_observe::{LogWriter, Registry};
use thalweg_upstream::{AdaptiveLimits, Bell, Gates, Names, Roster, Rosters, RouteBound};
use tokio::sync::mpsc;

/// What a worker can be told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Exchanges that begin from now on follow this plan.
    Plan(Arc<Current>),
    /// These are the members of the plan's services now.
    Members(Arc<Current>),
    /// A connection that another worker accepted.
    Client(Arrival),
    /// Let idle upstream connections go: somebody waits for one, or for its place.
    Evict(Arc<Eviction>),
    /// Tell what is remembered of exchanges.
    Recall(Arc<Question>),
    /// Look at what is under way: some of it is to end.
    Cut,
    /// Accept no more, end what is under way.
    Drain,
    /// End the thread.
    Stop,
}

/// What is in force.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) plan: Arc<Plan>,
    pub(crate) names: Arc<Names>,
    /// Of the plan's services, in their order.
    pub(crate) rosters: Vec<Arc<Roster>>,
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
pub(crate) struct Arrival {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: IpAddr,
    pub(crate) port: u16,
    pub(crate) listener: u16,
    /// The client among whose connections it has been counted.
    pub(crate) client: Option<Box<Prefix>>,
}

/// What workers and the control thread share.
pub(crate) struct Shared {
    pub(crate) loads: Arc<Loads>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Option<Arc<LogWriter>>,
    pub(crate) notices: mpsc::Sender<String>,
    /// The bounds on what is under way.
    pub(crate) gates: Gates,
    mailboxes: Vec<Arc<Mailbox<Command>>>,
    rosters: Rosters,
    /// Locked while workers are told of a change, so that all hear of changes in the same order.
    current: Mutex<Arc<Current>>,
}

impl Shared {
    /// What is in force.
    pub(crate) fn current(&self) -> Arc<Current> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a worker something. Connections under way are bounded by the places counted for them;
    /// everything else is rare.
    pub(crate) fn hand(&self, worker: usize, command: Command) {
        self.mailboxes[worker].send(command);
    }

    /// The plan's bounds hold from now on: told before the workers hear of the plan.
    fn adopt_bounds(&self, plan: &Plan) {
        let routes = plan.routes.iter().map(|route| RouteBound {
            name: route.name.clone(),
            max_in_flight: route.limits.max_in_flight,
            queue: route.limits.queue,
        });
        self.gates.adopt(routes, plan.services.iter().map(|service| &**service));
    }

    /// A worker's mailbox.
    pub(crate) fn mailbox(&self, worker: usize) -> &Arc<Mailbox<Command>> {
        &self.mailboxes[worker]
    }
}

/// What a fleet is started with.
pub struct FleetOptions {
    /// Where meters are kept.
    pub registry: Arc<Registry>,
    /// The access log, unless it is off.
    pub log: Option<Arc<LogWriter>>,
    /// Lines for the operator.
    pub notices: mpsc::Sender<String>,
    /// What host names stand for, as far as is known.
    pub names: Names,
    /// Rung when the standing of a member has changed.
    pub bell: Bell,
}

/// A listener with its real address.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// `127.0.0.1:8080` or `unix:/path`.
    pub address: String,
}

/// Why the fleet could not start.
#[derive(Debug)]
pub struct StartError {
    /// The listener that could not be bound, if it was one.
    pub listener: Option<Arc<str>>,
    /// Its address, as written.
    pub address: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.listener {
            Some(name) => write!(f, "listener `{name}`: cannot listen on {}: {}", self.address, self.source),
            None => write!(f, "cannot start the workers: {}", self.source),
        }
    }
}

impl std::error::Error for StartError {}

/// The running workers.
pub struct Fleet {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    bound: Vec<Bound>,
}

impl Fleet {
    /// Starts the workers of `plan` on its sockets.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(plan: Plan, doors: OpenDoors, options: FleetOptions) -> Result<Self, StartError> {
        let OpenDoors { budget, bound, sockets } = doors;
        let mailboxes: Result<Vec<_>, _> = (0..sockets.len()).map(|_| Mailbox::new().map(Arc::new)).collect();
        let (plan, names) = (Arc::new(plan), Arc::new(options.names));
        let known = Rosters::new(budget.workers, options.bell);
        let rosters = known.draw_up(&plan.services, &names);
        let current = Arc::new(Current { plan: plan.clone(), names, rosters });
        let shared = Arc::new(Shared {
            loads: Arc::new(Loads::new(budget, plan.listeners.len())),
            registry: options.registry,
            log: options.log,
            notices: options.notices,
            gates: Gates::default(),
            mailboxes: mailboxes.map_err(thread_error)?,
            rosters: known,
            current: Mutex::new(current),
        });
        shared.adopt_bounds(&plan);
        let mut threads = Vec::with_capacity(sockets.len());
        for (id, sockets) in sockets.into_iter().enumerate() {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{id}"));
            let started = thread.spawn(move || run_worker(id, shared, sockets));
            threads.push(started.map_err(thread_error)?);
        }
        let fleet = Self { shared, threads: Mutex::new(threads), bound };
        fleet.measure();
        Ok(fleet)
    }

    /// The listeners with their real addresses.
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.mailboxes.len()
    }

    /// What the process may use and take on.
    pub fn budget(&self) -> &Budget {
        &self.shared.loads.budget
    }

    /// Brings what metrics say of the budget, of breakers and of adaptive limits up to date.
    pub fn measure(&self) {
        let registry = &self.shared.registry;
        self.shared.loads.measure(registry.budget());
        let current = self.shared.current();
        let guarded = current.rosters.iter().filter(|roster| roster.service.breaker.is_some());
        let state = |roster: &'_ Arc<Roster>| roster.standing.breaker() as i64;
        registry.set_breakers(guarded.map(|roster| (&*roster.service.name, state(roster))));
        let services = current.rosters.iter().map(|roster| &roster.service);
        let adaptive = services.filter(|service| service.limits.adaptive.is_some());
        let limits = adaptive.flat_map(|service| {
            service.endpoints.iter().filter_map(|endpoint| {
                let gate = self.shared.gates.endpoint(&service.name, &endpoint.url)?;
                Some(([&*service.name, &*endpoint.url], i64::from(gate.limit())))
            })
        });
        registry.set_endpoint_limits(limits);
    }

    /// Moves the limits that follow the latency of their endpoints. To be called once a second.
    pub fn adapt(&self, limits: &mut AdaptiveLimits) {
        limits.tick(&self.shared.current().rosters, &self.shared.gates);
    }

    /// Client connections open now.
    pub fn clients(&self) -> usize {
        self.shared.loads.clients()
    }

    /// Exchanges and tunnels under way.
    pub fn active(&self) -> usize {
        self.shared.loads.active()
    }

    /// The plan in force.
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.current().plan.clone()
    }

    /// The members of all services now, in the order of the plan.
    pub fn rosters(&self) -> Vec<Arc<Roster>> {
        self.shared.current().rosters.clone()
    }

    /// Exchanges that begin from now on follow `plan`. Its listeners must be those of the plan in force.
    pub fn set_plan(&self, plan: Plan) {
        let plan = Arc::new(plan);
        let mut current = self.shared.lock();
        self.shared.adopt_bounds(&plan);
        let names = current.names.clone();
        let rosters = self.shared.rosters.draw_up(&plan.services, &names);
        *current = Arc::new(Current { plan, names, rosters });
        self.tell(|| Command::Plan(current.clone()));
    }

    /// Host names stand for these addresses from now on.
    pub fn set_names(&self, names: Names) {
        let names = Arc::new(names);
        let mut current = self.shared.lock();
        let plan = current.plan.clone();
        let rosters = self.shared.rosters.draw_up(&plan.services, &names);
        *current = Arc::new(Current { plan, names, rosters });
        self.tell(|| Command::Members(current.clone()));
    }

    /// Asks every worker what it remembers of exchanges. Each answers once, as soon as it turns; the channel ends when
    /// all have, or have ended.
    pub fn recall(&self, inquiry: Inquiry) -> mpsc::Receiver<Recalled> {
        let (answers, answered) = mpsc::channel(self.workers().max(1));
        let question = Arc::new(Question { inquiry, answers });
        self.tell(|| Command::Recall(question.clone()));
        answered
    }

    /// Ends what is under way to members that have been cut ([`thalweg_upstream::Standing::set_cut`]).
    pub fn cut(&self) {
        self.tell(|| Command::Cut);
    }

    /// No more connections; exchanges under way go on. Ask [`Self::is_drained`].
    pub fn drain(&self) {
        self.tell(|| Command::Drain);
    }

    /// Whether the last exchange has ended after [`Self::drain`].
    pub fn is_drained(&self) -> bool {
        self.shared.loads.drained()
    }

    /// Whether a worker has ended by itself: a bug, and what it had under way is lost.
    pub fn has_lost_a_worker(&self) -> bool {
        self.shared.loads.any_dead()
    }

    /// Ends the workers, whatever they do. May be called again.
    pub fn stop(&self) {
        self.tell(|| Command::Stop);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return;
        }
        for thread in threads {
            let _ = thread.join();
        }
        for path in self.bound.iter().filter_map(|bound| bound.address.strip_prefix("unix:")) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What host names stand for now.
    pub fn names(&self) -> Arc<Names> {
        self.shared.current().names.clone()
    }

    fn tell(&self, command: impl Fn() -> Command) {
        (0..self.shared.mailboxes.len()).for_each(|worker| self.shared.hand(worker, command()));
    }
}

/// The listening sockets of a plan, bound but not served yet.
#[derive(Debug)]
pub struct OpenDoors {
    budget: Budget,
    bound: Vec<Bound>,
    /// By worker, then by listener.
    sockets: Vec<Vec<OwnedFd>>,
}

/// Binds the plan's listeners, once per worker of the budget.
///
/// # Errors
/// When an address cannot be bound; nothing is left open then.
pub fn open_doors(plan: &Plan, budget: Budget) -> Result<OpenDoors, StartError> {
    let workers = budget.workers;
    let manner = Manner { silence: plan.longest_silence(), narrow: false, buffers: budget.socket_buffers };
    let mut bound = Vec::new();
    let mut sockets: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::new()).collect();
    for listener in &plan.listeners {
        let text = listener.address.to_string();
        let failed =
            |source| StartError { listener: Some(listener.name.clone()), address: text.clone(), source };
        let (address, fds) = match &listener.address {
            ListenAddress::Tcp { address, dual_stack } => {
                let (address, fds) = bind_tcp(*address, *dual_stack, workers, manner, listener.defer_accept)
                    .map_err(failed)?;
                (address.to_string(), fds)
            }
            ListenAddress::Unix(path) => (text.clone(), listen::unix(path, workers).map_err(failed)?),
        };
        bound.push(Bound { name: listener.name.clone(), address });
        sockets.iter_mut().zip(fds).for_each(|(sockets, fd)| sockets.push(fd));
    }
    Ok(OpenDoors { budget, bound, sockets })
}

/// `:8080` means every address; where the kernel has no IPv6, every IPv4 address.
fn bind_tcp(
    address: SocketAddr,
    dual_stack: bool,
    workers: usize,
    manner: Manner,
    defer: bool,
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    match listen::tcp(address, dual_stack, workers, manner, defer) {
        Err(error) if dual_stack && is_no_ipv6(&error) => {
            listen::tcp(SocketAddr::from(([0, 0, 0, 0], address.port())), false, workers, manner, defer)
        }
        other => other,
    }
}

fn is_no_ipv6(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

fn run_worker(id: usize, shared: Arc<Shared>, sockets: Vec<OwnedFd>) {
    let run = || Worker::new(id, shared.clone(), sockets).and_then(Worker::run);
    let error = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "a bug in the proxy; the message above says where".into(),
    };
    shared.loads.workers[id].dead.store(true, Relaxed);
    let _ = shared.notices.try_send(format!("worker {id} ended: {error}"));
}

fn thread_error(source: io::Error) -> StartError {
    StartError { listener: None, address: String::new(), source }
}
