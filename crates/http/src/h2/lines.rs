//! Heads and trailers of HTTP/2 as the lines of HTTP/1, on their way in (RFC 9113 §8.2, §8.3).
//!
//! Called with what the codec decoded, before anything else looks at it. Everything behind works on
//! lines and spans and knows no versions, so the grammar of HTTP/1 is applied here, byte by byte: what would
//! not survive the translation, or mean something else after it, is refused and never repaired (rows D1 to
//! D5 of the hostile inputs). The same limits hold as for HTTP/1, crumbs of cookies counted one by one.

use thalweg_core::{Fault, FaultKind, Side, limits};

use super::pseudo::Pseudo;
use crate::field::{Field, FieldId, FieldSet, is_alias};
use crate::h1::HeadLimits;
use crate::h1::encode::write_decimal;
use crate::h1::request::RequestHead;
use crate::h1::response::ResponseHead;
use crate::octet;
use crate::rules::{FORBIDDEN_TRAILERS, Upgrade};
use crate::span::Span;

/// Fields of one connection of HTTP/1, which make a message of HTTP/2 malformed (RFC 9113 §8.2.2).
const OF_CONNECTION: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::TransferEncoding,
    FieldId::Upgrade,
]);
/// Names whose other spellings a gateway could take for framing.
const FRAMING: [FieldId; 4] =
    [FieldId::ContentLength, FieldId::TransferEncoding, FieldId::KeepAlive, FieldId::ProxyConnection];

/// What is wrong with a field section; whom it is blamed on depends on the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    Malformed(&'static str),
    TooManyFields,
    TooLarge,
}

impl Flaw {
    const fn blamed_on(self, side: Side) -> Fault {
        match (self, side) {
            (Self::Malformed(detail), Side::Upstream) => Fault::response(detail),
            (Self::Malformed(detail), _) => Fault::request(400, detail),
            (Self::TooManyFields, Side::Upstream) => too_large("too many fields in the response"),
            (Self::TooManyFields, _) => Fault::request(431, "too many fields"),
            (Self::TooLarge, Side::Upstream) => too_large("the response head is too large"),
            (Self::TooLarge, _) => Fault::request(431, "the head is too large"),
        }
    }
}

const fn too_large(detail: &'static str) -> Fault {
    Fault::new(FaultKind::HttpResponseHeaderSectionSize, detail)
}

/// Writes a request's head into `out`, which is empty, and sets `head` as if it had been parsed from there. `fields`
/// are names and values in their order. The first line is written with the version's label; `host` comes first when
/// there is an `:authority`; crumbs of a cookie become one line where the first of them stands.
///
/// Gives what the stream is to be switched to: an extended CONNECT to a WebSocket reads as a GET with an
/// `upgrade` line.
///
/// # Errors
/// 400, 414, 431 and 501 as for HTTP/1. Of `head` there is then as much as could be read.
pub fn read_request<'f>(
    (pseudo, fields): (&Pseudo<'_>, impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone),
    limits: &HeadLimits,
    head: &mut RequestHead,
    out: &mut Vec<u8>,
) -> Result<Upgrade, Fault> {
    debug_assert!(out.is_empty());
    head.clear();
    let line = pseudo.first_line()?;
    out.extend_from_slice(line.method_text);
    out.push(b' ');
    let target = out.len();
    out.extend_from_slice(line.target);
    head.write_first_line((line.method, Span::new(0, target - 1)), Span::new(target, out.len()));
    head.has_raw_target = line.has_raw_target;
    out.push(b' ');
    out.extend_from_slice(head.version.label().as_bytes());
    if out.len() > limits.line {
        return Err(Fault::request(414, "the request line is too long"));
    }
    out.extend_from_slice(b"\r\n");
    let section = Section { out, limits, count: 0, fields: &mut head.fields, present: &mut head.present };
    head.len = section.request(pseudo, fields, line.upgrade)?;
    Ok(line.upgrade)
}

/// Writes a response's head into `out`, which is empty, and sets `head` as if it had been parsed from there. Spaces
/// around values are left out, as for HTTP/1.
///
/// # Errors
/// `http_response_header_section_size` for the limits, `http_protocol_error` for everything else; 101 does
/// not exist in HTTP/2 (RFC 9113 §8.6).
pub fn read_response<'f>(
    (status, fields): (u16, impl Iterator<Item = (&'f [u8], &'f [u8])>),
    limits: &HeadLimits,
    head: &mut ResponseHead,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    debug_assert!(out.is_empty());
    head.clear();
    match status {
        101 => return Err(Fault::response("the endpoint switched protocols in HTTP/2")),
        100..600 => {}
        _ => return Err(Fault::response("the status is not within 100 and 599")),
    }
    head.write_status(status);
    out.extend_from_slice(head.version.label().as_bytes());
    out.push(b' ');
    write_decimal(out, u64::from(status));
    out.push(b' ');
    head.reason = Span::new(out.len(), out.len());
    out.extend_from_slice(b"\r\n");
    let section = Section { out, limits, count: 0, fields: &mut head.fields, present: &mut head.present };
    head.len = section.response(fields).map_err(|flaw| flaw.blamed_on(Side::Upstream))?;
    Ok(())
}

/// Appends the trailers that may be passed on to `out`, as lines. `side` is where they came from. Forbidden ones
/// (RFC 9110 §6.5.1) of a request are an attack and refused; of a response they are left out.
///
/// # Errors
/// 400 or 431 for a request, `http_protocol_error` or `http_response_header_section_size` for a response.
pub fn read_trailers<'f>(
    side: Side,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let end = out.len() + limits::TRAILERS;
    for (count, (name, value)) in fields.enumerate() {
        let flaw = match check_field(name, value) {
            Err(flaw) => flaw,
            Ok((id, _)) if FORBIDDEN_TRAILERS.contains(id) && side == Side::Upstream => continue,
            Ok((id, _)) if FORBIDDEN_TRAILERS.contains(id) => {
                Flaw::Malformed("a trailer field that is not allowed in a trailer section")
            }
            Ok(_) if count >= limits::FIELDS => Flaw::TooManyFields,
            Ok((_, value)) if out.len() + name.len() + value.len() + 4 > end => Flaw::TooLarge,
            Ok((_, value)) => {
                write_line(out, name, value);
                continue;
            }
        };
        return Err(flaw.blamed_on(side));
    }
    Ok(())
}

/// A field section while it is written.
struct Section<'a> {
    out: &'a mut Vec<u8>,
    limits: &'a HeadLimits,
    /// Fields that have come, crumbs one by one.
    count: usize,
    fields: &'a mut Vec<Field>,
    present: &'a mut FieldSet,
}

impl Section<'_> {
    fn request<'f>(
        mut self,
        pseudo: &Pseudo<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        upgrade: Upgrade,
    ) -> Result<usize, Fault> {
        let blame = |flaw: Flaw| flaw.blamed_on(Side::Downstream);
        if let Some(authority) = pseudo.authority {
            self.count().and_then(|()| self.write(b"host", authority, FieldId::Host)).map_err(blame)?;
        }
        if upgrade == Upgrade::WebSocket {
            self.write(b"upgrade", b"websocket", FieldId::Upgrade).map_err(blame)?;
        }
        for (name, value) in fields.clone() {
            let (id, trimmed) = check_field(name, value).map_err(blame)?;
            if trimmed.len() < value.len() {
                return Err(blame(Flaw::Malformed("whitespace around a field value")));
            }
            match (id, pseudo.authority) {
                (FieldId::Cookie, _) if self.present.contains(FieldId::Cookie) => {}
                (FieldId::Cookie, _) => {
                    let is_cookie = |name| FieldId::classify(name) == FieldId::Cookie;
                    let crumbs = fields.clone().filter(|(name, _)| is_cookie(name)).map(|(_, value)| value);
                    self.cookie(name, crumbs).map_err(blame)?;
                }
                (FieldId::Host, Some(authority)) => {
                    if !pseudo.is_same_host(authority, value)? {
                        return Err(blame(Flaw::Malformed("host and :authority differ")));
                    }
                    self.count().map_err(blame)?;
                }
                (FieldId::Te, _) if !value.eq_ignore_ascii_case(b"trailers") => {
                    return Err(blame(Flaw::Malformed("a te field other than trailers in HTTP/2")));
                }
                (FieldId::Alias, _) if FRAMING.iter().any(|of| is_alias(name, of.name().as_bytes())) => {
                    return Err(blame(Flaw::Malformed("a field that could be taken for one of framing")));
                }
                _ => self.count().and_then(|()| self.write(name, value, id)).map_err(blame)?,
            }
        }
        self.end().map_err(blame)
    }

    fn response<'f>(mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Result<usize, Flaw> {
        for (name, value) in fields {
            let (id, value) = check_field(name, value)?;
            self.count()?;
            self.write(name, value, id)?;
        }
        self.end()
    }

    /// One line of all crumbs (RFC 9113 §8.2.3). Those after the first are not checked yet.
    fn cookie<'f>(&mut self, name: &[u8], crumbs: impl Iterator<Item = &'f [u8]>) -> Result<(), Flaw> {
        let start = self.begin(name, FieldId::Cookie);
        let mut separator: &[u8] = b"";
        for crumb in crumbs {
            self.count()?;
            if self.out.len() + crumb.len() + 4 > self.limits.head {
                return Err(Flaw::TooLarge);
            }
            // An empty one says nothing, and would leave spaces at an end of the value.
            if !crumb.is_empty() {
                self.out.extend_from_slice(separator);
                self.out.extend_from_slice(crumb);
                separator = b"; ";
            }
        }
        self.finish(start)
    }

    fn count(&mut self) -> Result<(), Flaw> {
        self.count += 1;
        if self.count > self.limits.fields { Err(Flaw::TooManyFields) } else { Ok(()) }
    }

    fn write(&mut self, name: &[u8], value: &[u8], id: FieldId) -> Result<(), Flaw> {
        let start = self.begin(name, id);
        self.out.extend_from_slice(value);
        self.finish(start)
    }

    /// Begins a line: where it does.
    fn begin(&mut self, name: &[u8], id: FieldId) -> (usize, usize, FieldId) {
        let start = self.out.len();
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        (start, start + name.len(), id)
    }

    /// Ends the line, which is in the limits with the empty one that may follow.
    fn finish(&mut self, (start, name_end, id): (usize, usize, FieldId)) -> Result<(), Flaw> {
        let value = Span::new(name_end + 2, self.out.len());
        self.out.extend_from_slice(b"\r\n");
        if self.out.len() + 2 > self.limits.head {
            return Err(Flaw::TooLarge);
        }
        self.fields.push(Field { name: Span::new(start, name_end), value, id, keep: true });
        self.present.insert(id);
        Ok(())
    }

    /// Ends the section: the bytes of the head.
    fn end(self) -> Result<usize, Flaw> {
        self.out.extend_from_slice(b"\r\n");
        if self.out.len() > self.limits.head { Err(Flaw::TooLarge) } else { Ok(self.out.len()) }
    }
}

/// The id of a field that may stand in a message of HTTP/2, and its value without spaces around it.
fn check_field<'f>(name: &[u8], value: &'f [u8]) -> Result<(FieldId, &'f [u8]), Flaw> {
    let malformed = |detail| Err(Flaw::Malformed(detail));
    match name.get(octet::token_len(name)) {
        Some(b':') if name.starts_with(b":") => return malformed("a pseudo-field among the fields"),
        Some(_) => return malformed("a forbidden character in a field name"),
        None if name.is_empty() => return malformed("an empty field name"),
        None => {}
    }
    if name.iter().any(u8::is_ascii_uppercase) {
        return malformed("a field name in upper case in HTTP/2");
    }
    if octet::value_len(value) < value.len() {
        return malformed("a control character in a field value");
    }
    match FieldId::classify(name) {
        id if OF_CONNECTION.contains(id) => malformed("a field of a connection in HTTP/2"),
        id => Ok((id, octet::trim_ows(value))),
    }
}

fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
