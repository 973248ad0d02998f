//! Makes untrusted text (from endpoints, clients, documents, sources) safe for terminals and logs.
//!
//! The only such filter: `operator_log` and `cli::output` pass all output through it. A line end in a name would
//! forge a line, an escape sequence would control the terminal, and bidirectional marks would change the displayed
//! order of a text. They are written as JSON escapes (`\u001b`), so that JSON keeps its meaning.

use std::borrow::Cow;
use std::fmt::Write;

/// A text that stays on one line.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A text that has line ends and tabs of its own.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// As [`lines`]; colours stay (`ESC [ … m`, ECMA-48 §8.3.117).
pub(crate) fn styled_lines(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = lines(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        out.push_str(if part[end..].starts_with('m') { "\u{1b}[" } else { "\\u001b[" });
        out.push_str(&lines(part));
    }
    out
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_bad = |c: char| acts(c) && !stays(c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a character has an effect instead of a glyph: C0, DEL and C1, line and paragraph separators, and
/// bidirectional marks (Unicode TR9 §2).
pub(crate) fn acts(c: char) -> bool {
    let is_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One character of each kind.
    const ACTING: &str = "\0\n\r\t\u{1b}\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{2028}\u{2029}\u{202e}\u{2066}";

    #[test]
    fn nothing_that_acts_is_left_in_a_line() {
        let written = line(ACTING);
        assert_eq!(
            written,
            r"\u0000\u000a\u000d\u0009\u001b\u007f\u0085\u009b\u061c\u200e\u2028\u2029\u202e\u2066"
        );
        for text in ["", "service `s`: down", "Grüße 你好 \u{10348} é"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_stays_what_it_is() {
        let value = serde_json::json!({ "name": ACTING });
        for text in [value.to_string(), format!("{value:#}")] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&lines(&text)).unwrap(), value);
            assert!(!lines(&text).contains(|c| acts(c) && c != '\n'));
        }
    }

    #[test]
    fn lines_and_colours_stay_where_they_are_ours() {
        assert_eq!(lines("a\n\tb\r\u{1b}[31m"), "a\n\tb\\u000d\\u001b[31m");
        assert_eq!(
            styled_lines("\u{1b}[1;31merror\u{1b}[0m\n\u{1b}[2J\u{1b}]0;"),
            "\u{1b}[1;31merror\u{1b}[0m\n\\u001b[2J\\u001b]0;"
        );
    }
}
