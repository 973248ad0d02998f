//! Part of phase 5: a connection to a member, from its pool or new; or a stream of one that carries several requests.

use crate::exchange::upstream::await_stream::{Awaited, await_stream};
use crate::exchange::upstream::check_own::check_own;
use crate::exchange::upstream::connection_permit::{Room, connection_place};
use crate::exchange::upstream::pick::{Chosen, shun};
use crate::exchange::upstream::tls::{Failed, secure};
use crate::h2;
use crate::state::exchange::{Attempt, Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::token::Token;
use crate::state::waiting::{LATE, given_up};
use crate::state::worker::Worker;
use crate::tls::layer::facts;
use rustix::io::Errno;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::Upgrade;
use thalweg_net::Socket;
use thalweg_net::connect::{ConnectOptions, ConnectTarget, PeerAddress, needs_keepalive};
use thalweg_tls::Offer;
use thalweg_upstream::{
    AttemptGuard, Connection, ConnectionPlaces, Member, OpeningGuard, Permit, Protocol, Speaks,
};

/// A connection on which the exchange's request travels, and where it goes back to.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) connection: Connection,
    /// The attempt, counted until the exchange is done with the connection.
    pub(crate) attempt_guard: AttemptGuard,
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
    let Chosen { attempt_guard, place, connection } = chosen;
    let local = &service(x)?;
    let offer = offer(x, local, &attempt_guard)?;
    let mut attempt = x.attempts.begin(attempt_guard.endpoint, x.age(worker.reactor.now()));
    let wish = WaitFor { member: &attempt_guard, fresh, places: connection, offer };
    let mut connection = match find(worker, client, x, local, wish).await {
        Ok(Found::Idle(connection)) => {
            attempt.reused = connection.requests > 0;
            x.attempts.push(attempt);
            connection.socket.set_owner(x.owner);
            connection
        }
        Ok(Found::Room(places, opening)) => {
            let opened = open(worker, client, x, (&attempt_guard, &mut attempt), offer).await;
            x.attempts.push(attempt);
            count(worker, local, &attempt_guard, opened.as_ref().err());
            match opened {
                Ok((connection, Speaks::Http1)) => {
                    if offer == Offer::Either {
                        attempt_guard.pool.multiplexed_pool.note(Speaks::Http1);
                    }
                    connection.with(places)
                }
                Ok((connection, Speaks::Http2)) => {
                    let stream = multiplex(worker, x, local, (&attempt_guard, connection.with(places)))?;
                    stream.socket.set_owner(x.owner);
                    stream
                }
                Err(failed) => {
                    // What only concerns this exchange leaves the next in line its turn.
                    let kind = failed.fault.kind;
                    let concerns_all =
                        kind.rule().hurts_endpoint || kind == FaultKind::ConnectionLimitReached;
                    if let Some(opening) = opening.filter(|_| concerns_all) {
                        opening.fail(failed.fault);
                    }
                    return Err(failed.fault);
                }
            }
        }
        Err(fault) => {
            x.attempts.push(attempt);
            return Err(fault);
        }
    };
    connection.requests += 1;
    Ok(Upstream { connection, attempt_guard, _place: place })
}

/// A connection, or the places for one.
enum Found<'a> {
    Idle(Connection),
    /// Where it may turn out to carry several requests, others wait for it.
    Room(ConnectionPlaces, Option<OpeningGuard<'a, Socket>>),
}

/// What an attempt wants.
struct WaitFor<'a> {
    member: &'a Member,
    /// No connection that was used before.
    fresh: bool,
    /// Those that it has.
    places: ConnectionPlaces,
    offer: Offer,
}

/// What may be spoken with the member for this request.
///
/// # Errors
/// `http_upgrade_failed` for what can only be said in HTTP/1.1 where that is not spoken.
fn offer(x: &Exchange, local: &LocalService, member: &Member) -> Result<Offer, Fault> {
    let switches = matches!(x.upgrade, Upgrade::WebSocket | Upgrade::Other);
    match local.state.service.protocol {
        _ if x.is_connection => Ok(Offer::Http1),
        Protocol::Http1 => Ok(Offer::Http1),
        Protocol::Auto if switches || !member.is_secure() => Ok(Offer::Http1),
        Protocol::Auto => Ok(Offer::Either),
        Protocol::Http2 if x.upgrade == Upgrade::Other => {
            let detail =
                "HTTP/2, which is all that is spoken with the endpoint, knows no switch to that protocol";
            Err(Fault::new(FaultKind::HttpUpgradeFailed, detail))
        }
        Protocol::Http2 => Ok(Offer::Http2),
    }
}

/// Whether a request to the member will be a stream of a connection, as far as is known.
pub(crate) fn is_multiplexed(x: &Exchange, local: &LocalService, member: &Member) -> bool {
    match offer(x, local, member) {
        Ok(Offer::Http2) => true,
        Ok(Offer::Either) => member.pool.multiplexed_pool.speaks() == Some(Speaks::Http2),
        Ok(Offer::Http1) | Err(_) => false,
    }
}

/// A connection to the member, or a stream of one, that can be had at once.
pub(crate) fn idle(
    local: &LocalService,
    x: &Exchange,
    member: &Member,
    now: Instant,
    sure: bool,
) -> Option<Connection> {
    let (pool, policy) = (&member.pool, &local.state.service.pool);
    match is_multiplexed(x, local, member) {
        true => pool.multiplexed_pool.take(policy, now, false),
        false => pool.take(policy, now, sure),
    }
}

/// Looks into the pool, unless `fresh`; for a new connection, takes the places that it needs beside those that it has.
async fn find<'a>(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    wish: WaitFor<'a>,
) -> Result<Found<'a>, Fault> {
    let WaitFor { member, fresh, mut places, offer } = wish;
    let (policy, sure) = (&local.state.service.pool, !x.request.method.is_idempotent());
    let is_multiplexed = is_multiplexed(x, local, member);
    let may_reuse = is_multiplexed || !fresh;
    if may_reuse && let Some(connection) = idle(local, x, member, worker.reactor.now(), sure) {
        return Ok(Found::Idle(connection));
    }
    let mut opening = None;
    if is_multiplexed || (offer == Offer::Either && member.pool.multiplexed_pool.speaks().is_none()) {
        // In a box because it is rare: every task would be larger for it.
        match Box::pin(await_stream(worker, client, x, local, (member, &mut places))).await? {
            Awaited::Stream(stream) => return Ok(Found::Idle(stream)),
            Awaited::Turn(turn) => opening = Some(turn),
            Awaited::Other => {}
        }
    }
    let reuse = !fresh && opening.is_none();
    let handover = match connection_place(worker, client, x, local, (member, reuse, places)).await? {
        Room::ToOpen(places) => return Ok(Found::Room(places, opening)),
        Room::Given(handover) => handover,
    };
    worker.make_upstream_room();
    let watch = |loose| Socket::watched(&worker.reactor, loose, x.owner).ok();
    // Where it has ended on the way, its places are good for another one.
    let received = handover.receive(policy, worker.reactor.now(), &worker.upstream_open, watch);
    Ok(received.map_or_else(|places| Found::Room(places, opening), Found::Idle))
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
    let owner = match upstream.attempt_guard.is_guest() {
        true => Token::Destination(local.slot, upstream.attempt_guard.index),
        false => Token::Pool(local.slot),
    };
    let owner = owner.into();
    upstream.attempt_guard.pool.put(upstream.connection, &local.state.service.pool, owner);
}

async fn open(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
    (member, attempt): (&Member, &mut Attempt),
    offer: Offer,
) -> Result<(Connection, Speaks), Failed> {
    let began = Instant::now();
    let mut connection = begin(worker, x, member)?;
    let timeouts = x.timeouts();
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
        Ok(()) => secure(worker, client, x, (member, &mut connection, attempt), offer).await,
        Err(fault) => Err(fault.into()),
    };
    client.socket.set_deadline(None);
    connected?;
    let speaks = spoken(&connection, offer)?;
    Ok((connection, speaks))
}

/// What is spoken on a new connection.
fn spoken(connection: &Connection, offer: Offer) -> Result<Speaks, Failed> {
    let has_chosen = match facts(&connection.socket) {
        Some(facts) => facts.alpn.as_deref() == Some(b"h2"),
        None => offer == Offer::Http2,
    };
    match (has_chosen, offer) {
        (true, _) => Ok(Speaks::Http2),
        (false, Offer::Http1 | Offer::Either) => Ok(Speaks::Http1),
        (false, Offer::Http2) => {
            let detail = "the endpoint did not choose HTTP/2 (ALPN)";
            Err(Fault::new(FaultKind::TlsProtocolError, detail).into())
        }
    }
}

/// Has a new connection carry several requests at once; gives its first stream.
fn multiplex(
    worker: &Worker,
    x: &Exchange,
    local: &LocalService,
    (member, connection): (&Member, Connection),
) -> Result<Connection, Fault> {
    let (service, multiplexed_pool) = (&local.state.service, &member.pool.multiplexed_pool);
    let authority = service.endpoints.get(member.endpoint as usize).map_or("", |it| it.authority());
    let terms = h2::Terms {
        line: multiplexed_pool.line().clone(),
        limits: x.head_limits,
        authority: authority.into(),
        idle: service.pool.idle,
    };
    let none = Fault::new(FaultKind::ProxyInternalError, "a new connection of HTTP/2 without a stream");
    let multiplexed = worker.open_trunk(connection, terms).ok_or(none)?;
    let now = worker.reactor.now();
    multiplexed_pool.add(multiplexed, now);
    multiplexed_pool.take(&service.pool, now, true).ok_or(none)
}

/// Begins to connect to the member.
///
/// # Errors
/// When it is clear at once that there will be no connection.
pub(crate) fn begin(worker: &Worker, x: &Exchange, member: &Member) -> Result<Connection, Fault> {
    check_own(worker, x, member)?;
    worker.make_upstream_room();
    let timeouts = x.timeouts();
    let silence = timeouts.idle.max(timeouts.first_byte);
    let keepalive = !x.is_connection || needs_keepalive(timeouts.idle);
    let buffers = worker.shared.loads.budget.socket_buffers;
    let manner = ConnectOptions { silence, keepalive, narrow: worker.chunks.is_crowded(), buffers };
    let socket = start(worker, x, member.address(), manner).map_err(fault_of)?;
    let mut connection = Connection::new(socket, worker.reactor.now(), &worker.upstream_open);
    connection.narrow = manner.narrow;
    Ok(connection)
}

/// Begins it from whichever of the service's addresses has a port left, in turn.
fn start(worker: &Worker, x: &Exchange, to: &PeerAddress, manner: ConnectOptions) -> io::Result<Socket> {
    let policy = x.service().and_then(|local| local.state.service.destinations.as_ref());
    let sources = policy.map_or(&[][..], |policy| &policy.sources[..]);
    let begin =
        |from| thalweg_net::connect::start(&worker.reactor, ConnectTarget { to, from }, x.owner, manner);
    let PeerAddress::Tcp(address) = to else { return begin(None) };
    let fits = |source: &&IpAddr| source.is_ipv4() == address.is_ipv4();
    let all = sources.iter().filter(fits).count();
    if all == 0 {
        return begin(None);
    }
    let first = worker.chance() % all;
    let in_turn = sources.iter().filter(fits).cycle().skip(first).take(all);
    let mut last = Err(io::ErrorKind::AddrNotAvailable.into());
    for source in in_turn {
        last = begin(Some(*source));
        let is_exhausted = |error: &io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
        if !last.as_ref().is_err_and(is_exhausted) {
            break;
        }
    }
    last
}

/// Whether a connection that was begun is there; an error when there will be none.
pub(crate) fn poll_connected(connection: &Connection) -> Poll<Result<(), Fault>> {
    connection.socket.poll_connected().map_err(fault_of)
}

/// Tells what came of a connect: that it succeeded, or why not.
pub(crate) fn count(
    worker: &Worker,
    local: &LocalService,
    attempt_guard: &AttemptGuard,
    failed: Option<&Failed>,
) {
    let meters = local.meters.get(attempt_guard.endpoint as usize);
    let up = |value| {
        local.up.get(attempt_guard.endpoint as usize).inspect(|gauge| gauge.set(value));
    };
    let now = worker.reactor.now();
    if attempt_guard.is_guest() {
        // Whoever asks for it next asks it itself.
        return;
    }
    match failed {
        None => {
            meters.inspect(|meters| meters.connects.add(1));
            if attempt_guard.accepted(now) {
                up(1);
                worker.notice(|| {
                    format!("{}: it accepts connections again", worker.name_of(local, attempt_guard))
                });
            }
        }
        Some(failed) if failed.fault.kind.rule().hurts_endpoint => {
            meters.inspect(|meters| meters.connect_failures.add(1));
            shun(local, attempt_guard);
            if attempt_guard.refused(now, failed.cause()) {
                up(0);
                worker.notice(|| format!("{}: {failed}; set aside", worker.name_of(local, attempt_guard)));
            }
        }
        Some(_) => {}
    }
}

pub(crate) fn fault_of(error: io::Error) -> Fault {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED | Errno::NOENT | Errno::CONNRESET | Errno::AGAIN) => {
            Fault::new(FaultKind::ConnectionRefused, "the endpoint refused the connection")
        }
        Some(Errno::TIMEDOUT) => LATE,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL) => Fault::new(
            FaultKind::ConnectionLimitReached,
            "no file descriptor or local port is left for another connection",
        ),
        _ => Fault::new(FaultKind::DestinationIpUnroutable, "the network has no route to the endpoint"),
    }
}
