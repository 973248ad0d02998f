//! One attempt at a member, from the choice to the end of its exchange or tunnel.
//!
//! While it lives it is counted; what came of it is told once. A trial that ends without a word (the
//! client left) makes room for the next.

use crate::destinations::{Destinations, NoAttempt};
use crate::directory::Aim;
use crate::member::Member;
use crate::service::Service;
use crate::wire::Wire;
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_net::Socket;

/// An attempt at a member.
#[derive(Debug)]
pub struct AttemptGuard<W: Wire = Socket> {
    member: Rc<Member<W>>,
    worker: u16,
    /// All workers count it together.
    loads: bool,
    /// It is a trial of which nothing has been told yet.
    trial: Cell<bool>,
    /// How the member stood when it began.
    stage: u32,
    /// Where the member is known, if nowhere else. Dropped when the attempt has let go of the member.
    guest: Option<Guest<W>>,
}

impl<W: Wire> AttemptGuard<W> {
    pub(crate) fn new(member: Rc<Member<W>>, worker: u16, loads: bool, now: Instant) -> Self {
        member.standing.enter(worker.into(), loads);
        let trial = Cell::new(member.standing.begin_trial(now));
        let stage = member.standing.stage();
        Self { member, worker, loads, trial, stage, guest: None }
    }

    /// An attempt at a member that is known for as long as it is visited.
    pub(crate) fn guest(member: Rc<Member<W>>, of: Rc<Destinations<W>>, worker: u16, now: Instant) -> Self {
        let guest = Guest { of, index: member.index };
        let mut attempt_guard = Self::new(member, worker, true, now);
        attempt_guard.guest = Some(guest);
        attempt_guard
    }

    /// Whether the configuration does not know the member: its standing is not judged.
    pub fn is_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// The member.
    pub fn member(&self) -> &Rc<Member<W>> {
        &self.member
    }

    /// It has answered with this status, after this time. Says whether it had been out and is in again, or
    /// whether it is ejected for it.
    pub fn answered(
        &self,
        service: &Service,
        (status, latency): (u16, Duration),
        now: Instant,
    ) -> Transition {
        if service.ejection.statuses.contains(status) {
            return self.failed(service, now, "it answered with a status that counts as a failure");
        }
        self.member.standing.count(self.worker.into(), Some(latency));
        if service.balance.algorithm.needs.latency {
            self.member.observe(latency, now);
        }
        self.trial.set(false);
        if self.member.standing.succeeded(self.stage, now) { Transition::Back } else { Transition::Nothing }
    }

    /// It has failed the request. Says whether it is ejected for it.
    pub fn failed(&self, service: &Service, now: Instant, cause: &str) -> Transition {
        self.count_failure(now);
        self.judge_failure(service, now, cause)
    }

    /// It has broken off a response that it had begun well. Says whether it is ejected for it.
    pub fn report_broken(&self, service: &Service, now: Instant, cause: &str) -> Transition {
        self.member.standing.count_broken(self.worker.into());
        self.judge_failure(service, now, cause)
    }

    fn count_failure(&self, now: Instant) {
        self.member.standing.count(self.worker.into(), None);
        self.member.standing.service.judge(now);
    }

    fn judge_failure(&self, service: &Service, now: Instant, cause: &str) -> Transition {
        let standing = &self.member.standing;
        let ejected = standing.failed(&service.ejection, self.stage, now, cause);
        if self.trial.replace(false) && !ejected {
            standing.give_trial_back();
        }
        if ejected { Transition::Ejected } else { Transition::Nothing }
    }

    /// It had not answered after this time, and is no longer asked: no failure, but whoever chooses by latency is
    /// to know.
    pub fn outlasted(&self, time: Duration, now: Instant) {
        self.member.observe_at_least(time, now);
    }

    /// It has not accepted a connection. Says whether it was in good standing.
    pub fn refused(&self, now: Instant, cause: &str) -> bool {
        self.count_failure(now);
        let news = self.member.standing.refused(now, cause);
        if self.trial.replace(false) {
            self.member.standing.give_trial_back();
        }
        news
    }

    /// It has accepted a connection. Says whether it had been out for not doing so.
    pub fn accepted(&self, now: Instant) -> bool {
        self.member.standing.accepted(self.stage, now)
    }
}

/// What an attempt has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transition {
    /// Nothing.
    Nothing,
    /// The member is in good standing again.
    Back,
    /// The member has been ejected.
    Ejected,
}

impl<W: Wire> Deref for AttemptGuard<W> {
    type Target = Member<W>;

    fn deref(&self) -> &Member<W> {
        &self.member
    }
}

impl<W: Wire> Drop for AttemptGuard<W> {
    fn drop(&mut self) {
        self.member.standing.exit(self.worker.into(), self.loads);
        if self.trial.get() {
            self.member.standing.give_trial_back();
        }
    }
}

/// A attempt of a member that is known for as long as it is visited.
#[derive(Debug)]
struct Guest<W: Wire> {
    of: Rc<Destinations<W>>,
    index: u32,
}

impl<W: Wire> Drop for Guest<W> {
    fn drop(&mut self) {
        self.of.leave(self.index);
    }
}

impl<W: Wire> Destinations<W> {
    /// Counts an attempt at an endpoint, until it is dropped.
    ///
    /// # Errors
    /// When it has as much to do as it may, and where it is not known how to reach it.
    pub fn attempt_guard(self: &Rc<Self>, aim: Aim, now: Instant) -> Result<AttemptGuard<W>, NoAttempt> {
        let member = self.enter(aim)?;
        let attempt_guard = AttemptGuard::guest(member, self.clone(), self.worker as u16, now);
        // Counted before it is looked at: two workers that come at the same moment do not both get the last place.
        match attempt_guard.standing.in_flight() > self.policy.max_in_flight {
            true => Err(NoAttempt::Full),
            false => Ok(attempt_guard),
        }
    }
}
