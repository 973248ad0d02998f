//! What each byte may be: one table of classes and the scans built on it.
//!
//! Used by every parser of this crate, and by the HTTP/2 and HTTP/3 adaptors, which must apply the
//! HTTP/1 grammar before they translate anything.

const TOKEN: u8 = 1;
const VALUE: u8 = 1 << 1;
const TARGET: u8 = 1 << 2;
const UNRESERVED: u8 = 1 << 3;
const HOST: u8 = 1 << 4;
const RAW: u8 = 1 << 5;
const SEGMENT: u8 = 1 << 6;
const PLAIN_PATH: u8 = 1 << 7;

/// One in every byte of a word, and the highest bit of each.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES << 7;

/// The classes of every byte.
static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        let alnum = byte.is_ascii_alphanumeric();
        let mut class = 0;
        if alnum || one_of(b"!#$%&'*+-.^_`|~", byte) {
            class |= TOKEN;
        }
        if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
            class |= VALUE;
        }
        if byte.is_ascii_graphic() && !one_of(b"\"#<>\\^`{|}", byte) {
            class |= TARGET;
        }
        if one_of(b"\"\\^`{|}", byte) {
            class |= RAW;
        }
        if alnum || one_of(b"-._~", byte) {
            class |= UNRESERVED;
        }
        if alnum || one_of(b"-._", byte) {
            class |= HOST;
        }
        if alnum || one_of(b"-._~!$&'()*+,;=:@", byte) {
            class |= SEGMENT;
        }
        if byte == b'/' || (class & SEGMENT != 0 && byte != b';') {
            class |= PLAIN_PATH;
        }
        table[i] = class;
        i += 1;
    }
    table
}

const fn one_of(set: &[u8], byte: u8) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

#[inline]
fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// A byte of a method or field name: `tchar`, RFC 9110 §5.6.2.
#[inline]
pub fn is_token(byte: u8) -> bool {
    is(byte, TOKEN)
}

/// A byte of a field value: HTAB, SP, VCHAR or obs-text (RFC 9110 §5.5).
#[inline]
pub fn is_value(byte: u8) -> bool {
    is(byte, VALUE)
}

/// A byte of a request target: what RFC 3986 allows, and `[` and `]`, which browsers leave raw in
/// queries. Not `"`, `#`, `<`, `>`, `\`, `^`, backquote, `{`, `|`, `}`, controls or bytes from 0x80.
#[inline]
pub fn is_target(byte: u8) -> bool {
    is(byte, TARGET)
}

/// A byte that RFC 3986 does not allow in a request target and that clients send without an escape all the same:
/// `"`, `\`, `^`, backquote, `{`, `|`, `}`. It is percent-encoded before it goes further (decision 0066).
#[inline]
pub fn is_raw(byte: u8) -> bool {
    is(byte, RAW)
}

/// A byte that never needs an escape: letters, digits, `-._~` (RFC 3986 §2.3).
#[inline]
pub fn is_unreserved(byte: u8) -> bool {
    is(byte, UNRESERVED)
}

/// A byte that needs no escape in a segment of a path: `pchar` without escapes (RFC 3986 §3.3).
#[inline]
pub fn is_segment(byte: u8) -> bool {
    is(byte, SEGMENT)
}

/// A slash, or a segment byte that all path parsers interpret alike: [`is_segment`] without `;`.
#[inline]
pub(crate) fn is_plain_path(byte: u8) -> bool {
    is(byte, PLAIN_PATH)
}

/// A byte of a host name as this proxy accepts it: letters, digits, `-._`.
#[inline]
pub fn is_host(byte: u8) -> bool {
    is(byte, HOST)
}

/// The value of one hexadecimal digit.
#[inline]
pub fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The number of token bytes in front.
#[inline]
pub fn token_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is_token(byte)).unwrap_or(bytes.len())
}

/// Where the first colon stands, eight bytes at a time.
#[inline]
pub(crate) fn colon(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let other = u64::from_le_bytes(*block) ^ (ONES * b':' as u64);
        // A borrow only runs upwards, so the lowest flag is exact.
        let hits = other.wrapping_sub(ONES) & !other & HIGH;
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    bytes[at..].iter().position(|&byte| byte == b':').map(|place| at + place)
}

/// The number of target bytes in front.
#[inline]
pub fn target_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is_target(byte)).unwrap_or(bytes.len())
}

/// The number of target bytes and raw bytes ([`is_raw`]) in front.
pub fn raw_target_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is(byte, TARGET | RAW)).unwrap_or(bytes.len())
}

/// Appends `%` and two hexadecimal digits in upper case.
pub(crate) fn write_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// The number of field-value bytes in front, eight at a time.
#[inline]
pub fn value_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*block);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let delete = word ^ (ONES * 0x7f);
        // A borrow only runs upwards, so the lowest flag is exact.
        let hits = (control | (delete.wrapping_sub(ONES) & !delete)) & HIGH;
        if hits == 0 {
            at += 8;
            continue;
        }
        at += (hits.trailing_zeros() / 8) as usize;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    at + bytes[at..].iter().position(|&byte| !is_value(byte)).unwrap_or(bytes.len() - at)
}

/// Optional whitespace: SP or HTAB (RFC 9110 §5.6.3).
#[inline]
pub fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The bytes without optional whitespace at both ends.
#[inline]
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_ows(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_ows(*last)
    {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list, trimmed, empty ones left out (RFC 9110 §5.6.1.2).
/// For lists of tokens only: commas in quoted strings are not understood.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_ows).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_grammar() {
        let tokens = (0..=255u8).filter(|&b| is_token(b)).count();
        assert_eq!(tokens, 26 + 26 + 10 + 15);
        for byte in b"()<>@,;:\\\"/[]?={} \t\r\n\0\x7f\x80\xff" {
            assert!(!is_token(*byte), "{byte}");
        }
        for byte in b"\"#<>\\^`{|} \t\r\n\0\x7f\x80\xff" {
            assert!(!is_target(*byte), "{byte}");
            assert_eq!(is_raw(*byte), b"\"\\^`{|}".contains(byte), "{byte}");
        }
        assert_eq!((0..=255u8).filter(|&b| is_raw(b)).count(), 7);
        for byte in b"\r\n\0\x0b\x0c\x1f\x7f" {
            assert!(!is_value(*byte), "{byte}");
        }
        assert!(is_value(b'\t') && is_value(0x80) && is_value(0xff));
    }

    #[test]
    fn the_wide_scan_agrees_with_the_table_at_every_place() {
        for byte in 0..=255u8 {
            for place in 0..20 {
                for fill in [b'a', b'\t', 0x80, 0xff, b' '] {
                    let mut bytes = [fill; 21];
                    bytes[place] = byte;
                    let expected = bytes.iter().position(|&b| !is_value(b)).unwrap_or(21);
                    assert_eq!(value_len(&bytes), expected, "{byte} at {place} in {fill}");
                }
            }
        }
    }

    #[test]
    fn the_first_colon_is_found_at_every_place() {
        for len in 0..20 {
            let mut bytes = vec![b';'; len];
            assert_eq!(colon(&bytes), None);
            for place in (0..len).rev() {
                bytes[place] = b':';
                assert_eq!(colon(&bytes), Some(place), "{len}");
            }
        }
    }

    #[test]
    fn lists_are_trimmed_and_lose_empty_elements() {
        let elements: Vec<_> = list(b" a ,,\tb, c d ,").collect();
        assert_eq!(elements, [b"a".as_slice(), b"b", b"c d"]);
    }
}
