//! Memory at one moment: the proxy's, from its metrics, and the kernel's for TCP.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// Time in which the metrics must answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vitals {
    /// Resident bytes of the proxy.
    pub(super) resident: u64,
    /// Bytes of bodies in the buffers of exchanges, and how many there may be.
    pub(super) held: u64,
    pub(super) may_hold: u64,
    /// Exchanges under way.
    pub(super) active: u64,
    /// Pages that the kernel has for TCP, on the whole machine.
    pub(super) pages: u64,
}

impl Vitals {
    /// Asks the proxy and the kernel.
    pub(super) fn now(metrics: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(metrics)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let sockets = fs::read_to_string("/proc/net/sockstat")?;
        Self::read(&text, &sockets).context("the metrics or the kernel's count of sockets lack something")
    }

    fn read(text: &str, sockets: &str) -> Option<Self> {
        let metric = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<f64>().ok().map(|value| value as u64)
        };
        let line = sockets.lines().find_map(|line| line.strip_prefix("TCP:"))?;
        Some(Self {
            resident: metric("process_resident_memory_bytes")?,
            held: metric("thalweg_held_bytes")?,
            may_hold: metric("thalweg_budget_buffer_bytes")?,
            active: metric("thalweg_requests_active")?,
            pages: line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()?,
        })
    }
}

impl fmt::Display for Vitals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [resident, held] = [self.resident, self.held].map(|bytes| bytes as f64 / 1e6);
        let (active, pages) = (self.active, self.pages);
        write!(f, "{active} exchanges, RSS {resident:.0} MB, held {held:.0} MB, TCP {pages} pages")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_metrics_and_from_sockstat() {
        let text = "HTTP/1.1 200 OK\r\n\r\n# HELP thalweg_held_bytes Bytes.\nthalweg_held_bytes 16384\n\
                    thalweg_held_bytes_total 1\nthalweg_requests_active 3\n\
                    thalweg_budget_buffer_bytes 1e6\nprocess_resident_memory_bytes 7000000\n";
        let sockets = "sockets: used 16\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 134\nUDP: inuse 0 mem 7\n";
        let seen = Vitals { resident: 7_000_000, held: 16_384, may_hold: 1_000_000, active: 3, pages: 134 };
        assert_eq!(Vitals::read(text, sockets), Some(seen));
        assert_eq!(Vitals::read(text, "UDP: inuse 0 mem 7\n"), None);
    }
}
