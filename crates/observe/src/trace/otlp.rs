//! Spans as OpenTelemetry wants them: protobuf messages of OTLP 1.x, with names from its semantic conventions for HTTP
//! (stable since 1.23); what those have no name for begins with `thalweg.`.
//!
//! Each exchange is a span of the kind SERVER, or INTERNAL where the proxy itself asks; each of its attempts is one of
//! the kind CLIENT below it. That another attempt was made is an event of the exchange too: `retry`, or `hedge`.

mod messages;

use super::span::{AttemptSpan, ExchangeSpan, SpanFault};
use messages::{
    AnyValue, Event, KeyValue, Request, Resource, ResourceSpans, Response, Scope, ScopeSpans, Span, Status,
    Value,
};
use prost::Message;
use std::time::Duration;

/// The kinds of spans that are made.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;
/// The status of a span that failed.
const ERROR: i32 = 2;
/// Flags of a span beside those of its trace: it is known whether the parent is elsewhere, and that it is.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// Methods that have a name there; others are `_OTHER`, so that strangers make no names of spans.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
/// From this status on a response is an error of whoever made it, and of whoever asked.
const SERVER_ERROR: u16 = 500;
const CLIENT_ERROR: u16 = 400;

/// What is sent at once. Encoded, it is the body of a request to `/v1/traces`.
pub fn encode(spans: &[ExchangeSpan], resource: &[(String, String)]) -> Vec<u8> {
    let attributes = resource.iter().map(|(key, value)| text(key, value.clone())).collect();
    let scope = Scope { name: "thalweg".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = spans.iter().flat_map(told).collect();
    let scopes = vec![ScopeSpans { scope: Some(scope), spans }];
    Request { resources: vec![ResourceSpans { resource: Some(Resource { attributes }), scopes }] }
        .encode_to_vec()
}

/// How many spans a collector has refused by what it answered, and why; 0: it has taken all.
pub fn rejected(answer: &[u8]) -> (u64, String) {
    let partial = Response::decode(answer).ok().and_then(|response| response.partial);
    partial.map_or_else(Default::default, |partial| {
        (u64::try_from(partial.rejected).unwrap_or_default(), super::span::text(partial.why.as_bytes()))
    })
}

/// The spans of an exchange: its own, and one for each attempt.
fn told(x: &ExchangeSpan) -> Vec<Span> {
    let attempts = x.attempts.iter().enumerate().map(|(place, attempt)| of_attempt(x, place, attempt));
    std::iter::once(of_exchange(x)).chain(attempts).collect()
}

fn of_exchange(x: &ExchangeSpan) -> Span {
    let name = match &x.route {
        Some(route) => format!("{} {route}", method(x).unwrap_or("HTTP")),
        None => method(x).unwrap_or("HTTP").to_owned(),
    };
    let remote = if x.context.parent.is_some() && !x.context.is_inner { IS_REMOTE } else { 0 };
    let word = x.fault.map(|fault| fault.word.to_owned());
    let error = word.or_else(|| match (x.failed, x.grpc) {
        (false, _) => None,
        (true, Some(grpc)) if x.status < SERVER_ERROR => Some(grpc.name.to_owned()),
        (true, _) => Some(x.status.to_string()),
    });
    let mut attributes = of_request(x);
    // What clients got wrong is no error of a server, but the word says what it was.
    attributes.extend(error.map(|error| text("error.type", error)));
    Span {
        parent: x.context.parent.map(|span| span.bytes().to_vec()).unwrap_or_default(),
        name,
        events: events(x),
        status: x.failed.then(|| status(x.fault)),
        flags: flags(x) | remote,
        ..span(
            x,
            (x.context.span.bytes(), if x.context.is_inner { INTERNAL } else { SERVER }),
            (x.began_ns, x.took),
            attributes,
        )
    }
}

/// What is said of the request and its answer.
fn of_request(x: &ExchangeSpan) -> Vec<KeyValue> {
    let (host, port) = host_and_port(&x.host);
    let mut attributes = methods(x);
    attributes.extend([
        text("url.scheme", x.scheme.clone()),
        text("url.path", x.path.clone()),
        text("thalweg.listener", x.listener.clone()),
        text("thalweg.request_id", x.request_id.clone()),
        number("http.request.body.size", x.bytes_in),
        number("http.response.body.size", x.bytes_out),
    ]);
    let address = |address: std::net::IpAddr| address.to_string();
    let version =
        Some(x.version.trim_end_matches(".0")).filter(|version| !version.is_empty() && !x.context.is_inner);
    let some = [
        ("url.query", x.query.clone()),
        ("server.address", Some(host.to_owned()).filter(|host| !host.is_empty())),
        ("client.address", x.client.map(address)),
        ("network.peer.address", x.peer.map(address)),
        ("network.protocol.name", version.map(|_| "http".to_owned())),
        ("network.protocol.version", version.map(str::to_owned)),
        ("user_agent.original", x.user_agent.clone()),
        ("rpc.system", x.grpc.map(|_| "grpc".to_owned())),
        ("thalweg.route", x.route.clone()),
        ("thalweg.service", x.service.clone()),
        ("thalweg.reason", x.reason.clone()),
    ];
    attributes.extend(some.into_iter().filter_map(|(key, value)| Some(text(key, value?))));
    attributes.extend(port.map(|port| number("server.port", port.into())));
    attributes.extend(x.grpc.map(|grpc| number("rpc.grpc.status_code", grpc.number.into())));
    attributes.extend((x.status != 0).then(|| number("http.response.status_code", x.status.into())));
    attributes
}

fn of_attempt(x: &ExchangeSpan, place: usize, attempt: &AttemptSpan) -> Span {
    let (scheme, rest) = attempt.endpoint.split_once("://").unwrap_or(("", &attempt.endpoint));
    let (host, port) = host_and_port(rest.trim_end_matches('/'));
    let mut attributes = methods(x);
    attributes.push(boolean("thalweg.connection.reused", attempt.reused));
    if !host.is_empty() {
        attributes.push(text("server.address", host));
        let port = port.or(match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        });
        attributes.extend(port.map(|port| number("server.port", port.into())));
        attributes.push(text("url.full", format!("{}{}", attempt.endpoint.trim_end_matches('/'), x.target)));
    }
    attributes.extend(x.service.clone().map(|service| text("thalweg.service", service)));
    attributes.extend((place > 0).then(|| number("http.request.resend_count", place as u64)));
    attributes.extend(attempt.is_copy.then(|| boolean("thalweg.hedge", true)));
    attributes.extend(attempt.is_called_off.then(|| boolean("thalweg.called_off", true)));
    attributes.extend(attempt.status.map(|status| number("http.response.status_code", status.into())));
    for (key, time) in [("thalweg.connect_us", attempt.connect), ("thalweg.tls_us", attempt.tls)] {
        attributes.extend((!time.is_zero()).then(|| number(key, time.as_micros() as u64)));
    }
    let wrong = attempt.status.filter(|status| *status >= CLIENT_ERROR).map(|status| status.to_string());
    let error = attempt.fault.map(|fault| fault.word.to_owned()).or(wrong);
    Span {
        parent: x.context.span.bytes().to_vec(),
        name: method(x).unwrap_or("HTTP").to_owned(),
        status: error.is_some().then(|| status(attempt.fault)),
        flags: flags(x),
        ..span(
            x,
            (x.context.attempt(attempt.number).bytes(), CLIENT),
            (x.began_ns.saturating_add(nanos(attempt.began)), attempt.took),
            attributes.into_iter().chain(error.map(|error| text("error.type", error))).collect(),
        )
    }
}

fn span(
    x: &ExchangeSpan,
    (id, kind): ([u8; 8], i32),
    (start, took): (u64, Duration),
    attributes: Vec<KeyValue>,
) -> Span {
    Span {
        trace: x.context.trace.bytes().to_vec(),
        id: id.to_vec(),
        kind,
        start,
        end: start.saturating_add(nanos(took)),
        attributes,
        ..Span::default()
    }
}

/// That another attempt was made, and why.
fn events(x: &ExchangeSpan) -> Vec<Event> {
    let pairs = x.attempts.iter().zip(x.attempts.iter().skip(1));
    let events = pairs.map(|(before, attempt)| {
        let mut attributes = vec![text("thalweg.endpoint", attempt.endpoint.clone())];
        let fault = before.fault.filter(|_| !attempt.is_copy);
        attributes.extend(fault.map(|fault| text("error.type", fault.word)));
        let name = if attempt.is_copy { "hedge" } else { "retry" };
        Event { time: x.began_ns.saturating_add(nanos(attempt.began)), name: name.to_owned(), attributes }
    });
    events.collect()
}

fn flags(x: &ExchangeSpan) -> u32 {
    u32::from(x.context.sampled) | KNOWS_REMOTE
}

fn status(fault: Option<SpanFault>) -> Status {
    Status { message: fault.map(|fault| fault.detail.to_owned()).unwrap_or_default(), code: ERROR }
}

/// The method, where it is one that has a name.
fn method(x: &ExchangeSpan) -> Option<&str> {
    METHODS.contains(&&*x.method).then_some(&*x.method)
}

fn methods(x: &ExchangeSpan) -> Vec<KeyValue> {
    match method(x) {
        Some(method) => vec![text("http.request.method", method)],
        None => {
            vec![
                text("http.request.method", "_OTHER"),
                text("http.request.method_original", x.method.clone()),
            ]
        }
    }
}

/// A host with or without a port; an IPv6 address without its brackets.
fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let found = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = found.map_or((authority, None), |(host, port)| (host, Some(port)));
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    key_value(key, Value::Text(value.into()))
}

fn number(key: &str, value: u64) -> KeyValue {
    key_value(key, Value::Number(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn boolean(key: &str, value: bool) -> KeyValue {
    key_value(key, Value::Boolean(value))
}

fn key_value(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
mod tests;
