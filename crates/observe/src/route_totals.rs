//! What all workers have counted about one route, for those who compare two spans of time.

use std::time::Duration;

use crate::meter::{BOUNDS_US, HistogramTotal};
use crate::meters::{CacheUse, RouteMeters};
use crate::registry::Registry;

/// Counts of a route since the process started, or between two moments.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RouteTotals {
    /// Exchanges that ended with a status from 500 on, whoever made the answer.
    pub errors: u64,
    durations: HistogramTotal,
}

impl RouteTotals {
    /// Exchanges that ended.
    pub fn requests(&self) -> u64 {
        self.durations.buckets.iter().sum()
    }

    /// What came after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut durations = HistogramTotal::default();
        let both = self.durations.buckets.iter().zip(&earlier.durations.buckets);
        for (bucket, (now, then)) in durations.buckets.iter_mut().zip(both) {
            *bucket = now.saturating_sub(*then);
        }
        durations.sum_ns = self.durations.sum_ns.saturating_sub(earlier.durations.sum_ns);
        Self { errors: self.errors.saturating_sub(earlier.errors), durations }
    }

    /// The duration that this share of the exchanges, 0 to 1, did not exceed: exact to the bucket, within it as if they
    /// lay evenly. Above the last bound: that bound. `None` without exchanges.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.requests();
        if all == 0 {
            return None;
        }
        let wanted = all as f64 * share.clamp(0.0, 1.0);
        let (mut below, mut least) = (0.0, 0.0);
        for (count, bound) in self.durations.buckets.iter().zip(BOUNDS_US) {
            let (count, bound) = (*count as f64, bound as f64);
            if below + count >= wanted && count > 0.0 {
                let us = least + (bound - least) * (wanted - below) / count;
                return Some(Duration::from_secs_f64(us / 1e6));
            }
            (below, least) = (below + count, bound);
        }
        Some(Duration::from_micros(BOUNDS_US[BOUNDS_US.len() - 1]))
    }

    /// How many surely took longer than this: those in buckets that lie wholly above it.
    pub fn slower_than(&self, bound: Duration) -> u64 {
        let bound = bound.as_micros();
        let least = std::iter::once(0).chain(BOUNDS_US.iter().map(|bound| u128::from(*bound)));
        let buckets = least.zip(&self.durations.buckets);
        buckets.filter(|(least, _)| *least >= bound).map(|(_, count)| count).sum()
    }

    /// So many exchanges of this duration, of which so many failed: what a test says instead of a registry.
    pub fn sample(duration: Duration, count: u64, errors: u64) -> Self {
        let mut totals = Self { errors, ..Self::default() };
        totals.record(duration, count);
        totals
    }

    /// Counts so many exchanges of this duration.
    pub fn record(&mut self, duration: Duration, count: u64) {
        let us = duration.as_micros();
        let at = BOUNDS_US.iter().filter(|bound| us > u128::from(**bound)).count();
        self.durations.buckets[at] += count;
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.errors += other.errors;
        for (sum, count) in self.durations.buckets.iter_mut().zip(&other.durations.buckets) {
            *sum += count;
        }
        self.durations.sum_ns = self.durations.sum_ns.saturating_add(other.durations.sum_ns);
    }

    fn add(&mut self, meters: &RouteMeters) {
        self.errors += meters.codes.of_class(5);
        meters.duration.add_to(&mut self.durations);
    }
}

impl Registry {
    /// What has been counted about the requests of a route that went to a service; see [`Self::target`].
    pub fn target_totals(&self, route: &str, service: &str) -> RouteTotals {
        let mut totals = RouteTotals::default();
        self.targets.groups_of([route, service]).iter().for_each(|meters| totals.add(meters));
        totals
    }

    /// What the cache did with requests of each route, in the order of [`CacheUse::ALL`]; of none that it has had
    /// nothing to do with.
    pub fn cache_totals(&self) -> Vec<(String, [u64; CacheUse::ALL.len()])> {
        let routes = self.routes.snapshot().into_iter().map(|([route], groups)| {
            let of = |at: usize| groups.iter().map(|meters| meters.cache[at].value()).sum();
            (route, std::array::from_fn(of))
        });
        routes.filter(|(_, totals)| totals.iter().any(|total| *total > 0)).collect()
    }

    /// What has been counted about each route that an exchange has ended of, by name. What no route took is under
    /// the empty name.
    pub fn route_totals(&self) -> Vec<(String, RouteTotals)> {
        let routes = self.routes.snapshot().into_iter().map(|([route], groups)| {
            let mut totals = RouteTotals::default();
            groups.iter().for_each(|meters| totals.add(meters));
            (route, totals)
        });
        routes.filter(|(_, totals)| totals.requests() > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_over_all_workers_and_can_be_compared() {
        let registry = Registry::new(2);
        let count = |worker, status, ms| {
            let meters = registry.route(worker, "a");
            meters.codes.add(status);
            meters.duration.record(Duration::from_millis(ms));
        };
        registry.route(0, "silent");
        (0..90).for_each(|_| count(0, 200, 1));
        let before = registry.route_totals();
        assert_eq!(before.len(), 1, "{before:?}");
        (0..10).for_each(|_| count(1, 503, 40));
        let after = registry.route_totals();
        let (all, recent) = (&after[0].1, after[0].1.since(&before[0].1));
        assert_eq!((all.requests(), all.errors), (100, 10));
        assert_eq!((recent.requests(), recent.errors), (10, 10));
        let slow = Duration::from_millis(25)..=Duration::from_millis(50);
        assert!(slow.contains(&recent.quantile(0.99).unwrap()), "{recent:?}");
        assert!(slow.contains(&all.quantile(0.99).unwrap()));
        assert!(all.quantile(0.5).unwrap() <= Duration::from_millis(1));
        assert_eq!(RouteTotals::default().quantile(0.99), None);
    }

    #[test]
    fn what_is_slower_than_every_bound_is_as_slow_as_the_last() {
        let registry = Registry::new(1);
        registry.route(0, "a").duration.record(Duration::from_secs(3600));
        assert_eq!(registry.route_totals()[0].1.quantile(0.99), Some(Duration::from_secs(60)));
    }
}
