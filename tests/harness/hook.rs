//! A receiver of webhooks that keeps what it was sent.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::upstream::ok;
use crate::{STEP, Upstream};

/// One delivery.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it was here whole.
    pub at: Instant,
    /// Its body.
    pub event: Value,
    /// `X-Thalweg-Signature`; empty without one.
    pub signature: String,
}

type Seen = Arc<(Mutex<Vec<Delivery>>, Condvar)>;

/// The receiver; it answers 200 to all.
#[derive(Debug)]
pub struct Hook {
    upstream: Upstream,
    seen: Seen,
}

impl Hook {
    /// Starts one.
    pub fn start() -> Self {
        let seen = Seen::default();
        let shared = Arc::clone(&seen);
        let upstream = Upstream::start(move |request| {
            let event = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
            let signature = request.value("x-thalweg-signature").unwrap_or_default().to_owned();
            let delivery = Delivery { at: Instant::now(), event, signature };
            shared.0.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
            shared.1.notify_all();
            Some(ok(""))
        });
        Self { upstream, seen }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}/hook", self.upstream.url())
    }

    /// All deliveries until now.
    pub fn all(&self) -> Vec<Delivery> {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the delivery of an event of this kind about this endpoint; of several, the first.
    ///
    /// # Panics
    /// When there is none within [`STEP`].
    pub fn wait(&self, kind: &str, endpoint: Option<&str>) -> Delivery {
        let end = Instant::now() + STEP;
        let mut seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let is_it = |event: &Value| event["event"] == kind && event["endpoint"].as_str() == endpoint;
            if let Some(found) = seen.iter().find(|delivery| is_it(&delivery.event)) {
                return found.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(left > Duration::ZERO, "no {kind} of {endpoint:?} was delivered: {seen:#?}");
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
