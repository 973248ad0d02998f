//! The budget as one worker feels it: what state memory is in, and whether another exchange may begin.
//!
//! Once per turn, but not more often than [`CHECKS`], the worker holds what all workers have published
//! against the budget. Under pressure it gives up, a few at a time, what only makes things faster: idle
//! upstream connections, and clients that have been silent longest; flows may hold
//! less ([`Budget::held_limit`]). When memory is full, `listener/acceptors.rs` takes nobody on. Where exchanges have a
//! bound of their own, `serve.rs` asks for a place before each; workers take these in batches, so that asking is plain
//! arithmetic.

use crate::budget::{SMALL_BODY, State};
use crate::state::admission::Underway;
use crate::state::exchange::Exchange;
use crate::state::load::Loads;
use crate::state::worker::Worker;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::Framing;
use thalweg_observe::{BudgetMeters, Limit};

/// Idle connections given up at one look, upstream and client each.
pub(crate) const GIVEN_UP: usize = 8;

impl Worker {
    /// Takes a place for an exchange whose head is there; a fault when every one is taken. An exchange
    /// whose request has a large body, or one of unknown length, needs one of those that memory has for
    /// bodies too.
    pub(crate) fn take_on(&self, x: &Exchange) -> Result<Underway, Fault> {
        let has_body = match x.framing {
            Framing::Empty => false,
            Framing::Length(bytes) => bytes > SMALL_BODY,
            Framing::Chunked | Framing::UntilClose => true,
        };
        let taken = self.pressure.take(has_body);
        taken.map(|()| Underway { pressure: self.pressure.clone(), has_body }).map_err(|limit| {
            self.meters.limit(limit);
            let detail = match limit {
                Limit::Memory => "there is no memory for another exchange",
                Limit::Buffers => "there is no memory for another request body",
                _ => "every place for exchanges is taken",
            };
            Fault::new(FaultKind::ConnectionLimitReached, detail)
        })
    }

    /// Gives places that are not in use back to all workers.
    pub(crate) fn return_credits(&self) {
        self.pressure.return_credits();
    }

    /// Looks at what all workers use, and gives things up when that is too much.
    pub(crate) fn watch_budget(&self) {
        let loads = &self.shared.loads;
        let Some((before, state)) = self.pressure.look(self.reactor.now()) else { return };
        if before != Some(state) {
            self.chunks.set_limits(loads.budget.held_limit(state), loads.budget.held_by_one());
        }
        loads.workers[self.id].state.store(state as usize, Relaxed);
        if state > before.unwrap_or_default() {
            self.meters.limit(Limit::Memory);
        }
        if self.pressure.is_asked.take() || state > State::Normal {
            self.give_up_idle();
        }
    }

    fn give_up_idle(&self) {
        let view = self.view();
        for _ in 0..GIVEN_UP {
            if !view.services().iter().any(|service| service.state.evict()) {
                break;
            }
        }
        for _ in 0..GIVEN_UP {
            if !self.send_session_away(None) {
                break;
            }
        }
        for _ in 0..GIVEN_UP {
            let mut idle_connections = self.idle_connections.borrow_mut();
            // Who has not been served yet is owed an answer; the deadline of its head runs.
            let Some(place) = idle_connections.idle() else { break };
            let idle = idle_connections.remove(place);
            drop(idle_connections);
            drop(idle);
        }
    }
}

impl Loads {
    /// Writes what is allowed and what is used into the meters.
    pub(crate) fn measure(&self, meters: &BudgetMeters) {
        let (budget, used) = (&self.budget, self.used());
        let memory = budget.memory_used(&used);
        meters.descriptors.set(budget.descriptors as i64);
        meters.connections.set(budget.connections as i64);
        meters.upstream_connections.set(budget.upstream_connections as i64);
        meters.requests.set(budget.in_flight as i64);
        meters.bodies.set(budget.bodies as i64);
        meters.buffer_bytes.set(budget.buffer_bytes() as i64);
        meters.memory_bytes.set(budget.memory as i64);
        meters.memory_used.set((budget.memory.saturating_sub(budget.shared) + memory) as i64);
        meters.held_bytes.set((used.held + used.buffers) as i64);
        meters.state.set(self.workers.iter().map(|load| load.state.load(Relaxed)).max().unwrap_or(0) as i64);
        meters.saturation_ppm.set((budget.saturation(&used) * 1e6) as i64);
    }
}
