//! What a peer must see: matched against bytes as they arrive.

mod http2;

pub(super) use http2::Chunked;

use super::text::Piece;
use crate::message::find;

/// What comparing a pattern with the bytes so far says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The first so many bytes are what was expected.
    Matched(usize),
    /// It may still come true.
    More,
    /// It cannot come true: the byte at this place is wrong.
    Wrong(usize),
}

/// An expected text.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Vec<u8>),
    Any,
    Uuid,
    Lines,
    Chunks(Vec<u8>),
    /// Field lines in any order, up to the blank line, and perhaps others among them.
    Fields(Vec<Vec<Part>>, Others),
}

/// Whether a head may have other fields than those that are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Others {
    Refused,
    Allowed,
}

impl Pattern {
    /// Compiles the pieces of a section.
    ///
    /// # Errors
    /// When `{forwarded}` does not stand on a line of a head that has a `Host`.
    pub(super) fn new(pieces: &[Piece]) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(piece) = pieces.get(at) {
            at += 1;
            if let Piece::Forwarded(version) = piece {
                let (lines, rest) = fields(&parts, version, pieces.get(at))?;
                parts.push(Part::Fields(lines, Others::Refused));
                parts.push(Part::Literal(rest));
                at += 1;
            } else {
                parts.push(simple(piece));
            }
        }
        Ok(Self { parts })
    }

    /// The same for a request that came through TLS.
    pub(super) fn secure(mut self) -> Self {
        let fields = self.parts.iter_mut().filter_map(|part| match part {
            Part::Fields(lines, _) => Some(lines),
            _ => None,
        });
        for part in fields.flatten().flatten() {
            if let Part::Literal(line) = part
                && line == b"X-Forwarded-Proto: http\r\n"
            {
                *line = b"X-Forwarded-Proto: https\r\n".to_vec();
            }
        }
        self
    }

    /// Compares with the bytes seen so far.
    pub(super) fn matches(&self, bytes: &[u8]) -> Outcome {
        walk(&self.parts, bytes, 0)
    }

    /// The pattern as text, for reports.
    pub(super) fn show(&self) -> String {
        show(&self.parts)
    }
}

fn simple(piece: &Piece) -> Part {
    match piece {
        Piece::Literal(bytes) => Part::Literal(bytes.clone()),
        Piece::Any | Piece::Forwarded(_) => Part::Any,
        Piece::Uuid => Part::Uuid,
        Piece::Lines => Part::Lines,
        Piece::Chunks(bytes) => Part::Chunks(bytes.clone()),
    }
}

/// The lines that `{forwarded}` stands for together with those that follow it in the file, and what follows the
/// head. A line in the file replaces the one of the same name.
fn fields(
    before: &[Part],
    version: &str,
    after: Option<&Piece>,
) -> Result<(Vec<Vec<Part>>, Vec<u8>), String> {
    let Some(Part::Literal(head)) = before.last() else { return Err("{forwarded} without a head".into()) };
    let head = String::from_utf8_lossy(head);
    let host = head.split("\r\n").find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
    let Some(Piece::Literal(after)) = after else {
        return Err("{forwarded} without an end of the head".into());
    };
    let after = after.strip_prefix(b"\r\n").ok_or("{forwarded} stands on a line of its own")?;
    let end = if after.starts_with(b"\r\n") {
        0
    } else {
        find(after, b"\r\n\r\n").ok_or("no blank line behind {forwarded}")? + 2
    };
    let own = String::from_utf8_lossy(&after[..end]).into_owned();
    let mut lines: Vec<Vec<Part>> =
        own.split_inclusive("\r\n").map(|line| vec![Part::Literal(line.as_bytes().to_vec())]).collect();
    let named = |name: &str| own.lines().any(|line| line.starts_with(&format!("{name}:")));
    let via = format!("{version} thalweg");
    for (name, value) in [
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", host),
        ("Via", via.as_str()),
    ] {
        if !named(name) {
            lines.push(vec![Part::Literal(format!("{name}: {value}\r\n").into_bytes())]);
        }
    }
    if !named("X-Request-Id") {
        let name = Part::Literal(b"X-Request-Id: ".to_vec());
        lines.push(vec![name, Part::Uuid, Part::Literal(b"\r\n".to_vec())]);
    }
    Ok((lines, after[end..].to_vec()))
}

fn walk(parts: &[Part], bytes: &[u8], at: usize) -> Outcome {
    let Some((part, rest)) = parts.split_first() else { return Outcome::Matched(at) };
    match part {
        Part::Literal(expected) => match literal(expected, bytes, at) {
            Outcome::Matched(end) => walk(rest, bytes, end),
            other => other,
        },
        Part::Any => any(rest, bytes, at),
        Part::Uuid => match uuid(bytes, at) {
            Outcome::Matched(end) => walk(rest, bytes, end),
            other => other,
        },
        // Ends before the line end of the last field.
        Part::Lines => match find(&bytes[at..], b"\r\n\r\n") {
            Some(len) => walk(rest, bytes, at + len),
            None => Outcome::More,
        },
        Part::Chunks(expected) => match chunks(expected, bytes, at) {
            Outcome::Matched(end) => walk(rest, bytes, end),
            other => other,
        },
        Part::Fields(lines, others) => match field_lines((lines, *others), bytes, at) {
            Outcome::Matched(end) => walk(rest, bytes, end),
            other => other,
        },
    }
}

fn literal(expected: &[u8], bytes: &[u8], at: usize) -> Outcome {
    let seen = &bytes[at..];
    match expected.iter().zip(seen).position(|(left, right)| left != right) {
        Some(wrong) => Outcome::Wrong(at + wrong),
        None if seen.len() < expected.len() => Outcome::More,
        None => Outcome::Matched(at + expected.len()),
    }
}

fn any(rest: &[Part], bytes: &[u8], at: usize) -> Outcome {
    let mut best = Outcome::Wrong(at);
    for end in at..=bytes.len() {
        match walk(rest, bytes, end) {
            Outcome::Matched(end) => return Outcome::Matched(end),
            Outcome::More => best = Outcome::More,
            Outcome::Wrong(wrong) => {
                if let Outcome::Wrong(far) = best {
                    best = Outcome::Wrong(far.max(wrong));
                }
            }
        }
        match bytes.get(end) {
            Some(b'\r' | b'\n') => return best,
            Some(_) => {}
            None => return Outcome::More,
        }
    }
    best
}

fn uuid(bytes: &[u8], at: usize) -> Outcome {
    for place in 0..36 {
        let right = match bytes.get(at + place) {
            None => return Outcome::More,
            Some(byte) if matches!(place, 8 | 13 | 18 | 23) => *byte == b'-',
            Some(byte) if place == 14 => *byte == b'7',
            Some(byte) => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        };
        if !right {
            return Outcome::Wrong(at + place);
        }
    }
    Outcome::Matched(at + 36)
}

fn chunks(expected: &[u8], bytes: &[u8], mut at: usize) -> Outcome {
    let mut left = expected;
    while !left.is_empty() {
        let Some(line) = find(&bytes[at..], b"\r\n") else {
            return if bytes.len() - at > 18 { Outcome::Wrong(at) } else { Outcome::More };
        };
        let digits = std::str::from_utf8(&bytes[at..at + line]).unwrap_or("?");
        let len = match usize::from_str_radix(digits, 16) {
            Ok(len) if len > 0 && len <= left.len() => len,
            _ => return Outcome::Wrong(at),
        };
        at += line + 2;
        for part in [&left[..len], b"\r\n"] {
            match literal(part, bytes, at) {
                Outcome::Matched(end) => at = end,
                other => return other,
            }
        }
        left = &left[len..];
    }
    Outcome::Matched(at)
}

fn field_lines((lines, others): (&[Vec<Part>], Others), bytes: &[u8], mut at: usize) -> Outcome {
    // Judged when the whole head is there: which line is missing cannot be told before.
    if !bytes[at..].starts_with(b"\r\n") && find(&bytes[at..], b"\r\n\r\n").is_none() {
        return Outcome::More;
    }
    let mut open: Vec<&Vec<Part>> = lines.iter().collect();
    while !bytes[at..].starts_with(b"\r\n") {
        let hit = open.iter().enumerate().find_map(|(index, line)| match walk(line, bytes, at) {
            Outcome::Matched(end) => Some((index, end)),
            _ => None,
        });
        at = match (hit, others) {
            (Some((index, end)), _) => {
                open.remove(index);
                end
            }
            (None, Others::Allowed) => match find(&bytes[at..], b"\r\n") {
                Some(len) => at + len + 2,
                None => return Outcome::More,
            },
            (None, Others::Refused) => return Outcome::Wrong(at),
        };
    }
    if open.is_empty() { Outcome::Matched(at) } else { Outcome::Wrong(at) }
}

fn show(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(bytes) => text.push_str(&show_bytes(bytes)),
            Part::Any => text.push_str("{any}"),
            Part::Uuid => text.push_str("{uuid}"),
            Part::Lines => text.push_str("{anything}"),
            Part::Chunks(bytes) => text.push_str(&format!("{{chunks:{}}}", show_bytes(bytes).trim_end())),
            Part::Fields(lines, _) => {
                for line in lines {
                    text.push_str(&show(line));
                }
            }
        }
    }
    text
}

/// Bytes as escaped lines for reports, long ones cut.
pub(super) fn show_bytes(bytes: &[u8]) -> String {
    const SHOWN: usize = 1500;
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let text =
        cut.escape_ascii().to_string().replace("\\r\\n", "\n").replace("\\\"", "\"").replace("\\'", "'");
    if bytes.len() > SHOWN { format!("{text}… ({} bytes)", bytes.len()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::text::pieces;
    use super::*;

    fn pattern(lines: &[&str]) -> Pattern {
        Pattern::new(&pieces(lines, false).unwrap()).unwrap()
    }

    #[test]
    fn literal_text_matches_byte_by_byte() {
        let expected = pattern(&["ab", "c\\"]);
        assert_eq!(expected.matches(b"ab\r"), Outcome::More);
        assert_eq!(expected.matches(b"ab\r\ncd"), Outcome::Matched(5));
        assert_eq!(expected.matches(b"ab\n"), Outcome::Wrong(2));
    }

    #[test]
    fn any_stops_at_the_end_of_the_line() {
        let expected = pattern(&["a={any};b={any}"]);
        assert_eq!(expected.matches(b"a=1;2;b=3\r\n"), Outcome::Matched(11));
        assert_eq!(expected.matches(b"a=1;2;"), Outcome::More);
        assert!(matches!(expected.matches(b"a=1\r\n;b=2\r\n"), Outcome::Wrong(_)));
    }

    #[test]
    fn chunks_may_be_cut_anywhere() {
        let expected = pattern(&["{chunks:hello}0", ""]);
        assert_eq!(expected.matches(b"5\r\nhello\r\n0\r\n\r\n"), Outcome::Matched(15));
        assert_eq!(expected.matches(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), Outcome::Matched(20));
        assert_eq!(expected.matches(b"2\r\nhe\r\n3\r\nll"), Outcome::More);
        assert!(matches!(expected.matches(b"6\r\nhello!\r\n"), Outcome::Wrong(_)));
    }

    #[test]
    fn forwarded_fields_stand_in_any_order_and_none_may_be_missing_or_extra() {
        let expected = pattern(&["GET / HTTP/1.1", "Host: a", "{forwarded}", "Via: 1.0 x", ""]);
        let id = "X-Request-Id: 01923456-789a-7fff-bfff-ffffffffffff\r\n";
        let rest = "X-Forwarded-Proto: http\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: a\r\n";
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{id}Via: 1.0 x\r\n{rest}");
        assert!(matches!(expected.matches(format!("{head}\r\n").as_bytes()), Outcome::Matched(_)));
        assert!(matches!(expected.matches(format!("{head}Extra: 1\r\n\r\n").as_bytes()), Outcome::Wrong(_)));
        assert!(matches!(expected.matches(head.replace(id, "").as_bytes()), Outcome::More));
        assert!(matches!(
            expected.matches(format!("{}\r\n", head.replace(id, "")).as_bytes()),
            Outcome::Wrong(_)
        ));
    }
}
