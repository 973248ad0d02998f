//! The guards on a plan's ways to each place, and the guards that another way there lacks.

use super::guards::{Guard, Guards, Terms, common, lacking};
use super::paths::Paths;
use super::places::{ByPlace, Place};
use super::ways::{Goal, Kind, Way, ways};
use std::collections::{BTreeMap, BTreeSet};
use thalweg_filter::Written;
use thalweg_proxy::Plan;

/// The ways to one goal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ways {
    /// The guards of each way, by its listeners.
    by_listener: BTreeMap<String, BTreeSet<Guards>>,
    /// The guards on all ways.
    common: Option<Guards>,
}

impl Ways {
    fn add(&mut self, way: &Way<'_>) {
        for listener in &way.listeners {
            self.by_listener.entry((*listener).to_owned()).or_default().insert(way.guards.clone());
        }
        self.common = Some(match &self.common {
            Some(all) => common(all, &way.guards),
            None => way.guards.clone(),
        });
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
        both.common = match (&self.common, &other.common) {
            (Some(one), Some(other)) => Some(common(one, other)),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
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
    /// The filters that send subrequests there.
    callers: BTreeSet<Written>,
    /// Paths of requests that arrive without a guard, and with one.
    open: Paths,
    guarded: Paths,
    /// The ways of client requests with guards: their listeners, paths and guards.
    guarded_ways: Vec<(Vec<String>, Paths, Guards)>,
}

impl Known {
    fn add(&mut self, way: &Way<'_>) {
        match way.kind {
            Kind::Request => {
                self.requests.add(way);
                self.steps.extend(way.steps.iter().filter_map(|step| step.written));
                match (Paths::of(way), way.guards.is_empty()) {
                    (paths, false) => {
                        let paths = paths.unwrap_or_else(Paths::all);
                        let listeners = way.listeners.iter().map(|listener| (*listener).to_owned()).collect();
                        self.guarded_ways.push((listeners, paths.clone(), way.guards.clone()));
                        self.guarded.add(paths);
                    }
                    (Some(paths), true) => self.open.add(paths),
                    // The paths of the requests to the service are not known.
                    (None, true) => {}
                }
            }
            Kind::Call => {
                self.calls.add(way);
                self.callers.extend(way.caller);
            }
            // A label is authorised by its key; it opens the place to no other request.
            Kind::Sealed => {}
        }
    }

    fn all(&self) -> impl Iterator<Item = &Guards> {
        let ways = if self.requests.is_empty() { &self.calls } else { &self.requests };
        ways.by_listener.values().flatten()
    }

    /// The listeners of requests to the place.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &str> {
        self.requests.by_listener.keys().map(String::as_str)
    }

    /// Whether a way has a guard.
    pub(super) fn is_guarded(&self) -> bool {
        self.all().any(|guards| !guards.is_empty())
    }

    /// Whether a way has no guard, so that the service cannot rely on verified fields.
    pub(super) fn is_open(&self) -> bool {
        self.all().any(BTreeSet::is_empty)
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

    fn is_known_call(&self, way: &Way<'_>) -> bool {
        way.caller.is_some_and(|caller| self.callers.contains(&caller))
    }

    /// The flaw of a document's way. If the file leaves some paths unguarded, a document may send requests for those
    /// paths there, and no others. The paths of subrequests are not known.
    pub(super) fn lacked_by_document(&self, way: &Way<'_>) -> Option<Guard> {
        if let Some(guard) = self.lacked_by(way, Terms::Document).into_iter().next() {
            return Some(guard);
        }
        if let Some(guard) = self.lacked_where_paths_meet(way) {
            return Some(guard);
        }
        let is_free = || match way.kind {
            Kind::Call => self.is_known_call(way) && self.calls.has_open(),
            Kind::Request | Kind::Sealed => {
                Paths::of(way).is_some_and(|paths| self.open.cover(&paths) && !self.guarded.may_meet(&paths))
            }
        };
        let mut guarded = self.all().filter(|guards| !guards.is_empty()).peekable();
        let first = guarded.peek()?.first().cloned();
        let is_there = guarded.any(|wanted| lacking(wanted, &way.guards, Terms::Document).next().is_none());
        first.filter(|_| self.is_open() && !is_there && !is_free())
    }

    /// A guard that the file has on a way at one of these listeners whose paths a document's way may request, and
    /// that the document's way lacks. A way whose path is changed may request all paths.
    fn lacked_where_paths_meet(&self, way: &Way<'_>) -> Option<Guard> {
        let paths = match way.kind {
            Kind::Call if self.is_known_call(way) => return None,
            Kind::Call => Paths::all(),
            Kind::Request | Kind::Sealed => Paths::of(way).unwrap_or_else(Paths::all),
        };
        let is_new = |listener: &str| !self.requests.by_listener.contains_key(listener);
        let is_here = |listeners: &[String]| {
            way.listeners.iter().any(|own| is_new(own) || listeners.iter().any(|known| known == own))
        };
        let meeting = self
            .guarded_ways
            .iter()
            .filter(|(listeners, known, _)| is_here(listeners) && known.may_meet(&paths));
        let mut lacks = meeting.flat_map(|(_, _, wanted)| lacking(wanted, &way.guards, Terms::Document));
        lacks.next().cloned()
    }

    /// Whether the file lets every client request this path of the place.
    pub(super) fn leaves_open(&self, path: &str) -> bool {
        let path = Paths::exact(path);
        self.open.cover(&path) && !self.guarded.may_meet(&path)
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
pub(super) struct KnownPlaces(ByPlace<Known>);

impl KnownPlaces {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut known = ByPlace::<Known>::default();
        for way in ways(plan) {
            for place in way.places() {
                known.entry_or(&place, Known::default).add(&way);
            }
        }
        Self(known)
    }

    /// The ways to the service of this name.
    pub(super) fn service(&self, name: &str) -> Option<&Known> {
        self.0.get_exactly(&Place::Service(name.into()))
    }

    /// The ways to a place, if one of them has guards.
    pub(super) fn at(&self, place: &Place) -> Vec<(&Place, &Known)> {
        self.0.get(place).into_iter().filter(|(_, known)| known.is_guarded()).collect()
    }

    /// Calls `each` for every place that another way leads to, if it has guards here.
    pub(super) fn for_each<'a>(&'a self, way: &Way<'_>, mut each: impl FnMut(&'a Place, &'a Known)) {
        self.for_all(way, |place, known| {
            if known.is_guarded() {
                each(place, known);
            }
        });
    }

    /// The same for all places, guarded or not.
    pub(super) fn for_all<'a>(&'a self, way: &Way<'_>, mut each: impl FnMut(&'a Place, &'a Known)) {
        let mut each = |(place, known): (&'a Place, &'a Known)| each(place, known);
        if let Goal::Addresses(sealed) = way.goal {
            let permits = |address| sealed.allow.permits(address, |_| false).is_ok();
            for (place, known) in self.0.iter() {
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
            self.0.get(&place).into_iter().for_each(&mut each);
        }
    }
}
