//! What is sent, read by the messages that OpenTelemetry itself publishes.

use super::*;
use crate::record::{LogRecord, Timers};
use crate::trace::{Beside, GrpcStatus, Parent, Parents, TraceContext, TracingPolicy};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue as Told, any_value::Value as ToldValue};
use opentelemetry_proto::tonic::trace::v1::{Span as ToldSpan, span::SpanKind, status::StatusCode};
use thalweg_core::{Fault, FaultKind};

const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn context(parent: bool) -> TraceContext {
    let policy =
        TracingPolicy { parents: Parents::All, share: 100, errors: true, slower_than: Duration::MAX };
    policy.begin(Parent::parse(PARENT).filter(|_| parent), true, (0xabc, 0x10))
}

fn record() -> LogRecord<'static> {
    LogRecord {
        unix_us: 1_700_000_000_500_000,
        listener: "web",
        method: b"GET",
        scheme: "https",
        host: Some(b"shop.test:8443"),
        path: b"/cart",
        query: Some(b"a=1&token=secret"),
        proto: "HTTP/2.0",
        status: 200,
        route: Some("shop"),
        service: Some("carts"),
        timers: Timers { total: 500_000, ..Timers::default() },
        ..LogRecord::default()
    }
}

fn attempt(number: u8) -> AttemptSpan {
    AttemptSpan {
        number,
        endpoint: "http://10.0.0.7:8080".into(),
        began: Duration::from_millis(100 * u64::from(number)),
        took: Duration::from_millis(90),
        status: None,
        fault: None,
        reused: false,
        is_copy: false,
        is_called_off: false,
        connect: Duration::from_millis(1),
        tls: Duration::ZERO,
    }
}

fn exchange(record: &LogRecord<'_>, attempts: Vec<AttemptSpan>) -> ExchangeSpan {
    let failed = record.status >= 500;
    let beside = Beside { context: context(true), failed, grpc: None, attempts };
    ExchangeSpan::of(record, (b"/v2/cart", Some(b"token=secret")), beside)
}

/// What a receiver reads.
fn received(exchange: &ExchangeSpan) -> Vec<ToldSpan> {
    use prost::Message as _;
    let resource = [("service.name".to_owned(), "edge".to_owned())];
    let bytes = encode(std::slice::from_ref(exchange), &resource);
    let request = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
    let [resource] = &request.resource_spans[..] else { panic!("{request:?}") };
    assert_eq!(said(&resource.resource.as_ref().unwrap().attributes, "service.name"), "edge");
    let [scope] = &resource.scope_spans[..] else { panic!("{resource:?}") };
    assert_eq!(scope.scope.as_ref().unwrap().name, "thalweg");
    scope.spans.clone()
}

fn said(attributes: &[Told], key: &str) -> String {
    let mut found = attributes.iter().filter(|told| told.key == key);
    let value = found.next().map(|told| told.value.clone().unwrap().value.unwrap());
    assert!(found.next().is_none(), "{key} is there twice");
    match value {
        None => String::new(),
        Some(ToldValue::StringValue(text)) => text,
        Some(ToldValue::IntValue(number)) => number.to_string(),
        Some(ToldValue::BoolValue(flag)) => flag.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_exchange_is_a_server_span_and_its_attempt_a_client_span_below_it() {
    let answered = AttemptSpan { status: Some(200), ..attempt(0) };
    let spans = received(&exchange(&record(), vec![answered]));
    let [server, client] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((server.kind(), client.kind()), (SpanKind::Server, SpanKind::Client));
    assert_eq!((server.name.as_str(), client.name.as_str()), ("GET shop", "GET"));
    assert_eq!(server.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
    assert_eq!(server.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!((&client.trace_id, &client.parent_span_id), (&server.trace_id, &server.span_id));
    assert_eq!((server.flags, client.flags), (0x301, 0x101), "only the server's parent is elsewhere");
    assert_eq!(server.start_time_unix_nano, 1_700_000_000_000_000_000);
    assert_eq!(server.end_time_unix_nano - server.start_time_unix_nano, 500_000_000);
    assert!(server.status.is_none() && client.status.is_none() && server.events.is_empty());
    let of_server = [
        ("http.request.method", "GET"),
        ("url.scheme", "https"),
        ("url.path", "/cart"),
        ("server.address", "shop.test"),
        ("server.port", "8443"),
        ("network.protocol.version", "2"),
        ("http.response.status_code", "200"),
        ("thalweg.route", "shop"),
        ("thalweg.listener", "web"),
        ("error.type", ""),
    ];
    for (key, value) in of_server {
        assert_eq!(said(&server.attributes, key), value, "{key}");
    }
    let of_client = [
        ("server.address", "10.0.0.7"),
        ("server.port", "8080"),
        ("http.response.status_code", "200"),
        ("http.request.resend_count", ""),
        ("thalweg.service", "carts"),
        ("thalweg.connect_us", "1000"),
    ];
    for (key, value) in of_client {
        assert_eq!(said(&client.attributes, key), value, "{key}");
    }
}

#[test]
fn no_secret_of_a_query_is_told() {
    let spans = received(&exchange(&record(), vec![attempt(0)]));
    assert!(said(&spans[0].attributes, "url.query").starts_with("a=1&token="));
    assert!(said(&spans[1].attributes, "url.full").starts_with("http://10.0.0.7:8080/v2/cart?token="));
    assert!(!format!("{spans:?}").contains("secret"));
}

#[test]
fn retries_and_copies_are_events_of_the_exchange() {
    let refused = Fault::new(FaultKind::ConnectionRefused, "the endpoint refused the connection");
    let first = AttemptSpan { fault: Some((&refused).into()), ..attempt(0) };
    let called_off = AttemptSpan { is_called_off: true, ..attempt(1) };
    let copy = AttemptSpan { is_copy: true, status: Some(200), ..attempt(2) };
    let spans = received(&exchange(&record(), vec![first, called_off, copy]));
    let events: Vec<_> = spans[0].events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, ["retry", "hedge"]);
    assert_eq!(said(&spans[0].events[0].attributes, "error.type"), "connection_refused");
    assert_eq!(spans[0].events[1].time_unix_nano, spans[3].start_time_unix_nano);
    assert!(spans[0].status.is_none(), "it went well in the end");
    assert_eq!(spans[1].status.as_ref().unwrap().code(), StatusCode::Error);
    assert_eq!(said(&spans[1].attributes, "error.type"), "connection_refused");
    assert_eq!(said(&spans[2].attributes, "thalweg.called_off"), "true");
    assert_eq!(said(&spans[3].attributes, "thalweg.hedge"), "true");
    assert_eq!(said(&spans[3].attributes, "http.request.resend_count"), "2");
    let ids: std::collections::HashSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), 4, "each has an id of its own");
}

#[test]
fn what_failed_has_the_status_of_an_error_and_what_clients_got_wrong_has_not() {
    let timeout = Fault::new(FaultKind::HttpResponseTimeout, "no response in time");
    let failed = LogRecord { status: 504, fault: Some(&timeout), ..record() };
    let spans =
        received(&exchange(&failed, vec![AttemptSpan { fault: Some((&timeout).into()), ..attempt(0) }]));
    let status = spans[0].status.as_ref().unwrap();
    assert_eq!((status.code(), status.message.as_str()), (StatusCode::Error, "no response in time"));
    assert_eq!(said(&spans[0].attributes, "error.type"), timeout.kind.name());
    let wrong = LogRecord { status: 404, ..record() };
    let spans = received(&exchange(&wrong, vec![AttemptSpan { status: Some(404), ..attempt(0) }]));
    assert!(spans[0].status.is_none());
    assert_eq!(spans[1].status.as_ref().unwrap().code(), StatusCode::Error, "whoever asked has it wrong");
    assert_eq!(said(&spans[1].attributes, "error.type"), "404");
}

#[test]
fn a_failed_call_of_grpc_says_its_status() {
    let grpc = Some(GrpcStatus { number: 14, name: "unavailable" });
    let beside = Beside { context: context(false), failed: true, grpc, attempts: Vec::new() };
    let spans = received(&ExchangeSpan::of(&record(), (b"/a.B/C", None), beside));
    assert_eq!(said(&spans[0].attributes, "rpc.grpc.status_code"), "14");
    assert_eq!(said(&spans[0].attributes, "error.type"), "unavailable");
    assert_eq!(spans[0].status.as_ref().unwrap().code(), StatusCode::Error);
    assert!(spans[0].parent_span_id.is_empty());
}

#[test]
fn methods_that_strangers_invent_make_no_names() {
    let spans = received(&exchange(&LogRecord { method: b"BREW\x07", ..record() }, vec![attempt(0)]));
    assert_eq!((spans[0].name.as_str(), spans[1].name.as_str()), ("HTTP shop", "HTTP"));
    assert_eq!(said(&spans[0].attributes, "http.request.method"), "_OTHER");
    assert_eq!(said(&spans[0].attributes, "http.request.method_original"), "BREW\u{fffd}");
}

#[test]
fn a_request_of_the_proxys_own_is_internal() {
    let mut exchange = exchange(&record(), Vec::new());
    exchange.context = exchange.context.inner(0x77);
    let spans = received(&exchange);
    assert_eq!((spans[0].kind(), spans[0].flags), (SpanKind::Internal, 0x101));
    assert_eq!(spans[0].parent_span_id, 0x10_u64.to_be_bytes());
}

#[test]
fn no_more_attempts_are_told_than_are_bounded_and_the_last_is_among_them() {
    let spans = received(&exchange(&record(), (0..40).map(attempt).collect()));
    assert_eq!(spans.len(), 17);
    assert_eq!(spans[16].span_id, context(true).attempt(39).bytes());
}

#[test]
fn what_a_collector_refused_is_read_from_its_answer() {
    use prost::Message as _;
    let partial = ExportTracePartialSuccess { rejected_spans: 3, error_message: "too\nold".into() };
    let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    assert_eq!(rejected(&answer), (3, "too\u{fffd}old".to_owned()));
    for nothing in [&b""[..], b"\xff\xff", b"<html>"] {
        assert_eq!(rejected(nothing).0, 0);
    }
}

#[test]
fn addresses_lose_their_brackets() {
    assert_eq!(host_and_port("[::1]:80"), ("::1", Some(80)));
    assert_eq!(host_and_port("[::1]"), ("::1", None));
    assert_eq!(host_and_port("a.test:99999"), ("a.test:99999", None));
}
