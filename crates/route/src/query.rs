//! Reading the query of a request for conditions: `a=1&b=2`, decoded as forms are
//! (`+` is a space, `%41` is `A`; a malformed escape stands for itself).
//!
//! Called by the router's conditions only. The query itself is never changed: upstreams get it as it came.

/// Encoded values up to this many bytes are decoded on the stack; longer ones cost an allocation.
pub const DECODED_IN_PLACE: usize = 256;

/// Calls `test` with each decoded value of `name` (decoded) until it returns true; whether it did.
/// A parameter without `=` has an empty value; empty parameters (`&&`) are passed over.
pub fn any(query: &[u8], name: &[u8], test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).any(|pair| {
        let (key, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        Decode(key).eq(name.iter().copied()) && test_decoded(value, test)
    })
}

fn test_decoded(value: &[u8], test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    if memchr::memchr2(b'%', b'+', value).is_none() {
        return test(value);
    }
    let mut place = [0_u8; DECODED_IN_PLACE];
    if value.len() > place.len() {
        return test(&Decode(value).collect::<Vec<u8>>());
    }
    let mut length = 0;
    for (slot, byte) in place.iter_mut().zip(Decode(value)) {
        *slot = byte;
        length += 1;
    }
    test(&place[..length])
}

/// The bytes that an encoded text stands for.
struct Decode<'a>(&'a [u8]);

impl Iterator for Decode<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if *first == b'%'
            && let [high, low, tail @ ..] = rest
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            self.0 = tail;
            return Some(high << 4 | low);
        }
        self.0 = rest;
        Some(if *first == b'+' { b' ' } else { *first })
    }
}

/// The value of a hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(query: &str, name: &str, value: &str) -> bool {
        any(query.as_bytes(), name.as_bytes(), &mut |found| found == value.as_bytes())
    }

    #[test]
    fn reads_pairs() {
        assert!(has("a=1&b=2", "b", "2"));
        assert!(has("a=1&a=2", "a", "2"));
        assert!(has("flag", "flag", ""));
        assert!(has("&&a==b&", "a", "=b"));
        assert!(!has("ab=1", "a", "1"));
        assert!(!has("", "", ""));
        assert!(has("=x", "", "x"));
    }

    #[test]
    fn decodes_names_and_values() {
        assert!(has("d%65bug=tru%65", "debug", "true"));
        assert!(has("q=a+b%2Bc", "q", "a b+c"));
        assert!(has("q=%zz%4", "q", "%zz%4"));
        let long = "%61".repeat(1000);
        assert!(has(&format!("q={long}"), "q", &"a".repeat(1000)));
    }
}
