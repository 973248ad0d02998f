//! Asking the service whether a stored response still holds, and what its answer means (RFC 9111 §4.3).

use crate::lookup::{Failure, Hit, use_on_failure};
use crate::policy::Policy;
use crate::range::ContentRange;
use crate::request::{FieldLines, Request};
use crate::response::{Response, values};
use crate::storable::{NotStored, update_allowed};
use crate::stored::{LeftOut, StoredHead, split_lines, write_date};
use std::ops::Range;
use thalweg_http::h1::encode::write_field;
use thalweg_http::{FieldId, FieldSet, Method};

/// Fields that a request loses when a stored response is validated for it: what it asks of its own is answered from
/// what comes.
pub const REPLACED_FIELDS: [&str; 4] = ["if-none-match", "if-modified-since", "if-range", "range"];

/// Fields that the stored body depends on: a 304 does not change them (RFC 9111 §3.2).
const OF_BODY: FieldSet =
    FieldSet::of(&[FieldId::ContentLength, FieldId::ContentEncoding, FieldId::ContentRange]);

/// Appends the conditions of a request that validates, as lines; none where the stored response has no validators and
/// the whole is fetched.
pub fn write_conditions(head: &StoredHead, out: &mut Vec<u8>) {
    if let Some(tag) = head.etag() {
        write_field(out, b"If-None-Match", tag.text);
    }
    if head.last_modified.is_some()
        && let Some(date) = head.get("last-modified")
    {
        write_field(out, b"If-Modified-Since", date);
    }
}

/// What the answer to a validation means.
#[derive(Clone, Debug)]
pub enum Validated {
    /// The stored response holds: it takes this head and is used.
    Freshened(Box<StoredHead>),
    /// It holds for this client with this head, which is not stored. What is stored goes where that is because of the
    /// response ([`NotStored::is_of_response`]), and stays as it was where it is because of the request.
    UsedOnce(Box<StoredHead>, NotStored),
    /// It holds for this client with this head; it varies by other fields than before, so what is stored goes.
    VariesAnew(Box<StoredHead>),
    /// The 304 is about something else: the request is sent again without conditions.
    Repeat,
    /// The service fails, and the stored response is used stale.
    Stale(Hit),
    /// The answer goes to the client, and is stored if it can be.
    Replaced {
        /// Whether what was stored goes even if the answer is not stored: the service has something else now, or
        /// nothing. A client cannot bring that about with what it writes into its request.
        drops_stored: bool,
    },
}

/// Reads the answer to a validation; `fields` are its own.
pub fn validated<'a>(
    policy: &Policy,
    request: &Request<'_>,
    head: &StoredHead,
    response: &Response<'_>,
    fields: impl FieldLines<'a>,
) -> Validated {
    if response.status != 304 {
        let failure = Failure::Status(response.status);
        return match use_on_failure(policy, request, head, failure, response.received) {
            Some(hit) => Validated::Stale(hit),
            None => {
                let is_for_all = !request.directives.no_store && !request.has_credentials;
                let is_other = matches!(response.status, 200..400 | 404 | 410);
                Validated::Replaced { drops_stored: is_for_all && is_other }
            }
        };
    }
    if !is_about(head, response) {
        return Validated::Repeat;
    }
    match updated(policy, request, head, response, fields) {
        (new, Some(why)) => Validated::UsedOnce(new, why),
        (new, None) if new.vary != head.vary => Validated::VariesAnew(new),
        (new, None) => Validated::Freshened(new),
    }
}

/// Whether a 304 is about the stored response (RFC 9111 §4.3.4): the validators that it has are the stored ones. One
/// that has none answers the conditions that were sent.
fn is_about(head: &StoredHead, response: &Response<'_>) -> bool {
    match (response.etag, head.etag()) {
        (Some(new), Some(known)) => new.is_weakly(known),
        (Some(_), None) => false,
        (None, _) => response.last_modified.is_none() || response.last_modified == head.last_modified,
    }
}

/// What a 200 to HEAD means for a stored response that could have answered it (RFC 9111 §4.3.5).
#[derive(Clone, Debug)]
pub enum HeadEffect {
    /// It takes this head.
    Freshened(Box<StoredHead>),
    /// It is no longer what the service has, or not for all: it goes.
    Dropped,
    /// Nothing.
    Nothing,
}

/// Reads the answer to HEAD; `length` are the bytes of the stored body.
pub fn head_effect<'a>(
    policy: &Policy,
    request: &Request<'_>,
    (head, length): (&StoredHead, u64),
    response: &Response<'_>,
    fields: impl FieldLines<'a>,
) -> HeadEffect {
    let is_for_all = !request.directives.no_store && !request.has_credentials;
    if request.method != Method::Head || response.status != 200 || head.status != 200 || !is_for_all {
        return HeadEffect::Nothing;
    }
    let is_same = response.content_length.is_none_or(|told| told == length)
        && response.etag.is_none_or(|tag| head.etag().is_some_and(|known| known.is_weakly(tag)))
        && response.last_modified.is_none_or(|date| head.last_modified == Some(date));
    match updated(policy, request, head, response, fields) {
        (new, None) if is_same && new.vary == head.vary => HeadEffect::Freshened(new),
        _ => HeadEffect::Dropped,
    }
}

/// Appends the fields by which the rest of a part is asked for, as lines: `Range` and `If-Range`. False, and nothing is
/// appended, where what comes could not be joined with what is stored.
pub fn write_completion(head: &StoredHead, gap: &Range<u64>, out: &mut Vec<u8>) -> bool {
    let date = head.get("last-modified").filter(|_| head.has_strong_date());
    let Some(validator) = head.etag().filter(|tag| !tag.is_weak()).map(|tag| tag.text).or(date) else {
        return false;
    };
    let total = head.part.map_or(0, |part| part.total);
    let last = if gap.end >= total { String::new() } else { (gap.end - 1).to_string() };
    write_field(out, b"Range", format!("bytes={}-{last}", gap.start).as_bytes());
    write_field(out, b"If-Range", validator);
    true
}

/// The head of stored parts to which a 206 is added, and where it belongs; `None` where it is not of the same
/// representation, by a strong validator, its length and its coding (RFC 9111 §3.4), or may not be stored.
pub fn joined<'a>(
    policy: &Policy,
    request: &Request<'_>,
    head: &StoredHead,
    response: &Response<'_>,
    fields: impl FieldLines<'a>,
) -> Option<(Box<StoredHead>, ContentRange)> {
    let part = ContentRange::parse(response.content_range.filter(|_| response.status == 206)?)?;
    let is_whole = response.content_length.is_none_or(|length| length == part.len());
    let is_same = match (response.etag, head.etag()) {
        (Some(new), Some(known)) => new.is_strongly(known),
        (None, None) => head.has_strong_date() && response.last_modified == head.last_modified,
        _ => false,
    };
    // With `If-Range` the client knows the coding, and the part need not say it (RFC 9110 §15.3.7).
    let coding = values(fields.clone(), "content-encoding").next();
    let is_coded_alike =
        coding == head.get("content-encoding") || coding.is_none() && request.if_range.is_some();
    if !is_whole || !is_same || !is_coded_alike || head.part?.total != part.total {
        return None;
    }
    match updated(policy, request, head, response, fields) {
        (new, None) if new.vary == head.vary => Some((new, part)),
        _ => None,
    }
}

/// Whether parts with these heads are of one representation, so that they may be joined (RFC 9111 §3.4): by a strong
/// validator, the length of the whole and its coding, and for the same requests.
pub fn is_same_representation(one: &StoredHead, other: &StoredHead) -> bool {
    let (Some(part), Some(known)) = (one.part, other.part) else { return false };
    let is_validated = match (one.etag(), other.etag()) {
        (Some(tag), Some(known)) => tag.is_strongly(known),
        (None, None) => {
            one.has_strong_date() && other.has_strong_date() && one.last_modified == other.last_modified
        }
        _ => false,
    };
    is_validated
        && part.total == known.total
        && one.vary == other.vary
        && one.get("content-encoding") == other.get("content-encoding")
}

/// The stored head with the fields of a newer response (RFC 9111 §3.2). If it may not be stored, or varies by other
/// fields than before, it is only for the client that caused the newer response, and has all fields of that response,
/// including those for a single client.
fn updated<'a>(
    policy: &Policy,
    request: &Request<'_>,
    head: &StoredHead,
    response: &Response<'_>,
    fields: impl FieldLines<'a>,
) -> (Box<StoredHead>, Option<NotStored>) {
    let left_out = LeftOut::of(policy, response, fields.clone());
    let lines = merged_lines(head, response, fields.clone(), |name| !left_out.has(name));
    let content_range = head.part.map(content_range);
    let mut read = read_merged((policy, head), response, content_range.as_deref(), &lines);
    // `Set-Cookie` lines are not among the merged lines.
    read.has_set_cookie |= response.has_set_cookie;
    // A stored part was requested by another request.
    let range = match head.part {
        Some(_) => Some(&b"bytes=0-"[..]),
        None => request.range,
    };
    // As far as the head goes, an answer to HEAD is one to GET.
    let request = Request { method: Method::Get, range, ..*request };
    let alone = Response { status: head.status, ..*response };
    let new = StoredHead::new(policy, &request, &read, split_lines(&lines))
        .and_then(|new| update_allowed(policy, &request, &alone).map(|()| new));
    let why = match new {
        Ok(new) if new.vary == head.vary => return (Box::new(new), None),
        Ok(_) => None,
        Err(why) => Some(why),
    };
    let lines = merged_lines(head, response, fields, |name| !left_out.ends_here(name));
    let read = read_merged((policy, head), response, content_range.as_deref(), &lines);
    (Box::new(StoredHead::used_once(policy, &read, &lines)), why)
}

/// Reads merged lines as a response received at the time of the newer one.
fn read_merged<'l>(
    (policy, head): (&Policy, &StoredHead),
    response: &Response<'_>,
    content_range: Option<&'l [u8]>,
    lines: &'l [u8],
) -> Response<'l> {
    let times = (response.requested, response.received);
    let mut read = Response::read(policy, head.status, times, split_lines(lines));
    read.age = response.age;
    read.content_length = head.part.map(|part| part.len());
    read.content_range = content_range;
    read
}

fn content_range(part: ContentRange) -> Vec<u8> {
    format!("bytes {}-{}/{}", part.first, part.end - 1, part.total).into_bytes()
}

/// The lines of the stored head, with fields of the newer response in place of the stored ones.
fn merged_lines<'a>(
    head: &StoredHead,
    response: &Response<'_>,
    fields: impl FieldLines<'a>,
    is_kept: impl Fn(&[u8]) -> bool,
) -> Vec<u8> {
    let is_taken = |name: &[u8]| is_kept(name) && !OF_BODY.contains(FieldId::classify(name));
    let is_date = |name: &[u8]| name.eq_ignore_ascii_case(b"date");
    let mut lines = Vec::with_capacity(head.lines().len() + 64);
    for (name, value) in head.fields() {
        let is_replaced = || values_exist(fields.clone(), name) && is_taken(name);
        if !is_date(name) && !is_replaced() {
            write_field(&mut lines, name, value);
        }
    }
    for (name, value) in fields.filter(|(name, _)| is_taken(name)) {
        if !is_date(name) || response.date.is_some() {
            write_field(&mut lines, name, value);
        }
    }
    if response.date.is_none() {
        write_date(response, &mut lines);
    }
    lines
}

fn values_exist<'a>(fields: impl FieldLines<'a>, name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| values(fields, name).next().is_some())
}

#[cfg(test)]
mod tests;
