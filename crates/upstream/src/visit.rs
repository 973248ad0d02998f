//! One attempt at a member, from the choice to the end of its exchange or tunnel.
//!
//! While it lives it is counted; what came of it is told once. A trial that ends without a word (the
//! client left) makes room for the next.

use crate::members::Member;
use crate::pool::Wire;
use crate::service::Service;
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_net::Socket;

/// An attempt at a member.
#[derive(Debug)]
pub struct Visit<W: Wire = Socket> {
    member: Rc<Member<W>>,
    worker: u16,
    /// All workers count it together.
    loads: bool,
    /// The member was out when it began: only then does its success bring the member back.
    found_out: bool,
    /// It is a trial of which nothing has been told yet.
    trial: Cell<bool>,
}

impl<W: Wire> Visit<W> {
    pub(crate) fn new(member: Rc<Member<W>>, worker: u16, loads: bool, now: Instant) -> Self {
        member.standing.enter(worker.into(), loads);
        let found_out = member.standing.out_until().is_some();
        let trial = Cell::new(found_out && member.standing.begin_trial(now));
        Self { member, worker, loads, found_out, trial }
    }

    /// The member.
    pub fn member(&self) -> &Rc<Member<W>> {
        &self.member
    }

    /// It has answered with this status, after this time. Says whether it had been out and is in again, or
    /// whether it is ejected for it.
    pub fn answered(&self, service: &Service, (status, latency): (u16, Duration), now: Instant) -> Told {
        if service.ejection.statuses.contains(status) {
            return self.failed(service, now, "it answered with a status that counts as a failure");
        }
        self.member.standing.count(self.worker.into(), Some(latency));
        if service.balance.algorithm.needs.latency {
            self.member.observe(latency, now);
        }
        self.trial.set(false);
        if self.found_out && self.member.standing.succeeded(now) {
            return Told::Back;
        }
        self.member.standing.forget_failures();
        Told::Nothing
    }

    /// It has failed the request. Says whether it is ejected for it.
    pub fn failed(&self, service: &Service, now: Instant, cause: &str) -> Told {
        let standing = &self.member.standing;
        standing.count(self.worker.into(), None);
        let ejected = standing.failed(&service.ejection, now, cause);
        if self.trial.replace(false) && !ejected {
            standing.give_trial_back();
        }
        if ejected { Told::Ejected } else { Told::Nothing }
    }

    /// It had not answered after this time, and is no longer asked: no failure, but whoever chooses by latency is
    /// to know.
    pub fn outlasted(&self, time: Duration, now: Instant) {
        self.member.observe_at_least(time, now);
    }

    /// It has not accepted a connection. Says whether it was in good standing.
    pub fn refused(&self, now: Instant, cause: &str) -> bool {
        self.trial.set(false);
        self.member.standing.count(self.worker.into(), None);
        self.member.standing.refused(now, cause)
    }
}

/// What an attempt has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// The member is in good standing again.
    Back,
    /// The member has been ejected.
    Ejected,
}

impl<W: Wire> Deref for Visit<W> {
    type Target = Member<W>;

    fn deref(&self) -> &Member<W> {
        &self.member
    }
}

impl<W: Wire> Drop for Visit<W> {
    fn drop(&mut self) {
        self.member.standing.exit(self.worker.into(), self.loads);
        if self.trial.get() {
            self.member.standing.give_trial_back();
        }
    }
}
