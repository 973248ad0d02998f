//! How an address of an endpoint stands: whether it may be used, and what it is doing.
//!
//! Shared by all workers and the control thread, so that what one of them finds out holds for all at once.
//! Workers read plain atomics; only a change of standing takes a lock, which is held for a few instructions.
//! Whoever changes something raises the service's version; a worker that sees another version than last
//! time looks all members over (`members.rs`), and the control thread is rung, which tells others (`endpoint_sets.rs`).
//!
//! The way of a member that fails: in good standing → ejected, for a time that grows → on trial, one
//! exchange at a time → in good standing again, or ejected for longer. Active checks are a second opinion
//! beside it: who fails them is out until it passes them.

use crate::outlier::Sample;
use crate::policy::EjectionPolicy;
use crate::service::is_secure;
use crate::service_shared::ServiceShared;
use crate::tally::{Padded, Tallies};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_net::connect::PeerAddress;
use thalweg_tls::Connector;

/// How long a member is left out after it has not accepted a connection, the first time.
pub(crate) const REFUSED_FIRST: Duration = Duration::from_secs(1);
/// And at most.
pub(crate) const REFUSED_MOST: Duration = Duration::from_secs(16);
/// A trial of which nothing has been heard for so long makes room for another.
const TRIAL: Duration = Duration::from_secs(10);

/// What active checks say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Health {
    /// Nobody has asked, or no answer has come yet: used all the same.
    Unchecked,
    /// The same, and no request goes there before it has been asked (`health.initial: unhealthy`).
    Awaited,
    /// It has passed its checks.
    Well,
    /// It has failed them.
    Unwell,
}

impl Health {
    const ALL: [Self; 4] = [Self::Unchecked, Self::Awaited, Self::Well, Self::Unwell];
}

/// What a worker has to know of a member to choose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Condition {
    /// It takes its share.
    Ready,
    /// It has become ready at this time, for a slow start.
    ReadySince(Instant),
    /// It was out; one exchange may try it, and none does at present.
    OnTrial,
    /// It is out until then: ejected, or on trial by another exchange.
    Out(Instant),
    /// It has failed its checks, or has not been asked yet as it must.
    Unwell,
}

impl Condition {
    /// Whether it may be used like any other, or tried.
    pub fn is_in(self) -> bool {
        matches!(self, Self::Ready | Self::ReadySince(_) | Self::OnTrial)
    }
}

/// Why somebody is out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reason {
    /// It did not accept a connection.
    Refused,
    /// It failed requests, and takes one of the places that `max_share` leaves.
    Ejected,
}

/// What is touched only when the standing changes.
#[derive(Debug)]
struct Record {
    reason: Option<Reason>,
    /// Ejections one after the other.
    ejections: u32,
    /// In milliseconds of the service's clock, when it was in again.
    back: u64,
    /// The time of the last ejection.
    time: Duration,
    cause: String,
    /// It has left its service: who still works for it takes no place of the share that may be ejected.
    retired: bool,
}

impl Record {
    /// What comes after a calm of twice the last time out, or of this time, does not follow on what was before it.
    fn forget_after_calm(&mut self, out_until: u64, ms: u64, least: Duration) {
        let calm = self.time.saturating_mul(2).max(least);
        if out_until == 0 && ms > self.back.saturating_add(calm.as_millis() as u64) {
            self.ejections = 0;
        }
    }
}

/// It is not known how to secure connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoTlsTerms;

/// One address of an endpoint, as all workers see it.
#[derive(Debug)]
pub struct EndpointState {
    /// The same on every worker, machine and run: what keyed balancers know it by.
    pub id: u64,
    /// The URL of its endpoint, as written.
    pub url: Arc<str>,
    /// Where to connect.
    pub address: PeerAddress,
    /// How connections to it are secured. It keeps the tickets that it gave, for all workers.
    connector: Option<Arc<Connector>>,
    /// Of its service.
    pub service: Arc<ServiceShared>,
    health: AtomicU8,
    /// Until when it is out, in milliseconds; 0: it is in.
    out_until: AtomicU64,
    /// When the trial under way began; 0: none is.
    trial: AtomicU64,
    /// Failures one after the other.
    consecutive: AtomicU32,
    /// When it became ready after it had not been; 0: at the start.
    ready_since: AtomicU64,
    /// It takes no new requests, in whichever form of its service: it drains, or has left.
    closed: AtomicBool,
    /// What is under way is to end now.
    cut: AtomicBool,
    record: Mutex<Record>,
    in_flight: Padded<AtomicU32>,
    tallies: Tallies,
}

impl EndpointState {
    /// Of an address that nothing is known of.
    pub fn new(
        service: Arc<ServiceShared>,
        (url, address): (Arc<str>, PeerAddress),
        id: u64,
        workers: usize,
    ) -> Self {
        let record = Record {
            reason: None,
            ejections: 0,
            back: 0,
            time: Duration::ZERO,
            cause: String::new(),
            retired: false,
        };
        Self {
            id,
            url,
            address,
            connector: None,
            service,
            health: AtomicU8::new(Health::Unchecked as u8),
            out_until: AtomicU64::new(0),
            trial: AtomicU64::new(0),
            consecutive: AtomicU32::new(0),
            ready_since: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            record: Mutex::new(record),
            in_flight: Padded::default(),
            tallies: Tallies::new(workers),
        }
    }

    /// The same, reached through TLS like this.
    pub fn secured(self, connector: Option<Arc<Connector>>) -> Self {
        Self { connector, ..self }
    }

    /// How connections to it are secured; `None`: they are not.
    ///
    /// # Errors
    /// When they have to be and it is not known how. The configuration keeps that from happening.
    pub fn connector(&self) -> Result<Option<&Arc<Connector>>, NoTlsTerms> {
        match &self.connector {
            None if is_secure(&self.url) => Err(NoTlsTerms),
            connector => Ok(connector.as_ref()),
        }
    }

    /// What a worker has to know of it now.
    pub fn condition(&self, now: Instant) -> Condition {
        if matches!(self.health(), Health::Unwell | Health::Awaited) {
            return Condition::Unwell;
        }
        let ms = self.service.ms(now);
        match self.out_until.load(Acquire) {
            0 => match self.ready_since.load(Relaxed) {
                0 => Condition::Ready,
                since => Condition::ReadySince(self.service.instant(since)),
            },
            until if until > ms => Condition::Out(self.service.instant(until)),
            _ => match self.trial.load(Relaxed) {
                0 => Condition::OnTrial,
                begun if begun + TRIAL.as_millis() as u64 <= ms => Condition::OnTrial,
                begun => Condition::Out(self.service.instant(begun) + TRIAL),
            },
        }
    }

    /// What active checks say of it.
    pub fn health(&self) -> Health {
        Health::ALL[usize::from(self.health.load(Relaxed)).min(Health::ALL.len() - 1)]
    }

    /// Whether it is out, and until when it is left alone.
    pub fn out_until(&self) -> Option<Instant> {
        let until = self.out_until.load(Relaxed);
        (until > 0).then(|| self.service.instant(until))
    }

    /// Why it is or was out, in words; empty when it never was.
    pub fn cause(&self) -> String {
        self.lock().cause.clone()
    }

    /// Since when it has been ready, where it was not at first.
    pub fn ready_since(&self) -> Option<Instant> {
        let since = self.ready_since.load(Relaxed);
        (since > 0).then(|| self.service.instant(since))
    }

    /// Begins the one trial that a member who was out may have. Says whether it is one: it is not for who is
    /// in, and for who is tried already.
    pub(crate) fn begin_trial(&self, now: Instant) -> bool {
        let (until, ms) = (self.out_until.load(Relaxed), self.service.ms(now));
        if until == 0 || until > ms {
            return false;
        }
        let free = |begun| begun == 0 || begun + TRIAL.as_millis() as u64 <= ms;
        let began = self.trial.fetch_update(Relaxed, Relaxed, |begun| free(begun).then_some(ms));
        if began.is_ok() {
            self.service.changed();
        }
        began.is_ok()
    }

    /// The trial has told nothing: another may have its turn.
    pub(crate) fn give_trial_back(&self) {
        if self.trial.swap(0, Relaxed) != 0 {
            self.service.changed();
        }
    }

    /// What tells this time out from others; 0 while it is in. Whoever begins an attempt keeps it: only an
    /// attempt that was begun in this time out says something about its end.
    pub fn stage(&self) -> u32 {
        match self.out_until.load(Relaxed) {
            0 => 0,
            until => (until as u32).max(1),
        }
    }

    /// It has done what was asked of it at that stage. Says whether it had been out, and is in again.
    pub fn succeeded(&self, stage: u32, now: Instant) -> bool {
        if self.consecutive.load(Relaxed) != 0 {
            self.consecutive.store(0, Relaxed);
        }
        stage != 0 && stage == self.stage() && self.come_back(now, None)
    }

    /// It has accepted a connection asked for at that stage. Says whether it had been out for not doing so.
    pub fn accepted(&self, stage: u32, now: Instant) -> bool {
        stage != 0 && stage == self.stage() && self.come_back(now, Some(Reason::Refused))
    }

    /// It has not accepted a connection: it is left out at once. Says whether it was in good standing.
    pub fn refused(&self, now: Instant, cause: &str) -> bool {
        let ms = self.service.ms(now);
        let mut record = self.lock();
        let was = self.out_until.load(Relaxed);
        if was > ms {
            // One bad moment that several exchanges met, not several bad moments.
            return false;
        }
        record.forget_after_calm(was, ms, Duration::ZERO);
        let time = REFUSED_FIRST.saturating_mul(1 << record.ejections.min(8)).min(REFUSED_MOST);
        self.leave(&mut record, (Reason::Refused, time, cause), ms);
        was == 0
    }

    /// It has failed a request that was sent at that stage. Says whether it is ejected for it just now.
    pub fn failed(&self, policy: &EjectionPolicy, stage: u32, now: Instant, cause: &str) -> bool {
        if stage != self.stage() {
            return false;
        }
        let failures = self.consecutive.fetch_add(1, Relaxed).saturating_add(1);
        let on_trial = stage != 0;
        let enough = policy.consecutive > 0 && failures >= policy.consecutive;
        (enough || on_trial) && self.eject(policy, now, cause)
    }

    /// Leaves it out, by the policy. Says whether that is news: it is not when it is out already, or
    /// when as many are out as may.
    pub fn eject(&self, policy: &EjectionPolicy, now: Instant, cause: &str) -> bool {
        let ms = self.service.ms(now);
        let mut record = self.lock();
        let was = self.out_until.load(Relaxed);
        if was > ms || record.retired {
            return false;
        }
        if record.reason != Some(Reason::Ejected) && !self.service.may_eject(policy) {
            return false;
        }
        record.forget_after_calm(was, ms, policy.window);
        let time = policy.time.saturating_mul(1 << record.ejections.min(16)).min(policy.max_time);
        self.leave(&mut record, (Reason::Ejected, time, cause), ms);
        was == 0
    }

    fn leave(&self, record: &mut Record, (reason, time, cause): (Reason, Duration, &str), ms: u64) {
        if record.reason == Some(Reason::Ejected) && reason == Reason::Refused {
            self.service.no_longer_ejected();
        }
        record.reason = Some(reason);
        record.ejections = record.ejections.saturating_add(1);
        record.time = time;
        cause.clone_into(&mut record.cause);
        self.consecutive.store(0, Relaxed);
        self.trial.store(0, Relaxed);
        self.out_until.store(ms.saturating_add(time.as_millis().max(1) as u64), Release);
        self.service.changed();
    }

    fn come_back(&self, now: Instant, only: Option<Reason>) -> bool {
        let ms = self.service.ms(now);
        let mut record = self.lock();
        let out = self.out_until.load(Relaxed) != 0;
        if !out || only.is_some_and(|reason| record.reason != Some(reason)) {
            return false;
        }
        match record.reason.take() {
            Some(Reason::Ejected) => self.service.no_longer_ejected(),
            // Who accepts connections again has made good for all times that it did not.
            _ => record.ejections = 0,
        }
        record.back = ms;
        self.trial.store(0, Relaxed);
        self.ready_since.store(ms, Relaxed);
        self.out_until.store(0, Release);
        self.service.changed();
        true
    }

    /// What active checks say of it from now on. Says whether that is news.
    pub fn set_health(&self, health: Health, now: Instant, cause: &str) -> bool {
        // Mostly it is the same, of thousands of members many times a second.
        if self.health() == health {
            return false;
        }
        let ms = self.service.ms(now);
        let mut record = self.lock();
        let was = self.health();
        if was == health {
            return false;
        }
        if health == Health::Unwell {
            cause.clone_into(&mut record.cause);
        }
        if matches!(was, Health::Unwell | Health::Awaited) && health == Health::Well {
            self.ready_since.store(ms, Relaxed);
        }
        self.health.store(health as u8, Relaxed);
        self.service.changed();
        true
    }

    /// It is new in a service that runs: its slow start begins.
    pub(crate) fn is_new(&self, now: Instant) {
        self.ready_since.store(self.service.ms(now), Relaxed);
    }

    /// What is under way to it is to end now; or it is used again.
    pub fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Relaxed);
    }

    /// Whether what is under way to it is to end now.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// It leaves its service.
    pub(crate) fn retire(&self) {
        let mut record = self.lock();
        record.retired = true;
        if record.reason.take() == Some(Reason::Ejected) {
            self.service.no_longer_ejected();
        }
        self.closed.store(true, Relaxed);
    }

    /// Whether it takes new requests from now on. The endpoint set that is drawn with it tells the workers.
    pub(crate) fn set_open(&self, open: bool) {
        self.closed.store(!open, Relaxed);
    }

    /// Whether it takes new requests.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Relaxed)
    }

    /// Exchanges and tunnels under way, where the balancer asks for it.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.0.load(Relaxed)
    }

    /// Attempts and tunnels under way on all workers.
    pub fn active(&self) -> u64 {
        self.tallies.active()
    }

    /// What all workers have counted since it has been known.
    pub fn sample(&self) -> Sample {
        self.tallies.sample()
    }

    /// An attempt begins on this worker; with `loads`, all workers count it together.
    pub(crate) fn enter(&self, worker: usize, loads: bool) {
        self.tallies.enter(worker);
        if loads {
            self.in_flight.0.fetch_add(1, Relaxed);
            self.service.in_flight.0.fetch_add(1, Relaxed);
        }
    }

    /// An attempt ends on this worker.
    pub(crate) fn exit(&self, worker: usize, loads: bool) {
        self.tallies.exit(worker);
        if loads {
            self.in_flight.0.fetch_sub(1, Relaxed);
            self.service.in_flight.0.fetch_sub(1, Relaxed);
        }
    }

    /// Counts what came of an attempt: the time to the response's head, or that it failed.
    pub(crate) fn count(&self, worker: usize, latency: Option<Duration>) {
        self.service.count(worker, latency);
        self.tallies.count(worker, latency);
    }

    /// Counts a response that began well and broke off: its attempt has been counted as answered.
    pub(crate) fn count_broken(&self, worker: usize) {
        self.tallies.count_broken(worker);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
