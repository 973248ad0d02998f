//! The request head that goes upstream: the client's fields in their order and case, less those
//! that are for this hop only, and what a proxy has to say.

use crate::exchange::grpc::{is_decoded, write_plain_type, write_timeout};
use crate::exchange::trace;
use crate::h2::websocket;
use crate::relay::{Bridge, Pacer};
use crate::state::exchange::{Client, Exchange};
use crate::state::filtering::Filtering;
use crate::state::worker::Worker;
use crate::tls::client_cert_fields::write_client_cert_fields;
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_filter::{Bandwidth, BodyTransform, Chain};
use thalweg_http::grpc::Kind;
use thalweg_http::grpc::web::TextReader;
use thalweg_http::h1::encode::{CHUNKED_FIELD, write_content_length, write_fields, write_ip};
use thalweg_http::rules::accepts_trailers;
use thalweg_http::{FieldId, FieldSet, Framing, Upgrade, Version};
use thalweg_upstream::{Endpoint, HostRule, Service};

/// Our name in `Via` (RFC 9110 §7.6.3).
const PSEUDONYM: &[u8] = b"thalweg";
/// Times that a request may have passed through a proxy of this name before it is taken to go in
/// circles. Above 1, because chains of this proxy are legitimate.
const PASSES: usize = 8;

/// Refuses a request that has passed through this proxy too often.
pub(crate) fn check_loop(x: &Exchange) -> Result<(), Fault> {
    if !x.request.present.contains(FieldId::Via) {
        return Ok(());
    }
    let values = x.request.values(&x.received, FieldId::Via);
    let passes = values.flat_map(|value| value.split(|b| *b == b',')).filter(|hop| is_ours(hop)).count();
    if passes < PASSES {
        return Ok(());
    }
    Err(Fault::new(FaultKind::ProxyLoopDetected, "the request has passed through this proxy too often"))
}

/// Whether a `Via` element (`1.1 thalweg (comment)`) names us.
fn is_ours(hop: &[u8]) -> bool {
    let mut words = hop.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.nth(1).is_some_and(|name| name.eq_ignore_ascii_case(PSEUDONYM))
}

/// Starts the upward flow with the request head for an endpoint of `service`, which frames messages by itself or does
/// not; gives the bytes of the head.
pub(crate) fn write_request(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    service: &Service,
    (endpoint, is_framed): (u32, bool),
) -> usize {
    let mut flow = std::mem::take(&mut x.upward);
    let pace = flow.take_pace();
    flow.reset();
    worker.warm.buffers.get(flow.buffer());
    flow.bound(max_body(x));
    let is_decoded = is_decoded(x);
    let is_changed = is_transformed(x);
    let has_no_length =
        is_decoded || is_changed || matches!(x.framing, Framing::Chunked | Framing::UntilClose);
    let out = flow.start(x.framing, Side::Downstream, has_no_length && !is_framed);
    write_head(out, x, client, service, endpoint);
    let head = out.len();
    if let Some(rule) = x.chain().and_then(Chain::trailers).filter(|_| !x.framing.is_empty()) {
        let added = x.filtered().map_or(&[][..], |filtering| &filtering.added);
        flow.refuse_trailers(rule.for_request((&x.request.fields, &x.received), added));
    }
    if is_decoded || is_changed {
        let bridge =
            is_decoded.then(|| Box::new(Bridge::FromText(TextReader::default())) as Box<dyn BodyTransform>);
        flow.set_transforms(
            bridge
                .into_iter()
                .chain(x.filtered().into_iter().flat_map(|filtering| filtering.outcome.transforms.make()))
                .collect(),
            &worker.chunks,
        );
    }
    if let Some(tap) = x.filtered().and_then(|filtering| filtering.tap.as_ref()) {
        flow.set_tap(tap, &worker.chunks);
    }
    flow.set_pace(pace.or_else(|| Pacer::of(bandwidth(x), worker.reactor.now())));
    x.upward = flow;
    head
}

/// Bytes that the request's body may have: the route and each of its filters may bound it.
pub(crate) fn max_body(x: &Exchange) -> Option<u64> {
    let by_route = x.route().and_then(|route| route.limits.max_body);
    let by_filters = x.filtered().and_then(|filtering| filtering.outcome.max_body);
    // Not as an iterator over both: that was eight hundred instructions for every request.
    match (by_route, by_filters) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (only, None) | (None, only) => only,
    }
}

/// How fast the request's body may come.
fn bandwidth(x: &Exchange) -> Option<Bandwidth> {
    x.filtered().and_then(|filtering| filtering.outcome.bandwidth)
}

/// Whether filters change the request's body.
fn is_transformed(x: &Exchange) -> bool {
    x.filtered().is_some_and(|filtering| !filtering.outcome.transforms.is_empty()) && !x.framing.is_empty()
}

/// Known fields that filters have written.
fn by_filters(x: &Exchange) -> FieldSet {
    x.filtered().map(|filtering| filtering.known).unwrap_or_default()
}

fn write_head(out: &mut Vec<u8>, x: &Exchange, client: &Client, service: &Service, endpoint: u32) {
    let bytes = &x.received[..];
    out.extend_from_slice(x.request.method_text.of(bytes));
    out.push(b' ');
    write_target(out, x);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    write_host(out, x, service, service.endpoints.get(endpoint as usize));
    out.extend_from_slice(b"\r\n");
    write_fields(out, bytes, &x.request.fields);
    if let Some(filtering) = x.filtered() {
        out.extend_from_slice(&filtering.added);
    }
    write_plain_type(out, x);
    write_timeout(out, x);
    write_forwarded(out, x, client);
    if x.is_secure {
        write_client_cert_fields(out, client);
    }
    out.extend_from_slice(match x.request.version {
        Version::Http10 => b"Via: 1.0 thalweg\r\n",
        Version::Http11 => b"Via: 1.1 thalweg\r\n",
        Version::Http2 => b"Via: 2.0 thalweg\r\n",
    });
    if let Some(id) = x.id.as_ref().filter(|_| !by_filters(x).contains(FieldId::XRequestId)) {
        out.extend_from_slice(b"X-Request-Id: ");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Some(trace) = x.trace.get().filter(|_| !by_filters(x).contains(FieldId::Traceparent)) {
        trace::write(out, trace);
    }
    if matches!(x.upgrade, Upgrade::WebSocket | Upgrade::Other) {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
        if let (Version::Http2, Some(id)) = (x.request.version, &x.id) {
            websocket::write_key(out, id);
        }
    } else if x.bridge != Kind::No
        || (x.request.present.contains(FieldId::Te) && accepts_trailers(&x.request, bytes))
    {
        out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    match x.framing {
        Framing::Length(_) if is_decoded(x) || is_transformed(x) => {
            out.extend_from_slice(CHUNKED_FIELD);
        }
        Framing::Length(length) => {
            write_content_length(out, length);
        }
        Framing::Chunked | Framing::UntilClose => out.extend_from_slice(CHUNKED_FIELD),
        Framing::Empty => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// The target that goes upstream: the path after the filters, and the query.
pub(crate) fn write_target(out: &mut Vec<u8>, x: &Exchange) {
    out.extend_from_slice(x.upstream_path());
    if let Some(query) = x.upstream_query() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// The host that goes upstream.
pub(crate) fn write_host(out: &mut Vec<u8>, x: &Exchange, service: &Service, endpoint: Option<&Endpoint>) {
    if let Some(host) = x.filtered().and_then(Filtering::host) {
        out.extend_from_slice(host);
        return;
    }
    match &service.host {
        HostRule::Keep => out.extend_from_slice(x.authority()),
        HostRule::Endpoint => match (endpoint, x.aim) {
            (Some(endpoint), _) => out.extend_from_slice(endpoint.authority().as_bytes()),
            (None, Some(aim)) => out.extend_from_slice(aim.address.to_string().as_bytes()),
            (None, None) => {}
        },
        HostRule::Fixed(name) => out.extend_from_slice(name.as_bytes()),
    }
}

/// `X-Forwarded-For`, `-Proto`, `-Host`: what a trusted peer said of the client stands; to its
/// chain of addresses the peer itself is added. What a filter has written is written by nobody else.
fn write_forwarded(out: &mut Vec<u8>, x: &Exchange, client: &Client) {
    let (bytes, told) = (&x.received[..], by_filters(x));
    let said = |id| if x.trusted_peer { x.request.value(bytes, id) } else { None };
    if !told.contains(FieldId::XForwardedFor) {
        out.extend_from_slice(b"X-Forwarded-For: ");
        if x.trusted_peer {
            for chain in x.request.values(bytes, FieldId::XForwardedFor) {
                out.extend_from_slice(chain);
                out.extend_from_slice(b", ");
            }
        }
        write_ip(out, client.peer);
        out.extend_from_slice(b"\r\n");
    }
    if !told.contains(FieldId::XForwardedProto) {
        out.extend_from_slice(b"X-Forwarded-Proto: ");
        out.extend_from_slice(said(FieldId::XForwardedProto).unwrap_or(x.scheme().as_bytes()));
        out.extend_from_slice(b"\r\n");
    }
    let host = said(FieldId::XForwardedHost).unwrap_or(x.authority());
    if !host.is_empty() && !told.contains(FieldId::XForwardedHost) {
        out.extend_from_slice(b"X-Forwarded-Host: ");
        out.extend_from_slice(host);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself_in_via() {
        assert!(is_ours(b"1.1 thalweg"));
        assert!(is_ours(b" HTTP/1.1\tThalweg (x)"));
        assert!(!is_ours(b"1.1 thalweg2"));
        assert!(!is_ours(b"thalweg"));
        assert!(!is_ours(b""));
    }
}
