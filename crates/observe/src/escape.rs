//! Bytes that a peer sent, made harmless inside a line of the log (hostile input E10).
//!
//! Called by the encoders for every field that is not ours. Invariant: what comes out holds no
//! control character, no quote that would end the field, and only valid UTF-8.

/// How a field is written: one of the functions of this module.
pub(crate) type Escape = fn(&mut Vec<u8>, &[u8]);

/// Bytes that stand for themselves in both forms.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Copies plain bytes and returns the rest, which begins with one that is not plain.
fn copy_plain<'a>(out: &mut Vec<u8>, text: &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|byte| !PLAIN[usize::from(*byte)]).unwrap_or(text.len());
    let (plain, rest) = text.split_at(end);
    out.extend_from_slice(plain);
    rest
}

/// nginx's default escaping (`ngx_http_log_escape`): `"`, `\`, control characters and all bytes
/// from 0x7F up become `\xHH`.
pub(crate) fn nginx(out: &mut Vec<u8>, text: &[u8]) {
    let mut text = copy_plain(out, text);
    while let Some((byte, rest)) = text.split_first() {
        out.extend_from_slice(b"\\x");
        out.extend_from_slice(&hex(*byte, b"0123456789ABCDEF"));
        text = copy_plain(out, rest);
    }
}

/// The inside of a JSON string (RFC 8259 §7). Control characters (C0, DEL, C1), line separators and
/// characters that change the direction of writing become `\uHHHH`; bytes that are not UTF-8 become
/// `\ufffd`.
pub(crate) fn json(out: &mut Vec<u8>, text: &[u8]) {
    let mut text = copy_plain(out, text);
    while let Some(first) = text.first() {
        let taken = match first {
            b'"' | b'\\' => {
                out.extend_from_slice(&[b'\\', *first]);
                1
            }
            b'\n' | b'\r' | b'\t' => {
                out.extend_from_slice(match first {
                    b'\n' => b"\\n",
                    b'\r' => b"\\r",
                    _ => b"\\t",
                });
                1
            }
            _ => json_char(out, text),
        };
        text = copy_plain(out, text.get(taken..).unwrap_or_default());
    }
}

/// Writes the first character of `text`, or a replacement; returns how many bytes it took, at least 1.
fn json_char(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let front = text.get(..4).unwrap_or(text);
    let (valid, broken) = match std::str::from_utf8(front) {
        Ok(valid) => (valid, 0),
        Err(error) => {
            let valid = front.get(..error.valid_up_to()).unwrap_or_default();
            let broken = error.error_len().unwrap_or(front.len() - valid.len());
            (std::str::from_utf8(valid).unwrap_or_default(), broken)
        }
    };
    let Some(c) = valid.chars().next() else {
        out.extend_from_slice(b"\\ufffd");
        return broken.max(1);
    };
    if c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
        let [_, _, high, low] = u32::from(c).to_be_bytes();
        out.extend_from_slice(b"\\u");
        out.extend_from_slice(&hex(high, b"0123456789abcdef"));
        out.extend_from_slice(&hex(low, b"0123456789abcdef"));
    } else {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    c.len_utf8()
}

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(escape: Escape, input: &[u8]) -> String {
        let mut out = Vec::new();
        escape(&mut out, input);
        String::from_utf8(out).expect("escaped text is UTF-8")
    }

    #[test]
    fn nginx_escapes_as_nginx_does() {
        assert_eq!(text(nginx, b"GET /a b'<> ~"), "GET /a b'<> ~");
        assert_eq!(
            text(nginx, b"\"\\\n\x1b[31m\x7f\x80\xff\xc3\xa4"),
            r"\x22\x5C\x0A\x1B[31m\x7F\x80\xFF\xC3\xA4"
        );
    }

    #[test]
    fn json_escapes_controls_quotes_and_keeps_letters() {
        assert_eq!(text(json, "äöü €𝄞".as_bytes()), "äöü €𝄞");
        assert_eq!(
            text(json, b"a\"b\\c\nd\re\tf\0g\x1b[0m\x7f"),
            r#"a\"b\\c\nd\re\tf\u0000g\u001b[0m\u007f"#
        );
        assert_eq!(text(json, "\u{9b}31m\u{2028}\u{202e}".as_bytes()), r"\u009b31m\u2028\u202e");
    }

    #[test]
    fn json_replaces_what_is_not_utf8() {
        for (input, expected) in [
            (&b"\xff"[..], r"\ufffd"),
            (b"a\xc3", r"a\ufffd"),
            (b"\xc3(", r"\ufffd("),
            (b"\xf0\x9d\x84", r"\ufffd"),
            (b"\xed\xa0\x80", r"\ufffd\ufffd\ufffd"),
            (b"\xc0\xafx", r"\ufffd\ufffdx"),
            (b"\xf0\x9d\x84\x9e\xff", "\u{1d11e}\\ufffd"),
        ] {
            assert_eq!(text(json, input), expected, "{input:?}");
        }
    }

    #[test]
    fn no_byte_gets_through_as_a_control_character() {
        let all: Vec<u8> = (0..=255).flat_map(|a| [a, b'x', 0xe2, a, 0xf0, a, a]).collect();
        for escape in [nginx, json] {
            assert!(!text(escape, &all).chars().any(char::is_control));
        }
    }
}
