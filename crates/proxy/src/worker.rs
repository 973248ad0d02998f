//! A worker: one thread that accepts connections and serves their exchanges from first to last byte.
//!
//! A turn takes what the reactor has, calls the owners, polls woken seats and meets deadlines.
//! Everything here belongs to this thread: `Rc`, `Cell` and `RefCell`, no lock and no atomic per exchange but the meters'
//! plain stores.

use crate::converse::converse;
use crate::current::Current;
use crate::decisions::Decisions;
use crate::door::Door;
use crate::doors::{Doors, welcome};
use crate::exchange::{Client, Exchange};
use crate::fleet::{Command, Shared};
use crate::h2::{Sessions, Slices, Work};
use crate::handshakes::Handshakes;
use crate::introduction;
use crate::laggards::Laggards;
use crate::owner::Target;
use crate::parked::Parked;
use crate::plan::{ClientTimeouts, ListenerProtocol};
use crate::pressure::Pressure;
use crate::ring::Chunks;
use crate::seats::{Seat, SeatFuture, Seats};
use crate::tunnels::Tunnels;
use crate::udp::Udp;
use crate::unseal::Guesses;
use crate::view::{Ground, LocalService, PlanView, Slots};
use crate::warm::Warm;
use rustix::fd::AsFd;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_core::limits::FIRST_WORD_TIME;
use thalweg_core::{Fault, FaultKind, RequestId, limits};
use thalweg_net::allocator::tidy_up;
use thalweg_net::{Mailbox, Owner, OwnerWaker, Reactor};
use thalweg_observe::{LogBatch, RouteMeters, WorkerMeters};
use thalweg_upstream::{Member, OpenCount, PeerAddress};

/// Bytes taken from a socket at once.
const SCRATCH: usize = 256 * 1024;
/// How often a worker says that it lives, flushes its log and trims its memory.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// Bytes of chunks given back at once that are worth tidying up after.
const MUCH: usize = 256 * 1024;

/// How many calls ahead memory is asked for, in two steps.
const SOON: usize = 4;
const NEXT: usize = 2;

/// How often in a turn connections of HTTP/2 that their own streams have woken are called.
const ROUNDS: usize = 4;

/// The same kind of fault is reported to the operator once in this time.
const REPORTS: Duration = Duration::from_secs(1);

/// What belongs to one worker.
pub(crate) struct Worker {
    pub(crate) id: usize,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) meters: Arc<WorkerMeters>,
    /// What belonged to another plan has been freed since the last heartbeat.
    is_untidy: Cell<bool>,
    /// For requests that no route takes.
    pub(crate) no_route: Arc<RouteMeters>,
    /// Where sockets are received into; what must last is copied out.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) warm: Warm,
    /// For what stalled receivers keep waiting.
    pub(crate) chunks: Rc<Chunks>,
    pub(crate) log: RefCell<Option<LogBatch>>,
    pub(crate) upstream_open: OpenCount,
    pub(crate) pressure: Rc<Pressure>,
    pub(crate) doors: RefCell<Doors>,
    pub(crate) parked: RefCell<Parked>,
    pub(crate) laggards: Laggards,
    pub(crate) handshakes: Handshakes,
    pub(crate) tunnels: Tunnels,
    pub(crate) udp: Udp,
    pub(crate) sessions: Sessions,
    pub(crate) slices: Slices,
    pub(crate) decisions: Decisions,
    view: RefCell<Rc<PlanView>>,
    slots: Slots,
    seats: Seats<Client>,
    random: RefCell<fastrand::Rng>,
    /// Labels that were refused, by client.
    pub(crate) guesses: Guesses,
    /// Milliseconds since the Unix epoch, at the last turn.
    unix_ms: Cell<u64>,
    /// The same in microseconds.
    unix_us: Cell<u64>,
    /// By kind of fault: when it may be reported again, and how many were not.
    reports: RefCell<[(Option<Instant>, u64); FaultKind::ALL.len()]>,
    draining: Cell<bool>,
}

impl Worker {
    /// A worker whose doors are shut.
    pub(crate) fn new(id: usize, shared: Arc<Shared>) -> io::Result<Rc<Self>> {
        let reactor = Rc::new(Reactor::new()?);
        let mailbox = shared.mailbox(id).clone();
        let current = shared.current();
        let slots = Slots::default();
        let ground = Ground { worker: id, registry: &shared.registry, gates: &shared.gates, slots: &slots };
        let view = PlanView::new(current, &ground, None);
        let meters = shared.registry.worker(id);
        let chunks = Rc::new(Chunks::default());
        chunks.pipes.set_most(shared.loads.budget.pipes);
        let log = shared.log.as_ref().map(|log| log.batch(meters.clone()));
        Ok(Rc::new(Self {
            id,
            reactor,
            meters,
            is_untidy: Cell::new(false),
            no_route: shared.registry.route(id, ""),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            warm: Warm::default(),
            chunks,
            log: RefCell::new(log),
            upstream_open: OpenCount::default(),
            pressure: Rc::new(Pressure::new(shared.loads.clone())),
            doors: RefCell::new(Doors::new()),
            parked: RefCell::new(Parked::new()),
            laggards: Laggards::default(),
            handshakes: Handshakes::default(),
            tunnels: Tunnels::default(),
            udp: Udp::default(),
            sessions: Sessions::default(),
            slices: Slices::new(Instant::now()),
            decisions: Decisions::new(view.plan.requests),
            view: RefCell::new(Rc::new(view)),
            slots,
            seats: Seats::new(move |seat| OwnerWaker::waker(Target::Seat(seat).into(), mailbox.clone())),
            random: RefCell::new(fastrand::Rng::new()),
            guesses: Guesses::default(),
            unix_ms: Cell::new(0),
            unix_us: Cell::new(0),
            reports: RefCell::new([(None, 0); FaultKind::ALL.len()]),
            draining: Cell::new(false),
            shared,
        }))
    }

    /// Runs until the fleet says stop.
    pub(crate) fn run(self: Rc<Self>) -> io::Result<()> {
        self.reactor.watch(self.mailbox().as_fd(), Target::Bell.into())?;
        self.open_doors();
        let mut lists = Lists::default();
        let mut beat = self.reactor.now() + HEARTBEAT;
        let mut full = false;
        loop {
            let has_more = full
                || self.tunnels.have_more()
                || self.udp.have_more()
                || self.laggards.has_queue()
                || !lists.woken.is_empty()
                || !self.slices.is_empty();
            let sleeps = !has_more && self.mailbox().may_sleep();
            let look = self.pressure.next_look(self.reactor.now(), beat);
            let next = self.reactor.next_deadline().map_or(look, |deadline| deadline.min(look));
            let timeout =
                if sleeps { next.saturating_duration_since(self.reactor.now()) } else { Duration::ZERO };
            let events = self.reactor.wait(Some(timeout), &mut lists.called)?;
            self.mailbox().awake();
            full = events == limits::EVENTS_PER_TURN;
            if self.turn(&mut lists) {
                self.end_sessions();
                self.end_tunnels();
                self.heartbeat(Duration::ZERO);
                return Ok(());
            }
            let now = self.reactor.now();
            if now >= beat {
                self.heartbeat(now.saturating_duration_since(beat));
                beat = now + HEARTBEAT;
            }
        }
    }

    /// Serves what is ready now; says whether the worker is to end.
    fn turn(self: &Rc<Self>, lists: &mut Lists) -> bool {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.unix_ms.set(unix.as_secs() * 1000 + u64::from(unix.subsec_millis()));
        self.unix_us.set(unix.as_secs() * 1_000_000 + u64::from(unix.subsec_micros()));
        self.handshakes.begin_turn();
        self.slices.begin_turn(Instant::now());
        self.udp.begin_turn();
        // Before events: a connection that comes after a plan was told to all workers is served by that plan.
        self.mailbox().take_messages(&mut lists.commands);
        for command in lists.commands.drain(..) {
            if matches!(command, Command::Stop) {
                return true;
            }
            self.obey(command);
        }
        self.reactor.expire(&mut lists.called);
        for i in 0..lists.called.len() {
            lists.called.get(i + SOON).inspect(|owner| self.expect_soon(**owner));
            lists.called.get(i + NEXT).inspect(|owner| self.expect_next(**owner));
            self.call(lists.called[i]);
        }
        lists.called.clear();
        self.serve_line();
        self.tunnels.take_more(&mut lists.tunnels);
        for tunnel in lists.tunnels.drain(..) {
            self.poll_tunnel(tunnel);
        }
        self.udp.take_more(&mut lists.sessions);
        for session in lists.sessions.drain(..) {
            self.call_session(session);
        }
        for seat in self.laggards.take_called_off() {
            self.poll_seat(seat);
        }
        for _ in 0..limits::LAGGARDS_PER_TURN {
            let Some(seat) = self.laggards.next_in_queue() else { break };
            self.poll_seat(seat);
        }
        self.mailbox().take_woken(&mut lists.woken);
        for owner in lists.woken.drain(..) {
            self.call_woken(owner);
        }
        self.serve_sessions(lists);
        self.publish();
        self.watch_budget();
        let last = self.doors.borrow_mut().close_left(self);
        last.into_iter().for_each(|client| self.park_first(client));
        self.doors.borrow_mut().reopen(self);
        false
    }

    /// Lets connections of HTTP/2 say together what their streams have said in this turn. Who else has been woken waits for the
    /// next.
    fn serve_sessions(self: &Rc<Self>, lists: &mut Lists) {
        if self.sessions.is_empty() {
            return;
        }
        self.serve_line();
        for _ in 0..ROUNDS {
            self.mailbox().take_woken(&mut lists.again);
            if lists.again.is_empty() {
                break;
            }
            for owner in lists.again.drain(..) {
                match Target::from(owner) {
                    Target::Session(session) => self.slices.put_off(session, Work::Engine),
                    _ => lists.woken.push(owner),
                }
            }
            self.serve_line();
        }
        self.sessions.send_all(|session| self.slices.has_exchanges(session));
    }

    /// Does what is to be done for connections of HTTP/2, while there is time.
    fn serve_line(self: &Rc<Self>) {
        self.slices.serve(Instant::now, |session, work| match work {
            Work::Exchange(seat) => self.poll_seat(seat),
            Work::Engine => self.poll_session(session),
        });
    }

    /// Does what can be done for an exchange; one on a stream stands in line for that with its connection.
    fn call_seat(&self, seat: u32) {
        match self.seats.session(seat) {
            None => {
                self.slices.note_other();
                self.poll_seat(seat);
            }
            Some(session) => self.slices.put_off(session, Work::Exchange(seat)),
        }
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<Command>> {
        self.shared.mailbox(self.id)
    }

    /// Asks for memory that a call of this owner needs: the first step, a few calls before.
    fn expect_soon(&self, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) => self.seats.expect_soon(seat),
            Target::Parked(place) => self.parked.borrow().expect_soon(place),
            _ => {}
        }
    }

    /// The second step: what the first one leads to.
    fn expect_next(&self, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) => self.seats.expect_next(seat),
            Target::Parked(place) => self.parked.borrow().expect_next(place),
            Target::Tunnel(tunnel) => self.tunnels.expect_next(tunnel),
            _ => {}
        }
    }

    fn call(self: &Rc<Self>, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) if self.chunks.is_crowded() && self.laggards.put_off(seat) => {}
            Target::Seat(seat) => self.call_seat(seat),
            Target::Tunnel(tunnel) => self.poll_tunnel(tunnel),
            Target::Session(session) => self.slices.put_off(session, Work::Engine),
            Target::Parked(place) => self.unpark(place),
            Target::Acceptor(door) => {
                let accepted = self.doors.borrow_mut().accept(self, door);
                accepted.into_iter().for_each(|client| self.park_first(client));
            }
            Target::Pool(slot) => {
                if let Some(service) = self.slots.find(slot) {
                    service.sweep();
                }
            }
            Target::Port(port) => self.call_port(port),
            Target::Datagrams(session) => self.call_session(session),
            Target::Destination(slot, index) => {
                let service = self.slots.find(slot);
                service.and_then(|service| service.destinations()).inspect(|all| all.sweep(index));
            }
            Target::Bell => {}
            Target::Refusal(index) => self.doors.borrow_mut().drain_refusal(self, index),
        }
    }

    /// Something that an owner awaits has happened, and it was no event of the reactor.
    fn call_woken(self: &Rc<Self>, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) => self.call_seat(seat),
            Target::Tunnel(tunnel) => self.poll_tunnel(tunnel),
            Target::Session(session) => self.slices.put_off(session, Work::Engine),
            _ => {}
        }
    }

    /// Something happened on a silent connection: it has a request, has ended, or was silent too long.
    fn unpark(self: &Rc<Self>, place: u32) {
        let mut parked = self.parked.borrow_mut();
        let Some(client) = parked.peek(place) else { return };
        // One that was to say on whose behalf it comes is recorded when it did not.
        let is_owed =
            client.socket.expired() && introduction::due(client).is_some_and(|policy| policy.required);
        if client.socket.is_readable() || is_owed {
            let Some(client) = parked.remove(place) else { return };
            drop(parked);
            self.seat(client, None);
        } else if client.socket.expired() {
            let ended = parked.remove(place);
            drop(parked);
            drop(ended);
        }
    }

    /// Serves a client that has something to say: a stream of `session`, or a connection of its own.
    pub(crate) fn seat(self: &Rc<Self>, client: Client, session: Option<u32>) {
        client.socket.rest(false);
        let seat = self.seats.occupy(client, session, |index, seat| self.staff(index, seat));
        match session {
            None => {
                self.slices.note_other();
                self.poll_seat(seat);
            }
            Some(session) => self.slices.put_off(session, Work::Exchange(seat)),
        }
    }

    /// The future of a seat: one conversation after the other.
    fn staff(self: &Rc<Self>, index: u32, seat: Rc<Seat<Client>>) -> SeatFuture {
        let worker = self.clone();
        Box::pin(async move {
            let owner = Target::Seat(index).into();
            let mut exchange = Exchange::new(owner);
            loop {
                let client = seat.next().await;
                client.socket.set_owner(owner);
                converse(&worker, client, &mut exchange).await;
                worker.seats.vacate(index);
            }
        })
    }

    fn poll_seat(&self, seat: u32) {
        if self.seats.poll(seat).is_err() {
            self.laggards.forget(seat);
            self.note_panic();
        }
    }

    /// An exchange or a tunnel has ended in a panic.
    pub(crate) fn note_panic(&self) {
        self.meters.panics.add(1);
        self.notice(|| "a bug in the proxy ended an exchange; the message above says where".into());
    }

    /// Lets a new connection wait for its first request. Where endpoints may have the first word, nothing is waited for.
    pub(crate) fn park_first(self: &Rc<Self>, client: Client) {
        let door = client.door();
        let begins = !door.is_secure() && introduction::due(&client).is_none();
        if begins && door.protocol() == ListenerProtocol::Tcp {
            return self.seat(client, None);
        }
        let head = self.view.borrow().plan.client_timeouts.head;
        let time = if client.door().is_leaving() { FIRST_WORD_TIME } else { head };
        self.park_for(client, time);
    }

    /// Lets a connection wait for its next request.
    pub(crate) fn park(&self, client: Client) {
        client.socket.rest(true);
        let ClientTimeouts { head, keep_alive } = self.view.borrow().plan.client_timeouts;
        match self.is_leaving(&client) {
            // One that has shaken hands and not asked yet.
            false if client.requests == 0 => self.park_for(client, head),
            false => self.park_for(client, keep_alive),
            // A client that has not been served yet may just be about to speak.
            true if client.requests == 0 => self.park_for(client, FIRST_WORD_TIME),
            true => {}
        }
    }

    fn park_for(&self, client: Client, time: Duration) {
        client.socket.set_deadline(Some(time));
        client.socket.rest(true);
        let mut parked = self.parked.borrow_mut();
        let place = parked.insert(client, self.now_ms());
        if let Some(client) = parked.peek(place) {
            client.socket.set_owner(Target::Parked(place).into());
        }
    }

    /// The plan in force.
    pub(crate) fn view(&self) -> Rc<PlanView> {
        self.view.borrow().clone()
    }

    /// Whether texts may hold labels, which nobody is to see.
    pub(crate) fn has_labels(&self) -> bool {
        !self.view.borrow().current.redactor.is_empty()
    }

    /// The plan that holds for a client's next request.
    pub(crate) fn view_for(&self, client: &Client) -> Rc<PlanView> {
        client.door().last().unwrap_or_else(|| self.view())
    }

    /// Whether the proxy is stopping or the client's listener is gone: its connection is not kept.
    pub(crate) fn is_leaving(&self, client: &Client) -> bool {
        let is_of_old = client.requests > 0 && is_of_old(client);
        self.draining.get() || client.door().is_leaving() || is_of_old
    }

    /// Whether the proxy is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Milliseconds of the worker's own clock, at the last turn.
    pub(crate) fn now_ms(&self) -> u64 {
        self.reactor.elapsed().as_millis() as u64
    }

    /// A new request id; its time is that of the turn.
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId::new(self.unix_ms.get(), self.random.borrow_mut().u128(..))
    }

    /// Microseconds since the Unix epoch, at a time of this turn or before.
    pub(crate) fn unix_us(&self, at: Instant) -> u64 {
        let ago = self.reactor.now().saturating_duration_since(at);
        self.unix_us.get().saturating_sub(ago.as_micros() as u64)
    }

    /// A number for choices that should differ from time to time.
    pub(crate) fn chance(&self) -> usize {
        self.random.borrow_mut().usize(..)
    }

    /// Keeps upstream sockets within the worker's share of descriptors: an idle one makes room. Says whether there
    /// is some.
    pub(crate) fn make_upstream_room(&self) -> bool {
        if self.upstream_open.current() < self.shared.loads.budget.upstream_places() {
            return true;
        }
        let view = self.view();
        view.services.iter().any(|service| service.state.evict())
    }

    /// A line for the operator, written by the control thread; dropped when it cannot keep up.
    pub(crate) fn notice(&self, text: impl FnOnce() -> String) {
        if let Ok(permit) = self.shared.notices.try_reserve() {
            permit.send(text());
        }
    }

    /// Tells the operator of a fault that may need a hand; each kind at most once in [`REPORTS`].
    pub(crate) fn report(&self, fault: &Fault, route: &str, id: Option<&RequestId>) {
        let mut reports = self.reports.borrow_mut();
        let Some((next, left_out)) = reports.get_mut(fault.kind as usize) else { return };
        let now = self.reactor.now();
        if next.is_some_and(|next| now < next) {
            *left_out += 1;
            return;
        }
        let more = std::mem::take(left_out);
        *next = Some(now + REPORTS);
        self.notice(|| {
            let id = id.map_or("", RequestId::as_str);
            let more = if more > 0 { format!(" (and {more} more of this kind)") } else { String::new() };
            format!("route `{route}`: {fault}; request {id}{more}")
        });
    }

    /// How an operator knows a member: its service and the endpoint as written.
    pub(crate) fn name_of(&self, local: &LocalService, member: &Member) -> String {
        let service = &local.state.service;
        let url = service.endpoints.get(member.endpoint as usize).map_or("", |endpoint| &endpoint.url);
        match member.address() {
            PeerAddress::Tcp(address) => format!("service `{}`, endpoint {url} at {address}", service.name),
            PeerAddress::Unix(_) => format!("service `{}`, endpoint {url}", service.name),
        }
    }

    fn obey(self: &Rc<Self>, command: Command) {
        match command {
            Command::Plan(current) => self.take_over(current),
            Command::Members(current) => {
                let view = self.view();
                // Of another plan: its own message is on the way.
                let same = Arc::ptr_eq(&view.plan, &current.plan);
                let both = view.services.iter().zip(&current.rosters).filter(|_| same);
                both.for_each(|(service, roster)| service.state.update(roster));
            }
            Command::Client(arrival, listener, spoken) => {
                let door = self.doors.borrow().find(self, &listener, &spoken);
                match door {
                    Some(door) => {
                        let client = welcome(self, arrival, door);
                        client.into_iter().for_each(|client| self.park_first(client));
                    }
                    // The plan that has the listener is on its way.
                    None => self.shared.hand(self.id, Command::Client(arrival, listener, spoken)),
                }
            }
            Command::Recall(question) => self.recall(&question),
            Command::Evict(eviction) => self.slots.give_way(&eviction),
            Command::Cut => {
                (0..self.seats.len()).for_each(|seat| self.poll_seat(seat));
                self.tunnels.all().into_iter().for_each(|tunnel| self.poll_tunnel(tunnel));
                self.look_at_sessions();
            }
            Command::Drain => {
                let last = self.doors.borrow_mut().close(self);
                last.into_iter().for_each(|client| self.park_first(client));
                self.draining.set(true);
                self.hurry_datagrams();
                self.leave_parked();
                self.leave_sessions(|_| true);
            }
            Command::Stop => {}
        }
    }

    fn open_doors(&self) {
        let view = self.view();
        self.doors.borrow_mut().take_over(self, &view.current, &view);
        self.open_ports(&view.current);
    }

    /// Requests that come from now on follow another plan.
    fn take_over(self: &Rc<Self>, current: Arc<Current>) {
        let (registry, gates) = (&self.shared.registry, &self.shared.gates);
        let ground = Ground { worker: self.id, registry, gates, slots: &self.slots };
        let old = self.view();
        let view = Rc::new(PlanView::new(current, &ground, Some(&old)));
        self.decisions.adopt(view.plan.requests);
        self.is_untidy.set(true);
        self.view.replace(view.clone());
        let gone = self.doors.borrow_mut().take_over(self, &view.current, &old);
        for door in gone {
            self.leave_parked_of(&door);
        }
        self.open_ports(&view.current);
        self.leave_sessions(|client| client.door().is_leaving() || is_of_old(client));
    }

    /// As [`Self::leave_parked`], of a listener that is gone.
    fn leave_parked_of(self: &Rc<Self>, door: &Door) {
        let places = self.parked.borrow().places_of(door.state.id);
        for place in places {
            let mut parked = self.parked.borrow_mut();
            match parked.peek(place) {
                Some(client) if client.requests > 0 && !client.socket.is_readable() => {
                    let silent = parked.remove(place);
                    drop(parked);
                    drop(silent);
                    continue;
                }
                Some(client) => client.socket.set_deadline(Some(FIRST_WORD_TIME)),
                None => {}
            }
            drop(parked);
            self.unpark(place);
        }
    }

    /// Closes the silent connections, and serves those that have just spoken. Who has been accepted
    /// and not served gets a moment to speak.
    fn leave_parked(self: &Rc<Self>) {
        let fresh = self.parked.borrow().fresh_places();
        for place in fresh {
            if let Some(client) = self.parked.borrow().peek(place) {
                client.socket.set_deadline(Some(FIRST_WORD_TIME));
            }
            self.unpark(place);
        }
        loop {
            let served = self.parked.borrow_mut().remove_served();
            match served {
                Some(client) if client.socket.is_readable() => self.seat(client, None),
                Some(_) => {}
                None => break,
            }
        }
    }

    fn heartbeat(&self, late: Duration) {
        self.meters.lag_us.set(late.as_micros() as i64);
        self.seats.trim();
        self.sessions.look();
        let (given_back, is_untidy) = (self.chunks.trim(), self.is_untidy.take());
        if given_back >= MUCH || is_untidy {
            tidy_up();
        }
        self.return_credits();
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.flush();
        }
        let idle: usize = self.view().services.iter().map(|service| service.state.idle()).sum();
        self.meters.upstream_idle.set(idle as i64);
        self.meters.tick(Instant::now());
    }

    fn publish(&self) {
        let load = &self.shared.loads.workers[self.id];
        let active = self.seats.occupied() + self.tunnels.len();
        load.active.store(active, Relaxed);
        load.upstream.store(self.upstream_open.current(), Relaxed);
        load.fresh.store(self.parked.borrow().fresh(), Relaxed);
        load.multiplexed.store(self.sessions.of_clients(), Relaxed);
        load.bodies.store(self.pressure.bodies.in_use(), Relaxed);
        load.held.store(self.chunks.held() + self.sessions.held(), Relaxed);
        self.meters.active_exchanges.set(active as i64);
        let parked = self.parked.borrow().len();
        self.meters.idle_connections.set((parked + self.sessions.idle()) as i64);
        let drained = self.draining.get()
            && active == 0
            && parked == 0
            && self.sessions.of_clients() == 0
            && self.udp.len() == 0;
        load.drained.store(drained, Relaxed);
    }
}

/// Whether a reload has brought TLS to the client's listener, or taken it away, or there is no HTTP any more.
fn is_of_old(client: &Client) -> bool {
    let door = client.door();
    client.socket.is_layered() != door.is_secure() || door.protocol() != ListenerProtocol::Http
}

/// Lists that keep their memory from turn to turn.
#[derive(Default)]
struct Lists {
    called: Vec<Owner>,
    woken: Vec<Owner>,
    again: Vec<Owner>,
    tunnels: Vec<u32>,
    sessions: Vec<u32>,
    commands: Vec<Command>,
}
