//! What workers count of a member and of its service: one writer for each part, any reader.

use crate::outlier::Sample;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// On cache lines of its own: written by every worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// By worker.
#[derive(Debug)]
pub(crate) struct Tallies(Box<[Tally]>);

/// What one worker counts.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Tally {
    active: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
    latency_us: AtomicU64,
}

impl Tallies {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Tally::default()).collect())
    }

    /// An attempt begins on this worker.
    pub(crate) fn enter(&self, worker: usize) {
        self.of(worker, |tally| add(&tally.active, 1));
    }

    /// An attempt ends on this worker.
    pub(crate) fn exit(&self, worker: usize) {
        self.of(worker, |tally| add(&tally.active, u64::MAX));
    }

    /// Counts what came of an attempt: the time to the response's head, or that it failed.
    pub(crate) fn count(&self, worker: usize, latency: Option<Duration>) {
        self.of(worker, |tally| {
            add(&tally.requests, 1);
            match latency {
                Some(latency) => add(&tally.latency_us, latency.as_micros() as u64),
                None => add(&tally.failures, 1),
            }
        });
    }

    /// Counts a failure of what has been counted as answered.
    pub(crate) fn count_broken(&self, worker: usize) {
        self.of(worker, |tally| add(&tally.failures, 1));
    }

    /// Attempts under way on all workers.
    pub(crate) fn active(&self) -> u64 {
        self.0.iter().fold(0, |all, tally| all.wrapping_add(tally.active.load(Relaxed)))
    }

    /// What all workers have counted.
    pub(crate) fn sample(&self) -> Sample {
        self.0.iter().fold(Sample::default(), |all, tally| {
            let (requests, failures) = (tally.requests.load(Relaxed), tally.failures.load(Relaxed));
            Sample {
                requests: all.requests + requests,
                failures: all.failures + failures,
                answered: all.answered + requests.saturating_sub(failures),
                latency_us: all.latency_us + tally.latency_us.load(Relaxed),
            }
        })
    }

    fn of(&self, worker: usize, count: impl FnOnce(&Tally)) {
        if let Some(tally) = self.0.get(worker) {
            count(tally);
        }
    }
}

fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}
