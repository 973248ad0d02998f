//! Heads and trailers between the types of the engine and the lines that the rest of the product reads.
//!
//! What is allowed in them is decided in the crate `http`; here is nothing but the change of types.

use super::websocket;
use crate::state::exchange::Exchange;
use ::h2::ext::Protocol;
use ::http::header::{HeaderMap, HeaderName, HeaderValue};
use ::http::uri::Scheme;
use ::http::{Method, Request, Response, StatusCode, Uri, Version};
use thalweg_core::{Fault, Side};
use thalweg_http::ResponseHead;
use thalweg_http::h1::HeadLimits;
use thalweg_http::h2::composed::{split_request, split_response, split_trailers};
use thalweg_http::h2::lines::{read_request, read_trailers};
use thalweg_http::h2::pseudo::Pseudo;

/// Reads the head of a request into the exchange.
///
/// # Errors
/// 400, 414, 431 and 501, as [`read_request`] says.
pub(super) fn receive(request: &Request<()>, x: &mut Exchange) -> Result<(), Fault> {
    let uri = request.uri();
    let pseudo = Pseudo {
        method: request.method().as_str().as_bytes(),
        scheme: uri.scheme_str().map(str::as_bytes),
        authority: uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: uri.path_and_query().map(|target| target.as_str().as_bytes()),
        protocol: request.extensions().get::<Protocol>().map(|protocol| protocol.as_str().as_bytes()),
    };
    let fields: Vec<_> = pairs(request.headers()).collect();
    let fields = fields.iter().copied();
    x.upgrade = read_request((&pseudo, fields), &x.head_limits, &mut x.request, &mut x.received)?;
    Ok(())
}

/// The head of a response that was composed as lines; `None`: it cannot be said in HTTP/2.
pub(super) fn response(head: &mut [u8]) -> Option<Response<()>> {
    let composed = split_response(head)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(composed.status).ok()?;
    *response.headers_mut() = map(composed.fields)?;
    Some(response)
}

/// Reads the head of a response, given by the engine, as lines into `out`.
///
/// # Errors
/// As [`read_response`](thalweg_http::h2::read_response) says.
pub(super) fn read_response(
    response: &Response<()>,
    limits: &HeadLimits,
    head: &mut ResponseHead,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let fields = pairs(response.headers());
    thalweg_http::h2::read_response((response.status().as_u16(), fields), limits, head, out)
}

/// The head of a request that was composed as lines, and the key of a WebSocket handshake, which HTTP/2 does without;
/// `None`: it cannot be said in HTTP/2. `authority`: who is asked where the request names nobody.
pub(super) fn request(
    head: &mut [u8],
    is_secure: bool,
    authority: &str,
) -> Option<(Request<()>, Option<Vec<u8>>)> {
    let composed = split_request(head)?;
    let is_websocket = composed.upgrade.is_some();
    let host = if composed.host.is_empty() { authority.as_bytes() } else { composed.host };
    let scheme = if is_secure { Scheme::HTTPS } else { Scheme::HTTP };
    let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(composed.target);
    let mut request = Request::new(());
    *request.uri_mut() = uri.build().ok()?;
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = Method::from_bytes(composed.method).ok()?;
    let mut key = None;
    let fields = composed.fields.filter(|(name, value)| {
        let is_key = is_websocket && *name == websocket::KEY;
        if is_key {
            key = Some(value.to_vec());
        }
        !is_key
    });
    *request.headers_mut() = map(fields)?;
    if is_websocket {
        *request.method_mut() = Method::CONNECT;
        request.extensions_mut().insert(Protocol::from_static("websocket"));
    }
    Some((request, key))
}

/// Trailers that were received as lines; `None`: there are none.
pub(super) fn trailers(lines: &[u8]) -> Option<HeaderMap> {
    map(split_trailers(&mut lines.to_vec())).filter(|map| !map.is_empty())
}

/// What may be passed on of the trailers of a message from that side, as lines.
///
/// # Errors
/// As [`read_trailers`] says.
pub(super) fn received_trailers(from: Side, map: &HeaderMap) -> Result<Vec<u8>, Fault> {
    let mut lines = Vec::new();
    read_trailers(from, pairs(map), &mut lines)?;
    Ok(lines)
}

fn pairs(map: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    map.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

fn map<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Option<HeaderMap> {
    // A map is an allocation of 100 bytes per field: with room to spare, those of a turn do not fit into what the
    // allocator keeps.
    let mut map = HeaderMap::with_capacity(fields.size_hint().1.unwrap_or(0));
    for (name, value) in fields {
        map.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    Some(map)
}
