//! Part of phase 5: a connection to a member, from its pool or new.

use crate::choose::{Chosen, shun};
use crate::connection_place::{Room, connection_place};
use crate::exchange::{Attempt, Client, Exchange};
use crate::owner::Target;
use crate::peer_tls::{Failed, secure};
use crate::view::LocalService;
use crate::worker::Worker;
use rustix::io::Errno;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};
use thalweg_net::Socket;
use thalweg_net::connect::Manner;
use thalweg_upstream::{Connection, ConnectionPlaces, Member, Permit, Visit};

/// A connection on which the exchange's request travels, and where it goes back to.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) connection: Connection,
    /// The attempt, counted until the exchange is done with the connection.
    pub(crate) visit: Visit,
    /// The place at its endpoint, where that has a bound; left when the exchange is done with it.
    pub(crate) _place: Option<Permit>,
}

/// Takes an idle connection of the member (unless `fresh`) or opens one.
pub(crate) async fn connect(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    chosen: Chosen,
    fresh: bool,
) -> Result<Upstream, Fault> {
    let Chosen { visit, place, connection } = chosen;
    let local = &service(x)?;
    let mut attempt = Attempt::new(visit.endpoint, x.age(worker.reactor.now()));
    let mut connection = match find(worker, client, x, local, (&visit, fresh, connection)).await {
        Ok(Found::Idle(connection)) => {
            attempt.reused = true;
            x.attempts.push(attempt);
            connection.socket.set_owner(x.owner);
            connection
        }
        Ok(Found::Room(places)) => {
            let opened = open(worker, client, x, (&visit, &mut attempt)).await;
            x.attempts.push(attempt);
            count(worker, local, &visit, opened.as_ref().err());
            opened.map_err(|failed| failed.fault)?.with(places)
        }
        Err(fault) => {
            x.attempts.push(attempt);
            return Err(fault);
        }
    };
    connection.requests += 1;
    Ok(Upstream { connection, visit, _place: place })
}

/// A connection, or the places for one.
enum Found {
    Idle(Connection),
    Room(ConnectionPlaces),
}

/// Looks into the pool, unless `fresh`; for a new connection, takes the places that it needs beside those that it has.
async fn find(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    (member, fresh, places): (&Member, bool, ConnectionPlaces),
) -> Result<Found, Fault> {
    let (policy, sure) = (&local.state.service.pool, !x.request.method.is_idempotent());
    if !fresh && let Some(connection) = member.pool.take(policy, worker.reactor.now(), sure) {
        return Ok(Found::Idle(connection));
    }
    let handover = match connection_place(worker, client, x, local, (member, !fresh, places)).await? {
        Room::ToOpen(places) => return Ok(Found::Room(places)),
        Room::Given(handover) => handover,
    };
    worker.make_upstream_room();
    let watch = |loose| Socket::watched(&worker.reactor, loose, x.owner).ok();
    // Where it has ended on the way, its places are good for another one.
    let received = handover.receive(policy, worker.reactor.now(), &worker.upstream_open, watch);
    Ok(received.map_or_else(Found::Room, Found::Idle))
}

/// The service of the exchange's route, held beside the exchange so that that stays free.
pub(crate) fn service(x: &Exchange) -> Result<Rc<LocalService>, Fault> {
    x.service.clone().ok_or(Fault::new(FaultKind::ProxyInternalError, "the route has no service"))
}

/// Gives a connection back to its pool.
pub(crate) fn put_back(worker: &Worker, x: &Exchange, upstream: Upstream) {
    let Some(local) = x.service() else { return };
    if upstream.connection.narrow && !worker.chunks.is_crowded() {
        return;
    }
    let owner = Target::Pool(local.slot).into();
    upstream.visit.pool.put(upstream.connection, &local.state.service.pool, owner);
}

async fn open(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
    (member, attempt): (&Member, &mut Attempt),
) -> Result<Connection, Failed> {
    let began = Instant::now();
    let mut connection = begin(worker, x, member)?;
    let timeouts = x.route().map(|route| route.timeouts).unwrap_or_default();
    x.set_deadline(client, worker.reactor.now(), timeouts.connect);
    let connected = poll_fn(|_| match poll_connected(&connection) {
        Poll::Ready(done) => Poll::Ready(done),
        Poll::Pending => {
            given_up(worker, client, x, LATE).map_or(Poll::Pending, |fault| Poll::Ready(Err(fault)))
        }
    });
    let connected = connected.await;
    attempt.connect = began.elapsed();
    let connected = match connected {
        Ok(()) => secure(worker, client, x, (member, &mut connection, attempt)).await,
        Err(fault) => Err(fault.into()),
    };
    client.socket.set_deadline(None);
    connected.map(|()| connection)
}

/// Why a connection that is not there yet is no longer waited for: what it has of time is over (`late`), or the client has
/// left.
pub(crate) fn given_up(worker: &Worker, client: &Client, x: &Exchange, late: Fault) -> Option<Fault> {
    if client.socket.expired() {
        return Some(x.overdue(worker.reactor.now()).unwrap_or(late));
    }
    let has_left = client.socket.peer_closed() && x.framing.is_empty();
    has_left.then_some(Fault::new(FaultKind::ClientGone, "the client left while connecting"))
}

/// No answer to the connect in time.
pub(crate) const LATE: Fault = Fault::new(FaultKind::ConnectionTimeout, "no answer to the connect in time");

/// Begins to connect to the member.
///
/// # Errors
/// When it is clear at once that there will be no connection.
pub(crate) fn begin(worker: &Worker, x: &Exchange, member: &Member) -> Result<Connection, Fault> {
    worker.make_upstream_room();
    let timeouts = x.route().map(|route| route.timeouts).unwrap_or_default();
    let silence = timeouts.idle.max(timeouts.first_byte);
    let buffers = worker.shared.loads.budget.socket_buffers;
    let manner = Manner { silence, narrow: worker.chunks.is_crowded(), buffers };
    let socket = thalweg_net::connect::start(&worker.reactor, member.address(), x.owner, manner);
    let socket = socket.map_err(fault_of)?;
    let mut connection = Connection::new(socket, worker.reactor.now(), &worker.upstream_open);
    connection.narrow = manner.narrow;
    Ok(connection)
}

/// Whether a connection that was begun is there; an error when there will be none.
pub(crate) fn poll_connected(connection: &Connection) -> Poll<Result<(), Fault>> {
    connection.socket.poll_connected().map_err(fault_of)
}

/// Tells what came of a connect: that it succeeded, or why not.
pub(crate) fn count(worker: &Worker, local: &LocalService, visit: &Visit, failed: Option<&Failed>) {
    let meters = local.meters.get(visit.endpoint as usize);
    let up = |value| {
        local.up.get(visit.endpoint as usize).inspect(|gauge| gauge.set(value));
    };
    let now = worker.reactor.now();
    match failed {
        None => {
            meters.inspect(|meters| meters.connects.add(1));
            if visit.accepted(now) {
                up(1);
                worker.notice(|| format!("{}: it accepts connections again", worker.name_of(local, visit)));
            }
        }
        Some(failed) if failed.fault.kind.rule().hurts_endpoint => {
            meters.inspect(|meters| meters.connect_failures.add(1));
            shun(local, visit);
            if visit.refused(now, failed.cause()) {
                up(0);
                worker.notice(|| format!("{}: {failed}; set aside", worker.name_of(local, visit)));
            }
        }
        Some(_) => {}
    }
}

fn fault_of(error: io::Error) -> Fault {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED | Errno::NOENT | Errno::CONNRESET | Errno::AGAIN) => {
            Fault::new(FaultKind::ConnectionRefused, "the endpoint refused the connection")
        }
        Some(Errno::TIMEDOUT) => LATE,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL) => Fault::new(
            FaultKind::ConnectionLimitReached,
            "no descriptor or local port for another connection",
        ),
        _ => Fault::new(FaultKind::DestinationIpUnroutable, "there is no way to the endpoint"),
    }
}
