//! What all workers have counted about one thing, read piece by piece.
//!
//! The sampler of time series and objectives reads everything every few seconds. Invariant: one piece is at most
//! [`PIECE`] things long, and the lock of a family is held for one piece only, so that neither a reload nor a worker
//! that takes over a plan waits for the reader.

use std::ops::Bound;

use crate::meter::BUCKETS;
use crate::registry::{Family, Registry};

/// Things that are read with the lock of their family held.
pub const PIECE: usize = 256;

/// What has been counted about one thing since the process started, or between two moments.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Exchanges that ended; of an endpoint, attempts.
    pub requests: u64,
    /// Those with a status from 500 on, whoever made the answer; of an endpoint, attempts that failed too.
    pub errors: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of responses.
    pub bytes_out: u64,
    /// Durations by bucket (`BOUNDS_US`); of an endpoint, times to the first byte of the response.
    pub buckets: [u64; BUCKETS],
    /// Those of errors, by bucket; not counted for endpoints.
    pub failed: [u64; BUCKETS],
}

impl Totals {
    /// What came after `earlier`. A count that is lower than it was is one that began anew.
    pub fn since(&self, earlier: &Self) -> Self {
        if self.requests < earlier.requests {
            return *self;
        }
        self.zip(earlier, u64::saturating_sub)
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        *self = self.zip(other, u64::wrapping_add);
    }

    /// Whichever is larger, count by count.
    pub(crate) fn most(&self, other: &Self) -> Self {
        self.zip(other, u64::max)
    }

    /// Less what is in `other`, where there is so much.
    pub(crate) fn less(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// Whether nothing has been counted.
    pub fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    fn zip(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let each = |ours: &[u64; BUCKETS], theirs: &[u64; BUCKETS]| {
            std::array::from_fn(|at| join(ours[at], theirs[at]))
        };
        Self {
            requests: join(self.requests, other.requests),
            errors: join(self.errors, other.errors),
            bytes_in: join(self.bytes_in, other.bytes_in),
            bytes_out: join(self.bytes_out, other.bytes_out),
            buckets: each(&self.buckets, &other.buckets),
            failed: each(&self.failed, &other.failed),
        }
    }
}

/// The kinds of things that are read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ObjectKind {
    /// Routes; exchanges that no route took are under the empty name.
    Route,
    /// Services.
    Service,
    /// Endpoints of services.
    Endpoint,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Route, Self::Service, Self::Endpoint];
}

/// One thing.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Object<'a> {
    /// What it is.
    pub kind: ObjectKind,
    /// Of an endpoint, the service that it belongs to; otherwise empty.
    pub service: &'a str,
    /// Its name; of an endpoint, its URL.
    pub name: &'a str,
}

/// A reading of everything that is counted.
#[derive(Debug)]
pub struct Reading<'a> {
    registry: &'a Registry,
    place: Place,
}

/// What is read next, after the names.
#[derive(Debug)]
enum Place {
    Routes(Option<[String; 1]>),
    Services(Option<[String; 1]>),
    Endpoints(Option<[String; 2]>),
    End,
}

impl Reading<'_> {
    /// Reads the next piece: at most [`PIECE`] things. Says whether there may be more.
    pub fn next(&mut self, mut each: impl FnMut(Object<'_>, &Totals)) -> bool {
        let registry = self.registry;
        self.place = match &self.place {
            Place::Routes(after) => {
                let kind = ObjectKind::Route;
                let last = registry.routes.piece(after.as_ref(), |[name], totals| {
                    each(Object { kind, service: "", name }, totals);
                });
                last.map_or(Place::Services(None), |last| Place::Routes(Some(last)))
            }
            Place::Services(after) => {
                let kind = ObjectKind::Service;
                let last = registry.services.piece(after.as_ref(), |[name], totals| {
                    each(Object { kind, service: "", name }, totals);
                });
                last.map_or(Place::Endpoints(None), |last| Place::Services(Some(last)))
            }
            Place::Endpoints(after) => {
                let kind = ObjectKind::Endpoint;
                let last = registry.endpoints.piece(after.as_ref(), |[service, name], totals| {
                    each(Object { kind, service, name }, totals);
                });
                last.map_or(Place::End, |last| Place::Endpoints(Some(last)))
            }
            Place::End => return false,
        };
        true
    }
}

impl<M: crate::meters::Meters, const N: usize> Family<M, N> {
    /// The totals of the next entries after these names; the last names, where there may be more.
    fn piece(
        &self,
        after: Option<&[String; N]>,
        mut each: impl FnMut(&[String; N], &Totals),
    ) -> Option<[String; N]> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries();
        let mut last = None;
        for (names, entry) in entries.range::<[String; N], _>((from, Bound::Unbounded)).take(PIECE) {
            each(names, &entry.totals());
            last = Some(names);
        }
        last.cloned()
    }
}

impl Registry {
    /// Begins a reading.
    pub fn reading(&self) -> Reading<'_> {
        Reading { registry: self, place: Place::Routes(None) }
    }

    /// What things of a kind have counted that are no more. To be asked before a reading: what goes while it is read
    /// is then missed rather than counted twice, and the next reading finds it.
    pub fn gone(&self, kind: ObjectKind) -> Totals {
        match kind {
            ObjectKind::Route => self.routes.gone(),
            ObjectKind::Service => self.services.gone(),
            ObjectKind::Endpoint => self.endpoints.gone(),
        }
    }

    /// What has been counted about one thing; nothing where there is no such thing.
    pub fn totals_of(&self, object: Object<'_>) -> Totals {
        match object.kind {
            ObjectKind::Route => self.routes.totals_of([object.name]),
            ObjectKind::Service => self.services.totals_of([object.name]),
            ObjectKind::Endpoint => self.endpoints.totals_of([object.service, object.name]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn read(registry: &Registry) -> Vec<(ObjectKind, String, Totals)> {
        let (mut found, mut reading) = (Vec::new(), registry.reading());
        while reading.next(|object, totals| {
            found.push((object.kind, format!("{}{}", object.service, object.name), *totals));
        }) {}
        found
    }

    #[test]
    fn a_reading_sees_everything_once_however_much_there_is() {
        let registry = Registry::new(2);
        for at in 0..PIECE * 2 {
            registry.route(at % 2, &format!("r{at}")).duration.record(Duration::from_millis(1));
        }
        registry.service(0, "s").duration.record(Duration::from_millis(1));
        registry.endpoint(1, "s", "e").requests.add(3);
        let found = read(&registry);
        assert_eq!(found.len(), PIECE * 2 + 2);
        assert!(found.iter().filter(|(kind, ..)| *kind == ObjectKind::Route).all(|(.., t)| t.requests == 1));
        assert_eq!((found[PIECE * 2 + 1].1.as_str(), found[PIECE * 2 + 1].2.requests), ("se", 3));
    }

    #[test]
    fn errors_are_statuses_from_500_on_and_their_durations_are_kept_apart() {
        let registry = Registry::new(1);
        let route = registry.route(0, "a");
        route.count(200, Duration::from_millis(2));
        route.count(404, Duration::from_millis(2));
        route.count(502, Duration::from_secs(70));
        let totals = registry.totals_of(Object { kind: ObjectKind::Route, service: "", name: "a" });
        assert_eq!((totals.requests, totals.errors), (3, 1));
        assert_eq!((totals.failed.iter().sum::<u64>(), totals.failed[BUCKETS - 1]), (1, 1));
        assert_eq!(route.codes.value(502), 1);
    }

    #[test]
    fn what_is_forgotten_stays_in_the_sum_of_its_kind() {
        let registry = Registry::new(1);
        registry.route(0, "old").count(200, Duration::from_millis(1));
        registry.retain(|_| false);
        assert_eq!(registry.gone(ObjectKind::Route).requests, 0, "it waits to be shown once more");
        registry.prune();
        assert_eq!(registry.gone(ObjectKind::Route).requests, 1);
        assert!(read(&registry).is_empty());
    }

    #[test]
    fn a_count_that_is_lower_than_before_began_anew() {
        let totals = |requests| Totals { requests, errors: 1, ..Totals::default() };
        assert_eq!(totals(5).since(&totals(3)), Totals { requests: 2, ..Totals::default() });
        assert_eq!(totals(2).since(&totals(3)), totals(2));
    }

    /// Not a bound that must hold on every machine: the figure is in decision 0080. Here, that it is no catastrophe.
    #[test]
    fn ten_thousand_things_are_read_quickly() {
        let registry = Registry::new(2);
        for at in 0..10_000 {
            let name = format!("https://endpoint-{at}.example:8443");
            (0..2).for_each(|worker| registry.endpoint(worker, "service", &name).requests.add(1));
        }
        let begun = Instant::now();
        assert_eq!(read(&registry).len(), 10_000);
        println!("10,000 things: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
