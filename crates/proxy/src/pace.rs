//! Whether a client keeps the pace that its route asks for (`limits.min_rate`).
//!
//! A deadline for silence does not catch who sends or takes one byte a minute. So progress is also
//! summed over windows as long as the idle deadline: what a client did in a window must reach the
//! rate as a mean. Waits that are the endpoint's fault do not count: the window begins anew.

use std::time::{Duration, Instant};

/// The progress of one direction in its present window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    since: Instant,
    bytes: u64,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// The length of a window.
    pub(crate) window: Duration,
    /// Bytes per second; 0: nothing is asked for.
    pub(crate) least: u64,
}

impl Pace {
    /// A window that begins now, when `bytes` have been moved.
    pub(crate) fn new(now: Instant, bytes: u64) -> Self {
        Self { since: now, bytes }
    }

    /// The window begins anew: the client was not asked for anything.
    pub(crate) fn restart(&mut self, now: Instant, bytes: u64) {
        *self = Self::new(now, bytes);
    }

    /// Whether the client fell behind in a window that has ended.
    pub(crate) fn is_too_slow(&mut self, now: Instant, bytes: u64, rate: Rate) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < rate.window {
            return false;
        }
        let asked = u128::from(rate.least) * elapsed.as_millis() / 1000;
        let behind = u128::from(bytes.saturating_sub(self.bytes)) < asked;
        self.restart(now, bytes);
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_falls_behind_in_a_window_is_too_slow_and_nobody_sooner() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let rate = Rate { window: Duration::from_secs(10), least: 100 };
        let mut pace = Pace::new(start, 0);
        assert!(!pace.is_too_slow(at(9), 1, rate), "the window has not ended");
        assert!(!pace.is_too_slow(at(10), 1000, rate), "exactly the rate");
        assert!(pace.is_too_slow(at(20), 1999, rate), "one byte behind in the second window");
        assert!(!pace.is_too_slow(at(29), 2000, rate), "a new window has begun");
        assert!(pace.is_too_slow(at(40), 2500, rate), "a longer window asks for more");
        assert!(!pace.is_too_slow(at(50), 2500, Rate { least: 0, ..rate }));
    }

    #[test]
    fn a_window_that_began_anew_forgives() {
        let start = Instant::now();
        let rate = Rate { window: Duration::from_secs(1), least: 100 };
        let mut pace = Pace::new(start, 0);
        pace.restart(start + Duration::from_secs(5), 0);
        assert!(!pace.is_too_slow(start + Duration::from_millis(5900), 0, rate));
        assert!(pace.is_too_slow(start + Duration::from_secs(6), 0, rate));
    }
}
