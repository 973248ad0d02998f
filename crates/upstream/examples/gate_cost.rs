//! What a concurrency costs: entering and leaving, alone, beside another thread, and with somebody in line.
//!
//! `cargo run --release -p thalweg-upstream --example gate_cost`; the figures stand in
//! `docs/decisions/0012-concurrency_limits.md`.

#![expect(clippy::print_stdout, reason = "the figures are the point")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;
use std::thread;
use std::time::Instant;
use thalweg_upstream::{Acquired, ConcurrencyLimit, LimitHandle, Priority, QueuePolicy, WaitQueue};

const ROUNDS: u32 = 5_000_000;

fn concurrency(limit: u32) -> Arc<ConcurrencyLimit> {
    ConcurrencyLimit::new(limit, Arc::new(WaitQueue::new(QueuePolicy::default())))
}

/// Nanoseconds for one exchange: enter, do something for `work` steps, leave.
fn cost(concurrency: &Arc<ConcurrencyLimit>, work: u32) -> f64 {
    let limit_handle = LimitHandle::new(concurrency.clone());
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let permit = std::hint::black_box(limit_handle.enter());
        for step in 0..work {
            std::hint::black_box(step);
        }
        drop(permit);
    }
    began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

/// The same while another thread enters and leaves without a pause.
fn beside_another(concurrency: &Arc<ConcurrencyLimit>) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let other = thread::spawn({
        let (concurrency, stop) = (concurrency.clone(), stop.clone());
        move || {
            let limit_handle = LimitHandle::new(concurrency);
            while !stop.load(Relaxed) {
                drop(std::hint::black_box(limit_handle.enter()));
            }
        }
    });
    let cost = cost(concurrency, 0);
    stop.store(true, Relaxed);
    let _ = other.join();
    cost
}

/// Joining the line, being handed a place, leaving.
fn in_line() -> f64 {
    const ROUNDS: u32 = 500_000;
    let limit_handle = LimitHandle::new(concurrency(1));
    let mut held = limit_handle.enter();
    let context = std::task::Context::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let Ok(mut wait) = limit_handle.concurrency().line().join(Priority::Normal, Waker::noop()) else {
            break;
        };
        limit_handle.offer();
        drop(held.take());
        if let std::task::Poll::Ready(Ok(Acquired::Place(permit))) = wait.poll(&context) {
            held = Some(permit);
        }
    }
    began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn main() {
    for _ in 0..3 {
        println!("alone                 {:6.1} ns", cost(&concurrency(100), 0));
        println!("beside another thread {:6.1} ns", beside_another(&concurrency(100)));
        println!("through the line      {:6.1} ns", in_line());
    }
}
