//! Heads of HTTP/2 as lines, and back.
//!
//! Input: method, `:authority` and `:path` (each empty for none), then fields as name and value; 0xff stands
//! between all of them. They are read as a request, a response and trailers of either. Asserts: what is accepted is
//! within the limits and reads the same by the parser of HTTP/1; nothing of a connection is in it; what
//! goes out again is what came in, crumbs and the host apart.

use thalweg_core::Side;
use thalweg_http::h2::{
    Pseudo, read_request, read_response, read_trailers, split_request, split_response, split_trailers,
};
use thalweg_http::{FieldId, HeadLimits, Progress, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 200, head: 1000, fields: 12 };

type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let mut parts = input.split(|byte| *byte == 0xff);
    let mut next = || parts.next().unwrap_or_default();
    let (method, authority, path) = (next(), next(), next());
    let present = |text| if text == b"" { None } else { Some(text) };
    let rest: Vec<&[u8]> = parts.collect();
    let fields: Pairs<'_> = rest.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let pseudo = Pseudo {
        method,
        scheme: present(authority).map(|_| &b"http"[..]),
        authority: present(authority),
        path: present(path),
        protocol: None,
    };
    request(&pseudo, &fields);
    response(&fields);
    for side in [Side::Downstream, Side::Upstream] {
        trailers(side, &fields);
    }
}

fn request(pseudo: &Pseudo<'_>, fields: &Pairs<'_>) {
    let (mut head, mut out) = (RequestHead::new(), Vec::new());
    let read = read_request((pseudo, fields.iter().copied()), &LIMITS, &mut head, &mut out);
    if let Err(fault) = read {
        assert!(fault.side() == Side::Downstream && matches!(fault.status, 400 | 414 | 431 | 501));
        return;
    }
    assert!(out.len() <= LIMITS.head && head.len == out.len() && head.fields.len() <= LIMITS.fields);
    let mut text = out.clone();
    let end = out.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0);
    assert!(text[..end].ends_with(b" HTTP/2.0"));
    text[end - 3..end].copy_from_slice(b"1.1");
    let mut parsed = RequestHead::new();
    assert_eq!(parsed.parse(&text, &LIMITS), Ok(Progress::Complete));
    assert_eq!(
        (parsed.method, parsed.method_text, parsed.target),
        (head.method, head.method_text, head.target)
    );
    assert_eq!((&parsed.fields, parsed.present, parsed.len), (&head.fields, head.present, head.len));
    for id in [FieldId::Connection, FieldId::TransferEncoding, FieldId::Upgrade, FieldId::KeepAlive] {
        assert!(!head.present.contains(id));
    }
    assert!(head.values(&out, FieldId::Cookie).count() <= 1);
    let plain = |pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>| -> Vec<Vec<u8>> {
        let pairs = pairs.filter(|(name, _)| !matches!(*name, b"cookie" | b"host" | b"http2-settings"));
        pairs.map(|(name, value)| [name, b":", value].concat()).collect()
    };
    let said = split_request(&mut out).expect("what was written is a head");
    assert_eq!((said.method, said.upgrade), (pseudo.method, None));
    if let Some(authority) = pseudo.authority {
        assert_eq!(said.host, authority);
    }
    let mut fields = fields.iter().copied();
    assert_eq!(plain(&mut said.fields.clone()), plain(&mut fields));
}

fn response(fields: &Pairs<'_>) {
    let (mut head, mut out) = (ResponseHead::new(), Vec::new());
    if let Err(fault) = read_response((200, fields.iter().copied()), &LIMITS, &mut head, &mut out) {
        assert_eq!(fault.side(), Side::Upstream);
        return;
    }
    let mut text = out.clone();
    text[..8].copy_from_slice(b"HTTP/1.1");
    let mut parsed = ResponseHead::new();
    assert_eq!(parsed.parse(&text, &LIMITS), Ok(Progress::Complete));
    assert_eq!((&parsed.fields, parsed.status, parsed.len), (&head.fields, 200, head.len));
    let said = split_response(&mut text).expect("what was written is a head");
    let passed = fields.iter().filter(|(name, _)| *name != b"http2-settings").count();
    assert_eq!((said.status, said.len, said.fields.count()), (200, out.len(), passed));
}

fn trailers(side: Side, fields: &Pairs<'_>) {
    let mut out = Vec::new();
    if let Err(fault) = read_trailers(side, fields.iter().copied(), &mut out) {
        assert_eq!(fault.side(), side);
        return;
    }
    let section = [&out[..], b"\r\n"].concat();
    let mut room = [httparse::EMPTY_HEADER; thalweg_core::limits::FIELDS];
    let parsed = httparse::parse_headers(&section, &mut room);
    let Ok(httparse::Status::Complete((length, lines))) = parsed else {
        panic!("trailers that are no field section: {parsed:?}");
    };
    assert_eq!((length, lines.len()), (section.len(), split_trailers(&mut out).count()));
}
