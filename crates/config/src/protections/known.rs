//! The guards on a plan's ways to each place, and the guards that another way there lacks.

use super::by_entrance::ByEntrance;
use super::conditions::{Conditions, is_within};
use super::guards::{Guard, Guards, Terms, common, lacking};
use super::paths::Paths;
use super::places::{ByPlace, Place};
use super::ways::{Goal, Kind, Way, is_made, ways};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use thalweg_filter::Written;
use thalweg_http::Escapes;
use thalweg_proxy::Plan;
use thalweg_route::HostPattern;

/// The ways to one goal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ways {
    /// The guards of each way, by its listeners.
    by_listener: BTreeMap<String, BTreeSet<Guards>>,
    /// The guards on all ways.
    common: Option<Guards>,
    /// The fields that guards set or remove on all ways.
    fields: Option<Guards>,
    entrances: ByEntrance,
}

impl Ways {
    fn add(&mut self, way: &Way<'_>) {
        for listener in &way.listeners {
            self.by_listener.entry((*listener).to_owned()).or_default().insert(way.guards.clone());
        }
        self.entrances.add(way);
        let both = |all: &Option<Guards>, own: Guards| match all {
            Some(all) => common(all, &own),
            None => own,
        };
        self.common = Some(both(&self.common, way.guards.clone()));
        self.fields = Some(both(&self.fields, way.verified_fields()));
    }

    fn is_empty(&self) -> bool {
        self.common.is_none()
    }

    fn has_open(&self) -> bool {
        self.by_listener.values().flatten().any(BTreeSet::is_empty)
    }

    /// The union of both.
    fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (listener, all) in &other.by_listener {
            both.by_listener.entry(listener.clone()).or_default().extend(all.iter().cloned());
        }
        let of_both = |one: &Option<Guards>, other: &Option<Guards>| match (one, other) {
            (Some(one), Some(other)) => Some(common(one, other)),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        both.common = of_both(&self.common, &other.common);
        both.fields = of_both(&self.fields, &other.fields);
        both.entrances = self.entrances.with(&other.entrances);
        both
    }

    /// The guards that a way lacks. For an edit it is compared with the guards on all ways, otherwise with the
    /// closest known way at each of its listeners. An unknown listener counts as all known ones.
    fn lacked_by(&self, way: &Way<'_>, terms: Terms) -> Vec<Guard> {
        if terms == Terms::Edit {
            let all = self.common.iter().flat_map(|all| lacking(all, &way.guards, terms));
            return all.cloned().collect();
        }
        let closest = |all: &BTreeSet<Guards>| -> Vec<Guard> {
            let lacks = all.iter().map(|wanted| lacking(wanted, &way.guards, terms).cloned());
            lacks.map(Vec::from_iter).min_by_key(Vec::len).unwrap_or_default()
        };
        let known = way.listeners.iter().map(|listener| self.by_listener.get(*listener));
        match known.collect::<Option<Vec<_>>>().filter(|known| !known.is_empty()) {
            Some(known) => known.into_iter().flat_map(closest).collect(),
            None => self.by_listener.values().flat_map(closest).collect(),
        }
    }
}

/// The filters on the ways to one place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Known {
    requests: Ways,
    calls: Ways,
    /// The filters on the ways of client requests.
    steps: BTreeSet<Written>,
    /// The filters that send subrequests there, with the paths of those that copy the path of a request.
    callers: BTreeMap<Written, Paths>,
    /// Paths of requests that arrive without a filter that guards, and with one.
    open: Paths,
    guarded: Paths,
    /// Paths of requests that neither a filter nor a listener guards.
    free: Paths,
    /// A way has neither.
    is_free: bool,
    guarded_ways: Vec<GuardedWay>,
    /// The escapes in paths that routes allow, with the paths that clients request there.
    encoded: Vec<(Paths, Escapes)>,
    /// The changes of the path on each way whose guards depend on it.
    path_changes: BTreeSet<Option<Vec<Written>>>,
}

/// A way of client requests with a filter that guards.
#[derive(Clone, Debug, Eq, PartialEq)]
struct GuardedWay {
    listeners: Vec<String>,
    /// The paths that the service gets.
    paths: Paths,
    guards: Guards,
    /// Its filters.
    steps: BTreeSet<Written>,
    /// What conditions of its guards are compared with; `None`: it has no conditions.
    requests: Option<Requests>,
    /// What changes by API are compared with, likewise.
    conditions: Option<Conditions>,
}

/// The requests of clients on a way.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Requests {
    /// None: all, or no condition names one.
    hosts: Vec<HostPattern>,
    paths: Paths,
    /// The filters that change the path.
    path_changes: Vec<Written>,
}

impl GuardedWay {
    fn of(way: &Way<'_>, paths: Paths) -> Self {
        let listeners = way.listeners.iter().map(|listener| (*listener).to_owned()).collect();
        let steps = way.steps.iter().filter_map(|step| step.written).collect();
        let mut own = Self {
            listeners,
            paths,
            guards: way.guards.clone(),
            steps,
            requests: None,
            conditions: Conditions::of(way),
        };
        // Without conditions a guard needs no such comparison, and ways that differ in hosts alone are the same.
        if !way.guards.iter().all(Guard::is_unconditional)
            && let Some(path_changes) = way.path_changes()
        {
            let hosts = if way.judges_host() { way.hosts.to_vec() } else { Vec::new() };
            own.requests = Some(Requests { hosts, paths: Paths::asked(way), path_changes });
        }
        own
    }

    /// Whether it takes every request of another way, as far as its guards can tell, and has no guard more.
    fn includes(&self, way: &Way<'_>) -> bool {
        let Some(own) = &self.requests else { return false };
        let is_here = |listener: &&str| self.listeners.iter().any(|known| known == listener);
        let has_host = |host: &HostPattern| own.hosts.iter().any(|known| is_within(host, known));
        let has_hosts = || own.hosts.is_empty() || !way.hosts.is_empty() && way.hosts.iter().all(has_host);
        way.kind == Kind::Request
            && way.listeners.iter().all(is_here)
            && lacking(&self.guards, &way.guards, Terms::Same).next().is_none()
            && has_hosts()
            && way.path_changes().as_ref() == Some(&own.path_changes)
            && own.paths.cover(&Paths::asked(way))
    }
}

impl Known {
    fn add(&mut self, way: &Way<'_>) {
        match way.kind {
            Kind::Request => {
                self.requests.add(way);
                self.steps.extend(way.steps.iter().filter_map(|step| step.written));
                let encoded = (Paths::asked(way), way.route.allow_encoded);
                if !encoded.1.is_empty() && !self.encoded.contains(&encoded) {
                    self.encoded.push(encoded);
                }
                if way.judges_path() {
                    self.path_changes.insert(way.path_changes());
                }
                if way.guards.is_empty() && way.entrance.is_empty() {
                    self.is_free = true;
                    Paths::of(way).into_iter().for_each(|paths| self.free.add(paths));
                }
                match (Paths::of(way), way.guards.is_empty()) {
                    (paths, false) => {
                        let paths = paths.unwrap_or_else(Paths::all);
                        self.guarded_ways.push(GuardedWay::of(way, paths.clone()));
                        self.guarded.add(paths);
                    }
                    (Some(paths), true) => self.open.add(paths),
                    // The paths of the requests to the service are not known.
                    (None, true) => {}
                }
            }
            Kind::Call => {
                self.calls.add(way);
                let paths = Paths::of(way).filter(|_| way.copies_path).unwrap_or_default();
                way.caller
                    .into_iter()
                    .for_each(|caller| self.callers.entry(caller).or_default().add(paths.clone()));
            }
            // A label is authorised by its key; it opens the place to no other request.
            Kind::Sealed => {}
        }
    }

    /// The ways that decide how the place is guarded.
    fn ways(&self) -> &Ways {
        if self.requests.is_empty() { &self.calls } else { &self.requests }
    }

    fn all(&self) -> impl Iterator<Item = &Guards> {
        self.ways().by_listener.values().flatten()
    }

    /// Whether a way has a guard, a filter or a listener's.
    pub(super) fn is_guarded(&self) -> bool {
        self.all().any(|guards| !guards.is_empty()) || self.ways().entrances.is_guarded()
    }

    /// A guard on a way, for messages: a filter if there is one.
    pub(super) fn first_guard(&self) -> Option<&Guard> {
        self.all().flatten().next().or_else(|| self.ways().entrances.first_guard())
    }

    /// Whether a way has no filter that guards, so that the service cannot rely on verified fields.
    pub(super) fn is_open(&self) -> bool {
        self.all().any(BTreeSet::is_empty)
    }

    /// Whether a way has no guard at all.
    pub(super) fn is_free(&self) -> bool {
        self.is_free
    }

    /// The guards of listeners that those of another way lack.
    pub(super) fn entrance_lacked_by(&self, way: &Way<'_>) -> BTreeSet<Guard> {
        let both = self.requests.with(&self.calls);
        let ways = if way.kind == Kind::Call { &both } else { self.ways() };
        let lacks = way.listeners.iter().flat_map(|listener| {
            ways.entrances.lacked_by(&way.entrance, ways.by_listener.contains_key(*listener))
        });
        lacks.collect()
    }

    /// A guard of listeners that those of a document's way lack.
    pub(super) fn entrance_lacked_by_document(&self, way: &Way<'_>) -> Option<Guard> {
        let both = self.requests.with(&self.calls);
        let is_known = way.kind == Kind::Call && self.is_known_call_of_document(way);
        let ways = if is_known { &both } else { self.ways() };
        let paths = Paths::of(way).filter(|_| way.kind != Kind::Call).unwrap_or_else(Paths::all);
        ways.entrances.lacked_by_document(&way.entrance, &paths)
    }

    /// Whether a way with guards that depend on the path changes it as no known way does.
    pub(super) fn is_path_changed(&self, way: &Way<'_>) -> bool {
        let is_judged = way.kind == Kind::Request && !self.is_open() && way.judges_path();
        is_judged && !self.path_changes.is_empty() && !self.path_changes.contains(&way.path_changes())
    }

    /// The fields that guards set or remove on every way, and that another way leaves to its clients.
    pub(super) fn fields_lacked_by(&self, way: &Way<'_>) -> Vec<Guard> {
        let own = way.own_fields();
        let Some(wanted) = self.requests.fields.as_ref().filter(|_| way.kind == Kind::Request) else {
            return Vec::new();
        };
        let lacked: BTreeSet<&Guard> = lacking(wanted, &own, Terms::Edit).collect();
        let is_lost = |field: &&Guard| lacked.contains(field) || self.is_overwritten(way, field);
        wanted.iter().filter(is_lost).cloned().collect()
    }

    /// Whether a filter that the file does not have gives the last value to a field that guards have verified. In
    /// place of the guard of the file, it may be that guard with another argument.
    fn is_overwritten(&self, way: &Way<'_>, field: &Guard) -> bool {
        let setters = way.setters(field);
        let Some((last, before)) = setters.split_last() else { return false };
        let is_edited = last.filter.guards() && !before.iter().any(|step| field.is_by(step));
        !is_edited && !self.has_step(last.written)
    }

    /// The guards that another way to the place lacks. A subrequest of the file stays unrestricted; one with another
    /// argument is treated like a client request, since it may have any target.
    pub(super) fn lacked_by(&self, way: &Way<'_>, terms: Terms) -> Vec<Guard> {
        if way.kind == Kind::Call && (terms == Terms::Edit || self.is_known_call(way)) {
            return self.requests.with(&self.calls).lacked_by(way, terms);
        }
        let ways = if self.requests.is_empty() { &self.calls } else { &self.requests };
        ways.lacked_by(way, terms)
    }

    /// A guard with conditions that another way has too, and whose conditions do not hold there as on a known way.
    pub(super) fn condition_lacked_by(&self, way: &Way<'_>, terms: Terms) -> Option<Guard> {
        // Ways of subrequests alone have no such record, and a subrequest of the file stays unrestricted.
        if self.requests.is_empty() || way.kind == Kind::Call && self.is_known_call(way) {
            return None;
        }
        let always =
            |guard: &Guard| way.guards.iter().any(|own| own.name == guard.name && own.is_unconditional());
        let lacked: Vec<Guard> = match terms {
            Terms::Edit => {
                self.ways().common.iter().flatten().filter(|guard| !always(guard)).cloned().collect()
            }
            Terms::New | Terms::Document | Terms::Same => self.lacked_by(way, Terms::Document),
        };
        let guard = lacked.into_iter().find(|guard| !guard.is_unconditional())?;
        let known: Vec<_> = self.guarded_ways.iter().filter_map(|known| known.conditions.as_ref()).collect();
        // Guards that run on no known way protect nothing.
        let is_kept =
            known.iter().all(|known| known.is_open) || known.iter().any(|known| known.hold_alike(way, terms));
        (!is_kept).then_some(guard)
    }

    fn is_known_call(&self, way: &Way<'_>) -> bool {
        way.caller.is_some_and(|caller| self.callers.contains_key(&caller))
    }

    /// Whether a document's subrequest is one of the file: the same filter sends it, and where it has the path of the
    /// request, the file copies requests for these paths there.
    fn is_known_call_of_document(&self, way: &Way<'_>) -> bool {
        let Some(known) = way.caller.and_then(|caller| self.callers.get(&caller)) else { return false };
        !way.copies_path || Paths::of(way).is_some_and(|paths| known.cover(&paths))
    }

    /// The flaw of a document's way. If the file leaves some paths unguarded, a document may send requests for those
    /// paths there, and no others. The paths of subrequests are not known. A guard with conditions is enough where a
    /// way of the file takes all of these requests with the same guards.
    pub(super) fn lacked_by_document(&self, way: &Way<'_>) -> Option<Guard> {
        let is_included = self.guarded_ways.iter().any(|known| known.includes(way));
        let terms = if is_included { Terms::New } else { Terms::Document };
        let lacks = match way.kind {
            Kind::Call if !self.is_known_call_of_document(way) => self.ways().lacked_by(way, terms),
            _ => self.lacked_by(way, terms),
        };
        if let Some(guard) = lacks.into_iter().next() {
            return Some(guard);
        }
        if let Some(guard) = self.lacked_where_paths_meet(way, terms) {
            return Some(guard);
        }
        let is_free = || match way.kind {
            Kind::Call => self.is_known_call_of_document(way) && self.calls.has_open(),
            Kind::Request | Kind::Sealed => {
                Paths::of(way).is_some_and(|paths| self.open.cover(&paths) && !self.guarded.may_meet(&paths))
            }
        };
        let mut guarded = self.all().filter(|guards| !guards.is_empty()).peekable();
        let first = guarded.peek()?.first().cloned();
        let is_there = guarded.any(|wanted| lacking(wanted, &way.guards, terms).next().is_none());
        first.filter(|_| self.is_open() && !is_there && !is_free())
    }

    /// A guard that the file has on a way at one of these listeners whose paths a document's way may request, and
    /// that the document's way lacks. A way whose path is changed may request all paths.
    fn lacked_where_paths_meet(&self, way: &Way<'_>, terms: Terms) -> Option<Guard> {
        let meeting = self.meeting(way);
        let mut lacks = meeting.iter().flat_map(|known| lacking(&known.guards, &way.guards, terms));
        lacks.next().cloned()
    }

    /// The guarded ways of the file at one of these listeners whose paths a document's way may request.
    fn meeting(&self, way: &Way<'_>) -> Vec<&GuardedWay> {
        let paths = match way.kind {
            Kind::Call if self.is_known_call_of_document(way) => return Vec::new(),
            Kind::Call => Paths::all(),
            Kind::Request | Kind::Sealed => Paths::of(way).unwrap_or_else(Paths::all),
        };
        let is_new = |listener: &str| !self.requests.by_listener.contains_key(listener);
        let is_here = |listeners: &[String]| {
            way.listeners.iter().any(|own| is_new(own) || listeners.iter().any(|known| known == own))
        };
        let meets = |known: &&GuardedWay| is_here(&known.listeners) && known.paths.may_meet(&paths);
        self.guarded_ways.iter().filter(meets).collect()
    }

    /// Whether the service may rely on what filters have verified of the requests of a document's way: no way of the
    /// file is open, or one with a guard takes some of these requests. A condition of that guard sees what filters
    /// before it have left, too.
    pub(super) fn is_asked(&self, way: &Way<'_>) -> bool {
        !self.is_open() || !self.meeting(way).is_empty()
    }

    /// Whether a route of the file allows the same escapes in all paths of a document's way. With another reading of a
    /// path, conditions of guards fit other requests (decision 0005).
    pub(super) fn allows_encoded(&self, way: &Way<'_>) -> bool {
        let (own, paths) = (way.route.allow_encoded, Paths::asked(way));
        own.is_empty()
            || self.encoded.iter().any(|(known, escapes)| escapes.contains(own) && known.cover(&paths))
    }

    /// Whether another way allows escapes that no known way allows in its paths, where a guard holds for some paths.
    pub(super) fn is_read_otherwise(&self, way: &Way<'_>) -> bool {
        let is_partly = self.is_open() || self.all().flatten().any(|guard| !guard.is_unconditional());
        way.kind == Kind::Request && is_partly && !self.allows_encoded(way)
    }

    /// Whether a guarded way of the file that takes some of these requests has this filter; where there are none,
    /// whether any way has it.
    pub(super) fn has_step_beside(&self, way: &Way<'_>, written: Option<Written>) -> bool {
        let meeting = self.meeting(way);
        let Some(written) = written.filter(|_| !meeting.is_empty()) else { return self.has_step(written) };
        meeting.iter().any(|known| known.steps.contains(&written))
    }

    /// Whether the file lets every client request this path of the place.
    pub(super) fn leaves_open(&self, path: &str) -> bool {
        Paths::exact(path).is_some_and(|path| self.free.cover(&path) && !self.guarded.may_meet(&path))
    }

    /// Whether a way to the place has this filter.
    pub(super) fn has_step(&self, written: Option<Written>) -> bool {
        written.is_some_and(|written| self.steps.contains(&written))
    }

    /// Whether a way to the place has a filter with this argument, under any condition.
    pub(super) fn has_argument(&self, written: Option<Written>) -> bool {
        written.is_some_and(|written| self.steps.iter().any(|known| known.argument == written.argument))
    }
}

/// The places that a plan leads to.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPlaces {
    places: ByPlace<Known>,
    /// Services whose names were made from positions.
    nameless: HashMap<Arc<str>, Known>,
}

impl KnownPlaces {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut known = Self::default();
        for way in ways(plan) {
            for place in way.places() {
                known.places.entry_or(&place, Known::default).add(&way);
            }
            if let Goal::Service(service) = way.goal
                && is_made(&service.name)
            {
                known.nameless.entry(service.name.clone()).or_default().add(&way);
            }
        }
        known
    }

    /// The ways to the service of this name, in the same file.
    pub(super) fn service(&self, name: &str) -> Option<&Known> {
        self.places.get_exactly(&Place::Service(name.into())).or_else(|| self.nameless.get(name))
    }

    /// The ways to a place, if one of them has guards.
    pub(super) fn at(&self, place: &Place) -> Vec<(&Place, &Known)> {
        self.places.get(place).into_iter().filter(|(_, known)| known.is_guarded()).collect()
    }

    /// Calls `each` for every place that another way leads to, if it has guards here.
    pub(super) fn for_each<'a>(&'a self, way: &Way<'_>, mut each: impl FnMut(&'a Place, &'a Known)) {
        let mut each = |(place, known): (&'a Place, &'a Known)| {
            if known.is_guarded() {
                each(place, known);
            }
        };
        if let Goal::Addresses(sealed) = way.goal {
            let permits = |address| sealed.allow.permits(address, |_| false).is_ok();
            for (place, known) in self.places.iter() {
                let sockets = place.sockets();
                // Host names are not resolved here.
                let may_be = matches!(place, Place::Name(..)) && sockets.is_empty();
                if sockets.into_iter().any(permits) || may_be && !sealed.allow.is_empty() {
                    each((place, known));
                }
            }
            return;
        }
        for place in way.places() {
            self.places.get(&place).into_iter().for_each(&mut each);
        }
    }
}
