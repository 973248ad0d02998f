//! One address of a service as one worker knows it: its standing, which all workers share, its pool, and how fast it
//! has answered here.

use crate::endpoint_state::EndpointState;
use crate::pool::Pool;
use crate::service::is_secure;
use crate::wire::Wire;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_net::Socket;
use thalweg_net::connect::PeerAddress;

/// The time in which a latency is forgotten, but for its e-th part.
const LATENCY_DECAY: Duration = Duration::from_secs(10);

/// One address of a service, with what one worker knows of it.
#[derive(Debug)]
pub struct Member<W: Wire = Socket> {
    /// Its position among the members, for the list of those tried.
    pub index: u32,
    /// The position of its endpoint in `Service::endpoints`.
    pub endpoint: u32,
    /// How it stands, for all workers.
    pub standing: Arc<EndpointState>,
    /// Its idle connections.
    pub pool: Rc<Pool<W>>,
    pub(crate) latency: Rc<Latency>,
}

/// Time to the response's head, smoothed: it follows a rise at once and a fall slowly (peak EWMA, as in
/// Finagle). In microseconds.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    value: Cell<f32>,
    at: Cell<Option<Instant>>,
}

impl Latency {
    pub(crate) fn now(&self, now: Instant) -> Option<f32> {
        let age = now.saturating_duration_since(self.at.get()?);
        Some(self.value.get() * (-age.as_secs_f32() / LATENCY_DECAY.as_secs_f32()).exp())
    }

    /// It is out: how fast it was says nothing of how it comes back, and must not keep its trial away.
    pub(crate) fn forget(&self) {
        self.at.set(None);
    }

    fn observe(&self, latency: Duration, now: Instant) {
        let us = latency.as_micros() as f32;
        let value = match self.at.replace(Some(now)) {
            None => us,
            Some(_) if us >= self.value.get() => us,
            Some(before) => {
                let age = now.saturating_duration_since(before).as_secs_f32();
                let kept = (-age / LATENCY_DECAY.as_secs_f32()).exp();
                self.value.get() * kept + us * (1.0 - kept)
            }
        };
        self.value.set(value);
    }

    /// As [`Self::observe`] of a time that is not known whole: it was at least this.
    fn observe_at_least(&self, latency: Duration, now: Instant) {
        let us = latency.as_micros() as f32;
        if self.now(now).is_none_or(|known| us >= known) {
            self.at.set(Some(now));
            self.value.set(us);
        }
    }
}

impl<W: Wire> Member<W> {
    /// One that nothing is known of.
    pub(crate) fn new(index: u32, endpoint: u32, standing: Arc<EndpointState>, pool: Rc<Pool<W>>) -> Self {
        Self { index, endpoint, standing, pool, latency: Rc::default() }
    }

    /// Where to connect.
    pub fn address(&self) -> &PeerAddress {
        &self.standing.address
    }

    /// Whether it is reached through TLS.
    pub fn is_secure(&self) -> bool {
        is_secure(&self.standing.url)
    }

    /// It had not answered after this time.
    pub(crate) fn observe_at_least(&self, latency: Duration, now: Instant) {
        self.latency.observe_at_least(latency, now);
    }

    /// It has answered after this time.
    pub(crate) fn observe(&self, latency: Duration, now: Instant) {
        self.latency.observe(latency, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn latency_follows_a_rise_at_once_and_a_fall_slowly() {
        let (latency, start) = (Latency::default(), Instant::now());
        assert_eq!(latency.now(start), None);
        latency.observe(ms(10), start);
        latency.observe(ms(100), start + ms(1));
        assert!((99_000.0..100_001.0).contains(&latency.now(start + ms(1)).unwrap()));
        latency.observe(ms(10), start + ms(2));
        assert!(latency.now(start + ms(2)).unwrap() > 99_000.0);
        assert!((36_000.0..38_000.0).contains(&latency.now(start + ms(10_002)).unwrap()));
    }

    #[test]
    fn a_time_without_an_answer_raises_the_latency_and_never_lowers_it() {
        let (latency, start) = (Latency::default(), Instant::now());
        let now = |after| latency.now(start + ms(after)).unwrap();
        latency.observe_at_least(ms(50), start);
        assert!((49_999.0..50_001.0).contains(&now(0)));
        latency.observe_at_least(ms(20), start);
        assert!((49_999.0..50_001.0).contains(&now(0)), "it may have taken longer than that");
        latency.observe_at_least(ms(80), start + ms(1));
        assert!((79_999.0..80_001.0).contains(&now(1)));
        // What is known has been forgotten but for its e-th part: 30 ms or more is news.
        latency.observe_at_least(ms(35), start + ms(10_001));
        assert!((34_999.0..35_001.0).contains(&now(10_001)));
    }
}
