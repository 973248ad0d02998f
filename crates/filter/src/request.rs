//! What a filter sees and may change of a request.

use crate::decoder_memory::DecoderMemory;
use crate::fields::{FieldView, HeadFields};
use crate::filter::Verdict;
use crate::identity::Identity;
use crate::log_edit::LogEdit;
use crate::target::TargetEdit;
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_access::ClientCertificate;
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_http::h1::encode::write_field;
use thalweg_http::{PathReadings, Version};
use thalweg_route::PathPattern;

/// What is known of a request, whatever its filters do.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The method, case-sensitive.
    pub method: &'a [u8],
    /// `http` or `https`, as the client used it.
    pub scheme: &'static str,
    /// The host that the client named, in normal form, without a port; may be empty.
    pub host: &'a [u8],
    /// The port that the client named, or that of the scheme.
    pub port: u16,
    /// The path in normal form, as it is forwarded. Conditions match [`Facts::matched_path`].
    pub path: &'a [u8],
    /// The readings of the path, if they differ from the forwarded path: those that the route's endpoint may take.
    pub readings: Option<PathReadings<'a>>,
    /// The query as it came, without `?`.
    pub query: Option<&'a [u8]>,
    /// The client's address, seen through trusted proxies.
    pub client_ip: IpAddr,
    /// The other end of the connection.
    pub peer: IpAddr,
    /// Its id. A filter that puts another one here changes it for all that follow, the log included.
    pub request_id: Option<RequestId>,
    /// Whether the peer is a trusted proxy.
    pub is_trusted: bool,
    /// The listener's name.
    pub listener: &'a str,
    /// The route's name.
    pub route: &'a str,
    /// The service's name; empty where there is none.
    pub service: &'a str,
    /// The version of HTTP that the client speaks.
    pub version: Version,
    /// The patterns of the route's path.
    pub patterns: &'a [PathPattern],
    /// The time of the worker's turn.
    pub now: Instant,
    /// The same in seconds since the Unix epoch.
    pub unix_seconds: u64,
    /// What costs something to know.
    pub connection: &'a dyn Connection,
    /// Nothing is sent and nothing may be spent: a question of `explain` or a test of `check`.
    pub is_dry_run: bool,
}

impl<'a> Facts<'a> {
    /// The path as routes and conditions match it (decision 0005).
    #[inline]
    pub fn matched_path(&self) -> &'a [u8] {
        self.readings.map_or(self.path, |readings| readings.matched)
    }

    /// Whether any reading of the path passes: the matched form, or another interpretation by an endpoint.
    pub fn any_reading(&self, mut test: impl FnMut(&[u8]) -> bool) -> bool {
        test(self.matched_path())
            || self.readings.is_some_and(|readings| readings.others().any(|(_, other)| test(other)))
    }
}

/// What is asked of the connection and the worker only when a filter needs it.
pub trait Connection: Debug {
    /// The version of TLS (`TLSv1.3`); `None` in the clear.
    fn tls_version(&self) -> Option<&'static str>;

    /// The name that the client has asked for in its handshake.
    fn tls_server_name(&self) -> Option<String>;

    /// The subject of the certificate that the client has shown.
    fn client_subject(&self) -> Option<String>;

    /// The certificate that the client has shown, as the listener has verified it.
    fn client_certificate(&self) -> Option<Arc<ClientCertificate>> {
        None
    }

    /// A random number.
    fn chance(&self) -> u64;

    /// The memory that decoders of bodies share; `None`: nobody counts it.
    fn decoder_memory(&self) -> Option<Rc<DecoderMemory>> {
        None
    }
}

/// A connection in the clear of which nothing is known, as `explain` and tests have it.
#[derive(Clone, Copy, Debug)]
pub struct NoConnection;

impl Connection for NoConnection {
    fn tls_version(&self) -> Option<&'static str> {
        None
    }

    fn tls_server_name(&self) -> Option<String> {
        None
    }

    fn client_subject(&self) -> Option<String> {
        None
    }

    fn chance(&self) -> u64 {
        0
    }
}

/// What filters remember from the request to the response: nothing is allocated while nothing is remembered.
#[derive(Debug, Default)]
pub struct FilterStates {
    own: Vec<(Place, Box<dyn Any>)>,
    log: Option<Box<LogEdit>>,
}

/// Who remembers something: a filter by its position, and a part of it; 0: the filter itself.
pub(crate) type Place = (u16, u16);

impl FilterStates {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.own.clear();
        self.log = None;
    }

    /// What they say of the line in the access log.
    pub fn log(&self) -> Option<&LogEdit> {
        self.log.as_deref()
    }

    pub(crate) fn take_log(&mut self) -> Box<LogEdit> {
        self.log.take().unwrap_or_default()
    }

    pub(crate) fn put_log(&mut self, log: Box<LogEdit>) {
        self.log = Some(log);
    }

    pub(crate) fn put(&mut self, at: Place, state: Box<dyn Any>) {
        self.own.retain(|(known, _)| *known != at);
        self.own.push((at, state));
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    pub(crate) fn has(&self, at: u16) -> bool {
        self.own.iter().any(|((known, _), _)| *known == at)
    }

    pub(crate) fn get<T: 'static>(&self, at: Place) -> Option<&T> {
        self.own.iter().find(|(known, _)| *known == at)?.1.downcast_ref()
    }

    pub(crate) fn take<T: 'static>(&mut self, at: Place) -> Option<T> {
        let found = self.own.iter().position(|(known, _)| *known == at)?;
        let (_, state) = self.own.swap_remove(found);
        state.downcast().ok().map(|state| *state)
    }
}

/// An exchange that is over.
#[derive(Debug)]
pub struct EndCx<'a> {
    /// Bytes of the request's body, as they were received.
    pub bytes_in: u64,
    /// Bytes of the response's body, as they were sent.
    pub bytes_out: u64,
    /// The status of the response.
    pub status: u16,
    /// The time of the worker's turn.
    pub now: Instant,
    pub(crate) at: u16,
    pub(crate) states: &'a FilterStates,
}

impl<'a> EndCx<'a> {
    /// An exchange of this status that was over at `now`, with the bytes of its bodies.
    pub fn new(
        (bytes_in, bytes_out): (u64, u64),
        status: u16,
        now: Instant,
        states: &'a FilterStates,
    ) -> Self {
        Self { bytes_in, bytes_out, status, now, at: 0, states }
    }

    /// What this filter has remembered of the request.
    pub fn remembered<T: 'static>(&self) -> Option<&'a T> {
        self.states.get((self.at, 0))
    }
}

/// Makes a transform of a body; called for each attempt, because each sends the body again.
pub type MakeTransform = Box<dyn Fn() -> Box<dyn BodyTransform>>;

/// Changes a body on its way, piece by piece.
pub trait BodyTransform: Debug {
    /// Takes bytes from the front of `data` and appends what becomes of them to `out`.
    ///
    /// A transform that makes much of little returns as soon as `out` has [`ENOUGH`] bytes or more, and leaves the
    /// rest in `data`: it is called again when the receiver has taken some.
    ///
    /// # Errors
    /// The body is not what it claims to be, or goes over a bound: the message breaks off.
    fn push(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Fault>;

    /// Nothing more may come for a while: what is held back may go, where that is worth it.
    fn flush(&mut self, _out: &mut Vec<u8>) {}

    /// The body has ended. `trailers` are whole lines and may be changed. Returns whether all has been said; it is
    /// called again otherwise.
    ///
    /// # Errors
    /// As [`Self::push`]: it ended too early.
    fn finish(&mut self, trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool, Fault>;
}

/// Bytes that a transform makes at most, about, before its receiver takes some.
pub const ENOUGH: usize = 64 * 1024;

/// A request on its way upstream.
#[derive(Debug)]
pub struct RequestCx<'a> {
    /// What does not change.
    pub facts: Facts<'a>,
    /// The target that goes upstream.
    pub target: &'a mut TargetEdit,
    /// Its fields.
    pub fields: HeadFields<'a>,
    /// Whether it has a body, or may have one.
    pub has_body: bool,
    /// The length that it declares for its body.
    pub content_length: Option<u64>,
    pub(crate) at: u16,
    /// The part of the filter that is called.
    pub(crate) part: u16,
    pub(crate) states: &'a mut FilterStates,
    pub(crate) outcome: &'a mut RequestOutcome,
}

/// What filters ask for beside a changed head; shared by the attempts.
#[derive(Debug, Default)]
pub struct RequestOutcome {
    /// Transforms of the body.
    pub transforms: Transforms,
    /// Copies of the request, as it goes upstream, for other services.
    pub copies: Vec<RequestCopy>,
    /// The service that a filter has chosen, by its name, in place of the one that the route says.
    pub service: Option<Arc<str>>,
    /// Bytes that the body may have as it comes from the client; `None`: no filter bounds it.
    pub max_body: Option<u64>,
    /// Who the client is, as far as filters have verified it.
    pub identity: Option<Box<Identity>>,
    /// Why a filter has refused the request, or would have, in words for the operator.
    pub reason: Option<Cow<'static, str>>,
    /// Fields, as whole lines, of the answer to a fault that a filter gives.
    pub fault_fields: Vec<u8>,
    /// How fast the body may come; `None`: no filter bounds it.
    pub bandwidth: Option<Bandwidth>,
    /// The request goes upstream when its body is whole.
    pub buffering: Option<Buffering>,
    /// Filters that could not do their work, on either side, by their positions: a bit each.
    pub failed: u32,
}

/// How fast a body may come from its sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bandwidth {
    /// Above 0.
    pub bytes_per_second: u64,
    /// Bytes that may come at once, first and after a pause; above 0.
    pub burst: u64,
}

/// How a body is kept that goes upstream only when it is whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Buffering {
    /// A request with a larger body is refused with 413, in bytes.
    pub max_body: u64,
    /// Bytes of it in memory; a longer one is kept in a file.
    pub memory: usize,
}

impl Bandwidth {
    /// The slower one.
    #[must_use]
    pub fn or_slower(self, other: Option<Self>) -> Self {
        other.filter(|other| other.bytes_per_second < self.bytes_per_second).unwrap_or(self)
    }
}

impl RequestOutcome {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.transforms.clear();
        self.copies.clear();
        self.service = None;
        self.max_body = None;
        self.identity = None;
        self.reason = None;
        self.fault_fields.clear();
        self.bandwidth = None;
        self.buffering = None;
        self.failed = 0;
    }
}

/// A copy of a request for another service. What comes of it is seen by nobody.
#[derive(Clone, Debug)]
pub struct RequestCopy {
    /// The service, by its name; one of [`Filter::calls`](crate::Filter::calls).
    pub service: Arc<str>,
    /// A request with a larger body is not copied, in bytes.
    pub max_body: usize,
    /// For the whole of it.
    pub timeout: Duration,
}

/// Makers of transforms of a request's body, in the order of the filters; shared by the attempts.
pub struct Transforms(Vec<MakeTransform>);

impl Transforms {
    /// None.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Fresh transforms.
    pub fn make(&self) -> impl Iterator<Item = Box<dyn BodyTransform>> {
        self.0.iter().map(|make| make())
    }
}

impl Default for Transforms {
    fn default() -> Self {
        Self::new()
    }
}

impl Debug for Transforms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} transforms", self.0.len())
    }
}

impl<'a> RequestCx<'a> {
    /// A request for its filters.
    pub fn new(
        facts: Facts<'a>,
        (target, fields): (&'a mut TargetEdit, HeadFields<'a>),
        (states, outcome): (&'a mut FilterStates, &'a mut RequestOutcome),
        (has_body, content_length): (bool, Option<u64>),
    ) -> Self {
        Self { facts, target, fields, has_body, content_length, at: 0, part: 0, states, outcome }
    }

    /// Remembers something for this filter's side of the response, in place of what it has remembered before.
    pub fn remember(&mut self, state: impl Any) {
        self.states.put((self.at, self.part), Box::new(state));
    }

    /// What this filter has remembered.
    pub fn remembered<T: 'static>(&self) -> Option<&T> {
        self.states.get((self.at, self.part))
    }

    /// The same, which it forgets.
    pub fn recall<T: 'static>(&mut self) -> Option<T> {
        self.states.take((self.at, self.part))
    }

    /// The filter's place in its chain.
    pub(crate) fn position(&self) -> u16 {
        self.at
    }

    /// What has been said of the line in the access log; to be put back.
    pub(crate) fn take_log(&mut self) -> Box<LogEdit> {
        self.states.take_log()
    }

    pub(crate) fn put_log(&mut self, log: Box<LogEdit>) {
        self.states.put_log(log);
    }

    /// The body changes on its way upstream; it is sent without a length.
    pub fn transform_body(&mut self, make: MakeTransform) {
        self.outcome.transforms.0.push(make);
    }

    /// A body of more bytes is refused with 413, as it comes from the client and before any transform; the smallest
    /// bound of all filters counts.
    pub fn limit_body(&mut self, bytes: u64) {
        let limit = &mut self.outcome.max_body;
        *limit = Some(limit.map_or(bytes, |known| known.min(bytes)));
    }

    /// The body comes no faster than this, before any transform; the slowest of all filters counts.
    pub fn throttle_body(&mut self, bandwidth: Bandwidth) {
        self.outcome.bandwidth = Some(bandwidth.or_slower(self.outcome.bandwidth));
    }

    /// The request goes upstream when its body is whole; the smallest bounds of all filters count.
    pub fn buffer_body(&mut self, asked: Buffering) {
        let known = self.outcome.buffering.unwrap_or(asked);
        self.outcome.buffering = Some(Buffering {
            max_body: known.max_body.min(asked.max_body),
            memory: known.memory.min(asked.memory),
        });
    }

    /// A copy of the request goes to another service beside it.
    pub fn copy_to(&mut self, copy: RequestCopy) {
        self.outcome.copies.push(copy);
    }

    /// The request goes to this service, one of [`Filter::choices`](crate::Filter::choices), in place of the one
    /// that the route says.
    pub fn send_to(&mut self, service: &Arc<str>) {
        self.outcome.service = Some(service.clone());
    }

    /// Who the client is, as far as filters have verified it.
    pub fn identity(&self) -> Option<&Identity> {
        self.outcome.identity.as_deref()
    }

    /// A filter has verified who the client is; where others have before, they say who it is, and this adds to it.
    pub fn identify(&mut self, identity: Identity) {
        match &mut self.outcome.identity {
            Some(known) => known.merge(identity),
            none => *none = Some(Box::new(identity)),
        }
    }

    /// Why this filter refuses the request, or would if it were to: the access log and the decision record have it, the
    /// client does not. It contains no credential.
    pub fn explain(&mut self, reason: impl Into<Cow<'static, str>>) {
        self.outcome.reason = Some(reason.into());
    }

    /// This filter could not do its work: it is counted as one that has failed.
    pub fn note_failure(&mut self) {
        self.outcome.failed |= 1_u32.checked_shl(self.at.into()).unwrap_or(0);
    }

    /// The request is refused with this status. `detail`, which contains nothing that a peer has sent, tells the client
    /// why; the operator is told `reason`.
    pub fn refuse(
        &mut self,
        status: u16,
        detail: &'static str,
        reason: impl Into<Cow<'static, str>>,
    ) -> Verdict {
        self.explain(reason);
        Verdict::Fault(Fault { status, ..Fault::new(FaultKind::HttpRequestDenied, detail) })
    }

    /// A field of the answer to the fault that this filter gives, such as `WWW-Authenticate`.
    pub fn fault_field(&mut self, name: &str, value: &[u8]) {
        write_field(&mut self.outcome.fault_fields, name.as_bytes(), value);
    }

    /// What filters have asked for.
    pub fn outcome_mut(&mut self) -> &mut RequestOutcome {
        self.outcome
    }

    /// What placeholders stand for.
    pub fn values(&self) -> Values<'_> {
        Values {
            facts: &self.facts,
            fields: self.fields.view(),
            target: Some(&*self.target),
            identity: self.identity(),
            status: None,
            fault: None,
        }
    }
}

/// What placeholders are filled from.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// Of the request.
    pub facts: &'a Facts<'a>,
    /// Of the request.
    pub fields: FieldView<'a>,
    /// What goes upstream, where that is known.
    pub target: Option<&'a TargetEdit>,
    /// Who the client is, as far as filters have verified it.
    pub identity: Option<&'a Identity>,
    /// Of the response.
    pub status: Option<u16>,
    /// Why the proxy answers itself, where the client may know it.
    pub fault: Option<Fault>,
}
