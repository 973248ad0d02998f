//! What a filter sees and may change of a final response, and answers of its own.

use crate::edits::FieldSets;
use crate::fields::{FieldView, HeadFields};
use crate::filter::Subrequest;
use crate::identity::Identity;
use crate::log_edit::LogEdit;
use crate::request::{Bandwidth, BodyTransform, Facts, FilterStates, Values};
use crate::target::TargetEdit;
use std::any::Any;
use std::fmt::Debug;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use thalweg_core::Fault;
use thalweg_http::h1::encode::write_field;

/// A final response on its way to the client.
#[derive(Debug)]
pub struct ResponseCx<'a> {
    /// Of the request.
    pub facts: Facts<'a>,
    /// The request's fields, as they went upstream.
    pub request: FieldView<'a>,
    /// The target that went upstream; `None`: filters of the request were not reached.
    pub target: Option<&'a TargetEdit>,
    /// Who the client is, as far as filters have verified it.
    pub identity: Option<&'a Identity>,
    /// The host and port that the endpoint was asked for; empty for an own answer.
    pub upstream_host: &'a [u8],
    /// The status.
    pub status: u16,
    /// Why the proxy answers in its own words; `None`: it does not, because a filter or the configuration has answered.
    pub fault: Option<Fault>,
    /// Whether the client may know why (`error_details`).
    pub tells_details: bool,
    /// Whether it comes from an endpoint.
    pub is_upstream: bool,
    /// Whether a body follows the head.
    pub has_body: bool,
    /// The length of the body, where it is known.
    pub content_length: Option<u64>,
    /// Whether it can wait for what a filter fetches.
    pub can_wait: bool,
    /// Its fields.
    pub fields: HeadFields<'a>,
    pub(crate) at: u16,
    /// The part of the filter that is called.
    pub(crate) part: u16,
    pub(crate) states: &'a mut FilterStates,
    pub(crate) outcome: ResponseOutcome,
}

/// What filters ask for beside changed fields.
#[derive(Debug, Default)]
pub struct ResponseOutcome {
    /// Sent in place of the response.
    pub replaced: Option<Box<Reply>>,
    /// In the order in which the body goes through them.
    pub transforms: Vec<Box<dyn BodyTransform>>,
    /// The length of the body is not what it was, even if no body follows.
    pub changes_length: bool,
    /// Bytes that the body of an endpoint's response may have, before any transform.
    pub max_body: Option<u64>,
    /// How fast the body may come, also that of an own answer.
    pub bandwidth: Option<Bandwidth>,
    /// Filters that could not do their work, by their positions: a bit each.
    pub failed: u32,
    /// The response waits for the answer to this request, which the filter at this position has asked for.
    pub waits: Option<(usize, Box<Subrequest>)>,
}

impl<'a> ResponseCx<'a> {
    /// A response for its filters. What is not given is that of an own answer without a body.
    pub fn new(
        facts: Facts<'a>,
        request: FieldView<'a>,
        fields: HeadFields<'a>,
        states: &'a mut FilterStates,
    ) -> Self {
        Self {
            facts,
            request,
            target: None,
            identity: None,
            upstream_host: &[],
            status: 200,
            fault: None,
            tells_details: true,
            is_upstream: false,
            has_body: false,
            content_length: None,
            can_wait: false,
            fields,
            at: 0,
            part: 0,
            states,
            outcome: ResponseOutcome::default(),
        }
    }

    /// The same response after a wait, with what filters had asked for before it.
    #[must_use]
    pub fn again(self, outcome: ResponseOutcome) -> Self {
        Self { outcome, ..self }
    }

    /// What this filter has remembered of the request.
    pub fn remembered<T: 'static>(&self) -> Option<&T> {
        self.states.get((self.at, self.part))
    }

    /// The same, which it forgets.
    pub fn recall<T: 'static>(&mut self) -> Option<T> {
        self.states.take((self.at, self.part))
    }

    /// Remembers something for when it is called again, in place of what it has remembered before.
    pub fn remember(&mut self, state: impl Any) {
        self.states.put((self.at, self.part), Box::new(state));
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

    /// The response waits until this is answered; then [`Filter::resume_response`](crate::Filter::resume_response) is
    /// called. To be asked for only where it [can wait](Self::can_wait).
    pub fn wait(&mut self, request: Subrequest) {
        debug_assert!(self.can_wait, "nobody waits for an answer");
        self.outcome.waits = Some((self.at.into(), Box::new(request)));
    }

    /// The client gets another response; filters before this one see it.
    pub fn replace(&mut self, reply: Reply) {
        self.outcome.replaced = Some(Box::new(reply));
    }

    /// The body changes on its way; its length is not told. `make` is called if there is one: the answer to a HEAD has
    /// the same fields and none.
    pub fn transform_body(&mut self, make: impl FnOnce() -> Box<dyn BodyTransform>) {
        if self.content_length == Some(0) {
            // Nothing becomes of nothing: it keeps its length.
            return;
        }
        self.outcome.changes_length = true;
        if self.has_body {
            self.outcome.transforms.push(make());
        }
    }

    /// A body of an endpoint with more bytes, before any transform, is refused with 502, or breaks off; the smallest
    /// bound of all filters counts.
    pub fn limit_body(&mut self, bytes: u64) {
        let limit = &mut self.outcome.max_body;
        *limit = Some(limit.map_or(bytes, |known| known.min(bytes)));
    }

    /// The body comes no faster than this, before any transform; the slowest of all filters counts.
    pub fn throttle_body(&mut self, bandwidth: Bandwidth) {
        self.outcome.bandwidth = Some(bandwidth.or_slower(self.outcome.bandwidth));
    }

    /// This filter could not do its work: it is counted as one that has failed.
    pub fn note_failure(&mut self) {
        self.outcome.failed |= 1_u32.checked_shl(self.at.into()).unwrap_or(0);
    }

    /// Whether a filter has asked for more than changed fields.
    pub fn has_asked(&self) -> bool {
        self.outcome.replaced.is_some() || self.outcome.changes_length
    }

    /// Removes and writes fields that were prepared.
    pub(crate) fn write(&mut self, sets: &FieldSets) {
        let (fields, values) = self.fields_and_values();
        sets.apply(fields, &values);
    }

    /// Its fields, to change, and what placeholders stand for.
    pub(crate) fn fields_and_values(&mut self) -> (&mut HeadFields<'a>, Values<'_>) {
        let fault = self.fault.filter(|_| self.tells_details);
        let Self { facts, request, target, identity, status, fields, .. } = self;
        let (target, identity, status) = (*target, *identity, Some(*status));
        (fields, Values { facts, fields: *request, target, identity, status, fault })
    }

    /// What placeholders stand for.
    pub fn values(&self) -> Values<'_> {
        Values {
            facts: &self.facts,
            fields: self.request,
            target: self.target,
            identity: self.identity,
            status: Some(self.status),
            fault: self.fault.filter(|_| self.tells_details),
        }
    }

    /// What filters have asked for.
    pub fn into_outcome(self) -> ResponseOutcome {
        self.outcome
    }
}

/// An answer that a filter gives itself.
#[derive(Debug)]
pub struct Reply {
    /// The status; 200 to 599.
    pub status: u16,
    /// Fields as whole lines, without those of framing, `Date` and the id.
    pub fields: Vec<u8>,
    /// The body.
    pub body: ReplyBody,
    /// Whether it is a service's response that was stored: it has a `Date` of its own, and filters see it as one that
    /// comes from an endpoint.
    pub is_stored: bool,
}

impl Reply {
    /// An answer without a body.
    pub fn new(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: ReplyBody::Empty, is_stored: false }
    }

    /// Adds a field. What HTTP does not allow is not written.
    #[must_use]
    pub fn field(mut self, name: &str, value: &[u8]) -> Self {
        write_field(&mut self.fields, name.as_bytes(), value);
        self
    }

    /// The body, and its type.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Arc<[u8]>>) -> Self {
        let mut reply = self.field("Content-Type", content_type.as_bytes());
        reply.body = ReplyBody::Bytes(body.into());
        reply
    }
}

/// The body of a [`Reply`].
#[derive(Debug)]
pub enum ReplyBody {
    /// None.
    Empty,
    /// Bytes in memory.
    Bytes(Arc<[u8]>),
    /// Pieces, one after the other.
    Parts(Vec<Part>),
    /// Pieces that come while it is sent.
    Source(Box<dyn BodySource>),
}

impl ReplyBody {
    /// Bytes in all; `None`: it is not known before its end.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Parts(parts) => Some(parts.iter().map(Part::length).sum()),
            Self::Source(source) => source.length(),
        }
    }
}

/// A body that comes while it is sent.
pub trait BodySource: Debug + Send {
    /// Bytes in all; `None`: they are not known before the end.
    fn length(&self) -> Option<u64>;

    /// The next piece, not empty; `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// It breaks off: the rest will not come.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Piece>, Fault>>;

    /// The next piece, where it is in memory and has at most so many bytes, so that it can be sent with the one before
    /// it; [`Self::poll_piece`] then gives the one behind it.
    fn small_piece(&mut self, _most: usize) -> Option<Piece> {
        None
    }
}

/// Bytes that are shared with others.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where they are.
    pub bytes: Arc<[u8]>,
    /// Which of them.
    pub range: Range<usize>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// Bytes of a regular file. When it has fewer by then, the message breaks off.
    File {
        /// Open for reading.
        file: Arc<File>,
        /// The offset of the first byte.
        from: u64,
        /// How many.
        length: u64,
    },
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }
}
