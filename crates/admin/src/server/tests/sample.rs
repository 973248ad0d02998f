//! A proxy that only says what it is told to, but keeps its versions as the real one must.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use crate::control::*;
use crate::events::Events;
use thalweg_observe::exposition::Form;
use thalweg_proxy::Purge;
use thalweg_proxy::explain::{Explanation, Outcome, Question, SeenRequest, Unaskable};

/// A label that a route would open.
pub(in crate::server) const LABEL: &str = "eebidunymrmjop2vqvxfuc57d7zfjak7m7gy5v2j3pl7m6wl3weayhjv4yw3kea";

/// The proxy.
pub(in crate::server) struct Sample {
    pub(in crate::server) events: Events,
    pub(super) silent: AtomicBool,
    pub(super) draining: AtomicBool,
    pub(super) stops: AtomicUsize,
    pub(super) complaints: Mutex<Vec<String>>,
    state: Mutex<Live>,
}

/// A tap whose reader was too slow at first; then nothing happens.
struct SampleTap(TapOptions);

impl OpenTap for SampleTap {
    fn next(&mut self) -> NextTapEvent<'_> {
        match self.0.route.take() {
            Some(_) => Box::pin(ready(Some(TapEvent::Dropped(7)))),
            None => Box::pin(pending()),
        }
    }
}

struct Live {
    version: u64,
    endpoints: Vec<EndpointStatus>,
    to: Vec<RouteTarget>,
    config: String,
    etag: u64,
}

fn endpoint(new: NewEndpoint, source: EndpointSource) -> EndpointStatus {
    // Any stable text will do as an id here.
    let id =
        format!("{:016x}", new.url.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte)));
    EndpointStatus {
        id,
        url: new.url,
        weight: new.weight,
        tier: new.tier,
        state: EndpointState::Ready,
        since: SystemTime::UNIX_EPOCH,
        cause: None,
        source,
        origin: Some("written in thalweg.yaml:12".into()),
        addresses: vec!["10.0.0.1:8080".into()],
        requests_active: 0,
        requests_total: 0,
        failures_total: 0,
        latency_ms: None,
    }
}

impl Default for Sample {
    fn default() -> Self {
        let first = NewEndpoint { url: "http://10.0.0.1:8080".into(), weight: 1, tier: 0 };
        let target = |service: &str, weight| RouteTarget { service: service.into(), weight };
        Self {
            events: Events::default(),
            silent: AtomicBool::default(),
            draining: AtomicBool::default(),
            stops: AtomicUsize::default(),
            complaints: Mutex::default(),
            state: Mutex::new(Live {
                version: 1,
                endpoints: vec![endpoint(first, EndpointSource::File)],
                to: vec![target("checkout", 95), target("checkout-next", 5)],
                config: "listeners: {}\n".into(),
                etag: 1,
            }),
        }
    }
}

impl Sample {
    fn state(&self) -> MutexGuard<'_, Live> {
        self.state.lock().unwrap()
    }

    /// What somebody else does to the configuration.
    pub(super) fn edit_config(&self) {
        self.state().etag += 1;
    }
}

impl Live {
    fn service(&self, name: &str) -> Result<(), Refusal> {
        match name {
            "checkout" | "a/b ä" => Ok(()),
            _ => Err(Refusal::Unknown(format!("there is no service `{name}`"))),
        }
    }

    fn find(&self, id: &str) -> Result<usize, Refusal> {
        let unknown = || Refusal::Unknown(format!("there is no endpoint `{id}`"));
        self.endpoints.iter().position(|found| found.id == id || found.url == id).ok_or_else(unknown)
    }

    fn check(&self, expected: &Expected<u64>) -> Result<(), Refusal> {
        if expected.admits(&self.version) { Ok(()) } else { Err(Refusal::Stale { version: self.version }) }
    }
}

impl Control for Sample {
    fn upgrade(&self, _: Option<std::path::PathBuf>) -> crate::control::Upgrading {
        Box::pin(async { Err(crate::control::Refusal::Conflict("no upgrade here".into())) })
    }

    fn is_open_to_changes(&self) -> Result<(), String> {
        Ok(())
    }

    fn limits(&self) -> Limits {
        let usage = Usage { used: Some(1), max: 10 };
        Limits {
            descriptors: usage,
            connections: usage,
            upstream_connections: Usage { used: None, max: 10 },
            requests: usage,
            memory_bytes: usage,
            saturation: 0.1,
        }
    }

    fn status(&self) -> Status {
        Status {
            version: "0.1.0".into(),
            pid: 7,
            uptime_seconds: 3,
            state: State::Running,
            generation: 1,
            workers: 2,
            listeners: vec![ListenerStatus {
                name: "web".into(),
                address: "127.0.0.1:8080".into(),
                protocol: "http".into(),
            }],
            connections: ConnectionStatus { active: 1, max: 10 },
            requests_active: 0,
            descriptors: DescriptorStatus { used: None, limit: 1024 },
            services: ServicesSummary::of(&self.services().services),
            slos_burning: Vec::new(),
        }
    }

    fn explain(&self, question: &Question, all: bool) -> Result<Explanation, Unaskable> {
        if question.listener.as_deref() == Some("nowhere") {
            let message = "no listener `nowhere`".into();
            return Err(Unaskable {
                part: "listener",
                message,
                help: Some("the listeners are `web`".into()),
            });
        }
        Ok(Explanation {
            request: SeenRequest {
                method: question.method.clone(),
                url: question.url.clone(),
                host: "a.test".into(),
                path: "/".into(),
                query: None,
                client: question.from.map(|from| from.to_string()).unwrap_or_default(),
                listener: format!("{:?} {all}", question.headers),
            },
            route: None,
            other_routes: Vec::new(),
            more_routes: 0,
            outcome: Outcome::Answered { status: 404, fault: "destination_not_found", detail: "no route" },
            origins: Vec::new(),
        })
    }

    fn cache(&self) -> CacheStatus {
        CacheStatus {
            in_use: true,
            bytes: 1,
            limit_bytes: 10,
            objects: 1,
            filling: 0,
            fill_bytes: 0,
            totals: CacheTotals {
                fills: 2,
                broken: 0,
                stored: 2,
                rejected: 0,
                passed: 0,
                evictions: 0,
                purged: 1,
                made_stale: 0,
            },
            routes: vec![RouteCache::new("shop".into(), [1, 0, 0, 0, 2, 0])],
            disk: None,
            channel: None,
        }
    }

    fn purge(&self, purge: Purge) -> Purging {
        let soft = purge.is_soft;
        Box::pin(async move {
            match &purge.route {
                Some(route) => Err(Refusal::Unknown(format!("there is no route `{route}`"))),
                None => Ok(Purged { what: purge.to_string(), soft, objects: 1, disk: None, replicas: None }),
            }
        })
    }

    fn alive(&self) -> Result<(), String> {
        if self.silent.load(Ordering::Relaxed) {
            Err("worker 1 has not ticked for 11s".into())
        } else {
            Ok(())
        }
    }

    fn ready(&self) -> Result<(), String> {
        if self.draining.load(Ordering::Relaxed) { Err("draining".into()) } else { Ok(()) }
    }

    fn metrics(&self, _: Form) -> String {
        "thalweg_requests_active 0\n".into()
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn stop(&self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }

    fn complain(&self, line: &str) {
        self.complaints.lock().unwrap().push(line.to_owned());
    }

    fn services(&self) -> Services {
        let state = self.state();
        let service = |name: &str| ServiceStatus {
            name: name.into(),
            balance: "round_robin".into(),
            state: ServiceState::Up,
            insecure_skip_verify: false,
            endpoints: state.endpoints.clone(),
            requests_active: 0,
            queued: 0,
        };
        Services { version: state.version, services: vec![service("checkout"), service("a/b ä")] }
    }

    fn config_schema(&self) -> String {
        "{}".into()
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        Vec::new()
    }

    fn routes(&self) -> Vec<RouteStatus> {
        let to = self.state().to.clone();
        vec![RouteStatus {
            origin: Some("thalweg.yaml:7".into()),
            sealed: None,
            maintenance: None,
            name: "checkout canary".into(),
            matches: "shop.example.com /checkout/*".into(),
            listeners: Vec::new(),
            filters: Vec::new(),
            canary: false,
            to,
        }]
    }

    fn add_endpoint(
        &self,
        service: &str,
        new: NewEndpoint,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        let mut state = self.state();
        state.service(service)?;
        if !new.url.starts_with("http://") {
            let detail = format!("`{}` is not a URL", new.url);
            let help = Some("write `http://host:port`".into());
            return Err(Refusal::Invalid { field: "url".into(), detail, help });
        }
        if state.find(&new.url).is_ok() {
            return Err(Refusal::Duplicate(format!("endpoint `{}` is already there", new.url)));
        }
        state.check(expected)?;
        let endpoint = endpoint(new, EndpointSource::Runtime);
        state.endpoints.push(endpoint.clone());
        state.version += 1;
        Ok(Changed { version: state.version, before: None, endpoint, gone: false })
    }

    fn change_endpoint(
        &self,
        service: &str,
        id: &str,
        change: EndpointChange,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        let mut state = self.state();
        state.service(service)?;
        let at = state.find(id)?;
        state.check(expected)?;
        let before = state.endpoints[at].clone();
        if let Some(weight) = change.weight {
            state.endpoints[at].weight = weight;
        }
        match change.state {
            Some(WantedState::Ready) => state.endpoints[at].state = EndpointState::Ready,
            Some(WantedState::Draining) => state.endpoints[at].state = EndpointState::Draining,
            Some(WantedState::Maintenance) => state.endpoints[at].state = EndpointState::Maintenance,
            None => {}
        }
        state.version += 1;
        Ok(Changed {
            version: state.version,
            before: Some(before),
            endpoint: state.endpoints[at].clone(),
            gone: false,
        })
    }

    fn remove_endpoint(
        &self,
        service: &str,
        id: &str,
        drain: Duration,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        let mut state = self.state();
        state.service(service)?;
        let at = state.find(id)?;
        state.check(expected)?;
        let mut endpoint = state.endpoints.remove(at);
        let before = Some(endpoint.clone());
        if !drain.is_zero() {
            endpoint.state = EndpointState::Draining;
            endpoint.cause = Some(format!("{} s", drain.as_secs()));
        }
        state.version += 1;
        Ok(Changed { version: state.version, before, endpoint, gone: drain.is_zero() })
    }

    fn tap(&self, options: TapOptions) -> Result<Box<dyn OpenTap>, Refusal> {
        if options.route.as_deref() == Some("busy") {
            return Err(Refusal::Conflict("there are 8 taps already; close one".into()));
        }
        Ok(Box::new(SampleTap(options)))
    }

    fn requests(&self, filter: RequestFilter) -> Recalling {
        let answer = match filter.route.as_deref() {
            Some("stuck") => Err(Refusal::Unavailable("a worker does not answer".into())),
            _ => Ok(Requests { keep: 1000, slow_ms: 1000, complete_since: None, requests: Vec::new() }),
        };
        Box::pin(ready(answer))
    }

    fn series(&self, filter: &SeriesFilter) -> SeriesDocument {
        let SeriesFilter { kind, .. } = *filter;
        let series = Vec::new();
        SeriesDocument {
            step_s: 10,
            start: 0,
            kind,
            series,
            connections: None,
            in_flight: None,
            saturation: None,
        }
    }

    fn sources(&self) -> SourceStatuses {
        SourceStatuses { sources: Vec::new() }
    }

    fn slos(&self) -> Slos {
        Slos { slos: Vec::new() }
    }

    fn canary(&self, route: &str) -> Result<CanaryStatus, Refusal> {
        if route != "checkout canary" {
            return Err(Refusal::Unknown(format!("there is no route `{route}`")));
        }
        let figures = CanaryFigures { requests: 100, errors: 1, p99_ms: Some(12.5) };
        Ok(CanaryStatus {
            route: route.into(),
            service: "checkout-next".into(),
            phase: "running".into(),
            step: 1,
            steps: vec![5, 50, 100],
            share: 5,
            reason: String::new(),
            seconds: 30,
            newcomer: figures.clone(),
            baseline: figures,
        })
    }

    fn order_canary(
        &self,
        route: &str,
        order: CanaryOrder,
        expected: &Expected<u64>,
    ) -> Result<CanaryChanged, Refusal> {
        let before = self.canary(route)?;
        let mut state = self.state();
        state.check(expected)?;
        if order == CanaryOrder::Resume {
            return Err(Refusal::Conflict("the canary is running: it cannot be resumed".into()));
        }
        state.version += 1;
        let after = CanaryStatus { phase: order.name().into(), ..before.clone() };
        Ok(CanaryChanged { version: state.version, before, after })
    }

    fn api_keys(&self) -> &dyn ApiKeyControl {
        self
    }

    fn address_lists(&self) -> Vec<AddressList> {
        vec![AddressList { name: "blocked".into(), configured: String::new(), added: 1 }]
    }

    fn address_list(&self, list: &str) -> Result<AddressListContents, Refusal> {
        match list {
            "blocked" => Ok(AddressListContents {
                name: list.into(),
                configured: String::new(),
                entries: vec![entry("192.0.2.7", "scans")],
            }),
            _ => Err(Refusal::Unknown(format!("there is no list `{list}`"))),
        }
    }

    fn add_address(&self, list: &str, new: NewAddress) -> Result<AddressChanged, Refusal> {
        self.address_list(list)?;
        match new.network.contains('.') {
            true => Ok(AddressChanged { before: None, after: Some(entry(&new.network, &new.reason)) }),
            false => {
                let detail = "no network".into();
                Err(Refusal::Invalid { field: "network".into(), detail, help: None })
            }
        }
    }

    fn remove_address(&self, list: &str, network: &str) -> Result<AddressChanged, Refusal> {
        let known = self.address_list(list)?.entries.into_iter().find(|entry| entry.network == network);
        let before = known.ok_or_else(|| Refusal::Unknown(format!("`{network}` is not in `{list}`")))?;
        Ok(AddressChanged { before: Some(before), after: None })
    }

    fn seal(&self, new: &NewLabel) -> Result<SealedLabel, Refusal> {
        if new.destination != "10.0.0.7:3000" {
            let detail = "no entry of `allow` holds the address".into();
            return Err(Refusal::Invalid { field: "destination".into(), detail, help: None });
        }
        Ok(SealedLabel {
            host: format!("{LABEL}.svc.example.com"),
            label: LABEL.into(),
            expires: 1_800_000_000,
            key: 1,
            redacted: "sealed:1:838872e2".into(),
            route: "previews".into(),
        })
    }

    fn set_weights(
        &self,
        route: &str,
        weights: Vec<(String, u32)>,
        expected: &Expected<u64>,
    ) -> Result<Reweighted, Refusal> {
        let mut state = self.state();
        if route != "checkout canary" {
            return Err(Refusal::Unknown(format!("there is no route `{route}`")));
        }
        let before = state.to.clone();
        let mut to = before.clone();
        for (service, weight) in weights {
            let Some(target) = to.iter_mut().find(|target| target.service == service) else {
                let detail = format!("the route does not lead to `{service}`");
                return Err(Refusal::Invalid { field: service, detail, help: None });
            };
            target.weight = weight;
        }
        state.check(expected)?;
        (state.to, state.version) = (to.clone(), state.version + 1);
        let (name, matches) = (route.into(), String::new());
        let route = RouteStatus {
            origin: Some("thalweg.yaml:7".into()),
            name,
            matches,
            listeners: Vec::new(),
            filters: Vec::new(),
            canary: false,
            to,
            sealed: None,
            maintenance: None,
        };
        Ok(Reweighted { version: state.version, before, route })
    }

    fn reset_weights(&self, route: &str, expected: &Expected<u64>) -> Result<WeightsReset, Refusal> {
        let mut state = self.state();
        if route != "checkout canary" {
            return Err(Refusal::Unknown(format!("there is no route `{route}`")));
        }
        state.check(expected)?;
        let before = state.to.clone();
        let of_file = Self::default().state().to.clone();
        if before != of_file {
            (state.to, state.version) = (of_file.clone(), state.version + 1);
        }
        Ok(WeightsReset { version: state.version, before, after: of_file })
    }

    fn set_maintenance(
        &self,
        route: &str,
        on: Option<bool>,
        expected: &Expected<u64>,
    ) -> Result<MaintenanceChanged, Refusal> {
        let mut state = self.state();
        match route {
            "checkout canary" => {}
            "plain" => return Err(Refusal::Conflict("the route `plain` has no filter `maintenance`".into())),
            _ => return Err(Refusal::Unknown(format!("there is no route `{route}`"))),
        }
        state.check(expected)?;
        state.version += 1;
        let (name, matches) = (route.into(), String::new());
        let maintenance = Some(on.unwrap_or(false));
        let route = RouteStatus {
            origin: Some("thalweg.yaml:7".into()),
            name,
            matches,
            listeners: Vec::new(),
            filters: Vec::new(),
            canary: false,
            to: state.to.clone(),
            sealed: None,
            maintenance,
        };
        Ok(MaintenanceChanged { version: state.version, before: Some(false), route: Some(route) })
    }

    fn config(&self) -> ConfigDocument {
        let state = self.state();
        ConfigDocument {
            text: state.config.clone(),
            format: ConfigFormat::Yaml,
            etag: format!("c{}", state.etag),
            path: Some("/etc/thalweg/thalweg.yaml".into()),
            writable: true,
        }
    }

    fn replace_config(
        &self,
        text: &str,
        expected: &Expected<String>,
        options: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let mut state = self.state();
        if text.contains("broken") {
            let message = "unknown key `broken`".into();
            let mistake = Mistake { file: None, line: 2, column: 3, message, help: None };
            return Err(Refusal::Mistakes(vec![mistake]));
        }
        if text.contains("admin:") {
            return Err(Refusal::Forbidden { keys: vec!["admin.address".into()] });
        }
        if text.contains("readonly") && !options.ephemeral {
            return Err(Refusal::Conflict("the file cannot be written".into()));
        }
        let current = format!("c{}", state.etag);
        if !expected.admits(&current) {
            return Err(Refusal::StaleConfig { etag: current });
        }
        if !options.dry_run {
            (state.config, state.etag) = (text.to_owned(), state.etag + 1);
        }
        let dry_run = options.dry_run;
        let etag = format!("c{}", state.etag);
        let watch = options.watch.map(|watch| WatchStatus {
            state: WatchState::Watching,
            until: SystemTime::UNIX_EPOCH + watch.time,
            verdict: Some(format!("{} {} {}", watch.max_errors, watch.max_p99, watch.min_requests)),
        });
        Ok(ConfigOutcome {
            etag,
            generation: 2,
            dry_run,
            changes: vec![change()],
            watch,
            ..Default::default()
        })
    }

    fn reload(&self, _: ReloadOptions) -> Result<ConfigOutcome, Refusal> {
        Err(Refusal::Unavailable("the proxy runs without a file".into()))
    }

    fn plan(&self) -> Result<ConfigOutcome, Refusal> {
        Ok(ConfigOutcome { dry_run: true, changes: vec![change()], ..Default::default() })
    }

    fn history(&self) -> History {
        let entry = HistoryEntry {
            number: 1,
            at: SystemTime::UNIX_EPOCH,
            generation: 1,
            origin: ConfigOrigin::Start,
            by: Author::default(),
            etag: "c1".into(),
            bytes: 14,
            ephemeral: false,
            state: HistoryState::Running,
            watch: None,
        };
        History { entries: vec![entry] }
    }

    fn rollback(
        &self,
        expected: &Expected<String>,
        options: RollbackOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let mut state = self.state();
        if let Some(to) = options.to.filter(|to| *to != 1) {
            return Err(Refusal::Unknown(format!("the history has no number {to}")));
        }
        let current = format!("c{}", state.etag);
        if !expected.admits(&current) {
            return Err(Refusal::StaleConfig { etag: current });
        }
        state.etag += 1;
        let text = format!("{:?}", options.by);
        Ok(ConfigOutcome { etag: format!("c{}", state.etag), text, ..Default::default() })
    }
}

fn change() -> ConfigChange {
    ConfigChange {
        kind: "route",
        name: "a route".into(),
        service: None,
        action: ChangeAction::Added,
        origin: Some("thalweg.yaml:7".into()),
        fields: Vec::new(),
    }
}

impl ApiKeyControl for Sample {
    fn lists(&self) -> Vec<ApiKeyList> {
        vec![ApiKeyList { name: "partners".into(), keys: 1 }]
    }

    fn list(&self, list: &str) -> Result<ApiKeyListContents, Refusal> {
        match list {
            "partners" => Ok(ApiKeyListContents { name: list.into(), keys: vec![api_key("acme")] }),
            _ => Err(Refusal::Unknown(format!("there is no list of API keys `{list}`"))),
        }
    }

    fn add(&self, list: &str, new: NewApiKey) -> Result<MadeApiKey, Refusal> {
        match self.list(list)?.keys.iter().any(|known| known.name == new.name) {
            true => Err(Refusal::Duplicate("there is such a key".into())),
            false => {
                Ok(MadeApiKey { key: "a-key-of-the-sample".into(), entry: api_key(&new.name), kept: true })
            }
        }
    }

    fn revoke(&self, list: &str, name: &str) -> Result<ApiKeyEntry, Refusal> {
        let known = self.list(list)?.keys.into_iter().find(|known| known.name == name);
        known.ok_or_else(|| Refusal::Unknown(format!("no key `{name}`")))
    }
}

fn api_key(name: &str) -> ApiKeyEntry {
    let claims = [("plan".to_owned(), "gold".to_owned())].into();
    ApiKeyEntry {
        name: name.into(),
        scopes: vec!["read".into()],
        claims,
        since: 1_795_521_600,
        expires: None,
    }
}

fn entry(network: &str, reason: &str) -> AddressEntry {
    let (network, reason) = (network.to_owned(), reason.to_owned());
    AddressEntry { network, reason, since: 1_795_521_600, until: None, ban: None }
}
