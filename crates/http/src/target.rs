//! The request target: its form, and the one normal form of its path (RFC 9112 §3.2, RFC 3986 §6).
//!
//! Called once per request, before routing; filters, logs and the upstream all see the result, and
//! [`crate::path_readings`] derives the matched form from it. A path that an upstream could interpret differently is
//! refused instead of rewritten: backslashes, NUL, parameters on dot segments, overlong UTF-8, climbing above the
//! root, and paths that begin with two slashes (a client of ours could not tell them from `//host/path`). Escapes
//! that an upstream which decodes them reads otherwise ([`Escapes`]) are reported; routes decide about them.

use thalweg_core::Fault;

use crate::authority::parse_authority;
use crate::method::Method;
use crate::octet;
use crate::path_readings::Doubts;
use crate::span::Span;

/// The four forms of RFC 9112 §3.2.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `*`, with OPTIONS only.
    Asterisk,
    /// `host:port`, with CONNECT only.
    Authority,
}

/// A request target in its parts, as spans over the same bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Target {
    /// Its form.
    pub form: TargetForm,
    /// `http` or `https` in any case, in absolute form; empty otherwise.
    pub scheme: Span,
    /// The authority in absolute and authority form, already checked; empty otherwise.
    pub authority: Span,
    /// The path as written: begins with `/`. Empty in absolute form without one, which means `/`,
    /// and in asterisk and authority form.
    pub path: Span,
    /// The query without its `?`, as written.
    pub query: Option<Span>,
}

/// What a path may hold only where its route says how the endpoint reads it. Escapes that change a path once they are
/// decoded are refused unless the route allows them; `//` and `;` are refused only beside a guarded route
/// ([`crate::path_readings`]).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Escapes(u8);

/// By their names.
impl serde::Serialize for Escapes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl Escapes {
    /// None.
    pub const NONE: Self = Self(0);
    /// `%2F` where decoding it makes an empty segment: at the edge of a segment or beside another one. Elsewhere it is
    /// forwarded as it is and separates nothing.
    pub const SLASH: Self = Self(1);
    /// `%01` to `%1F` and `%7F`. `%00` is always refused.
    pub const CONTROL: Self = Self(1 << 1);
    /// `%5C`
    pub const BACKSLASH: Self = Self(1 << 2);
    /// `//`, which is never among the escapes of a path.
    pub const DOUBLE_SLASH: Self = Self(1 << 3);
    /// `;`, which is never among the escapes of a path.
    pub const SEMICOLON: Self = Self(1 << 4);
    /// All, with their names in the configuration.
    pub const ALL: [(Self, &str); 5] = [
        (Self::SLASH, "slash"),
        (Self::CONTROL, "control"),
        (Self::BACKSLASH, "backslash"),
        (Self::DOUBLE_SLASH, "double_slash"),
        (Self::SEMICOLON, "semicolon"),
    ];

    /// The names of those that are among them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |(one, _)| self.contains(*one)).map(|(_, name)| name)
    }

    /// Those of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that `other` does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The doubts about a path that a route settles by allowing these: its endpoint reads the path as the matched form
    /// does.
    pub const fn settles(self) -> Doubts {
        let mut settled = Doubts::NONE;
        if self.contains(Self::SLASH) {
            settled = settled.union(Doubts::SEPARATORS);
        }
        if self.contains(Self::DOUBLE_SLASH) {
            settled = settled.union(Doubts::EMPTY);
        }
        if self.contains(Self::SEMICOLON) {
            settled = settled.union(Doubts::PARAMETERS);
        }
        settled
    }

    /// Why a path with these is refused by a route that allows those of `allowed` only.
    ///
    /// # Errors
    /// 400 where one is not allowed.
    pub const fn check(self, allowed: Self) -> Result<(), Fault> {
        let refused = self.without(allowed);
        Err(Fault::request(
            400,
            if refused.is_empty() {
                return Ok(());
            } else if refused.contains(Self::BACKSLASH) {
                "an encoded backslash in the path, which the route does not allow"
            } else if refused.contains(Self::CONTROL) {
                "an encoded control character in the path, which the route does not allow"
            } else {
                "an encoded slash at the edge of a path segment, which the route does not allow"
            },
        ))
    }
}

/// Appends a query with its raw bytes ([`octet::is_raw`]) percent-encoded; all else stays as it is.
pub fn write_query(query: &[u8], out: &mut Vec<u8>) {
    for &byte in query {
        match octet::is_raw(byte) {
            true => octet::write_escape(out, byte),
            false => out.push(byte),
        }
    }
}

/// Splits a target that [`crate::RequestHead::parse`] accepted (its bytes are target bytes).
///
/// # Errors
/// 400 for a form that does not belong to the method, a scheme other than http and https, an
/// authority that [`parse_authority`] refuses, CONNECT without a port, or a path that begins with `//`.
pub fn parse_target(method: Method, bytes: &[u8], target: Span) -> Result<Target, Fault> {
    let text = target.of(bytes);
    if method == Method::Connect {
        return match parse_authority(bytes, target)?.port {
            Some(_) => Ok(Target { form: TargetForm::Authority, authority: target, ..Target::default() }),
            None => Err(Fault::request(400, "a CONNECT target without a port")),
        };
    }
    match text {
        [b'/', ..] => with_path(Target::default(), bytes, target),
        b"*" if method == Method::Options => Ok(Target { form: TargetForm::Asterisk, ..Target::default() }),
        b"*" => Err(Fault::request(400, "the target * with a method other than OPTIONS")),
        _ => absolute(bytes, target),
    }
}

fn absolute(bytes: &[u8], target: Span) -> Result<Target, Fault> {
    let text = target.of(bytes);
    let scheme = [&b"http"[..], b"https"]
        .iter()
        .find(|scheme| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
                && text.get(scheme.len()..scheme.len() + 3) == Some(b"://")
        })
        .ok_or(Fault::request(400, "a target that is neither a path nor an http or https URL"))?
        .len();
    let start = target.start as usize;
    let authority = start + scheme + 3;
    let rest = &text[scheme + 3..];
    let end = authority + memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let parts = Target {
        form: TargetForm::Absolute,
        scheme: Span::new(start, start + scheme),
        authority: Span::new(authority, end),
        ..Target::default()
    };
    parse_authority(bytes, parts.authority)?;
    with_path(parts, bytes, Span::new(end, target.end as usize))
}

/// Adds path and query, which `rest` holds.
fn with_path(mut target: Target, bytes: &[u8], rest: Span) -> Result<Target, Fault> {
    let text = rest.of(bytes);
    let (start, end) = (rest.start as usize, rest.end as usize);
    let path = start + memchr::memchr(b'?', text).unwrap_or(text.len());
    target.path = Span::new(start, path);
    target.query = (path < end).then(|| Span::new(path + 1, end));
    match begins_like_an_authority(text) {
        true => Err(DOUBLE_SLASH),
        false => Ok(target),
    }
}

const DOUBLE_SLASH: Fault = Fault::request(400, "a path that begins with two slashes");
const FORBIDDEN: Fault = Fault::request(400, "a forbidden character in the path");
const MALFORMED_ESCAPE: Fault = Fault::request(400, "a malformed percent escape in the path");
const DOT_PARAMETER: Fault = Fault::request(400, "a parameter on a dot segment of the path");
const DOT_BESIDE_SLASH: Fault =
    Fault::request(400, "a dot segment beside an encoded slash or backslash in the path");

/// `//x` is a path to some and a host to others (A15); the one place that decides it.
fn begins_like_an_authority(path: &[u8]) -> bool {
    path.starts_with(b"//")
}

/// Whether the path is certainly its own normal form with a single reading, as nearly all paths are. True guarantees
/// that [`normalize_path`] gives the same bytes and no escapes, and [`crate::write_readings`] gives `None`; false
/// guarantees nothing.
pub fn path_is_normal(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') || begins_like_an_authority(path) {
        return false;
    }
    let mut last = 0;
    for &byte in path {
        if !octet::is_plain_path(byte) || (last == b'/' && matches!(byte, b'.' | b'/')) {
            return false;
        }
        last = byte;
    }
    true
}

/// Appends the normal form of a path: escapes of unreserved characters decoded, other escapes in
/// upper case, raw bytes ([`octet::is_raw`]) but the backslash percent-encoded, dot segments resolved, empty segments
/// kept (B1, B2). Idempotent. Gives the escapes that the route has to allow, also those of segments that `..` took
/// away.
///
/// # Errors
/// 400 for what has no safe normal form; `out` is then as it was.
pub fn normalize_path(path: &[u8], out: &mut Vec<u8>) -> Result<Escapes, Fault> {
    let base = out.len();
    let result = write_normal_path(path, out, base);
    if result.is_err() {
        out.truncate(base);
    }
    result
}

fn write_normal_path(path: &[u8], out: &mut Vec<u8>, base: usize) -> Result<Escapes, Fault> {
    let Some(rest) = path.strip_prefix(b"/") else {
        return Err(Fault::request(400, "a path that does not begin with a slash"));
    };
    let mut escapes = Escapes::NONE;
    let mut segments = rest.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let start = out.len();
        out.push(b'/');
        let found = write_segment(segment, out)?;
        escapes = escapes.union(found.escapes);
        let dots = match &out[start + 1..] {
            b"." => 1,
            b".." => 2,
            segment => {
                check_hidden_dots(segment, found.separates)?;
                continue;
            }
        };
        out.truncate(start);
        if dots == 2 {
            let Some(parent) = memchr::memrchr(b'/', &out[base..]) else {
                return Err(Fault::request(400, "a path that climbs above the root"));
            };
            out.truncate(base + parent);
        }
        if segments.peek().is_none() {
            out.push(b'/');
        }
    }
    if begins_like_an_authority(&out[base..]) {
        return Err(DOUBLE_SLASH);
    }
    Ok(escapes)
}

/// What is in one segment.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    escapes: Escapes,
    /// It has a slash or backslash, encoded: servers that decode first see several segments.
    separates: bool,
}

/// Appends one segment with its escapes in normal form.
fn write_segment(segment: &[u8], out: &mut Vec<u8>) -> Result<Found, Fault> {
    let mut found = Found::default();
    let mut lead = 0;
    let mut rest = segment;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            lead = 0;
            match byte {
                b'\\' => return Err(Fault::request(400, "a backslash in the path")),
                b'?' => return Err(FORBIDDEN),
                _ if octet::is_target(byte) => out.push(byte),
                _ if octet::is_raw(byte) => octet::write_escape(out, byte),
                _ => return Err(FORBIDDEN),
            }
            continue;
        }
        let [high, low, tail @ ..] = rest else { return Err(MALFORMED_ESCAPE) };
        let (Some(high), Some(low)) = (octet::hex_digit(*high), octet::hex_digit(*low)) else {
            return Err(MALFORMED_ESCAPE);
        };
        let at_start = rest.len() + 1 == segment.len();
        rest = tail;
        let value = high << 4 | low;
        match value {
            0 => return Err(Fault::request(400, "an encoded NUL in the path")),
            0x80..=0xbf if is_overlong(lead, value) => {
                return Err(Fault::request(400, "overlong UTF-8 in the path"));
            }
            _ if octet::is_unreserved(value) => {
                out.push(value);
                lead = 0;
                continue;
            }
            b'/' => {
                found.separates = true;
                if at_start || rest.is_empty() || out.ends_with(b"%2F") {
                    found.escapes = found.escapes.union(Escapes::SLASH);
                }
            }
            b'\\' => {
                found.separates = true;
                found.escapes = found.escapes.union(Escapes::BACKSLASH);
            }
            1..=0x1f | 0x7f => found.escapes = found.escapes.union(Escapes::CONTROL),
            _ => {}
        }
        octet::write_escape(out, value);
        lead = value;
    }
    Ok(found)
}

/// Whether two bytes begin an encoding of a character that has a shorter one (`%C0%AE` for `.`).
fn is_overlong(lead: u8, next: u8) -> bool {
    matches!((lead, next), (0xc0 | 0xc1, 0x80..=0xbf) | (0xe0, 0x80..=0x9f) | (0xf0, 0x80..=0x8f))
}

/// Refuses segments that become dot segments in servers which cut parameters off (`..;x`) or
/// decode slashes and backslashes (`..%2Fx`, `..%5Cx`).
fn check_hidden_dots(segment: &[u8], separates: bool) -> Result<(), Fault> {
    let mut rest = segment;
    loop {
        // A gateway may decode the slash first and cut parameters then, so every piece counts.
        let len = rest.windows(3).position(|three| matches!(three, b"%2F" | b"%5C")).unwrap_or(rest.len());
        let piece = &rest[..len];
        let dots = piece.iter().take(3).take_while(|byte| **byte == b'.').count();
        if matches!(dots, 1 | 2) {
            match &piece[dots..] {
                [b';', ..] | [b'%', b'3', b'B', ..] => return Err(DOT_PARAMETER),
                [] if separates => return Err(DOT_BESIDE_SLASH),
                _ => {}
            }
        }
        match rest.get(len + 3..) {
            Some(next) => rest = next,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
