//! All workers together: starting them, telling them things, stopping them.
//!
//! The control thread holds a [`WorkerPool`]. It speaks to workers through their mailboxes; workers
//! never wait for it.

use crate::budget::Budget;
use crate::plan::{Banned, DiskPlan, Listener, OwnAddresses, Plan, ServiceId};
use crate::purge::{Purge, PurgeDone};
use crate::records::{FoundRecords, QueryRequest, RecordQuery, TAPS, Tap, TapQuery};
use crate::state::active_config::{ActiveConfig, EndpointSetList, InForce, RetiredConfigs};
use crate::state::background::Background;
use crate::state::challenges::Challenges;
use crate::state::keep_off::KeepOff;
use crate::state::listener_sockets::{Binder, ListenerState, OpenListener, Sockets};
use crate::state::load::Loads;
use crate::state::shared::{Command, Shared};
use crate::state::start_error::StartError;
use crate::state::worker::Worker;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_core::Notice;
use thalweg_core::limits::{PLAN_WAIT, PLANS};
use thalweg_disk::{Disk, Say, Settings};
use thalweg_net::Mailbox;
use thalweg_net::inherited::{Inherited, InheritedSocket};
use thalweg_net::machine::ask_for_short_slices;
use thalweg_observe::trace::ExchangeSpan;
use thalweg_observe::{CacheDiskStanding, CacheStanding, LogWriter, Registry};
use thalweg_sealed::Redactor;
use thalweg_sealed::reach::Own;
use thalweg_store::{Limits, Store};
use thalweg_upstream::{
    AdaptiveLimits, Address, Endpoint, EndpointSet, EndpointSets, LimitRegistry, Names, Notifier, RouteBound,
    Service,
};
use tokio::sync::{Semaphore, mpsc};

/// How often it is looked whether an old plan has gone.
const LOOK: Duration = Duration::from_millis(1);
/// For so long the end of the process waits for the cache on a disk.
const DISK_END: Duration = Duration::from_secs(5);

/// What a worker pool is started with.
pub struct WorkerPoolOptions {
    /// Where meters are kept.
    pub registry: Arc<Registry>,
    /// The access log, unless it is off.
    pub log: Option<Arc<LogWriter>>,
    /// Lines for the operator.
    pub notices: mpsc::Sender<Notice>,
    /// Clients that are to be banned.
    pub bans: mpsc::Sender<Banned>,
    /// Exchanges of which traces tell.
    pub spans: mpsc::Sender<Box<ExchangeSpan>>,
    /// What host names stand for, as far as is known.
    pub names: Names,
    /// Rung when the standing of a member has changed.
    pub bell: Notifier,
    /// What authorities are answered that check a host.
    pub challenges: Arc<Challenges>,
    /// Nothing is accepted before [`WorkerPool::accept`].
    pub waits: bool,
}

/// A listener with its real address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bound {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// `127.0.0.1:8080` or `unix:/path`.
    pub address: String,
}

/// The running workers.
pub struct WorkerPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Another process has the sockets.
    has_left: AtomicBool,
}

impl WorkerPool {
    /// Starts the workers of `plan` on its sockets.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        plan: Plan,
        acceptors: BoundListeners,
        options: WorkerPoolOptions,
    ) -> Result<Self, StartError> {
        let BoundListeners { budget, binder, sockets } = acceptors;
        let mailboxes: Result<Vec<_>, _> =
            (0..budget.workers).map(|_| Mailbox::new().map(Arc::new)).collect();
        let mailboxes = mailboxes.map_err(thread_error)?;
        let (registry, concurrency_limits, endpoint_sets) =
            (options.registry, LimitRegistry::default(), EndpointSets::new(budget.workers, options.bell));
        let (plan, names) = (Arc::new(plan), options.names);
        let cache = Store::new(Limits::of(plan.cache.bytes(budget.memory)))
            .map_err(|error| thread_error(io::Error::other(error)))?;
        let disk = open_disk(&plan, &options.notices)?;
        let listeners = plan.listeners.iter().zip(sockets).map(|(listener, sockets)| {
            let state = ListenerState::new(binder.next_id(), &listener.name, &registry);
            OpenListener { state, sockets }
        });
        let listeners = listeners.collect();
        let plan = (plan, &Redactor::default());
        let keep_off = KeepOff::new(options.notices.clone());
        let of_plan = (&*registry, &concurrency_limits, &endpoint_sets);
        let (current, first) = prepare(plan, &names, listeners, of_plan, (&keep_off, &OnceLock::new()));
        let (workers, retired) = (budget.workers, RetiredConfigs::default());
        retired.add(&current);
        let shared = Arc::new(Shared {
            cache,
            disk,
            disk_reading: AtomicU64::new(0),
            disk_streams: AtomicUsize::new(0),
            loads: Arc::new(Loads::new(budget)),
            registry,
            log: options.log,
            background: Background::new(options.notices.clone()),
            notices: options.notices,
            bans: options.bans,
            spans: options.spans,
            concurrency_limits,
            challenges: options.challenges,
            beside: OnceLock::new(),
            keep_off,
            taps: Arc::new(Semaphore::new(TAPS)),
            mailboxes,
            endpoint_sets,
            binder,
            waits: options.waits,
            retired,
            in_force: Mutex::new(InForce { endpoint_sets: first, current, names, changes: 0 }),
        });
        let mut threads = Vec::with_capacity(workers);
        for id in 0..workers {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{id}"));
            let started = thread.spawn(move || run_worker(id, shared));
            threads.push(started.map_err(thread_error)?);
        }
        shared.background.keep_up(shared.current().plan.upkeep());
        let worker_pool = Self { shared, threads: Mutex::new(threads), has_left: AtomicBool::new(false) };
        worker_pool.measure();
        Ok(worker_pool)
    }

    /// What is stored of responses.
    pub fn cache(&self) -> &Store {
        &self.shared.cache
    }

    /// What does a purge and says what it was. It looks at everything that is stored and waits for the disk: to be
    /// called on a thread that may take its time. The form of keys is that of the plan in force now.
    pub fn purge(&self, purge: Purge) -> impl FnOnce() -> PurgeDone + Send + use<> {
        let (plan, shared) = (self.plan(), self.shared.clone());
        move || purge.run(&plan, (&shared.cache, shared.disk.as_ref()))
    }

    /// The listeners with their real addresses.
    pub fn bound(&self) -> Vec<Bound> {
        let current = self.shared.current();
        let bound = |open: &OpenListener| Bound {
            name: open.state.name.clone(),
            address: open.sockets.bound.clone(),
        };
        current.listeners.iter().map(bound).collect()
    }

    /// Sets the addresses of the admin API and the metrics: neither a label nor an endpoint leads there unless the
    /// file names it. Call it once; until then the addresses written in the plan are used.
    pub fn keep_off(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let _ = self.shared.beside.set(Own::new(addresses).into());
        let own = self.own_addresses();
        self.shared.keep_off.guard(&self.shared.endpoint_sets, own);
        self.renew(|endpoint| endpoint.is_added || matches!(endpoint.address, Address::Name { .. }));
    }

    /// The present listening addresses of the process.
    pub fn own_addresses(&self) -> OwnAddresses {
        self.shared.current().own_addresses(&self.shared.beside)
    }

    /// Whether a connection to this address would end at the process itself.
    pub fn is_own(&self, address: SocketAddr) -> bool {
        self.own_addresses().contains(address)
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
        registry.reloads().plans_alive.set(self.shared.retired.reclaim() as i64);
        let endpoint_sets = self.endpoint_sets();
        let guarded = endpoint_sets.iter().filter(|endpoint_set| endpoint_set.service.breaker.is_some());
        let state = |endpoint_set: &'_ Arc<EndpointSet>| endpoint_set.standing.breaker() as i64;
        registry.set_breakers(guarded.map(|endpoint_set| (&*endpoint_set.service.name, state(endpoint_set))));
        let services = endpoint_sets.iter().map(|endpoint_set| &endpoint_set.service);
        let adaptive = services.filter(|service| service.limits.adaptive.is_some());
        let limits = adaptive.flat_map(|service| {
            service.endpoints.iter().filter_map(|endpoint| {
                let concurrency = self.shared.concurrency_limits.endpoint(&service.name, &endpoint.url)?;
                Some(([&*service.name, &*endpoint.url], i64::from(concurrency.limit())))
            })
        });
        registry.set_endpoint_limits(limits);
        let has_cache =
            self.plan().has_cache() || self.shared.cache.counts().objects > 0 || self.shared.disk.is_some();
        registry.set_cache(has_cache.then(|| self.cache_standing()));
    }

    /// What the cache has and did.
    pub fn cache_standing(&self) -> CacheStanding {
        let (counts, limits) = (self.shared.cache.counts(), self.shared.cache.limits());
        CacheStanding {
            bytes: counts.bytes,
            limit_bytes: limits.bytes,
            objects: counts.objects,
            filling: counts.filling,
            fill_bytes: counts.fill_bytes,
            fills: counts.fills,
            broken: counts.broken,
            stored: counts.stored,
            rejected: counts.rejected,
            passed: counts.passed,
            evictions: counts.evictions,
            removed: counts.removed,
            made_stale: counts.made_stale,
            disk: self.shared.disk.as_ref().map(disk_standing),
        }
    }

    /// Moves the limits that follow the latency of their endpoints. To be called once a second.
    pub fn adapt(&self, limits: &mut AdaptiveLimits) {
        // What was in force is freed soon, also where nobody reads metrics.
        self.shared.retired.reclaim();
        limits.tick(&self.endpoint_sets(), &self.shared.concurrency_limits);
    }

    /// Client connections open now.
    pub fn clients(&self) -> usize {
        self.shared.loads.clients()
    }

    /// Exchanges and tunnels under way.
    pub fn active(&self) -> usize {
        self.shared.loads.active()
    }

    /// The plan in force. What endpoints its services have now say their endpoint sets: they change without a plan.
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.current().plan.clone()
    }

    /// The members of all services now, in the order of the plan.
    pub fn endpoint_sets(&self) -> Vec<Arc<EndpointSet>> {
        self.shared.lock().endpoint_sets.clone()
    }

    /// The members of a service now.
    pub fn endpoint_set(&self, service: &str) -> Option<Arc<EndpointSet>> {
        let in_force = self.shared.lock();
        in_force.current.position(service).and_then(|at| in_force.endpoint_sets.get(at)).cloned()
    }

    /// Another number than before when endpoints of any service have changed.
    pub fn endpoint_changes(&self) -> u64 {
        self.shared.lock().changes
    }

    /// The position of a service in the plan in force.
    pub fn position(&self, service: &str) -> Option<usize> {
        self.shared.lock().current.position(service)
    }

    /// Exchanges that begin from now on follow `plan`: all of it takes over, or nothing does. Sockets of new
    /// listeners are bound before anything changes; listeners that are gone take in who waits at them, end their
    /// silent connections and finish what is under way. Waits while as many plans are alive as may be.
    ///
    /// # Errors
    /// When an address cannot be bound, or the workers do not take over what they have been told before.
    pub fn set_plan(&self, plan: Plan) -> Result<(), StartError> {
        self.await_place_for_a_plan()?;
        let plan = Arc::new(plan);
        let mut in_force = self.shared.lock();
        let before = in_force.current.listeners.clone();
        let listeners = self.open_listeners(&plan, &in_force.current)?;
        let is_kept =
            |old: &OpenListener| listeners.iter().any(|new| Arc::ptr_eq(&new.sockets, &old.sockets));
        // Nobody new comes to a path that is gone; who waits already is taken in.
        before.iter().filter(|old| !is_kept(old)).for_each(|old| old.sockets.remove_file());
        let Shared { registry, concurrency_limits, endpoint_sets, retired, keep_off, beside, .. } =
            &*self.shared;
        plan.adopt_filters(&in_force.current.plan);
        plan.access.adopt(&in_force.current.plan.access);
        let after = (plan, &*in_force.current.redactor);
        let of_plan = (&**registry, concurrency_limits, endpoint_sets);
        let (current, first) = prepare(after, &in_force.names, listeners, of_plan, (keep_off, beside));
        retired.add(&current);
        let replaced = std::mem::replace(&mut in_force.endpoint_sets, first);
        let list: EndpointSetList = in_force.endpoint_sets.iter().cloned().collect();
        retired.add_list(&list);
        replaced.into_iter().for_each(|endpoint_set| retired.retire(endpoint_set));
        in_force.changes += 1;
        in_force.current = current.clone();
        self.shared.background.keep_up(current.plan.upkeep());
        self.tell(|| Command::Plan(current.clone(), list.clone()));
        Ok(())
    }

    /// The listeners of a plan: those that it shares with the present one by name and address, and new ones, with
    /// the sockets of a listener that gives its address up, or sockets of their own.
    fn open_listeners(&self, plan: &Plan, current: &ActiveConfig) -> Result<Arc<[OpenListener]>, StartError> {
        let before = &current.listeners;
        let same = |listener: &Listener| {
            let is_same = |old: &&OpenListener| {
                old.state.name == listener.name && old.sockets.address == listener.address
            };
            before.iter().find(is_same)
        };
        let at_address = |listener: &Listener| -> Option<Arc<Sockets>> {
            let of = |old: &&OpenListener| old.sockets.address == listener.address;
            let is_shared = listener.address.port() != Some(0);
            let found = same(listener).or_else(|| before.iter().filter(|_| is_shared).find(of));
            found.map(|old| old.sockets.clone())
        };
        let sockets = self.shared.binder.open(plan, &Inherited::default(), at_address)?;
        let listeners = plan.listeners.iter().zip(sockets).map(|(listener, sockets)| {
            let state = same(listener).map(|old| old.state.clone()).unwrap_or_else(|| {
                ListenerState::new(self.shared.binder.next_id(), &listener.name, &self.shared.registry)
            });
            OpenListener { state, sockets }
        });
        Ok(listeners.collect())
    }

    /// Old plans go as soon as every worker has taken the next one over. Where workers cannot keep up, a change waits.
    fn await_place_for_a_plan(&self) -> Result<(), StartError> {
        let end = Instant::now() + PLAN_WAIT;
        while self.shared.retired.reclaim() >= PLANS {
            if Instant::now() >= end {
                let why = format!("{PLANS} plans are in use, and the workers do not let go of the old ones");
                return Err(StartError {
                    listener: None,
                    address: String::new(),
                    source: io::Error::other(why),
                });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// A service has these endpoints from now on: `service` is its form with them. There is no new plan, no
    /// other service or route is looked at, and members that stay keep what is known of them. Says whether the
    /// plan has the service.
    pub fn set_endpoints(&self, service: &Arc<Service>) -> bool {
        let mut in_force = self.shared.lock();
        let Some(at) = in_force.current.position(&service.name) else { return false };
        self.put_endpoint_set(&mut in_force, at, service);
        true
    }

    /// A host name stands for these addresses from now on. Services that have it get a new endpoint set each; no other
    /// one is touched.
    pub fn set_name(&self, host: &Arc<str>, addresses: Vec<IpAddr>) {
        let mut in_force = self.shared.lock();
        in_force.names.insert(host.clone(), addresses);
        drop(in_force);
        self.renew(
            |endpoint| matches!(&endpoint.address, Address::Name { host: known, .. } if known == host),
        );
    }

    /// Makes the endpoint sets anew of services that have such an endpoint.
    fn renew(&self, has_changed: impl Fn(&Endpoint) -> bool) {
        let mut in_force = self.shared.lock();
        let sets = in_force.endpoint_sets.iter().enumerate();
        // A host name that a service is kept off may have a new address too.
        let is_kept_off =
            |set: &EndpointSet| set.service.kept_off.iter().any(|kept| matches!(kept, Address::Name { .. }));
        let changed =
            sets.filter(|(_, set)| set.service.endpoints.iter().any(&has_changed) || is_kept_off(set));
        let changed: Vec<_> = changed.map(|(at, set)| (at, set.service.clone())).collect();
        changed.iter().for_each(|(at, service)| self.put_endpoint_set(&mut in_force, *at, service));
    }

    fn put_endpoint_set(&self, in_force: &mut InForce, at: usize, service: &Arc<Service>) {
        let Shared { concurrency_limits, endpoint_sets, retired, .. } = &*self.shared;
        let Some(before) = in_force.endpoint_sets.get(at).cloned() else { return };
        if !Arc::ptr_eq(&before.service, service) {
            concurrency_limits.adopt_service(&before.service, service);
        }
        let endpoint_set = endpoint_sets.update_one(service, &in_force.names);
        if Arc::ptr_eq(&before, &endpoint_set) {
            return;
        }
        in_force.changes += 1;
        in_force.endpoint_sets[at] = endpoint_set.clone();
        retired.retire(before);
        // As many as fit into a configuration.
        let id = ServiceId(at as u32);
        self.tell(|| Command::EndpointSet(id, endpoint_set.clone()));
    }

    /// Asks every worker what it remembers of exchanges. Each answers once, as soon as it turns; the channel ends when
    /// all have, or have ended.
    pub fn query_records(&self, inquiry: RecordQuery) -> mpsc::Receiver<FoundRecords> {
        let (answers, answered) = mpsc::channel(self.workers().max(1));
        let question = Arc::new(QueryRequest { inquiry, answers });
        self.tell(|| Command::Recall(question.clone()));
        answered
    }

    /// Watches exchanges as they end, until what is returned is dropped; `None`: [`TAPS`] watch already.
    pub fn tap(&self, query: TapQuery) -> Option<Tap> {
        Tap::begin(&self.shared, query)
    }

    /// Ends what is under way to members that have been cut ([`thalweg_upstream::EndpointState::set_cut`]).
    pub fn cut(&self) {
        self.tell(|| Command::Cut);
    }

    /// Begins to accept, where [`WorkerPoolOptions::waits`] was said.
    pub fn accept(&self) {
        self.tell(|| Command::Accept);
    }

    /// Copies of the listening sockets, for a process that is to accept from them too.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn copies(&self) -> io::Result<Vec<InheritedSocket>> {
        let mut copies = Vec::new();
        for OpenListener { state, sockets } in &*self.shared.current().listeners {
            let (name, written) = (&*state.name, sockets.address.to_string());
            let socket = |fd| InheritedSocket { name: name.to_owned(), written: written.clone(), fd };
            copies.extend(sockets.copies()?.into_iter().map(socket));
        }
        Ok(copies)
    }

    /// Another process accepts from now on: no more connections here, exchanges under way go on, and who is connected
    /// without one is served once more. Ask [`Self::is_drained`].
    pub fn leave(&self) {
        self.has_left.store(true, Relaxed);
        self.tell(|| Command::Leave);
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
        if !self.has_left.load(Relaxed) {
            self.shared.current().listeners.iter().for_each(|listener| listener.sockets.remove_file());
        }
        if let Some(disk) = &self.shared.disk {
            // What is not written by then is asked for again.
            disk.clone().close_within(DISK_END);
        }
    }

    /// What host names stand for now.
    pub fn names(&self) -> Names {
        self.shared.lock().names.clone()
    }

    fn tell(&self, command: impl Fn() -> Command) {
        self.shared.tell(command);
    }
}

/// The listening sockets of a plan, bound but not served yet.
#[derive(Debug)]
pub struct BoundListeners {
    budget: Budget,
    binder: Binder,
    /// By listener.
    sockets: Vec<Arc<Sockets>>,
}

impl BoundListeners {
    /// Adjusts the budget to a plan that has changed since: documents may add the first cache.
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }
}

/// Binds the plan's listeners, once per worker of the budget; those for which sockets are inherited get these.
///
/// # Errors
/// When an address cannot be bound; nothing is left open then.
pub fn bind_listeners(
    plan: &Plan,
    budget: Budget,
    inherited: &Inherited,
) -> Result<BoundListeners, StartError> {
    let binder = Binder::new(budget.workers, budget.socket_buffers);
    let sockets = binder.open(plan, inherited, |_| None)?;
    Ok(BoundListeners { budget, binder, sockets })
}

/// Makes a plan ready for the workers, after one with the redactor `former`. Its bounds hold from here on.
fn prepare(
    (plan, former): (Arc<Plan>, &Redactor),
    names: &Names,
    listeners: Arc<[OpenListener]>,
    (registry, concurrency_limits, endpoint_sets): (&Registry, &LimitRegistry, &EndpointSets),
    (keep_off, beside): (&KeepOff, &OnceLock<Arc<Own>>),
) -> (Arc<ActiveConfig>, Vec<Arc<EndpointSet>>) {
    let routes = plan.routes.iter().map(|route| RouteBound {
        name: route.name.clone(),
        max_in_flight: route.limits.max_in_flight,
        queue: route.limits.queue,
    });
    concurrency_limits.adopt(routes, plan.services.iter().map(|service| &**service));
    let current = ActiveConfig::new((plan, former), listeners, (registry, concurrency_limits));
    // Before members are built, as the plan's listeners may be new.
    keep_off.guard(endpoint_sets, current.own_addresses(beside));
    let endpoint_sets = endpoint_sets.update(&current.plan.services, names);
    (Arc::new(current), endpoint_sets)
}

/// Opens the store on a disk, if the plan has one. What is wrong with its directory is told and keeps nobody waiting.
fn open_disk(plan: &Plan, notices: &mpsc::Sender<Notice>) -> Result<Option<Disk>, StartError> {
    let Some(DiskPlan { path, size }) = &plan.cache.disk else { return Ok(None) };
    let notices = notices.clone();
    let say: Say = Arc::new(move |notice| drop(notices.try_send(notice)));
    let opened = Disk::open(Settings::of(path, *size), say);
    opened.map(Some).map_err(|error| thread_error(io::Error::other(error)))
}

fn disk_standing(disk: &Disk) -> CacheDiskStanding {
    let counts = disk.counts();
    CacheDiskStanding {
        condition: disk.condition().name(),
        bytes: counts.bytes,
        limit_bytes: disk.settings().bytes,
        objects: counts.objects,
        hits: counts.loaded,
        busy: counts.busy,
        written: counts.written,
        dropped: counts.not_written,
        evictions: counts.evictions,
        kept: counts.kept,
        removed: counts.removed,
        damaged: counts.damaged,
        errors: counts.errors,
    }
}

fn run_worker(id: usize, shared: Arc<Shared>) {
    ask_for_short_slices();
    let run = || Worker::new(id, shared.clone()).and_then(Worker::run);
    let error = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "a bug in the proxy; the message above says where".into(),
    };
    shared.loads.workers[id].dead.store(true, Relaxed);
    let _ = shared.notices.try_send(Notice::warn(format!("worker {id} ended: {error}")));
}

fn thread_error(error: io::Error) -> StartError {
    StartError {
        listener: None,
        address: String::new(),
        source: io::Error::new(error.kind(), format!("cannot start the workers: {error}")),
    }
}
