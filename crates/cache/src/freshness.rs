//! How long a response is fresh, how old it is, and whether it may be used stale (RFC 9111 §4.2, RFC 5861).

use crate::policy::{Policy, Sharing};
use crate::response::{Response, Stated};
use crate::time::UnixMillis;

/// Statuses that may be kept by heuristics (RFC 9110 §15.1). 206 is what it is a part of.
const HEURISTIC: [u16; 12] = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];

/// Where a lifetime comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// The response states it.
    Stated,
    /// The configuration has it for this status.
    Configured,
    /// It is a share of the time for which the representation has not changed.
    Heuristic,
    /// There is none: the response is stale at once.
    Nothing,
}

/// How long a response is fresh.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lifetime {
    /// In seconds.
    pub seconds: u32,
    /// Where it comes from.
    pub source: Source,
}

impl Lifetime {
    /// The response is stale at once.
    pub(crate) const NOTHING: Self = Self { seconds: 0, source: Source::Nothing };

    /// Of a response (RFC 9111 §4.2.1): `s-maxage`, `max-age`, `Expires`, the configuration, heuristics.
    pub fn of(policy: &Policy, response: &Response<'_>) -> Self {
        let stated = stated(response);
        if let Sharing::PerClient { lifetime } = policy.sharing {
            return match stated {
                Some(seconds) => Self { seconds: seconds.min(lifetime), source: Source::Stated },
                None if is_kept_by_heuristics(response.status) => {
                    Self { seconds: lifetime, source: Source::Configured }
                }
                // An error, or a redirection for once, says itself whether it is for more than one request.
                None => Self::NOTHING,
            };
        }
        if let Some(seconds) = stated {
            return Self { seconds, source: Source::Stated };
        }
        if let Some(seconds) = policy.default_lifetime(response.status) {
            return Self { seconds, source: Source::Configured };
        }
        match heuristic(policy, response) {
            Some(seconds) => Self { seconds, source: Source::Heuristic },
            None => Self::NOTHING,
        }
    }
}

/// What the response states; 0 where it cannot be read.
fn stated(response: &Response<'_>) -> Option<u32> {
    for directive in [response.directives.s_maxage, response.directives.max_age] {
        match directive {
            Stated::Value(seconds) => return Some(seconds),
            Stated::Invalid => return Some(0),
            Stated::Absent => {}
        }
    }
    match response.expires {
        Stated::Value(expires) => Some(seconds(expires.saturating_sub(date(response)))),
        Stated::Invalid => Some(0),
        Stated::Absent => None,
    }
}

/// Whether the status alone lets a response be kept.
pub(crate) fn is_kept_by_heuristics(status: u16) -> bool {
    HEURISTIC.contains(&status)
}

fn heuristic(policy: &Policy, response: &Response<'_>) -> Option<u32> {
    if !is_kept_by_heuristics(response.status) && !response.directives.public {
        return None;
    }
    let unchanged = date(response).saturating_sub(response.last_modified?).max(0);
    let share = unchanged / 100 * i64::from(policy.heuristic_percent)
        + unchanged % 100 * i64::from(policy.heuristic_percent) / 100;
    Some(seconds(share).min(policy.heuristic_most))
}

/// When the response was made: its `Date`, or when it was received (RFC 9110 §6.6.1).
pub(crate) fn date(response: &Response<'_>) -> i64 {
    response.date.unwrap_or(response.received.seconds())
}

/// A number of seconds that is never too large, and 0 where it is negative.
fn seconds(number: i64) -> u32 {
    const MOST: i64 = crate::directives::MOST_SECONDS as i64;
    number.clamp(0, MOST) as u32
}

/// Milliseconds that a response had of age when it was received (`corrected_initial_age`, RFC 9111 §4.2.3).
pub(crate) fn initial_age(response: &Response<'_>) -> u64 {
    // `Date` has whole seconds: the time since is counted in them too, so that none is taken for age.
    let apparent = u64::from(seconds(response.received.seconds().saturating_sub(date(response)))) * 1000;
    let corrected = u64::from(response.age) * 1000 + response.received.since(response.requested);
    apparent.max(corrected)
}

/// What is known of the freshness of a stored response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Freshness {
    /// How long it is fresh.
    pub lifetime: Lifetime,
    /// When it was received.
    pub received: UnixMillis,
    /// Milliseconds of age that it had then.
    pub initial_age: u64,
    /// It is not used without validation (`no-cache`).
    pub must_validate: bool,
    /// It is never used stale (`must-revalidate`, `proxy-revalidate`).
    pub never_stale: bool,
    /// It is used stale only as far as it says so itself (`s-maxage`, RFC 9111 §5.2.2.10).
    pub stale_as_stated: bool,
    /// It does not change while it is fresh (RFC 8246).
    pub immutable: bool,
    /// Seconds that it may be used stale while it is fetched again.
    pub while_revalidate: Option<u32>,
    /// Seconds that it may be used stale where the service fails.
    pub if_error: Option<u32>,
}

impl Freshness {
    /// Of a response that has just been received.
    pub(crate) fn of(policy: &Policy, response: &Response<'_>) -> Self {
        let said = response.directives;
        Self {
            lifetime: Lifetime::of(policy, response),
            received: response.received,
            initial_age: initial_age(response),
            must_validate: said.no_cache,
            never_stale: said.must_revalidate || said.proxy_revalidate,
            stale_as_stated: said.s_maxage != Stated::Absent,
            immutable: said.immutable,
            while_revalidate: said.stale_while_revalidate,
            if_error: said.stale_if_error,
        }
    }

    /// The same without a lifetime that was only guessed.
    #[must_use]
    pub(crate) fn without_heuristics(mut self) -> Self {
        if self.lifetime.source == Source::Heuristic {
            self.lifetime = Lifetime::NOTHING;
        }
        self
    }

    /// Whether each use needs a word with the service: nothing makes the response fresh at any time.
    pub fn is_never_fresh(&self) -> bool {
        self.must_validate || self.lifetime.seconds == 0
    }

    /// How old the response is, in milliseconds (`current_age`, RFC 9111 §4.2.3).
    pub fn age(&self, now: UnixMillis) -> u64 {
        self.initial_age.saturating_add(now.since(self.received))
    }

    /// The value of `Age`.
    pub fn age_seconds(&self, now: UnixMillis) -> u32 {
        const MOST: u64 = crate::directives::MOST_SECONDS as u64;
        (self.age(now) / 1000).min(MOST) as u32
    }

    /// Whether it is fresh.
    pub fn is_fresh(&self, now: UnixMillis) -> bool {
        self.age(now) < self.lifetime_millis()
    }

    /// Seconds that it stays fresh, negative where it is stale (the `ttl` of `Cache-Status`).
    pub fn ttl(&self, now: UnixMillis) -> i64 {
        i64::from(self.lifetime.seconds) - i64::from(self.age_seconds(now))
    }

    fn lifetime_millis(&self) -> u64 {
        u64::from(self.lifetime.seconds) * 1000
    }

    /// Milliseconds that it has been stale for; 0 where it is fresh.
    pub(crate) fn staleness(&self, now: UnixMillis) -> u64 {
        self.age(now).saturating_sub(self.lifetime_millis())
    }

    /// Whether nothing forbids to use it stale.
    pub(crate) fn may_be_stale(&self) -> bool {
        !self.never_stale && !self.must_validate
    }

    /// Whether it is within a window of so many seconds after it was fresh.
    pub(crate) fn is_within(&self, seconds: u32, now: UnixMillis) -> bool {
        seconds > 0 && self.staleness(now) <= u64::from(seconds) * 1000
    }

    /// Whether it may be used now, stale, while it is fetched again (RFC 5861 §3).
    pub fn may_be_used_while_revalidated(&self, policy: &Policy, now: UnixMillis) -> bool {
        let implied = if self.stale_as_stated { 0 } else { policy.stale_while_revalidate };
        self.may_be_stale() && self.is_within(self.while_revalidate.unwrap_or(implied), now)
    }

    /// Seconds for which it can be of use after it was fresh, without a word with the service.
    pub fn usable_stale(&self, policy: &Policy) -> u32 {
        if !self.may_be_stale() {
            return 0;
        }
        let implied = |seconds: u32| if self.stale_as_stated { 0 } else { seconds };
        let revalidate = self.while_revalidate.unwrap_or(implied(policy.stale_while_revalidate));
        revalidate.max(self.if_error.unwrap_or(implied(policy.stale_when_unreachable)))
    }
}

#[cfg(test)]
mod tests;
