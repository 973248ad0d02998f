//! The steps of an exchange, as `proxy` takes them: `enter.rs`, `choose.rs`, `connection_place.rs`,
//! `connect.rs`; and what it shares with the others of its worker and of the world.

use super::Seen;
use super::order::{Lines, Notifier, key};
use super::wire::{Handed, Link, SimulatedWire, Watch};
use crate::concurrency::{Acquired, ConcurrencyLimit, LimitHandle, Permit, Wait, WaitFor, WaitQueue};
use crate::connection::{Connection, OpenCount};
use crate::connection_handoff::{ConnectionPlaces, Destination};
use crate::member::Member;
use crate::members::{ServiceState, Wanted};
use crate::policy::Priority;
use crate::registry::{LimitRegistry, ServiceConcurrency};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{self, Arc, Mutex};
use std::task::Poll;
use std::time::Instant;
use thalweg_net::Owner;

/// A service on a worker, with its concurrency limits.
pub(super) struct View {
    pub(super) state: Rc<ServiceState<SimulatedWire>>,
    pub(super) concurrency_limits: ServiceConcurrency<Handed>,
}

#[derive(Default)]
pub(super) struct Worker {
    /// `None` only before the first plan.
    pub(super) view: RefCell<Option<Rc<View>>>,
    /// Every form of the service that is still in use.
    pub(super) slots: RefCell<Vec<Weak<ServiceState<SimulatedWire>>>>,
    pub(super) watches: RefCell<Vec<Watch>>,
    pub(super) open: OpenCount,
}

/// Let an idle connection go, of this endpoint or of whichever.
pub(super) struct Eviction {
    pub(super) worker: usize,
    pub(super) endpoint: Option<Arc<str>>,
}

/// The concurrency limits at which something has a place.
pub(super) type Inside = Vec<sync::Weak<ConcurrencyLimit<Handed>>>;

/// What exchanges share.
pub(super) struct Scene {
    pub(super) clock: Rc<Cell<Instant>>,
    pub(super) concurrency_limits: LimitRegistry<Handed>,
    pub(super) workers: Vec<Worker>,
    pub(super) lines: Arc<Mutex<Lines>>,
    /// How many may wait in each line.
    pub(super) sizes: RefCell<HashMap<usize, u32>>,
    pub(super) evictions: RefCell<Vec<Eviction>>,
    pub(super) links: RefCell<Vec<(Arc<Link>, Inside)>>,
    pub(super) seen: RefCell<Seen>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Waiting,
    Connecting,
    Using,
}

pub(super) struct Exchange {
    pub(super) who: usize,
    pub(super) worker: usize,
    pub(super) priority: Priority,
    /// Its request could not be sent again.
    pub(super) sure: bool,
    /// It wants a connection that nobody has used.
    pub(super) fresh: bool,
    /// Its connection is not to be used again.
    pub(super) closes: bool,
    pub(super) bell: Arc<Notifier>,
    pub(super) stage: Cell<Stage>,
    /// The time in which it may wait is over.
    pub(super) late: Cell<bool>,
    /// The endpoint has connected, or answered.
    pub(super) go: Cell<bool>,
    /// The concurrency limits for exchanges at which it has a place.
    pub(super) inside: RefCell<Inside>,
}

/// An exchange from first to last; `None` when it was refused or failed.
pub(super) async fn exchange(scene: Rc<Scene>, x: Rc<Exchange>) -> Option<()> {
    let worker = &scene.workers[x.worker];
    let view = worker.view.borrow().clone()?;
    let _service = match &view.concurrency_limits.in_flight {
        Some(concurrency) => Some(pass(&scene, &x, concurrency).await?),
        None => None,
    };
    let (member, _place) = choose(&scene, &x, &view).await?;
    let mut connection = connect(&scene, &x, &view, &member).await?;
    let link = connection.socket.link.clone();
    connection.requests += 1;
    assert_eq!(connection.requests, link.requests.fetch_add(1, SeqCst) + 1, "its count is lost");
    assert!(connection.requests <= view.state.service.pool.max_requests);
    assert_eq!(link.address.as_ref(), Some(member.address()), "it leads elsewhere");
    x.stage.set(Stage::Using);
    signal(&x).await;
    link.busy.store(false, SeqCst);
    if !x.closes {
        member.pool.put(connection, &view.state.service.pool, Owner(0));
    }
    Some(())
}

async fn signal(x: &Exchange) {
    poll_fn(|_| if x.go.take() { Poll::Ready(()) } else { Poll::Pending }).await;
}

async fn pass(scene: &Scene, x: &Exchange, concurrency: &LimitHandle<Handed>) -> Option<Permit<Handed>> {
    let permit = match concurrency.enter() {
        Some(permit) => permit,
        None => {
            await_place(scene, x, (concurrency.concurrency().line(), WaitFor::default()), &|| {
                concurrency.offer()
            })
            .await?
        }
    };
    x.inside.borrow_mut().push(Arc::downgrade(permit.concurrency()));
    Some(permit)
}

async fn await_place(
    scene: &Scene,
    x: &Exchange,
    (line, wish): (&Arc<WaitQueue<Handed>>, WaitFor<Handed>),
    offer: &dyn Fn(),
) -> Option<Permit<Handed>> {
    match await_turn(scene, x, (line, wish), offer).await? {
        Acquired::Place(permit) => Some(permit),
        Acquired::Alternative(_) => panic!("it wanted nothing"),
    }
}

/// Stands in line, in truth and on paper.
struct InLine<'a> {
    scene: &'a Scene,
    who: usize,
    wait: Wait<Handed>,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.scene.lines.lock().unwrap().leave(self.who);
    }
}

async fn await_turn(
    scene: &Scene,
    x: &Exchange,
    (line, wish): (&Arc<WaitQueue<Handed>>, WaitFor<Handed>),
    offer: &dyn Fn(),
) -> Option<Acquired<Handed>> {
    x.stage.set(Stage::Waiting);
    x.late.set(false);
    let size = scene.sizes.borrow().get(&key(line)).copied().unwrap_or_default() as usize;
    let on_paper = (wish.thing.clone(), wish.concurrency_limits.clone());
    let mut wish = Some(wish);
    let mut standing: Option<InLine<'_>> = None;
    poll_fn(|context| {
        if standing.is_none() {
            let (len, lowest) = {
                let lines = scene.lines.lock().unwrap();
                (lines.len(key(line)), lines.lowest(key(line)))
            };
            let joined = line.join_for(wish.take().unwrap_or_default(), x.priority, context.waker());
            let may_join = len < size || lowest > Some(x.priority);
            assert_eq!(joined.is_ok(), may_join, "{len} of {size}, lowest {lowest:?}: {:?}", x.priority);
            let Ok(wait) = joined else {
                scene.seen.borrow_mut().refused += 1;
                return Poll::Ready(None);
            };
            scene.seen.borrow_mut().waited += 1;
            scene.lines.lock().unwrap().join(key(line), x.who, x.priority, on_paper.clone());
            standing = Some(InLine { scene, who: x.who, wait });
            offer();
        }
        let polled = standing.as_mut().map(|standing| standing.wait.poll(context));
        match polled {
            Some(Poll::Ready(got)) => {
                scene.lines.lock().unwrap().looks(x.who, &got);
                scene.seen.borrow_mut().displaced += usize::from(got.is_err());
                Poll::Ready(got.ok())
            }
            _ if x.late.get() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}

type Chosen = (Rc<Member<SimulatedWire>>, Option<Permit<Handed>>);

async fn choose(scene: &Scene, x: &Exchange, view: &View) -> Option<Chosen> {
    let now = scene.clock.get();
    let first = view.state.pick(now, &Wanted::default())?;
    let gate_of = |member: &Member<SimulatedWire>| {
        view.concurrency_limits
            .endpoints
            .get(member.endpoint as usize)
            .and_then(|concurrency_limits| concurrency_limits.in_flight.as_ref())
    };
    let Some(any) = view
        .concurrency_limits
        .endpoints
        .iter()
        .find_map(|concurrency_limits| concurrency_limits.in_flight.as_ref())
    else {
        return Some((first, None));
    };
    let has_place = |member: &Member<SimulatedWire>| {
        gate_of(member).is_none_or(|concurrency| !concurrency.concurrency().is_full())
    };
    let free = view.state.pick_with_room(now, &Wanted::default(), has_place);
    let place = match free {
        Some(member) => match gate_of(&member) {
            Some(concurrency) => concurrency.enter(),
            None => return Some((member, None)),
        },
        None => None,
    };
    let offer = || {
        let free = view.state.pick_with_room(now, &Wanted::default(), has_place);
        free.and_then(|member| gate_of(&member)).inspect(|concurrency| concurrency.offer());
    };
    let place = match place {
        Some(place) => place,
        None => {
            let known = view
                .concurrency_limits
                .endpoints
                .iter()
                .filter_map(|concurrency_limits| concurrency_limits.in_flight.as_ref());
            let concurrency_limits = Some(known.map(|concurrency| concurrency.concurrency().key()).collect());
            await_place(
                scene,
                x,
                (any.concurrency().line(), WaitFor { thing: None, concurrency_limits }),
                &offer,
            )
            .await?
        }
    };
    x.inside.borrow_mut().push(Arc::downgrade(place.concurrency()));
    let is_it =
        |concurrency: &LimitHandle<Handed>| Arc::ptr_eq(concurrency.concurrency(), place.concurrency());
    let mut concurrency_limits = view.concurrency_limits.endpoints.iter();
    let endpoint = concurrency_limits
        .position(|concurrency_limits| concurrency_limits.in_flight.as_ref().is_some_and(is_it));
    let endpoint = endpoint.expect("a place at an endpoint that it does not know");
    Some((view.state.member_of(endpoint as u32)?, Some(place)))
}

async fn connect(
    scene: &Scene,
    x: &Exchange,
    view: &View,
    member: &Member<SimulatedWire>,
) -> Option<Connection<SimulatedWire>> {
    let (worker, policy) = (&scene.workers[x.worker], &view.state.service.pool);
    if !x.fresh
        && let Some(connection) = member.pool.take(policy, scene.clock.get(), x.sure)
    {
        scene.seen.borrow_mut().reused += 1;
        use_again(x, &connection);
        return Some(connection);
    }
    let wants = (!x.fresh).then(|| member.pool.destination());
    let mut places = ConnectionPlaces::default();
    let of_endpoint = view.concurrency_limits.endpoints.get(member.endpoint as usize);
    let of_endpoint = of_endpoint.and_then(|concurrency_limits| concurrency_limits.connections.as_ref());
    let both = [(of_endpoint, Some(member.endpoint)), (view.concurrency_limits.connections.as_ref(), None)];
    for (concurrency, endpoint) in both {
        let Some(concurrency) = concurrency else { continue };
        let handover = match place(scene, x, view, (concurrency, endpoint, wants)).await? {
            Acquired::Place(permit) if endpoint.is_some() => {
                places.endpoint = Some(permit.stay());
                continue;
            }
            Acquired::Place(permit) => {
                places.service = Some(permit.stay());
                continue;
            }
            Acquired::Alternative(handover) => handover,
        };
        let received = handover.receive(policy, scene.clock.get(), &worker.open, |loose| {
            let (wire, watch) = SimulatedWire::new(loose.take(), &scene.clock);
            worker.watches.borrow_mut().push(watch);
            Some(wire)
        });
        match received {
            Ok(connection) => {
                scene.seen.borrow_mut().handed_over += 1;
                assert!(!connection.socket.link.ended.load(SeqCst), "it has ended on the way");
                use_again(x, &connection);
                return Some(connection);
            }
            Err(left) => {
                scene.seen.borrow_mut().died_on_the_way += 1;
                places = left;
                break;
            }
        }
    }
    open(scene, x, member, places).await
}

fn use_again(x: &Exchange, connection: &Connection<SimulatedWire>) {
    let link = &connection.socket.link;
    assert!(!link.busy.swap(true, SeqCst), "two exchanges use it");
    assert!(link.open.load(SeqCst), "it has been closed");
    assert!(!x.sure || !link.ended.load(SeqCst), "it had ended, and the request cannot be sent again");
}

async fn place(
    scene: &Scene,
    x: &Exchange,
    view: &View,
    (concurrency, endpoint, wants): (&LimitHandle<Handed>, Option<u32>, Option<&Destination>),
) -> Option<Acquired<Handed>> {
    let evict = || match endpoint {
        Some(endpoint) => view.state.evict_from(endpoint),
        None => view.state.evict(),
    };
    if let Some(permit) = concurrency.enter_after(evict) {
        return Some(Acquired::Place(permit));
    }
    let offer = || {
        concurrency.offer();
        view.state.give_way(endpoint);
        if concurrency.concurrency().line().waiting() > 0 {
            let url = endpoint.map(|endpoint| view.state.service.endpoints[endpoint as usize].url.clone());
            let workers = 0..scene.workers.len();
            let evictions = workers.map(|worker| Eviction { worker, endpoint: url.clone() });
            scene.evictions.borrow_mut().extend(evictions);
        }
    };
    let wish = WaitFor { thing: wants.cloned(), concurrency_limits: None };
    await_turn(scene, x, (concurrency.concurrency().line(), wish), &offer).await
}

async fn open(
    scene: &Scene,
    x: &Exchange,
    member: &Member<SimulatedWire>,
    places: ConnectionPlaces<Handed>,
) -> Option<Connection<SimulatedWire>> {
    let worker = &scene.workers[x.worker];
    let link = Arc::new(Link { address: Some(member.address().clone()), ..Link::default() });
    link.open.store(true, SeqCst);
    link.busy.store(true, SeqCst);
    let stays = [&places.endpoint, &places.service].into_iter().flatten();
    let concurrency_limits = stays.map(|stay| Arc::downgrade(stay.concurrency())).collect();
    scene.links.borrow_mut().push((link.clone(), concurrency_limits));
    let (wire, watch) = SimulatedWire::new(link.clone(), &scene.clock);
    worker.watches.borrow_mut().push(watch);
    let connection = Connection::new(wire, scene.clock.get(), &worker.open).with(places);
    x.stage.set(Stage::Connecting);
    signal(x).await;
    scene.seen.borrow_mut().opened += 1;
    (!link.ended.load(SeqCst)).then_some(connection)
}
