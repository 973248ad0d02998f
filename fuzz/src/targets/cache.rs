//! The decisions of the cache.
//!
//! Input: three heads of `name: value` lines with an empty line between them: a request, the response that is stored
//! for it, and a later answer of the service; lines that no parser lets through count for nothing. Asserts: nothing
//! panics; what is stored has no field that ends at this hop, and stored again is the same; what is fresh was fresh
//! before; what is used stale is not forbidden; ranges lie within the body; dates that are written are read again.

use thalweg_cache::{
    Answer, Body, Failure, Found, Lookup, Policy, Ranges, Request, Response, StoredHead, UnixMillis,
    Validated, Vary, answer, head_effect, look_up, time, use_on_failure, validated, write_answer,
    write_conditions,
};
use thalweg_http::{Method, octet};

type Lines<'a> = Vec<(&'a [u8], &'a [u8])>;

const THEN: u64 = 1_790_000_000;
/// Bytes of the stored body.
const BODY: u64 = 1000;

fn after(seconds: u64) -> UnixMillis {
    UnixMillis::from_seconds(THEN + seconds)
}

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let mut heads = [Lines::new(), Lines::new(), Lines::new()];
    let mut number = 0;
    for line in input.split(|byte| *byte == b'\n') {
        if line.is_empty() && number < 2 {
            number += 1;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], octet::trim_ows(&line[colon + 1..]));
        // No parser lets others through.
        let is_name = !name.is_empty() && octet::token_len(name) == name.len();
        if is_name && octet::value_len(value) == value.len() {
            heads[number].push((name, value));
        }
    }
    let [asked, first, later] = heads;
    for (_, value) in first.iter().chain(&asked) {
        check_value(value);
    }
    let policy = Policy::default();
    let request = Request::read(Method::Get, false, asked.iter().copied());
    for status in [200, 206, 404] {
        let response = Response::read(&policy, status, (after(0), after(1)), first.iter().copied());
        let Ok(head) = StoredHead::new(&policy, &request, &response, first.iter().copied()) else { continue };
        check_stored(&policy, &request, &response, &head);
        check_use(&policy, &request, &asked, &head);
        for status in [304, 200, 503] {
            let told = Response::read(&policy, status, (after(50), after(51)), later.iter().copied());
            if let Validated::Freshened(new) =
                validated(&policy, &request, &head, &told, later.iter().copied())
            {
                assert_eq!((new.status, &new.vary), (head.status, &head.vary));
                assert_eq!(new.freshness.received, after(51));
            }
            let asked_head = Request { method: Method::Head, ..request };
            head_effect(&policy, &asked_head, (&head, BODY), &told, later.iter().copied());
        }
    }
}

fn check_value(value: &[u8]) {
    if let Some(date) = time::parse_http_date(value, after(0))
        && let Ok(seconds) = u64::try_from(date)
    {
        let mut text = Vec::new();
        time::write_http_date(UnixMillis::from_seconds(seconds), &mut text);
        assert_eq!(time::parse_http_date(&text, after(0)), Some(date));
    }
    for total in [0, 1, BODY, u64::MAX] {
        let ranges = match Ranges::parse(value, total) {
            Ranges::One(range) => vec![range],
            Ranges::Many(ranges) => ranges,
            Ranges::Whole | Ranges::Unsatisfiable => Vec::new(),
        };
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= total));
    }
}

fn check_stored(policy: &Policy, request: &Request<'_>, response: &Response<'_>, head: &StoredHead) {
    assert!(!response.directives.private && !response.directives.broken && head.vary != Vary::Everything);
    for name in
        ["connection", "transfer-encoding", "keep-alive", "upgrade", "age", "content-length", "set-cookie"]
    {
        assert_eq!(head.get(name), None, "{name}");
    }
    let mut again =
        Response::read(policy, head.status, (response.requested, response.received), head.fields());
    again.age = response.age;
    again.content_range = response.content_range;
    let again = StoredHead::new(policy, request, &again, head.fields()).expect("it was stored once");
    assert_eq!((again.lines(), again.freshness, again.part), (head.lines(), head.freshness, head.part));
}

fn check_use(policy: &Policy, request: &Request<'_>, asked: &Lines<'_>, head: &StoredHead) {
    let mut was_fresh = true;
    for seconds in [1, 2, 10, 100, 100_000, u64::from(u32::MAX), u64::MAX / 2000] {
        let now = after(seconds);
        let is_fresh = head.freshness.is_fresh(now);
        assert!(was_fresh || !is_fresh, "what was stale is fresh again");
        was_fresh = is_fresh;
        let hit = match look_up(policy, request, Found::Head(head), now) {
            Lookup::Hit(hit) => Some(hit),
            _ => use_on_failure(policy, request, head, Failure::Unreachable, now),
        };
        let Some(hit) = hit else { continue };
        assert!(is_fresh || (hit.is_stale && !head.freshness.never_stale && !head.freshness.must_validate));
        let found = answer(request, asked.iter().copied(), head, Body::Complete(BODY));
        if let Answer::Part(part) = &found {
            assert!(part.first < part.end && part.end <= part.total && part.total == BODY);
        }
        let mut out = Vec::new();
        let status = write_answer(&found, head, &hit, &mut out);
        assert!(out.ends_with(b"\r\n") && (200..600).contains(&status));
    }
    write_conditions(head, &mut Vec::new());
}
