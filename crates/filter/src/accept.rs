//! Lists of what a client accepts, with weights (RFC 9110 §12.4.2, §12.5.3).

use thalweg_http::octet;

/// The most elements that are looked at: a list may be as long as a head.
pub(crate) const ELEMENTS: usize = 64;

/// The weight that a client gives a coding, in thousandths; 0 where it does not accept it. What is not listed has
/// that of `*`, and of `identity` 1 where nothing says otherwise, so that it is the last choice.
pub(crate) fn coding_weight<'a>(values: impl Iterator<Item = &'a [u8]>, coding: &str) -> u16 {
    let (mut named, mut any) = (None, None);
    for element in values.flat_map(octet::list).take(ELEMENTS) {
        let mut parts = element.split(|byte| *byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts.next().map_or(Some(1000), weight);
        // An element that cannot be read says nothing.
        let Some(weight) = weight else { continue };
        // RFC 9110 §8.4.1.3: `x-gzip` is `gzip`.
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        if name.eq_ignore_ascii_case(coding.as_bytes()) {
            named = named.max(Some(weight));
        } else if name == b"*" {
            any = any.max(Some(weight));
        }
    }
    named.or(any).unwrap_or(u16::from(coding == "identity"))
}

/// Reads `q=0.5`: up to three decimals, at most 1.
pub(crate) fn weight(parameter: &[u8]) -> Option<u16> {
    let text = parameter.trim_ascii();
    let text = text.strip_prefix(b"q=").or_else(|| text.strip_prefix(b"Q="))?;
    let (whole, decimals) = match memchr::memchr(b'.', text) {
        None => (text, &[][..]),
        Some(dot) => (&text[..dot], &text[dot + 1..]),
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let thousandths = (0..3).fold(0, |sum, at| {
        let digit = decimals.get(at).map_or(0, |digit| u16::from(*digit - b'0'));
        sum * 10 + digit
    });
    match whole {
        b"0" => Some(thousandths),
        b"1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_rfc_9110() {
        let of = |list: &str, coding| coding_weight([list.as_bytes()].into_iter(), coding);
        for (list, coding, expected) in [
            ("gzip, br", "br", 1000),
            ("gzip;q=0.5, br;q=0.25", "gzip", 500),
            ("GZIP ; q=0.123", "gzip", 123),
            ("x-gzip", "gzip", 1000),
            ("gzip;q=0", "gzip", 0),
            ("*;q=0.3", "zstd", 300),
            ("*, gzip;q=0", "gzip", 0),
            ("br", "gzip", 0),
            ("", "gzip", 0),
            ("", "identity", 1),
            ("identity;q=0", "identity", 0),
            ("*;q=0", "identity", 0),
            ("gzip;q=2", "gzip", 0),
            ("gzip;q=0.1234", "gzip", 0),
            ("gzip;q=", "gzip", 0),
            ("gzip;x=1", "gzip", 0),
            (";;;,,,gzip", "gzip", 1000),
        ] {
            assert_eq!(of(list, coding), expected, "{list} {coding}");
        }
        assert_eq!(of(&"a,".repeat(100_000), "gzip"), 0);
        assert_eq!(coding_weight([&b"br"[..], b"gzip;q=0.7"].into_iter(), "gzip"), 700);
    }
}
