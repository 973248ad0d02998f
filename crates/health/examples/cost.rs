//! What active health checks cost: `cargo run --release -p thalweg-health --example cost`.
//!
//! Endpoints are on loopback, in threads of their own; the checks have a thread with a small runtime, as in
//! the proxy. CPU time is that of the checks' thread alone, taken from `/proc/thread-self/schedstat`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_health::{Checks, News, Target};
use thalweg_upstream::{Check, HealthPolicy, PeerAddress, Statuses};
use tokio::sync::mpsc;

/// How long each row is measured, after a second of first checks.
const SPAN: Duration = Duration::from_secs(10);
/// Addresses that listen; more than one, so that local ports suffice.
const ADDRESSES: u8 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut endpoints = Vec::new();
    for host in 1..=ADDRESSES {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), 0))?;
        endpoints.push(listener.local_addr()?);
        std::thread::spawn(move || serve(&listener));
    }
    println!("check  targets  interval  checks/s  µs CPU per check  late ms  KiB per target");
    for (targets, interval) in [(1_000, 5_000), (1_000, 1_000), (10_000, 5_000), (10_000, 1_000)] {
        measure(&endpoints, Check::Tcp, targets, interval)?;
        let check = Check::Http {
            path: "/ping".into(),
            method: "GET".into(),
            headers: Vec::new(),
            expect: Statuses::new(vec![200..=299]),
            body: None,
        };
        measure(&endpoints, check, targets, interval)?;
    }
    Ok(())
}

fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let mut request = [0; 1024];
        if matches!(stream.read(&mut request), Ok(1..)) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    }
}

fn measure(
    endpoints: &[SocketAddr],
    check: Check,
    targets: usize,
    interval: u64,
) -> Result<(), Box<dyn Error>> {
    let word = if check == Check::Tcp { "tcp " } else { "http" };
    let interval = Duration::from_millis(interval);
    let policy = Arc::new(HealthPolicy { check, interval, ..HealthPolicy::default() });
    // Targets differ by authority, so that a few addresses stand for many.
    let target = |host: usize| Target {
        address: PeerAddress::Tcp(endpoints[host % endpoints.len()]),
        authority: format!("host-{host}.test").into(),
        tls: None,
        speaks_http2: false,
        policy: policy.clone(),
    };
    let targets: Vec<_> = (0..targets).map(target).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let before = resident()?;
        let (sink, mut news) = mpsc::channel(256);
        let checks = Checks::start(sink);
        checks.set(targets.clone());
        let tallies = checks.tallies();
        let drain = async move { while let Some(News::Report(_) | News::Trouble(_)) = news.recv().await {} };
        let drain = tokio::spawn(drain);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let done = || {
            targets.iter().filter_map(|target| tallies.of(target)).map(|f| f.passed + f.failed).sum::<u64>()
        };
        let (count, cpu, begun) = (done(), on_cpu()?, Instant::now());
        tokio::time::sleep(SPAN).await;
        let used = on_cpu()? - cpu;
        let (count, span) = (done() - count, begun.elapsed());
        println!(
            "{word} {:>9} {:>7} ms {:>9.0} {:>17.1} {:>8.1} {:>15.2}",
            targets.len(),
            interval.as_millis(),
            count as f64 / span.as_secs_f64(),
            used.as_secs_f64() * 1e6 / count as f64,
            tallies.late().as_secs_f64() * 1e3,
            resident()?.saturating_sub(before) as f64 / 1024.0 / targets.len() as f64,
        );
        drop(checks);
        drain.await?;
        Ok(())
    })
}

/// CPU time of this thread.
fn on_cpu() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split(' ').next().unwrap_or_default().parse()?))
}

/// Bytes of resident memory of the process.
fn resident() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/statm")?;
    Ok(text.split(' ').nth(1).unwrap_or_default().parse::<u64>()? * 4096)
}
