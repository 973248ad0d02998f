//! The budget under a deterministic simulation: several workers take connections and exchanges on, hold
//! bytes, publish what they use, look and give back, as the seed interleaves them; each step is held
//! against a plain count. A failure names its seed; `SEED=n` runs that one alone, `THALWEG_LONG=1` many more.

use super::*;
use crate::budget::{Allowance, Budget, Used};
use crate::overload::admission::GIVEN_UP;
use crate::plan::Limits;
use crate::state::client_limits::Prefix;
use crate::state::listener_sockets::{ListenerId, ListenerState};
use crate::state::load::Crowded;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_net::machine::Memory;
use thalweg_observe::Registry;

const MIB: u64 = 1024 * 1024;

/// A client connection, on paper.
struct Guest {
    worker: usize,
    listener: u16,
    client: Option<Prefix>,
    fresh: bool,
    /// Its exchange: whether that has a large body.
    exchange: Option<bool>,
    held: usize,
}

struct World {
    random: fastrand::Rng,
    loads: Arc<Loads>,
    workers: Vec<AdmissionControl>,
    guests: Vec<Guest>,
    /// Upstream connections of a worker that are open whether it uses them or not.
    idle: Vec<usize>,
    listeners: Vec<Arc<ListenerState>>,
    /// By listener.
    most: Vec<Option<usize>>,
    per_client: u32,
    now: Instant,
    /// Bytes that a worker says it holds beyond what it may: so that memory does become full.
    surge: usize,
    refused: [usize; 5],
}

/// What follows a state, told plainly.
fn follows(before: State, used: u64, whole: u64) -> State {
    let share = used as f64 / whole as f64;
    match before {
        _ if share >= 0.95 => State::Full,
        State::Full if share >= 0.9 => State::Full,
        State::Full | State::AdmissionControl if share >= 0.7 => State::AdmissionControl,
        State::Normal if share >= 0.8 => State::AdmissionControl,
        _ => State::Normal,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let few = |random: &mut fastrand::Rng| random.bool().then(|| random.usize(1..200));
        let limits = Limits {
            memory: Some(random.u64(12..32) * MIB),
            max_connections: few(&mut random),
            max_in_flight: few(&mut random),
            ..Limits::default()
        };
        let workers = random.usize(1..=4);
        let allowance = Allowance { descriptors: 100_000, memory: Memory::Machine(1 << 40), workers };
        let loads = Arc::new(Loads::new(Budget::new(&limits, 2, allowance)));
        let registry = Registry::new(workers);
        let listener = |id| ListenerState::new(ListenerId(id), &"l".into(), &registry);
        let most = (0..2).map(|_| few(&mut random)).collect();
        let per_client = random.u32(..8);
        Self {
            workers: (0..workers).map(|_| AdmissionControl::new(loads.clone())).collect(),
            loads,
            guests: Vec::new(),
            idle: vec![0; workers],
            listeners: (0..2).map(listener).collect(),
            most,
            per_client,
            now: Instant::now(),
            surge: 0,
            refused: [0; 5],
            random,
        }
    }

    fn step(&mut self) {
        match self.random.u32(..100) {
            0..38 => self.arrive(),
            38..60 => self.speak(),
            60..76 => self.hold(),
            76..82 => self.finish(),
            82..85 => self.leave(),
            85..97 => self.turn(),
            97 => {
                let worker = self.random.usize(..self.workers.len());
                self.workers[worker].return_credits();
            }
            _ => self.now += Duration::from_micros(self.random.u64(..3000)),
        }
        self.check();
    }

    /// As `listener/acceptors.rs` takes a connection in, where nobody can make room.
    fn arrive(&mut self) {
        let (worker, listener) = (self.random.usize(..self.workers.len()), self.random.u16(..2));
        let client = (self.per_client > 0).then(|| Prefix::V4(self.random.u32(..10)));
        let most = self.most[listener as usize];
        self.publish(worker);
        let used = self.loads.used();
        if self.workers[worker].is_full() || !self.loads.budget.has_room_for_a_client(&used) {
            return;
        }
        let other = self.loads.hand_off(worker, self.random.usize(..));
        let places = self.loads.budget.places();
        let on = |worker| self.guests.iter().filter(|guest| guest.worker == worker).count();
        if let Some(other) = other {
            assert!(on(other) < on(worker) && on(other) < places, "handed to one that has more");
        } else if on(worker) >= places {
            return;
        }
        let of_client = self.guests.iter().filter(|guest| guest.client == client).count();
        let of_listener = self.guests.iter().filter(|guest| guest.listener == listener).count();
        let expected = if client.is_some() && of_client >= self.per_client as usize {
            Err(Crowded::Client)
        } else if most.is_some_and(|most| of_listener >= most) {
            Err(Crowded::Listener)
        } else {
            Ok(())
        };
        assert_eq!(
            self.listeners[listener as usize].is_crowded(most),
            most.is_some_and(|most| of_listener >= most)
        );
        let entered = self.loads.enter(
            (&self.listeners[listener as usize], most),
            client.map(|client| (client, self.per_client)),
        );
        assert_eq!(entered, expected, "{of_client} of the client, {of_listener} of the listener");
        if let Err(crowded) = entered {
            self.refused[crowded as usize] += 1;
            return;
        }
        let worker = other.unwrap_or(worker);
        self.loads.workers[worker].clients.fetch_add(1, Relaxed);
        self.guests.push(Guest { worker, listener, client, fresh: true, exchange: None, held: 0 });
        self.publish(worker);
    }

    /// A client's request has come.
    fn speak(&mut self) {
        let able: Vec<_> =
            self.guests.iter().enumerate().filter(|(_, guest)| guest.exchange.is_none()).collect();
        let Some(at) = self.random.choice(able).map(|(at, _)| at) else { return };
        let (worker, has_body) = (self.guests[at].worker, self.random.bool());
        let budget = &self.loads.budget;
        let (exchanges, bodies) = (self.exchanges(None), self.bodies(None));
        let before = (self.workers[worker].exchanges.in_use(), self.workers[worker].bodies.in_use());
        self.guests[at].fresh = false;
        let taken = self.workers[worker].take(has_body);
        let Err(limit) = taken else {
            assert!(!self.workers[worker].is_full());
            self.guests[at].exchange = Some(has_body);
            return;
        };
        let after = (self.workers[worker].exchanges.in_use(), self.workers[worker].bodies.in_use());
        assert_eq!(before, after, "who was refused is counted");
        // Others keep a few places, so that taking one is no step between workers.
        let kept = |all: &Credits| if all.batch > 1 { (self.workers.len() - 1) * 2 * all.batch } else { 0 };
        match limit {
            Limit::Memory => assert!(self.workers[worker].is_full()),
            Limit::Requests => assert!(exchanges + kept(&self.loads.exchanges) >= budget.in_flight),
            Limit::Buffers => assert!(has_body && bodies + kept(&self.loads.bodies) >= budget.bodies),
            other => panic!("{other:?}"),
        }
        self.refused[2 + usize::from(limit == Limit::Requests) + 2 * usize::from(limit == Limit::Buffers)] +=
            1;
    }

    /// A body is held, as much as there may be.
    fn hold(&mut self) {
        let most = self.loads.budget.shared as usize;
        self.surge = if self.random.u32(..4) == 0 { self.random.usize(..most) } else { 0 };
        let able: Vec<_> =
            (0..self.guests.len()).filter(|at| self.guests[*at].exchange == Some(true)).collect();
        let Some(at) = self.random.choice(able) else { return };
        let worker = self.guests[at].worker;
        let others: usize = self.guests.iter().filter(|guest| guest.worker == worker).map(|g| g.held).sum();
        let state = self.workers[worker].state.get().unwrap_or_default();
        let budget = &self.loads.budget;
        let most = budget.held_limit(state).saturating_sub(others - self.guests[at].held);
        let most = most.min(budget.held_by_one());
        self.guests[at].held = if self.random.bool() { most } else { self.random.usize(..=most) };
    }

    fn finish(&mut self) {
        let able: Vec<_> = (0..self.guests.len()).filter(|at| self.guests[*at].exchange.is_some()).collect();
        if let Some(at) = self.random.choice(able) {
            self.end_exchange(at);
        }
    }

    fn end_exchange(&mut self, at: usize) {
        let guest = &mut self.guests[at];
        let Some(has_body) = guest.exchange.take() else { return };
        guest.held = 0;
        self.workers[guest.worker].put_back(has_body);
        let (idle, places) = (&mut self.idle[guest.worker], self.loads.budget.upstream_places());
        *idle = (*idle + usize::from(self.random.bool())).min(places);
    }

    fn leave(&mut self) {
        if self.guests.is_empty() {
            return;
        }
        let at = self.random.usize(..self.guests.len());
        self.end_exchange(at);
        let Guest { worker, listener, client, .. } = self.guests.swap_remove(at);
        self.loads.leave(worker, &self.listeners[listener as usize], client);
    }

    /// The end of a worker's turn.
    fn turn(&mut self) {
        let worker = self.random.usize(..self.workers.len());
        self.publish(worker);
        let own = &self.workers[worker];
        let (before, used) = (own.state.get(), self.loads.budget.memory_used(&self.loads.used()));
        let is_due = own.checked.get().is_none_or(|last| self.now >= last + CHECKS);
        let looked = own.look(self.now);
        let after = follows(before.unwrap_or_default(), used, self.loads.budget.shared);
        assert_eq!(looked, is_due.then_some((before, after)), "{used} of {}", self.loads.budget.shared);
        if own.state.get() > Some(State::Normal) {
            self.idle[worker] = self.idle[worker].saturating_sub(GIVEN_UP);
        }
    }

    fn publish(&self, worker: usize) {
        let (load, used) = (&self.loads.workers[worker], self.used(worker));
        load.fresh.store(used.fresh, Relaxed);
        load.active.store(used.active, Relaxed);
        load.upstream.store(used.upstream, Relaxed);
        load.bodies.store(used.bodies, Relaxed);
        load.held.store(used.held + self.surge, Relaxed);
    }

    /// What a worker really uses.
    fn used(&self, worker: usize) -> Used {
        let mine = || self.guests.iter().filter(|guest| guest.worker == worker);
        let active = self.exchanges(Some(worker));
        Used {
            clients: mine().count(),
            sessions: 0,
            multiplexed: 0,
            fresh: mine().filter(|guest| guest.fresh).count(),
            upstream: active.max(self.idle[worker]),
            active,
            bodies: self.bodies(Some(worker)),
            held: mine().map(|guest| guest.held).sum(),
            buffers: 0,
        }
    }

    fn exchanges(&self, of: Option<usize>) -> usize {
        let all = self.guests.iter().filter(|guest| of.is_none_or(|worker| guest.worker == worker));
        all.filter(|guest| guest.exchange.is_some()).count()
    }

    fn bodies(&self, of: Option<usize>) -> usize {
        let all = self.guests.iter().filter(|guest| of.is_none_or(|worker| guest.worker == worker));
        all.filter(|guest| guest.exchange == Some(true)).count()
    }

    fn check(&self) {
        let Loads { budget, exchanges, bodies, .. } = &*self.loads;
        for (all, places, of) in [
            (
                exchanges,
                budget.in_flight,
                (|p: &AdmissionControl| &p.exchanges) as fn(&AdmissionControl) -> &Purse,
            ),
            (bodies, budget.bodies, |p: &AdmissionControl| &p.bodies),
        ] {
            let purses = || self.workers.iter().map(of);
            let taken: usize = purses().map(Purse::in_use).sum();
            if all.batch > 0 {
                let left: usize = purses().map(|purse| purse.left.get()).sum();
                assert_eq!(all.free.load(Relaxed) + left + taken, places, "a place is lost or doubled");
                assert!(taken <= places, "{taken} of {places}");
                assert!(purses().all(|purse| purse.left.get() <= 2 * all.batch), "one keeps too many");
                assert!(all.batch > 1 || left == 0, "a single one is kept");
            }
        }
        for (worker, own) in self.workers.iter().enumerate() {
            assert_eq!(own.exchanges.in_use(), self.exchanges(Some(worker)));
            assert_eq!(own.bodies.in_use(), self.bodies(Some(worker)));
            let clients = self.guests.iter().filter(|guest| guest.worker == worker).count();
            assert_eq!(self.loads.workers[worker].clients.load(Relaxed), clients);
            assert!(clients <= budget.places());
        }
        assert!(self.exchanges(None) <= budget.connections);
        for (listener, most) in self.most.iter().enumerate() {
            let open = self.listeners[listener].open.load(Relaxed);
            assert_eq!(open, self.guests.iter().filter(|guest| guest.listener == listener as u16).count());
            assert!(most.is_none_or(|most| open <= most));
        }
        if budget.socket_buffers.is_some() {
            let all = (0..self.workers.len()).map(|worker| self.used(worker));
            let used = all.fold(Used::default(), |sum, one| Used {
                clients: sum.clients + one.clients,
                sessions: 0,
                multiplexed: 0,
                fresh: sum.fresh + one.fresh,
                upstream: sum.upstream + one.upstream,
                active: sum.active + one.active,
                bodies: sum.bodies + one.bodies,
                held: sum.held + one.held,
                buffers: 0,
            });
            let bytes = budget.memory_used(&used);
            assert!(bytes <= budget.shared, "{bytes} of {} bytes: {used:?}", budget.shared);
        }
    }

    fn end(mut self) -> [usize; 5] {
        while !self.guests.is_empty() {
            self.leave();
            self.check();
        }
        self.workers.iter().for_each(|worker| worker.return_credits());
        let Loads { budget, exchanges, bodies, by_client, .. } = &*self.loads;
        assert_eq!(exchanges.free.load(Relaxed), budget.in_flight);
        assert_eq!(bodies.free.load(Relaxed), budget.bodies);
        assert!((0..10).all(|client| by_client.take(Prefix::V4(client), 1)), "a client is still counted");
        self.refused
    }
}

fn run(seed: u64) -> [usize; 5] {
    let mut world = World::new(seed);
    for _ in 0..1500 {
        world.step();
    }
    world.end()
}

#[test]
fn what_is_taken_on_stays_within_the_budget_and_everything_is_given_back() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", run(seed));
        return;
    }
    let seeds = if std::env::var_os("THALWEG_LONG").is_some() { 5_000 } else { 60 };
    let mut refused = [0; 5];
    for seed in 0..seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(one) => refused.iter_mut().zip(one).for_each(|(sum, one)| *sum += one),
            Err(panic) => {
                eprintln!("the budget fails with SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(refused.iter().all(|count| *count > 20), "the histories are too tame: {refused:?}");
}
