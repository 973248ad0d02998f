//! Canaries: a newcomer among the services of a route gets more of its requests step by step, and none when it does
//! harm.
//!
//! `canary` decides, from counts and the time; here its decisions become weights of the route (as those that are set
//! through the admin API: they survive reloads and restarts), events and lines. Called by the control thread every
//! second, and by the admin API.

use super::admin::Shared;
use super::base::Base;
use super::canary::{Canary, Counted, Order, PhaseSpec, Turn, weights};
use super::config_events::event;
use super::runtime::Runtime;
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;
use thalweg_admin::{CanaryChanged, CanaryFigures, CanaryOrder, CanaryStatus, Expected, Refusal};
use thalweg_core::{EventKind, Notice};
use thalweg_observe::{Registry, RouteTotals};
use thalweg_proxy::plan::{CanaryPolicy, Plan, Route, To};

impl Shared {
    /// Looks at all canaries.
    pub(crate) fn tend_canaries(&self) {
        let now = Instant::now();
        let mut runtime = self.runtime();
        if runtime.canaries.is_empty() && runtime.overlay.canaries.is_empty() && !has_any(&runtime.base) {
            return;
        }
        let mut turns = self.follow_plan(&mut runtime, now);
        let Runtime { base, canaries, .. } = &mut *runtime;
        for (name, canary) in canaries.iter_mut() {
            let Some(route) = route_of(base, name) else { continue };
            let counted = count(&self.registry, base, route, canary.policy());
            turns.extend(canary.tick(now, &counted).map(|turn| (name.clone(), turn)));
        }
        let moved = self.follow_services(&mut runtime);
        if moved || !turns.is_empty() {
            self.apply(&mut runtime, &turns);
        }
    }

    /// Canaries that the plan has and that are not followed yet begin; those that it has no more are forgotten, with
    /// their weights.
    fn follow_plan(&self, runtime: &mut Runtime, now: Instant) -> Vec<(String, Turn)> {
        let mut turns = Vec::new();
        let Runtime { base, overlay, canaries, .. } = runtime;
        let mut known = HashSet::new();
        for route in base.routes.iter() {
            let Some(policy) = &route.canary else { continue };
            known.insert(route.name.to_string());
            if canaries.get(&*route.name).is_some_and(|canary| canary.policy() == &**policy) {
                continue;
            }
            let counted = count(&self.registry, base, route, policy);
            let (canary, begins) = Canary::new(policy, overlay.canaries.get(&*route.name), (now, counted));
            canaries.insert(route.name.to_string(), canary);
            if begins {
                turns.push((route.name.to_string(), Turn::Step));
            }
        }
        canaries.retain(|name, _| known.contains(name));
        let gone: Vec<String> =
            overlay.canaries.keys().filter(|name| !known.contains(*name)).cloned().collect();
        for name in &gone {
            overlay.canaries.remove(name);
            overlay.routes.remove(name);
        }
        if !gone.is_empty() {
            self.commit_routes(runtime);
            gone.iter().for_each(|name| {
                self.say(&Notice::info(format!(
                    "route `{name}`: it has no canary any more; the weights of the file are in force"
                )));
            });
        }
        turns
    }

    /// The file may have changed the services of a route whose canary goes on: its share stays. Says whether something
    /// did.
    fn follow_services(&self, runtime: &mut Runtime) -> bool {
        let Runtime { base, overlay, canaries, .. } = runtime;
        let mut moved = false;
        for (name, canary) in canaries.iter() {
            let goes_on = matches!(canary.state().phase, PhaseSpec::Running | PhaseSpec::Paused);
            let Some(route) = route_of(base, name).filter(|_| goes_on) else { continue };
            let weights = weights(&parts(base, route), &canary.policy().service, canary.share());
            let weights: BTreeMap<String, u32> = weights.into_iter().collect();
            // One that has just begun is told with its first step.
            if overlay.routes.get(name).is_some_and(|known| *known != weights) {
                overlay.routes.insert(name.clone(), weights);
                moved = true;
            }
        }
        moved
    }

    /// What canaries have decided is in force from now on, is kept, and is told.
    fn apply(&self, runtime: &mut Runtime, turns: &[(String, Turn)]) {
        for (name, _) in turns {
            let Some((canary, route)) = runtime.canaries.get(name).zip(route_of(&runtime.base, name)) else {
                continue;
            };
            let parts = parts(&runtime.base, route);
            let weights = weights(&parts, &canary.policy().service, canary.share());
            let state = canary.state().clone();
            runtime.overlay.routes.insert(name.clone(), weights.into_iter().collect());
            runtime.overlay.canaries.insert(name.clone(), state);
        }
        self.commit_routes(runtime);
        for (name, turn) in turns {
            let Some(canary) = runtime.canaries.get(name) else { continue };
            let (kind, words) = told(name, canary, turn);
            self.say(&match kind {
                EventKind::CanaryFailed => Notice::warn(words.as_str()),
                _ => Notice::info(words.as_str()),
            });
            let service = canary.policy().service.clone();
            let event = event(kind, words);
            self.publish(thalweg_core::Event { service: Some(service), ..event });
        }
    }

    /// Where the canary of a route stands.
    pub(super) fn canary_status(&self, route: &str) -> Result<CanaryStatus, Refusal> {
        let runtime = self.runtime();
        let canary = runtime.canaries.get(route).ok_or_else(|| unknown(&runtime, route))?;
        Ok(status(route, canary))
    }

    /// Does what somebody asks of the canary of a route.
    pub(super) fn order_canary_of(
        &self,
        route: &str,
        order: CanaryOrder,
        expected: &Expected<u64>,
    ) -> Result<CanaryChanged, Refusal> {
        let now = Instant::now();
        let mut runtime = self.runtime();
        if !runtime.canaries.contains_key(route) {
            return Err(unknown(&runtime, route));
        }
        runtime.admit(expected)?;
        let Runtime { base, canaries, .. } = &mut *runtime;
        let (Some(canary), Some(of)) = (canaries.get_mut(route), route_of(base, route)) else {
            return Err(Refusal::Unavailable("the route has just been removed".into()));
        };
        let counted = count(&self.registry, base, of, canary.policy());
        let before = status(route, canary);
        let turn = canary.order(order_of(order), (now, &counted)).map_err(Refusal::Conflict)?;
        match turn {
            Some(turn) => self.apply(&mut runtime, &[(route.to_owned(), turn)]),
            None => {
                let state = canary.state().clone();
                self.say(&Notice::info(format!("route `{route}`: the canary is {}", state.phase.name())));
                runtime.overlay.canaries.insert(route.to_owned(), state);
                runtime.keep();
            }
        }
        let after = runtime.canaries.get(route).map(|canary| status(route, canary));
        let after = after.ok_or_else(|| Refusal::Unavailable("the route has just been removed".into()))?;
        Ok(CanaryChanged { version: runtime.version, before, after })
    }
}

fn has_any(plan: &Plan) -> bool {
    plan.routes.iter().any(|route| route.canary.is_some())
}

fn route_of<'a>(base: &'a Base, name: &str) -> Option<&'a Route> {
    base.routes.iter().find(|route| *route.name == *name)
}

/// The services of a route and their weights in the file.
fn parts<'a>(base: &'a Base, route: &Route) -> Vec<(&'a str, u32)> {
    let To::Split(split) = &route.to else { return Vec::new() };
    let named = split.parts.iter().filter_map(|(service, weight)| {
        base.services.get(service.0 as usize).map(|service| (&*service.name, *weight))
    });
    named.collect()
}

/// What was counted until now.
fn count(registry: &Registry, base: &Base, route: &Route, policy: &CanaryPolicy) -> Counted {
    let mut counted = Counted::default();
    for (service, _) in parts(base, route) {
        let totals = registry.target_totals(&route.name, service);
        if *service == *policy.service { counted.newcomer = totals } else { counted.baseline.merge(&totals) }
    }
    counted
}

/// The event of a turn, and what is said.
fn told(route: &str, canary: &Canary, turn: &Turn) -> (EventKind, String) {
    let (service, share) = (&canary.policy().service, canary.share());
    let reason = &canary.state().reason;
    match turn {
        Turn::Step => (
            EventKind::CanaryStep,
            format!(
                "route `{route}`: the canary `{service}` gets {share}% (step {} of {})",
                canary.state().step + 1,
                canary.policy().steps.len()
            ),
        ),
        Turn::Finished => (
            EventKind::CanaryFinished,
            format!(
                "route `{route}`: the canary `{service}` is finished and gets {share}%: {reason}; \
                 write this into the file and remove `canary`"
            ),
        ),
        Turn::Failed if canary.state().phase == PhaseSpec::Paused => (
            EventKind::CanaryFailed,
            format!("route `{route}`: the canary `{service}` is paused at {share}%: {reason}"),
        ),
        Turn::Failed => (
            EventKind::CanaryFailed,
            format!("route `{route}`: the canary `{service}` was rolled back and gets nothing: {reason}"),
        ),
    }
}

fn unknown(runtime: &Runtime, route: &str) -> Refusal {
    Refusal::Unknown(match route_of(&runtime.base, route) {
        Some(_) => format!("the route `{route}` has no canary"),
        None => format!("there is no route `{route}`"),
    })
}

fn order_of(order: CanaryOrder) -> Order {
    match order {
        CanaryOrder::Start => Order::Start,
        CanaryOrder::Pause => Order::Pause,
        CanaryOrder::Resume => Order::Resume,
        CanaryOrder::Promote => Order::Promote,
        CanaryOrder::Rollback => Order::Rollback,
    }
}

fn status(route: &str, canary: &Canary) -> CanaryStatus {
    let figures = |totals: &RouteTotals| CanaryFigures {
        requests: totals.requests(),
        errors: totals.errors,
        p99_ms: totals.quantile(0.99).map(|time| time.as_secs_f64() * 1e3),
    };
    let counted = canary.counted();
    CanaryStatus {
        route: route.to_owned(),
        service: canary.policy().service.to_string(),
        phase: canary.state().phase.name().to_owned(),
        step: canary.state().step as u32 + 1,
        steps: canary.policy().steps.clone(),
        share: canary.share(),
        reason: canary.state().reason.clone(),
        seconds: canary.age(Instant::now()).as_secs(),
        newcomer: figures(&counted.newcomer),
        baseline: figures(&counted.baseline),
    }
}
