//! The policy of a webhook: where events are sent, which ones, and how often delivery is tried.
//!
//! The configuration writes it and the admin crate delivers by it.

use serde::{Serialize, Serializer};
use std::time::Duration;
use thalweg_core::{EventKind, SigningKey, written};
use thalweg_http::HttpUrl;

/// Default for the time of one attempt, from the name's lookup to the status of the answer.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Default for the number of attempts, the first included.
pub const ATTEMPTS: u32 = 5;
/// Default for the pause before the second attempt. Each further one is twice as long.
pub const BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Default for the number of events that may wait for delivery.
pub const QUEUE: usize = 1024;
/// Largest number of events that may wait for delivery.
pub const QUEUE_MAX: usize = 65_536;

/// One webhook: where events are sent, which ones, and how hard it is tried.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct WebhookPolicy {
    /// Where they are sent.
    #[serde(skip)]
    pub url: HttpUrl,
    /// Which kinds are sent; empty means all.
    #[serde(serialize_with = "or_all")]
    pub events: Vec<EventKind>,
    /// The key of the signature; without one there is no signature.
    #[serde(serialize_with = "written::maybe_hidden")]
    pub secret: Option<SigningKey>,
    /// Time of one attempt. Default [`TIMEOUT`].
    #[serde(serialize_with = "written::duration")]
    pub timeout: Duration,
    /// Attempts per delivery, the first included; 0 counts as 1. Default [`ATTEMPTS`].
    pub attempts: u32,
    /// Pause before the second attempt; doubles up to [`BACKOFF_MAX`]. Default [`BACKOFF`].
    #[serde(serialize_with = "written::duration")]
    pub backoff: Duration,
    /// Events that may wait, 1 to [`QUEUE_MAX`]; past it the oldest is dropped. Default [`QUEUE`].
    pub queue: usize,
}

fn or_all<S: Serializer>(events: &[EventKind], serializer: S) -> Result<S::Ok, S::Error> {
    match events {
        [] => serializer.serialize_str("all"),
        events => serializer.collect_seq(events.iter().map(|kind| kind.name())),
    }
}

impl WebhookPolicy {
    /// A webhook with every default: all events, no signature.
    pub fn new(url: HttpUrl) -> Self {
        Self {
            url,
            events: Vec::new(),
            secret: None,
            timeout: TIMEOUT,
            attempts: ATTEMPTS,
            backoff: BACKOFF,
            queue: QUEUE,
        }
    }

    /// Whether it wants events of this kind.
    pub fn wants(&self, kind: EventKind) -> bool {
        self.events.is_empty() || self.events.contains(&kind)
    }

    /// The pause after attempt number `attempt` (from 1) failed, without jitter: 1, 2, 4 … times
    /// [`backoff`](Self::backoff), at most [`BACKOFF_MAX`].
    pub fn pause(&self, attempt: u32) -> Duration {
        let times = 1u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(times).min(BACKOFF_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> WebhookPolicy {
        WebhookPolicy::new(HttpUrl::parse("http://a/").unwrap())
    }

    #[test]
    fn no_list_of_events_means_all_of_them() {
        let mut policy = policy();
        assert!(EventKind::ALL.iter().all(|kind| policy.wants(*kind)));
        policy.events = vec![EventKind::EndpointUp];
        assert!(policy.wants(EventKind::EndpointUp) && !policy.wants(EventKind::EndpointDown));
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let policy = policy();
        let seconds: Vec<_> = (1..=8).map(|attempt| policy.pause(attempt).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!((policy.pause(0).as_secs(), policy.pause(u32::MAX).as_secs()), (1, 60));
    }
}
