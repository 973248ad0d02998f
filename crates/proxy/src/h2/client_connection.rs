//! A connection to an endpoint that speaks HTTP/2: its engine, and the handle by which requests get on it.

use super::client_stream::Call;
use super::guarded::Guarded;
use super::io::{Full, Intake, Pipe};
use super::shared::Shared;
use crate::state::shared::Command;
use crate::state::worker::Worker;
use ::h2::client::{Builder, SendRequest};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use thalweg_core::limits::H2_STREAMS;
use thalweg_http::h1::HeadLimits;
use thalweg_http::h2::FloodLimits;
use thalweg_net::{Mailbox, Owner, Reactor, Socket};
use thalweg_upstream::{Connection, Multiplexed, StreamLine};

/// Requests at a time on one connection; fewer where the endpoint wants fewer.
const STREAMS: usize = H2_STREAMS as usize;
/// Payload that an endpoint may send on a stream before it is passed on, and on all of them: streams whose clients read
/// nothing take no window from others.
const WINDOW: u32 = 160 * 1024;
const CONNECTION_WINDOW: u32 = STREAMS as u32 * WINDOW;
/// Payload that the engine keeps of a stream for the endpoint.
const SEND_BUFFER: usize = 64 * 1024;
/// What a field costs in a head beside its bytes (RFC 9113 §6.5.2).
const PER_FIELD: usize = 32;

type Engine = ::h2::client::Connection<Pipe<Connection>, Bytes>;

/// What exchanges know of a connection.
pub(super) struct ConnectionHandle {
    /// `None`: it takes no more.
    requests: RefCell<Option<Guarded<SendRequest<Bytes>>>>,
    pub(super) shared: Rc<Shared>,
    pub(super) mailbox: Arc<Mailbox<Command>>,
    pub(super) is_secure: bool,
    /// Who is asked where a request names nobody.
    pub(super) authority: Box<str>,
    reactor: Rc<Reactor>,
    /// A request has been taken up.
    has_served: Cell<bool>,
    /// Wakes who drives the engine.
    waker: Waker,
    /// When something has been received last, in milliseconds of the worker's clock.
    heard_ms: Cell<u64>,
}

impl ConnectionHandle {
    /// No request begins on it from now on.
    pub(super) fn retire(&self) {
        if self.requests.take().is_some() {
            self.shared.is_over();
            self.waker.wake_by_ref();
            // There is more than one stream's worth of room elsewhere now.
            self.shared.wake_line();
        }
    }

    /// Whether nothing has come since then.
    pub(super) fn is_silent_since(&self, ms: u64) -> bool {
        self.heard_ms.get() <= ms
    }

    /// Whether the engine takes requests, as far as it knows.
    fn is_open(&self) -> bool {
        let mut requests = self.requests.borrow_mut();
        let requests = requests.as_mut().and_then(Guarded::get_mut);
        let ready = requests.map(|it| it.poll_ready(&mut Context::from_waker(Waker::noop())));
        matches!(ready, Some(Poll::Ready(Ok(()))))
    }

    fn room(&self) -> usize {
        self.most().min(STREAMS).saturating_sub(self.shared.open())
    }

    /// Streams that the endpoint bears, as it has said last.
    fn most(&self) -> usize {
        let requests = self.requests.borrow();
        let requests = requests.as_ref().and_then(Guarded::get);
        requests.map_or(0, SendRequest::current_max_send_streams)
    }
}

/// A [`ConnectionHandle`] as a pool keeps it.
#[derive(Debug)]
struct Kept(Rc<ConnectionHandle>);

impl Multiplexed<Socket> for Kept {
    fn open(&self) -> Option<Socket> {
        if !self.has_room() {
            return None;
        }
        let requests = self.0.requests.borrow().as_ref()?.again()?;
        self.0.has_served.set(true);
        let call = Call::new(&self.0, requests);
        Some(Socket::of_stream(&self.0.reactor, Box::new(call), Owner::default()))
    }

    fn has_room(&self) -> bool {
        self.0.room() > 0 && self.0.is_open()
    }

    fn is_over(&self) -> bool {
        self.0.requests.borrow().is_none()
    }

    fn is_idle(&self) -> bool {
        self.0.shared.streams.get() == 0
    }

    fn leave(&self) {
        self.0.retire();
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHandle").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// What a connection needs beside its socket.
pub(crate) struct Terms {
    pub(crate) line: Rc<StreamLine>,
    pub(crate) limits: HeadLimits,
    pub(crate) authority: Box<str>,
    /// How long it is kept without a request.
    pub(crate) idle: Duration,
}

/// One connection.
pub(super) struct ClientConnection {
    engine: Engine,
    pipe: Pipe<Connection>,
    handle: Rc<ConnectionHandle>,
    idle: Duration,
    /// Nothing is under way, and the deadline for that runs.
    is_idle: bool,
    /// Streams that the endpoint bears, as it has said last.
    most: usize,
}

impl ClientConnection {
    /// Speaks HTTP/2 on a connection that is there; `None`: the engine does not want to.
    pub(super) fn new(
        worker: &Worker,
        connection: Connection,
        terms: Terms,
        waker: Waker,
    ) -> Option<(Box<Self>, Rc<dyn Multiplexed<Socket>>)> {
        let Terms { line, limits, authority, idle } = terms;
        let meter = FloodLimits { max_streams: H2_STREAMS, max_head: limits.head, max_fields: limits.fields };
        let shared = Rc::new(Shared::with_endpoint(waker.clone(), line, meter));
        shared.now_ms.set(worker.now_ms());
        let is_secure = connection.socket.is_layered();
        connection.socket.set_deadline(None);
        let pipe = Pipe::new(connection, &shared, Vec::new(), Full::ReadsOn);
        let most_head = limits.head.saturating_add(PER_FIELD * limits.fields);
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(STREAMS)
            .max_header_list_size(u32::try_from(most_head).unwrap_or(u32::MAX))
            .max_send_buffer_size(SEND_BUFFER)
            .max_concurrent_reset_streams(STREAMS)
            .reset_stream_duration(Duration::from_secs(1))
            .max_local_error_reset_streams(None)
            // What it bounds is kept elsewhere (`inlet.rs`).
            .data_frame_budget(usize::MAX);
        let handshake = pin!(builder.handshake(pipe.clone()));
        // It writes the preface, for which there is room, and waits for nothing.
        let Poll::Ready(Ok((requests, engine))) = handshake.poll(&mut Context::from_waker(&waker)) else {
            return None;
        };
        let handle = Rc::new(ConnectionHandle {
            requests: RefCell::new(Some(Guarded::new(requests, &shared.engine))),
            shared,
            mailbox: worker.mailbox().clone(),
            is_secure,
            authority,
            reactor: worker.reactor.clone(),
            has_served: Cell::new(false),
            waker,
            heard_ms: Cell::new(worker.now_ms()),
        });
        let link = Self { engine, pipe, handle: handle.clone(), idle, is_idle: false, most: STREAMS };
        Some((Box::new(link), Rc::new(Kept(handle))))
    }

    /// Does what can be done now; `Ready`: the connection is over.
    pub(super) fn poll(&mut self, worker: &Worker) -> Poll<()> {
        let handle = &self.handle;
        handle.shared.now_ms.set(worker.now_ms());
        if self.pipe.with_peer(|peer| peer.socket.is_readable()) {
            handle.heard_ms.set(worker.now_ms());
        }
        self.pipe.begin_turn();
        let waker = handle.waker.clone();
        let context = &mut Context::from_waker(&waker);
        loop {
            if Pin::new(&mut self.engine).poll(context).is_ready() {
                return self.end(worker);
            }
            match self.pipe.open() {
                // Responses are with their streams already.
                Intake::Heads => {}
                Intake::Turn => {
                    worker.scheduler.ask_for_more();
                    break;
                }
                Intake::Flooded => return self.end(worker),
                Intake::Open => break,
            }
        }
        handle.shared.tell_streams();
        handle.shared.took();
        handle.shared.end();
        // One that has carried something makes room for another worker's: under a bound each has its turn.
        let is_wanted = handle.has_served.get() && self.pipe.with_peer(Connection::is_wanted);
        if is_wanted || !handle.is_open() {
            handle.retire();
        }
        self.keep_time();
        Poll::Pending
    }

    /// What waits for more streams than the endpoint bore goes on when it bears more.
    fn keep_time(&mut self) {
        let most = self.handle.most();
        if std::mem::replace(&mut self.most, most) < most {
            self.handle.shared.wake_line();
        }
        let is_idle = self.handle.shared.streams.get() == 0;
        if is_idle && self.handle.requests.borrow().is_none() {
            self.handle.shared.await_nothing();
        }
        if is_idle && self.pipe.with_peer(|peer| peer.socket.expired()) {
            self.handle.retire();
        } else if is_idle != std::mem::replace(&mut self.is_idle, is_idle) {
            let idle = is_idle.then_some(self.idle);
            self.pipe.with_peer(|peer| peer.socket.set_deadline(idle));
        }
    }

    /// Bytes that the engine has written and the kernel has not got.
    pub(super) fn unsent(&self) -> usize {
        self.pipe.unsent()
    }

    /// Bytes that the engine has for an endpoint that has not been able to take them.
    pub(super) fn left_to_send(&self) -> usize {
        self.pipe.unsent() + self.handle.shared.held()
    }

    /// Received bytes that exchanges have not taken, and the capacity of its buffers beyond the bytes still to send.
    pub(super) fn buffers(&self) -> usize {
        self.pipe.spare() + self.handle.shared.received()
    }

    /// The engine has panicked.
    pub(super) fn engine_panicked(&self) {
        self.handle.shared.engine_panicked();
    }

    /// Hands the kernel what the engine has written.
    pub(super) fn send(&mut self) {
        // What cannot be sent is met by the engine when it writes again, or by the reader.
        let _ = self.pipe.poll_send();
    }

    fn end(&mut self, worker: &Worker) -> Poll<()> {
        self.handle.shared.tell_streams();
        if let Some(flood) = self.handle.shared.flood.get() {
            worker.notice(|| format!("an endpoint of HTTP/2: {}; its connection was ended", flood.detail()));
        }
        self.send();
        self.pipe.with_peer(|peer| peer.socket.rest(true));
        Poll::Ready(())
    }
}

impl Drop for ClientConnection {
    /// However it ends, a panic included: nobody is sent to it any more.
    fn drop(&mut self) {
        self.handle.retire();
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConnection").field("handle", &self.handle).finish_non_exhaustive()
    }
}
