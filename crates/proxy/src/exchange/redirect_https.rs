//! `listeners.<name>.redirect_https`: whoever comes in the clear is sent to the same place through TLS.
//!
//! Called by `serve` when a request has its normal form and before a route is looked for; answers that must be given in
//! the clear, as those to an authority that checks a name over HTTP, go before it. Also called by `explain`.
//!
//! The place is written from the normal form alone: a host that is a name or an address and nothing else, so that no
//! client can be sent to another one by a twisted `Host`; its port gives way to that of the listener with TLS.

use crate::exchange::grpc;
use crate::plan::Plan;
use crate::state::exchange::{Client, Exchange};
use crate::state::local_listener::Standing;
use crate::state::worker::Worker;
use std::io::Write;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::Reply;
use thalweg_http::FieldId;
use thalweg_http::grpc::Kind;

/// The status: what asks for it asks again in the same way, with its method and body (RFC 9110 §15.4.9).
pub(crate) const STATUS: u16 = 308;
/// The port of `https`, which is not written.
const HTTPS: u16 = 443;

/// The answer that sends a client to another place.
pub(crate) fn redirect_to(place: &[u8]) -> Reply {
    Reply::new(STATUS).field("Location", place)
}

/// Where the request is sent instead of being forwarded. `None`: it goes on.
pub(crate) fn redirect_https(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
) -> Result<Option<Vec<u8>>, Fault> {
    if !client.listener().redirects() {
        return Ok(None);
    }
    let Standing { view, position } = worker.standing_of(client)?;
    place(&view.plan, position, view.current.https_port, x)
}

/// The same for a listener of a plan; `port` is that of the first listener with TLS, where there is one.
///
/// # Errors
/// 400 when the request names no host, or no place at it.
pub(crate) fn place(
    plan: &Plan,
    listener: u16,
    port: Option<u16>,
    x: &Exchange,
) -> Result<Option<Vec<u8>>, Fault> {
    let redirects = plan.listeners.get(usize::from(listener)).is_some_and(|found| found.redirect_https);
    if !redirects || came_through_tls(x) {
        return Ok(None);
    }
    if grpc::kind(x) != Kind::No {
        // Its clients follow nobody anywhere.
        return Err(Fault::new(FaultKind::HttpRequestDenied, "gRPC calls are accepted over TLS only"));
    }
    let (host, path) = (x.host(), x.path.of(&x.received));
    if host.is_empty() {
        return Err(Fault::request(400, "no host field"));
    }
    if !path.starts_with(b"/") {
        return Err(Fault::request(400, "a target without a path cannot be redirected to HTTPS"));
    }
    let query = x.query();
    let mut place = Vec::with_capacity(16 + host.len() + path.len() + query.map_or(0, <[u8]>::len));
    place.extend_from_slice(b"https://");
    place.extend_from_slice(host);
    if let Some(port) = port.filter(|port| *port != HTTPS) {
        // Writing to a vector cannot fail.
        let _ = write!(place, ":{port}");
    }
    place.extend_from_slice(path);
    if let Some(query) = query {
        place.push(b'?');
        place.extend_from_slice(query);
    }
    Ok(Some(place))
}

/// Whether the client spoke TLS with us or with a proxy in front that is believed: sent away it would come back in the
/// same way, for ever.
fn came_through_tls(x: &Exchange) -> bool {
    let said = || x.request.value(&x.received, FieldId::XForwardedProto);
    x.is_secure || (x.trusted_peer && said().is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https")))
}
