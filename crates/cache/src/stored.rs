//! The head of a stored response: what is sent again, and what is known of it.
//!
//! Made once, when a response is stored or freshened; a hit only reads it. Nothing is stored that ends at this hop, and
//! neither is `Age`, which is counted from then on.

use crate::freshness::{self, Freshness};
use crate::policy::{Policy, SetCookie};
use crate::range::ContentRange;
use crate::request::{FieldLines, Request};
use crate::response::{GOVERNING, Response, listed_fields, values};
use crate::storable::{NotStored, assess, is_still_stored};
use crate::time::{UnixMillis, write_http_date};
use crate::validators::EntityTag;
use crate::vary::Vary;
use thalweg_http::h1::encode::write_field;
use thalweg_http::{FieldId, FieldSet, octet};

/// Names in `Connection` that are looked up one by one; where there are more, all that could be named is left out.
const MOST_NOMINATED: usize = 32;

/// Fields that are not stored (RFC 9111 §3.1). The framing is that of each response, the age is counted.
const NOT_STORED: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::Proxy,
    FieldId::ProxyAuthenticate,
    FieldId::ProxyAuthorization,
    FieldId::Te,
    FieldId::Trailer,
    FieldId::TransferEncoding,
    FieldId::Upgrade,
    FieldId::Http2Settings,
    FieldId::ContentLength,
    FieldId::Age,
]);

/// The head of a stored response.
#[derive(Clone, Debug)]
pub struct StoredHead {
    /// Its status; 206: parts of a representation are stored.
    pub status: u16,
    /// How long it may be used.
    pub freshness: Freshness,
    /// What it varies by.
    pub vary: Vary,
    /// When it was made, in seconds since the Unix epoch.
    pub date: i64,
    /// `Last-Modified`, in seconds since the Unix epoch.
    pub last_modified: Option<i64>,
    /// The range that a 206 has; the first one of a stored head that others were added to.
    pub part: Option<ContentRange>,
    lines: Box<[u8]>,
}

/// What a store saves of a head; the rest follows from it.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// [`StoredHead::status`].
    pub status: u16,
    /// When it was received ([`Freshness::received`]).
    pub received: UnixMillis,
    /// Milliseconds of age that it had then ([`Freshness::initial_age`]).
    pub initial_age: u64,
    /// [`StoredHead::part`].
    pub part: Option<ContentRange>,
    /// [`StoredHead::lines`].
    pub lines: &'a [u8],
}

impl StoredHead {
    /// Decides whether a response is stored, and makes the head that is.
    ///
    /// # Errors
    /// Why it is not.
    pub fn new<'a>(
        policy: &Policy,
        request: &Request<'_>,
        response: &Response<'_>,
        fields: impl FieldLines<'a>,
    ) -> Result<Self, NotStored> {
        if response.status == 206 && has_several_parts(fields.clone()) {
            return Err(NotStored::Part);
        }
        let vary = if response.has_vary { Vary::read(fields.clone()) } else { Vary::Nothing };
        let storable = assess(policy, request, response, vary)?;
        let mut lines = Vec::new();
        write_lines(policy, response, fields, &mut lines);
        Ok(Self {
            status: response.status,
            freshness: storable.freshness,
            vary: storable.vary,
            date: freshness::date(response),
            last_modified: response.last_modified,
            part: storable.part,
            lines: lines.into(),
        })
    }

    /// The head, with these lines, of a response that is used only for the client that caused it, and is not stored.
    pub(crate) fn used_once(policy: &Policy, response: &Response<'_>, lines: &[u8]) -> Self {
        Self {
            status: response.status,
            freshness: Freshness::of(policy, response),
            vary: Vary::read(split_lines(lines)),
            date: freshness::date(response),
            last_modified: response.last_modified,
            part: response.content_range.and_then(ContentRange::parse),
            lines: lines.into(),
        }
    }

    /// The head that was saved with these parts, as a store on a disk does; what is derived is derived anew. `None`
    /// where it would not be stored today: the policy is another one, or the lines are not those of a stored head.
    pub fn restore(policy: &Policy, saved: Saved<'_>) -> Option<Self> {
        let times = (saved.received, saved.received);
        let response = Response::read(policy, saved.status, times, split_lines(saved.lines));
        let vary = Vary::read(split_lines(saved.lines));
        // Whether a request with a cookie has caused it is not saved.
        let freshness = Freshness::of(policy, &response).without_heuristics();
        let freshness = Freshness { initial_age: saved.initial_age, ..freshness };
        let is_refused = !is_still_stored(policy, &response, &freshness)
            || vary == Vary::Everything
            || (saved.status == 206) != saved.part.is_some();
        if is_refused || !saved.lines.ends_with(b"\r\n") {
            return None;
        }
        Some(Self {
            status: saved.status,
            freshness,
            vary,
            date: freshness::date(&response),
            last_modified: response.last_modified,
            part: saved.part,
            lines: saved.lines.into(),
        })
    }

    /// Whether its body is a part of the representation.
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// The same once all parts are there: a 200 (RFC 9111 §3.4).
    #[must_use]
    pub fn completed(&self) -> Self {
        Self { status: 200, part: None, ..self.clone() }
    }

    /// The same with another range.
    #[must_use]
    pub fn with_part(&self, part: Option<ContentRange>) -> Self {
        Self { part, ..self.clone() }
    }

    /// Its fields as lines, each with its CR LF; neither `Age` nor framing is among them.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Its fields.
    pub fn fields(&self) -> impl FieldLines<'_> {
        split_lines(&self.lines)
    }

    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        values(self.fields(), name).next()
    }

    /// Its entity tag.
    pub fn etag(&self) -> Option<EntityTag<'_>> {
        let mut tags = values(self.fields(), "etag");
        EntityTag::parse(tags.next()?).filter(|_| tags.next().is_none())
    }

    /// Whether it can be validated.
    pub fn can_be_validated(&self) -> bool {
        self.last_modified.is_some() || self.etag().is_some()
    }

    /// Whether `Last-Modified` tells versions apart as an entity tag does: the response was made long after (RFC 9110
    /// §8.8.2.2).
    pub fn has_strong_date(&self) -> bool {
        const LONG: i64 = 60;
        self.last_modified.is_some_and(|modified| self.date.saturating_sub(modified) >= LONG)
    }

    /// Bytes of memory beside the head itself.
    pub fn size(&self) -> usize {
        let names = match &self.vary {
            Vary::Names(names) => names.iter().map(|name| name.len() + size_of::<Box<str>>()).sum(),
            Vary::Nothing | Vary::Everything => 0,
        };
        self.lines.len() + names
    }
}

/// The fields of whole lines, each with its CR LF, as [`StoredHead::lines`] has them.
pub fn split_lines(lines: &[u8]) -> impl FieldLines<'_> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], octet::trim_ows(&line[colon + 1..])))
    })
}

/// Whether the body of a 206 is several parts with heads of their own, whatever `Content-Range` says (RFC 9110
/// §15.3.7.2).
fn has_several_parts<'a>(fields: impl FieldLines<'a>) -> bool {
    const MULTIPART: &[u8] = b"multipart/byteranges";
    let is_multipart = |value: &[u8]| {
        value.get(..MULTIPART.len()).is_some_and(|start| start.eq_ignore_ascii_case(MULTIPART))
    };
    values(fields, "content-type").any(is_multipart)
}

/// Which fields of a response are not stored.
pub(crate) struct LeftOut<'a, 'p> {
    policy: &'p Policy,
    /// Named by `Connection`; `None`: too many to tell.
    nominated: Option<Vec<&'a [u8]>>,
    /// Named by `no-cache` or `private`.
    listed: Vec<&'a [u8]>,
}

impl<'a, 'p> LeftOut<'a, 'p> {
    pub(crate) fn of(policy: &'p Policy, response: &Response<'_>, fields: impl FieldLines<'a>) -> Self {
        let all = values(fields.clone(), "connection").flat_map(octet::list);
        let nominated: Vec<_> = all.take(MOST_NOMINATED + 1).collect();
        let listed = if response.directives.lists_fields && !policy.is_per_client() {
            listed_fields(policy, fields)
        } else {
            Vec::new()
        };
        Self { policy, nominated: (nominated.len() <= MOST_NOMINATED).then_some(nominated), listed }
    }

    /// Whether the field is not stored.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let is_cookie =
            FieldId::classify(name) == FieldId::SetCookie || name.eq_ignore_ascii_case(b"set-cookie2");
        self.ends_here(name)
            || (!self.is_target(name) && is_named(&self.listed, name))
            || (is_cookie && self.policy.set_cookie != SetCookie::Store)
    }

    /// Whether the field does not reach even the client that caused the response: it is hop-by-hop, or is generated
    /// anew.
    pub(crate) fn ends_here(&self, name: &[u8]) -> bool {
        let id = FieldId::classify(name);
        // What other hops may never take away stays (hostile input A20), and so does what decides: `Connection:
        // Cache-Control` changes nothing.
        let stays = self.is_target(name) || FieldSet::PROTECTED.contains(id) || GOVERNING.contains(id);
        NOT_STORED.contains(id)
            || (!stays && self.nominated.as_deref().is_none_or(|names| is_named(names, name)))
            || name.eq_ignore_ascii_case(b"proxy-authentication-info")
    }

    fn is_target(&self, name: &[u8]) -> bool {
        let mut targets = self.policy.targets.iter();
        targets.any(|target| target.as_bytes().eq_ignore_ascii_case(name))
    }
}

fn is_named(names: &[&[u8]], name: &[u8]) -> bool {
    names.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

/// Appends the lines that are stored of a response.
fn write_lines<'a>(policy: &Policy, response: &Response<'_>, fields: impl FieldLines<'a>, out: &mut Vec<u8>) {
    let left_out = LeftOut::of(policy, response, fields.clone());
    for (name, value) in fields {
        let is_replaced = match FieldId::classify(name) {
            FieldId::Date => response.date.is_none(),
            // Written anew for each range that is served.
            FieldId::ContentRange => response.status == 206,
            _ => false,
        };
        if !is_replaced && !left_out.has(name) {
            write_field(out, name, value);
        }
    }
    if response.date.is_none() {
        write_date(response, out);
    }
}

/// Appends the time of receipt as `Date` (RFC 9110 §6.6.1).
pub(crate) fn write_date(response: &Response<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Date: ");
    write_http_date(response.received, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
