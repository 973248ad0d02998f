//! What the members of a service share: its version, its clock, its breaker, and what is counted of all of them.
//!
//! The members themselves: `standing.rs`.

use crate::outlier::Sample;
use crate::policy::EjectionPolicy;
use crate::shared_breaker::SharedBreaker;
use crate::tally::{Padded, Tallies};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// What the members of a service share.
pub struct ServiceShared {
    /// The service's name.
    pub name: Arc<str>,
    epoch: Instant,
    version: AtomicU32,
    /// Exchanges and tunnels under way to all members, where a balancer asks for it.
    pub(crate) in_flight: Padded<AtomicU32>,
    /// Members in the endpoint set in force, and those out by the ejection policy.
    members: AtomicU32,
    pub(crate) ejected: AtomicU32,
    pub(crate) breaker: SharedBreaker,
    /// By worker: of all members that there ever were, so that none takes its counts with it.
    tallies: Tallies,
    bell: Notifier,
}

/// Called when something has changed that others may want to hear of. Never blocks.
#[derive(Clone)]
pub struct Notifier(Arc<dyn Fn() + Send + Sync>);

impl Notifier {
    /// A bell that calls this.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(ring))
    }
}

impl Default for Notifier {
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier")
    }
}

impl fmt::Debug for ServiceShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceShared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ServiceShared {
    /// Of a service without members.
    pub fn new(name: Arc<str>, workers: usize, bell: Notifier) -> Self {
        Self {
            name,
            epoch: Instant::now(),
            version: AtomicU32::new(1),
            in_flight: Padded::default(),
            members: AtomicU32::new(0),
            ejected: AtomicU32::new(0),
            breaker: SharedBreaker::default(),
            tallies: Tallies::new(workers),
            bell,
        }
    }

    /// Another number than before when the standing of a member has changed.
    pub fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    /// Exchanges under way to all members; counted only where the balancer needs it.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.0.load(Relaxed)
    }

    /// What all workers have counted of the service since it has been known, whoever its members were.
    pub fn sample(&self) -> Sample {
        self.tallies.sample()
    }

    /// Counts what came of an attempt at a member.
    pub(crate) fn count(&self, worker: usize, latency: Option<Duration>) {
        self.tallies.count(worker, latency);
    }

    pub(crate) fn set_members(&self, members: usize) {
        self.members.store(u32::try_from(members).unwrap_or(u32::MAX), Relaxed);
        self.changed();
    }

    /// The standing of a member has changed: workers look all over, and the control thread is rung.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Release);
        self.ring();
    }

    /// Says that there is something to be heard, though no member's standing has changed.
    pub(crate) fn ring(&self) {
        (self.bell.0)();
    }

    /// In milliseconds of the service's clock.
    pub(crate) fn ms(&self, now: Instant) -> u64 {
        // Never 0, which means never.
        1 + u64::try_from(now.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX - 1)
    }

    /// The time of these milliseconds.
    pub(crate) fn instant(&self, ms: u64) -> Instant {
        self.epoch + Duration::from_millis(ms.saturating_sub(1))
    }

    /// Takes a place among the ejected, if the policy has one.
    pub(crate) fn may_eject(&self, policy: &EjectionPolicy) -> bool {
        let most = u64::from(self.members.load(Relaxed)) * u64::from(policy.max_share) / 100;
        let taken = self.ejected.fetch_update(Relaxed, Relaxed, |n| (u64::from(n) < most).then_some(n + 1));
        taken.is_ok()
    }

    /// Gives that place back.
    pub(crate) fn no_longer_ejected(&self) {
        let _ = self.ejected.fetch_update(Relaxed, Relaxed, |n| Some(n.saturating_sub(1)));
    }
}
