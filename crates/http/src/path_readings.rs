//! The matched form of a path, and its other readings (decision 0005). A *reading* is one interpretation of a path by
//! an endpoint; *doubts* are the constructs in it that endpoints interpret differently.
//!
//! Called once per request after [`crate::normalize_path`], and only for paths for which [`crate::path_is_normal`] is
//! false. Routes and conditions match that form; the normal form is forwarded. Invariant: two paths that name the
//! same file have the same form.

use crate::octet;
use std::borrow::Cow;

/// Bits for the constructs that path parsers interpret differently.
const EMPTY: u8 = 1;
const PARAMETERS: u8 = 1 << 1;
const SEPARATORS: u8 = 1 << 2;
const ALL: u8 = EMPTY | PARAMETERS | SEPARATORS;

/// The constructs in a path that endpoints interpret differently: empty segments, parameters, encoded slashes and
/// backslashes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Doubts(u8);

/// The readings of a path whose matched form differs from its normal form, or that has doubts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PathReadings<'a> {
    /// The matched form.
    pub matched: &'a [u8],
    /// The constructs that endpoints interpret differently.
    pub doubts: Doubts,
}

impl PathReadings<'_> {
    /// Calls `test` with the other readings of `path` until it returns true; returns whether it did. The readings are
    /// the combinations of three interpretations, as far as they differ, at most seven: empty segments are kept,
    /// parameters (`;x`) are cut, encoded slashes and backslashes are slashes. `keeps_encoded`: encoded slashes and
    /// backslashes do not separate segments.
    pub fn any_other(self, path: &[u8], keeps_encoded: bool, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let Doubts(doubts) = self.doubts;
        let doubts = if keeps_encoded { doubts & !SEPARATORS } else { doubts };
        let mut reading = Vec::new();
        (1..=ALL).filter(|ways| ways & !doubts == 0).any(|ways| {
            reading.clear();
            write_reading(path, ways, &mut reading);
            test(&reading)
        })
    }
}

/// Appends the matched form of a path in normal form: characters that need no escape in a segment are decoded, all
/// others are escaped in upper case, and empty segments are removed except at the end.
pub fn write_matched_form(path: &[u8], out: &mut Vec<u8>) -> Doubts {
    write_reading(path, 0, out)
}

/// The same as a value, with its doubts; `None`: the path already has that form and no doubts.
pub fn matched_form(path: &[u8]) -> Option<(Vec<u8>, Doubts)> {
    let mut matched = Vec::with_capacity(path.len());
    let doubts = write_matched_form(path, &mut matched);
    (doubts != Doubts::default() || matched != path).then_some((matched, doubts))
}

/// A path in normal form with the escapes of [`write_matched_form`] but all of its segments: for decision services.
pub fn decode_path(path: &[u8]) -> Cow<'_, [u8]> {
    if path.iter().all(|byte| octet::is_segment(*byte) || *byte == b'/') {
        return Cow::Borrowed(path);
    }
    let mut decoded = Vec::with_capacity(path.len());
    write_reading(path, EMPTY, &mut decoded);
    Cow::Owned(decoded)
}

/// The length in `path` of a prefix of whole segments, in any spelling of both; `None`: the path is not below the
/// prefix. The prefix does not end in a slash.
pub fn prefix_len(path: &[u8], prefix: &[u8]) -> Option<usize> {
    let mut wanted = Pieces::new(prefix);
    let mut found = Pieces::new(path);
    for piece in wanted.by_ref() {
        if found.next() != Some(piece) {
            return None;
        }
    }
    let taken = path.len() - found.rest.len();
    matches!(found.rest, [] | [b'/', ..]).then_some(taken)
}

/// A raw byte, or an escape that is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Piece {
    Byte(u8),
    Escape(u8),
}

/// The pieces of a path, without empty segments.
struct Pieces<'a> {
    rest: &'a [u8],
    is_behind_slash: bool,
}

impl<'a> Pieces<'a> {
    fn new(path: &'a [u8]) -> Self {
        Self { rest: path, is_behind_slash: false }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            let (piece, rest) = first_piece(self.rest)?;
            self.rest = rest;
            let is_slash = piece == Piece::Byte(b'/');
            let was_slash = std::mem::replace(&mut self.is_behind_slash, is_slash);
            if !(is_slash && was_slash) {
                return Some(piece);
            }
        }
    }
}

/// Takes a piece from the front. A raw byte that needs an escape becomes that escape.
fn first_piece(path: &[u8]) -> Option<(Piece, &[u8])> {
    let (&first, rest) = path.split_first()?;
    let (value, rest) = match rest {
        [high, low, behind @ ..] if first == b'%' => {
            match octet::hex_digit(*high).zip(octet::hex_digit(*low)) {
                Some((high, low)) => (high << 4 | low, behind),
                None => (first, rest),
            }
        }
        _ if first == b'/' => return Some((Piece::Byte(first), rest)),
        _ => (first, rest),
    };
    let piece = if octet::is_segment(value) { Piece::Byte(value) } else { Piece::Escape(value) };
    Some((piece, rest))
}

/// Appends a reading of a path; gives its doubts.
fn write_reading(path: &[u8], ways: u8, out: &mut Vec<u8>) -> Doubts {
    let base = out.len();
    let (mut doubts, mut rest, mut is_left_out, mut was_slash) = (0, path, false, false);
    while let Some((piece, behind)) = first_piece(rest) {
        rest = behind;
        let is_separator = matches!(piece, Piece::Escape(b'/' | b'\\'));
        if is_separator {
            doubts |= SEPARATORS;
        }
        let is_slash = piece == Piece::Byte(b'/');
        if is_slash && was_slash {
            doubts |= EMPTY;
        }
        was_slash = is_slash;
        match piece {
            _ if is_slash || (is_separator && ways & SEPARATORS != 0) => {
                is_left_out = false;
                if ways & EMPTY != 0 || out.len() == base || !out.ends_with(b"/") {
                    out.push(b'/');
                }
                continue;
            }
            Piece::Byte(b';') => {
                doubts |= PARAMETERS;
                is_left_out |= ways & PARAMETERS != 0;
            }
            _ => {}
        }
        match piece {
            _ if is_left_out => {}
            Piece::Byte(byte) => out.push(byte),
            Piece::Escape(byte) => octet::write_escape(out, byte),
        }
    }
    Doubts(doubts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(path: &str) -> String {
        let form = matched_form(path.as_bytes()).map_or_else(|| path.as_bytes().to_vec(), |(form, _)| form);
        String::from_utf8(form).unwrap()
    }

    fn others(path: &str, keeps_encoded: bool) -> Vec<String> {
        let mut all = Vec::new();
        if let Some((matched, doubts)) = matched_form(path.as_bytes()) {
            let readings = PathReadings { matched: &matched, doubts };
            readings.any_other(path.as_bytes(), keeps_encoded, &mut |other| {
                all.push(String::from_utf8(other.to_vec()).unwrap());
                false
            });
        }
        all
    }

    #[test]
    fn characters_that_need_no_escape_are_decoded_and_all_others_are_encoded() {
        for (path, expected) in [
            ("/%40team/x", "/@team/x"),
            ("/c%2B%2B/x", "/c++/x"),
            ("/%21%24%26%27%28%29%2A%2C%3B%3D%3A", "/!$&'()*,;=:"),
            ("/[a]/%5Bb%5D", "/%5Ba%5D/%5Bb%5D"),
            ("/a%2Fb%5Cc%20%3F%23%25%C3%A9", "/a%2Fb%5Cc%20%3F%23%25%C3%A9"),
            ("/%2540", "/%2540"),
            ("/pub//secret/x", "/pub/secret/x"),
            ("/a//", "/a/"),
            ("/a///b////c", "/a/b/c"),
            ("*", "*"),
        ] {
            assert_eq!(matched(path), expected, "{path}");
        }
        for path in ["/", "/a/b", "/a.b/c-d_e~f", "/@a/b+c:d", "/a/"] {
            assert_eq!(matched_form(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn other_readings_are_those_that_make_a_difference() {
        for (path, expected) in [
            ("/%40team/x", &[][..]),
            ("/a//b", &["/a//b"]),
            ("/a;v=1/b", &["/a/b"]),
            ("/a%3Bv/b", &["/a/b"]),
            ("/a%2Fb", &["/a/b"]),
            ("/a%5Cb", &["/a/b"]),
            ("/a//b;c", &["/a//b;c", "/a/b", "/a//b"]),
            // A parameter ends at the next slash, also at an encoded one if that separates segments.
            ("/a;x%2Fb", &["/a", "/a;x/b", "/a/b"]),
        ] {
            assert_eq!(others(path, false), expected, "{path}");
        }
        assert_eq!(others("/a%2Fb;c", true), ["/a%2Fb"]);
        assert_eq!(others("/a%2F%2Fb//c;d", false).len(), 7);
    }

    #[test]
    fn a_prefix_is_found_however_it_is_spelled() {
        for (path, prefix, rest) in [
            ("/a/b", "/a", Some("/b")),
            ("/a", "/a", Some("")),
            ("/%40team/x", "/@team", Some("/x")),
            ("/@team/x", "/%40team", Some("/x")),
            ("/a//b/c", "/a/b", Some("/c")),
            ("/a//b", "/a", Some("//b")),
            ("/ab", "/a", None),
            ("/a%2Fb", "/a", None),
            ("/a", "/a/b", None),
            ("*", "/a", None),
            ("/[a]/x", "/%5Ba%5D", Some("/x")),
        ] {
            let found = prefix_len(path.as_bytes(), prefix.as_bytes()).map(|len| &path[len..]);
            assert_eq!(found, rest, "{path} {prefix}");
        }
    }

    #[test]
    fn those_who_decide_about_a_path_get_its_empty_segments() {
        assert_eq!(&*decode_path(b"/a//%40b/%2F"), b"/a//@b/%2F");
        assert!(matches!(decode_path(b"/a//b"), Cow::Borrowed(_)));
    }
}
