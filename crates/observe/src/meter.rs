//! The cells that meters are made of: counter, gauge, histogram, counts per status.
//!
//! Workers write them in the middle of an exchange. Invariant: **one writer per cell** (the worker
//! that owns it); any thread may read. Thus adding is a relaxed load and a relaxed store, without
//! the locked read-modify-write that a shared counter would need. Two writers would lose counts,
//! nothing worse.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use thalweg_core::GRPC_STATUSES;

/// A number that only grows. One writer, any reader.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owner may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count so far.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that goes up and down. One writer for `add` and `sub`, any reader.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `n`. Only the owner may call this.
    #[inline]
    pub fn add(&self, n: i64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Subtracts `n`. Only the owner may call this.
    #[inline]
    pub fn sub(&self, n: i64) {
        self.add(n.wrapping_neg());
    }

    /// Replaces the value. Safe from any thread; the last one wins.
    #[inline]
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the histogram's buckets, in microseconds, inclusive: 0.5 ms to 60 s.
pub const BOUNDS_US: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Buckets of a histogram; the last one has no upper bound.
pub const BUCKETS: usize = BOUNDS_US.len() + 1;

/// The bucket of a duration in nanoseconds: sixteen comparisons added up, no branch depends on the value.
#[inline]
pub(crate) fn bucket_of(ns: u64) -> usize {
    BOUNDS_US.iter().map(|bound| usize::from(ns > bound * 1_000)).sum()
}

/// Durations sorted into fixed buckets. One writer, any reader.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Histogram {
    /// Whether nothing has been counted.
    pub(crate) fn is_blank(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.value() == 0)
    }

    /// Counts one duration. Only the owner may call this.
    #[inline]
    pub fn record(&self, duration: Duration) {
        let ns = duration
            .as_secs()
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(duration.subsec_nanos()));
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.add(1);
        }
        self.sum_ns.add(ns);
    }

    /// Adds the counts of the buckets to `totals`.
    pub(crate) fn add_buckets(&self, totals: &mut [u64; BUCKETS]) {
        for (sum, bucket) in totals.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.value());
        }
    }

    /// Adds this histogram's values to `total`.
    pub(crate) fn add_to(&self, total: &mut HistogramTotal) {
        self.add_buckets(&mut total.buckets);
        total.sum_ns = total.sum_ns.wrapping_add(self.sum_ns.value());
    }
}

/// The sum of the histograms of all workers, as read at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HistogramTotal {
    /// Counts per bucket, not cumulative; the last one has no upper bound.
    pub(crate) buckets: [u64; BUCKETS],
    /// Sum of the durations in nanoseconds.
    pub(crate) sum_ns: u64,
}

/// Lowest status that is counted.
const FIRST_STATUS: u16 = 100;
/// Statuses in one class.
const PER_CLASS: usize = 100;
/// Classes: 1xx to 5xx.
const CLASSES: usize = 5;

/// Counts per status code, 100 to 599. One writer, any reader.
///
/// A class takes its 800 bytes when the first status of it is counted: most routes never see half
/// of them, and there may be ten thousand routes on each of many workers.
#[derive(Debug, Default)]
pub struct Codes([OnceLock<Box<[Counter; PER_CLASS]>>; CLASSES]);

impl Codes {
    /// Counts one exchange that ended with `status`. Only the owner may call this. A status outside
    /// 100–599 is counted as 500: it must not create a series of its own.
    #[inline]
    pub fn add(&self, status: u16) {
        let status = if (FIRST_STATUS..600).contains(&status) { status } else { 500 };
        let index = usize::from(status - FIRST_STATUS);
        if let Some(class) = self.0.get(index / PER_CLASS) {
            let counts = class.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
            counts[index % PER_CLASS].add(1);
        }
    }

    /// Whether nothing has been counted.
    pub(crate) fn is_blank(&self) -> bool {
        self.0.iter().all(|class| class.get().is_none())
    }

    /// How many exchanges ended with `status`.
    pub fn value(&self, status: u16) -> u64 {
        let Some(index) = status.checked_sub(FIRST_STATUS).map(usize::from) else { return 0 };
        let class = self.0.get(index / PER_CLASS).and_then(OnceLock::get);
        class.map_or(0, |counts| counts[index % PER_CLASS].value())
    }

    /// How many exchanges ended with a status of this class, 1–5.
    pub(crate) fn of_class(&self, class: usize) -> u64 {
        let counts = class.checked_sub(1).and_then(|class| self.0.get(class)).and_then(OnceLock::get);
        counts.map_or(0, |counts| counts.iter().map(Counter::value).sum())
    }

    /// Calls `each` with every status that was counted and its count.
    pub(crate) fn each(&self, mut each: impl FnMut(u16, u64)) {
        for (class, counts) in (1u16..).zip(&self.0) {
            let Some(counts) = counts.get() else { continue };
            for (status, count) in (class * 100..).zip(counts.iter()) {
                if count.value() > 0 {
                    each(status, count.value());
                }
            }
        }
    }
}

/// Counts per status of gRPC, by its number. One writer, any reader. They take their place when the first call is
/// counted.
#[derive(Debug, Default)]
pub struct GrpcCodes(OnceLock<Box<[Counter; GRPC_STATUSES.len()]>>);

impl GrpcCodes {
    /// Counts one call. Only the owner may call this. A number without a name is not counted.
    pub fn add(&self, number: u8) {
        let counts = self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
        debug_assert!(usize::from(number) < counts.len(), "{number} has no name");
        counts.get(usize::from(number)).inspect(|count| count.add(1));
    }

    /// Adds the counts to `totals`.
    pub(crate) fn add_to(&self, totals: &mut [u64; GRPC_STATUSES.len()]) {
        for (total, count) in totals.iter_mut().zip(self.0.get().into_iter().flat_map(|counts| counts.iter()))
        {
            *total = total.wrapping_add(count.value());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_gauges_add_up() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        counter.add(2);
        counter.add(3);
        gauge.add(2);
        gauge.sub(5);
        assert_eq!((counter.value(), gauge.value()), (5, -3));
        gauge.set(9);
        assert_eq!(gauge.value(), 9);
    }

    #[test]
    fn histogram_bounds_are_inclusive_and_ascending() {
        assert!(BOUNDS_US.is_sorted());
        for (index, bound) in BOUNDS_US.iter().enumerate() {
            let histogram = Histogram::default();
            histogram.record(Duration::from_micros(*bound));
            histogram.record(Duration::from_nanos(bound * 1_000 + 1));
            let mut total = HistogramTotal::default();
            histogram.add_to(&mut total);
            assert_eq!((total.buckets[index], total.buckets[index + 1]), (1, 1), "{bound}");
            assert_eq!(total.sum_ns, bound * 2_000 + 1);
        }
    }

    #[test]
    fn histogram_takes_any_duration() {
        let histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::MAX);
        let mut total = HistogramTotal::default();
        histogram.add_to(&mut total);
        assert_eq!((total.buckets[0], total.buckets[16]), (1, 1));
    }

    #[test]
    fn codes_are_counted_one_by_one_and_strange_ones_as_500() {
        let codes = Codes::default();
        for status in [100, 200, 200, 599, 0, 99, 600, u16::MAX] {
            codes.add(status);
        }
        let mut seen = Vec::new();
        codes.each(|status, count| seen.push((status, count)));
        assert_eq!(seen, [(100, 1), (200, 2), (500, 4), (599, 1)]);
        assert_eq!((codes.value(200), codes.value(404), codes.value(7), codes.value(700)), (2, 0, 0, 0));
    }
}
