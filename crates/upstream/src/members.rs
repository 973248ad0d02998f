//! The members of a service as one worker sees them now, and the choice of one.
//!
//! Who they are says the endpoint set; how they stand, their shared standing (`standing.rs`). A worker looks all of
//! them over only when something has changed, or when the time of somebody who is out has come; a choice in
//! between is the balancer's alone. Endpoints of a higher tier are ready while none of a lower one is. When
//! nobody is ready, who was left out for failing is tried all the same, so a service recovers by itself; who
//! fails its health checks is not, unless the configuration says so.

use crate::attempt_guard::AttemptGuard;
use crate::connection_handoff::Destination;
use crate::destinations::Destinations;
use crate::endpoint_sets::{EndpointSet, Entry};
use crate::endpoint_state::{Condition, EndpointState};
use crate::labels::Labels;
use crate::member::Member;
use crate::policy::WhenDown;
use crate::pool::Pool;
use crate::retry_budget::RetryBudget;
use crate::service::{Mode, PreferPolicy, Service};
use crate::service_shared::ServiceShared;
use crate::wire::Wire;
use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use thalweg_balance::{Balance, Candidate, Loads, Pick, Seed};
use thalweg_net::Socket;

/// The least share that a slow start gives, as a part of the full one.
const SLOW_START_LEAST: f32 = 0.1;

/// What is asked of a choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Members that are not to be chosen, by index.
    pub tried: &'a [u32],
    /// The hash of what the service balances on; `None`: anywhere.
    pub key: Option<u64>,
    /// The member that the client was with before, by [`EndpointState::id`].
    pub kept: Option<u64>,
}

/// A service on one worker.
pub struct ServiceState<W: Wire = Socket> {
    /// What the configuration says of it.
    pub service: Arc<Service>,
    /// What may be tried again.
    pub retries: Rc<RetryBudget>,
    worker: usize,
    endpoint_set: RefCell<Arc<EndpointSet>>,
    members: RefCell<Vec<Rc<Member<W>>>>,
    candidates: RefCell<Vec<Candidate>>,
    balancer: RefCell<Box<dyn Balance>>,
    random: RefCell<fastrand::Rng>,
    /// The version of the standings at the last look, and when to look again without a new one.
    seen: Cell<u32>,
    look_at: Cell<Option<Instant>>,
    /// Whether all workers count together what is under way.
    counts_loads: bool,
    /// In their slow start, by index, with the time at which they became ready.
    starting: RefCell<Vec<(u32, Instant)>>,
    /// Where exchanges bring their endpoint along.
    destinations: RefCell<Option<Rc<Destinations<W>>>>,
}

impl<W: Wire> ServiceState<W> {
    /// The service on this worker. Members that `before` had keep their connections.
    pub fn new(endpoint_set: Arc<EndpointSet>, worker: usize, before: Option<&Self>) -> Self {
        let seed = seed_of(worker, &endpoint_set);
        let same_retries = before.filter(|before| before.service.retry == endpoint_set.service.retry);
        let retries = same_retries.map(|before| before.retries.clone());
        let needs = endpoint_set.service.balance.algorithm.needs;
        let state = Self {
            service: endpoint_set.service.clone(),
            retries: retries.unwrap_or_else(|| {
                Rc::new(RetryBudget::new(&endpoint_set.service.retry, endpoint_set.workers))
            }),
            worker,
            balancer: RefCell::new(endpoint_set.balancer.fork(seed)),
            random: RefCell::new(fastrand::Rng::with_seed(seed.0)),
            endpoint_set: RefCell::new(endpoint_set.clone()),
            members: RefCell::default(),
            candidates: RefCell::default(),
            seen: Cell::new(0),
            look_at: Cell::new(None),
            counts_loads: needs.load || endpoint_set.service.balance.bounded_load.is_some(),
            starting: RefCell::default(),
            destinations: RefCell::new(destinations_of(worker, &endpoint_set)),
        };
        before.and_then(Self::destinations).iter().for_each(|before| before.close());
        let before = before.map(|before| before.members.borrow().clone());
        state.enroll(endpoint_set, before.unwrap_or_default());
        state
    }

    /// Whether its members are those of this endpoint set.
    pub fn is_of(&self, endpoint_set: &Arc<EndpointSet>) -> bool {
        Arc::ptr_eq(endpoint_set, &self.endpoint_set.borrow())
    }

    /// Takes over a new endpoint set of the same service. Members that stay keep their connections.
    pub fn update(&self, endpoint_set: &Arc<EndpointSet>) {
        if self.is_of(endpoint_set) {
            return;
        }
        *self.balancer.borrow_mut() = endpoint_set.balancer.fork(seed_of(self.worker, endpoint_set));
        let before = self.destinations.replace(destinations_of(self.worker, endpoint_set));
        before.iter().for_each(|before| before.close());
        let before = self.members.take();
        self.enroll(endpoint_set.clone(), before);
    }

    fn enroll(&self, endpoint_set: Arc<EndpointSet>, before: Vec<Rc<Member<W>>>) {
        let known = before.into_iter().map(|member| (Arc::as_ptr(&member.standing), member));
        let mut known: HashMap<_, _> = known.collect();
        let members = (0_u32..).zip(&endpoint_set.entries).map(|(index, Entry { endpoint, standing })| {
            match known.remove(&Arc::as_ptr(standing)) {
                Some(old) if old.index == index && old.endpoint == *endpoint => old,
                old => Rc::new(Member {
                    index,
                    endpoint: *endpoint,
                    pool: old.as_ref().map_or_else(
                        || Rc::new(Pool::new(Destination(standing.clone()))),
                        |old| old.pool.clone(),
                    ),
                    latency: old.map(|old| old.latency.clone()).unwrap_or_default(),
                    standing: standing.clone(),
                }),
            }
        });
        self.members.replace(members.collect());
        known.values().for_each(|gone| gone.pool.close());
        self.candidates.replace(endpoint_set.candidates.clone());
        self.endpoint_set.replace(endpoint_set);
        self.seen.set(0);
    }

    /// What is shared of the service.
    pub(crate) fn standing(&self) -> Ref<'_, Arc<ServiceShared>> {
        Ref::map(self.endpoint_set.borrow(), |endpoint_set| &endpoint_set.standing)
    }

    /// Whether no address is known though there are endpoints: each is a name that has never been resolved.
    pub fn is_unresolved(&self) -> bool {
        self.members.borrow().is_empty() && !self.service.endpoints.is_empty()
    }

    /// Chooses a member that has not been tried; `None` when there is none that may be used.
    pub fn pick(&self, now: Instant, wanted: &Wanted<'_>) -> Option<Rc<Member<W>>> {
        let late = self.look_at.get().is_some_and(|at| at <= now);
        if late || self.seen.get() != self.endpoint_set.borrow().standing.version() {
            self.look_over(now);
        }
        self.draw_starters(now);
        let chosen = self.choose(now, wanted).or_else(|| {
            // None but starters is ready: their slow start spares nobody.
            self.let_starters_serve().then(|| self.choose(now, wanted)).flatten()
        });
        chosen.or_else(|| self.last_resort(wanted.tried, |_| true))
    }

    /// As [`Self::pick`], among members that have room; `None` also when those in good standing have none:
    /// one that was left out is chosen only when all are. Looks at every member.
    pub fn pick_with_room(
        &self,
        now: Instant,
        wanted: &Wanted<'_>,
        room: impl Fn(&Member<W>) -> bool,
    ) -> Option<Rc<Member<W>>> {
        self.look_over(now);
        // What is noted here holds for this choice only.
        self.seen.set(0);
        let is_ready = |candidate: &Candidate, index: u32| {
            candidate.ready && candidate.weight > 0 && !wanted.tried.contains(&index)
        };
        let mut any = false;
        {
            let (mut candidates, members) = (self.candidates.borrow_mut(), self.members.borrow());
            for (candidate, member) in candidates.iter_mut().zip(members.iter()) {
                any |= is_ready(candidate, member.index);
                candidate.ready = candidate.ready && room(member);
            }
        }
        let chosen = self.choose(now, wanted);
        if any { chosen } else { chosen.or_else(|| self.last_resort(wanted.tried, room)) }
    }

    fn choose(&self, now: Instant, wanted: &Wanted<'_>) -> Option<Rc<Member<W>>> {
        let (members, candidates) = (self.members.borrow(), self.candidates.borrow());
        let policy = &self.service.balance;
        let endpoint_set = self.endpoint_set.borrow();
        let live = Live { members: &members, endpoint_set: &endpoint_set, now };
        let pick = Pick {
            candidates: &candidates,
            tried: wanted.tried,
            hash: wanted.key.unwrap_or_else(|| self.chance()),
            bounded_load: policy.bounded_load,
            loads: &live,
        };
        if let Some(id) = wanted.kept {
            let kept = candidates.iter().position(|candidate| candidate.id == id);
            if let Some(kept) = kept.filter(|kept| pick.may_use(*kept as u32)) {
                return members.get(kept).cloned();
            }
        }
        let index = self.balancer.borrow_mut().pick(&pick)?;
        members.get(index as usize).cloned()
    }

    fn chance(&self) -> u64 {
        if self.service.balance.algorithm.needs.key { self.random.borrow_mut().u64(..) } else { 0 }
    }

    /// None is ready: rather one that was left out than none; the one whose time is over first.
    fn last_resort(&self, tried: &[u32], room: impl Fn(&Member<W>) -> bool) -> Option<Rc<Member<W>>> {
        let members = self.members.borrow();
        let able = members.iter().filter(|m| !tried.contains(&m.index) && self.takes(m.endpoint) && room(m));
        let able = able.filter(|m| self.fails_open() || !is_unwell(m));
        let tier = |member: &Member<W>| self.service.endpoints[member.endpoint as usize].tier;
        // Who has left the service since the exchange began is better than nobody too.
        able.min_by_key(|m| (!m.standing.is_open(), tier(m), m.standing.out_until())).cloned()
    }

    /// Whether this is one of its members.
    pub fn has(&self, standing: &Arc<EndpointState>) -> bool {
        self.members.borrow().iter().any(|member| Arc::ptr_eq(&member.standing, standing))
    }

    /// Whether there is a member in good standing beside this one and those tried.
    pub fn has_other(&self, now: Instant, tried: &[u32], member: u32) -> bool {
        let members = self.members.borrow();
        let mut others = members.iter().filter(|m| m.index != member && !tried.contains(&m.index));
        others.any(|m| self.may_ever(m) && m.standing.condition(now).is_in())
    }

    fn fails_open(&self) -> bool {
        self.service.when_down == WhenDown::TryAll
    }

    /// Whether its endpoint takes requests at all.
    fn may_ever(&self, member: &Member<W>) -> bool {
        self.takes(member.endpoint) && member.standing.is_open()
    }

    /// Whether this endpoint takes requests at all, as far as the service says.
    pub fn takes(&self, endpoint: u32) -> bool {
        let endpoint = self.service.endpoints.get(endpoint as usize);
        endpoint.is_some_and(|endpoint| endpoint.weight > 0 && endpoint.mode == Mode::Ready)
    }

    /// The member of this endpoint that has been in good standing longest, if it takes requests at all.
    pub fn member_of(&self, endpoint: u32) -> Option<Rc<Member<W>>> {
        let members = self.members.borrow();
        let of = members.iter().filter(|member| member.endpoint == endpoint && self.may_ever(member));
        of.min_by_key(|member| (is_unwell(member), member.standing.out_until())).cloned()
    }

    /// Counts an attempt at the member, until it is dropped.
    pub fn attempt_guard(&self, member: Rc<Member<W>>, now: Instant) -> AttemptGuard<W> {
        AttemptGuard::new(member, self.worker as u16, self.counts_loads, now)
    }

    /// Closes idle connections that have ended or passed their deadline.
    pub fn sweep(&self) {
        self.members.borrow().iter().for_each(|member| member.pool.sweep());
    }

    /// Closes one idle connection to make room; says whether there was one.
    pub fn evict(&self) -> bool {
        self.members.borrow().iter().any(|member| member.pool.evict())
            || self.destinations().is_some_and(|destinations| destinations.evict())
    }

    /// The endpoints that exchanges bring along; `None`: they do not.
    pub fn destinations(&self) -> Option<Rc<Destinations<W>>> {
        self.destinations.borrow().clone()
    }

    /// Closes one idle connection to this endpoint; says whether there was one.
    pub fn evict_from(&self, endpoint: u32) -> bool {
        let members = self.members.borrow();
        members.iter().any(|member| member.endpoint == endpoint && member.pool.evict())
    }

    /// Lets idle connections go to those who wait for one, or else for their places; of this endpoint, or of
    /// whichever.
    pub fn give_way(&self, endpoint: Option<u32>) {
        let members = self.members.borrow();
        let of = members.iter().filter(|member| endpoint.is_none_or(|wanted| member.endpoint == wanted));
        of.clone().for_each(|member| member.pool.hand_over());
        of.for_each(|member| member.pool.give_way());
    }

    /// Idle connections now.
    pub fn idle(&self) -> usize {
        let destinations = self.destinations().map_or(0, |destinations| destinations.idle());
        self.members.borrow().iter().map(|member| member.pool.len()).sum::<usize>() + destinations
    }

    /// Finds out who is ready now, and when to look again.
    fn look_over(&self, now: Instant) {
        let (members, endpoint_set) = (self.members.borrow(), self.endpoint_set.borrow());
        // Before the standings are read: what changes from here on has another version.
        self.seen.set(endpoint_set.standing.version());
        let mut starting = self.starting.borrow_mut();
        starting.clear();
        let mut next: Option<Instant> = None;
        let mut candidates = self.candidates.borrow_mut();
        for (candidate, member) in candidates.iter_mut().zip(members.iter()) {
            let ready = match member.standing.condition(now) {
                Condition::Ready | Condition::OnTrial => true,
                Condition::ReadySince(since) => {
                    let slow = self.service.balance.slow_start.filter(|time| since + *time > now);
                    starting.extend(slow.map(|_| (member.index, since)));
                    true
                }
                Condition::Out(until) => {
                    member.latency.forget();
                    next = Some(next.map_or(until, |next| next.min(until)));
                    false
                }
                Condition::Unwell => {
                    member.latency.forget();
                    false
                }
            };
            candidate.ready = ready && self.may_ever(member);
        }
        self.look_at.set(next);
        self.choose_tier(&mut candidates, &members);
        starting.retain(|(index, _)| candidates[*index as usize].ready);
    }

    /// Only members of one tier are ready: of the lowest that has any. All of that tier are where too few are,
    /// and where none is anywhere and the service fails open.
    fn choose_tier(&self, candidates: &mut [Candidate], members: &[Rc<Member<W>>]) {
        let tier_of = |member: &Rc<Member<W>>| self.service.endpoints[member.endpoint as usize].tier;
        let ready = candidates.iter().zip(members).filter(|(candidate, _)| candidate.ready);
        let (lowest, panics) = match ready.map(|(_, member)| tier_of(member)).min() {
            Some(lowest) => {
                let of_tier =
                    || candidates.iter().zip(members).filter(|(_, member)| tier_of(member) == lowest);
                let able = of_tier().filter(|(_, member)| self.may_ever(member)).count() as u64;
                let well = of_tier().filter(|(candidate, _)| candidate.ready).count() as u64;
                (lowest, well * 100 < able * u64::from(self.service.balance.panic_threshold))
            }
            None => {
                let able = members.iter().filter(|member| self.may_ever(member));
                let Some(lowest) = able.map(tier_of).min().filter(|_| self.fails_open()) else { return };
                (lowest, true)
            }
        };
        for (candidate, member) in candidates.iter_mut().zip(members) {
            candidate.ready =
                tier_of(member) == lowest && (candidate.ready || (panics && self.may_ever(member)));
        }
        self.prefer_zone(candidates, members, |member| tier_of(member) == lowest);
    }

    /// Of the members that serve, those in the preferred zone alone, unless too few of that zone are well.
    fn prefer_zone(
        &self,
        candidates: &mut [Candidate],
        members: &[Rc<Member<W>>],
        serves: impl Fn(&Rc<Member<W>>) -> bool,
    ) {
        let Some(PreferPolicy { zone, spill_over }) = &self.service.prefer else { return };
        let is_near = |member: &Rc<Member<W>>| {
            self.service.endpoints[member.endpoint as usize].labels.get(Labels::ZONE) == Some(zone)
        };
        let near = || candidates.iter().zip(members).filter(|(_, member)| serves(member) && is_near(member));
        let able = near().filter(|(_, member)| self.may_ever(member)).count() as u64;
        let well = near().filter(|(candidate, _)| candidate.ready).count() as u64;
        if well == 0 || well * 100 < able * u64::from(*spill_over) {
            return;
        }
        for (candidate, member) in candidates.iter_mut().zip(members) {
            candidate.ready &= is_near(member);
        }
    }

    /// Who is in its slow start is ready for some of the choices: for more of them the longer it lasts.
    fn draw_starters(&self, now: Instant) {
        let starting = self.starting.borrow();
        let Some(time) = self.service.balance.slow_start.filter(|_| !starting.is_empty()) else { return };
        let mut candidates = self.candidates.borrow_mut();
        let mut random = self.random.borrow_mut();
        let mut over = true;
        for (index, since) in starting.iter() {
            let part = now.saturating_duration_since(*since).as_secs_f32() / time.as_secs_f32();
            over &= part >= 1.0;
            candidates[*index as usize].ready = random.f32() < part.max(SLOW_START_LEAST);
        }
        if over {
            self.seen.set(0);
        }
    }

    /// Says whether there are any.
    fn let_starters_serve(&self) -> bool {
        let starting = self.starting.borrow();
        let mut candidates = self.candidates.borrow_mut();
        starting.iter().for_each(|(index, _)| candidates[*index as usize].ready = true);
        !starting.is_empty()
    }
}

fn destinations_of<W: Wire>(worker: usize, endpoint_set: &EndpointSet) -> Option<Rc<Destinations<W>>> {
    let (policy, service) = (endpoint_set.service.destinations.clone()?, &endpoint_set.service);
    let shared = (endpoint_set.standing.clone(), endpoint_set.directory.clone());
    Some(Rc::new(Destinations::new((worker, endpoint_set.workers), (policy, service.tls.clone()), shared)))
}

/// Another one for each worker and each endpoint set: changes in quick succession favour nobody.
fn seed_of(worker: usize, endpoint_set: &EndpointSet) -> Seed {
    Seed(worker as u64 ^ (u64::from(endpoint_set.standing.version()) << 32))
}

fn is_unwell<W: Wire>(member: &Member<W>) -> bool {
    use crate::endpoint_state::Health;
    matches!(member.standing.health(), Health::Unwell | Health::Awaited)
}

/// The loads of the members now, for a balancer that asks.
struct Live<'a, W: Wire> {
    members: &'a [Rc<Member<W>>],
    endpoint_set: &'a EndpointSet,
    now: Instant,
}

impl<W: Wire> Loads for Live<'_, W> {
    fn in_flight(&self, index: u32) -> u32 {
        self.members.get(index as usize).map_or(0, |member| member.standing.in_flight())
    }

    fn total_in_flight(&self) -> u32 {
        self.endpoint_set.standing.in_flight()
    }

    fn latency(&self, index: u32) -> Option<f32> {
        self.members.get(index as usize)?.latency.now(self.now)
    }
}

impl<W: Wire> std::fmt::Debug for ServiceState<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceState").field("service", &self.service.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
