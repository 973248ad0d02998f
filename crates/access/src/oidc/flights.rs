//! Refreshes of sessions under way: requests of one session that come together wait for one of them, and those that
//! come shortly after it, still with the old cookie, get what it gave. Providers often take a refresh token once only.
//!
//! A refresh goes on when nobody waits for it any more: what the provider has given must not be lost.

use super::{Failure, Session};
use crate::Digest;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What one gave is remembered for this time from its begin on.
const REMEMBERED: Duration = Duration::from_secs(60);
/// What failed is tried again after this time.
const FAILED: Duration = Duration::from_secs(10);
/// Most of them.
const FLIGHTS: usize = 4096;

type Got = Result<Arc<Session>, Failure>;
/// When it began, and what it gives.
type Flight = (Instant, watch::Receiver<Option<Got>>);

/// Refreshes under way, and those that were.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Digest, Flight>>);

impl Flights {
    /// What a refresh gives that `key` stands for; `begin` makes it where there is none. Cancel-safe. Needs a runtime.
    pub(super) async fn join<F>(&self, key: Digest, now: Instant, begin: impl FnOnce() -> F) -> Got
    where
        F: Future<Output = Got> + Send + 'static,
    {
        let mut waiting = {
            let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            flights.retain(|_, (since, got)| {
                let lasts = if matches!(*got.borrow(), Some(Err(_))) { FAILED } else { REMEMBERED };
                now.saturating_duration_since(*since) < lasts
            });
            match flights.get(&key) {
                Some((_, waiting)) => waiting.clone(),
                None if flights.len() >= FLIGHTS => {
                    return Err(Failure::Unavailable("too many sessions are being refreshed".into()));
                }
                None => {
                    let (done, waiting) = watch::channel(None);
                    let refresh = begin();
                    tokio::spawn(async move { done.send(Some(refresh.await)) });
                    flights.insert(key, (now, waiting.clone()));
                    waiting
                }
            }
        };
        let got = waiting.wait_for(Option::is_some).await.ok().and_then(|got| got.clone());
        got.unwrap_or_else(|| Err(Failure::Unavailable("the refresh of a session ended by a bug".into())))
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refreshes", self.0.lock().unwrap_or_else(PoisonError::into_inner).len())
    }
}
