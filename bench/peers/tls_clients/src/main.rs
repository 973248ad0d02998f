//! Clients of `cargo xtask bench tls`: one exchange, handshakes for a time, connections that stay open.
//!
//! Not part of the product. They offer one version, one suite and one group ([`secure`]), so every server agrees on the
//! same, and they verify nothing: a client that spends less than a server lets the server set the pace. What was done
//! is said in one line: `RESULT done microseconds bad` of [`mod@shake`], `READY opened` of [`mod@hold`], and of
//! [`mod@ask`] what was agreed on.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the benchmark, run by xtask")]

mod ask;
mod frames;
mod hold;
mod secure;
mod shake;

use std::io;
use std::time::Duration;

use ask::Language;
use shake::Kind;

const USAGE: &str = "usage: tls_clients ask ADDRESS h1|h2|h2c TEXT
       tls_clients shake ADDRESS full|resumed CONNECTIONS SECONDS
       tls_clients hold ADDRESS h1|h2|h2c TEXT COUNT
TEXT is the body of every answer";

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = ask(&args).or_else(|| shake(&args)).or_else(|| hold(&args));
    done.unwrap_or_else(|| {
        eprintln!("{USAGE}");
        std::process::exit(2);
    })
}

fn ask(args: &[&str]) -> Option<io::Result<()>> {
    let ["ask", address, language, text] = *args else { return None };
    let (address, language) = (address.parse().ok()?, Language::named(language)?);
    Some(ask::run(address, language, text))
}

fn shake(args: &[&str]) -> Option<io::Result<()>> {
    let ["shake", address, kind, connections, seconds] = *args else { return None };
    let (address, kind, connections) = (address.parse().ok()?, Kind::named(kind)?, connections.parse().ok()?);
    Some(shake::run(address, kind, connections, Duration::from_secs(seconds.parse().ok()?)))
}

fn hold(args: &[&str]) -> Option<io::Result<()>> {
    let ["hold", address, language, text, count] = *args else { return None };
    let (address, language) = (address.parse().ok()?, Language::named(language)?);
    Some(hold::run(address, language, text, count.parse().ok()?))
}
