//! Traces: what an exchange belongs to, whether it is told of, and how it is told (decision 0082).
//!
//! A worker begins a [`TraceContext`] with each request and writes it into the requests that go upstream. Nothing else
//! happens until the exchange is over: then [`TracingPolicy::tells`] says whether an [`ExchangeSpan`] is made of what
//! the exchange knows anyway. So an exchange that is not told of costs the field that goes upstream.
//!
//! Pure: no clock, no randomness, no socket. [`otlp`] writes spans as OpenTelemetry wants them.

mod export;
pub mod otlp;
mod span;

pub use export::{SecretText, TIMEOUT, TraceExport, TraceProtocol, Tracing};
pub use span::{AttemptSpan, Beside, ExchangeSpan, GrpcStatus, SpanFault};

use serde::Serialize;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;
use thalweg_core::written;

/// Bytes of a `traceparent` of version 00.
const LEN: usize = 55;
/// The bit of the flags that says that the trace is recorded.
const SAMPLED: u8 = 1;
/// Bytes of a `tracestate` that are passed on; a longer one is not.
const STATE: usize = 512;
/// Members of the same.
const MEMBERS: usize = 32;
/// Of a trace id, the bits that are random by W3C Trace Context Level 2: the last 56.
const RANDOM_BITS: u32 = 56;

/// The id of a trace: sixteen bytes, not all zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// The id with this number; 0 is none, and becomes 1.
    pub const fn new(number: u128) -> Self {
        Self((if number == 0 { 1 } else { number }).to_be_bytes())
    }

    /// As it is sent in messages.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Appends its 32 digits.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_hex(out, &self.0);
    }
}

/// The id of a span within its trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// The id with this number; 0 is none, and becomes the largest one.
    pub const fn new(number: u64) -> Self {
        match NonZeroU64::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MAX),
        }
    }

    /// As it is sent in messages.
    pub const fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }
}

/// What a `traceparent` says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parent {
    /// The trace.
    pub trace: TraceId,
    /// The span that the request comes from.
    pub span: SpanId,
    /// Whether who sent it records the trace.
    pub sampled: bool,
}

impl Parent {
    /// Reads a `traceparent` (W3C Trace Context §3.2); `None`: it is not one, and there is no parent.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let version = hex(value.get(..2)?)? as u8;
        let is_whole = match version {
            0 => value.len() == LEN,
            0xff => false,
            _ => value.len() == LEN || value.get(LEN) == Some(&b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|at| value.get(*at) == Some(&b'-'));
        if !is_whole || !dashes {
            return None;
        }
        let trace = hex(&value[3..35])?;
        let span = hex(&value[36..52])? as u64;
        let flags = hex(&value[53..55])? as u8;
        (trace != 0 && span != 0).then_some(Self {
            trace: TraceId::new(trace),
            span: SpanId::new(span),
            sampled: flags & SAMPLED != 0,
        })
    }
}

/// Whether these values of `tracestate`, in their order, are passed on: together at most 512 bytes and 32 members. What
/// is longer may be left out as a whole (W3C Trace Context §3.3.1.5), and a part of it would say something else.
pub fn passes_on<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut bytes, mut members) = (0, 0);
    for value in values {
        bytes += value.len() + usize::from(bytes > 0);
        members += value.split(|byte| *byte == b',').count();
    }
    bytes <= STATE && members <= MEMBERS
}

/// Digits in lower case, as the standard demands.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |sum, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(sum << 4 | u128::from(value))
    })
}

/// Where an exchange stands in a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The exchange's own span.
    pub span: SpanId,
    /// The span that it belongs to, where a client has named one.
    pub parent: Option<SpanId>,
    /// Whether the trace was drawn to be recorded; services are told.
    pub sampled: bool,
    /// It is a request of the proxy's own, and its parent an exchange here.
    pub is_inner: bool,
    /// The exchange is over, and is told of.
    pub is_told: bool,
    /// The number of the attempt under way, from 0: services learn its span.
    pub attempt: u8,
}

impl TraceContext {
    /// The span of the attempt with this number.
    pub fn attempt(&self, number: u8) -> SpanId {
        SpanId::new(self.span.0.get().wrapping_add(u64::from(number) + 1))
    }

    /// The same trace, for a request that the proxy makes on behalf of the exchange. `random`: its span.
    pub fn inner(&self, random: u64) -> Self {
        let (span, parent) = (SpanId::new(random), Some(self.span));
        Self { span, parent, is_inner: true, is_told: false, attempt: 0, ..*self }
    }

    /// Appends the `traceparent` of the attempt under way.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"00-");
        self.trace.write(out);
        out.push(b'-');
        write_hex(out, &self.attempt(self.attempt).bytes());
        out.extend_from_slice(if self.sampled { b"-01" } else { b"-00" });
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Whose `traceparent` counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parents {
    /// Everybody's trace goes on; whether it is recorded, only trusted proxies say.
    #[default]
    All,
    /// Those of trusted proxies; for others a trace begins here.
    Trusted,
    /// Nobody's: every trace begins here.
    None,
}

/// Which exchanges are told of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct TracingPolicy {
    /// Whose `traceparent` counts.
    pub parents: Parents,
    /// The share of traces that begin here and are recorded, in percent.
    #[serde(rename = "sample", serialize_with = "written::percent")]
    pub share: u32,
    /// Exchanges that failed are told of, whether their trace is recorded or not: with a fault, or a status from 500
    /// on.
    pub errors: bool,
    /// So are those that took this long.
    #[serde(serialize_with = "written::duration")]
    pub slower_than: Duration,
}

impl TracingPolicy {
    /// Begins an exchange. `random`: of which the trace's id is made, where one begins, and the exchange's own span.
    pub fn begin(&self, parent: Option<Parent>, is_trusted: bool, random: (u128, u64)) -> TraceContext {
        let counts = match self.parents {
            Parents::All => true,
            Parents::Trusted => is_trusted,
            Parents::None => false,
        };
        let parent = parent.filter(|_| counts);
        let drawn = self.draws(random.0);
        TraceContext {
            trace: parent.map_or(TraceId::new(random.0), |parent| parent.trace),
            span: SpanId::new(random.1),
            parent: parent.map(|parent| parent.span),
            // A stranger's id says nothing: who chooses ids would choose what is recorded.
            sampled: parent.filter(|_| is_trusted).map_or(drawn, |parent| parent.sampled),
            is_inner: false,
            is_told: false,
            attempt: 0,
        }
    }

    /// Whether a trace with this id, where it begins here, is among those that are recorded.
    fn draws(&self, random: u128) -> bool {
        let drawn = random & ((1 << RANDOM_BITS) - 1);
        // 100 × 2⁵⁶ is far from what the type holds.
        drawn * 100 < u128::from(self.share) << RANDOM_BITS
    }

    /// Whether an exchange is told of that is over.
    pub fn tells(&self, context: &TraceContext, failed: bool, took: Duration) -> bool {
        context.sampled || (failed && self.errors) || took >= self.slower_than
    }
}

#[cfg(test)]
mod tests;
