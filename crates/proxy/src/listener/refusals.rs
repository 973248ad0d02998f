//! Connections that are refused because a bound is reached: which one, and their lines in the access log.
//!
//! `acceptors.rs` asks. A flood of connections must not become a flood of lines: of each worker, the first
//! [`REFUSAL_LINES_PER_SECOND`] of a second have a line, and the next one says how many had none (`unlogged`). Meters
//! count all.

use crate::state::acceptors::RefusalLines;
use crate::state::local_listener::LocalListener;
use crate::state::shared::AcceptedConnection;
use crate::state::worker::Worker;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_core::limits::REFUSAL_LINES_PER_SECOND;
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_observe::{Limit, LogRecord};

/// The bound that leaves no room for a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bound {
    /// Connections of the process.
    Process,
    /// What buffers and sockets may use.
    Memory,
    /// Connections of the listener.
    Listener,
    /// Connections of the client.
    Client,
}

impl Bound {
    /// What the client is told.
    pub(crate) const fn fault(self) -> Fault {
        let kind = FaultKind::ConnectionLimitReached;
        match self {
            Self::Process => Fault::new(kind, "`limits.max_connections` is reached"),
            Self::Memory => Fault::new(kind, "`limits.memory` is reached"),
            Self::Listener => Fault::new(kind, "`limits.max_connections` of the listener is reached"),
            Self::Client => {
                Fault { status: 429, ..Fault::new(kind, "`limits.max_connections_per_client` is reached") }
            }
        }
    }

    /// How it is counted.
    pub(crate) const fn limit(self) -> Limit {
        match self {
            Self::Process | Self::Listener => Limit::Connections,
            Self::Memory => Limit::Memory,
            Self::Client => Limit::ConnectionsPerClient,
        }
    }
}

impl RefusalLines {
    /// Whether a connection refused now has a line, and how many before it had none.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= REFUSAL_LINES_PER_SECOND {
            self.unlogged += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.unlogged))
    }

    /// Writes the line of a refused connection, if it has one. `status`: of its answer; 0: it gets none of HTTP.
    pub(crate) fn write(
        &mut self,
        worker: &Worker,
        (arrival, local_listener): (&AcceptedConnection, &LocalListener),
        (fault, id, reason): (&Fault, &RequestId, Option<&str>),
        status: u16,
    ) {
        let log = &mut *worker.log.borrow_mut();
        let Some(log) = log else { return };
        let Some(unlogged) = self.count(worker.reactor.now()) else { return };
        let client = (!local_listener.is_unix()).then_some(arrival.peer);
        log.push(&LogRecord {
            unix_us: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64),
            id: Some(id),
            listener: &local_listener.state.name,
            client,
            client_port: Some(arrival.port).filter(|port| *port != 0),
            peer: client,
            status,
            fault: Some(fault),
            reason,
            unlogged,
            ..LogRecord::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_a_few_lines_a_second_and_the_rest_is_counted() {
        let (mut lines, start) = (RefusalLines::default(), Instant::now());
        let mut written = 0;
        for _ in 0..1000 {
            written += u32::from(lines.count(start).is_some());
        }
        assert_eq!(written, REFUSAL_LINES_PER_SECOND);
        let unlogged = u64::from(1000 - REFUSAL_LINES_PER_SECOND);
        assert_eq!(lines.count(start + Duration::from_millis(999)), None);
        assert_eq!(lines.count(start + Duration::from_secs(1)), Some(unlogged + 1));
        assert_eq!(lines.count(start + Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn each_bound_is_named() {
        for bound in [Bound::Process, Bound::Memory, Bound::Listener, Bound::Client] {
            let fault = bound.fault();
            assert!(fault.detail.contains("`limits."), "{fault}");
            assert_eq!(fault.status, if bound == Bound::Client { 429 } else { 503 });
        }
    }
}
