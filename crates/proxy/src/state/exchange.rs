//! One exchange: a request with its response, as it travels through the proxy.
//!
//! The struct lives in a task and is used again for one exchange after the other, so its buffers
//! are warm and nothing is allocated in the steady state. Every phase of `serve.rs` reads what
//! earlier phases wrote here and adds its own.

use crate::plan::{Route, ServiceId, Timeouts};
use crate::relay::Flow;
use crate::state::filtering::Filtering;
use crate::state::local_listener::{ConnectionGuard, LocalListener};
use crate::state::local_plan::{LocalPlan, LocalRoute, LocalService};
use crate::state::rate::Rate;
use crate::state::request_path::RequestPath;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_filter::{Chain, RequestOutcome};
use thalweg_http::grpc::{Code, Kind};
use thalweg_http::{Escapes, FieldId, Framing, HeadLimits, RequestHead, ResponseHead, Span, Upgrade};
use thalweg_net::{Owner, Socket, prefetch};
use thalweg_observe::CacheUse;
use thalweg_observe::trace::TraceContext;
use thalweg_upstream::Aim;

/// Bytes of a head, and of its list of fields, that are asked for ahead.
const EXPECTED: usize = 256;

/// Buffers larger than this are given back when their exchange is over.
const KEEP_CAPACITY: usize = 16 * 1024;

/// Asks for the memory that an empty list uses first.
fn expect<T>(list: &mut Vec<T>) {
    let room = list.spare_capacity_mut();
    prefetch(&room[..room.len().min(EXPECTED / size_of::<T>())]);
}

/// A client connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Socket,
    pub(crate) peer: IpAddr,
    pub(crate) port: u16,
    /// Requests begun on it.
    pub(crate) requests: u32,
    /// What has come since the last request that is none. One byte: every silent connection has it.
    pub(crate) before: Before,
    /// Counted while the connection is open.
    pub(crate) place: ConnectionGuard,
}

/// Whose an exchange is, as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// Where it came in.
    pub(crate) local_listener: &'a LocalListener,
    /// The other end of the connection, or of datagrams.
    pub(crate) peer: IpAddr,
    pub(crate) port: u16,
}

/// What may come before a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Before {
    #[default]
    Nothing,
    /// Before the first: whose connection it is has been said, or need not be (`listener/proxy_protocol.rs`).
    Introduction,
    /// Before others: an empty line. A second one is too many.
    EmptyLine,
}

impl Client {
    /// Its listener.
    pub(crate) fn listener(&self) -> &LocalListener {
        self.place.listener()
    }

    /// Whether it has ended its sending side and is taken to have left with that (decision 0007), or is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.socket.peer_closed() && (!self.listener().allows_half_close() || self.socket.is_gone())
    }

    /// Whose its exchanges are.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin { local_listener: self.listener(), peer: self.peer, port: self.port }
    }
}

/// One try to have the request answered by an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// The position of the endpoint in its service.
    pub(crate) endpoint: u32,
    /// Its number among the exchange's attempts, from 0.
    pub(crate) number: u8,
    /// Whether the connection had served a request before.
    pub(crate) reused: bool,
    /// A copy of a request that another endpoint had not answered yet.
    pub(crate) is_copy: bool,
    /// When it began, from the beginning of the exchange.
    pub(crate) began: Duration,
    /// Time until the connection was there, without TLS.
    pub(crate) connect: Duration,
    /// Time of the TLS handshake after that.
    pub(crate) tls: Duration,
    /// Why it failed.
    pub(crate) fault: Option<Fault>,
    /// When it failed or was called off, from the beginning of the exchange.
    pub(crate) ended: Duration,
}

impl Attempt {
    /// The first one of an exchange; [`Attempts::begin`] makes others.
    pub(crate) fn new(endpoint: u32, began: Duration) -> Self {
        Self {
            endpoint,
            number: 0,
            reused: false,
            is_copy: false,
            began,
            connect: Duration::ZERO,
            tls: Duration::ZERO,
            fault: None,
            ended: Duration::ZERO,
        }
    }
}

/// The tries of an exchange. One is the rule: it has its place here.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: Vec<Attempt>,
    last: Option<Attempt>,
}

impl Attempts {
    /// A try that begins now. It is to be added when it is known how it does.
    pub(crate) fn begin(&self, endpoint: u32, began: Duration) -> Attempt {
        Attempt { number: self.next(), ..Attempt::new(endpoint, began) }
    }

    /// The number of the try that comes next. Their number has a bound below that of the type.
    pub(crate) fn next(&self) -> u8 {
        u8::try_from(self.len()).unwrap_or(u8::MAX)
    }

    /// Adds a try.
    pub(crate) fn push(&mut self, attempt: Attempt) {
        if let Some(last) = self.last.take() {
            self.failed.push(last);
        }
        self.last = Some(attempt);
    }

    /// Adds a try beside the last one, which goes on or has ended the exchange.
    pub(crate) fn beside(&mut self, attempt: Attempt) {
        self.failed.push(attempt);
    }

    /// The try that is under way, or ended the exchange.
    pub(crate) fn last(&self) -> Option<&Attempt> {
        self.last.as_ref()
    }

    /// Says why the last try failed, and when; whether it was on a connection used before.
    pub(crate) fn fail(&mut self, fault: Fault, ended: Duration) -> bool {
        self.last.as_mut().is_some_and(|attempt| {
            (attempt.fault, attempt.ended) = (Some(fault), ended);
            attempt.reused
        })
    }

    /// Says when the last try was called off.
    pub(crate) fn call_off(&mut self, ended: Duration) {
        if let Some(attempt) = self.last.as_mut().filter(|attempt| attempt.fault.is_none()) {
            attempt.ended = ended;
        }
    }

    /// Those that others followed.
    pub(crate) fn failed(&self) -> &[Attempt] {
        &self.failed
    }

    /// How many there were.
    pub(crate) fn len(&self) -> usize {
        self.failed.len() + usize::from(self.last.is_some())
    }

    fn clear(&mut self) {
        self.failed.clear();
        self.last = None;
    }
}

/// A part of the request in its normal form. Where it was received so, it is only pointed at.
#[derive(Debug, Default)]
pub(crate) struct NormalizedSpan {
    place: Option<Span>,
    written: Vec<u8>,
}

impl NormalizedSpan {
    /// It stands in `received`.
    pub(crate) fn is_at(&mut self, place: Span) {
        self.place = Some(place);
    }

    /// Where it is written, when it does not.
    pub(crate) fn write(&mut self) -> &mut Vec<u8> {
        self.place = None;
        &mut self.written
    }

    /// The text; empty before it is known.
    pub(crate) fn of<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        self.place.map_or(&self.written, |place| place.of(received))
    }

    fn clear(&mut self) {
        self.place = None;
        self.written.clear();
    }
}

/// A query without its question mark. Small: every tunnel has one.
#[derive(Debug)]
pub(crate) enum TargetQuery {
    None,
    /// It stands in `received`.
    Received(Span),
    /// It had characters that are percent-encoded, which is rare.
    Encoded(Box<EncodedQuery>),
}

impl TargetQuery {
    /// The text.
    pub(crate) fn of<'a>(&'a self, received: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::None => None,
            Self::Received(span) => Some(span.of(received)),
            Self::Encoded(query) => Some(&query.0),
        }
    }
}

/// A query whose raw characters have been percent-encoded.
#[derive(Debug)]
pub(crate) struct EncodedQuery(pub(crate) Vec<u8>);

/// What tells where a response ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResponseEnd {
    /// The fields of its head do (RFC 9112 §6.3).
    Fields,
    /// Nothing comes behind its head, whatever that says.
    Head,
    /// The stream on which it comes.
    Stream,
}

/// Where an exchange stands in a trace. Small: every tunnel has one. What the first exchange that is in a trace needs
/// is kept for the next one.
#[derive(Debug, Default)]
pub(crate) struct TraceSlot(Option<Box<Option<TraceContext>>>);

impl TraceSlot {
    /// Its place, where it has one.
    pub(crate) fn get(&self) -> Option<&TraceContext> {
        self.0.as_ref()?.as_ref().as_ref()
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self) -> Option<&mut TraceContext> {
        self.0.as_mut()?.as_mut().as_mut()
    }

    /// It stands here.
    pub(crate) fn set(&mut self, context: TraceContext) {
        **self.0.get_or_insert_default() = Some(context);
    }

    fn clear(&mut self) {
        if let Some(slot) = &mut self.0 {
            **slot = None;
        }
    }
}

/// One request with its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Who is called when one of the exchange's sockets is ready: its task.
    pub(crate) owner: Owner,
    /// Bounds on heads.
    pub(crate) head_limits: HeadLimits,
    pub(crate) started: Instant,

    /// What was received and not given up yet: the head, and what came behind it.
    pub(crate) received: Vec<u8>,
    /// How much of `received` belongs to this request.
    pub(crate) consumed: usize,
    pub(crate) request: RequestHead,
    pub(crate) framing: Framing,
    pub(crate) id: Option<RequestId>,
    /// Where it stands in a trace; `None`: none is kept.
    pub(crate) trace: TraceSlot,
    /// The host and port that the client named, in normal form.
    pub(crate) authority: NormalizedSpan,
    /// How much of `authority` is the host. Heads are far smaller than 4 GiB.
    pub(crate) host_len: u32,
    /// The path in its normal form, which is forwarded and logged, and in its matched form.
    pub(crate) path: RequestPath,
    /// What the filters of the route make of it; kept for the next exchange. Absent before the first that has filters.
    pub(crate) filtering: Option<Box<Filtering>>,
    /// Which of the route's filters changed or answered something, a bit for each of the first 32.
    pub(crate) filters_acted: u32,
    /// Escapes in the path that the route has to allow.
    pub(crate) escapes: Escapes,
    /// The query ([`Exchange::query`]).
    pub(crate) target_query: TargetQuery,
    /// The client's address, seen through trusted proxies.
    pub(crate) client_ip: IpAddr,
    pub(crate) trusted_peer: bool,
    /// Whether it came through TLS.
    pub(crate) is_secure: bool,
    pub(crate) upgrade: Upgrade,
    /// The form of gRPC-Web that its client speaks, where the route turns it into gRPC.
    pub(crate) bridge: Kind,
    /// Whether the client's connection may be used for another request.
    pub(crate) keep_alive: bool,
    /// It is no request but a whole connection of a client (`l4/tcp.rs`).
    pub(crate) is_connection: bool,
    /// It fetches a response for the cache: filters of responses see what clients get of it.
    pub(crate) is_fill: bool,
    /// What the cache did; `None`: there is none for it.
    pub(crate) cache_use: Option<CacheUse>,
    /// What is wrong with it is not for its client to know.
    pub(crate) conceal_reason: bool,
    /// It is noted that the exchange waits for its client.
    pub(crate) is_slow: bool,

    /// The position of the listener that it came in at.
    pub(crate) listener: u16,
    /// The route that takes the request, as it was when the request came; so to the exchange's end.
    pub(crate) route: Option<Rc<LocalRoute>>,
    /// The service of the route, or the one drawn of several; likewise.
    pub(crate) service: Option<Rc<LocalService>>,
    /// What the route calls that service.
    pub(crate) target: Option<ServiceId>,
    /// The endpoint, where the request has named it.
    pub(crate) aim: Option<Aim>,
    /// Time spent waiting for places, and for filters.
    pub(crate) waited: Duration,
    pub(crate) attempts: Attempts,
    /// Members tried, by their index.
    pub(crate) tried: Vec<u32>,

    /// Attempts that may be made, the one under way among them.
    pub(crate) left: u32,
    /// The endpoint that the client's cookie is to name from now on.
    pub(crate) keep_at: Option<NonZeroU64>,
    /// Whether it can be sent again: all that came of it is in `received`, and nothing of a response has gone to
    /// the client.
    pub(crate) replayable: bool,
    /// When the exchange must be over (`timeouts.request`, and `call_ends_at` where that is sooner).
    pub(crate) ends_at: Option<Instant>,
    /// When its client no longer waits for it (`grpc-timeout`).
    pub(crate) call_ends_at: Option<Instant>,
    /// Whether the upstream connection may carry another request after this response.
    pub(crate) upstream_reusable: bool,

    /// Towards the upstream: the request.
    pub(crate) upward: Flow,
    /// A response head that has not arrived whole.
    pub(crate) answered: Vec<u8>,
    pub(crate) response: ResponseHead,
    /// What tells where the response ends.
    pub(crate) response_end: ResponseEnd,
    /// Towards the client: the response.
    pub(crate) downward: Flow,

    /// The status sent, 0 while none was.
    pub(crate) status: u16,
    /// The status of the gRPC call, where it is known before its trailers.
    pub(crate) grpc_status: Option<Code>,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) fault: Option<Fault>,
    /// A tunnel was silent for as long as its route allows: that ended it, and is no fault.
    pub(crate) ended_idle: bool,
    /// In seconds: when the client may come again, where that is known; 0: it is not.
    pub(crate) retry_after: u32,
    /// Bytes received and sent that are in the metrics already.
    pub(crate) counted: (u64, u64),
}

impl Exchange {
    /// An exchange that has not begun.
    pub(crate) fn new(owner: Owner) -> Self {
        Self {
            owner,
            head_limits: HeadLimits::default(),
            started: Instant::now(),
            received: Vec::new(),
            consumed: 0,
            request: RequestHead::new(),
            framing: Framing::Empty,
            id: None,
            trace: TraceSlot::default(),
            authority: NormalizedSpan::default(),
            host_len: 0,
            path: RequestPath::default(),
            filtering: None,
            filters_acted: 0,
            escapes: Escapes::NONE,
            target_query: TargetQuery::None,
            client_ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            trusted_peer: false,
            is_secure: false,
            upgrade: Upgrade::None,
            bridge: Kind::No,
            keep_alive: false,
            is_connection: false,
            is_fill: false,
            cache_use: None,
            conceal_reason: false,
            is_slow: false,
            listener: 0,
            route: None,
            service: None,
            target: None,
            aim: None,
            waited: Duration::ZERO,
            attempts: Attempts::default(),
            tried: Vec::new(),
            left: 0,
            keep_at: None,
            replayable: false,
            ends_at: None,
            call_ends_at: None,
            upstream_reusable: false,
            upward: Flow::default(),
            answered: Vec::new(),
            response: ResponseHead::new(),
            response_end: ResponseEnd::Fields,
            downward: Flow::default(),
            status: 0,
            grpc_status: None,
            first_byte: None,
            fault: None,
            ended_idle: false,
            retry_after: 0,
            counted: (0, 0),
        }
    }

    /// The scheme that the client used.
    pub(crate) fn scheme(&self) -> &'static str {
        match (self.is_connection, self.is_secure) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "tcp",
            (true, true) => "tls",
        }
    }

    /// The port that the scheme has when none is written.
    pub(crate) fn scheme_port(&self) -> u16 {
        if self.is_secure { 443 } else { 80 }
    }

    /// Makes ready for the next request on the same connection; bytes that are already here stay.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.received.drain(..self.consumed);
        self.consumed = 0;
        self.started = now;
        self.request.clear();
        self.framing = Framing::Empty;
        self.id = None;
        self.trace.clear();
        self.authority.clear();
        self.host_len = 0;
        self.path.clear();
        if let Some(filtering) = &mut self.filtering {
            filtering.clear();
        }
        self.filters_acted = 0;
        self.escapes = Escapes::NONE;
        self.target_query = TargetQuery::None;
        self.upgrade = Upgrade::None;
        self.bridge = Kind::No;
        self.keep_alive = false;
        (self.is_connection, self.is_fill, self.cache_use) = (false, false, None);
        self.conceal_reason = false;
        self.route = None;
        self.service = None;
        self.target = None;
        self.aim = None;
        self.waited = Duration::ZERO;
        self.attempts.clear();
        self.tried.clear();
        self.left = 0;
        self.keep_at = None;
        self.replayable = false;
        self.ends_at = None;
        self.call_ends_at = None;
        self.upstream_reusable = false;
        self.upward.reset();
        self.downward.reset();
        self.status = 0;
        self.grpc_status = None;
        self.first_byte = None;
        self.fault = None;
        self.ended_idle = false;
        self.retry_after = 0;
        self.counted = (0, 0);
    }

    /// Forgets the connection: the task is to be vacated.
    pub(crate) fn leave(&mut self) {
        self.route = None;
        self.service = None;
        self.consumed = 0;
        self.received.clear();
        self.request.clear();
        for buffer in
            [&mut self.received, &mut self.answered, &mut self.authority.written, &mut self.path.written]
        {
            buffer.shrink_to(KEEP_CAPACITY);
        }
        if let Some(filtering) = &mut self.filtering {
            filtering.shrink();
        }
        self.upward.shrink_to(KEEP_CAPACITY);
        self.downward.shrink_to(KEEP_CAPACITY);
        // The task vacated last is occupied first, and begins with these.
        expect(&mut self.received);
        expect(&mut self.request.fields);
    }

    /// Takes the exchange out of its task, for the rest of a long life with little to remember: its flows, and
    /// what the access log will want.
    pub(crate) fn leave_task(&mut self, owner: Owner) -> Self {
        let mut x = std::mem::replace(self, Self::new(self.owner));
        x.owner = owner;
        x.request.fields.retain(|field| matches!(field.id, FieldId::UserAgent | FieldId::Referer));
        x.request.fields.shrink_to_fit();
        x.received.truncate(x.consumed);
        x.received.shrink_to_fit();
        x.authority.written.shrink_to_fit();
        x.path.shrink();
        (x.answered, x.tried) = (Vec::new(), Vec::new());
        if let Some(filtering) = &mut x.filtering {
            // Who it is, and what filters hold until it is over, is all that is left to know.
            let Filtering { states, outcome, below, sent_head, .. } = std::mem::take(&mut **filtering);
            let RequestOutcome { identity, reason, .. } = outcome;
            let outcome = RequestOutcome { identity, reason, ..RequestOutcome::default() };
            **filtering = Filtering { states, outcome, below, sent_head, ..Filtering::default() };
        }
        x
    }

    /// Notes the host that a client has asked for, in normal form, where no head says it.
    pub(crate) fn ask_for(&mut self, host: &str) {
        self.host_len = host.len() as u32;
        self.authority.write().extend_from_slice(host.as_bytes());
    }

    /// Whether its client is there no more. One that has said its last word may still wait for what it asked for, or
    /// will say nothing more in a connection that goes on.
    pub(crate) fn has_left(&self, client: &Client) -> bool {
        match self.is_connection {
            true => client.socket.is_gone(),
            false => client.has_ended() && self.framing.is_empty(),
        }
    }

    /// Time since it began, at this time.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// The route that takes the request, once it is found.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.route.as_ref().map(|route| route.route())
    }

    /// The filters of the route for this exchange.
    #[inline]
    pub(crate) fn chain(&self) -> Option<&Chain> {
        self.route().map(|route| route.chain(self.listener, self.target))
    }

    /// What it was about, for operators: the route, and the endpoint that was asked last.
    pub(crate) fn describe(&self) -> impl fmt::Display {
        fmt::from_fn(|f| {
            let Some(route) = self.route() else { return f.write_str("no route") };
            write!(f, "route `{}`", route.name)?;
            let service = self.service().map(|local| &local.state.service);
            let asked = service.zip(self.attempts.last());
            let endpoint = asked.and_then(|(service, last)| service.endpoints.get(last.endpoint as usize));
            match (service, endpoint) {
                (Some(service), Some(endpoint)) => {
                    write!(f, ", service `{}`, endpoint {}", service.name, endpoint.url)
                }
                _ => Ok(()),
            }
        })
    }

    /// The service that the request goes to, once it is found.
    pub(crate) fn service(&self) -> Option<&LocalService> {
        self.service.as_deref()
    }

    /// It goes to this service of its route.
    pub(crate) fn send_to(&mut self, view: &LocalPlan, service: Option<ServiceId>) {
        self.service = service.and_then(|service| view.service(service));
        self.target = service;
    }

    /// Deadlines towards the service, as the route has them for it.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.route().map(|route| route.timeouts_to(self.target)).unwrap_or_default()
    }

    /// Sets the client's deadline: `after` from now on, or sooner where the whole exchange must end.
    pub(crate) fn set_deadline(&self, client: &Client, now: Instant, after: Duration) {
        let left = self.ends_at.map_or(after, |end| after.min(end.saturating_duration_since(now)));
        client.socket.set_deadline(Some(left));
    }

    /// As [`Self::set_deadline`], to the millisecond.
    pub(crate) fn set_exact_deadline(&self, client: &Client, now: Instant, after: Duration) {
        let left = self.ends_at.map_or(after, |end| after.min(end.saturating_duration_since(now)));
        client.socket.set_exact_deadline(left);
    }

    /// The fault of a passed deadline, when it is the one of the whole exchange.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Fault> {
        let end = self.ends_at.filter(|end| *end <= now)?;
        Some(match self.call_ends_at {
            Some(call) if call <= end => {
                Fault::new(FaultKind::CallDeadline, "the deadline that the client set has passed")
            }
            _ => Fault::new(
                FaultKind::HttpResponseTimeout,
                "the exchange took longer than `timeouts.request` allows",
            ),
        })
    }

    /// The same where bytes move, and at that it is the client that is waited for.
    pub(crate) fn overdue_by_client(&self, now: Instant) -> Option<Fault> {
        let fault = self.overdue(now)?;
        let is_routes = fault.kind == FaultKind::HttpResponseTimeout;
        let detail = "the client took longer than `timeouts.request` allows";
        Some(if is_routes { Fault::new(FaultKind::ClientTimeout, detail) } else { fault })
    }

    /// What the route asks of the client's pace.
    pub(crate) fn rate(&self) -> Rate {
        let limits = self.route().map(|route| route.limits).unwrap_or_default();
        // A client that is throttled is as fast as it may be.
        let mut least = limits.min_rate;
        for flow in [&self.upward, &self.downward] {
            if let Some(pace) = flow.pace() {
                least = least.min(pace / 2);
            }
        }
        Rate { window: self.timeouts().idle, least }
    }

    /// Who the client is, as a filter has verified it.
    pub(crate) fn user(&self) -> Option<&str> {
        let identity = self.filtering.as_ref()?.outcome.identity.as_ref()?;
        Some(cut(&identity.user)).filter(|user| !user.is_empty())
    }

    /// Notes why the request is refused, in words for the operator.
    pub(crate) fn explain(&mut self, reason: String) {
        self.filtering.get_or_insert_default().outcome.reason = Some(reason.into());
    }

    /// Why a filter refused the request, or would have.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.filtering.as_ref()?.outcome.reason.as_deref().map(cut)
    }

    /// What filters have made of the request, once they were reached.
    #[inline]
    pub(crate) fn filtered(&self) -> Option<&Filtering> {
        self.filtering.as_deref().filter(|filtering| filtering.is_begun)
    }

    /// Notes that a filter did something.
    pub(crate) fn note_filter(&mut self, at: usize) {
        self.filters_acted |= u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0);
    }

    /// The path that goes upstream.
    pub(crate) fn upstream_path(&self) -> &[u8] {
        match self.filtered() {
            Some(filtering) => filtering.target.path(),
            None => self.path.of(&self.received),
        }
    }

    /// The path as routes and conditions match it (decision 0005).
    pub(crate) fn matched_path(&self) -> &[u8] {
        self.path.readings().map_or_else(|| self.path.of(&self.received), |readings| readings.matched)
    }

    /// The query, without its question mark, as the client sent it.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        self.target_query.of(&self.received)
    }

    /// The query, without its question mark, as it goes upstream.
    pub(crate) fn upstream_query(&self) -> Option<&[u8]> {
        self.filtered().and_then(Filtering::query).unwrap_or_else(|| self.query())
    }

    /// The host and port that the client named, in normal form; empty for none.
    pub(crate) fn authority(&self) -> &[u8] {
        self.authority.of(&self.received)
    }

    /// The host that the client named, in normal form, without a port.
    pub(crate) fn host(&self) -> &[u8] {
        &self.authority()[..self.host_len as usize]
    }
}
/// Bytes of a user's name, or of a reason, that are logged and remembered.
const WORDS: usize = 512;

/// The beginning of a text.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(WORDS)]
}
