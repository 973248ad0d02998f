//! A connection that speaks HTTP/2: its engine, its streams, and how it comes to its end.

use super::closing::{Closing, GOAWAY_TIME};
use super::io::{Full, Intake, Pipe};
use super::server_stream::Stream;
use super::shared::Shared;
use crate::state::exchange::{Before, Client};
use crate::state::token::Token;
use crate::state::worker::Worker;
use crate::tls::layer::Known;
use ::h2::server::{Builder, Connection, Handshake, SendResponse};
use ::h2::{Reason, RecvStream};
use bytes::Bytes;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use thalweg_core::limits::H2_SETTINGS_TIME;
use thalweg_http::h2::FloodLimits;
use thalweg_net::Socket;

/// Time for a client to take the last bytes and to see the end, so that no reset destroys them.
const FAREWELL: Duration = Duration::from_millis(250);
/// Bytes that are read in that time.
const LAST_BYTES: usize = 64 * 1024;
/// How often a client that takes the last bytes slowly gets that time again.
const FAREWELLS: u8 = 60;

/// Payload that a stream, and all of a connection, may send before it is passed on.
const WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 4 * WINDOW;
/// Payload that the engine keeps of a stream for its client.
const SEND_BUFFER: usize = 64 * 1024;
/// Bytes of the table for field compression.
const TABLE: u32 = 4096;
/// Time in which a connection may begin before it can be sent away, in milliseconds.
const FRESH_MS: u64 = 1000;
/// What a field costs in a head beside its bytes (RFC 9113 §6.5.2).
const PER_FIELD: usize = 32;

/// One connection.
pub(super) struct Session {
    state: State,
    pipe: Pipe<Client>,
    shared: Rc<Shared>,
    waker: Waker,
    /// Requests that have come.
    requests: u32,
    /// The remaining allowance, once GOAWAY was sent, or is due as soon as the connection is open.
    closing: Option<Closing>,
    /// The last GOAWAY has been sent, naming the last served stream.
    has_parted: bool,
    /// The engine has been told to end it for what the client has done.
    is_shed: bool,
    /// When it began, in milliseconds of the worker's clock.
    began: u64,
    /// Nothing is under way, and the deadline for that runs.
    is_idle: bool,
    /// Since when it is so, or not, in milliseconds of the worker's clock.
    since: u64,
    /// Bytes that were left to send when the deadline for that passed last.
    left: usize,
    /// How often it may pass yet on a connection that is over.
    farewells: u8,
}

enum State {
    OpeningGuard(Box<Handshake<Pipe<Client>, Bytes>>),
    Open(Box<Connection<Pipe<Client>, Bytes>>),
    /// So many bytes may still be read; `None`: the last bytes have not been sent.
    Leaving(Option<usize>),
}

impl Session {
    /// Speaks HTTP/2 with a client, of which `received` has come already.
    pub(super) fn new(worker: &Worker, client: Client, received: Vec<u8>, waker: Waker) -> Box<Self> {
        let limits = worker.view_for(&client).head_limits;
        client.socket.set_deadline(Some(worker.view_for(&client).plan.client_timeouts.head));
        let max_streams = client.listener().limits().max_streams;
        let meter = FloodLimits { max_streams, max_head: limits.head, max_fields: limits.fields };
        let shared = Rc::new(Shared::with_client(waker.clone(), Known::of(&client.socket), meter));
        shared.count_in(worker.sessions.idle_count());
        let pipe = Pipe::new(client, &shared, received, Full::StopsReading);
        let most_head = limits.head.saturating_add(PER_FIELD * limits.fields);
        let handshake = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(max_streams)
            .enable_connect_protocol()
            .header_table_size(TABLE)
            .max_header_list_size(u32::try_from(most_head).unwrap_or(u32::MAX))
            .max_send_buffer_size(SEND_BUFFER)
            .max_concurrent_reset_streams(50)
            .reset_stream_duration(Duration::from_secs(1))
            .max_pending_accept_reset_streams(100)
            .max_local_error_reset_streams(None)
            // What it bounds is kept elsewhere (`inlet.rs`).
            .data_frame_budget(usize::MAX)
            .handshake(pipe.clone());
        let state = State::OpeningGuard(Box::new(handshake));
        Box::new(Self {
            state,
            pipe,
            shared,
            waker,
            requests: 0,
            closing: None,
            has_parted: false,
            is_shed: false,
            began: worker.now_ms(),
            is_idle: true,
            since: worker.now_ms(),
            left: usize::MAX,
            farewells: FAREWELLS,
        })
    }

    /// Its client's connection.
    pub(super) fn with_client<T>(&self, ask: impl FnOnce(&Client) -> T) -> T {
        self.pipe.with_peer(ask)
    }

    /// Whether no exchange is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.streams.get() == 0
    }

    /// Bytes that the engine has for a client that has not been able to take them.
    pub(super) fn left_to_send(&self) -> usize {
        self.pipe.unsent() + self.shared.held()
    }

    /// Received bytes that exchanges have not taken, and the capacity of its buffers beyond the bytes still to send.
    pub(super) fn buffers(&self) -> usize {
        self.pipe.spare() + self.shared.received()
    }

    /// Since when nothing has been under way, where that makes it one to be sent away, and whether its client has not
    /// taken all of the last responses: those come last. One that has not begun yet gets a moment.
    pub(super) fn evictable_since(&self, now_ms: u64) -> Option<(bool, u64)> {
        let is_idle = match self.state {
            State::OpeningGuard(_) => now_ms.saturating_sub(self.since) >= FRESH_MS,
            State::Open(_) => self.is_idle(),
            State::Leaving(_) => false,
        };
        is_idle.then(|| (self.left_to_send() > 0, self.since))
    }

    /// Says farewell at once.
    pub(super) fn part(&mut self) {
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(Reason::NO_ERROR);
            let _ = connection.poll_closed(&mut Context::from_waker(Waker::noop()));
        }
        self.send();
        self.with_client(|client| client.socket.shutdown_write());
    }

    /// Stops taking requests, except those that may already be in flight; open streams run to their end.
    pub(super) fn go_away(&mut self, now_ms: u64) {
        if self.closing.is_some() {
            return;
        }
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
            self.is_idle = false;
        }
        let max_streams = self.with_client(|client| client.listener().limits().max_streams);
        self.closing = Some(Closing::new(now_ms, max_streams));
    }

    /// Does what can be done now, and gives the requests that have come; `Ready`: the connection is over.
    pub(super) fn poll(&mut self, worker: &Worker, requests: &mut Vec<Client>) -> Poll<()> {
        self.shared.now_ms.set(worker.now_ms());
        self.pipe.begin_turn();
        let waker = self.waker.clone();
        let context = &mut Context::from_waker(&waker);
        loop {
            match &mut self.state {
                State::OpeningGuard(handshake) => match Pin::new(&mut **handshake).poll(context) {
                    Poll::Ready(Ok(connection)) => {
                        self.state = State::Open(Box::new(connection));
                        if self.closing.take().is_some() {
                            self.go_away(worker.now_ms());
                        }
                    }
                    Poll::Ready(Err(_)) => self.leave(),
                    Poll::Pending => match self.pipe.open() {
                        // The client has ended in the middle of it.
                        Intake::Heads => {}
                        Intake::Flooded => self.leave(),
                        _ if self.has_expired() => self.leave(),
                        _ => break,
                    },
                },
                State::Open(connection) => match connection.poll_accept(context) {
                    Poll::Ready(Some(Ok(request))) => requests.extend(self.admit(worker, request)),
                    Poll::Ready(Some(Err(_)) | None) => self.leave(),
                    Poll::Pending => match self.pipe.open() {
                        Intake::Heads => {}
                        Intake::Turn => {
                            worker.scheduler.ask_for_more();
                            break;
                        }
                        Intake::Flooded if !std::mem::replace(&mut self.is_shed, true) => {
                            self.shed(worker);
                        }
                        Intake::Flooded => self.leave(),
                        Intake::Open if self.keep_time(worker) => break,
                        Intake::Open => {}
                    },
                },
                State::Leaving(_) => return self.poll_leave(worker),
            }
        }
        self.shared.tell_streams();
        self.shared.end();
        Poll::Pending
    }

    /// Ends the connection for what its client has done: the engine says why, and all streams end.
    fn shed(&mut self, worker: &Worker) {
        let (State::Open(connection), Some(flood)) = (&mut self.state, self.shared.flood.get()) else {
            return self.leave();
        };
        connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        self.with_client(|client| client.listener().meters.count_flood(flood.row()));
        worker.notice(|| {
            self.with_client(|client| {
                let (name, peer) = (&client.listener().state.name, client.peer);
                format!("listener `{name}`: {} from {peer}; its connection was ended", flood.detail())
            })
        });
    }

    /// Bytes that the engine has written and the kernel has not got.
    pub(super) fn unsent(&self) -> usize {
        self.pipe.unsent()
    }

    /// The engine has panicked.
    pub(super) fn engine_panicked(&self) {
        self.shared.engine_panicked();
    }

    /// Hands the kernel what the engine has written.
    pub(super) fn send(&mut self) {
        // What cannot be sent is met by the engine when it writes again, or by the reader.
        let _ = self.pipe.poll_send();
    }

    /// Whether it goes on as it is.
    fn keep_time(&mut self, worker: &Worker) -> bool {
        let is_idle = self.is_idle();
        // A deadline that has passed says something of the state in which it was set.
        if is_idle == self.is_idle && self.has_expired() {
            if !is_idle && self.awaits_acknowledgement() {
                self.refuse_to_wait();
                return false;
            }
            if !is_idle {
                self.with_client(|client| client.socket.set_deadline(None));
                return true;
            }
            let left = self.left_to_send();
            if left > 0 && left < std::mem::replace(&mut self.left, left) {
                // It takes what the last responses have left.
                self.with_client(|client| client.socket.set_deadline(Some(GOAWAY_TIME)));
                return true;
            }
            match self.closing {
                Some(_) => self.end(),
                None => self.go_away(worker.now_ms()),
            }
            return false;
        }
        if is_idle != std::mem::replace(&mut self.is_idle, is_idle) {
            self.since = worker.now_ms();
            self.left = usize::MAX;
            let time = match is_idle {
                true if self.closing.is_some() => Some(GOAWAY_TIME),
                true => {
                    Some(self.with_client(|client| worker.view_for(client).plan.client_timeouts.keep_alive))
                }
                false if self.awaits_acknowledgement() => {
                    Some(H2_SETTINGS_TIME.saturating_sub(Duration::from_millis(self.since - self.began)))
                }
                false => None,
            };
            self.with_client(|client| client.socket.set_deadline(time));
        }
        true
    }

    /// Whether the client has not said yet that it goes by our settings.
    fn awaits_acknowledgement(&self) -> bool {
        self.shared.meter.borrow().awaits_acknowledgement()
    }

    /// Ends the connection of a client that has not acknowledged our settings in time (RFC 9113 §6.5.3).
    fn refuse_to_wait(&mut self) {
        match &mut self.state {
            State::Open(connection) if !std::mem::replace(&mut self.is_shed, true) => {
                connection.abrupt_shutdown(Reason::SETTINGS_TIMEOUT);
            }
            _ => self.leave(),
        }
    }

    fn has_expired(&self) -> bool {
        self.with_client(|client| client.socket.expired())
    }

    /// Takes a request, or refuses it after GOAWAY.
    fn admit(
        &mut self,
        worker: &Worker,
        (request, mut respond): (::http::Request<RecvStream>, SendResponse<Bytes>),
    ) -> Option<Client> {
        let now_ms = worker.now_ms();
        if self.closing.as_mut().is_some_and(|closing| !closing.takes_one(now_ms)) {
            respond.send_reset(Reason::REFUSED_STREAM);
            return None;
        }
        self.requests = self.requests.saturating_add(1);
        if self.with_client(|client| client.listener().limits().are_spent(self.requests)) {
            self.go_away(now_ms);
        }
        Some(self.guest(worker, (request, respond)))
    }

    /// Sends the last GOAWAY on a connection without open streams.
    fn end(&mut self) {
        match &mut self.state {
            State::Open(connection) if !std::mem::replace(&mut self.has_parted, true) => {
                connection.abrupt_shutdown(Reason::NO_ERROR);
            }
            _ => self.leave(),
        }
    }

    /// A request, as the client of an exchange.
    fn guest(&self, worker: &Worker, request: (::http::Request<RecvStream>, SendResponse<Bytes>)) -> Client {
        let stream = Stream::new(request, &self.shared, worker.mailbox());
        let owner = Token::Idle(u32::MAX).into();
        let socket = Socket::of_stream(&worker.reactor, Box::new(stream), owner);
        self.with_client(|client| Client {
            socket,
            peer: client.peer,
            port: client.port,
            requests: 0,
            before: Before::Introduction,
            place: client.place.guest(),
        })
    }

    fn leave(&mut self) {
        self.shared.tell_streams();
        self.state = State::Leaving(None);
        self.left = usize::MAX;
        self.with_client(|client| client.socket.set_deadline(Some(FAREWELL)));
    }

    /// Sends what is left, says farewell and reads what still comes.
    fn poll_leave(&mut self, worker: &Worker) -> Poll<()> {
        if self.has_expired() {
            let left = self.pipe.unsent();
            let is_sending =
                matches!(self.state, State::Leaving(None)) && !self.is_shed && self.farewells > 0;
            self.farewells = self.farewells.saturating_sub(1);
            if !is_sending || left >= std::mem::replace(&mut self.left, left) {
                return Poll::Ready(());
            }
            // It takes what the last responses have left.
            self.with_client(|client| client.socket.set_deadline(Some(GOAWAY_TIME)));
        }
        let State::Leaving(left) = &mut self.state else { return Poll::Ready(()) };
        let left = match left {
            Some(left) => left,
            None => {
                if ready!(self.pipe.poll_send()).is_err() {
                    return Poll::Ready(());
                }
                self.pipe.with_peer(|client| client.socket.shutdown_write());
                left.insert(LAST_BYTES)
            }
        };
        let mut scratch = worker.scratch.borrow_mut();
        loop {
            match ready!(self.pipe.with_peer(|client| client.socket.poll_discard(&mut scratch))) {
                Ok(n @ 1..) if n < *left => *left -= n,
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.count_out();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("shared", &self.shared).finish_non_exhaustive()
    }
}
