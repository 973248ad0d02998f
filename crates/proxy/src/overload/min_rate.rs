//! Whether a client keeps the pace that its route asks for (`limits.min_rate`).
//!
//! A deadline for silence does not catch who sends or takes one byte a minute. So progress is also
//! summed over windows as long as the idle deadline: what a client did in a window must reach the
//! rate as a mean. A client that reads slowly what the kernel holds for it lets nothing be handed over for
//! minutes, and is at work all the same. Waits that are the endpoint's fault do not count: the window begins anew.

use crate::state::rate::Rate;
use std::time::Instant;

/// The progress of one direction in its present window. What was handed to the kernel is no progress of the
/// receiver: that is what it has acknowledged, by a count that may begin below 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateMonitor {
    since: Instant,
    /// At the start of the window; `None`: it begins when the client is waited for again.
    bytes: Option<i64>,
    /// When it was looked at last.
    last: i64,
}

impl RateMonitor {
    /// Nothing has been asked of the client yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, bytes: None, last: 0 }
    }

    /// The window begins anew: the client was not asked for anything.
    pub(crate) fn restart(&mut self) {
        self.bytes = None;
    }

    /// Whether the client, which has moved so many bytes by now, fell behind in a window that has ended.
    pub(crate) fn is_too_slow(&mut self, now: Instant, bytes: i64, rate: Rate) -> bool {
        self.last = bytes;
        let elapsed = now.saturating_duration_since(self.since);
        let before = match self.bytes {
            Some(_) if elapsed < rate.window => return false,
            before => before,
        };
        (self.since, self.bytes) = (now, Some(bytes));
        let asked = u128::from(rate.least) * elapsed.as_millis() / 1000;
        before.is_some_and(|before| u128::from(bytes.saturating_sub(before).max(0).unsigned_abs()) < asked)
    }

    /// Whether the client has moved some since the last look, and enough. Asked when nothing could be handed
    /// to the kernel for the length of a window.
    pub(crate) fn goes_on(&mut self, now: Instant, bytes: i64, rate: Rate) -> bool {
        self.last < bytes && !self.is_too_slow(now, bytes, rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_falls_behind_in_a_window_is_too_slow_and_nobody_sooner() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let rate = Rate { window: Duration::from_secs(10), least: 100 };
        let mut pace = RateMonitor::new(start);
        assert!(!pace.is_too_slow(at(0), 0, rate), "the window begins");
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
        let mut pace = RateMonitor::new(start);
        assert!(!pace.is_too_slow(start, 0, rate));
        pace.restart();
        assert!(!pace.is_too_slow(start + Duration::from_secs(5), 0, rate), "it begins only now");
        assert!(!pace.is_too_slow(start + Duration::from_millis(5900), 0, rate));
        assert!(pace.is_too_slow(start + Duration::from_secs(6), 0, rate));
    }

    #[test]
    fn who_takes_what_the_kernel_has_goes_on_and_who_does_not_is_late() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let rate = Rate { window: Duration::from_secs(10), least: 100 };
        let mut pace = RateMonitor::new(start);
        assert!(
            !pace.is_too_slow(at(0), -5000, rate),
            "what the kernel holds of another exchange counts too"
        );
        assert!(pace.goes_on(at(10), -4000, rate));
        assert!(!pace.goes_on(at(20), -3001, rate), "too little");
        assert!(!pace.goes_on(at(30), -3001, Rate { least: 0, ..rate }), "nothing");
        assert!(
            pace.goes_on(at(40), -3000, Rate { least: 0, ..rate }),
            "a byte is enough where no rate is asked"
        );
    }
}
