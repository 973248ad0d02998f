//! Watches how services stand, beside the workers: what changes becomes an event, what the workers cannot see
//! alone (statistics over all of them, checks, drains) is acted on here.
//!
//! Events follow from comparing what is with what was, so none needs a message from a worker: the bell only says
//! that it is worth a look. What goes and comes back between two looks is no event.

use super::endpoint_status::{Stand, condition_of};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use thalweg_core::units::duration_text;
use thalweg_core::{EndpointCondition, EndpointSnapshot, Event, EventKind, Notice};
use thalweg_upstream::{Cause, EndpointSet, EndpointState, Judged, Window, find_outliers};

/// What was found at the last look, by service.
#[derive(Default)]
pub(crate) struct ServiceMonitor {
    known: HashMap<Arc<str>, Known>,
    /// By member (which lives as long as this names it): what it did in the window of its service's policy.
    windows: HashMap<usize, (Arc<EndpointState>, Window)>,
    epoch: Option<Instant>,
    has_looked: bool,
    /// Whose traffic began or ended at the last look: service, endpoint, and whether it has any.
    turned: Vec<(Arc<str>, Arc<str>, bool)>,
    /// What the operator has not been told yet.
    lines: Vec<Notice>,
}

/// A form of an endpoint set: another one when anything of it has changed.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Seen(usize, u32);

impl Seen {
    fn of(set: &Arc<EndpointSet>) -> Self {
        Self(Arc::as_ptr(set) as usize, set.standing.version())
    }
}

struct Known {
    /// What it was found of.
    seen: Seen,
    endpoints: BTreeMap<Arc<str>, Stand>,
    since: HashMap<Arc<str>, SystemTime>,
    /// No endpoint can be used.
    outage: Option<Outage>,
}

/// A time in which a service has no endpoint that can be used.
#[derive(Clone, Copy)]
struct Outage {
    since: Instant,
    /// Somebody has been told. Not so while endpoints that are new wait for their first check.
    is_told: bool,
}

/// An outage begins or is over.
struct Turn {
    kind: EventKind,
    cause: String,
    /// The operator is told too.
    is_said: bool,
}

/// Whether an endpoint in this condition gets traffic.
pub(crate) fn is_up(condition: EndpointCondition) -> bool {
    matches!(condition, EndpointCondition::Ready | EndpointCondition::SlowStart)
}

/// Whether somebody has asked that it gets none.
fn is_put_aside(condition: EndpointCondition) -> bool {
    matches!(condition, EndpointCondition::Draining | EndpointCondition::Maintenance)
}

impl ServiceMonitor {
    /// Compares how services stand with the last look, and says what has happened. Services of which nothing can have
    /// changed but by the passing of time are looked at only with `all`. The first look at a service finds nothing new
    /// but that none of its endpoints can be used; where it is not the first look of all, they stand so since now.
    pub(crate) fn look(&mut self, sets: &[Arc<EndpointSet>], now: Instant, all: bool) -> Vec<Event> {
        let mut events = Vec::new();
        self.turned.clear();
        for set in sets {
            let seen = self.known.get(&set.service.name).map(|known| known.seen);
            if all || seen != Some(Seen::of(set)) {
                self.compare(set, now, &mut events);
            }
        }
        self.has_looked = true;
        if self.known.len() > sets.len() {
            let names: HashSet<_> = sets.iter().map(|set| &set.service.name).collect();
            self.known.retain(|name, _| names.contains(name));
        }
        events
    }

    /// What the operator is to be told since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.lines)
    }

    /// The same of one service.
    pub(crate) fn look_at(&mut self, set: &Arc<EndpointSet>, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        self.turned.clear();
        self.compare(set, now, &mut events);
        events
    }

    fn compare(&mut self, set: &Arc<EndpointSet>, now: Instant, events: &mut Vec<Event>) {
        let service = &set.service;
        // Before it is looked at: what changes from here on has another version.
        let seen = Seen::of(set);
        let endpoints = service.endpoints.iter().enumerate();
        let endpoints: BTreeMap<_, _> = endpoints
            .map(|(at, endpoint)| (endpoint.url.clone(), condition_of(set, at as u32, now)))
            .collect();
        let mut known = Known { seen, endpoints, since: HashMap::new(), outage: None };
        let mut before = self.known.remove(&service.name);
        let since = before.as_mut().map(|before| std::mem::take(&mut before.since));
        // Who has no endpoints of its own is no service for anybody.
        let turn = service.destinations.is_none().then(|| known.follow(before.as_ref(), now)).flatten();
        let none = BTreeMap::new();
        let changes = changes(before.as_ref().map_or(&none, |before| &before.endpoints), &known.endpoints);
        for Change { url, was, now } in &changes {
            let Some(stand) = now else { continue };
            if was.map(|was| is_up(was.condition)) != Some(is_up(stand.condition)) {
                self.turned.push((service.name.clone(), Arc::clone(url), is_up(stand.condition)));
            }
        }
        if let Some(mut since) = since {
            tell(set, &known, &changes, events);
            for Change { url, now, .. } in &changes {
                match now {
                    Some(_) => drop(since.insert(Arc::clone(url), SystemTime::now())),
                    None => drop(since.remove(*url)),
                }
            }
            known.since = since;
        } else if self.has_looked {
            let now = SystemTime::now();
            known.since = known.endpoints.keys().map(|url| (url.clone(), now)).collect();
        }
        if let Some(Turn { kind, cause, is_said }) = turn {
            if is_said {
                let line = format!("service `{}`: {cause}", service.name);
                self.lines.push(match kind {
                    EventKind::ServiceUnavailable => Notice::warn(line),
                    _ => Notice::info(line),
                });
            }
            events.push(event(set, (kind, None), cause, snapshots(set, &known)));
        }
        self.known.insert(service.name.clone(), known);
    }

    /// Whose traffic began or ended at the last look: service, endpoint, and whether it has any.
    pub(crate) fn turned(&self) -> &[(Arc<str>, Arc<str>, bool)] {
        &self.turned
    }

    /// Since when an endpoint stands as it does; `None`: since it has been known.
    pub(crate) fn since(&self, service: &str, url: &str) -> Option<SystemTime> {
        self.known.get(service)?.since.get(url).copied()
    }

    /// Leaves out who stands out among its like, by the policies that say so. To be called once a second.
    pub(crate) fn judge(&mut self, endpoint_sets: &[Arc<EndpointSet>], now: Instant) -> Vec<String> {
        let epoch = *self.epoch.get_or_insert(now);
        let now_ms = now.saturating_duration_since(epoch).as_millis() as u64;
        let mut said = Vec::new();
        let mut before = std::mem::take(&mut self.windows);
        for endpoint_set in endpoint_sets {
            let policy = &endpoint_set.service.ejection;
            if policy.failures.is_none() && policy.success_rate.is_none() && policy.latency.is_none() {
                continue;
            }
            let mut judged = Vec::with_capacity(endpoint_set.entries.len());
            for entry in &endpoint_set.entries {
                let key = Arc::as_ptr(&entry.standing) as usize;
                let (sample, is_out) = (entry.standing.sample(), entry.standing.out_until().is_some());
                let new = || (entry.standing.clone(), Window::new(policy.window, now_ms, sample));
                let (standing, mut window) = before.remove(&key).unwrap_or_else(new);
                if is_out {
                    window.clear();
                }
                judged.push(Judged { totals: window.push(now_ms, sample), is_out });
                self.windows.insert(key, (standing, window));
            }
            for (at, cause) in find_outliers(policy, &judged) {
                let (standing, cause) = (&endpoint_set.entries[at].standing, words(cause));
                if standing.eject(policy, now, &cause) {
                    let (service, url) = (&endpoint_set.service.name, &standing.url);
                    said.push(format!("service `{service}`, endpoint {url}: {cause}; ejected"));
                }
            }
        }
        said
    }
}

impl Known {
    /// Goes on with the outage that there was, begins one or ends it. It is told once when it begins and once when it
    /// is over, whatever becomes of single endpoints in between.
    fn follow(&mut self, before: Option<&Self>, now: Instant) -> Option<Turn> {
        let outage = before.and_then(|before| before.outage);
        if self.endpoints.values().any(|stand| is_up(stand.condition)) {
            let Outage { since, is_told } = outage?;
            let cause = match is_told {
                true => format!("an endpoint can be used again, after {}", rounded(now - since)),
                false => "an endpoint can be used".to_owned(),
            };
            return Some(Turn { kind: EventKind::ServiceAvailable, cause, is_said: is_told });
        }
        let mut outage = outage.unwrap_or(Outage { since: now, is_told: false });
        let awaits = self.endpoints.values().any(|stand| stand.condition == EndpointCondition::Unchecked);
        let was_up = before.is_some_and(|before| before.outage.is_none());
        let begins = !outage.is_told && (was_up || !awaits);
        outage.is_told |= begins;
        self.outage = Some(outage);
        let turn = |cause| Turn { kind: EventKind::ServiceUnavailable, cause, is_said: true };
        begins.then(|| turn(self.all_down()))
    }

    /// How many are down, and how they stand.
    fn all_down(&self) -> String {
        let stands = |stand: &&Stand, condition: EndpointCondition| stand.condition == condition;
        let counts = EndpointCondition::ALL.iter().filter_map(|condition| {
            let count = self.endpoints.values().filter(|stand| stands(stand, *condition)).count();
            (count > 0).then(|| (count, condition.name()))
        });
        match self.endpoints.len() {
            0 => "it has no endpoints".into(),
            1 => format!("its only endpoint is down ({})", counts.map(|(_, name)| name).collect::<String>()),
            all => {
                let counts: Vec<_> = counts.map(|(count, name)| format!("{count} {name}")).collect();
                format!("all {all} endpoints are down ({})", counts.join(", "))
            }
        }
    }
}

/// A time for people: whole seconds, milliseconds where there are none.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        0 => duration_text(Duration::from_millis(time.as_millis() as u64)),
        seconds => duration_text(Duration::from_secs(seconds)),
    }
}

fn words(cause: Cause) -> String {
    match cause {
        Cause::Failures(share) => format!("{:.0} % of its requests failed", share * 100.0),
        Cause::SuccessRate { own, bound } => {
            format!("success rate {:.1} %, below {:.1} %", own * 100.0, bound * 100.0)
        }
        Cause::Latency { own, median } => {
            format!("latency {:.0} ms, where the median is {:.0} ms", own / 1000.0, median / 1000.0)
        }
    }
}

/// An endpoint that stands otherwise than at the last look, has come, or has gone.
struct Change<'a> {
    url: &'a Arc<str>,
    was: Option<&'a Stand>,
    now: Option<&'a Stand>,
}

/// What has changed, in the order of the URLs. Of many endpoints few do at a time: both are gone through once, side by
/// side.
fn changes<'a>(before: &'a BTreeMap<Arc<str>, Stand>, now: &'a BTreeMap<Arc<str>, Stand>) -> Vec<Change<'a>> {
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => return changes,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((was, _)), Some((url, _))) if Arc::ptr_eq(was, url) => Ordering::Equal,
            (Some((was, _)), Some((url, _))) => was.cmp(url),
        };
        let was = if order.is_le() { before.next() } else { None };
        let now = if order.is_ge() { now.next() } else { None };
        let is_same =
            matches!((was, now), (Some((_, was)), Some((_, now))) if was.condition == now.condition);
        if let Some((url, _)) = now.or(was).filter(|_| !is_same) {
            changes.push(Change { url, was: was.map(|(_, was)| was), now: now.map(|(_, now)| now) });
        }
    }
}

fn tell(endpoint_set: &EndpointSet, now: &Known, changes: &[Change<'_>], events: &mut Vec<Event>) {
    // One for all events of this look: there may be as many as there are endpoints.
    let mut all: Option<Arc<[EndpointSnapshot]>> = None;
    let mut tell = |kind, url: &Arc<str>, cause: &str| {
        let all = all.get_or_insert_with(|| snapshots(endpoint_set, now)).clone();
        events.push(event(endpoint_set, (kind, Some(url)), cause.to_owned(), all));
    };
    for Change { url, .. } in changes.iter().filter(|change| change.now.is_none()) {
        tell(EventKind::EndpointRemoved, url, "it is no longer in the service");
    }
    for Change { url, was, now } in changes {
        let Some(stand) = now else { continue };
        let Some(was) = was else {
            tell(EventKind::EndpointAdded, url, "it is in the service");
            continue;
        };
        if is_put_aside(stand.condition) || is_put_aside(was.condition) {
            continue;
        }
        match (is_up(was.condition), is_up(stand.condition)) {
            (true, false) => tell(EventKind::EndpointDown, url, &stand.cause),
            (false, true) => tell(EventKind::EndpointUp, url, "it is used again"),
            _ => {}
        }
    }
}

/// An event of a service, or of one of its endpoints.
fn event(
    endpoint_set: &EndpointSet,
    (kind, endpoint): (EventKind, Option<&Arc<str>>),
    cause: String,
    endpoints: Arc<[EndpointSnapshot]>,
) -> Event {
    let (at, service) = (SystemTime::now(), Some(endpoint_set.service.name.clone()));
    Event { at, kind, service, endpoint: endpoint.cloned(), cause, endpoints }
}

fn snapshots(endpoint_set: &EndpointSet, known: &Known) -> Arc<[EndpointSnapshot]> {
    let endpoints = endpoint_set.service.endpoints.iter().filter_map(|endpoint| {
        let stand = known.endpoints.get(&endpoint.url)?;
        Some(EndpointSnapshot { url: endpoint.url.clone(), weight: endpoint.weight, state: stand.condition })
    });
    endpoints.collect()
}

/// The event of a drain that has come to its end.
pub(crate) fn drain_finished(endpoint_set: Option<&Arc<EndpointSet>>, url: &Arc<str>, cut: bool) -> Event {
    let now = Instant::now();
    let endpoints = endpoint_set.map(|endpoint_set| {
        let endpoints = endpoint_set.service.endpoints.iter().enumerate();
        let snapshot = |(at, endpoint): (usize, &thalweg_upstream::Endpoint)| EndpointSnapshot {
            url: endpoint.url.clone(),
            weight: endpoint.weight,
            state: condition_of(endpoint_set, at as u32, now).condition,
        };
        endpoints.map(snapshot).collect()
    });
    Event {
        at: SystemTime::now(),
        kind: EventKind::DrainFinished,
        service: endpoint_set.map(|endpoint_set| endpoint_set.service.name.clone()),
        endpoint: Some(url.clone()),
        cause: if cut { "its time was up; the rest was cut" } else { "nothing is under way to it" }.into(),
        endpoints: endpoints.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_config::check_text;
    use thalweg_upstream::{EndpointSets, Health, Names, Notifier, Service};

    struct House {
        endpoint_sets: EndpointSets,
        services: Vec<Arc<Service>>,
        monitor: ServiceMonitor,
    }

    fn house() -> House {
        let text = "listeners: { web: { address: '127.0.0.1:0' } }\nroutes: [ { to: a } ]\n\
                    services: { a: { health: { tcp: true }, endpoints: ['http://127.0.0.1:1', 'http://127.0.0.1:2'] } }\n";
        let services = check_text("t.yaml", text, &|_| None).unwrap().plan.services;
        House {
            endpoint_sets: EndpointSets::new(1, Notifier::default()),
            services,
            monitor: ServiceMonitor::default(),
        }
    }

    impl House {
        fn drawn(&self) -> Vec<Arc<EndpointSet>> {
            self.endpoint_sets.update(&self.services, &Names::new())
        }

        fn look(&mut self, now: Instant) -> Vec<String> {
            let endpoint_sets = self.drawn();
            let events = self.monitor.look(&endpoint_sets, now, false);
            let said = events.iter().map(|event| {
                let endpoint = event.endpoint.as_deref().unwrap_or("-");
                format!("{} {endpoint} {}", event.kind.name(), event.cause)
            });
            said.collect()
        }
    }

    #[test]
    fn what_changes_between_two_looks_is_told_once() {
        let (mut house, now) = (house(), Instant::now());
        assert!(house.look(now).is_empty(), "the first look");
        let standing = house.drawn()[0].entries[0].standing.clone();
        standing.refused(now, "refused");
        assert_eq!(house.look(now), ["endpoint_down http://127.0.0.1:1 refused"]);
        assert!(house.look(now).is_empty());
        house.drawn()[0].entries[1].standing.set_health(Health::Unwell, now, "status 503");
        assert_eq!(
            house.look(now),
            [
                "endpoint_down http://127.0.0.1:2 status 503",
                "service_unavailable - all 2 endpoints are down (1 unhealthy, 1 ejected)"
            ]
        );
        standing.accepted(standing.stage(), now);
        assert_eq!(
            house.look(now),
            [
                "endpoint_up http://127.0.0.1:1 it is used again",
                "service_available - an endpoint can be used again, after 0s"
            ]
        );
    }

    #[test]
    fn an_outage_is_said_when_it_begins_and_when_it_is_over_and_not_in_between() {
        let (mut house, start) = (house(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        house.look(start);
        let [one, two] = [0, 1].map(|entry| house.drawn()[0].entries[entry].standing.clone());
        one.set_health(Health::Unwell, at(1), "status 503");
        house.look(at(1));
        assert!(house.monitor.take_lines().is_empty(), "one is left");
        two.set_health(Health::Unwell, at(2), "status 503");
        house.look(at(2));
        assert_eq!(
            house.monitor.take_lines(),
            [Notice::warn("service `a`: all 2 endpoints are down (2 unhealthy)")]
        );
        // In between one is put aside and comes back.
        let file = Service::clone(&house.services[0]);
        for mode in [thalweg_upstream::Mode::Maintenance, thalweg_upstream::Mode::Ready] {
            let mut changed = file.clone();
            changed.endpoints[0].mode = mode;
            house.services[0] = Arc::new(changed);
            house.look(at(3));
        }
        assert!(house.monitor.take_lines().is_empty(), "it is known");
        one.set_health(Health::Well, at(92), "");
        house.look(at(92));
        assert_eq!(
            house.monitor.take_lines(),
            [Notice::info("service `a`: an endpoint can be used again, after 1m30s")]
        );
        two.set_health(Health::Well, at(93), "");
        house.look(at(93));
        assert!(house.monitor.take_lines().is_empty());
    }

    #[test]
    fn a_start_that_waits_for_the_first_checks_is_no_outage_until_they_fail() {
        let (mut house, start) = (house(), Instant::now());
        let mut awaiting = Service::clone(&house.services[0]);
        awaiting.endpoints.truncate(1);
        house.services[0] = Arc::new(awaiting);
        let standing = house.drawn()[0].entries[0].standing.clone();
        standing.set_health(Health::Awaited, start, "");
        assert!(house.look(start).is_empty());
        standing.set_health(Health::Unwell, start, "status 503");
        assert_eq!(house.look(start), ["service_unavailable - its only endpoint is down (unhealthy)"]);
        assert_eq!(
            house.monitor.take_lines(),
            [Notice::warn("service `a`: its only endpoint is down (unhealthy)")]
        );

        let mut passes = ServiceMonitor::default();
        standing.set_health(Health::Awaited, start, "");
        assert!(passes.look(&house.drawn(), start, true).is_empty());
        standing.set_health(Health::Well, start, "");
        assert_eq!(
            passes.look(&house.drawn(), start, true).len(),
            2,
            "the endpoint is up, the service available"
        );
        assert!(passes.take_lines().is_empty(), "nobody was told that it was down");
    }

    #[test]
    fn endpoints_that_come_and_go_are_told_and_those_that_an_operator_puts_aside_are_not_down() {
        let (mut house, now) = (house(), Instant::now());
        house.look(now);
        let mut changed = Service::clone(&house.services[0]);
        changed.endpoints[0].mode = thalweg_upstream::Mode::Maintenance;
        house.services[0] = Arc::new(changed.clone());
        assert!(house.look(now).is_empty());
        let gone = changed.endpoints.remove(0);
        house.services[0] = Arc::new(changed.clone());
        assert_eq!(house.look(now), ["endpoint_removed http://127.0.0.1:1 it is no longer in the service"]);
        changed.endpoints.push(gone);
        house.services[0] = Arc::new(changed);
        assert_eq!(house.look(now), ["endpoint_added http://127.0.0.1:1 it is in the service"]);
    }

    #[test]
    fn endpoints_of_the_start_stand_so_since_then_and_those_that_come_later_since_they_came() {
        let (mut house, now) = (house(), Instant::now());
        house.look(now);
        assert_eq!(house.monitor.since("a", "http://127.0.0.1:1"), None);
        let before = SystemTime::now();
        let mut changed = Service::clone(&house.services[0]);
        let new = changed.endpoints.remove(0);
        house.services[0] = Arc::new(changed.clone());
        house.look(now);
        changed.endpoints.push(new);
        house.services[0] = Arc::new(changed.clone());
        changed.name = "b".into();
        house.services.push(Arc::new(changed));
        house.look(now);
        for (service, url) in
            [("a", "http://127.0.0.1:1"), ("b", "http://127.0.0.1:1"), ("b", "http://127.0.0.1:2")]
        {
            assert!(
                house.monitor.since(service, url).is_some_and(|since| since >= before),
                "{service} {url}"
            );
        }
        assert_eq!(house.monitor.since("a", "http://127.0.0.1:2"), None);
    }

    #[test]
    fn who_fails_more_than_its_share_is_ejected_and_said_so_once() {
        let (mut house, start) = (house(), Instant::now());
        let mut policy = Service::clone(&house.services[0]);
        policy.ejection.failures = Some(50);
        policy.ejection.min_requests = 10;
        policy.ejection.consecutive = 0;
        house.services[0] = Arc::new(policy);
        let endpoint_sets = house.drawn();
        assert!(house.monitor.judge(&endpoint_sets, start).is_empty());
        let state =
            thalweg_upstream::ServiceState::<thalweg_net::Socket>::new(endpoint_sets[0].clone(), 0, None);
        let mut asked = 0;
        for _ in 0..20 {
            let member = state.pick(start, &Default::default()).unwrap();
            asked += u32::from(member.index == 0);
            let fails = member.index == 0 && asked.is_multiple_of(2);
            let attempt_guard = state.attempt_guard(member, start);
            if fails {
                attempt_guard.failed(&house.services[0], start, "x");
            } else {
                attempt_guard.answered(&house.services[0], (200, Duration::from_millis(1)), start);
            }
        }
        let later = start + Duration::from_secs(1);
        let said = house.monitor.judge(&endpoint_sets, later);
        assert_eq!(said, ["service `a`, endpoint http://127.0.0.1:1: 50 % of its requests failed; ejected"]);
        assert!(house.monitor.judge(&endpoint_sets, later).is_empty());
    }
}
