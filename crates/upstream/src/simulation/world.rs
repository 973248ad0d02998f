//! What happens, one event after the other, and what must be true after each.

use super::Seen;
use super::exchange::{Exchange, Scene, Stage, View, Worker, exchange};
use super::order::{Notifier, key};
use super::wire::Link;
use crate::concurrency::ConcurrencyLimit;
use crate::endpoint_sets::Names;
use crate::endpoint_sets::{EndpointSet, EndpointSets};
use crate::labels::Labels;
use crate::members::ServiceState;
use crate::policy::AdaptivePolicy;
use crate::policy::{Priority, QueuePolicy};
use crate::service::{Address, Endpoint, EndpointLimits, Mode, PoolPolicy, Service, ServiceLimits};
use crate::service_shared;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::wire::Handed;

/// Most exchanges under way.
const EXCHANGES: usize = 40;

struct Task {
    x: Rc<Exchange>,
    future: Pin<Box<dyn Future<Output = Option<()>>>>,
}

/// A concurrency limit of the service in force, with its limit.
struct Bounded {
    concurrency: Arc<ConcurrencyLimit<Handed>>,
    limit: u32,
    /// Its places are those of connections.
    of_connections: bool,
}

pub(super) struct World {
    random: fastrand::Rng,
    scene: Rc<Scene>,
    tasks: Vec<Task>,
    next: usize,
    service: Arc<Service>,
    endpoint_sets: EndpointSets,
    /// By worker: plans that it has not heard of yet.
    plans: Vec<VecDeque<Arc<EndpointSet>>>,
    /// Places taken after the last step, by concurrency limit.
    taken: HashMap<usize, u32>,
    /// The adaptive limits of endpoints, by URL.
    adaptive: HashMap<Arc<str>, u32>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let workers = random.usize(1..=3);
        let service = service(&mut random, None);
        let scene = Rc::new(Scene {
            clock: Rc::new(Cell::new(Instant::now())),
            concurrency_limits: Default::default(),
            workers: (0..workers).map(|_| Worker::default()).collect(),
            lines: Arc::default(),
            sizes: RefCell::default(),
            evictions: RefCell::default(),
            links: RefCell::default(),
            seen: RefCell::default(),
        });
        let plans = vec![VecDeque::new(); workers];
        let (endpoint_sets, taken) =
            (EndpointSets::new(workers, service_shared::Notifier::default()), HashMap::new());
        let (tasks, adaptive) = (Vec::new(), HashMap::new());
        let mut world =
            Self { random, scene, tasks, next: 0, service, endpoint_sets, plans, taken, adaptive };
        world.adopt();
        (0..workers).for_each(|worker| world.hear(worker));
        world
    }

    /// One event, and the checks.
    pub(super) fn step(&mut self) {
        match self.random.u32(..100) {
            0..18 => self.arrive(),
            18..55 => self.poll_one(),
            55..65 => self.deliver(),
            65..82 => self.answer(),
            82..85 => self.call_off(),
            85..88 => self.be_late(),
            88..92 => self.kill(),
            92..95 => self.tell(),
            95..97 => self.let_time_pass(),
            97 => self.reload(),
            98 => self.adapt(),
            _ => self.settle(),
        }
        self.check();
    }

    /// Lets everything end; everything must have been given back.
    pub(super) fn end(mut self) -> Seen {
        self.settle();
        while !self.tasks.is_empty() {
            self.answer();
            self.be_late();
            self.settle();
            self.check();
        }
        let concurrency_limits: Vec<_> =
            self.bounded().into_iter().map(|bounded| bounded.concurrency).collect();
        for worker in &self.scene.workers {
            worker.view.take();
            assert_eq!(worker.open.current(), 0, "a connection is still counted");
        }
        for concurrency in concurrency_limits {
            assert_eq!((concurrency.taken(), concurrency.line().waiting()), (0, 0));
        }
        let open = self.scene.links.borrow().iter().filter(|(link, _)| link.open.load(SeqCst)).count();
        assert_eq!(open, 0, "a connection is still open");
        *self.scene.seen.borrow()
    }

    fn arrive(&mut self) {
        if self.tasks.len() >= EXCHANGES {
            return;
        }
        let random = &mut self.random;
        let priority = match random.u32(..6) {
            0 => Priority::High,
            1 => Priority::Low,
            _ => Priority::Normal,
        };
        let bell = Notifier { who: self.next, rung: AtomicBool::new(true), lines: self.scene.lines.clone() };
        let x = Rc::new(Exchange {
            who: self.next,
            worker: random.usize(..self.scene.workers.len()),
            priority,
            sure: random.u32(..10) < 3,
            fresh: random.u32(..10) == 0,
            closes: random.u32(..10) == 0,
            bell: Arc::new(bell),
            stage: Cell::new(Stage::Waiting),
            late: Cell::new(false),
            go: Cell::new(false),
            inside: RefCell::default(),
        });
        self.next += 1;
        let future = Box::pin(exchange(self.scene.clone(), x.clone()));
        self.tasks.push(Task { x, future });
    }

    /// Polls one that was woken.
    fn poll_one(&mut self) {
        let woken = |task: &Task| task.x.bell.rung.load(SeqCst);
        let Some(at) = self.some_task(woken) else { return };
        let task = &mut self.tasks[at];
        task.x.bell.rung.store(false, SeqCst);
        let waker = Waker::from(task.x.bell.clone());
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            drop(self.tasks.swap_remove(at));
        }
    }

    /// A worker looks into its mailbox.
    fn deliver(&mut self) {
        let worker = self.random.usize(..self.scene.workers.len());
        self.hear(worker);
        let mut evictions = self.scene.evictions.borrow_mut();
        let Some(at) = evictions.iter().position(|eviction| eviction.worker == worker) else { return };
        let eviction = evictions.remove(at);
        drop(evictions);
        let slots = self.scene.workers[worker].slots.borrow();
        slots.iter().filter_map(std::rc::Weak::upgrade).for_each(|state| match &eviction.endpoint {
            None => state.give_way(None),
            Some(url) => {
                let at = state.service.endpoints.iter().position(|endpoint| endpoint.url == *url);
                at.inspect(|at| state.give_way(Some(*at as u32)));
            }
        });
    }

    /// A worker hears of the next plan.
    fn hear(&mut self, worker: usize) {
        let Some(endpoint_set) = self.plans[worker].pop_front() else { return };
        let Worker { view, slots, .. } = &self.scene.workers[worker];
        let old = view.borrow().clone();
        let state = match old {
            Some(old) if old.state.service == endpoint_set.service => {
                old.state.update(&endpoint_set);
                old.state.clone()
            }
            old => {
                let before = old.as_ref().map(|old| &*old.state);
                let state = Rc::new(ServiceState::new(endpoint_set.clone(), worker, before));
                slots.borrow_mut().push(Rc::downgrade(&state));
                state
            }
        };
        let concurrency_limits = self.scene.concurrency_limits.service(&endpoint_set.service);
        view.replace(Some(Rc::new(View { state, concurrency_limits })));
    }

    /// An endpoint connects, or answers.
    fn answer(&mut self) {
        let waits = |task: &Task| task.x.stage.get() != Stage::Waiting && !task.x.go.get();
        if let Some(at) = self.some_task(waits) {
            self.tasks[at].x.go.set(true);
            self.tasks[at].x.bell.rung.store(true, SeqCst);
        }
    }

    /// An exchange ends where it stands.
    fn call_off(&mut self) {
        if let Some(at) = self.some_task(|_| true) {
            self.scene.seen.borrow_mut().called_off += 1;
            drop(self.tasks.swap_remove(at));
        }
    }

    fn be_late(&mut self) {
        let lines = self.scene.lines.clone();
        if let Some(at) = self.some_task(|task| lines.lock().unwrap().has(task.x.who)) {
            self.tasks[at].x.late.set(true);
            self.tasks[at].x.bell.rung.store(true, SeqCst);
        }
    }

    /// The other side closes a connection.
    fn kill(&mut self) {
        let links = self.scene.links.borrow();
        let open: Vec<_> = links.iter().filter(|(link, _)| link.open.load(SeqCst)).collect();
        if let Some((link, _)) = self.random.choice(open) {
            link.ended.store(true, SeqCst);
        }
    }

    /// A worker is told what the kernel knows.
    fn tell(&mut self) {
        let worker = &self.scene.workers[self.random.usize(..self.scene.workers.len())];
        let mut watches = worker.watches.borrow_mut();
        watches.retain(|watch| watch.link.open.load(SeqCst));
        for watch in &*watches {
            watch.told.set(watch.link.ended.load(SeqCst));
        }
        drop(watches);
        worker.slots.borrow_mut().retain(|slot| slot.strong_count() > 0);
        worker.slots.borrow().iter().filter_map(std::rc::Weak::upgrade).for_each(|state| state.sweep());
    }

    fn let_time_pass(&mut self) {
        let time = Duration::from_secs(self.random.u64(1..50));
        self.scene.clock.set(self.scene.clock.get() + time);
    }

    fn reload(&mut self) {
        self.service = service(&mut self.random, Some(&self.service));
        self.adopt();
    }

    /// The control thread has learnt another limit.
    fn adapt(&mut self) {
        let Some(policy) = self.service.limits.adaptive else { return };
        let endpoint = &self.service.endpoints[self.random.usize(..self.service.endpoints.len())];
        let limit = self.random.u32(policy.min..=policy.max);
        self.scene.concurrency_limits.set_adaptive(&self.service.name, &endpoint.url, limit);
        self.adaptive.insert(endpoint.url.clone(), limit);
        self.scene.seen.borrow_mut().adapted += 1;
    }

    fn adopt(&mut self) {
        let mut known = std::mem::take(&mut self.adaptive);
        if let Some(policy) = self.service.limits.adaptive {
            for url in self.service.endpoints.iter().map(|endpoint| &endpoint.url) {
                let limit = known.remove(url).unwrap_or(policy.max).clamp(policy.min, policy.max);
                self.adaptive.insert(url.clone(), limit);
            }
        }
        self.scene.concurrency_limits.adopt([].into_iter(), [&*self.service].into_iter());
        let endpoint_sets = self.endpoint_sets.update(std::slice::from_ref(&self.service), &Names::new());
        self.plans.iter_mut().for_each(|plans| plans.extend(endpoint_sets.clone()));
        let size = self.service.limits.queue.size;
        let mut sizes = self.scene.sizes.borrow_mut();
        for Bounded { concurrency, .. } in self.bounded() {
            sizes.insert(key(concurrency.line()), size);
            // Where a bound has been away meanwhile, more than it allows may be inside.
            self.taken.entry(Arc::as_ptr(&concurrency) as usize).or_insert_with(|| concurrency.taken());
        }
    }

    /// Until nobody has anything to do but to wait.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let is_woken = |task: &Task| task.x.bell.rung.load(SeqCst);
            if !self.scene.evictions.borrow().is_empty() || self.plans.iter().any(|plans| !plans.is_empty()) {
                self.deliver();
            } else if self.tasks.iter().any(is_woken) {
                self.poll_one();
            } else {
                return self.check_rest();
            }
            self.check();
        }
        panic!("it never comes to rest");
    }

    /// What is true after every event.
    fn check(&mut self) {
        let links = self.scene.links.borrow();
        let mut taken = HashMap::new();
        for Bounded { concurrency, limit, of_connections } in self.bounded() {
            let (id, now) = (Arc::as_ptr(&concurrency) as usize, concurrency.taken());
            let before = self.taken.get(&id).copied().unwrap_or_default();
            assert!(now <= limit || now <= before, "{now} places are taken of {limit}, {before} before");
            let waiting = self.scene.lines.lock().unwrap().len(key(concurrency.line()));
            assert_eq!(concurrency.line().waiting(), waiting, "who waits");
            let of_gate = |concurrency_limits: &[Weak<ConcurrencyLimit<Handed>>]| {
                concurrency_limits.iter().any(|other| other.as_ptr() == Arc::as_ptr(&concurrency))
            };
            let inside = if of_connections {
                links
                    .iter()
                    .filter(|(link, concurrency_limits)| {
                        link.open.load(SeqCst) && of_gate(concurrency_limits)
                    })
                    .count()
            } else {
                self.tasks.iter().filter(|task| of_gate(&task.x.inside.borrow())).count()
            };
            assert!(inside <= now as usize, "{inside} are inside, with {now} places");
            taken.insert(id, now);
        }
        drop(links);
        self.taken = taken;
        self.scene.links.borrow_mut().retain(|(link, _)| link.open.load(SeqCst));
    }

    /// What is true when nothing is on its way.
    fn check_rest(&self) {
        for Task { x, .. } in &self.tasks {
            let in_line = self.scene.lines.lock().unwrap().has(x.who);
            assert!(in_line == (x.stage.get() == Stage::Waiting), "nobody will wake {}", x.who);
        }
        let links = self.scene.links.borrow();
        for Bounded { concurrency, limit, of_connections } in self.bounded() {
            if !self.scene.lines.lock().unwrap().want(key(concurrency.line()), concurrency.key()) {
                continue;
            }
            let taken = concurrency.taken();
            assert!(taken >= limit, "somebody waits although {taken} places are taken of {limit}");
            let idle = |link: &Link| link.open.load(SeqCst) && !link.busy.load(SeqCst);
            let of_gate = |concurrency_limits: &[Weak<ConcurrencyLimit<Handed>>]| {
                concurrency_limits.iter().any(|other| other.as_ptr() == Arc::as_ptr(&concurrency))
            };
            let kept =
                links.iter().any(|(link, concurrency_limits)| of_gate(concurrency_limits) && idle(link));
            assert!(
                !of_connections || !kept,
                "somebody waits although a connection is idle: {taken} of {limit}"
            );
        }
    }

    fn bounded(&self) -> Vec<Bounded> {
        let (service, concurrency_limits) =
            (&self.service, self.scene.concurrency_limits.service(&self.service));
        let own = [
            (concurrency_limits.in_flight, service.limits.max_in_flight, false),
            (concurrency_limits.connections, service.limits.max_connections, true),
        ];
        let of_endpoints = service.endpoints.iter().zip(concurrency_limits.endpoints).flat_map(
            |(endpoint, concurrency_limits)| {
                let limits = endpoint.limits;
                let learnt = self.adaptive.get(&endpoint.url).copied();
                let in_flight =
                    limits.max_in_flight.map_or(learnt, |most| Some(most.min(learnt.unwrap_or(most))));
                [
                    (concurrency_limits.in_flight, in_flight, false),
                    (concurrency_limits.connections, limits.max_connections, true),
                ]
            },
        );
        let all = own.into_iter().chain(of_endpoints);
        all.filter_map(|(limit_handle, limit, of_connections)| {
            Some(Bounded { concurrency: limit_handle?.concurrency().clone(), limit: limit?, of_connections })
        })
        .collect()
    }

    fn some_task(&mut self, test: impl Fn(&Task) -> bool) -> Option<usize> {
        let able: Vec<_> = (0..self.tasks.len()).filter(|at| test(&self.tasks[*at])).collect();
        self.random.choice(able)
    }
}

/// A service; mostly the old one with other numbers.
fn service(random: &mut fastrand::Rng, old: Option<&Arc<Service>>) -> Arc<Service> {
    let bound = |random: &mut fastrand::Rng| random.bool().then(|| random.u32(1..6));
    let queue = QueuePolicy { size: random.u32(..12), timeout: Duration::from_secs(1) };
    if let Some(old) = old
        && random.u32(..3) > 0
    {
        let mut new = Service::clone(old);
        let other = |random: &mut fastrand::Rng, bound: Option<u32>| bound.map(|_| random.u32(1..6));
        new.limits.queue = queue;
        new.limits.max_connections = other(random, old.limits.max_connections);
        new.limits.max_in_flight = bound(random);
        new.limits.adaptive = old.limits.adaptive.map(|_| adaptive(random));
        for endpoint in &mut new.endpoints {
            endpoint.limits.max_connections = other(random, endpoint.limits.max_connections);
            endpoint.limits.max_in_flight = other(random, endpoint.limits.max_in_flight);
        }
        return Arc::new(new);
    }
    let (in_flight, connections) = (random.bool(), random.bool());
    let endpoints = (0..random.u16(1..=3)).map(|at| {
        let mut limit = |is: bool| is.then(|| random.u32(1..4));
        Endpoint {
            url: format!("http://192.0.2.1:{at}").into(),
            address: Address::Socket(SocketAddr::from(([192, 0, 2, 1], at))),
            weight: 1,
            tier: 0,
            mode: Mode::default(),
            labels: Labels::default(),
            limits: EndpointLimits { max_connections: limit(connections), max_in_flight: limit(in_flight) },
            is_added: false,
        }
    });
    let endpoints = endpoints.collect();
    let pool = PoolPolicy {
        max_idle: random.bool().then(|| random.u32(0..4)),
        idle: Duration::from_secs(60),
        max_age: Duration::from_secs(200),
        max_requests: if random.bool() { u32::MAX } else { random.u32(1..6) },
        oldest_first: random.bool(),
    };
    let (max_connections, max_in_flight) = (bound(random), bound(random));
    let adaptive = (random.u32(..3) == 0).then(|| adaptive(random));
    let limits = ServiceLimits { max_connections, max_in_flight, adaptive, queue };
    Arc::new(Service { name: "s".into(), endpoints, pool, limits, ..Service::default() })
}

fn adaptive(random: &mut fastrand::Rng) -> AdaptivePolicy {
    AdaptivePolicy { min: random.u32(1..3), max: random.u32(3..6), tolerance: 150 }
}
