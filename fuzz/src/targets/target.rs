//! The request target and the normal form of its path.
//!
//! Input: a target, taken as it is for every method. Asserts: the parts lie inside the target, in order, and
//! make it up again; a normal path is idempotent, begins with one slash, holds only target bytes and no
//! dot segment (also none that a further decoding of `%2e`, `%2f` or `%5c` or a cut at `;` would make), has
//! its escapes in upper case and none for unreserved characters; the quick test for normal paths never
//! lies; after a refusal the output is as it was.

use thalweg_http::{
    Escapes, Method, Span, Target, TargetForm, normalize_path, octet, parse_authority, parse_target,
    path_is_normal,
};

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    path(input);
    // The target stands in the middle of a buffer, as it does in a head.
    let buffer = [b"GET ", input, b" HTTP/1.1\r\n"].concat();
    let span = Span::new(4, 4 + input.len());
    for method in [Method::Get, Method::Options, Method::Connect, Method::Other] {
        if let Ok(target) = parse_target(method, &buffer, span) {
            parts(method, &target, &buffer, span);
        }
    }
}

fn parts(method: Method, target: &Target, buffer: &[u8], span: Span) {
    let text = span.of(buffer);
    for part in [target.scheme, target.authority, target.path, target.query.unwrap_or(span)] {
        let inside = part.start >= span.start && part.start <= part.end && part.end <= span.end;
        assert!(inside || part.is_empty(), "{part:?} outside {span:?}");
    }
    let [scheme, authority, path] =
        [target.scheme, target.authority, target.path].map(|part| part.of(buffer));
    let query = target.query.map(|query| [b"?", query.of(buffer)].concat()).unwrap_or_default();
    let whole = match target.form {
        TargetForm::Origin => [path, &query].concat(),
        TargetForm::Absolute => [scheme, b"://", authority, path, &query].concat(),
        TargetForm::Asterisk => b"*".to_vec(),
        TargetForm::Authority => authority.to_vec(),
    };
    assert_eq!(whole, text, "the parts do not make up the target");
    assert_eq!(target.form == TargetForm::Authority, method == Method::Connect);
    assert!(target.form != TargetForm::Asterisk || method == Method::Options);
    assert!(!path.starts_with(b"//") && !path.contains(&b'?') && (path.is_empty() || path[0] == b'/'));
    if matches!(target.form, TargetForm::Absolute | TargetForm::Authority) {
        assert!(parse_authority(buffer, target.authority).is_ok());
        assert!(!authority.iter().any(|byte| b"@/?#\\ ,".contains(byte)));
    }
}

fn path(input: &[u8]) {
    let mut once = b"kept".to_vec();
    let result = normalize_path(input, &mut once);
    let Ok(escapes) = result else {
        assert_eq!(once, b"kept", "a refused path left something behind");
        assert!(!path_is_normal(input), "a refused path is called normal");
        return;
    };
    let normal = once.strip_prefix(b"kept").unwrap_or_default();
    assert!(!path_is_normal(input) || normal == input, "a path called normal was changed");
    let mut twice = Vec::new();
    // Those of a segment that `..` took away are gone.
    let left = normalize_path(normal, &mut twice).expect("the normal form is accepted");
    assert!(escapes.contains(left), "the normal form has other escapes");
    assert_eq!(twice, normal, "not idempotent");
    assert!(normal.starts_with(b"/") && !normal.starts_with(b"//"));
    assert!(normal.iter().all(|byte| octet::is_target(*byte) && *byte != b'?'));
    spelling(normal);
    let decoded = decode(normal);
    assert!(!decoded.contains(&0), "NUL in what an upstream sees");
    assert_eq!(left.contains(Escapes::BACKSLASH), decoded.contains(&b'\\'));
    assert_eq!(left.contains(Escapes::CONTROL), decoded.iter().any(u8::is_ascii_control));
    let empty = |text: &[u8]| text.split(|byte| *byte == b'/').filter(|segment| segment.is_empty()).count();
    assert_eq!(left.contains(Escapes::SLASH), empty(normal) != empty(&decoded));
    for text in [normal, &decoded] {
        for segment in text.split(|byte| matches!(*byte, b'/' | b'\\')) {
            let cut = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            assert!(cut != b"." && cut != b"..", "a dot segment in {:?}", String::from_utf8_lossy(text));
        }
    }
}

/// Every `%` begins an escape in upper case of a byte that needs one.
fn spelling(normal: &[u8]) {
    for (at, _) in normal.iter().enumerate().filter(|(_, byte)| **byte == b'%') {
        let digits = normal.get(at + 1..at + 3).expect("an escape is whole");
        let text = std::str::from_utf8(digits).expect("an escape is ASCII");
        let value = u8::from_str_radix(text, 16).expect("an escape is hexadecimal");
        assert_eq!(format!("{value:02X}"), text);
        assert!(!octet::is_unreserved(value), "%{text} should be decoded");
    }
}

/// Decodes every escape once, as a careless upstream does.
fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let value = match tail {
            [high, low, ..] if *first == b'%' => octet::hex_digit(*high).zip(octet::hex_digit(*low)),
            _ => None,
        };
        out.push(value.map_or(*first, |(high, low)| high << 4 | low));
        rest = if value.is_some() { &tail[2..] } else { tail };
    }
    out
}
