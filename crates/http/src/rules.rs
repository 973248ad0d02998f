//! What is not passed on, and what a head asks of the connection (RFC 9110 §7.6.1).
//!
//! Called after the head was read and framed: once on the request before it is routed, once on the
//! response before it is edited. Fields are only marked; their values stay readable, so that the
//! proxy can still build on an old `X-Forwarded-For`. The proxy itself writes `Host`, the framing,
//! `TE`, `Connection` and its forwarding fields again.

use thalweg_core::Fault;

use crate::field::{self, Field, FieldId, FieldSet};
use crate::h1::framing::request_framing;
use crate::h1::request::RequestHead;
use crate::h1::response::ResponseHead;
use crate::method::{Method, Version};
use crate::octet;
use crate::span::Span;

/// Names in `Connection` that are looked up one by one. A head with more is no client's: every
/// field that could be named is then removed.
const NOMINATIONS: usize = 32;

/// Fields of a request that never go further.
const REQUEST_ONLY_HERE: FieldSet = FieldSet::of(&[
    FieldId::Host,
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::Proxy,
    FieldId::ProxyAuthorization,
    FieldId::ProxyAuthenticate,
    FieldId::Te,
    FieldId::Http2Settings,
    FieldId::Alias,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::XForwardedHost,
]);

/// Fields that only a trusted peer may set.
const FORWARDING: FieldSet = FieldSet::of(&[
    FieldId::XForwardedPort,
    FieldId::XForwardedOther,
    FieldId::Forwarded,
    FieldId::XRealIp,
    FieldId::TrueClientIp,
    FieldId::ClientCert,
]);

/// Fields of a response that never go further.
const RESPONSE_ONLY_HERE: FieldSet = FieldSet::of(&[
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::Proxy,
    FieldId::ProxyAuthenticate,
    FieldId::ProxyAuthorization,
    FieldId::Te,
    FieldId::Http2Settings,
]);

const UPGRADE: FieldSet = FieldSet::of(&[FieldId::Upgrade]);

/// Fields that must not stand in a trailer section: framing, routing, credentials, what is said
/// about the client, and what changes how the message is read (RFC 9110 §6.5.1).
pub const FORBIDDEN_TRAILERS: FieldSet = FieldSet::PROTECTED.union(FieldSet::of(&[
    FieldId::Alias,
    FieldId::Location,
    FieldId::RetryAfter,
    FieldId::Age,
]));

/// How a request is stripped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestRules {
    /// The peer is in `trusted_proxies`: what it says about the client is kept where it is not rewritten.
    pub trusted_peer: bool,
    /// The upgrade is passed on, and with it the `Upgrade` field.
    pub keep_upgrade: bool,
}

/// Whether a condition may see a request field of this id: what a stranger says of clients and other proxies is no
/// fact, and is not passed on either.
pub fn may_decide(id: FieldId, trusted_peer: bool) -> bool {
    const CHAIN: FieldSet = FieldSet::of(&[
        FieldId::XForwardedFor,
        FieldId::XForwardedProto,
        FieldId::XForwardedHost,
        FieldId::Alias,
    ]);
    trusted_peer || !FORWARDING.union(CHAIN).contains(id)
}

/// Takes out of a request what ends at this hop, what strangers may not say, and aliases (A20, A24, B4).
pub fn strip_request(head: &mut RequestHead, bytes: &[u8], rules: &RequestRules) {
    let mut dropped = REQUEST_ONLY_HERE;
    if !rules.trusted_peer {
        dropped = dropped.union(FORWARDING);
    }
    if !rules.keep_upgrade {
        dropped = dropped.union(UPGRADE);
    }
    strip(&mut head.fields, bytes, head.present, dropped);
}

/// Takes out of a response what ends at this hop (C7).
pub fn strip_response(head: &mut ResponseHead, bytes: &[u8], keep_upgrade: bool) {
    let dropped = if keep_upgrade { RESPONSE_ONLY_HERE } else { RESPONSE_ONLY_HERE.union(UPGRADE) };
    strip(&mut head.fields, bytes, head.present, dropped);
}

fn strip(fields: &mut [Field], bytes: &[u8], present: FieldSet, dropped: FieldSet) {
    if present.intersects(dropped) {
        fields.iter_mut().filter(|field| dropped.contains(field.id)).for_each(|field| field.keep = false);
    }
    if present.contains(FieldId::Connection) && !field::all(fields, bytes, FieldId::Connection).all(is_plain)
    {
        strip_nominated(fields, bytes);
    }
}

/// Whether a `Connection` value names no field but the commonest, which is dropped anyway.
fn is_plain(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
}

/// Takes out the fields that `Connection` names, unless they are protected.
fn strip_nominated(fields: &mut [Field], bytes: &[u8]) {
    let mut names = [&b""[..]; NOMINATIONS];
    let mut count = 0;
    let nominated = field::all(fields, bytes, FieldId::Connection)
        .flat_map(octet::list)
        .filter(|name| !FieldSet::PROTECTED.contains(FieldId::classify(name)) && !is_option(name));
    for name in nominated {
        if let Some(place) = names.get_mut(count) {
            *place = name;
        }
        count += 1;
    }
    if count == 0 {
        return;
    }
    let listed = names.get(..count);
    for field in fields {
        let name = field.name.of(bytes);
        if !FieldSet::PROTECTED.contains(field.id)
            && listed.is_none_or(|names| names.iter().any(|listed| listed.eq_ignore_ascii_case(name)))
        {
            field.keep = false;
        }
    }
}

/// Connection options that name no field.
fn is_option(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"close")
}

/// What a request wants to switch to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Upgrade {
    /// Nothing, or not in a way that could be granted.
    #[default]
    None,
    /// `websocket` alone, with GET (RFC 6455 §4.1).
    WebSocket,
    /// HTTP/2 without TLS, alone or among others; never granted (A19).
    H2c,
    /// Any other protocol, or several.
    Other,
}

/// What the request wants to switch to: needs HTTP/1.1, no body, the `upgrade` option in
/// `Connection` and the `Upgrade` field (RFC 9110 §7.8). Call it before or after stripping.
pub fn wants_upgrade(head: &RequestHead, bytes: &[u8]) -> Upgrade {
    let present = head.present;
    if !present.contains(FieldId::Upgrade) || !present.contains(FieldId::Connection) {
        return Upgrade::None;
    }
    let empty = request_framing(head, bytes).is_ok_and(|framing| framing.is_empty());
    if head.version == Version::Http10
        || !empty
        || !field::lists(&head.fields, bytes, FieldId::Connection, b"upgrade")
    {
        return Upgrade::None;
    }
    let mut protocols = field::all(&head.fields, bytes, FieldId::Upgrade).flat_map(octet::list);
    match (protocols.next(), protocols.next()) {
        (None, _) => Upgrade::None,
        _ if field::lists(&head.fields, bytes, FieldId::Upgrade, b"h2c") => Upgrade::H2c,
        (Some(only), None) if only.eq_ignore_ascii_case(b"websocket") && head.method == Method::Get => {
            Upgrade::WebSocket
        }
        _ => Upgrade::Other,
    }
}

/// Whether the client understands trailers (`TE: trailers`); the proxy then says so itself.
pub fn accepts_trailers(head: &RequestHead, bytes: &[u8]) -> bool {
    head.values(bytes, FieldId::Te)
        .flat_map(octet::list)
        .any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// Whether the client waits for 100 before it sends its body (RFC 9110 §10.1.1). HTTP/1.0 cannot.
///
/// # Errors
/// 417 for any other expectation, or more than one (A21).
pub fn expects_continue(head: &RequestHead, bytes: &[u8]) -> Result<bool, Fault> {
    if !head.present.contains(FieldId::Expect) || head.version == Version::Http10 {
        return Ok(false);
    }
    let mut values = head.values(bytes, FieldId::Expect);
    match (values.next(), values.next()) {
        (Some(value), None) if value.eq_ignore_ascii_case(b"100-continue") => Ok(true),
        _ => Err(Fault::request(417, "an expectation other than 100-continue")),
    }
}

/// The value of the `Host` field, not checked further: [`crate::parse_authority`] does that.
///
/// # Errors
/// 400 for none in HTTP/1.1 and for several in any version (RFC 9112 §3.2).
pub fn host_of(head: &RequestHead, bytes: &[u8]) -> Result<Option<Span>, Fault> {
    debug_assert!(head.len <= bytes.len());
    let mut hosts = head.fields.iter().filter(|field| field.id == FieldId::Host).map(|field| field.value);
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Some(host)),
        (None, _) if head.version == Version::Http10 => Ok(None),
        (None, _) => Err(Fault::request(400, "no host field")),
        (Some(_), Some(_)) => Err(Fault::request(400, "more than one host field")),
    }
}

#[cfg(test)]
mod tests;
