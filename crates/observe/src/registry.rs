//! Who holds which meters: every group of cells, by worker and name.
//!
//! A worker asks here when a plan reaches it, never during an exchange. Asking again for the same
//! name gives the same group, so that counts survive a reload. Invariants: names come from the
//! configuration or from a source of endpoints, never from a client, and their number is bounded
//! by [`SERIES`]; the lock is held for a lookup or for copying a list of pointers, never while text
//! is written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::meter::{Counter, Gauge};
use crate::meters::{
    AcmeMeters, BudgetMeters, EndpointMeters, FilterMeters, ListenerMeters, LogMeters, Meters, ReloadMeters,
    RouteMeters, ServiceMeters, TraceMeters, WebhookMeters, WorkerMeters,
};
use crate::slo::SloStanding;
use crate::totals::Totals;

/// Names kept per kind of thing (listeners, routes, endpoints). Those past it share one series,
/// whose labels all say [`OTHER`].
pub const SERIES: usize = 50_000;
/// Retired series of a kind that wait to be shown once more.
pub const RETIRED: usize = 1_000;
/// How long examples are written after somebody has asked for them, in milliseconds.
const EXEMPLARS_MS: u64 = 10 * 60 * 1_000;
/// The label of the series that stands for all names past [`SERIES`].
pub const OTHER: &str = "_other";

/// The thing that a group of meters is about; see [`Registry::retain`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Series<'a> {
    /// A listener, by name.
    Listener(&'a str),
    /// A route, by name.
    Route(&'a str),
    /// A service, by name.
    Service(&'a str),
    /// An endpoint of a service.
    Endpoint {
        /// The service's name.
        service: &'a str,
        /// The endpoint's address as written in metrics and logs.
        endpoint: &'a str,
    },
}

/// All meters of the process.
#[derive(Debug)]
pub struct Registry {
    workers: Box<[Arc<WorkerMeters>]>,
    budget: BudgetMeters,
    log: Arc<LogMeters>,
    reloads: ReloadMeters,
    acme: AcmeMeters,
    webhooks: Arc<WebhookMeters>,
    traces: Arc<TraceMeters>,
    refused_names: AtomicU64,
    slos: Mutex<Vec<SloStanding>>,
    sources: Mutex<Vec<SourceStanding>>,
    cache: Mutex<Option<CacheStanding>>,
    epoch: Instant,
    /// Until when examples are wanted, in milliseconds since `epoch`.
    exemplars_until: AtomicU64,
    pub(crate) listeners: Family<ListenerMeters, 1>,
    pub(crate) routes: Family<RouteMeters, 1>,
    /// By route and service.
    pub(crate) targets: Family<RouteMeters, 2>,
    pub(crate) filters: Family<FilterMeters, 2>,
    pub(crate) services: Family<ServiceMeters, 1>,
    pub(crate) endpoints: Family<EndpointMeters, 2>,
    pub(crate) ups: Family<Gauge, 2>,
    pub(crate) breakers: Family<Gauge, 1>,
    pub(crate) endpoint_limits: Family<Gauge, 2>,
    /// Counted by whoever watches how endpoints stand, one at a time.
    pub(crate) ejections: Family<Counter, 2>,
    pub(crate) certificates: Family<Gauge, 2>,
}

/// How the source of a service's endpoints stands, or sources of routes.
#[derive(Clone, Debug)]
pub struct SourceStanding {
    /// The service.
    pub service: Arc<str>,
    /// The kind of source.
    pub source: &'static str,
    /// Whether it fails.
    pub is_failing: bool,
    /// When it was last heard; `None`: never.
    pub age: Option<Duration>,
    /// How many endpoints it knows; `None`: it tells of something else.
    pub endpoints: Option<usize>,
    /// Sets that came.
    pub updates: u64,
    /// Failures.
    pub failures: u64,
}

/// What the cache has and did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheStanding {
    /// Bytes of memory in use.
    pub bytes: u64,
    /// Bytes that it may use.
    pub limit_bytes: u64,
    /// Responses that are stored.
    pub objects: u64,
    /// Responses that are being stored.
    pub filling: u64,
    /// Bytes of those.
    pub fill_bytes: u64,
    /// Responses that it began to fetch.
    pub fills: u64,
    /// Those that broke off.
    pub broken: u64,
    /// Responses that were stored.
    pub stored: u64,
    /// Responses that were not.
    pub rejected: u64,
    /// Times at which a request went by.
    pub passed: u64,
    /// Objects that went because room was needed.
    pub evictions: u64,
    /// Objects that were taken away.
    pub removed: u64,
    /// Objects that were made stale.
    pub made_stale: u64,
    /// The same on a disk, where one is configured.
    pub disk: Option<CacheDiskStanding>,
}

/// What the cache has on a disk, and did there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheDiskStanding {
    /// How it stands, in a word.
    pub condition: &'static str,
    /// Bytes of the disk in use.
    pub bytes: u64,
    /// Bytes that it may use.
    pub limit_bytes: u64,
    /// Responses that are stored and can be found.
    pub objects: u64,
    /// Responses that were read.
    pub hits: u64,
    /// Responses that were not, since too many were being read.
    pub busy: u64,
    /// Responses that were written.
    pub written: u64,
    /// Responses that were not written.
    pub dropped: u64,
    /// Objects that went because room was needed.
    pub evictions: u64,
    /// Objects that were written again when their place was needed, since they had been used.
    pub kept: u64,
    /// Objects that were taken away.
    pub removed: u64,
    /// Objects that were damaged.
    pub damaged: u64,
    /// Calls of the operating system that failed.
    pub errors: u64,
}

impl Registry {
    /// A registry for `workers` workers, numbered from 0.
    pub fn new(workers: usize) -> Self {
        let epoch = Instant::now();
        Self {
            workers: (0..workers).map(|_| Arc::new(WorkerMeters::new(epoch))).collect(),
            budget: BudgetMeters::default(),
            log: Arc::default(),
            reloads: ReloadMeters::default(),
            acme: AcmeMeters::default(),
            webhooks: Arc::default(),
            traces: Arc::default(),
            refused_names: AtomicU64::new(0),
            slos: Mutex::default(),
            sources: Mutex::default(),
            cache: Mutex::default(),
            epoch,
            exemplars_until: AtomicU64::new(0),
            listeners: Family::new(workers),
            routes: Family::new(workers),
            targets: Family::new(workers),
            filters: Family::new(workers),
            services: Family::new(workers),
            endpoints: Family::new(workers),
            ups: Family::new(1),
            breakers: Family::new(1),
            endpoint_limits: Family::new(1),
            ejections: Family::new(1),
            certificates: Family::new(1),
        }
    }

    /// The meters of worker number `worker`. A number out of range gets meters that nobody reads.
    pub fn worker(&self, worker: usize) -> Arc<WorkerMeters> {
        debug_assert!(worker < self.workers.len(), "worker {worker} is not one of {}", self.workers.len());
        let unread = || Arc::new(WorkerMeters::new(Instant::now()));
        self.workers.get(worker).map_or_else(unread, Arc::clone)
    }

    /// The meters of every worker, by number.
    pub fn workers(&self) -> &[Arc<WorkerMeters>] {
        &self.workers
    }

    /// What `worker` counts about the listener `name`: made at the first call, the same afterwards.
    pub fn listener(&self, worker: usize, name: &str) -> Arc<ListenerMeters> {
        self.listeners.group(worker, [name], &self.refused_names)
    }

    /// There is a route `name`: it is shown, also before anything is counted. One that was retired is back with its
    /// counts.
    pub fn declare_route(&self, name: &str) {
        self.routes.with_entry([name], &self.refused_names, |entry| entry.retired = false);
    }

    /// What `worker` counts about the route `name`: made at the first call, the same afterwards. A series that is
    /// retired stays so: whoever asks may be about to learn of it.
    pub fn route(&self, worker: usize, name: &str) -> Arc<RouteMeters> {
        self.routes.with_entry([name], &self.refused_names, |entry| entry.group(worker))
    }

    /// What `worker` counts about the requests of a route that go to a service, where the two are watched apart: made
    /// at the first call, the same afterwards.
    pub fn target(&self, worker: usize, route: &str, service: &str) -> Arc<RouteMeters> {
        self.targets.group(worker, [route, service], &self.refused_names)
    }

    /// What `worker` counts about filters of this kind on a route: made at the first call, the same afterwards.
    pub fn filter(&self, worker: usize, route: &str, filter: &str) -> Arc<FilterMeters> {
        self.filters.group(worker, [route, filter], &self.refused_names)
    }

    /// What `worker` counts about the service `name`: made at the first call, the same afterwards.
    pub fn service(&self, worker: usize, name: &str) -> Arc<ServiceMeters> {
        self.services.group(worker, [name], &self.refused_names)
    }

    /// What `worker` counts about one endpoint: made at the first call, the same afterwards.
    pub fn endpoint(&self, worker: usize, service: &str, endpoint: &str) -> Arc<EndpointMeters> {
        self.endpoints.group(worker, [service, endpoint], &self.refused_names)
    }

    /// Whether an endpoint gets traffic: 1 or 0, one gauge for the whole process. Use `set` only.
    pub fn endpoint_up(&self, service: &str, endpoint: &str) -> Arc<Gauge> {
        self.ups.group(0, [service, endpoint], &self.refused_names)
    }

    /// Counts that an endpoint was taken out of rotation. Not to be called by two threads at once.
    pub fn count_ejection(&self, service: &str, endpoint: &str) {
        self.ejections.group(0, [service, endpoint], &self.refused_names).add(1);
    }

    /// Somebody asks for examples: workers write them for the next ten minutes.
    pub(crate) fn want_exemplars(&self) {
        let now = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.exemplars_until.store(now.saturating_add(EXEMPLARS_MS), Relaxed);
    }

    /// Whether examples are wanted at this moment, which [`WorkerMeters::ms_of`] gives.
    #[inline]
    pub fn wants_exemplars(&self, now_ms: u64) -> bool {
        now_ms < self.exemplars_until.load(Relaxed)
    }

    /// What the breakers of these services do: 0 closed, 1 open, 2 half open. Services that are not among them
    /// have none.
    pub fn set_breakers<'a>(&self, states: impl Iterator<Item = (&'a str, i64)>) {
        self.breakers.replace(states.map(|(service, state)| ([service], state)));
    }

    /// The limits of these endpoints, by service and endpoint; others have none that follows their latency.
    pub fn set_endpoint_limits<'a>(&self, limits: impl Iterator<Item = ([&'a str; 2], i64)>) {
        self.endpoint_limits.replace(limits);
    }

    /// When certificates cease to hold, in seconds since the Unix epoch, by listener and first name; there are no
    /// others.
    pub fn set_certificates<'a>(&self, ends: impl Iterator<Item = ([&'a str; 2], i64)>) {
        self.certificates.replace(ends);
    }

    /// How objectives stand; there are no others.
    pub fn set_slos(&self, standings: Vec<SloStanding>) {
        *self.slos.lock().unwrap_or_else(PoisonError::into_inner) = standings;
    }

    /// How sources of endpoints stand now.
    pub fn set_sources(&self, standings: Vec<SourceStanding>) {
        *self.sources.lock().unwrap_or_else(PoisonError::into_inner) = standings;
    }

    /// What the cache has and did until now; `None`: no route caches.
    pub fn set_cache(&self, standing: Option<CacheStanding>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    pub(crate) fn cache(&self) -> Option<CacheStanding> {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sources(&self) -> Vec<SourceStanding> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn slos(&self) -> Vec<SloStanding> {
        self.slos.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The budget of the process, set by the control thread.
    pub fn budget(&self) -> &BudgetMeters {
        &self.budget
    }

    /// What the log writer counts.
    pub fn log(&self) -> Arc<LogMeters> {
        Arc::clone(&self.log)
    }

    /// What becomes of configurations that are to take over.
    pub fn reloads(&self) -> &ReloadMeters {
        &self.reloads
    }

    /// What becomes of certificates that are asked for.
    pub fn acme(&self) -> &AcmeMeters {
        &self.acme
    }

    /// What the exporter of traces counts.
    pub fn traces(&self) -> Arc<TraceMeters> {
        Arc::clone(&self.traces)
    }

    /// What webhooks count.
    pub fn webhooks(&self) -> Arc<WebhookMeters> {
        Arc::clone(&self.webhooks)
    }

    /// Retires the series that `keep` refuses, after a reload or when endpoints have left. A retired
    /// series is shown as long as a worker holds it, and, if anything was counted in it, once more after that, so that
    /// no count of a last exchange is lost. Asking for its name again brings it back with its counts. Where nobody asks
    /// for metrics, at most [`RETIRED`] of a kind wait for it.
    pub fn retain(&self, keep: impl Fn(Series<'_>) -> bool) {
        self.listeners.retain(|[name]| keep(Series::Listener(name)));
        self.routes.retain(|[name]| keep(Series::Route(name)));
        self.targets.retain(|[route, _]| keep(Series::Route(route)));
        self.filters.retain(|[route, _]| keep(Series::Route(route)));
        self.services.retain(|[name]| keep(Series::Service(name)));
        let endpoint = |[service, endpoint]: &[String; 2]| keep(Series::Endpoint { service, endpoint });
        self.endpoints.retain(endpoint);
        self.ups.retain(endpoint);
        self.ejections.retain(endpoint);
    }

    /// Names that were refused a series of their own because there were [`SERIES`] already.
    pub(crate) fn refused_names(&self) -> u64 {
        self.refused_names.load(Relaxed)
    }

    /// Forgets retired series that nobody holds any more. Called after each rendering.
    pub(crate) fn prune(&self) {
        self.listeners.prune();
        self.routes.prune();
        self.targets.prune();
        self.filters.prune();
        self.services.prune();
        self.endpoints.prune();
        self.ups.prune();
        self.ejections.prune();
    }
}

/// The groups of one kind: `N` names lead to one group per worker.
#[derive(Debug)]
pub(crate) struct Family<M, const N: usize> {
    workers: usize,
    entries: Mutex<BTreeMap<[String; N], Entry<M>>>,
    /// What entries have counted that were forgotten.
    gone: Mutex<Totals>,
}

#[derive(Debug)]
pub(crate) struct Entry<M> {
    groups: Box<[Option<Arc<M>>]>,
    retired: bool,
}

impl<M: Meters> Entry<M> {
    /// What a worker counts. A number out of range gets meters that nobody reads.
    fn group(&mut self, worker: usize) -> Arc<M> {
        debug_assert!(worker < self.groups.len(), "worker {worker} is not one of {}", self.groups.len());
        let Some(group) = self.groups.get_mut(worker) else { return Arc::default() };
        Arc::clone(group.get_or_insert_default())
    }

    /// It is retired, and nobody counts in it.
    fn is_over(&self) -> bool {
        let is_held = |group: &Arc<M>| Arc::strong_count(group) > 1;
        self.retired && !self.groups.iter().flatten().any(is_held)
    }

    /// What all workers have counted in it.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.groups.iter().flatten().for_each(|group| group.add_totals(&mut totals));
        totals
    }

    /// Nothing has been counted in it.
    fn is_blank(&self) -> bool {
        self.groups.iter().flatten().all(|group| group.is_blank())
    }
}

/// Names and the groups of the workers that have one.
pub(crate) type Snapshot<M, const N: usize> = Vec<([String; N], Vec<Arc<M>>)>;

impl<M: Meters, const N: usize> Family<M, N> {
    fn new(workers: usize) -> Self {
        Self { workers, entries: Mutex::default(), gone: Mutex::default() }
    }

    /// The map. It is never left half changed, so a panic elsewhere does not make it unusable.
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<[String; N], Entry<M>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn group(&self, worker: usize, names: [&str; N], refused: &AtomicU64) -> Arc<M> {
        self.with_entry(names, refused, |entry| {
            entry.retired = false;
            entry.group(worker)
        })
    }

    /// Does something with the entry of these names, which is made if there is none.
    fn with_entry<T>(
        &self,
        names: [&str; N],
        refused: &AtomicU64,
        act: impl FnOnce(&mut Entry<M>) -> T,
    ) -> T {
        let mut key = names.map(str::to_owned);
        let mut entries = self.entries();
        if entries.len() >= SERIES && !entries.contains_key(&key) {
            refused.fetch_add(1, Relaxed);
            key = [OTHER; N].map(str::to_owned);
        }
        let workers = self.workers;
        let entry = entries
            .entry(key)
            .or_insert_with(|| Entry { groups: (0..workers).map(|_| None).collect(), retired: false });
        act(entry)
    }

    fn retain(&self, keep: impl Fn(&[String; N]) -> bool) {
        let mut waiting = 0;
        self.entries().retain(|names, entry| {
            entry.retired = !keep(names);
            let is_over = entry.is_over();
            let tells = is_over && !entry.is_blank();
            waiting += usize::from(tells);
            self.keeps(entry, tells || !is_over)
        });
        if waiting > RETIRED {
            self.prune();
        }
    }

    fn prune(&self) {
        self.entries().retain(|_, entry| self.keeps(entry, !entry.is_over()));
    }

    /// What an entry has counted stays in the sum when it goes.
    fn keeps(&self, entry: &Entry<M>, is_kept: bool) -> bool {
        if !is_kept {
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).merge(&entry.totals());
        }
        is_kept
    }

    /// What entries have counted that were forgotten.
    pub(crate) fn gone(&self) -> Totals {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been counted under these names.
    pub(crate) fn totals_of(&self, names: [&str; N]) -> Totals {
        self.entries().get(&names.map(str::to_owned)).map(Entry::totals).unwrap_or_default()
    }

    /// The groups of these names, of all workers.
    pub(crate) fn groups_of(&self, names: [&str; N]) -> Vec<Arc<M>> {
        let entries = self.entries();
        let entry = entries.get(&names.map(str::to_owned));
        entry.map(|entry| entry.groups.iter().flatten().map(Arc::clone).collect()).unwrap_or_default()
    }

    /// A copy of the pointers, in the order of the names.
    pub(crate) fn snapshot(&self) -> Snapshot<M, N> {
        let groups = |entry: &Entry<M>| entry.groups.iter().flatten().map(Arc::clone).collect();
        self.entries().iter().map(|(names, entry)| (names.clone(), groups(entry))).collect()
    }
}

impl<const N: usize> Family<Gauge, N> {
    /// These are all the series from now on, with these values.
    fn replace<'a>(&self, values: impl Iterator<Item = ([&'a str; N], i64)>) {
        let entries = values.take(SERIES).map(|(names, value)| {
            let gauge = Gauge::default();
            gauge.set(value);
            let groups = [Some(Arc::new(gauge))].into();
            (names.map(str::to_owned), Entry { groups, retired: false })
        });
        *self.entries() = entries.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_gives_the_same_group_per_worker() {
        let registry = Registry::new(2);
        assert!(Arc::ptr_eq(&registry.route(0, "a"), &registry.route(0, "a")));
        assert!(!Arc::ptr_eq(&registry.route(0, "a"), &registry.route(1, "a")));
        assert!(!Arc::ptr_eq(&registry.route(0, "a"), &registry.route(0, "b")));
        assert!(Arc::ptr_eq(&registry.endpoint(1, "s", "e"), &registry.endpoint(1, "s", "e")));
        assert!(Arc::ptr_eq(&registry.worker(1), &registry.workers()[1]));
    }

    #[test]
    fn a_retired_series_lives_while_it_is_held_and_is_shown_once_more() {
        let registry = Registry::new(1);
        let held = registry.route(0, "old");
        held.codes.add(200);
        registry.retain(|series| series != Series::Route("old"));
        registry.render();
        held.codes.add(200);
        drop(held);
        assert!(registry.render().contains("thalweg_requests_total{route=\"old\",code=\"200\"} 2\n"));
        assert!(!registry.render().contains("\"old\""));
        assert_eq!(registry.route(0, "old").codes.value(200), 0);
    }

    #[test]
    fn a_series_that_is_asked_for_again_keeps_its_counts() {
        let registry = Registry::new(1);
        registry.listener(0, "web").connections.add(7);
        registry.retain(|_| false);
        assert_eq!(registry.listener(0, "web").connections.value(), 7);
        registry.render();
        assert_eq!(registry.listener(0, "web").connections.value(), 7);
    }

    #[test]
    fn a_route_is_shown_before_it_counts_and_costs_no_meters() {
        let registry = Registry::new(2);
        registry.declare_route("new");
        assert!(registry.routes.snapshot().iter().all(|(_, groups)| groups.is_empty()));
        assert!(registry.render().contains("thalweg_request_bytes_total{route=\"new\"} 0\n"));
        registry.retain(|_| false);
        assert!(!registry.render().contains("\"new\""));
    }

    #[test]
    fn who_asks_for_a_retired_route_does_not_bring_it_back_and_a_plan_does() {
        let registry = Registry::new(1);
        registry.route(0, "old").codes.add(200);
        registry.retain(|_| false);
        drop(registry.route(0, "old"));
        registry.declare_route("old");
        registry.prune();
        assert_eq!(registry.route(0, "old").codes.value(200), 1);
        registry.retain(|_| false);
        drop(registry.route(0, "old"));
        registry.prune();
        assert_eq!(registry.route(0, "old").codes.value(200), 0);
    }

    #[test]
    fn only_so_many_retired_series_wait_for_somebody_who_asks() {
        let registry = Registry::new(1);
        let held = registry.route(0, "held");
        for round in 0..10 {
            let names = (0..RETIRED / 4).map(|at| format!("{round}x{at}"));
            names.for_each(|name| registry.route(0, &name).codes.add(200));
            registry.retain(|_| false);
            assert!(registry.routes.snapshot().len() <= RETIRED + 1);
        }
        held.codes.add(200);
        assert_eq!(registry.route(0, "held").codes.value(200), 1, "who is held is never dropped");
    }

    #[test]
    fn a_retired_series_without_a_count_is_forgotten_at_once() {
        let registry = Registry::new(1);
        let (blank, held) = (registry.route(0, "blank"), registry.route(0, "held"));
        drop(blank);
        registry.retain(|_| false);
        assert_eq!(
            registry.routes.snapshot().iter().map(|(names, _)| &*names[0]).collect::<Vec<_>>(),
            ["held"]
        );
        held.codes.add(200);
        assert!(registry.render().contains("route=\"held\""), "it may still be counted in");
    }

    #[test]
    fn a_service_without_a_breaker_has_no_state_of_one() {
        let registry = Registry::new(1);
        registry.set_breakers([("a", 1), ("b", 0)].into_iter());
        assert!(registry.render().contains("thalweg_breaker_state{service=\"a\"} 1\n"));
        registry.set_breakers([("b", 2)].into_iter());
        let page = registry.render();
        assert!(!page.contains("thalweg_breaker_state{service=\"a\"}"));
        assert!(page.contains("thalweg_breaker_state{service=\"b\"} 2\n"));
    }

    #[test]
    fn names_past_the_bound_share_one_series() {
        let registry = Registry::new(1);
        for i in 0..SERIES {
            registry.route(0, &i.to_string());
        }
        registry.route(0, "one too many").codes.add(200);
        registry.route(0, "two too many").codes.add(200);
        assert_eq!(registry.route(0, OTHER).codes.value(200), 2);
        assert_eq!(registry.refused_names(), 2);
        assert_eq!(registry.routes.snapshot().len(), SERIES + 1);
    }
}
