//! A transfer as fast as the machine can make it shares one worker with 200 connections of small requests: these go on
//! being answered, and soon.
//!
//! The figure of the target is for a release binary on a quiet machine (`THALWEG_BIN=… THALWEG_MEASURE=1`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_tests::process::raise_descriptors;
use thalweg_tests::{Bare, Proxy, STEP, Talk};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{config, measuring, quantile, watchdog};

/// Connections of small requests, each with one under way all the time.
const SMALL: usize = 200;
/// How long each of the three measurements takes.
const WINDOW: Duration = Duration::from_millis(1500);
/// Most that the transfer may add to the 99th percentile, as a factor: on any machine, and when measuring.
const FACTOR: (u32, u32) = (10, 2);
/// Least bytes that the transfer must have moved to have been in the way.
const MOVED: u64 = 1 << 20;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Runs `work` on a thread with a runtime of its own.
fn on_runtime<T: Send + 'static>(work: impl AsyncFnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap();
        runtime.block_on(work())
    })
}

/// A service that answers small requests, all on one thread, as long as the process runs.
fn small_service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    on_runtime(async move || {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(len @ 1..) = stream.read(&mut bytes).await {
                    seen.extend_from_slice(&bytes[..len]);
                    if seen.ends_with(b"\r\n\r\n") {
                        seen.clear();
                        if stream.write_all(ANSWER).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

/// One connection of small requests; tells the time of each.
async fn ask(address: SocketAddr, end: Instant) -> Result<Vec<Duration>, String> {
    let mut stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (mut times, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(times);
        }
        stream.write_all(REQUEST).await.map_err(|error| error.to_string())?;
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\nhello") {
            let read = tokio::time::timeout(STEP, stream.read(&mut bytes)).await;
            match read.map_err(|_| "no answer in time".to_owned())? {
                Ok(len @ 1..) => seen.extend_from_slice(&bytes[..len]),
                other => return Err(format!("{other:?} instead of an answer")),
            }
        }
        if !seen.starts_with(b"HTTP/1.1 200 ") {
            return Err(String::from_utf8_lossy(&seen).into_owned());
        }
        times.push(start.elapsed());
    }
}

/// The times of all small requests within the window, sorted.
///
/// # Panics
/// When one of them failed.
fn small_requests(address: SocketAddr) -> Vec<Duration> {
    let asking = on_runtime(async move || {
        let end = Instant::now() + WINDOW;
        let clients: Vec<_> = (0..SMALL).map(|_| tokio::task::spawn_local(ask(address, end))).collect();
        let mut times = Vec::new();
        for client in clients {
            times.extend(client.await.unwrap().unwrap());
        }
        times
    });
    let mut times = asking.join().unwrap();
    times.sort_unstable();
    times
}

/// Gets `/bulk` from `address` until told to stop; counts what comes, and tells when it begins.
fn take_all(address: SocketAddr, stop: &AtomicBool, moved: &AtomicU64, begun: &Sender<()>) {
    let mut talk = Talk::open(address).unwrap();
    talk.send("GET /bulk HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(talk.head().unwrap().status(), 200);
    let mut bytes = vec![0; 1 << 20];
    let mut stream: &TcpStream = talk.stream();
    while !stop.load(Ordering::Relaxed) {
        let len = stream.read(&mut bytes).unwrap();
        assert!(len > 0, "the endless transfer ended");
        if moved.fetch_add(len as u64, Ordering::Relaxed) == 0 {
            let _ = begun.send(());
        }
    }
}

/// Does `work` while an endless transfer from `address` runs; says how many bytes it moved.
fn beside_a_transfer<T>(address: SocketAddr, work: impl FnOnce() -> T) -> (T, u64) {
    let (stop, moved) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let (begun, has_begun) = mpsc::channel();
    let (stopped, count) = (Arc::clone(&stop), Arc::clone(&moved));
    let taking = thread::spawn(move || take_all(address, &stopped, &count, &begun));
    has_begun.recv_timeout(STEP).unwrap();
    let done = work();
    stop.store(true, Ordering::Relaxed);
    taking.join().unwrap();
    (done, moved.load(Ordering::Relaxed))
}

#[test]
fn an_endless_transfer_does_not_hold_up_small_requests_of_the_same_worker() {
    let _watchdog = watchdog("an_endless_transfer_does_not_hold_up_small_requests_of_the_same_worker");
    raise_descriptors();
    let bulk = Bare::start(|talk| {
        talk.head()?;
        // A terabyte: longer than any test.
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1_u64 << 40))?;
        let piece = vec![7; 1 << 20];
        loop {
            talk.stream().write_all(&piece)?;
        }
    });
    let config = config(&[&format!("http://{}", small_service())], "").replace("workers: 2", "workers: 1");
    let route = format!("{{ match: {{ path: /bulk }}, to: [ \"{}\" ] }}, {{ to: s }}", bulk.url());
    let proxy = Proxy::start(&config.replace("{ to: s }", &route));
    let web = proxy.web();

    small_requests(web); // Warms pools and buffers.
    let quiet = small_requests(web);
    let (elsewhere, _) = beside_a_transfer(bulk.address(), || small_requests(web));
    let (through, moved) = beside_a_transfer(web, || small_requests(web));
    let p99 = |times: &[Duration]| quantile(times, 0.99);
    let ratio = |times: &[Duration]| p99(times).as_secs_f64() / p99(&quiet).as_secs_f64();
    eprintln!(
        "small requests, p99: {:?} of {} alone; {:?} of {} ({:.2} ×) beside a transfer that passes by the proxy; \
         {:?} of {} ({:.2} ×) beside one through it, at {:.2} GB/s",
        p99(&quiet),
        quiet.len(),
        p99(&elsewhere),
        elsewhere.len(),
        ratio(&elsewhere),
        p99(&through),
        through.len(),
        ratio(&through),
        moved as f64 / WINDOW.as_secs_f64() / 1e9,
    );
    assert!(moved > MOVED, "the transfer stood still: {moved} bytes");
    // Where the machine is busy anyway, a transfer that passes by costs as much.
    let (base, factor) =
        if measuring() { (p99(&quiet), FACTOR.1) } else { (p99(&quiet).max(p99(&elsewhere)), FACTOR.0) };
    assert!(p99(&through) <= base * factor, "more than {factor} × as long");
}
