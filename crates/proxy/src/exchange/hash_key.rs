//! The hash of what a request is recognised by: for keyed balancing and for splits that keep a client in one part.

use crate::state::exchange::Exchange;
use std::net::IpAddr;
use thalweg_balance::key_hash;
use thalweg_http::FieldId;
use thalweg_upstream::HashKey;

/// The hash of the request's key; `None` where it has none.
pub(crate) fn request_key(key: &HashKey, x: &Exchange) -> Option<u64> {
    let bytes = &x.received[..];
    match key {
        HashKey::ClientIp => Some(match x.client_ip {
            IpAddr::V4(ip) => key_hash(&ip.octets()),
            IpAddr::V6(ip) => key_hash(&ip.octets()),
        }),
        // A connection has none, and not the same one as all others.
        HashKey::Path if x.is_connection => None,
        HashKey::Path => Some(key_hash(x.path.of(bytes))),
        HashKey::Header(name) => {
            let mut fields = x.request.fields.iter();
            let is_it = |text: &[u8]| text.eq_ignore_ascii_case(name.as_bytes());
            fields.find(|field| is_it(field.name.of(bytes))).map(|field| key_hash(field.value.of(bytes)))
        }
        HashKey::Cookie(name) => cookie(x, name).map(key_hash),
        HashKey::Query(name) => {
            let query = x.query()?;
            let mut pairs = query.split(|byte| *byte == b'&');
            pairs.find_map(|pair| value_of(pair, name.as_bytes())).map(key_hash)
        }
    }
}

/// The value of the first cookie of this name (RFC 6265 §4.2.1).
pub(crate) fn cookie<'a>(x: &'a Exchange, name: &str) -> Option<&'a [u8]> {
    let fields = x.request.values(&x.received, FieldId::Cookie);
    let mut pairs = fields.flat_map(|field| field.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| value_of(pair, name.as_bytes()))
}

/// What stands behind `name=`.
fn value_of<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    pair.strip_prefix(name)?.strip_prefix(b"=")
}
