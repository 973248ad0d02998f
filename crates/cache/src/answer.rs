//! What of a stored response is sent: all of it, a range, or that it has not changed (RFC 9110 §13.2.2).

use crate::lookup::Hit;
use crate::parts::Parts;
use crate::range::{ContentRange, Ranges};
use crate::request::{FieldLines, Request};
use crate::stored::StoredHead;
use crate::time::parse_http_date;
use crate::validators::{EntityTag, if_none_match_lists};
use std::ops::Range;
use thalweg_http::Method;
use thalweg_http::h1::encode::{write_decimal, write_field};

/// What is stored of a body.
#[derive(Clone, Copy, Debug)]
pub enum Body<'p> {
    /// All of it, so many bytes; or it is on its way, and its length is known.
    Complete(u64),
    /// It is on its way, and its length is not known.
    Growing,
    /// Parts of it.
    Parts(&'p Parts),
}

/// What is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The stored response.
    Full,
    /// 304.
    NotModified,
    /// 206 with this range.
    Part(ContentRange),
    /// 206 with several ranges of a body of so many bytes, as `multipart/byteranges`; the whole is allowed too.
    Several(Vec<Range<u64>>, u64),
    /// 416: the body has so many bytes.
    Unsatisfiable(u64),
    /// The stored parts do not have what is asked for: the request goes to the service.
    Lacks,
}

/// Decides what is sent of a stored response that may be used; `fields` are those of the request.
pub fn answer<'a>(
    request: &Request<'a>,
    fields: impl FieldLines<'a>,
    head: &StoredHead,
    body: Body<'_>,
) -> Answer {
    if is_known(request, fields, head) {
        return Answer::NotModified;
    }
    part_of(request, head, body)
}

/// Which part of a stored body a request asks for, whatever its conditions.
pub(crate) fn part_of(request: &Request<'_>, head: &StoredHead, body: Body<'_>) -> Answer {
    let total = match body {
        Body::Complete(total) => Some(total),
        Body::Growing => None,
        Body::Parts(parts) => Some(parts.total()),
    };
    let has = |range: &Range<u64>| match body {
        Body::Parts(parts) => parts.has(range),
        Body::Complete(_) | Body::Growing => true,
    };
    let whole = || match total {
        Some(total) if !has(&(0..total)) => Answer::Lacks,
        _ => Answer::Full,
    };
    let (Some(range), Some(total), 200 | 206) = (request.range, total, head.status) else { return whole() };
    if request.method != Method::Get || !allows_ranges(request, head) {
        return whole();
    }
    match Ranges::parse(range, total) {
        Ranges::Whole => whole(),
        Ranges::Unsatisfiable => Answer::Unsatisfiable(total),
        Ranges::One(range) if has(&range) => {
            Answer::Part(ContentRange { first: range.start, end: range.end, total })
        }
        Ranges::Many(ranges) if ranges.iter().all(has) => Answer::Several(ranges, total),
        Ranges::One(_) | Ranges::Many(_) => Answer::Lacks,
    }
}

/// Whether the client has this very representation (RFC 9111 §4.3.2). Conditions of a request whose answer would be no
/// success do not count (RFC 9110 §13.2.1).
pub fn is_known<'a>(request: &Request<'a>, fields: impl FieldLines<'a>, head: &StoredHead) -> bool {
    // Of other methods, a condition means something else (RFC 9110 §13.1.2).
    let may_have_not_changed = matches!(request.method, Method::Get | Method::Head);
    if !(200..300).contains(&head.status) || !may_have_not_changed {
        return false;
    }
    if request.has_if_none_match {
        return if_none_match_lists(fields, head.etag());
    }
    let since = request.if_modified_since.and_then(|value| parse_http_date(value, head.freshness.received));
    since.is_some_and(|since| head.last_modified.unwrap_or(head.date) <= since)
}

/// Whether the client that asks for a range has a part of this very representation, or sets no such condition (RFC 9110
/// §13.1.5).
fn allows_ranges(request: &Request<'_>, head: &StoredHead) -> bool {
    let Some(value) = request.if_range else { return true };
    if let Some(tag) = EntityTag::parse(value) {
        return head.etag().is_some_and(|etag| etag.is_strongly(tag));
    }
    let date = parse_http_date(value, head.freshness.received);
    date.is_some() && date == head.last_modified && head.has_strong_date()
}

/// Fields of a stored response that a 304 does not have: they describe a body (RFC 9110 §15.4.5).
fn describes_body(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"content-";
    let is_prefixed = name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    // `Content-Location` names a resource, and policies hold for documents that are shown again.
    let is_kept = name.eq_ignore_ascii_case(b"content-location")
        || name.eq_ignore_ascii_case(b"content-security-policy")
        || name.eq_ignore_ascii_case(b"content-security-policy-report-only");
    is_prefixed && !is_kept
}

/// Appends the fields of an answer, with `Age` and `Content-Range`, without framing, and gives its status. The caller
/// frames: `Content-Length` or chunks, nothing for 304. Several ranges are as the caller sends them.
pub fn write_answer(answer: &Answer, head: &StoredHead, hit: &Hit, out: &mut Vec<u8>) -> u16 {
    let status = match answer {
        Answer::NotModified => 304,
        Answer::Part(_) | Answer::Several(..) => 206,
        Answer::Unsatisfiable(_) => 416,
        Answer::Full | Answer::Lacks if head.status == 206 => 200,
        Answer::Full | Answer::Lacks => head.status,
    };
    match answer {
        Answer::NotModified | Answer::Unsatisfiable(_) => {
            for (name, value) in head.fields().filter(|(name, _)| !describes_body(name)) {
                write_field(out, name, value);
            }
        }
        Answer::Part(_) | Answer::Several(..) => {
            // A stored 200 may have one, which means nothing there.
            for (name, value) in
                head.fields().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-range"))
            {
                write_field(out, name, value);
            }
        }
        Answer::Full | Answer::Lacks => out.extend_from_slice(head.lines()),
    }
    write_content_range(answer, out);
    out.extend_from_slice(b"Age: ");
    write_decimal(out, u64::from(hit.age));
    out.extend_from_slice(b"\r\n");
    status
}

fn write_content_range(answer: &Answer, out: &mut Vec<u8>) {
    let (range, total) = match answer {
        Answer::Part(range) => (Some(range), range.total),
        Answer::Unsatisfiable(total) => (None, *total),
        _ => return,
    };
    out.extend_from_slice(b"Content-Range: bytes ");
    match range {
        Some(range) => {
            write_decimal(out, range.first);
            out.push(b'-');
            write_decimal(out, range.end - 1);
        }
        None => out.push(b'*'),
    }
    out.push(b'/');
    write_decimal(out, total);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
