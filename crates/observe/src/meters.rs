//! The groups of cells that workers write, one group per worker and thing.
//!
//! A worker takes its groups from the [`Registry`](crate::Registry) when a plan arrives and keeps
//! the `Arc`s: on the exchange's path a metric is a plain store. Invariant: each group has one
//! writer, except where its doc says otherwise. Groups stand on cache lines of their own so that
//! workers do not slow each other down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thalweg_core::FaultKind;

use crate::exemplar::Exemplars;
use crate::meter::{BUCKETS, Codes, Counter, Gauge, GrpcCodes, Histogram};
use crate::totals::Totals;

/// A group of cells of one worker and one thing.
pub(crate) trait Meters: Default {
    /// Whether nothing has been counted: who forgets it loses nothing.
    fn is_blank(&self) -> bool;

    /// Adds what has been counted, where that has the form of [`Totals`].
    fn add_totals(&self, _totals: &mut Totals) {}
}

impl Meters for RouteMeters {
    fn is_blank(&self) -> bool {
        self.codes.is_blank() && self.bytes_in.value() == 0 && self.bytes_out.value() == 0
    }

    fn add_totals(&self, totals: &mut Totals) {
        let mut buckets = [0; BUCKETS];
        self.duration.add_buckets(&mut buckets);
        totals.requests = totals.requests.wrapping_add(buckets.iter().sum());
        totals.errors = totals.errors.wrapping_add(self.codes.of_class(5));
        totals.bytes_in = totals.bytes_in.wrapping_add(self.bytes_in.value());
        totals.bytes_out = totals.bytes_out.wrapping_add(self.bytes_out.value());
        self.duration.add_buckets(&mut totals.buckets);
        self.failed.add_buckets(&mut totals.failed);
    }
}

impl Meters for EndpointMeters {
    fn is_blank(&self) -> bool {
        [&self.requests, &self.connects, &self.connect_failures].iter().all(|counter| counter.value() == 0)
    }

    fn add_totals(&self, totals: &mut Totals) {
        let attempts = self.requests.value().wrapping_add(self.connect_failures.value());
        totals.requests = totals.requests.wrapping_add(attempts);
        totals.errors = totals.errors.wrapping_add(self.errors.value());
        totals.bytes_in = totals.bytes_in.wrapping_add(self.bytes_in.value());
        totals.bytes_out = totals.bytes_out.wrapping_add(self.bytes_out.value());
        self.response.add_buckets(&mut totals.buckets);
    }
}

impl Meters for ServiceMeters {
    fn is_blank(&self) -> bool {
        let counters = [&self.refused, &self.bytes_in, &self.bytes_out];
        let is_idle = self.active.value() == 0 && self.wait.is_blank() && self.duration.is_blank();
        is_idle && counters.iter().all(|counter| counter.value() == 0)
    }

    fn add_totals(&self, totals: &mut Totals) {
        let mut buckets = [0; BUCKETS];
        self.duration.add_buckets(&mut buckets);
        totals.requests = totals.requests.wrapping_add(buckets.iter().sum());
        totals.errors = totals.errors.wrapping_add(self.errors.value());
        totals.bytes_in = totals.bytes_in.wrapping_add(self.bytes_in.value());
        totals.bytes_out = totals.bytes_out.wrapping_add(self.bytes_out.value());
        self.duration.add_buckets(&mut totals.buckets);
        self.failed.add_buckets(&mut totals.failed);
    }
}

impl Meters for FilterMeters {
    fn is_blank(&self) -> bool {
        self.outcomes.iter().all(|counter| counter.value() == 0)
    }
}

impl Meters for ListenerMeters {
    fn is_blank(&self) -> bool {
        self.connections.value() == 0 && self.refused.value() == 0
    }
}

impl Meters for Counter {
    fn is_blank(&self) -> bool {
        self.value() == 0
    }
}

impl Meters for Gauge {
    /// It says how something is: of what is gone there is nothing to say.
    fn is_blank(&self) -> bool {
        true
    }
}

/// What one worker counts about one route.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct RouteMeters {
    /// Exchanges that ended, per status of the answer.
    pub codes: Codes,
    /// gRPC calls that ended, per status of the call.
    pub grpc: GrpcCodes,
    /// From the first byte of the request to the last byte of the response.
    pub duration: Histogram,
    /// The same of those that ended with a status from 500 on.
    pub failed: FailedDurations,
    /// Examples of its buckets.
    pub exemplars: Exemplars,
    /// Bytes of requests received: heads, and bodies without framing.
    pub bytes_in: Counter,
    /// Bytes of responses sent: heads, bodies and framing.
    pub bytes_out: Counter,
    /// Requests that the cache has to do with, indexed by `CacheUse as usize`.
    pub cache: [Counter; CacheUse::ALL.len()],
}

impl RouteMeters {
    /// Counts an exchange that ended with this status after this time. Only the owner may call this.
    #[inline]
    pub fn count(&self, status: u16, duration: Duration) {
        self.codes.add(status);
        self.duration.record(duration);
        if status >= FIRST_ERROR {
            self.failed.record(duration);
        }
    }
}

/// The lowest status that is an error.
pub const FIRST_ERROR: u16 = 500;

/// Durations of exchanges that failed. They take their place when the first one is counted: an objective must not
/// count one twice that was slow and failed.
#[derive(Debug, Default)]
pub struct FailedDurations(OnceLock<Box<Histogram>>);

impl FailedDurations {
    /// Counts one. Only the owner may call this.
    #[cold]
    pub fn record(&self, duration: Duration) {
        self.0.get_or_init(Box::default).record(duration);
    }

    pub(crate) fn add_buckets(&self, totals: &mut [u64; BUCKETS]) {
        self.0.get().inspect(|histogram| histogram.add_buckets(totals));
    }
}

/// What a filter did to an exchange. The word is the metric's label `outcome`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FilterOutcome {
    /// It changed the request or the response.
    Changed,
    /// It answered in place of the service.
    Answered,
    /// It refused the request with a fault.
    Refused,
    /// It could not do its work, whatever became of the exchange.
    Failed,
}

impl FilterOutcome {
    /// Every outcome.
    pub const ALL: &'static [Self] = &[Self::Changed, Self::Answered, Self::Refused, Self::Failed];

    /// The word used in metrics and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// What the cache did with a request. The word is the metric's label `result`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum CacheUse {
    /// A stored response that is fresh has answered it.
    Hit,
    /// A stored response that is stale has answered it.
    Stale,
    /// A stored response has answered it after the service said that it still holds.
    Revalidated,
    /// It has waited for the response that another request fetched.
    Collapsed,
    /// The service has answered it, and the response was to be stored.
    Miss,
    /// The service has answered it, and the response was not to be stored.
    Pass,
}

impl CacheUse {
    /// Every use.
    pub const ALL: &'static [Self] =
        &[Self::Hit, Self::Stale, Self::Revalidated, Self::Collapsed, Self::Miss, Self::Pass];

    /// The word used in metrics, logs and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Collapsed => "collapsed",
            Self::Miss => "miss",
            Self::Pass => "pass",
        }
    }
}

/// What one worker counts about one kind of filter on one route.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct FilterMeters {
    /// Exchanges in which it did something, indexed by `FilterOutcome as usize`.
    pub outcomes: [Counter; FilterOutcome::ALL.len()],
}

/// What one worker counts about one endpoint of one service.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct EndpointMeters {
    /// Requests sent, every attempt counted.
    pub requests: Counter,
    /// Connections established.
    pub connects: Counter,
    /// Connections that could not be established.
    pub connect_failures: Counter,
    /// TLS handshakes with it that negotiated keys anew.
    pub tls_full: Counter,
    /// Those that resumed a session.
    pub tls_resumed: Counter,
    /// Those that failed.
    pub tls_failed: Counter,
    /// Requests sent here because another attempt had failed.
    pub retries: Counter,
    /// Second copies sent here because another endpoint was slow to answer.
    pub hedges: Counter,
    /// Those of them whose response came first.
    pub hedges_won: Counter,
    /// Requests sent on a connection that had been used before.
    pub reused: Counter,
    /// Attempts that failed, connections that could not be established among them, and responses with a status from
    /// 500 on.
    pub errors: Counter,
    /// Bytes of requests, as counted for the route, while this endpoint was asked.
    pub bytes_in: Counter,
    /// Bytes of responses, likewise.
    pub bytes_out: Counter,
    /// From sending the request to the first byte of the response.
    pub response: Histogram,
    /// Until a connection was established, without TLS.
    pub connect: Histogram,
}

/// What one worker counts about one service as a whole.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ServiceMeters {
    /// Exchanges and tunnels under way.
    pub active: Gauge,
    /// Exchanges that wait for a place.
    pub queued: Gauge,
    /// How long those that had to wait did, whatever came of it.
    pub wait: Histogram,
    /// Exchanges that the breaker refused.
    pub refused: Counter,
    /// Exchanges that ended, by duration: as of a route.
    pub duration: Histogram,
    /// Those of them with a status from 500 on, whoever made the answer.
    pub errors: Counter,
    /// Their durations.
    pub failed: FailedDurations,
    /// Bytes of requests received, as counted for the route.
    pub bytes_in: Counter,
    /// Bytes of responses sent, likewise.
    pub bytes_out: Counter,
}

impl ServiceMeters {
    /// Counts an exchange that ended with this status after this time. Only the owner may call this.
    #[inline]
    pub fn count(&self, status: u16, duration: Duration) {
        self.duration.record(duration);
        if status >= FIRST_ERROR {
            self.errors.add(1);
            self.failed.record(duration);
        }
    }
}

/// What one worker counts about one listener.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ListenerMeters {
    /// Connections accepted.
    pub connections: Counter,
    /// Connections open now.
    pub active: Gauge,
    /// Connections refused because a bound was reached.
    pub refused: Counter,
    /// TLS handshakes that ended, in the order of [`HANDSHAKE_RESULTS`].
    pub handshakes: [Counter; HANDSHAKE_RESULTS.len()],
    /// HTTP/2 connections ended for a flood of frames, in the order of [`FLOODS`].
    pub floods: [Counter; FLOODS.len()],
    /// TLS connections made, in the order of [`TLS_VERSIONS`].
    pub tls_versions: [Counter; TLS_VERSIONS.len()],
    /// Datagrams passed on, in the order of [`DIRECTIONS`].
    pub datagrams: [Counter; DIRECTIONS.len()],
    /// Datagrams that were not passed on; see [`ListenerMeters::drop_datagrams`].
    pub dropped: [Counter; DROPS.len()],
}

/// Versions of TLS: the values of the label `version`.
pub const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// Which way datagrams go: the values of the label `direction`.
pub const DIRECTIONS: [&str; 2] = ["in", "out"];

/// Why datagrams are not passed on: the values of the label `reason`.
pub const DROPS: [&str; 7] = ["no_place", "no_endpoint", "unsent", "cut", "stopping", "source", "denied"];

/// Why a datagram is not passed on, as in [`DROPS`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Drops {
    /// A bound is reached, and it would begin another session.
    NoPlace,
    /// No endpoint takes it.
    NoEndpoint,
    /// The kernel did not take it.
    Unsent,
    /// It was longer than a datagram can be.
    Cut,
    /// It would begin another session while the proxy stops.
    Stopping,
    /// It says that it comes from a listener of the proxy, or from no port.
    Source,
    /// Its sender may not send here.
    Denied,
}

impl ListenerMeters {
    /// Counts a handshake that ended; `result` is one of [`HANDSHAKE_RESULTS`].
    pub fn count_handshake(&self, result: &str) {
        let at = HANDSHAKE_RESULTS.iter().position(|known| *known == result);
        debug_assert!(at.is_some(), "{result} is not in the table");
        at.and_then(|at| self.handshakes.get(at)).inspect(|counter| counter.add(1));
    }

    /// Counts datagrams that were not passed on.
    pub fn drop_datagrams(&self, reason: Drops, count: usize) {
        self.dropped.get(reason as usize).inspect(|counter| counter.add(count as u64));
    }

    /// Counts an HTTP/2 connection that was ended; `flood` is one of [`FLOODS`].
    pub fn count_flood(&self, flood: &str) {
        let at = FLOODS.iter().position(|known| *known == flood);
        debug_assert!(at.is_some(), "{flood} is not in the table");
        at.and_then(|at| self.floods.get(at)).inspect(|counter| counter.add(1));
    }
}

/// What HTTP/2 clients may send too much of: the values of the label `flood`, the words of the crate that meters
/// frames.
pub const FLOODS: [&str; 11] = [
    "resets",
    "provoked_resets",
    "continuations",
    "field_section",
    "headers",
    "settings",
    "pings",
    "priorities",
    "empty_data",
    "window_updates",
    "other_frames",
];

/// What may come of a TLS handshake: the values of the label `result`. Those after the first two are the words of the
/// crate that shakes hands.
pub const HANDSHAKE_RESULTS: [&str; 21] = [
    "full",
    "resumed",
    "plain_http",
    "no_tls",
    "hello_too_large",
    "hello_malformed",
    "unknown_name",
    "no_certificate",
    "version",
    "suite",
    "alpn",
    "client_certificate_missing",
    "client_certificate_invalid",
    "client_certificate_revoked",
    "client_certificate_expired",
    "server_certificate",
    "alert",
    "protocol",
    "time",
    "gone",
    "limit",
];

macro_rules! limits {
    ($( $variant:ident $name:literal $summary:literal; )*) => {
        /// A bound that was reached. The word is the metric's label `limit`.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Limit { $( #[doc = $summary] $variant, )* }

        impl Limit {
            /// Every limit, in the order of the table.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The word used in metrics and documents.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// One sentence for the reference page.
            pub const fn summary(self) -> &'static str {
                match self { $( Self::$variant => $summary, )* }
            }
        }
    };
}

limits! {
    Connections "connections" "client connections open at once";
    ConnectionsPerClient "connections_per_client" "connections open at once from one client address";
    Descriptors "descriptors" "file descriptors of the process";
    Requests "requests" "exchanges under way at once";
    UpstreamConnections "upstream_connections" "connections to endpoints open at once";
    Buffers "buffers" "bytes of buffers";
    Memory "memory" "bytes of memory of the process";
    Head "head" "bytes or fields in the head of a message";
    Body "body" "bytes of a body";
    Queue "queue" "exchanges that wait for a place";
    RouteInFlight "route_in_flight" "`max_in_flight` of a route";
    ServiceInFlight "service_in_flight" "`max_in_flight` of a service";
    EndpointInFlight "endpoint_in_flight" "`max_in_flight` of every endpoint of a service";
    ServiceConnections "service_connections" "`max_connections` of a service";
    EndpointConnections "endpoint_connections" "`max_connections` of an endpoint";
    Retries "retries" "the retry budget of a service";
    Hedges "hedges" "the hedge budget of a service";
    Copies "copies" "copies of requests (`mirror`): their number, or bytes of a body";
    Decoders "decoders" "bytes that decoders of bodies (`decompress`) hold";
    Access "access" "connections and datagrams of clients that may not connect (`access` of the listener, `blocked`)";
    Rate "rate" "requests in a span of time";
    Refusals "refusals" "refusals answered at once; past it connections are closed without an answer";
    Tap "tap" "exchanges that wait for the reader of a tap; those beyond are dropped, and the reader is told";
    Spans "spans" "exchanges that wait for the exporter of traces; those beyond are not told of";
    Series "series" "names that metrics are kept for";
}

/// What one worker counts about itself.
#[derive(Debug)]
#[repr(align(64))]
pub struct WorkerMeters {
    /// Faults, indexed by `FaultKind as usize`; see [`WorkerMeters::fault`].
    pub faults: [Counter; FaultKind::ALL.len()],
    /// Bounds reached, indexed by `Limit as usize`; see [`WorkerMeters::limit`].
    pub limits: [Counter; Limit::ALL.len()],
    /// Lines of the access log dropped because the writer's queue was full.
    pub log_dropped: Counter,
    /// Spans dropped because the exporter's queue was full.
    pub spans_dropped: Counter,
    /// Exchanges given up because of a panic.
    pub panics: Counter,
    /// How late the worker's timers were at its last tick, in microseconds.
    pub lag_us: Gauge,
    /// Client connections between two exchanges.
    pub idle_connections: Gauge,
    /// Exchanges under way.
    pub active_exchanges: Gauge,
    /// Upstream connections kept for the next exchange.
    pub upstream_idle: Gauge,
    epoch: Instant,
    last_tick_ms: AtomicU64,
}

impl WorkerMeters {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            faults: std::array::from_fn(|_| Counter::default()),
            limits: std::array::from_fn(|_| Counter::default()),
            log_dropped: Counter::default(),
            spans_dropped: Counter::default(),
            panics: Counter::default(),
            lag_us: Gauge::default(),
            idle_connections: Gauge::default(),
            active_exchanges: Gauge::default(),
            upstream_idle: Gauge::default(),
            epoch,
            last_tick_ms: AtomicU64::new(0),
        }
    }

    /// Counts one fault.
    #[inline]
    pub fn fault(&self, kind: FaultKind) {
        if let Some(counter) = self.faults.get(kind as usize) {
            counter.add(1);
        }
    }

    /// Counts one hit of a bound.
    #[inline]
    pub fn limit(&self, limit: Limit) {
        if let Some(counter) = self.limits.get(limit as usize) {
            counter.add(1);
        }
    }

    /// Milliseconds since the registry was made.
    #[inline]
    pub fn ms_of(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    /// Says that the worker's loop turns. To be called at least once a second.
    #[inline]
    pub fn tick(&self, now: Instant) {
        let ms = now.saturating_duration_since(self.epoch).as_millis();
        self.last_tick_ms.store(u64::try_from(ms).unwrap_or(u64::MAX), Relaxed);
    }

    /// How long ago the worker ticked; since the registry was made if it never did. Any thread.
    pub fn silence(&self, now: Instant) -> Duration {
        let last = Duration::from_millis(self.last_tick_ms.load(Relaxed));
        now.saturating_duration_since(self.epoch).saturating_sub(last)
    }
}

/// The budget of the process, as computed at start, and what is used of it. Written by whoever asks for
/// the metrics; what is allowed is not shown while it is 0, "not set".
#[derive(Debug, Default)]
pub struct BudgetMeters {
    /// File descriptors that may be open.
    pub descriptors: Gauge,
    /// Client connections that may be open.
    pub connections: Gauge,
    /// Upstream connections that may be open.
    pub upstream_connections: Gauge,
    /// Exchanges that may be under way.
    pub requests: Gauge,
    /// Exchanges with a large request body that may be under way.
    pub bodies: Gauge,
    /// Bytes of buffers.
    pub buffer_bytes: Gauge,
    /// Bytes that the process and its sockets may use.
    pub memory_bytes: Gauge,
    /// Bytes of those that are in use, as counted.
    pub memory_used: Gauge,
    /// Bytes of bodies that exchanges hold.
    pub held_bytes: Gauge,
    /// What state memory is in: 0 normal, 1 pressure, 2 full.
    pub state: Gauge,
    /// The largest of the shares in use, in millionths.
    pub saturation_ppm: Gauge,
}

/// What becomes of certificates that are asked for. Any thread.
#[derive(Debug, Default)]
pub struct AcmeMeters {
    counts: [AtomicU64; ACME_RESULTS.len()],
}

/// What may become of them.
pub(crate) const ACME_RESULTS: [&str; 3] = ["issued", "renewed", "failed"];

impl AcmeMeters {
    /// One was issued, in place of an older one or not.
    pub fn count_issued(&self, renewed: bool) {
        self.counts[usize::from(renewed)].fetch_add(1, Relaxed);
    }

    /// One was not.
    pub fn count_failed(&self) {
        self.counts[2].fetch_add(1, Relaxed);
    }

    /// In the order of [`ACME_RESULTS`].
    pub(crate) fn counts(&self) -> [u64; ACME_RESULTS.len()] {
        [0, 1, 2].map(|at: usize| self.counts[at].load(Relaxed))
    }
}

/// What becomes of configurations that are to take over. Any thread.
#[derive(Debug, Default)]
pub struct ReloadMeters {
    succeeded: AtomicU64,
    failed: AtomicU64,
    rolled_back: AtomicU64,
    last_success_ms: AtomicU64,
    /// The last one was refused.
    last_failed: AtomicBool,
    /// Plans that are in force or that workers have not let go of. Written by whoever asks for the metrics.
    pub plans_alive: Gauge,
}

impl ReloadMeters {
    /// Counts a reload.
    pub fn count(&self, succeeded: bool) {
        if succeeded {
            self.succeeded.fetch_add(1, Relaxed);
            self.note_success();
        } else {
            self.failed.fetch_add(1, Relaxed);
            self.last_failed.store(true, Relaxed);
        }
    }

    /// Whether the last configuration that was to take over did.
    pub(crate) fn last_succeeded(&self) -> bool {
        !self.last_failed.load(Relaxed)
    }

    /// Counts a configuration that was taken back by itself.
    pub fn count_rolled_back(&self) {
        self.rolled_back.fetch_add(1, Relaxed);
    }

    /// A configuration has taken over, now.
    pub fn note_success(&self) {
        self.last_failed.store(false, Relaxed);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_success_ms.store(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Those that took over, those that did not, and those that were taken back.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.succeeded, &self.failed, &self.rolled_back].map(|count| count.load(Relaxed))
    }

    /// When a configuration took over last, in seconds since the Unix epoch.
    pub(crate) fn last_success(&self) -> f64 {
        self.last_success_ms.load(Relaxed) as f64 / 1e3
    }
}

/// What webhooks count. All of them run on one thread.
#[derive(Debug, Default)]
pub struct WebhookMeters {
    /// Events that a receiver has taken.
    pub delivered: Counter,
    /// Events whose every attempt failed.
    pub given_up: Counter,
    /// Events that were never sent: the queue was full, or the receiver is gone.
    pub dropped: Counter,
    /// Attempts after the first.
    pub retries: Counter,
}

/// What the exporter of traces counts. One task writes.
#[derive(Debug, Default)]
pub struct TraceMeters {
    /// Spans that the collector has taken.
    pub exported: Counter,
    /// Spans that it has not taken, whatever was tried.
    pub failed: Counter,
}

/// What the thread that writes the access log counts. Its last errors are kept for the control thread.
#[derive(Debug, Default)]
pub struct LogMeters {
    /// Lines lost because the destination did not take them.
    pub lost: Counter,
    /// Writes and reopens that failed.
    pub errors: Counter,
    /// The last batch was not written whole.
    fails: AtomicBool,
    write_error: Mutex<Option<String>>,
    reopen_error: Mutex<Option<String>>,
}

impl LogMeters {
    /// A batch was written whole. Only the log writer's thread calls this and the next two.
    pub(crate) fn written(&self) {
        self.fails.store(false, Relaxed);
    }

    /// Counts a write that failed and remembers why.
    pub(crate) fn write_failed(&self, text: String) {
        self.fails.store(true, Relaxed);
        self.remember(&self.write_error, text);
    }

    /// Counts a reopen that failed and remembers why.
    pub(crate) fn reopen_failed(&self, text: String) {
        self.remember(&self.reopen_error, text);
    }

    fn remember(&self, place: &Mutex<Option<String>>, text: String) {
        self.errors.add(1);
        if let Ok(mut last) = place.lock() {
            *last = Some(text);
        }
    }

    /// Whether lines cannot be written: the last batch was not taken whole.
    pub fn fails(&self) -> bool {
        self.fails.load(Relaxed)
    }

    /// Why a write has failed last, since the last call.
    pub fn take_write_error(&self) -> Option<String> {
        self.write_error.lock().ok().and_then(|mut last| last.take())
    }

    /// Why a reopen has failed last, since the last call.
    pub fn take_reopen_error(&self) -> Option<String> {
        self.reopen_error.lock().ok().and_then(|mut last| last.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_the_time_since_the_last_tick() {
        let start = Instant::now();
        let worker = WorkerMeters::new(start);
        assert_eq!(worker.silence(start + Duration::from_secs(11)), Duration::from_secs(11));
        worker.tick(start + Duration::from_secs(9));
        assert_eq!(worker.silence(start + Duration::from_secs(11)), Duration::from_secs(2));
        assert_eq!(worker.silence(start), Duration::ZERO);
    }

    #[test]
    fn every_fault_and_limit_has_its_counter() {
        let worker = WorkerMeters::new(Instant::now());
        FaultKind::ALL.iter().for_each(|kind| worker.fault(*kind));
        Limit::ALL.iter().for_each(|limit| worker.limit(*limit));
        assert!(worker.faults.iter().chain(&worker.limits).all(|counter| counter.value() == 1));
    }
}
