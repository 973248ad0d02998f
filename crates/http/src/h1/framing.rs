//! How long a body is, and whether the connection outlives the message (RFC 9112 §6.3, §9.3).
//!
//! Decided once per message, right after its head. Anything that two parsers could measure
//! differently is refused here: this is the wall against request smuggling.

use thalweg_core::{Fault, FaultKind};

use crate::field::{self, Field, FieldId};
use crate::h1::request::RequestHead;
use crate::h1::response::ResponseHead;
use crate::method::{Method, Version};
use crate::octet;

/// Digits of a `Content-Length`, leading zeros included.
const LENGTH_DIGITS: usize = 19;
/// Largest body by length, in bytes: what every integer type of 64 bits can hold.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Framing {
    /// There is no body, and nothing says how long it would be.
    Empty,
    /// Exactly so many bytes; 0 when the message says so.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// All bytes until the upstream closes, or the stream of HTTP/2 ends. In requests only there.
    UntilClose,
}

impl Framing {
    /// Whether no payload byte can come.
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::Empty | Self::Length(0))
    }
}

/// The body of a request: by length, chunked or none.
///
/// # Errors
/// 400 where the length is said twice, unclearly, or by a coding in HTTP/1.0; 501 for codings that
/// are known but not supported.
pub fn request_framing(head: &RequestHead, bytes: &[u8]) -> Result<Framing, Fault> {
    let refuse = |detail| Err(Fault::request(400, detail));
    let has_length = head.present.contains(FieldId::ContentLength);
    if !head.present.contains(FieldId::TransferEncoding) {
        return match has_length {
            false => Ok(Framing::Empty),
            true => declared_length(&head.fields, bytes).map(Framing::Length).or_else(refuse),
        };
    }
    if head.version == Version::Http10 {
        return refuse("transfer-encoding in HTTP/1.0");
    }
    if has_length {
        return refuse("content-length and transfer-encoding together");
    }
    match one(&head.fields, bytes, FieldId::TransferEncoding) {
        None => refuse("more than one transfer-encoding field"),
        Some(value) if value.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        Some(value) if is_known_coding(value) => {
            Err(Fault::request(501, "a transfer coding that is not supported"))
        }
        Some(_) => refuse("a transfer-encoding other than chunked"),
    }
}

/// The body of a response to a request with the method `to`. A 2xx to CONNECT has none: what
/// follows is the tunnel.
///
/// # Errors
/// `http_response_transfer_coding` for codings other than chunked, `http_protocol_error` for the rest.
pub fn response_framing(to: Method, head: &ResponseHead, bytes: &[u8]) -> Result<Framing, Fault> {
    let coded = head.present.contains(FieldId::TransferEncoding);
    let length = response_length(head, bytes)?;
    if coded {
        check_response_coding(head, bytes, length.is_some())?;
    }
    let tunnel = to == Method::Connect && head.status / 100 == 2;
    if to == Method::Head || tunnel || matches!(head.status, 100..=199 | 204 | 304) {
        return Ok(Framing::Empty);
    }
    Ok(match length {
        _ if coded => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::UntilClose,
    })
}

/// The length that a response declares, also where there is no body (HEAD, 304), to be passed on.
///
/// # Errors
/// `http_protocol_error` for several or malformed lengths.
pub fn response_length(head: &ResponseHead, bytes: &[u8]) -> Result<Option<u64>, Fault> {
    if !head.present.contains(FieldId::ContentLength) {
        return Ok(None);
    }
    declared_length(&head.fields, bytes).map(Some).map_err(Fault::response)
}

/// Whether the client's connection may carry another request (RFC 9112 §9.3).
pub fn request_keeps_alive(head: &RequestHead, bytes: &[u8]) -> bool {
    let fields = if head.present.contains(FieldId::Connection) { head.fields.as_slice() } else { &[] };
    keeps_alive(head.version, fields, bytes)
}

/// Whether the upstream's connection may carry another request after this response was read whole.
/// Not when the body runs until the close, nor when a 204 or 1xx pretends to have a body: some
/// servers do send one, and its bytes must not become the next response (C5).
pub fn response_keeps_alive(head: &ResponseHead, bytes: &[u8], framing: Framing) -> bool {
    if framing == Framing::UntilClose {
        return false;
    }
    if head.status < 200 || head.status == 204 {
        let length = response_length(head, bytes).ok().flatten().unwrap_or(0);
        if length > 0 || head.present.contains(FieldId::TransferEncoding) {
            return false;
        }
    }
    let fields = if head.present.contains(FieldId::Connection) { head.fields.as_slice() } else { &[] };
    keeps_alive(head.version, fields, bytes)
}

fn keeps_alive(version: Version, fields: &[Field], bytes: &[u8]) -> bool {
    let says = |token: &[u8]| field::lists(fields, bytes, FieldId::Connection, token);
    match version {
        Version::Http11 | Version::Http2 => !says(b"close"),
        Version::Http10 => says(b"keep-alive") && !says(b"close"),
    }
}

fn check_response_coding(head: &ResponseHead, bytes: &[u8], has_length: bool) -> Result<(), Fault> {
    if has_length {
        return Err(Fault::response("content-length and transfer-encoding together in the response"));
    }
    if head.version == Version::Http10 {
        return Err(Fault::response("transfer-encoding in an HTTP/1.0 response"));
    }
    match one(&head.fields, bytes, FieldId::TransferEncoding) {
        Some(value) if value.eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Fault::new(
            FaultKind::HttpResponseTransferCoding,
            "a transfer-encoding other than chunked in the response",
        )),
    }
}

/// The value of a field that stands exactly once.
fn one<'b>(fields: &[Field], bytes: &'b [u8], id: FieldId) -> Option<&'b [u8]> {
    let mut values = field::all(fields, bytes, id);
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// The one and only `Content-Length`.
fn declared_length(fields: &[Field], bytes: &[u8]) -> Result<u64, &'static str> {
    let value = one(fields, bytes, FieldId::ContentLength).ok_or("more than one content-length field")?;
    parse_length(value).ok_or("a content-length that is not one decimal number")
}

/// Digits only, and a number below 2^63.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > LENGTH_DIGITS {
        return None;
    }
    let sum = value
        .iter()
        .try_fold(0_u64, |sum, &byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))?;
    (sum <= LENGTH_MAX).then_some(sum)
}

/// Registered codings with chunked as the last one, which is sound HTTP that this proxy does not speak.
fn is_known_coding(value: &[u8]) -> bool {
    const CODINGS: [&[u8]; 5] = [b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress"];
    let Some(comma) = memchr::memrchr(b',', value) else { return false };
    let known = |coding: &[u8]| CODINGS.iter().any(|known| coding.eq_ignore_ascii_case(known));
    octet::trim_ows(&value[comma + 1..]).eq_ignore_ascii_case(b"chunked")
        && value[..comma].split(|&byte| byte == b',').map(octet::trim_ows).all(known)
}

#[cfg(test)]
mod tests;
