//! Framing of a request, and what is stripped from heads before they are passed on.
//!
//! Input: a head, read as a request and as a response. Asserts: the framing agrees with a naive count of
//! the framing fields; after stripping, under every rule, no field that frames, that belongs to one hop,
//! that `Connection` nominates, that speaks for the client, or that is an alias of such a name (`_` for
//! `-`) is kept; what is kept is written as sound lines that parse to the same fields again; stripping
//! twice is stripping once.

use thalweg_http::field::{Field, FieldSet};
use thalweg_http::h1::encode::write_fields;
use thalweg_http::h1::framing::request_framing;
use thalweg_http::rules::{
    accepts_trailers, expects_continue, host_of, strip_request, strip_response, wants_upgrade,
};
use thalweg_http::{
    FieldId, Framing, HeadLimits, Progress, RequestHead, RequestRules, ResponseHead, Upgrade, Version, octet,
};

/// Names that never go further, in lower case.
const ONE_HOP: &[&str] = &[
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
];
/// Names that a request loses besides: the proxy writes them itself.
const OURS: &[&str] = &["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
/// Names by which a stranger could speak for the client.
const STRANGERS: &[&str] =
    &["forwarded", "true-client-ip", "x-forwarded-port", "x-forwarded-prefix", "x-real-ip"];

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let limits = HeadLimits::default();
    let mut request = RequestHead::new();
    if request.parse(input, &limits) == Ok(Progress::Complete) {
        framing(&request, input);
        for (trusted_peer, keep_upgrade) in [(false, false), (false, true), (true, false), (true, true)] {
            let rules = RequestRules { trusted_peer, keep_upgrade };
            let mut head = request.clone();
            strip_request(&mut head, input, &rules);
            let once = head.fields.clone();
            strip_request(&mut head, input, &rules);
            assert_eq!(head.fields, once, "stripped twice");
            let upgrade = if keep_upgrade { &[][..] } else { &["upgrade"] };
            let strangers = if trusted_peer { &[] } else { STRANGERS };
            kept(&once, input, &[ONE_HOP, OURS, strangers, upgrade].concat(), true);
        }
    }
    let mut response = ResponseHead::new();
    if response.parse(input, &limits) == Ok(Progress::Complete) {
        for keep_upgrade in [false, true] {
            let mut head = response.clone();
            strip_response(&mut head, input, keep_upgrade);
            let upgrade = if keep_upgrade { &[][..] } else { &["upgrade"] };
            kept(&head.fields, input, &[ONE_HOP, upgrade].concat(), false);
        }
    }
}

/// The framing against a count of lines.
fn framing(head: &RequestHead, input: &[u8]) {
    let values = |name: &[u8]| -> Vec<&[u8]> {
        let named = head.fields.iter().filter(|field| field.name.of(input).eq_ignore_ascii_case(name));
        named.map(|field| field.value.of(input)).collect()
    };
    let (lengths, codings) = (values(b"content-length"), values(b"transfer-encoding"));
    match request_framing(head, input) {
        Ok(Framing::Empty) => assert!(lengths.is_empty() && codings.is_empty()),
        Ok(Framing::Length(length)) => {
            assert!(lengths.len() == 1 && codings.is_empty());
            assert!(lengths[0].iter().all(u8::is_ascii_digit));
            assert_eq!(std::str::from_utf8(lengths[0]).ok().and_then(|text| text.parse().ok()), Some(length));
        }
        Ok(Framing::Chunked) => {
            assert!(lengths.is_empty() && codings.len() == 1 && head.version == Version::Http11);
            assert!(codings[0].eq_ignore_ascii_case(b"chunked"));
        }
        Ok(Framing::UntilClose) => panic!("a request that runs until the close"),
        Err(fault) => {
            assert!(!(lengths.is_empty() && codings.is_empty()), "{fault:?} without a framing field");
            assert!(matches!(fault.status, 400 | 501), "{fault:?}");
        }
    }
    let _ = (expects_continue(head, input), host_of(head, input), accepts_trailers(head, input));
    assert!(wants_upgrade(head, input) == Upgrade::None || head.version == Version::Http11);
}

/// None of the kept fields is `gone`, nominated, or (where `aliases` are taken out) an alias.
fn kept(fields: &[Field], input: &[u8], gone: &[&str], aliases: bool) {
    let nominated: Vec<&[u8]> = fields
        .iter()
        .filter(|field| field.name.of(input).eq_ignore_ascii_case(b"connection"))
        .flat_map(|field| octet::list(field.value.of(input)))
        .filter(|name| !name.eq_ignore_ascii_case(b"close"))
        .collect();
    for field in fields.iter().filter(|field| field.keep) {
        let name = field.name.of(input);
        let text = String::from_utf8_lossy(name).to_ascii_lowercase();
        assert!(!gone.contains(&text.as_str()), "{text} was kept");
        let collapsed = text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        assert!(
            !aliases || collapsed == text || !gone.contains(&collapsed.as_str()),
            "the alias {text} was kept"
        );
        let protected = FieldSet::PROTECTED.contains(FieldId::classify(name));
        let named = nominated.iter().any(|other| other.eq_ignore_ascii_case(name));
        assert!(!named || protected, "{text} was kept although it is nominated");
    }
    // What is protected cannot be nominated away.
    let lost = |field: &&Field| matches!(field.id, FieldId::Authorization | FieldId::Cookie | FieldId::Via);
    assert_eq!(fields.iter().filter(|field| !field.keep).find(lost), None, "a protected field was dropped");
    let mut wire = b"GET / HTTP/1.1\r\n".to_vec();
    write_fields(&mut wire, input, fields);
    wire.extend_from_slice(b"\r\n");
    let mut again = RequestHead::new();
    assert_eq!(
        again.parse(&wire, &HeadLimits { head: usize::MAX, ..HeadLimits::default() }),
        Ok(Progress::Complete)
    );
    assert_eq!(again.len, wire.len());
    let expected: Vec<_> = pairs(fields, input).collect();
    assert_eq!(pairs(&again.fields, &wire).collect::<Vec<_>>(), expected, "written otherwise");
}

fn pairs<'b>(fields: &'b [Field], bytes: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
    fields.iter().filter(|field| field.keep).map(|field| (field.name.of(bytes), field.value.of(bytes)))
}
