//! What is asked of workers, and a record as others get it.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_observe::trace::TraceId;
use tokio::sync::mpsc;

/// Which exchanges are asked for: those that fit everything that is there.
#[derive(Clone, Debug)]
pub struct RecordQuery {
    /// The id of the request, in any case.
    pub id: Option<RequestId>,
    /// Name of the route.
    pub route: Option<String>,
    /// Name of the service.
    pub service: Option<String>,
    /// The status that the client got.
    pub status: Option<RangeInclusive<u16>>,
    /// How it or one of its attempts ended.
    pub fault: Option<FaultKind>,
    /// It took as long or longer.
    pub slower_than: Option<Duration>,
    /// Most that each worker tells, the newest ones.
    pub limit: usize,
}

/// What one worker remembers of an [`RecordQuery`].
#[derive(Debug)]
pub struct FoundRecords {
    /// The newest first.
    pub decisions: Vec<Decision>,
    /// Since then, every exchange that has ended is remembered; `None`: none has been forgotten.
    pub complete_since: Option<SystemTime>,
}

/// A question to a worker, and where its answer goes.
#[derive(Debug)]
pub(crate) struct QueryRequest {
    pub(crate) inquiry: RecordQuery,
    /// Has room for an answer of every worker.
    pub(crate) answers: mpsc::Sender<FoundRecords>,
}

/// Why an exchange is kept longer than others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notable {
    /// It or one of its attempts failed, or a service answered with a status from 500 on.
    Failed,
    /// It took at least `request_history.slow`.
    Slow,
    /// The proxy answered with a status from 400 to 499, or the client left.
    Refused,
}

/// What was decided about one exchange, and what came of it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// As in `X-Request-Id`. A trusted proxy may give several the same.
    pub id: Option<RequestId>,
    /// The trace that tells of it, where one does.
    pub trace: Option<TraceId>,
    /// The number of the worker that served it.
    pub worker: usize,
    /// When its first byte was here.
    pub began: SystemTime,
    /// Until its last byte was sent; of one that goes on, until now.
    pub duration: Duration,
    /// It is a tunnel that goes on.
    pub is_open: bool,
    /// Name of the listener.
    pub listener: Option<Arc<str>>,
    /// The client, seen through trusted proxies.
    pub client: IpAddr,
    /// Its port, when its connection is ours.
    pub port: Option<u16>,
    /// The method; empty when no request line could be read.
    pub method: Vec<u8>,
    /// Host and port that the client named, in normal form.
    pub host: Vec<u8>,
    /// The path in normal form. What does not fit into the record is left out.
    pub path: Vec<u8>,
    /// The query without its secrets, where the access log has it.
    pub query: Option<Vec<u8>>,
    /// Name of the route that took it.
    pub route: Option<Arc<str>>,
    /// The route's filters in their order, and whether they changed the request or the response, or refused it.
    pub filters: Vec<(&'static str, bool)>,
    /// Name of the service that it went to.
    pub service: Option<Arc<str>>,
    /// In the order of their beginning.
    pub attempts: Vec<DecisionAttempt>,
    /// Time spent waiting for places.
    pub waited: Duration,
    /// From the beginning to the first byte of a response; absent when none came.
    pub first_byte: Option<Duration>,
    /// Bytes of the request's body received.
    pub bytes_in: u64,
    /// Bytes of the response's body sent.
    pub bytes_out: u64,
    /// The status sent; 0 when there was none.
    pub status: u16,
    /// Why the proxy could not do what was asked.
    pub fault: Option<Fault>,
    /// Who the client is, as a filter has verified it.
    pub user: Option<String>,
    /// Why a filter refused it, or would have.
    pub reason: Option<String>,
    /// Why it is kept longer than others.
    pub notable: Option<Notable>,
    /// It is a tunnel that was silent for as long as its route allows.
    pub ended_idle: bool,
}

/// In one line, without the query.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        write!(f, "{} {}{} from {}", text(&self.method), text(&self.host), text(&self.path), self.client)?;
        let objects = [("listener", &self.listener), ("route", &self.route), ("service", &self.service)];
        for (kind, name) in objects {
            name.iter().try_for_each(|name| write!(f, ", {kind} {name}"))?;
        }
        for attempt in &self.attempts {
            attempt.endpoint.iter().try_for_each(|endpoint| write!(f, ", {endpoint}"))?;
            attempt.fault.iter().try_for_each(|fault| write!(f, " ({fault})"))?;
        }
        write!(f, ": {} after {:?}", self.status, self.duration)?;
        self.fault.iter().try_for_each(|fault| write!(f, ", {fault}"))?;
        self.id.iter().try_for_each(|id| write!(f, ", request {id}"))
    }
}

/// One try to have the request answered.
#[derive(Clone, Debug)]
pub struct DecisionAttempt {
    /// URL of the endpoint.
    pub endpoint: Option<Arc<str>>,
    /// From the beginning of the exchange.
    pub began: Duration,
    /// Time until the connection was there, without TLS; zero on a kept one.
    pub connect: Duration,
    /// Time of the TLS handshake after that; zero where there was none.
    pub tls: Duration,
    /// Whether the connection had served a request before.
    pub reused: bool,
    /// It was a copy, sent because an attempt before was slow to be answered.
    pub is_copy: bool,
    /// Whether its response is the one that the client got.
    pub answered: bool,
    /// Why it failed.
    pub fault: Option<Fault>,
    /// When it failed, from the beginning of the exchange.
    pub failed: Option<Duration>,
}
