//! The head of a response, from an upstream that is trusted no more than a client.
//!
//! Input: bytes of a connection. Asserts, under ordinary and under tight limits: the result is the same
//! when the bytes come whole, one by one and in random pieces; every span lies inside the head; what
//! we accept, httparse accepts with the same status, reason, version, fields and length; framing and
//! keep-alive are decided without a panic, and every fault blames the upstream.

use crate::Draw;
use crate::pieces::growing;
use thalweg_core::{Fault, Side};
use thalweg_http::h1::framing::{response_framing, response_keeps_alive};
use thalweg_http::{Framing, HeadLimits, Method, Progress, ResponseHead, Span, Version, octet};

/// Small enough for the fuzzer to run into each of them.
const TIGHT: HeadLimits = HeadLimits { line: 60, head: 200, fields: 6 };

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    for limits in [HeadLimits::default(), TIGHT] {
        let (head, result) = parse(input, &limits, [input.len()]);
        for (again, same) in
            [parse(input, &limits, 0..=input.len()), parse(input, &limits, Draw::of(input).ends(input.len()))]
        {
            assert_eq!(same, result, "another result when split");
            if result == Ok(Progress::Complete) {
                assert_eq!(key(&again), key(&head), "another head when split");
            }
        }
        match result {
            Ok(Progress::Complete) => {
                check(&head, input, &limits);
                compare(&head, input);
                frame(&head, input);
            }
            Ok(Progress::Partial) => {}
            Err(fault) => assert_eq!(fault.side(), Side::Upstream, "{fault:?}"),
        }
    }
}

fn parse(
    input: &[u8],
    limits: &HeadLimits,
    ends: impl IntoIterator<Item = usize>,
) -> (ResponseHead, Result<Progress, Fault>) {
    let mut head = ResponseHead::new();
    let result = growing(input, ends, |bytes| head.parse(bytes, limits));
    (head, result)
}

fn key(head: &ResponseHead) -> impl PartialEq + std::fmt::Debug {
    (head.status, head.version, head.reason, head.fields.clone(), head.present, head.len)
}

fn check(head: &ResponseHead, input: &[u8], limits: &HeadLimits) {
    assert!((100..600).contains(&head.status));
    assert!(head.len <= input.len() && head.len <= limits.head && head.fields.len() <= limits.fields);
    assert!(input[..head.len].ends_with(b"\r\n\r\n"));
    let inside = |span: Span| assert!(span.start <= span.end && span.end as usize <= head.len, "{span:?}");
    inside(head.reason);
    assert!(head.reason.of(input).iter().all(|byte| octet::is_value(*byte)));
    for field in &head.fields {
        inside(field.name);
        inside(field.value);
        let (name, value) = (field.name.of(input), field.value.of(input));
        assert!(!name.is_empty() && name.iter().all(|byte| octet::is_token(*byte)));
        assert!(value.iter().all(|byte| octet::is_value(*byte)) && octet::trim_ows(value) == value);
        assert!(field.keep && head.present.contains(field.id));
    }
}

fn compare(head: &ResponseHead, input: &[u8]) {
    let mut room = [httparse::EMPTY_HEADER; thalweg_core::limits::FIELDS];
    let mut theirs = httparse::Response::new(&mut room);
    // httparse knows no minor version above 1; we read those as 1.1 (RFC 9110 §2.5).
    if !(input.starts_with(b"HTTP/1.0") || input.starts_with(b"HTTP/1.1")) {
        return;
    }
    assert_eq!(theirs.parse(input), Ok(httparse::Status::Complete(head.len)));
    assert_eq!(theirs.code, Some(head.status));
    assert_eq!(theirs.version, Some(u8::from(head.version == Version::Http11)));
    let reason = head.reason.of(input);
    // httparse gives an empty reason for one that is not ASCII.
    assert_eq!(theirs.reason.unwrap_or_default().as_bytes(), if reason.is_ascii() { reason } else { b"" });
    assert_eq!(theirs.headers.len(), head.fields.len());
    for (theirs, ours) in theirs.headers.iter().zip(&head.fields) {
        assert_eq!(theirs.name.as_bytes(), ours.name.of(input));
        assert_eq!(octet::trim_ows(theirs.value), ours.value.of(input));
    }
}

fn frame(head: &ResponseHead, input: &[u8]) {
    for method in [Method::Get, Method::Head, Method::Connect] {
        match response_framing(method, head, input) {
            Ok(framing) => {
                let keeps = response_keeps_alive(head, input, framing);
                assert!(!keeps || framing != Framing::UntilClose, "kept although its end is the close");
                let bodiless = method == Method::Head || matches!(head.status, 100..=199 | 204 | 304);
                assert!(!bodiless || framing == Framing::Empty);
            }
            Err(fault) => assert_eq!(fault.side(), Side::Upstream, "{fault:?}"),
        }
    }
}
