//! How much may be sent again: a share of what is sent, so that retries never make bad worse.
//!
//! One per service and worker: each keeps to its share of its own requests, so all together do too. A
//! request puts a part of a token in; a retry takes one out. What is not used is kept up to a bound; a small flow
//! of tokens by time lets a quiet service retry at all. As in Finagle and Linkerd.

use crate::policy::RetryPolicy;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Thousandths of a token.
const TOKEN: u64 = 1000;
/// Tokens are kept for the flow of this time.
const KEPT: Duration = Duration::from_secs(10);
/// Tokens from requests are kept up to this many retries.
const MOST: u64 = 1000;

/// The two purses of a service on one worker.
#[derive(Debug)]
pub struct RetryBudget {
    retries: Purse,
    hedges: Purse,
}

#[derive(Debug)]
struct Purse {
    /// Thousandths of a token that a request puts in.
    share: u64,
    per_second: u64,
    tokens: Cell<u64>,
    filled: Cell<Option<Instant>>,
}

impl Purse {
    fn new(percent: u32, per_second: u64) -> Self {
        let share = u64::from(percent) * TOKEN / 100;
        Self { share, per_second, tokens: Cell::new(per_second), filled: Cell::new(None) }
    }

    fn put_in(&self) {
        let most = MOST * TOKEN;
        if self.tokens.get() < most {
            self.tokens.set(self.tokens.get() + self.share);
        }
    }

    fn take(&self, now: Instant) -> bool {
        if self.per_second > 0 {
            let passed = self.filled.get().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
            let passed = passed.min(KEPT);
            let flow = passed.as_micros() as u64 * self.per_second / 1_000_000;
            if flow > 0 || self.filled.get().is_none() {
                self.filled.set(Some(now));
            }
            let most = self.per_second * KEPT.as_secs();
            let room = most.saturating_sub(self.tokens.get());
            self.tokens.set(self.tokens.get() + flow.min(room));
        }
        let Some(left) = self.tokens.get().checked_sub(TOKEN) else { return false };
        self.tokens.set(left);
        true
    }
}

impl RetryBudget {
    /// Of a service that nothing has been sent to, on one of so many workers: each has its part of the least rate.
    pub fn new(policy: &RetryPolicy, workers: usize) -> Self {
        let hedge = policy.hedge.map_or(0, |hedge| hedge.budget);
        let per_second = u64::from(policy.min_retries_per_second) * TOKEN / workers.max(1) as u64;
        Self { retries: Purse::new(policy.budget, per_second), hedges: Purse::new(hedge, 0) }
    }

    /// A request is sent for the first time.
    pub fn sent(&self) {
        self.retries.put_in();
        self.hedges.put_in();
    }

    /// Whether it may be sent again; then that has been paid for.
    pub fn may_retry(&self, now: Instant) -> bool {
        self.retries.take(now)
    }

    /// Whether a second copy may be sent; then that has been paid for.
    pub fn may_hedge(&self, now: Instant) -> bool {
        self.hedges.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(percent: u32, per_second: u32) -> RetryBudget {
        RetryBudget::new(
            &RetryPolicy { budget: percent, min_retries_per_second: per_second, ..RetryPolicy::default() },
            1,
        )
    }

    #[test]
    fn retries_keep_to_their_share_of_the_requests() {
        let (budget, now) = (budget(20, 0), Instant::now());
        let mut retries = 0;
        for _ in 0..10_000 {
            budget.sent();
            retries += usize::from(budget.may_retry(now));
        }
        assert_eq!(retries, 2000);
    }

    #[test]
    fn a_quiet_service_may_still_retry_at_its_least_rate() {
        let (budget, start) = (budget(0, 3), Instant::now());
        let take = |ms| (0..100).filter(|_| budget.may_retry(start + Duration::from_millis(ms))).count();
        assert_eq!([take(0), take(0), take(1000), take(1100), take(1400)], [3, 0, 3, 0, 1]);
        assert_eq!(take(3_600_000), 30, "an hour's silence is worth ten seconds");
    }

    #[test]
    fn what_is_saved_up_has_a_bound() {
        let (budget, now) = (budget(100, 0), Instant::now());
        (0..1_000_000).for_each(|_| budget.sent());
        let retries = (0..1_000_000).filter(|_| budget.may_retry(now)).count();
        assert_eq!(retries, 1000);
    }
}
