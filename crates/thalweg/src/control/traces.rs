//! Sends spans to the collector that `tracing` names (decision 0082).
//!
//! One task on the control thread: workers put exchanges that are told of into a queue with a bound
//! (`proxy/src/exchange/trace.rs`), this takes them in batches, writes them as OTLP and sends them. A collector that is
//! slow or away costs spans, never exchanges: a batch is tried again for a while, then dropped and counted. Invariant:
//! what waits is at most [`QUEUE`] exchanges and one batch.

use std::sync::Arc;
use std::time::Duration;
use thalweg_client::{Bounds, Bytes, HttpClient, Request, RequestBuilder};
use thalweg_core::Notice;
use thalweg_observe::TraceMeters;
use thalweg_observe::trace::{ExchangeSpan, TraceExport, TraceProtocol, otlp};
use thalweg_proxy::Plan;
use thalweg_tls::Trust;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Exchanges that wait to be sent; beyond them workers drop and count. One is some 1 KiB, and 16 KiB at most.
const QUEUE: usize = 4096;
/// Exchanges that are sent at once.
const BATCH: usize = 512;
/// So long the first one of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// Pauses between attempts; after the last one the batch is dropped.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// The longest pause that a collector may ask for (`Retry-After`).
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const ANSWER: usize = 64 * 1024;
/// Who sends.
const AGENT: &str = concat!("thalweg/", env!("CARGO_PKG_VERSION"));
/// The path of a call over gRPC.
const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// A byte for compression and four of length before each message of gRPC.
const PREFIX: usize = 5;
/// Statuses after which a batch may be sent again (OTLP/HTTP, "Retryable Response Codes").
const LATER: [u16; 4] = [429, 502, 503, 504];
/// The same of gRPC: cancelled, deadline exceeded, resource exhausted, aborted, out of range, unavailable, data loss.
const LATER_GRPC: [&str; 7] = ["1", "4", "8", "10", "11", "14", "15"];

/// The exporter, as the control thread holds it.
pub(super) struct Traces {
    target: watch::Sender<Option<Arc<TraceExport>>>,
    ending: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Traces {
    /// Starts the exporter on the current runtime; gives its queue too. It sends nothing before [`Self::follow`].
    pub(super) fn start(
        meters: Arc<TraceMeters>,
        notices: mpsc::Sender<Notice>,
    ) -> (mpsc::Sender<Box<ExchangeSpan>>, Self) {
        let (spans, queue) = mpsc::channel(QUEUE);
        let (target, ending) = (watch::Sender::new(None), watch::Sender::new(false));
        let exporter = Exporter {
            queue,
            target: target.subscribe(),
            ending: ending.subscribe(),
            meters,
            notices,
            client: HttpClient::new(Trust::System),
            is_told: false,
        };
        (spans, Self { target, ending, task: tokio::spawn(exporter.run()) })
    }

    /// From now on spans go where this plan says.
    pub(super) fn follow(&self, plan: &Plan) {
        let export = plan.tracing.as_ref().map(|tracing| &tracing.export);
        self.target.send_if_modified(|target| {
            let is_new = target.as_deref() != export;
            if is_new {
                *target = export.cloned().map(Arc::new);
            }
            is_new
        });
    }

    /// Sends what waits, as far as the collector takes it in this time, and ends.
    pub(super) async fn finish(mut self, time: Duration) {
        self.ending.send_replace(true);
        if timeout(time, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// The exporter's task.
struct Exporter {
    queue: mpsc::Receiver<Box<ExchangeSpan>>,
    target: watch::Receiver<Option<Arc<TraceExport>>>,
    ending: watch::Receiver<bool>,
    meters: Arc<TraceMeters>,
    notices: mpsc::Sender<Notice>,
    client: HttpClient,
    /// The operator knows that the collector takes nothing.
    is_told: bool,
}

/// What became of a batch.
enum Outcome {
    /// It was taken, but for so many spans.
    Taken(u64, String),
    /// It may be taken later; how long the collector wants to be left alone.
    Later(String, Option<Duration>),
    /// It never will be.
    Never(String),
}

impl Exporter {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.fill(&mut batch).await {
            self.deliver(&batch).await;
            batch.clear();
        }
    }

    /// Waits for exchanges; false when the end has come and nothing waits.
    async fn fill(&mut self, batch: &mut Vec<ExchangeSpan>) -> bool {
        let first = tokio::select! {
            biased;
            first = self.queue.recv() => first,
            _ = self.ending.wait_for(|ends| *ends) => self.queue.try_recv().ok(),
        };
        let Some(first) = first else { return false };
        batch.push(*first);
        let deadline = Instant::now() + LINGER;
        while batch.len() < BATCH {
            let next = tokio::select! {
                biased;
                next = timeout_at(deadline, self.queue.recv()) => next.ok().flatten(),
                _ = self.ending.wait_for(|ends| *ends) => self.queue.try_recv().ok(),
            };
            let Some(next) = next else { break };
            batch.push(*next);
        }
        true
    }

    /// Sends a batch until it is taken or there have been enough attempts; where the target changes meanwhile, to the
    /// new one.
    async fn deliver(&mut self, batch: &[ExchangeSpan]) {
        let count = batch.iter().map(ExchangeSpan::spans).sum();
        let mut pauses = PAUSES.into_iter();
        loop {
            let target = self.target.borrow_and_update().clone();
            // `None`: they were begun before traces were turned off.
            let Some(target) = target else { return self.meters.failed.add(count) };
            match self.send(&target, batch).await {
                Outcome::Taken(refused, why) => {
                    let refused = refused.min(count);
                    self.meters.exported.add(count - refused);
                    self.meters.failed.add(refused);
                    return self.tell_taken(&target, (refused, &why));
                }
                Outcome::Later(why, asked) if !*self.ending.borrow() => {
                    let Some(pause) = pauses.next() else {
                        self.meters.failed.add(count);
                        return;
                    };
                    self.tell_failed(&target, &why);
                    let pause = asked.map_or(pause, |asked| asked.clamp(pause, LONGEST_PAUSE));
                    tokio::select! {
                        () = sleep(pause) => {}
                        _ = self.target.changed() => {}
                        _ = self.ending.wait_for(|ends| *ends) => {}
                    }
                }
                Outcome::Later(why, _) | Outcome::Never(why) => {
                    self.meters.failed.add(count);
                    return self.tell_failed(&target, &why);
                }
            }
        }
    }

    fn tell_taken(&mut self, target: &TraceExport, (refused, why): (u64, &str)) {
        if refused > 0 {
            return self.tell_failed(target, &format!("it refused {refused} spans: {why}"));
        }
        if std::mem::take(&mut self.is_told) {
            self.tell(Notice::info(format!("traces: {} takes spans again", target.endpoint)));
        }
    }

    /// Tells the operator, once until it is well again.
    fn tell_failed(&mut self, target: &TraceExport, why: &str) {
        if !std::mem::replace(&mut self.is_told, true) {
            let url = &target.endpoint;
            let count = "spans are lost (`thalweg_spans_total`)";
            self.tell(Notice::warn(format!("traces: {url} does not take spans: {why}; {count}")));
        }
    }

    fn tell(&self, notice: Notice) {
        // Where there is no room, the line is lost.
        let _ = self.notices.try_send(notice);
    }

    async fn send(&self, target: &TraceExport, batch: &[ExchangeSpan]) -> Outcome {
        let message = otlp::encode(batch, &target.attributes);
        match target.protocol {
            TraceProtocol::Http => self.post(target, message).await,
            TraceProtocol::Grpc => self.call(target, message).await,
        }
    }

    /// OTLP over HTTP.
    async fn post(&self, target: &TraceExport, message: Vec<u8>) -> Outcome {
        let request =
            Request::post(target.endpoint.target()).header("content-type", "application/x-protobuf");
        let request = match with_fields(request, target).body(Bytes::from(message)) {
            Ok(request) => request,
            Err(error) => return Outcome::Never(error.to_string()),
        };
        let bounds = Bounds::new(target.timeout, ANSWER);
        let answer = match self.client.send(&(&target.endpoint).into(), request, bounds).await {
            Ok(answer) => answer,
            Err(error) => return Outcome::Later(error.to_string(), None),
        };
        let status = answer.status().as_u16();
        let asked = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        match status {
            200..=299 => taken(answer.body()),
            _ if LATER.contains(&status) => {
                Outcome::Later(format!("it answered {status}"), asked.map(Duration::from_secs))
            }
            _ => Outcome::Never(format!("it answered {status}")),
        }
    }

    /// OTLP over gRPC.
    async fn call(&self, target: &TraceExport, message: Vec<u8>) -> Outcome {
        let mut body = Vec::with_capacity(PREFIX + message.len());
        body.push(0);
        // A batch is far smaller than 4 GiB.
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(&message);
        let path = target.endpoint.target().trim_end_matches('/');
        let request = Request::post(format!("{path}{METHOD}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", format!("{}m", target.timeout.as_millis()));
        let request = match with_fields(request, target).body(Bytes::from(body)) {
            Ok(request) => request,
            Err(error) => return Outcome::Never(error.to_string()),
        };
        let bounds = Bounds::new(target.timeout, ANSWER);
        let answer = match self.client.call(&(&target.endpoint).into(), request, bounds).await {
            Ok(answer) => answer,
            Err(error) => return Outcome::Later(error.to_string(), None),
        };
        let http = answer.head.status().as_u16();
        if http != 200 {
            let why = format!("it answered {http}");
            return if LATER.contains(&http) { Outcome::Later(why, None) } else { Outcome::Never(why) };
        }
        let field = |name| answer.trailers.get(name).or_else(|| answer.head.headers().get(name));
        let field = |name| field(name).and_then(|value| value.to_str().ok());
        match field("grpc-status") {
            Some("0") => taken(answer.body.get(PREFIX..).unwrap_or_default()),
            Some(status) => {
                let why = format!(
                    "its gRPC status is {status}: {}",
                    plain(field("grpc-message").unwrap_or_default())
                );
                if LATER_GRPC.contains(&status) { Outcome::Later(why, None) } else { Outcome::Never(why) }
            }
            None => Outcome::Later("its answer has no gRPC status".to_owned(), None),
        }
    }
}

fn taken(answer: &[u8]) -> Outcome {
    let (refused, why) = otlp::rejected(answer);
    Outcome::Taken(refused, why)
}

/// As much of a text as belongs into a line for the operator.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Adds who sends, and what the configuration says.
fn with_fields(request: RequestBuilder, target: &TraceExport) -> RequestBuilder {
    let request = request.header("user-agent", AGENT);
    target
        .headers
        .iter()
        .fold(request, |request, (name, value)| request.header(name.as_str(), value.0.as_str()))
}
