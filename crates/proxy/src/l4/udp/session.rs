//! The datagrams of one client: all go to one endpoint, through a socket of their own, and its answers go back.
//!
//! A session is an exchange without a head, as a connection is (`l4/tcp.rs`); it waits for nothing, and what cannot go
//! on is dropped. An endpoint that refuses (nobody has its port) is left for another one, which gets the datagram that
//! was not answered; one that only says nothing is not.

use super::Key;
use super::ports::Port;
use crate::exchange::find_route::find_route_from;
use crate::exchange::permits::{Permits, enter_or_leave};
use crate::exchange::record::record_of;
use crate::exchange::upstream::circuit_breaker::{ask_breaker, end_trial};
use crate::exchange::upstream::connect::{count, fault_of, service};
use crate::exchange::upstream::connection_permit::place_at_once;
use crate::exchange::upstream::forward::{SERVED, TRIES, none_left, tell};
use crate::exchange::upstream::pick::{Chosen, choose_or_leave};
use crate::state::exchange::{Exchange, Origin};
use crate::state::local_listener::{ConnectionGuard, LISTENER_GONE, Standing};
use crate::state::local_plan::LocalService;
use crate::state::worker::Worker;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_core::limits::{DATAGRAM_KEPT, DRAIN_SILENCE, FIRST_WORD_TIME};
use thalweg_core::{Fault, FaultKind};
use thalweg_net::Owner;
use thalweg_net::connect::PeerAddress;
use thalweg_net::datagram::{Batch, Datagrams};
use thalweg_observe::Drops;
use thalweg_upstream::{AttemptGuard, ConnectionPlaces, Permit, TrialGuard};

/// Errors of a socket that are passed over at once: each tells of one datagram.
const ERRORS: usize = 4;

/// What becomes of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Goes {
    /// It goes on with the next datagram.
    On,
    /// It has used up its share; it goes on in the next turn.
    Further,
    /// It has ended, perhaps because something went wrong.
    Over(Option<Fault>),
}

/// The datagrams of a client.
#[derive(Debug)]
pub(super) struct Session {
    key: Key,
    port: Rc<Port>,
    place: ConnectionGuard,
    x: Exchange,
    local: Rc<LocalService>,
    endpoint: Endpoint,
    trial: Option<TrialGuard>,
    /// The first datagram for an endpoint that has said nothing yet, where it is short.
    unanswered: Option<Vec<u8>>,
    /// Datagrams of the client.
    asked: u64,
    /// Datagrams of the endpoints.
    answers: u64,
    /// The last word was an endpoint's.
    is_answered: bool,
    _places: Permits,
}

/// The endpoint that has a client's datagrams.
#[derive(Debug)]
struct Endpoint {
    socket: Datagrams,
    attempt_guard: AttemptGuard,
    began: Instant,
    /// It has sent something.
    is_heard: bool,
    /// It was set aside, or its service was, and is tried: not to refuse is all that can be expected where nobody
    /// answers.
    on_probation: bool,
    /// Its places, while it is not left for another one.
    places: Option<(Option<Permit>, ConnectionPlaces)>,
}

impl Session {
    /// Begins a session: finds its service and an endpoint. What went wrong is recorded.
    pub(super) fn begin(
        worker: &Worker,
        (key, port): (Key, &Rc<Port>),
        place: ConnectionGuard,
        owner: Owner,
    ) -> Result<Box<Self>, Drops> {
        let mut x = Exchange::new(owner);
        x.begin(worker.reactor.now());
        x.is_connection = true;
        x.id = Some(worker.next_id());
        x.client_ip = key.client();
        let began = (|| {
            find_route_from(worker, &place.listener().standing().ok_or(LISTENER_GONE)?, &mut x)?;
            let local = service(&x)?;
            let places = enter_or_leave(&x, &local).map_err(|limit| {
                worker.meters.limit(limit);
                Fault::new(FaultKind::ConnectionLimitReached, "max_in_flight is reached")
            })?;
            let trial = ask_breaker(worker, &mut x, &local)?;
            match connect(worker, &mut x, &local, trial.is_some()) {
                Ok(endpoint) => Ok((local, places, trial, endpoint)),
                Err(fault) => {
                    let ended = trial.map(|trial| (trial, Some(&fault)));
                    ended.into_iter().for_each(|ended| end_trial(worker, &x, &local, ended));
                    Err(fault)
                }
            }
        })();
        match began {
            Ok((local, _places, trial, endpoint)) => {
                x.status = SERVED;
                let (port, unanswered) = (port.clone(), None);
                let (asked, answers, is_answered) = (0, 0, false);
                Ok(Box::new(Self {
                    key,
                    port,
                    place,
                    x,
                    local,
                    endpoint,
                    trial,
                    unanswered,
                    asked,
                    answers,
                    is_answered,
                    _places,
                }))
            }
            Err(fault) => {
                let fault: Fault = fault;
                (x.fault, x.status) = (Some(fault), fault.status);
                let is_bound = fault.kind == FaultKind::ConnectionLimitReached;
                if is_bound {
                    // No line for each datagram that is more than there is room for.
                    worker.meters.fault(fault.kind);
                    worker.report(&fault, x.describe(), x.id.as_ref());
                } else {
                    record_of(worker, key.origin(&place), &mut x, || None);
                }
                Err(if is_bound { Drops::NoPlace } else { Drops::NoEndpoint })
            }
        }
    }

    /// Whose it is.
    pub(super) fn origin(&self) -> Origin<'_> {
        self.key.origin(&self.place)
    }

    /// What is recorded of it.
    pub(super) fn exchange(&self) -> &Exchange {
        &self.x
    }

    /// Passes on datagrams of the client.
    pub(super) fn pass_up(&mut self, worker: &Worker, batch: &mut Batch, datagrams: Range<usize>) -> Goes {
        let (mut left, meters) = (datagrams, self.place.listener().meters.clone());
        let is_first = self.asked == 0;
        self.asked += left.len() as u64;
        self.is_answered = false;
        while !left.is_empty() {
            let sent = batch.send(&self.endpoint.socket, left.clone(), None);
            if sent.count > 0 {
                self.keep(batch.at(left.start).bytes);
            }
            for at in left.start..left.start + sent.count {
                self.x.upward.note(batch.at(at).bytes.len());
            }
            meters.datagrams[0].add(sent.count as u64);
            left.start += sent.count;
            let Some(error) = sent.error else { continue };
            match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    // Of one that went before: this one has not gone.
                    if let Err(fault) = self.leave_endpoint(worker) {
                        meters.drop_datagrams(Drops::NoEndpoint, left.len());
                        return Goes::Over(Some(fault));
                    }
                }
                // What follows would only press on a full queue.
                io::ErrorKind::WouldBlock => {
                    meters.drop_datagrams(Drops::Unsent, left.len());
                    break;
                }
                _ => {
                    meters.drop_datagrams(Drops::Unsent, 1);
                    left.start += 1;
                }
            }
        }
        self.count_bytes(worker);
        // Probation ends with its time, and so does the wait for a first answer, however much the client has to say.
        let is_judged = self.endpoint.on_probation || self.owes_an_answer();
        if is_first || !is_judged {
            self.endpoint.socket.set_deadline(Some(self.silence(worker)));
        }
        Goes::On
    }

    /// Whether it has to answer, and has not said anything yet.
    fn owes_an_answer(&self) -> bool {
        !self.endpoint.is_heard && self.port.responses().is_some()
    }

    /// Datagrams of its endpoints so far.
    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// Keeps the first datagram for an endpoint until that has said something.
    fn keep(&mut self, datagram: &[u8]) {
        if !self.endpoint.is_heard && self.unanswered.is_none() && datagram.len() <= DATAGRAM_KEPT {
            self.unanswered = Some(datagram.to_vec());
        }
    }

    /// Passes on what has come of the endpoint, and looks whether the session has come to its end.
    pub(super) fn pass_down(&mut self, worker: &Worker, batch: &mut Batch) -> Goes {
        if self.endpoint.attempt_guard.standing.is_cut() {
            let detail = "the endpoint was removed and its drain time is over";
            return Goes::Over(Some(Fault::new(FaultKind::ConnectionTerminated, detail)));
        }
        let (mut errors, begun) = (0, Instant::now());
        loop {
            let count = match batch.receive(&self.endpoint.socket, false) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    if let Err(fault) = self.leave_endpoint(worker) {
                        return Goes::Over(Some(fault));
                    }
                    continue;
                }
                Err(_) if errors < ERRORS => {
                    errors += 1;
                    continue;
                }
                Err(_) => break,
            };
            self.hear(worker);
            self.answer(batch, count);
            self.count_bytes(worker);
            if self.has_all_answers() {
                return Goes::Over(None);
            }
            self.endpoint.socket.set_deadline(Some(self.silence(worker)));
            if count < Batch::PLACES {
                break;
            }
            if worker.udp.have_sessions_used(begun) {
                return Goes::Further;
            }
        }
        if self.endpoint.socket.expired() { self.fall_silent(worker) } else { Goes::On }
    }

    /// Sends datagrams of the endpoint to the client.
    fn answer(&mut self, batch: &mut Batch, count: usize) {
        let (meters, mut left) = (&self.place.listener().meters, 0..count);
        while !left.is_empty() {
            let sent = batch.send(&self.port.socket, left.clone(), Some(self.key.way));
            for at in left.start..left.start + sent.count {
                self.x.downward.note(batch.at(at).bytes.len());
            }
            meters.datagrams[1].add(sent.count as u64);
            left.start += sent.count;
            match sent.error {
                None => {}
                Some(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    meters.drop_datagrams(Drops::Unsent, left.len());
                    break;
                }
                Some(_) => {
                    meters.drop_datagrams(Drops::Unsent, 1);
                    left.start += 1;
                }
            }
        }
        self.answers += count as u64;
        self.is_answered = true;
    }

    /// The endpoint has said something.
    fn hear(&mut self, worker: &Worker) {
        if self.endpoint.is_heard {
            return;
        }
        (self.endpoint.is_heard, self.endpoint.on_probation) = (true, false);
        self.unanswered = None;
        self.x.tried.clear();
        if self.x.first_byte.is_none() {
            self.x.first_byte = Some(self.x.age(worker.reactor.now()));
        }
        let Endpoint { attempt_guard, began, .. } = &self.endpoint;
        count(worker, &self.local, attempt_guard, None);
        tell(worker, &self.local, &self.x, (attempt_guard, *began, false), None);
        self.end_trial(worker, None);
    }

    /// Tells the breaker what came of its trial, if this is one.
    fn end_trial(&mut self, worker: &Worker, fault: Option<&Fault>) {
        if let Some(trial) = self.trial.take() {
            end_trial(worker, &self.x, &self.local, (trial, fault));
        }
    }

    /// Nobody has the endpoint's port: another one gets what was not answered, and all that follows.
    fn leave_endpoint(&mut self, worker: &Worker) -> Result<(), Fault> {
        let fault = Fault::new(FaultKind::ConnectionRefused, "the endpoint refused a datagram");
        let left = &self.endpoint.attempt_guard;
        count(worker, &self.local, left, Some(&fault.into()));
        self.x.attempts.fail(fault, self.x.age(worker.reactor.now()));
        self.x.tried.push(left.index);
        self.endpoint.places = None;
        let found = if self.x.attempts.len() < TRIES {
            connect(worker, &mut self.x, &self.local, self.trial.is_some())
        } else {
            Err(fault)
        };
        self.endpoint = found?;
        let meters = self.local.meters.get(self.endpoint.attempt_guard.endpoint as usize);
        meters.inspect(|meters| meters.retries.add(1));
        if let Some(datagram) = &self.unanswered {
            // Where this one refuses too, that is heard of as the first refusal was.
            let _ = self.endpoint.socket.send(datagram);
        }
        self.endpoint.socket.set_deadline(Some(self.silence(worker)));
        Ok(())
    }

    /// Nothing was said for as long as may be.
    fn fall_silent(&mut self, worker: &Worker) -> Goes {
        if std::mem::take(&mut self.endpoint.on_probation) {
            count(worker, &self.local, &self.endpoint.attempt_guard, None);
            if !self.owes_an_answer() {
                self.end_trial(worker, None);
            }
            self.endpoint.socket.set_deadline(Some(self.silence(worker)));
            return Goes::On;
        }
        if self.owes_an_answer() {
            let Endpoint { attempt_guard, began, .. } = &self.endpoint;
            let fault = Fault::new(FaultKind::HttpResponseTimeout, "no answer to a datagram in time");
            tell(worker, &self.local, &self.x, (attempt_guard, *began, false), Some(&fault));
            self.x.attempts.fail(fault, self.x.age(worker.reactor.now()));
            return Goes::Over(Some(fault));
        }
        Goes::Over(None)
    }

    /// How long nothing may be said from now on.
    fn silence(&self, worker: &Worker) -> Duration {
        let idle = self.idle();
        match () {
            () if self.endpoint.on_probation => idle.min(FIRST_WORD_TIME),
            () if worker.is_draining() => idle.min(DRAIN_SILENCE),
            () => idle,
        }
    }

    fn idle(&self) -> Duration {
        self.x.timeouts().idle
    }

    /// The proxy stops: silence need not be waited for as long as before.
    pub(super) fn hurry(&self, worker: &Worker) {
        self.endpoint.socket.set_deadline(Some(self.silence(worker)));
    }

    /// Whether every datagram of the client has as many answers as it gets.
    fn has_all_answers(&self) -> bool {
        self.port.responses().is_some_and(|each| self.answers >= self.asked.saturating_mul(each.into()))
    }

    /// Whether it can be ended in favour of another client: it has what it asked for, and has been silent for a quarter
    /// of its time.
    pub(super) fn may_end_for_another(&self, silent_ms: u64) -> bool {
        self.is_answered && u128::from(silent_ms) >= self.idle().as_millis() / 4
    }

    /// Whether the plan in force still brings its client to this endpoint's service, and the endpoint is one of that.
    pub(super) fn is_of_plan(&self, worker: &Worker) -> bool {
        let local_listener = self.place.listener();
        let Some(Standing { view, position }) = local_listener.standing() else { return false };
        let is_open = worker
            .udp
            .ports
            .get(self.key.port)
            .is_some_and(|port| port.listener().state.id == local_listener.state.id);
        let found = view.plan.route_of_connection(position, b"", self.x.client_ip);
        let route = view.plan.route(found).filter(|_| is_open);
        let name = &self.local.state.service.name;
        let mut services = route.into_iter().flat_map(|route| route.to.services());
        let service = services.find_map(|id| view.service(id).filter(|it| it.state.service.name == *name));
        service.is_some_and(|service| service.state.has(&self.endpoint.attempt_guard.standing))
    }

    /// Counts what has been moved: a long session does not wait for its end.
    fn count_bytes(&mut self, worker: &Worker) {
        crate::exchange::record::count_bytes(worker, &mut self.x);
    }

    /// Records it.
    pub(super) fn end(mut self, worker: &Worker, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.end_trial(worker, Some(&fault));
            self.x.fault = Some(fault);
            if self.answers == 0 {
                self.x.status = fault.status;
            }
        }
        record_of(worker, self.key.origin(&self.place), &mut self.x, || None);
    }
}

/// A socket towards an endpoint that has not been tried yet; of a service that is tried itself, or not.
fn connect(
    worker: &Worker,
    x: &mut Exchange,
    local: &LocalService,
    is_trial: bool,
) -> Result<Endpoint, Fault> {
    let mut last = x.attempts.last().and_then(|attempt| attempt.fault);
    loop {
        let Some(chosen) = choose_or_leave(worker, x, local) else {
            return Err(none_left(&local.state, last));
        };
        let Chosen { attempt_guard, place, mut connection } = chosen;
        let Some(connection) = place_at_once(local, &attempt_guard, &mut connection) else {
            return Err(Fault::new(FaultKind::ConnectionLimitReached, "max_connections is reached"));
        };
        let now = worker.reactor.now();
        x.attempts.push(x.attempts.begin(attempt_guard.endpoint, x.age(now)));
        let fault = match open(worker, x.owner, &attempt_guard) {
            Ok(socket) => {
                local.meters.get(attempt_guard.endpoint as usize).inspect(|meters| meters.requests.add(1));
                let (is_heard, on_probation) = (false, is_trial || attempt_guard.standing.stage() != 0);
                let (began, places) = (now, Some((place, connection)));
                return Ok(Endpoint { socket, attempt_guard, began, is_heard, on_probation, places });
            }
            Err(fault) => fault,
        };
        count(worker, local, &attempt_guard, Some(&fault.into()));
        x.attempts.fail(fault, x.age(now));
        x.tried.push(attempt_guard.index);
        if !fault.kind.rule().hurts_endpoint || x.attempts.len() >= TRIES {
            return Err(fault);
        }
        last = Some(fault);
    }
}

fn open(worker: &Worker, owner: Owner, attempt_guard: &AttemptGuard) -> Result<Datagrams, Fault> {
    match attempt_guard.address() {
        PeerAddress::Tcp(address) => Datagrams::connect(&worker.reactor, *address, owner).map_err(|error| {
            // So the kernel says of datagrams that no port is left; it is not the endpoint's fault.
            let detail = "no local port for another session";
            match error.kind() {
                io::ErrorKind::WouldBlock => Fault::new(FaultKind::ConnectionLimitReached, detail),
                _ => fault_of(error),
            }
        }),
        PeerAddress::Unix(_) => {
            Err(Fault::new(FaultKind::ProxyInternalError, "datagrams go to no unix socket"))
        }
    }
}
