//! The plan as it runs: what the configuration says, with what the admin API has changed laid over it.
//!
//! One lock around it: changes come one after the other, each on top of the last, and whoever expected another
//! version than the present one is refused under that lock.

use super::base::Base;
use super::canary::{Canaries, PhaseSpec};
use super::kept_sources::KeptSources;
use super::overlay::OverlaySpec;
use super::state_writer::StateWriter;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_admin::{Expected, Refusal};
use thalweg_proxy::Plan;
use thalweg_upstream::Service;

/// An endpoint that takes no new requests, watched until nothing is under way to it.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    pub(crate) service: Arc<str>,
    pub(crate) url: Arc<str>,
    /// When what is still under way is cut; `None`: never.
    pub(crate) deadline: Option<Instant>,
    /// It leaves the service afterwards.
    pub(crate) removes: bool,
}

/// What runs, and how it came to be.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// As the configuration says.
    pub(crate) base: Base,
    pub(crate) overlay: OverlaySpec,
    pub(crate) canaries: Canaries,
    /// One more with every change of the endpoint sets.
    pub(crate) version: u64,
    pub(crate) drains: Vec<Drain>,
    /// Who keeps changes on disk, where they are kept.
    pub(crate) keeper: Option<StateWriter<OverlaySpec>>,
    /// Who keeps what sources find.
    pub(crate) kept_sources: KeptSources,
}

impl Runtime {
    /// Whether weights of a route may be set by hand.
    ///
    /// # Errors
    /// Its canary sets them.
    pub(crate) fn admit_weights(&self, route: &str) -> Result<(), Refusal> {
        match self.canaries.get(route).map(|canary| canary.state().phase) {
            Some(PhaseSpec::Running | PhaseSpec::Paused) => Err(Refusal::Conflict(format!(
                "the canary of the route `{route}` sets its weights; end it first: \
                 `thalweg canary \"{route}\" rollback`, or `promote`"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether a change may be made by somebody who expects this version.
    ///
    /// # Errors
    /// The version is another one.
    pub(crate) fn admit(&self, expected: &Expected<u64>) -> Result<(), Refusal> {
        let version = self.version;
        if expected.admits(&version) { Ok(()) } else { Err(Refusal::Stale { version }) }
    }

    /// The plan that is to run.
    pub(crate) fn plan(&self) -> Plan {
        self.overlay.lay_over(&self.base, |service, url| self.is_leaving(service, url))
    }

    /// The service at this position as it is to run. Nothing else is looked at.
    pub(crate) fn service(&self, at: usize) -> Option<Arc<Service>> {
        self.overlay.lay_over_one(&self.base, at, |service, url| self.is_leaving(service, url))
    }

    fn is_leaving(&self, service: &str, url: &str) -> bool {
        self.drain_of(service, url).is_some_and(|drain| drain.removes)
    }

    /// The drain of an endpoint, if it has one.
    pub(crate) fn drain_of(&self, service: &str, url: &str) -> Option<&Drain> {
        self.drains.iter().find(|drain| *drain.service == *service && *drain.url == *url)
    }

    /// Begins a drain, in place of one that the endpoint may have.
    pub(crate) fn drain(&mut self, drain: Drain) {
        self.end_drain(&drain.service.clone(), &drain.url.clone());
        self.drains.push(drain);
    }

    /// Ends a drain.
    pub(crate) fn end_drain(&mut self, service: &str, url: &str) {
        self.drains.retain(|drain| *drain.service != *service || *drain.url != *url);
    }

    /// Has the changes kept where they are to be kept, soon.
    pub(crate) fn keep(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.keep(self.overlay.clone());
        }
    }

    /// Waits, no longer than `limit`, until the changes are kept. Says whether they are.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| keeper.settle(limit))
    }
}
