//! Both ends of `cargo xtask bench stream`: an origin of large bodies, and the client that asks for them.
//!
//! Not part of the product. One program, because both must agree on what the bytes are ([`body`]): a client that
//! checks every byte costs less than a checksum, and an origin that sends from the kernel's memory leaves the CPU to
//! what is measured. The client says in one line what it saw: `RESULT bytes microseconds exchanges bad`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the benchmark, run by xtask")]

mod body;
mod client;
mod origin;
mod wire;

use std::io;
use std::time::{Duration, Instant};

use body::Framing;
use client::Work;

/// Time after which a client gives up, beyond the seconds it was told: an exchange that trickles has failed.
const PATIENCE: Duration = Duration::from_secs(120);

const USAGE: &str = "usage: ends serve LISTEN TEXT
       ends get ADDRESS length|chunked BYTES[/close] CONNECTIONS SECONDS
       ends put ADDRESS length|chunked BYTES CONNECTIONS SECONDS
SECONDS 0 is one exchange on each connection";

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["serve", listen, text] = args[..] {
        return origin::serve(listen, text);
    }
    if ask(&args).is_none() {
        eprintln!("{USAGE}");
        std::process::exit(2);
    }
    Ok(())
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
