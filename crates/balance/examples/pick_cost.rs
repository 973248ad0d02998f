//! What a pick costs as the set grows: `cargo run --release -p thalweg-balance --example pick_cost`.
//!
//! One line per algorithm and number of endpoints, separated by tabs: name, endpoints, nanoseconds per pick without
//! load, with load, with a bound on load (of those that pick by key; else `-`), with only one endpoint of a hundred
//! ready; and milliseconds per rebuild. `cargo xtask bench balance` makes the report from it.
//!
//! With load, a request is in flight at each endpoint for each unit of its weight and up to seven more, at random, kept
//! where the product keeps them: in atomics, read through `dyn Loads`. Every pick is for another key.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people at a terminal")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use thalweg_balance::{
    BALANCERS, Balance, Balancer, Candidate, Loads, NoLoads, Pick, Seed, endpoint_id, key_hash,
};

const SIZES: [u32; 5] = [10, 50, 200, 1_000, 10_000];
/// Time for the picks of one round, roughly.
const ROUND_NANOS: f64 = 1e7;
/// Rounds; the median counts.
const ROUNDS: usize = 9;
/// Keys that are asked for in turn: many enough that a table is read everywhere.
const KEYS: usize = 1 << 16;
const REBUILDS: usize = 5;

/// What the endpoints have in flight, and how long they take.
struct Busy {
    endpoints: Vec<(AtomicU32, f32)>,
    total: AtomicU32,
}

impl Loads for Busy {
    fn in_flight(&self, index: u32) -> u32 {
        self.endpoints[index as usize].0.load(Relaxed)
    }

    fn total_in_flight(&self) -> u32 {
        self.total.load(Relaxed)
    }

    fn latency(&self, index: u32) -> Option<f32> {
        Some(self.endpoints[index as usize].1)
    }
}

fn main() {
    let keys: Vec<u64> = (0..KEYS).map(|number| key_hash(&number.to_le_bytes())).collect();
    for entry in BALANCERS {
        for size in SIZES {
            measure(entry, size, &keys);
        }
    }
}

fn measure(entry: &Balancer, size: u32, keys: &[u64]) {
    let id = |n: u32| endpoint_id(&format!("http://10.0.{}.{}:8080", n / 256, n % 256));
    let mut set: Vec<Candidate> =
        (0..size).map(|n| Candidate { weight: 1 + n % 3, ready: true, id: id(n) }).collect();
    let mut seed = Seed(42);
    let busy = |candidate: &Candidate| {
        let number = seed.next();
        (AtomicU32::new(candidate.weight + (number % 8) as u32), 500.0 + (number >> 54) as f32)
    };
    let endpoints: Vec<_> = set.iter().map(busy).collect();
    let total = endpoints.iter().map(|(in_flight, _)| in_flight.load(Relaxed)).sum::<u32>().into();
    let busy = Busy { endpoints, total };

    let mut prototype = (entry.new)(Seed(1));
    let rebuild = median((0..REBUILDS).map(|_| {
        let start = Instant::now();
        prototype.rebuild(black_box(&set));
        start.elapsed().as_secs_f64() * 1e3
    }));
    let mut balancer = prototype.fork(Seed(2));
    let free = Pick { candidates: &set, tried: &[], hash: 0, bounded_load: None, loads: &NoLoads };
    let idle = nanos(balancer.as_mut(), &free, keys);
    let loaded = nanos(balancer.as_mut(), &Pick { loads: &busy, ..free }, keys);
    let bound = Pick { loads: &busy, bounded_load: Some(125), ..free };
    let bounded = entry.needs.key.then(|| nanos(balancer.as_mut(), &bound, keys));
    set.iter_mut().enumerate().for_each(|(n, candidate)| candidate.ready = n % 100 == 7);
    let scarce = Pick { candidates: &set, tried: &[], hash: 0, bounded_load: None, loads: &busy };
    let scarce = nanos(balancer.as_mut(), &scarce, keys);
    let bounded = bounded.map_or("-".to_owned(), |nanos| format!("{nanos:.1}"));
    println!("{}\t{size}\t{idle:.1}\t{loaded:.1}\t{bounded}\t{scarce:.1}\t{rebuild:.3}", entry.name);
}

/// Nanoseconds per pick: the median of the rounds.
fn nanos(balancer: &mut dyn Balance, pick: &Pick<'_>, keys: &[u64]) -> f64 {
    let mut next = 0;
    let mut round = |picks: usize| {
        let start = Instant::now();
        for _ in 0..picks {
            let hash = keys[next % keys.len()];
            next += 1;
            assert!(black_box(balancer.pick(black_box(&Pick { hash, ..*pick }))).is_some());
        }
        start.elapsed().as_nanos() as f64 / picks as f64
    };
    let warm = round(1000);
    let picks = (ROUND_NANOS / warm) as usize + 1;
    median((0..ROUNDS).map(|_| round(picks)))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
