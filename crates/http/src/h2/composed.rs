//! Heads and trailers that were composed as the lines of HTTP/1, on their way out in HTTP/2 (RFC 9113 §8.2, §8.3).
//!
//! The composers write one form for every version; here it is taken apart again. Names become
//! lower case where they stand; what belongs to one connection of HTTP/1, and the reason phrase, stay behind.

use crate::field::{FieldId, FieldSet};
use crate::octet;

/// What is not said in HTTP/2 (RFC 9113 §8.2.2); `TE` is, for it can only be `trailers` here.
const NOT_SAID: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::TransferEncoding,
    FieldId::Upgrade,
    FieldId::Http2Settings,
]);

/// A response's head.
#[derive(Clone, Debug)]
pub struct ComposedResponse<'a> {
    /// `:status`, three digits.
    pub status: u16,
    /// The fields.
    pub fields: Fields<'a>,
    /// Bytes of the head with its empty line.
    pub len: usize,
}

/// A request's head.
#[derive(Clone, Debug)]
pub struct ComposedRequest<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:path`, or `*`.
    pub target: &'a [u8],
    /// `:authority`: the value of `Host`; empty without one.
    pub host: &'a [u8],
    /// The protocol that the connection would be switched to: `:protocol` of an extended CONNECT.
    pub upgrade: Option<&'a [u8]>,
    /// The other fields.
    pub fields: Fields<'a>,
    /// Bytes of the head with its empty line.
    pub len: usize,
}

/// Takes a composed response's head apart, with which `head` begins; nothing if it is none.
pub fn split_response(head: &mut [u8]) -> Option<ComposedResponse<'_>> {
    let (first, lines, len) = split(head)?;
    let (digits, rest) = first.strip_prefix(b"HTTP/1.1 ")?.split_first_chunk::<3>()?;
    let is_sound = digits.iter().all(u8::is_ascii_digit) && matches!(rest, [] | [b' ', ..]);
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    is_sound.then_some(ComposedResponse { status, fields: Fields { lines, skips_host: false }, len })
}

/// Takes a composed request's head apart, with which `head` begins; nothing if it is none.
pub fn split_request(head: &mut [u8]) -> Option<ComposedRequest<'_>> {
    let (first, lines, len) = split(head)?;
    let mut words = first.split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    let fields = Fields { lines, skips_host: true };
    let value = |id| {
        let mut lines = lines;
        std::iter::from_fn(|| next_field(&mut lines)).find(|(_, _, other)| *other == id).map(|field| field.1)
    };
    let host = value(FieldId::Host).unwrap_or_default();
    Some(ComposedRequest { method, target, host, upgrade: value(FieldId::Upgrade), fields, len })
}

/// Takes trailer lines apart, with or without an empty line at their end.
pub fn split_trailers(lines: &mut [u8]) -> Fields<'_> {
    lower_names(lines);
    Fields { lines, skips_host: false }
}

/// Lower-case names and values of lines, as they may be said in HTTP/2.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    lines: &'a [u8],
    skips_host: bool,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (name, value, id) = next_field(&mut self.lines)?;
            let is_elsewhere = self.skips_host && id == FieldId::Host;
            if !NOT_SAID.contains(id) && !is_elsewhere {
                return Some((name, value));
            }
        }
    }

    /// At most as many as there are lines; the last one may have no end.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let is_open = self.lines.last().is_some_and(|byte| *byte != b'\n');
        (0, Some(memchr::memchr_iter(b'\n', self.lines).count() + usize::from(is_open)))
    }
}

/// The first line, the lines after it with the empty one, and the length of both. Names are lower case then.
fn split(head: &mut [u8]) -> Option<(&[u8], &[u8], usize)> {
    let len = memchr::memmem::find(head, b"\r\n\r\n")? + 4;
    let first = memchr::memmem::find(head, b"\r\n")?;
    lower_names(&mut head[first + 2..len]);
    Some((&head[..first], &head[first + 2..len], len))
}

fn lower_names(mut lines: &mut [u8]) {
    while !lines.is_empty() {
        let end = memchr::memchr(b'\n', lines).map_or(lines.len(), |lf| lf + 1);
        let (line, rest) = lines.split_at_mut(end);
        let name = memchr::memchr(b':', line).unwrap_or(0);
        line[..name].make_ascii_lowercase();
        lines = rest;
    }
}

/// The field of the next line; none at the end or at an empty line. A line that is none is passed over.
fn next_field<'a>(lines: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8], FieldId)> {
    loop {
        let end = memchr::memchr(b'\n', lines).map_or(lines.len(), |lf| lf + 1);
        let (line, rest) = lines.split_at(end);
        let line = line.strip_suffix(b"\r\n").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        *lines = rest;
        let colon = octet::colon(line).filter(|colon| *colon > 0);
        debug_assert!(colon.is_some(), "composed lines have names");
        if let Some(colon) = colon {
            let (name, value) = (&line[..colon], octet::trim_ows(&line[colon + 1..]));
            return Some((name, value, FieldId::classify(name)));
        }
    }
}

#[cfg(test)]
mod tests;
