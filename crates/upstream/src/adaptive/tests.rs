//! Against a simulated server: places, a queue before them, and times to serve; requests come at random.

use super::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const SECOND: u64 = 1_000_000;

/// How long one takes to serve, in µs.
type Times = fn(&mut fastrand::Rng) -> u64;

struct Server {
    random: fastrand::Rng,
    adaptive: Adaptive,
    now: u64,
    next_arrival: u64,
    next_tick: u64,
    /// What it takes at once, and how much there is to come, per second.
    places: usize,
    rate: f64,
    times: Times,
    /// When each came that waits; and of those served, when they end and when they came.
    queue: VecDeque<u64>,
    served: BinaryHeap<Reverse<(u64, u64)>>,
    second: Second,
    /// Since the last look.
    answered: u64,
    probing: u64,
    lowest: u32,
    highest: u32,
}

impl Server {
    fn new(policy: AdaptivePolicy, seed: u64, (places, rate, times): (usize, f64, Times)) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            adaptive: Adaptive::new(policy, seed),
            now: 0,
            next_arrival: 0,
            next_tick: SECOND,
            places,
            rate,
            times,
            queue: VecDeque::new(),
            served: BinaryHeap::new(),
            second: Second::default(),
            answered: 0,
            probing: 0,
            lowest: u32::MAX,
            highest: 0,
        }
    }

    fn under_way(&self) -> u32 {
        (self.queue.len() + self.served.len()) as u32
    }

    fn fill(&mut self) {
        while self.served.len() < self.places {
            let Some(came) = self.queue.pop_front() else { return };
            let time = (self.times)(&mut self.random);
            self.served.push(Reverse((self.now + time, came)));
        }
    }

    /// Lets time pass; the least and the most that the limit was, probes aside.
    fn run(&mut self, seconds: u64) -> (u32, u32) {
        let end = self.now + seconds * SECOND;
        (self.answered, self.probing, self.lowest, self.highest) = (0, 0, u32::MAX, 0);
        loop {
            let next_end = self.served.peek().map_or(u64::MAX, |Reverse((ends, _))| *ends);
            self.now = next_end.min(self.next_arrival).min(self.next_tick);
            if self.now >= end {
                return (self.lowest, self.highest);
            }
            if self.now == next_end {
                if let Some(Reverse((_, came))) = self.served.pop() {
                    self.second.answered += 1;
                    self.second.latency_us += self.now - came;
                    self.answered += 1;
                }
            } else if self.now == self.next_arrival {
                let gap = -(1.0 - self.random.f64()).ln() / self.rate.max(1e-6);
                self.next_arrival += (gap * SECOND as f64).max(1.0) as u64;
                if self.under_way() < self.adaptive.limit() {
                    self.queue.push_back(self.now);
                    self.second.peak = self.second.peak.max(self.under_way());
                }
            } else {
                self.next_tick += SECOND;
                self.adaptive.tick(self.second, true);
                self.second = Second { peak: self.under_way(), ..Second::default() };
                self.probing += u64::from(self.adaptive.is_probing());
                self.lowest = self.lowest.min(self.adaptive.limit.round() as u32);
                self.highest = self.highest.max(self.adaptive.limit.round() as u32);
            }
            self.fill();
        }
    }

    fn limit(&self) -> u32 {
        self.adaptive.limit.round() as u32
    }

    /// From now on the gap to the next request is of the new rate.
    fn change(&mut self, places: usize, rate: f64, times: Times) {
        (self.places, self.rate, self.times) = (places, rate, times);
        self.next_arrival = self.next_arrival.min(self.now + SECOND);
    }
}

fn policy() -> AdaptivePolicy {
    AdaptivePolicy { min: 4, max: 1000, tolerance: 150 }
}

/// 100 ms, 20 ms more or less.
fn steady(random: &mut fastrand::Rng) -> u64 {
    random.u64(80_000..120_000)
}

/// Exponential, 100 ms in the mean: with it the server is an M/M/c.
fn exponential(random: &mut fastrand::Rng) -> u64 {
    (-(1.0 - random.f64()).ln() * 100_000.0) as u64 + 1
}

/// 10 ms, or 1 s for one in twenty.
fn bimodal(random: &mut fastrand::Rng) -> u64 {
    if random.u32(..20) == 0 { 1_000_000 } else { random.u64(8_000..12_000) }
}

fn slow(random: &mut fastrand::Rng) -> u64 {
    steady(random) * 5
}

/// Every property holds whatever the chances.
fn each_seed(test: impl Fn(u64)) {
    (1..=5).for_each(test);
}

/// What 100 places take per second, at 100 ms each.
const FULL: f64 = 1_000.0;

#[test]
fn under_a_constant_overload_it_finds_the_places_within_a_minute_and_keeps_them_busy() {
    for times in [steady as Times, exponential] {
        for (places, range) in [(20, 20..70), (100, 120..200), (400, 500..750)] {
            each_seed(|seed| {
                let capacity = places as f64 * 10.0;
                let mut server = Server::new(policy(), seed, (places, 2.0 * capacity, times));
                server.run(60);
                let found = server.run(120);
                assert!(range.contains(&found.0) && range.contains(&found.1), "{places} places: {found:?}");
                let share = server.answered as f64 / 120.0 / capacity;
                assert!(share > 0.95, "{places} places: only {share} of them is used");
                assert!(server.probing <= 12, "{} of 120 s are spent probing", server.probing);
            });
        }
    }
}

#[test]
fn it_does_not_drift_over_a_day_of_overload() {
    let mut server = Server::new(policy(), 1, (4, 60.0, steady));
    server.run(600);
    for hour in 0..24 {
        let (lowest, highest) = server.run(3_600);
        assert!((4..=24).contains(&lowest) && (4..=24).contains(&highest), "{hour}: {lowest} to {highest}");
    }
}

#[test]
fn a_tail_of_long_answers_does_not_bring_it_down() {
    each_seed(|seed| {
        // 100 places at 60 ms in the mean.
        let mut server = Server::new(policy(), seed, (100, 3_000.0, bimodal));
        server.run(60);
        let (lowest, highest) = server.run(600);
        assert!(lowest >= 60 && highest <= 300, "{lowest} to {highest}");
        let share = server.answered as f64 / 600.0 / (100.0 / 0.0595);
        assert!(share > 0.9, "only {share} of the places is used");
        // The same with few answers to go by, where nothing is overloaded: nobody is to be refused.
        let mut server = Server::new(policy(), seed, (100, 40.0, bimodal));
        let (lowest, _) = server.run(600);
        assert!(lowest >= 50, "{lowest}");
    });
}

#[test]
fn it_follows_a_capacity_that_goes_and_is_back_within_a_minute() {
    each_seed(|seed| {
        let mut server = Server::new(policy(), seed, (100, 2.0 * FULL, steady));
        server.run(120);
        server.change(10, 2.0 * FULL, steady);
        server.run(60);
        assert!(server.limit() <= 50, "{} with 10 places", server.limit());
        server.run(120);
        assert!((10..=30).contains(&server.limit()), "{} with 10 places, later", server.limit());
        server.change(100, 2.0 * FULL, steady);
        server.run(60);
        assert!((110..=200).contains(&server.limit()), "{} with all places back", server.limit());
    });
}

#[test]
fn a_server_that_is_slower_for_all_keeps_its_limit() {
    each_seed(|seed| {
        let mut server = Server::new(policy(), seed, (100, 2.0 * FULL, steady));
        server.run(120);
        for times in [slow as Times, steady] {
            server.change(100, 2.0 * FULL, times);
            server.run(60);
            let (lowest, highest) = server.run(60);
            assert!(lowest >= 100 && highest <= 250, "{lowest} to {highest}");
        }
    });
}

#[test]
fn without_an_overload_it_bounds_nobody_and_does_not_probe() {
    each_seed(|seed| {
        let mut server = Server::new(policy(), seed, (100, 0.25 * FULL, exponential));
        let (lowest, _) = server.run(600);
        assert!(lowest >= 100, "{lowest}");
        assert_eq!(server.probing, 0);
        let share = server.answered as f64 / 600.0 / (0.25 * FULL);
        assert!(share > 0.97, "only {share} is answered");
    });
}

#[test]
fn bursts_and_hours_of_silence_change_little() {
    each_seed(|seed| {
        let mut server = Server::new(policy(), seed, (100, 2.0 * FULL, exponential));
        server.run(120);
        for _ in 0..20 {
            server.change(100, 0.1, exponential);
            server.run(20);
            server.change(100, 3.0 * FULL, exponential);
            let (lowest, highest) = server.run(10);
            assert!(lowest >= 100 && highest <= 260, "{lowest} to {highest} in a burst");
        }
        server.change(100, 0.0, exponential);
        server.run(4 * 3_600);
        server.change(100, 2.0 * FULL, exponential);
        server.run(30);
        let (lowest, highest) = server.run(60);
        assert!(lowest >= 100 && highest <= 260, "{lowest} to {highest} after silence");
    });
}

#[test]
fn it_stays_within_its_bounds_whatever_is_said() {
    let mut random = fastrand::Rng::with_seed(7);
    for seed in 0..200 {
        let (min, max) = (random.u32(0..50), random.u32(0..2_000));
        let mut adaptive = Adaptive::new(AdaptivePolicy { min, max, tolerance: random.u32(0..2_000) }, seed);
        for _ in 0..500 {
            let mut number = || random.u64(..) >> random.u32(..64);
            let second = Second { answered: number(), latency_us: number(), peak: number() as u32 };
            let limit = adaptive.tick(second, random.bool());
            assert!((min.max(1)..=max.max(min.max(1))).contains(&limit), "{limit} of {min} to {max}");
        }
    }
}
