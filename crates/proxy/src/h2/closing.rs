//! Graceful shutdown of a client's connection with GOAWAY (RFC 9113 §6.8).
//!
//! The first GOAWAY names no stream: requests that the client sent before it saw the frame are still served. A
//! conforming client opens at most as many of them as its stream limit, and none after a round trip. The engine
//! detects the round trip by the acknowledgement of a PING. A client that does not acknowledge it could send requests
//! for ever, so both bounds are enforced here: a request beyond them is refused with REFUSED_STREAM, which means that
//! it was not processed and may be retried (§8.7).

use std::time::Duration;

/// Time for a client to see GOAWAY, and to acknowledge the PING after it.
pub(super) const GOAWAY_TIME: Duration = Duration::from_secs(1);

/// The requests that a connection still takes after its first GOAWAY.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Closing {
    /// The end of [`GOAWAY_TIME`], in milliseconds of the worker's clock.
    until_ms: u64,
    /// The remaining number of requests.
    left: u32,
}

impl Closing {
    /// Starts now, with the GOAWAY of a connection that allows `max_streams` concurrent streams.
    pub(super) fn new(now_ms: u64, max_streams: u32) -> Self {
        Self { until_ms: now_ms.saturating_add(GOAWAY_TIME.as_millis() as u64), left: max_streams }
    }

    /// Counts one more request, if it is still allowed.
    pub(super) fn takes_one(&mut self, now_ms: u64) -> bool {
        let takes = now_ms < self.until_ms && self.left > 0;
        self.left -= u32::from(takes);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_after_goaway_are_bounded_by_the_streams_and_by_a_second() {
        let mut closing = Closing::new(5000, 2);
        assert!(closing.takes_one(5000) && closing.takes_one(5999));
        assert!(!closing.takes_one(5999), "as many as the client may have streams");
        let mut closing = Closing::new(5000, 2);
        assert!(!closing.takes_one(6000), "the client has had a second to see it");
    }
}
