//! Both ends of `cargo xtask bench stream`, `bench slow` and `bench discovery`: origins of large bodies, and the
//! clients that ask for them.
//!
//! Not part of the product. One program, because both must agree on what the bytes are ([`body`]): a client that
//! checks every byte costs less than a checksum, and an origin that sends from the kernel's memory leaves the CPU to
//! what is measured. For `bench slow` there are an origin ([`feed`]) and a client ([`mod@slow`]) of thousands of
//! connections, and a client of small requests beside them ([`mod@small`]). The client of `stream` says in one line
//! what it saw: `RESULT bytes microseconds exchanges bad`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the benchmark, run by xtask")]

mod body;
mod client;
mod feed;
mod origin;
mod slow;
mod small;
mod wire;

use std::io;
use std::time::{Duration, Instant};

use body::Framing;
use client::Work;

/// Time after which a client gives up, beyond the seconds it was told: an exchange that trickles has failed.
const PATIENCE: Duration = Duration::from_secs(120);

const USAGE: &str = "usage: ends serve LISTEN TEXT
       ends feed LISTEN TEXT
       ends slow ADDRESS BYTES CONNECTIONS RATE
       ends small ADDRESS TEXT CONNECTIONS RATE SPAN_SECONDS SPANS [HOSTS]
       ends get ADDRESS length|chunked BYTES[/close] CONNECTIONS SECONDS
       ends put ADDRESS length|chunked BYTES CONNECTIONS SECONDS
SECONDS 0 is one exchange on each connection";

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", listen, text] => return origin::serve(listen, text),
        ["feed", listen, text] => return feed::serve(listen, text),
        _ => {}
    }
    if slow(&args).or_else(|| small(&args)).transpose()?.is_some() {
        return Ok(());
    }
    if ask(&args).is_none() {
        eprintln!("{USAGE}");
        std::process::exit(2);
    }
    Ok(())
}

fn slow(args: &[&str]) -> Option<io::Result<()>> {
    let ["slow", address, length, connections, rate] = *args else { return None };
    let (address, length) = (address.parse().ok()?, length.parse().ok()?);
    Some(slow::run(address, length, connections.parse().ok()?, rate.parse().ok()?))
}

fn small(args: &[&str]) -> Option<io::Result<()>> {
    let ["small", address, text, connections, rate, span, spans, ref hosts @ ..] = *args else { return None };
    let hosts = match hosts {
        [] => 0,
        [hosts] => hosts.parse().ok()?,
        _ => return None,
    };
    let (connections, rate, spans) = (connections.parse().ok()?, rate.parse().ok()?, spans.parse().ok()?);
    let span = Duration::from_secs(span.parse().ok()?);
    let pace = small::Pace { text, hosts, connections, rate, span, spans };
    Some(small::run(address.parse().ok()?, &pace))
}

fn ask(args: &[&str]) -> Option<()> {
    let [verb, address, framing, bytes, connections, seconds] = *args else { return None };
    let kind = Framing::of(framing)?;
    let length = bytes.split('/').next()?.parse().ok()?;
    let work = match verb {
        "get" => Work::Get { path: format!("/{framing}/{bytes}"), length },
        "put" => Work::Put { framing: kind, length },
        _ => return None,
    };
    let time = Duration::from_secs(seconds.parse().ok()?);
    let (address, connections) = (address.parse().ok()?, connections.parse().ok()?);
    std::thread::spawn(move || {
        std::thread::sleep(time + PATIENCE);
        eprintln!("ends: not done after {} s", (time + PATIENCE).as_secs());
        std::process::exit(1);
    });
    let begin = Instant::now();
    let outcome = client::run(address, &work, connections, time);
    let micros = begin.elapsed().as_micros();
    println!("RESULT {} {micros} {} {}", outcome.bytes, outcome.exchanges, outcome.bad);
    Some(())
}
