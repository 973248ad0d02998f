//! The long link: packets that enter one TUN device leave the other after a delay, at a rate, and not all of them.
//!
//! Not part of the product. `cargo xtask bench stream` runs it between two network namespaces, because a kernel
//! without netem has no other way to be far from itself. It makes both devices in its own namespace and says so in
//! one line; whoever started it moves one away and gives them addresses. They vanish when it ends, and it ends when
//! its standard input does, so that nothing stays behind however its parent dies.
//!
//! Each direction is a task that receives (drops, paces, stamps) and a thread that sends when the time has come. A
//! line `seed N` on standard input starts the drop pattern anew and is answered with what was counted since the
//! last one. Loss strikes data and acknowledgements alike; what overflows the queue is lost too, as on a router.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the benchmark, run by xtask")]

use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio_tun::Tun;

/// Bytes of a packet, the usual ones.
const MTU: usize = 1500;
/// Packets on the line in one direction: more than delay and queue hold of full ones, at any rate that is useful.
const PACKETS: usize = 1 << 16;
/// Time that a packet may wait for the line to be free before it is lost: two round trips of the usual delay, so
/// that the first doubling of a sender, which overshoots, is not what is measured.
const QUEUE: Duration = Duration::from_millis(140);
/// A packet may leave that much too early, so that a sleep serves several.
const EARLY: Duration = Duration::from_micros(200);
/// Least rate, in bits per second, so that a packet's time on the line stays finite.
const LEAST_RATE: u64 = 1_000_000;

/// What both directions share.
struct Line {
    delay: Duration,
    /// Bits per second.
    rate: u64,
    /// Share of packets that are lost, 0–1.
    drop: f64,
    /// Seed of the drop pattern, and how often it was set.
    seed: AtomicU64,
    seeded: AtomicU64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    passed: AtomicU64,
    dropped: AtomicU64,
    overflowed: AtomicU64,
}

/// A packet and the moment at which it arrives.
struct Stamped {
    due: Instant,
    packet: Vec<u8>,
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((names, line)) = parse(&args) else {
        eprintln!(
            "usage: delay_line DEVICE DEVICE DELAY_MS MBIT_PER_S DROP_PERCENT, for instance left right 35 200 1"
        );
        std::process::exit(2);
    };
    let line = Arc::new(line);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let [left, right] = [Arc::new(device(names[0])?), Arc::new(device(names[1])?)];
    for (way, (from, to)) in [(left.clone(), right.clone()), (right, left)].into_iter().enumerate() {
        let (sender, receiver) = sync_channel(PACKETS);
        let shared = line.clone();
        runtime.spawn(async move { enter(&shared, &from, &sender, way as u64).await });
        thread::spawn(move || leave(&receiver, &to));
    }
    println!("ready");
    let (end, ended) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let result = listen(&line);
        let _ = end.send(result);
    });
    runtime.block_on(ended).map_err(io::Error::other)?
}

/// Does what standard input says, until it ends.
fn listen(line: &Line) -> io::Result<()> {
    for text in io::stdin().lock().lines() {
        if let Some(seed) = text?.strip_prefix("seed ").and_then(|word| word.parse().ok()) {
            line.seed.store(seed, Relaxed);
            line.seeded.fetch_add(1, Relaxed);
            let counts = &line.counts;
            let [passed, dropped, overflowed] =
                [&counts.passed, &counts.dropped, &counts.overflowed].map(|count| count.swap(0, Relaxed));
            println!("COUNTS {passed} {dropped} {overflowed}");
        }
    }
    Ok(())
}

fn parse(args: &[String]) -> Option<([&str; 2], Line)> {
    let [left, right, delay, rate, drop] = args else { return None };
    let delay = Duration::from_millis(delay.parse().ok()?);
    let rate = rate.parse::<u64>().ok()?.saturating_mul(1_000_000).max(LEAST_RATE);
    let drop = drop.parse::<f64>().ok()? / 100.0;
    let (seed, seeded, counts) = (AtomicU64::new(0), AtomicU64::new(0), Counts::default());
    Some(([left, right], Line { delay, rate, drop, seed, seeded, counts }))
}

fn device(name: &str) -> io::Result<Tun> {
    let devices = Tun::builder().name(name).build().map_err(io::Error::other)?;
    devices.into_iter().next().ok_or_else(|| io::Error::other("no device came of it"))
}

/// One direction of the line, one packet after the other.
struct Pace {
    /// Bits per second.
    rate: u64,
    /// When the last packet that was admitted has left.
    free: Instant,
}

impl Pace {
    /// When a packet that comes now has left; `None` when too many wait before it.
    fn admit(&mut self, now: Instant, length: usize) -> Option<Instant> {
        let begin = self.free.max(now);
        if begin - now > QUEUE {
            return None;
        }
        self.free = begin + Duration::from_nanos(length as u64 * 8 * 1_000_000_000 / self.rate);
        Some(self.free)
    }
}

/// Takes packets in: decides about each, and when it arrives.
async fn enter(line: &Line, from: &Tun, sender: &SyncSender<Stamped>, way: u64) {
    let mut buf = vec![0; MTU];
    let mut random = fastrand::Rng::with_seed(way);
    let mut seeded = 0;
    let mut pace = Pace { rate: line.rate, free: Instant::now() };
    loop {
        let Ok(length) = from.recv(&mut buf).await else {
            // Down, or on its way to another namespace.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let now = Instant::now();
        let latest = line.seeded.load(Relaxed);
        if latest != seeded {
            seeded = latest;
            random.seed(line.seed.load(Relaxed).wrapping_mul(2).wrapping_add(way));
        }
        if random.f64() < line.drop {
            line.counts.dropped.fetch_add(1, Relaxed);
            continue;
        }
        let packet = |end| Stamped { due: end + line.delay, packet: buf[..length].to_vec() };
        if pace.admit(now, length).is_none_or(|end| sender.try_send(packet(end)).is_err()) {
            line.counts.overflowed.fetch_add(1, Relaxed);
            continue;
        }
        line.counts.passed.fetch_add(1, Relaxed);
    }
}

/// Lets packets out when they are due.
fn leave(receiver: &Receiver<Stamped>, to: &Tun) {
    while let Ok(Stamped { due, packet }) = receiver.recv() {
        let wait = due.saturating_duration_since(Instant::now());
        if wait > EARLY {
            thread::sleep(wait);
        }
        // A device that is down loses the packet, as a cable would.
        let _ = to.try_send(&packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At this rate a full packet takes a millisecond.
    const RATE: u64 = 12_000_000;

    #[test]
    fn packets_leave_one_after_the_other_at_the_rate() {
        let now = Instant::now();
        let mut pace = Pace { rate: RATE, free: now };
        assert_eq!(pace.admit(now, MTU), Some(now + Duration::from_millis(1)));
        assert_eq!(pace.admit(now, MTU / 2), Some(now + Duration::from_micros(1500)));
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.admit(later, MTU), Some(later + Duration::from_millis(1)));
    }

    #[test]
    fn a_packet_behind_a_full_queue_is_lost_and_a_later_one_is_not() {
        let now = Instant::now();
        let mut pace = Pace { rate: RATE, free: now };
        let admitted = std::iter::repeat_with(|| pace.admit(now, MTU)).take_while(Option::is_some).count();
        assert_eq!(admitted as u128, QUEUE.as_millis() + 1);
        assert!(pace.admit(now + Duration::from_millis(2), MTU).is_some());
    }
}
