//! Receivers of OTLP that decode what they are sent with the messages that OpenTelemetry publishes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use h2::server::SendResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use prost::Message as _;
use thalweg_tests::{Message, STEP, Upstream};
use tokio::net::{TcpListener, TcpStream};

const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// A batch: the attributes of its resource, its spans, and a field of the request.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) service: String,
    pub(super) spans: Vec<Span>,
    pub(super) team: Option<String>,
}

/// A receiver that takes everything.
pub(super) struct Collector {
    pub(super) address: SocketAddr,
    batches: Receiver<Batch>,
    _http: Option<Upstream>,
}

impl Collector {
    /// One of OTLP over HTTP.
    pub(super) fn http() -> Self {
        let (sender, batches) = mpsc::channel();
        let sender = Mutex::new(sender);
        let upstream = Upstream::start(move |request: &Message| {
            assert_eq!(request.start, "POST /v1/traces HTTP/1.1");
            assert_eq!(request.value("content-type"), Some("application/x-protobuf"));
            let batch = batch(&request.body, request.value("x-team"));
            sender.lock().unwrap_or_else(PoisonError::into_inner).send(batch).ok()?;
            Some(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
        });
        Self { address: upstream.address(), batches, _http: Some(upstream) }
    }

    /// One of OTLP over gRPC.
    pub(super) fn grpc() -> Self {
        let (sender, batches) = mpsc::channel();
        let (told, address) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                told.send(listener.local_addr().unwrap()).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    serve(stream, &sender).await;
                }
            });
        });
        Self { address: address.recv_timeout(STEP).unwrap(), batches, _http: None }
    }

    /// Waits until a span fits; gives all that have come with it and before.
    pub(super) fn wait(&self, fits: impl Fn(&Span) -> bool) -> Vec<Batch> {
        let end = Instant::now() + STEP;
        let mut all: Vec<Batch> = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let batch = self.batches.recv_timeout(left);
            let Ok(batch) = batch else { panic!("the span does not come; there are {all:#?}") };
            let is_there = batch.spans.iter().any(&fits);
            all.push(batch);
            if is_there {
                return all;
            }
        }
    }

    /// Waits for the exchange with this path: its span, and those below it in the order of their beginning.
    pub(super) fn exchange(&self, path: &str) -> (Span, Vec<Span>) {
        let is_it = |span: &Span| said(span, "url.path") == path;
        let spans: Vec<Span> = self.wait(is_it).into_iter().flat_map(|batch| batch.spans).collect();
        let server = spans.iter().find(|span| is_it(span)).unwrap().clone();
        let mut below: Vec<Span> =
            spans.into_iter().filter(|span| span.parent_span_id == server.span_id).collect();
        below.sort_by_key(|span| span.start_time_unix_nano);
        assert!(below.iter().all(|span| span.trace_id == server.trace_id), "{below:?}");
        (server, below)
    }

    /// Whether nothing more has come.
    pub(super) fn is_quiet(&self) -> bool {
        self.batches.try_recv().is_err()
    }
}

/// What an attribute says; empty without it.
pub(super) fn said(span: &Span, key: &str) -> String {
    of(&span.attributes, key)
}

/// Those of the kind CLIENT.
pub(super) fn clients(below: &[Span]) -> Vec<&Span> {
    below.iter().filter(|span| span.kind() == SpanKind::Client).collect()
}

fn of(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        None => String::new(),
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("{other:?}"),
    }
}

fn batch(message: &[u8], team: Option<&str>) -> Batch {
    let request = ExportTraceServiceRequest::decode(message).unwrap();
    let [resource] = &request.resource_spans[..] else { panic!("{request:?}") };
    let service = of(&resource.resource.as_ref().unwrap().attributes, "service.name");
    let spans = resource.scope_spans.iter().flat_map(|scope| scope.spans.clone()).collect();
    Batch { service, spans, team: team.map(str::to_owned) }
}

/// One connection of HTTP/2.
async fn serve(stream: TcpStream, batches: &Sender<Batch>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (head, mut body) = request.into_parts();
        let is_export = head.uri.path() == METHOD && head.headers["content-type"] == "application/grpc";
        assert!(is_export && head.headers["te"] == "trailers", "{head:?}");
        let team = head.headers.get("x-team").map(|value| value.to_str().unwrap().to_owned());
        let batches = batches.clone();
        let whole = Arc::new(Mutex::new(Vec::new()));
        let kept = whole.clone();
        // The connection must turn while the body comes.
        let read = async move {
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
                kept.lock().unwrap().extend_from_slice(&piece);
            }
        };
        tokio::select! {
            () = read => {}
            _ = std::future::poll_fn(|context| connection.poll_closed(context)) => return,
        }
        let whole = std::mem::take(&mut *whole.lock().unwrap());
        let length = u32::from_be_bytes(whole[1..5].try_into().unwrap());
        assert_eq!((whole[0], length as usize), (0, whole.len() - 5));
        let _ = batches.send(batch(&whole[5..], team.as_deref()));
        answer(respond);
    }
}

fn answer(mut respond: SendResponse<Bytes>) {
    let head = http::Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let Ok(mut body) = respond.send_response(head, false) else { return };
    let _ = body.send_data(Bytes::from_static(&[0; 5]), false);
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let _ = body.send_trailers(trailers);
}
