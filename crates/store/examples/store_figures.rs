//! Figures of the store: bytes of memory at a million small objects, and time per hit on one and two threads.
//!
//! `cargo run --release -p thalweg-store --example store_figures [MiB]`
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::sync::Barrier;
use thalweg_cache::{Key, KeyRule, Policy, Request, Response, StoredHead, UnixMillis, Url};
use thalweg_http::Method;
use thalweg_store::{Body, Choice, Limits, Store};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HEAD: &[(&[u8], &[u8])] = &[
    (b"Date", b"Wed, 25 Nov 2026 15:00:00 GMT"),
    (b"Content-Type", b"application/json; charset=utf-8"),
    (b"Cache-Control", b"public, max-age=3600"),
    (b"ETag", b"\"0123456789abcdef\""),
    (b"Last-Modified", b"Wed, 25 Nov 2026 14:00:00 GMT"),
    (b"Server", b"origin"),
];

fn key_of(number: usize) -> Key {
    let path = format!("/api/v1/objects/{number:08}/details");
    let url =
        Url { scheme: "https", host: b"www.example.com", port: 443, path: path.as_bytes(), query: None };
    Key::of(&KeyRule::default(), &url, HEAD.iter().copied(), None).unwrap_or_default()
}

fn head() -> Option<StoredHead> {
    let (policy, now) = (Policy::default(), UnixMillis::from_seconds(1_795_618_800));
    let fields = HEAD.iter().copied();
    let request = Request::read(Method::Get, false, std::iter::empty::<(&[u8], &[u8])>());
    let response = Response::read(&policy, 200, (now, now), fields.clone());
    StoredHead::new(&policy, &request, &response, fields).ok()
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Time that this thread has had a processor for, in nanoseconds: others may use the machine meanwhile.
fn on_processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Random numbers are good enough from a generator of one line here.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn fill(store: &Store, before: u64, body: usize, numbers: std::ops::Range<usize>) {
    let begin = on_processor();
    let many = numbers.len();
    for number in numbers {
        if let Some(head) = head() {
            let _ = store.put(&key_of(number), b"", head, Body::copy_of(&vec![number as u8; body]));
        }
    }
    let (counts, used) = (store.counts(), resident() - before);
    println!(
        "{} objects of {body} bytes: {} bytes counted, {used} resident ({:+.1} % of what is counted, {:.1} % of the \
         limit), {} per object beside the body, {} ns per put, {} evictions",
        counts.objects,
        counts.bytes,
        (used as f64 / counts.bytes as f64 - 1.0) * 100.0,
        used as f64 / store.limits().bytes as f64 * 100.0,
        (used / counts.objects).saturating_sub(body as u64),
        (on_processor() - begin) / many as u64,
        counts.evictions,
    );
}

fn hits(store: &Store, threads: usize, objects: usize, newest: usize) {
    const HITS: usize = 4_000_000;
    let keys: Vec<Key> = (0..objects).map(|number| key_of(newest - 1 - number)).collect();
    let barrier = Barrier::new(threads);
    let mut each = Vec::new();
    std::thread::scope(|scope| {
        let run = |thread: usize| {
            let (keys, barrier) = (&keys, &barrier);
            move || {
                let (policy, mut variant, mut found) = (Policy::default(), Vec::new(), 0_usize);
                let mut state = thread as u64 + 1;
                barrier.wait();
                let begin = on_processor();
                for _ in 0..HITS {
                    let stored = store.find(&keys[next(&mut state) % keys.len()]);
                    if let Choice::Object(object) = stored.choose(&policy, HEAD.iter().copied(), &mut variant)
                    {
                        found += usize::from(!object.body().is_empty());
                    }
                }
                ((on_processor() - begin) / HITS as u64, found)
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        each.extend(running.into_iter().filter_map(|thread| thread.join().ok()));
    });
    let nanos: Vec<_> = each.iter().map(|(nanos, _)| nanos).collect();
    let ratio = each.iter().map(|(_, found)| *found).sum::<usize>() as f64 / (threads * HITS) as f64;
    println!("{threads} threads, {objects} keys: {nanos:?} ns per hit, {:.1} % found", ratio * 100.0);
}

fn main() {
    let mib = std::env::args().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(8192);
    let before = resident();
    let Ok(store) = Store::new(Limits::of(mib << 20)) else { return };
    fill(&store, before, 1000, 0..1_000_000);
    for (threads, objects) in [(1, 1000), (2, 1000), (1, 900_000), (2, 900_000), (2, 1)] {
        hits(&store, threads, objects, 1_000_000);
    }
    // Large ones take the place of most.
    fill(&store, before, 300_000, 5_000_000..5_004_000);
    // Twice as many again, of another size: what goes and what comes is not the same.
    fill(&store, before, 600, 1_000_000..3_000_000);
}
