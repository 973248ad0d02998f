//! What sources have found, and the endpoints that it becomes.

use super::admin::Shared;
use super::kept_sources::{Findings, KeptNames};
use super::runtime::Runtime;
use super::traffic::differs;
use crate::concealed::hide_all;
use crate::operator_log::{info, warn};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};
use thalweg_admin::{SourceState, SourceStatus, SourceStatuses};
use thalweg_config::endpoint_address;
use thalweg_config::settings::Discover;
use thalweg_core::limits::ENDPOINTS;
use thalweg_core::{Event, EventKind};
use thalweg_discovery::{EurekaRegistration, Found};
use thalweg_observe::SourceStanding;
use thalweg_proxy::plan::Traffic;
use thalweg_upstream::{Endpoint, EndpointLimits, Mode, Service};

/// Largest weight of an endpoint.
const WEIGHT: u32 = 1000;
/// Highest tier.
const TIER: u8 = 9;

/// The last good set of each source. Sources with other settings, also another login, have sets of their own: a
/// document does not get what the file's login finds. A service of the file whose source gets another login or other
/// times goes on with what is known. Clones share the sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundSets {
    /// By the name of the source in `names`.
    sets: HashMap<String, Arc<[Found]>>,
    names: KeptNames,
    /// The sources of the services of the file, by the names of these: what each asks, and its id.
    of_file: HashMap<Arc<str>, (Arc<str>, Arc<str>)>,
    /// How many were put.
    changes: u64,
}

impl FoundSets {
    /// What is known of the sources of these services, and of no others.
    pub(crate) fn of<'a>(&self, sources: impl Iterator<Item = (&'a Arc<str>, &'a Discover)>) -> Self {
        let mut own = Self { names: self.names.clone(), changes: self.changes + 1, ..Self::default() };
        for (service, discover) in sources {
            let question = thalweg_discovery::question(&*discover.source);
            let before =
                self.of_file.get(service).filter(|(asked, _)| !discover.is_added && *asked == question);
            let set = self.get(&discover.id).or_else(|| before.and_then(|(_, id)| self.get(id)));
            own.sets.extend(set.map(|set| (self.names.name(&discover.id), set.clone())));
            if !discover.is_added {
                own.of_file.insert(service.clone(), (question, discover.id.clone()));
            }
        }
        own
    }

    /// Those that were kept before a restart.
    pub(crate) fn kept(findings: &Findings) -> Self {
        let sets = findings.endpoints.iter().map(|(name, kept)| (name.clone(), kept.set.clone()));
        Self { sets: sets.collect(), names: findings.names.clone(), ..Self::default() }
    }

    /// Another number than before when a set has been put.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The set of the source with this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<[Found]>> {
        self.sets.get(&self.names.name(id))
    }

    pub(crate) fn put(&mut self, id: &str, set: Arc<[Found]>) {
        self.sets.insert(self.names.name(id), set);
        self.changes += 1;
    }
}

/// The endpoints of a service: those that are written, then those of its subset of what its source has found; and the
/// last reason why one cannot be used.
pub(crate) fn endpoints_of(
    service: &Service,
    discover: &Discover,
    traffic: Traffic,
    found: &[Found],
) -> (Vec<Endpoint>, Option<String>) {
    let mut endpoints = discover.written.clone();
    let mut flaw = None;
    let Some(policy) = &service.discover else { return (endpoints, flaw) };
    let known = Service { name: service.name.clone(), endpoints: endpoints.clone(), ..Service::default() };
    // Of many endpoints few come and go at a time: the URLs of the others have been read.
    let read: HashMap<&str, &Endpoint> =
        service.endpoints.iter().map(|endpoint| (&*endpoint.url, endpoint)).collect();
    let mut seen: HashSet<_> = endpoints.iter().map(|endpoint| endpoint.address.clone()).collect();
    for found in found.iter().filter(|found| found.labels.contain(&policy.subset)) {
        let url = found.url(policy.scheme);
        let before = read.get(&*url).map(|endpoint| (endpoint.url.clone(), endpoint.address.clone()));
        let (url, address) = match before.map_or_else(|| endpoint_address(&url), Ok) {
            Ok(read) => read,
            Err(error) => {
                flaw = Some(format!("`{url}` is left out: {}", error.message));
                continue;
            }
        };
        if let Some(why) = differs(traffic, &known, &url) {
            flaw = Some(why);
            continue;
        }
        if endpoints.len() >= ENDPOINTS {
            flaw = Some(format!("a service has at most {ENDPOINTS} endpoints; the rest is left out"));
            break;
        }
        if seen.insert(address.clone()) {
            endpoints.push(Endpoint {
                url,
                address,
                weight: found.weight.min(WEIGHT),
                tier: found.tier.min(TIER),
                mode: Mode::Ready,
                labels: found.labels.clone(),
                limits: EndpointLimits::default(),
                is_added: true,
            });
        }
    }
    (endpoints, flaw)
}

impl Shared {
    /// What sources have found until now.
    pub(super) fn found(&self) -> FoundSets {
        self.runtime().base.found().clone()
    }

    /// A source has found these endpoints. What the admin API has changed is laid over them.
    pub(super) fn take_found(&self, source: &Arc<str>, found: Arc<[Found]>) {
        let mut runtime = self.runtime();
        let taken = runtime.base.take_found(source, found);
        self.source_board().tell_unused(source, taken.flaw.as_deref());
        taken.said.into_iter().for_each(warn);
        for service in &taken.services {
            self.put_endpoints(&runtime, service);
        }
    }

    /// A source has begun to fail, for this reason, or works again.
    pub(super) fn source_turned(&self, source: &str, failure: Option<&str>) {
        let runtime = self.runtime();
        let services: Vec<Arc<str>> = runtime
            .base
            .sources()
            .filter(|(_, discover)| *discover.id == *source)
            .map(|(service, _)| service.name.clone())
            .collect();
        drop(runtime);
        let Some(status) = self.source_board().get(source) else { return };
        let name = format!("source {} of {}", status.kind, status.place);
        match failure {
            Some(why) => warn(format_args!("{name} fails: {why}; what is known stays in use")),
            None => info(format_args!("{name} works again")),
        }
        let kind = if failure.is_some() { EventKind::SourceFailed } else { EventKind::SourceRecovered };
        for service in services {
            let cause = failure.map_or_else(|| format!("{name} works again"), |why| format!("{name}: {why}"));
            let (at, service) = (SystemTime::now(), Some(service));
            self.publish(Event { at, kind, service, endpoint: None, cause, endpoints: Default::default() });
        }
    }

    /// Has what sources have found kept on disk, where it is time, or the proxy `ends`.
    pub(super) fn keep_found(&self, ends: bool) {
        let now = Instant::now();
        let change = {
            let runtime = self.runtime();
            let change = runtime.base.found().changes() + self.document_changes.load(Ordering::Relaxed);
            if !ends && !runtime.kept_sources.is_due(change, now) {
                return;
            }
            change
        };
        // What changes from here on is another change.
        let documents = self.documents_now();
        let mut runtime = self.runtime();
        let Runtime { base, kept_sources, .. } = &mut *runtime;
        let endpoints = kept_sources.endpoints_now(base, self.source_board(), SystemTime::now());
        let names = kept_sources.findings().names.clone();
        let documents = documents.into_iter().map(|(question, kept)| (names.name(&question), kept)).collect();
        kept_sources.keep(Findings { names, endpoints, documents }, change, now);
    }

    /// What the metrics say of the sources.
    pub(super) fn count_sources(&self) {
        let runtime = self.runtime();
        let sources: Vec<_> = runtime
            .base
            .sources()
            .map(|(service, discover)| (service.name.clone(), discover.id.clone()))
            .collect();
        drop(runtime);
        let board: HashMap<_, _> = self.source_board().list().into_iter().collect();
        let standing = |(service, id): (Arc<str>, Arc<str>)| {
            let status = board.get(&id)?;
            let (count, age) = status.known();
            Some(SourceStanding {
                service,
                source: status.kind,
                is_failing: status.failure.is_some(),
                age,
                endpoints: Some(count.unwrap_or(0)),
                updates: status.updates,
                failures: status.failures,
            })
        };
        let of_endpoints = sources.into_iter().filter_map(standing);
        self.registry.set_sources(of_endpoints.chain(self.route_standings()).collect());
    }

    /// Where the proxy itself is to be registered.
    pub(super) fn registrations(&self) -> Vec<Arc<EurekaRegistration>> {
        self.origin().settings.registrations.iter().map(|registration| registration.0.clone()).collect()
    }

    /// How the sources stand.
    pub(super) fn list_sources(&self) -> SourceStatuses {
        let runtime = self.runtime();
        let mut services: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        for (service, discover) in runtime.base.sources() {
            services.entry(discover.id.clone()).or_default().push(service.name.to_string());
        }
        drop(runtime);
        let of_endpoints = self.source_board().list().into_iter().map(|(id, status)| SourceStatus {
            services: services.remove(&id).unwrap_or_default(),
            endpoints: status.known().0,
            ..shown(status)
        });
        let mut sources: Vec<_> = of_endpoints.collect();
        sources.extend(self.list_route_sources());
        SourceStatuses { sources }
    }
}

/// What is shown of every source.
pub(super) fn shown(status: thalweg_discovery::SourceStatus) -> SourceStatus {
    let age = status.known().1;
    without_values(SourceStatus {
        services: Vec::new(),
        kind: status.kind.to_owned(),
        place: status.place,
        query: status.query,
        state: match (&status.failure, status.count) {
            (Some(_), _) => SourceState::Failing,
            (None, None) => SourceState::Waiting,
            (None, Some(_)) => SourceState::Current,
        },
        endpoints: None,
        documents: None,
        left_out: Vec::new(),
        age_s: age.map(|age| age.as_secs_f64()),
        kept_from: status.kept.filter(|_| status.count.is_none()).map(|(at, _)| at),
        changed: status.changed,
        stale_after_s: status.silence.as_secs_f64(),
        updates_total: status.updates,
        failures_total: status.failures,
        error: status.failure,
        flaw: status.flaw.or(status.unused),
    })
}

/// The status with nothing that the configuration conceals: URLs of servers, and failures that quote them.
fn without_values(mut status: SourceStatus) -> SourceStatus {
    let SourceStatus { place, query, error, flaw, .. } = &mut status;
    hide_all([place, query].into_iter().chain(error).chain(flaw));
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concealed::tests::{HIDDEN, conceal_it};

    /// `eureka: { url: "http://a/eureka/${E}" }` showed the variable to the read token.
    #[test]
    fn the_status_of_a_source_shows_no_concealed_value() {
        conceal_it();
        let url = format!("http://a/eureka/{HIDDEN}");
        let told = without_values(SourceStatus {
            services: Vec::new(),
            kind: "eureka".into(),
            place: url.clone(),
            query: format!("/{HIDDEN}"),
            state: SourceState::Failing,
            endpoints: None,
            documents: None,
            left_out: Vec::new(),
            age_s: None,
            kept_from: None,
            changed: None,
            stale_after_s: 1.0,
            updates_total: 0,
            failures_total: 1,
            error: Some(format!("{url}: refused")),
            flaw: Some(url),
        });
        assert_eq!(told.place, "http://a/eureka/<redacted>");
        assert!(!format!("{told:?}").contains(HIDDEN), "{told:?}");
    }
}
