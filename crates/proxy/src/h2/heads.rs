//! Heads and trailers between the types of the engine and the lines that the rest of the product reads.
//!
//! What is allowed in them is decided in the crate `http`; here is nothing but the change of types.

use crate::exchange::Exchange;
use ::h2::ext::Protocol;
use ::http::header::{HeaderMap, HeaderName, HeaderValue};
use ::http::{Request, Response, StatusCode};
use thalweg_core::{Fault, Side};
use thalweg_http::h2::composed::{Fields, split_response, split_trailers};
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

/// Trailers that were received as lines; `None`: there are none.
pub(super) fn trailers(lines: &[u8]) -> Option<HeaderMap> {
    map(split_trailers(&mut lines.to_vec())).filter(|map| !map.is_empty())
}

/// What may be passed on of the trailers of a request, as lines.
///
/// # Errors
/// 400 for those that must not be trailers, 431 for too many.
pub(super) fn request_trailers(map: &HeaderMap) -> Result<Vec<u8>, Fault> {
    let mut lines = Vec::new();
    read_trailers(Side::Downstream, pairs(map), &mut lines)?;
    Ok(lines)
}

fn pairs(map: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    map.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

fn map(fields: Fields<'_>) -> Option<HeaderMap> {
    // A map is an allocation of 100 bytes per field: with room to spare, those of a turn do not fit into what the allocator keeps.
    let mut map = HeaderMap::with_capacity(fields.size_hint().1.unwrap_or(0));
    for (name, value) in fields {
        map.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    Some(map)
}
