//! The end of a client's connection that takes no more requests (RFC 9113 §6.8).
//!
//! The first GOAWAY names no stream: requests that the client sent before it saw the frame are still served. A client
//! that goes by it opens no more of them than it may have streams at one time, and none after a round trip. The engine
//! learns of the round trip by the acknowledgement of a PING. A client that does not acknowledge it could ask for ever,
//! so both bounds are held here: a request beyond them is refused with REFUSED_STREAM, which says that nothing was done
//! with it and that it may be sent again (§8.7).

use std::time::Duration;

/// Time for a client to see GOAWAY, and to answer the PING behind it.
pub(super) const GOAWAY_TIME: Duration = Duration::from_secs(1);

/// What a connection still takes after its first GOAWAY.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Closing {
    /// In milliseconds of the worker's clock.
    until_ms: u64,
    /// Requests.
    left: u32,
}

impl Closing {
    /// GOAWAY is sent now, on a connection that may have so many streams at one time.
    pub(super) fn new(now_ms: u64, max_streams: u32) -> Self {
        Self { until_ms: now_ms.saturating_add(GOAWAY_TIME.as_millis() as u64), left: max_streams }
    }

    /// Takes one more request, if there may be one.
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
