//! What the admin API sees of the running proxy, and what it may ask of it.

use super::access::AccessLists;
use super::acme::Acme;
use super::api_keys::ApiKeyStore;
use super::cache::Purges;
use super::certificate_source::Source;
use super::origin::Origin;
use super::purge_channel::Channel;
use super::reload_guard::{Counts, Watcher};
use super::runtime::Runtime;
use super::series::TimeSeries;
use super::service_monitor::ServiceMonitor;
use super::upgrade::Wishes;
use crate::concealed::{conceal, hide};
use crate::operator_log::notice;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use thalweg_admin::control::{Limits, Usage};
use thalweg_admin::{
    AddressChanged, AddressList, AddressListContents, AdminTls, ApiKeyControl, CacheStatus, CanaryChanged,
    CanaryOrder, CanaryStatus, CertificateStatus, Changed, ConfigDocument, ConfigOrigin, ConfigOutcome,
    ConnectionStatus, Control, DescriptorStatus, EndpointChange, Events, Expected, History, ListenerStatus,
    MaintenanceChanged, NewAddress, NewEndpoint, NewLabel, OpenTap, Purging, Recalling, Refusal,
    ReloadOptions, ReplaceOptions, RequestFilter, Reweighted, RollbackOptions, RouteStatus, SealedLabel,
    SeriesDocument, SeriesFilter, Services, ServicesSummary, Slos, SourceStatuses, State, Status, TapOptions,
    Tokens, Upgrading, WeightsReset,
};
use thalweg_core::limits::WORKER_SILENCE;
use thalweg_core::{Event, EventKind, Notice};
use thalweg_discovery::Sources;
use thalweg_net::allocator::tidy_up;
use thalweg_observe::WebhookPolicy;
use thalweg_observe::exposition::Form;
use thalweg_observe::{Registry, Series, open_descriptors};
use thalweg_proxy::explain::{Explanation, Question, Unaskable};
use thalweg_proxy::{Plan, Purge, StartError, WorkerPool};
use thalweg_upstream::EndpointSet;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Until what a plan leaves behind is given back: it has been answered by then.
const UNTIDY: Duration = Duration::from_secs(1);

/// Shared by the control thread and the admin thread.
pub(crate) struct Shared {
    worker_pool: WorkerPool,
    pub(super) registry: Arc<Registry>,
    started: Instant,
    started_at: SystemTime,
    pub(super) generation: AtomicU64,
    draining: AtomicBool,
    /// A successor has been told what there is: what changes now it would not know.
    pub(super) is_passed_on: AtomicBool,
    pub(super) wishes: Wishes,
    stop: Notify,
    events: Events,
    origin: Mutex<Origin>,
    runtime: Mutex<Runtime>,
    monitor: Mutex<ServiceMonitor>,
    /// Lists of addresses. No other lock is taken while it is held.
    access: Mutex<AccessLists>,
    /// No other lock is taken while one of its is held.
    series: TimeSeries,
    pub(crate) api_keys: ApiKeyStore,
    /// How sources of endpoints stand.
    sources: Sources,
    /// How sources of routes stand.
    route_sources: Sources,
    /// As in the documents of `origin`, without its lock.
    pub(super) document_changes: AtomicU64,
    /// What the admin listener asks for, once it is there.
    pub(super) tokens: OnceLock<Arc<Tokens>>,
    /// What the admin listener shakes hands on, once it is there.
    pub(super) admin_tls: OnceLock<Arc<AdminTls>>,
    /// What is wrong with files of certificates; the last in the order of locks.
    certificate_problems: Mutex<HashMap<Source, String>>,
    watcher: Mutex<Watcher>,
    acme: Acme,
    pub(super) purges: Purges,
    /// No other lock is taken while it is held.
    purge_channel: Mutex<Option<Arc<Channel>>>,
    /// Something has changed that the control thread acts on. The bell of all standings too.
    changed: Arc<Notify>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Changes are made whole before anything that could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// How sources of endpoints stand.
    pub(super) fn source_board(&self) -> &Sources {
        &self.sources
    }

    /// How sources of routes stand.
    pub(super) fn route_board(&self) -> &Sources {
        &self.route_sources
    }

    pub(crate) fn new(
        worker_pool: WorkerPool,
        registry: Arc<Registry>,
        (origin, mut runtime): (Origin, Runtime),
        (access, series, api_keys): (AccessLists, TimeSeries, ApiKeyStore),
        (changed, acme, (sources, route_sources)): (Arc<Notify>, Acme, (Sources, Sources)),
    ) -> Self {
        registry.reloads().note_success();
        runtime.base.provenance = origin.provenance.clone();
        Self {
            worker_pool,
            registry,
            started: Instant::now(),
            started_at: SystemTime::now(),
            generation: AtomicU64::new(1),
            draining: AtomicBool::new(false),
            is_passed_on: AtomicBool::new(false),
            wishes: Wishes::default(),
            sources,
            route_sources,
            stop: Notify::new(),
            events: Events::new(),
            document_changes: AtomicU64::new(origin.documents.changes()),
            origin: Mutex::new(origin),
            runtime: Mutex::new(runtime),
            monitor: Mutex::default(),
            access: Mutex::new(access),
            series,
            api_keys,
            tokens: OnceLock::new(),
            admin_tls: OnceLock::new(),
            certificate_problems: Mutex::default(),
            watcher: Mutex::default(),
            acme,
            purges: Purges::default(),
            purge_channel: Mutex::default(),
            changed,
        }
    }

    /// All workers.
    pub(crate) fn worker_pool(&self) -> &WorkerPool {
        &self.worker_pool
    }

    /// Who asks authorities for certificates.
    pub(crate) fn acme(&self) -> &Acme {
        &self.acme
    }

    /// Where the configuration came from. Taken before [`Self::runtime`] where both are needed.
    pub(super) fn origin(&self) -> MutexGuard<'_, Origin> {
        lock(&self.origin)
    }

    /// What runs. Taken before [`Self::monitor`] where both are needed.
    pub(super) fn runtime(&self) -> MutexGuard<'_, Runtime> {
        lock(&self.runtime)
    }

    /// Lists of addresses.
    pub(super) fn access(&self) -> MutexGuard<'_, AccessLists> {
        lock(&self.access)
    }

    /// Time series.
    pub(super) fn series(&self) -> &TimeSeries {
        &self.series
    }

    /// Who watches how services stand.
    pub(super) fn monitor(&self) -> MutexGuard<'_, ServiceMonitor> {
        lock(&self.monitor)
    }

    /// Who watches a new configuration. The last in the order of locks: while it is held only meters are read.
    pub(super) fn watcher(&self) -> MutexGuard<'_, Watcher> {
        lock(&self.watcher)
    }

    /// What is wrong with files of certificates.
    pub(super) fn certificate_problems(&self) -> MutexGuard<'_, HashMap<Source, String>> {
        lock(&self.certificate_problems)
    }

    /// What has been counted about each route until now.
    pub(super) fn route_counts(&self) -> Counts {
        self.registry.route_totals().into_iter().collect()
    }

    /// Since when an endpoint stands as it does.
    pub(super) fn since(&self, service: &str, url: &str) -> SystemTime {
        self.monitor().since(service, url).unwrap_or(self.started_at)
    }

    /// The files that the configuration in force was read from.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.origin().files()
    }

    /// Whether the configuration's files say what runs already.
    pub(crate) fn runs_what_is_written(&self) -> bool {
        let origin = self.origin();
        origin.file.is_some() && !origin.inputs.have_changed()
    }

    /// The webhooks of the configuration in force.
    pub(crate) fn webhooks(&self) -> Vec<WebhookPolicy> {
        self.origin().settings.webhooks.clone()
    }

    /// How other replicas are told of purges; `None`: they are not.
    pub(super) fn purge_channel(&self) -> Option<Arc<Channel>> {
        lock(&self.purge_channel).clone()
    }

    /// Others are told so from now on.
    pub(super) fn set_purge_channel(&self, channel: Option<Arc<Channel>>) {
        *lock(&self.purge_channel) = channel;
    }

    /// The events of this process.
    pub(super) fn all_events(&self) -> &Events {
        &self.events
    }

    /// Tells an event to all who want to hear of it.
    pub(crate) fn publish(&self, event: Event) {
        self.events.publish(Event { cause: hide(&event.cause), ..event });
    }

    /// Metrics of what the plan does not have go, when the last exchange has let go of them.
    pub(crate) fn retire_series(&self, plan: &Plan, sets: &[Arc<EndpointSet>]) {
        let listeners: HashSet<&str> = plan.listeners.iter().map(|listener| &*listener.name).collect();
        let calls = plan.calls.iter().map(|call| &call.route);
        let routes: HashSet<&str> = plan.routes.iter().chain(calls).map(|route| &*route.name).collect();
        let services: HashMap<&str, HashSet<&str>> = sets
            .iter()
            .map(|set| &set.service)
            .map(|service| {
                (&*service.name, service.endpoints.iter().map(|endpoint| &*endpoint.url).collect())
            })
            .collect();
        self.registry.retain(|series| match series {
            Series::Listener(name) => listeners.contains(name),
            // What no route takes is counted under the empty name.
            Series::Route(name) => name.is_empty() || routes.contains(name),
            Series::Service(name) => services.contains_key(name),
            Series::Endpoint { service, endpoint } => {
                services.get(service).is_some_and(|endpoints| endpoints.contains(endpoint))
            }
        });
    }

    /// Tells what has changed in how services stand since the last look.
    pub(crate) fn look(&self, anyway: bool) {
        let endpoint_sets = self.worker_pool.endpoint_sets();
        let mut monitor = self.monitor();
        let events = monitor.look(&endpoint_sets, Instant::now(), anyway);
        self.tell_found(monitor, events);
    }

    /// The same of one service.
    pub(super) fn look_at(&self, service: &str) {
        let Some(endpoint_set) = self.worker_pool.endpoint_set(service) else { return };
        let mut monitor = self.monitor();
        let events = monitor.look_at(&endpoint_set, Instant::now());
        self.tell_found(monitor, events);
    }

    fn tell_found(&self, mut monitor: MutexGuard<'_, ServiceMonitor>, events: Vec<Event>) {
        for (service, url, up) in monitor.turned() {
            self.registry.endpoint_up(service, url).set(i64::from(*up));
        }
        for event in events.iter().filter(|event| event.kind == EventKind::EndpointDown) {
            if let (Some(service), Some(endpoint)) = (&event.service, &event.endpoint) {
                self.registry.count_ejection(service, endpoint);
            }
        }
        // With its lock held, so that events of two looks keep their order.
        events.into_iter().for_each(|event| self.publish(event));
        let lines = monitor.take_lines();
        drop(monitor);
        lines.iter().for_each(|line| self.say(line));
    }

    /// Waits until the admin API says stop.
    pub(crate) async fn stop_asked(&self) {
        self.stop.notified().await;
    }

    /// Waits until there is something to look at.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// There is something for the control thread to look at.
    pub(super) fn stir(&self) {
        self.changed.notify_one();
    }

    /// A line for the operator.
    pub(super) fn say(&self, line: &Notice) {
        notice(line);
    }

    /// From now on the proxy is not ready.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// A new plan takes over.
    ///
    /// # Errors
    /// When it cannot: then nothing has changed.
    pub(crate) fn set_plan(&self, plan: Plan) -> Result<(), StartError> {
        conceal(&plan.secrets.concealed);
        self.acme.stock(&plan);
        self.worker_pool.set_plan(plan)?;
        self.generation.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Control for Shared {
    fn status(&self) -> Status {
        let draining = self.draining.load(Ordering::Relaxed);
        let plan = self.worker_pool.plan();
        let protocol = |name: &str| {
            let written = plan.listeners.iter().find(|listener| *listener.name == *name);
            written.map(|listener| listener.protocol).unwrap_or_default().name()
        };
        let listeners = self.worker_pool.bound().into_iter().map(|bound| ListenerStatus {
            protocol: protocol(&bound.name).into(),
            name: bound.name.to_string(),
            address: bound.address,
        });
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            state: if draining { State::Draining } else { State::Running },
            generation: self.generation.load(Ordering::Relaxed),
            workers: self.worker_pool.workers(),
            listeners: listeners.collect(),
            connections: ConnectionStatus {
                active: self.worker_pool.clients() as u64,
                max: self.worker_pool.budget().connections as u64,
            },
            requests_active: self.worker_pool.active() as u64,
            descriptors: DescriptorStatus {
                used: open_descriptors(),
                limit: self.worker_pool.budget().descriptors as u64,
            },
            services: ServicesSummary::of(&self.list_services().services),
            slos_burning: self.burning_slos(),
        }
    }

    fn limits(&self) -> Limits {
        self.worker_pool.measure();
        let (budget, meters) = (self.worker_pool.budget(), self.registry.budget());
        let of =
            |used: Option<usize>, max: usize| Usage { used: used.map(|used| used as u64), max: max as u64 };
        Limits {
            descriptors: Usage { used: open_descriptors(), max: budget.descriptors as u64 },
            connections: of(Some(self.worker_pool.clients()), budget.connections),
            upstream_connections: of(None, budget.upstream_connections),
            requests: of(Some(self.worker_pool.active()), budget.in_flight),
            memory_bytes: Usage { used: u64::try_from(meters.memory_used.value()).ok(), max: budget.memory },
            saturation: meters.saturation_ppm.value() as f64 / 1e6,
        }
    }

    fn alive(&self) -> Result<(), String> {
        let now = Instant::now();
        for (worker, meters) in self.registry.workers().iter().enumerate() {
            let silence = meters.silence(now);
            if silence > WORKER_SILENCE {
                return Err(format!("worker {worker} has not turned for {} s", silence.as_secs()));
            }
        }
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("draining".into());
        }
        self.alive()
    }

    fn metrics(&self, form: Form) -> String {
        self.worker_pool.measure();
        self.registry.render_as(form)
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn stop(&self) {
        self.stop.notify_one();
    }

    fn upgrade(&self, binary: Option<PathBuf>) -> Upgrading {
        self.ask_for_upgrade(binary)
    }

    fn is_open_to_changes(&self) -> Result<(), String> {
        match self.is_passed_on.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err("another process is about to take over; ask again in some seconds".into()),
        }
    }

    fn complain(&self, line: &str) {
        self.say(&Notice::warn(line));
    }

    fn services(&self) -> Services {
        self.list_services()
    }

    fn routes(&self) -> Vec<RouteStatus> {
        self.list_routes()
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        self.list_certificates()
    }

    fn explain(&self, question: &Question, all: bool) -> Result<Explanation, Unaskable> {
        self.tell(question, all)
    }

    fn add_endpoint(
        &self,
        service: &str,
        new: NewEndpoint,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        self.add(service, &new, expected)
    }

    fn change_endpoint(
        &self,
        service: &str,
        id: &str,
        change: EndpointChange,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        self.change(service, id, change, expected)
    }

    fn remove_endpoint(
        &self,
        service: &str,
        id: &str,
        drain: Duration,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        self.remove(service, id, drain, expected)
    }

    fn api_keys(&self) -> &dyn ApiKeyControl {
        &self.api_keys
    }

    fn address_lists(&self) -> Vec<AddressList> {
        self.list_address_lists()
    }

    fn address_list(&self, list: &str) -> Result<AddressListContents, Refusal> {
        self.address_list_of(list)
    }

    fn add_address(&self, list: &str, new: NewAddress) -> Result<AddressChanged, Refusal> {
        self.put_into_list(list, &new)
    }

    fn remove_address(&self, list: &str, network: &str) -> Result<AddressChanged, Refusal> {
        self.take_out_of_list(list, network)
    }

    fn cache(&self) -> CacheStatus {
        self.cache_status()
    }

    fn purge(&self, purge: Purge) -> Purging {
        self.begin_purge(purge)
    }

    fn canary(&self, route: &str) -> Result<CanaryStatus, Refusal> {
        self.canary_status(route)
    }

    fn order_canary(
        &self,
        route: &str,
        order: CanaryOrder,
        expected: &Expected<u64>,
    ) -> Result<CanaryChanged, Refusal> {
        self.order_canary_of(route, order, expected)
    }

    fn seal(&self, new: &NewLabel) -> Result<SealedLabel, Refusal> {
        self.seal_label(new)
    }

    fn set_weights(
        &self,
        route: &str,
        weights: Vec<(String, u32)>,
        expected: &Expected<u64>,
    ) -> Result<Reweighted, Refusal> {
        self.reweigh(route, &weights, expected)
    }

    fn reset_weights(&self, route: &str, expected: &Expected<u64>) -> Result<WeightsReset, Refusal> {
        self.reset_shares(route, expected)
    }

    fn set_maintenance(
        &self,
        route: &str,
        on: Option<bool>,
        expected: &Expected<u64>,
    ) -> Result<MaintenanceChanged, Refusal> {
        self.switch_maintenance(route, on, expected)
    }

    fn requests(&self, filter: RequestFilter) -> Recalling {
        self.query_records(filter)
    }

    fn series(&self, filter: &SeriesFilter) -> SeriesDocument {
        self.select_series(filter)
    }

    fn sources(&self) -> SourceStatuses {
        self.list_sources()
    }

    fn slos(&self) -> Slos {
        self.list_slos()
    }

    fn tap(&self, options: TapOptions) -> Result<Box<dyn OpenTap>, Refusal> {
        self.begin_tap(options)
    }

    fn config(&self) -> ConfigDocument {
        self.show_config()
    }

    fn config_schema(&self) -> String {
        thalweg_config::schema::document()
    }

    fn replace_config(
        &self,
        text: &str,
        expected: &Expected<String>,
        options: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        tidy_up_later();
        self.replace(text, expected, options)
    }

    fn reload(&self, ReloadOptions { watch, by }: ReloadOptions) -> Result<ConfigOutcome, Refusal> {
        tidy_up_later();
        self.read_again((ConfigOrigin::Reload, by), watch).map_err(Refusal::from)
    }

    fn plan(&self) -> Result<ConfigOutcome, Refusal> {
        tidy_up_later();
        self.preview().map_err(Refusal::from)
    }

    fn history(&self) -> History {
        self.origin().history.document()
    }

    fn rollback(
        &self,
        expected: &Expected<String>,
        options: RollbackOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        tidy_up_later();
        self.bring_back(expected, options)
    }
}

/// Gives back what this thread's share of the allocator holds, when what is begun now has been answered: a plan
/// leaves much behind that is not needed until the next one.
fn tidy_up_later() {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async {
            sleep(UNTIDY).await;
            tidy_up();
        });
    }
}
