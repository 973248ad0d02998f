//! Handshakes without a request, for a time.
//!
//! Each ends in order: the client says that it ends, and reads until the server has closed. So the server has done all
//! of its part, tickets included, before the handshake counts.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use crate::secure;

/// Silence after which a handshake has failed.
const SILENCE: Duration = Duration::from_secs(10);

/// Which handshakes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// With certificate and signature
    Full,
    /// With a ticket of the one before
    Resumed,
}

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "full" => Some(Self::Full),
            "resumed" => Some(Self::Resumed),
            _ => None,
        }
    }
}

/// Runs `connections` side by side, each one handshake after the other, until `time` has passed.
pub(crate) fn run(address: SocketAddr, kind: Kind, connections: usize, time: Duration) -> io::Result<()> {
    // A client of its own each: their first handshakes, which bring the first tickets, do not count.
    let configs: Result<Vec<_>, _> =
        (0..connections).map(|_| secure::config("http/1.1", kind == Kind::Resumed)).collect();
    let configs = configs.map_err(io::Error::other)?;
    if kind == Kind::Resumed {
        for config in &configs {
            one(address, config)?;
        }
    }
    let begin = Instant::now();
    let (done, bad) = thread::scope(|scope| {
        let each = |config| move || one_after_the_other(address, config, kind, begin + time);
        let threads: Vec<_> = configs.iter().map(|config| scope.spawn(each(config))).collect();
        threads.into_iter().fold((0, 0), |(done, bad), thread| match thread.join() {
            Ok((more, worse)) => (done + more, bad + worse),
            Err(_) => (done, bad + 1),
        })
    });
    println!("RESULT {done} {} {bad}", begin.elapsed().as_micros());
    Ok(())
}

/// Handshakes that were done, and those that failed or were of another kind.
fn one_after_the_other(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    kind: Kind,
    end: Instant,
) -> (u64, u64) {
    let (mut done, mut bad) = (0, 0);
    while Instant::now() < end {
        match one(address, config) {
            Ok(HandshakeKind::Full) if kind == Kind::Full => done += 1,
            Ok(HandshakeKind::Resumed) if kind == Kind::Resumed => done += 1,
            Ok(_) => bad += 1,
            Err(error) => {
                eprintln!("tls_clients: {error}");
                bad += 1;
            }
        }
    }
    (done, bad)
}

/// A handshake to its orderly end.
fn one(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<HandshakeKind> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let mut session = ClientConnection::new(Arc::clone(config), secure::host()).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    session.send_close_notify();
    while session.wants_write() {
        session.write_tls(&mut stream)?;
    }
    stream.shutdown(Shutdown::Write)?;
    while session.read_tls(&mut stream)? > 0 {
        session.process_new_packets().map_err(io::Error::other)?;
    }
    session.handshake_kind().ok_or_else(|| io::Error::other("the handshake has no kind"))
}
