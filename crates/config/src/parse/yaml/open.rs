//! Which brackets and quotes are open at a place: what a syntax error further down usually comes from.
//!
//! A sketch of YAML that needs no valid text. It is asked once, for a message.

use std::ops::Range;

/// A bracket or quote that may be the cause.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Open {
    /// The sign, or the whole text in quotes.
    pub(super) range: Range<usize>,
    /// What is wrong with it, for the mark.
    pub(super) label: &'static str,
}

/// What is open in `text` before the byte `end`, innermost first, and a quoted text that goes over several lines.
pub(super) fn open_at(text: &str, end: usize) -> Vec<Open> {
    let bytes = text.as_bytes();
    let end = end.min(bytes.len());
    let (mut open, mut long): (Vec<usize>, Option<Open>) = (Vec::new(), None);
    let (mut at, mut plain) = (0, false);
    while at < end {
        let byte = bytes[at];
        let before = at.checked_sub(1).map_or(b'\n', |at| bytes[at]);
        let next = bytes.get(at + 1).copied().unwrap_or(b'\n');
        let spaced = |byte: u8| byte.is_ascii_whitespace();
        let in_flow = !open.is_empty();
        match byte {
            b'\n' => plain = false,
            b'#' if spaced(before) => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            b'[' | b'{' if in_flow || !plain => {
                open.push(at);
                plain = false;
            }
            b']' | b'}' if in_flow => {
                // A pair that does not fit: the inner one is not closed.
                let fits = open.last().is_some_and(|first| (bytes[*first] == b'[') == (byte == b']'));
                if !fits {
                    break;
                }
                open.pop();
                plain = false;
            }
            b',' if in_flow => plain = false,
            b':' if spaced(next) || in_flow && b",]}".contains(&next) => plain = false,
            b'-' if spaced(next) && !plain => {}
            b'"' | b'\'' if !plain => match closing(bytes, at) {
                Some(close) if close < end => {
                    if bytes[at..close].contains(&b'\n') {
                        long = Some(Open {
                            range: at..close + 1,
                            label: "this text goes on over several lines",
                        });
                    }
                    at = close;
                }
                _ => {
                    long = Some(Open { range: at..at + 1, label: "this quote is not closed" });
                    break;
                }
            },
            byte if !spaced(byte) => plain = true,
            _ => {}
        }
        at += 1;
    }
    let brackets =
        open.into_iter().rev().map(|at| Open { range: at..at + 1, label: "this bracket is open here" });
    long.into_iter().chain(brackets).collect()
}

/// The quote that ends the text which begins at `at`.
fn closing(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    let mut end = at + 1;
    loop {
        match *bytes.get(end)? {
            b'\\' if quote == b'"' => end += 1,
            byte if byte == quote => {
                // Two single quotes stand for one.
                if quote == b'\'' && bytes.get(end + 1) == Some(&quote) {
                    end += 1;
                } else {
                    return Some(end);
                }
            }
            _ => {}
        }
        end += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(text: &str) -> Vec<(usize, &'static str)> {
        open_at(text, text.len()).into_iter().map(|open| (open.range.start, open.label)).collect()
    }

    #[test]
    fn finds_what_is_open() {
        let bracket = "this bracket is open here";
        assert_eq!(opens("a: [ b, { c: 1"), [(8, bracket), (3, bracket)]);
        assert_eq!(opens("a: [ b ]\nc: { d: \"]\" }"), []);
        assert_eq!(opens("a: it's [ fine\nb: x # [ {\n"), []);
        assert_eq!(opens("a: [ b }"), [(3, bracket)]);
        assert_eq!(opens("a: \"b\nc: 1\n"), [(3, "this quote is not closed")]);
        assert_eq!(opens("a: \"b\nc: \"d"), [(3, "this text goes on over several lines")]);
        assert_eq!(opens("a: 'it''s'\nb: [ \"\\\"\", x"), [(14, bracket)]);
    }

    #[test]
    fn takes_any_text() {
        for text in ["", "]", "'", "\"\\", "a: \"ä", "}{", "#", "\\", "[[[\"]]]"] {
            open_at(text, 100);
        }
    }
}
