//! The head of a request.
//!
//! Input: bytes of a connection. Asserts, under ordinary and under tight limits: the result is the same
//! when the bytes come whole, one by one and in random pieces; every span lies inside the head and
//! holds only bytes of its grammar; what we accept, httparse accepts with the same method, target,
//! version, fields and length, but for minor versions above 1, which it does not know.

use crate::Draw;
use crate::pieces::growing;
use thalweg_core::Fault;
use thalweg_http::{FieldId, HeadLimits, Method, Progress, RequestHead, Span, Version, octet};

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
        if result == Ok(Progress::Complete) {
            check(&head, input, &limits);
            compare(&head, input);
        }
        // A head that is complete must not change when more bytes arrive, nor a refused one heal.
        let longer = [input, b"\r\n\r\nx"].concat();
        let (_, later) = parse(&longer, &limits, [longer.len()]);
        assert!(result == Ok(Progress::Partial) || later == result, "{result:?} became {later:?}");
    }
}

fn parse(
    input: &[u8],
    limits: &HeadLimits,
    ends: impl IntoIterator<Item = usize>,
) -> (RequestHead, Result<Progress, Fault>) {
    let mut head = RequestHead::new();
    let result = growing(input, ends, |bytes| head.parse(bytes, limits));
    (head, result)
}

fn key(head: &RequestHead) -> impl PartialEq + std::fmt::Debug {
    (head.method, head.method_text, head.target, head.version, head.fields.clone(), head.present, head.len)
}

fn check(head: &RequestHead, input: &[u8], limits: &HeadLimits) {
    assert!(head.len <= input.len() && head.len <= limits.head && head.fields.len() <= limits.fields);
    assert!(input[..head.len].ends_with(b"\r\n\r\n"));
    let inside = |span: Span| assert!(span.start <= span.end && span.end as usize <= head.len, "{span:?}");
    let [method, target] = [head.method_text, head.target].map(|span| {
        inside(span);
        span.of(input)
    });
    assert!(!method.is_empty() && method.iter().all(|byte| octet::is_token(*byte)));
    assert_eq!(Method::from_bytes(method), head.method);
    assert!(!target.is_empty() && target.iter().all(|byte| octet::is_target(*byte) || octet::is_raw(*byte)));
    assert_eq!(head.has_raw_target, target.iter().any(|byte| octet::is_raw(*byte)));
    let mut last = head.target.end;
    for field in &head.fields {
        inside(field.name);
        inside(field.value);
        assert!(last < field.name.start && field.name.end < field.value.start || field.value.is_empty());
        last = field.value.end;
        let (name, value) = (field.name.of(input), field.value.of(input));
        assert!(!name.is_empty() && name.iter().all(|byte| octet::is_token(*byte)));
        assert!(value.iter().all(|byte| octet::is_value(*byte)) && octet::trim_ows(value) == value);
        assert_eq!(FieldId::classify(name), field.id);
        assert!(field.keep && head.present.contains(field.id));
        assert_eq!(head.value(input, field.id), head.values(input, field.id).next());
    }
}

fn compare(head: &RequestHead, input: &[u8]) {
    let mut room = [httparse::EMPTY_HEADER; thalweg_core::limits::FIELDS];
    let mut theirs = httparse::Request::new(&mut room);
    let version = head.target.end as usize + 1;
    if !matches!(&input[version..version + 8], b"HTTP/1.0" | b"HTTP/1.1") {
        return;
    }
    assert_eq!(theirs.parse(input), Ok(httparse::Status::Complete(head.len)));
    assert_eq!(theirs.method.unwrap_or_default().as_bytes(), head.method_text.of(input));
    assert_eq!(theirs.path.unwrap_or_default().as_bytes(), head.target.of(input));
    assert_eq!(theirs.version, Some(u8::from(head.version == Version::Http11)));
    assert_eq!(theirs.headers.len(), head.fields.len());
    for (theirs, ours) in theirs.headers.iter().zip(&head.fields) {
        assert_eq!(theirs.name.as_bytes(), ours.name.of(input));
        // Both ends: httparse leaves what the grammar calls whitespace in some places.
        assert_eq!(octet::trim_ows(theirs.value), ours.value.of(input));
    }
}
