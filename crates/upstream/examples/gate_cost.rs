//! What a gate costs: entering and leaving, alone, beside another thread, and with somebody in line.
//!
//! `cargo run --release -p thalweg-upstream --example gate_cost`; the figures stand in
//! `docs/decisions/0012-gates.md`.

#![expect(clippy::print_stdout, reason = "the figures are the point")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;
use std::thread;
use std::time::Instant;
use thalweg_upstream::{Entrance, Gate, Got, Line, Priority, QueuePolicy};

const ROUNDS: u32 = 5_000_000;

fn gate(limit: u32) -> Arc<Gate> {
    Gate::new(limit, Arc::new(Line::new(QueuePolicy::default())))
}

/// Nanoseconds for one exchange: enter, do something for `work` steps, leave.
fn cost(gate: &Arc<Gate>, work: u32) -> f64 {
    let entrance = Entrance::new(gate.clone());
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let permit = std::hint::black_box(entrance.enter());
        for step in 0..work {
            std::hint::black_box(step);
        }
        drop(permit);
    }
    began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

/// The same while another thread enters and leaves without a pause.
fn beside_another(gate: &Arc<Gate>) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let other = thread::spawn({
        let (gate, stop) = (gate.clone(), stop.clone());
        move || {
            let entrance = Entrance::new(gate);
            while !stop.load(Relaxed) {
                drop(std::hint::black_box(entrance.enter()));
            }
        }
    });
    let cost = cost(gate, 0);
    stop.store(true, Relaxed);
    let _ = other.join();
    cost
}

/// Joining the line, being handed a place, leaving.
fn in_line() -> f64 {
    const ROUNDS: u32 = 500_000;
    let entrance = Entrance::new(gate(1));
    let mut held = entrance.enter();
    let context = std::task::Context::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let Ok(mut wait) = entrance.gate().line().join(Priority::Normal, Waker::noop()) else { break };
        entrance.offer();
        drop(held.take());
        if let std::task::Poll::Ready(Ok(Got::Place(permit))) = wait.poll(&context) {
            held = Some(permit);
        }
    }
    began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn main() {
    for _ in 0..3 {
        println!("alone                 {:6.1} ns", cost(&gate(100), 0));
        println!("beside another thread {:6.1} ns", beside_another(&gate(100)));
        println!("through the line      {:6.1} ns", in_line());
    }
}
