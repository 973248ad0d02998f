//! Both ends of `cargo xtask bench sealed`: echo servers, and clients that name them by sealed host names.
//!
//! Not part of the product. The servers ([`echo`]) say `PORTS port…` once they listen and serve until they are stopped.
//! The clients ([`mod@drive`]) connect through a proxy, send messages to and fro ([`session`]), verify every byte that
//! comes back, and say in one line of JSON what came of it ([`outcome`]). Each session begins with an upgrade to
//! WebSocket ([`websocket`]) or with the first message of a TLS handshake ([`hello`]), which is all that a proxy needs
//! to see.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the benchmark, run by xtask")]

mod drive;
mod echo;
mod greeting;
mod hello;
mod outcome;
mod poller;
mod session;
mod targets;
mod websocket;

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use drive::{Drive, Gathering};
use targets::Targets;

const USAGE: &str = "usage: echo_ends serve websocket|raw LISTENERS|everywhere
       echo_ends drive websocket|raw ADDRESS DOMAIN TARGETS CLIENTS MESSAGES BYTES
       echo_ends sequence websocket|raw ADDRESS DOMAIN TARGETS AT_ONCE BYTES
TARGETS is ports:PORT,PORT… of 127.0.0.1, or addresses:COUNT:PORT for so many addresses of 127.0.0.0/8
drive says READY once all sessions are there, and goes on when its standard input has a line or ends
SEAL_KEY holds the secret of key 1, 128 hex digits";

/// What messages travel in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// Binary frames of WebSocket, after an upgrade from HTTP/1.1.
    WebSocket,
    /// Bare bytes, after what looks like the begin of TLS.
    Raw,
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // Every session is a descriptor.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let done = serve(&args).or_else(|| drive(&args)).or_else(|| sequence(&args));
    done.unwrap_or_else(|| {
        eprintln!("{USAGE}");
        std::process::exit(2);
    })
}

fn serve(args: &[&str]) -> Option<io::Result<()>> {
    let ["serve", mode, listeners] = *args else { return None };
    let mode = Mode::named(mode)?;
    match listeners {
        "everywhere" => Some(echo::everywhere(mode)),
        count => Some(echo::each(mode, count.parse().ok()?)),
    }
}

fn drive(args: &[&str]) -> Option<io::Result<()>> {
    let ["drive", mode, address, domain, targets, clients, messages, bytes] = *args else { return None };
    let drive = Drive {
        mode: Mode::named(mode)?,
        proxy: address.parse().ok()?,
        domain: domain.to_owned(),
        targets: Targets::named(targets)?,
        clients: clients.parse().ok()?,
        messages: messages.parse().ok()?,
        bytes: bytes.parse().ok()?,
        gathering: Gathering::All,
    };
    Some(drive.run())
}

fn sequence(args: &[&str]) -> Option<io::Result<()>> {
    let ["sequence", mode, address, domain, targets, at_once, bytes] = *args else { return None };
    let drive = Drive {
        mode: Mode::named(mode)?,
        proxy: address.parse().ok()?,
        domain: domain.to_owned(),
        targets: Targets::named(targets)?,
        clients: 1,
        messages: 1,
        bytes: bytes.parse().ok()?,
        gathering: Gathering::AtOnce(at_once.parse().ok()?),
    };
    Some(drive.run())
}

impl Mode {
    fn named(name: &str) -> Option<Self> {
        match name {
            "websocket" => Some(Self::WebSocket),
            "raw" => Some(Self::Raw),
            _ => None,
        }
    }
}
