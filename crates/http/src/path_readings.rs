//! The matched form of a path, and its other readings (decision 0005). A *reading* is one interpretation of a path by
//! an endpoint; *doubts* are the constructs in it that endpoints interpret differently.
//!
//! All readings are written once per request, after [`crate::normalize_path`], and only for paths for which
//! [`crate::path_is_normal`] is false. Routes and conditions match the matched form, and conditions of protections the
//! other readings too; the normal form is forwarded. Invariant: two paths that name the same file have the same matched
//! form. Bound: eight readings, each at most three times as long as the path.

use crate::octet;
use std::borrow::Cow;

/// Constructs in a path that endpoints interpret differently.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Doubts(u8);

impl Doubts {
    /// None.
    pub const NONE: Self = Self(0);
    /// Empty segments, `//`: some endpoints remove them, some take them for names.
    pub const EMPTY: Self = Self(1);
    /// Parameters, `;x`: some endpoints cut them.
    pub const PARAMETERS: Self = Self(1 << 1);
    /// Encoded slashes and backslashes: some endpoints read them as slashes.
    pub const SEPARATORS: Self = Self(1 << 2);
    const ALL: Self = Self(0b111);

    /// Those of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is among them.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The sets of one or more of them.
    fn combinations(self) -> impl Iterator<Item = Self> {
        (1..=Self::ALL.0).map(Self).filter(move |some| self.contains(*some))
    }
}

/// The readings of a path whose matched form differs from its normal form, or that has doubts: a view of what
/// [`write_readings`] has written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PathReadings<'a> {
    /// The matched form.
    pub matched: &'a [u8],
    /// The others, each behind its interpretations and its length.
    others: &'a [u8],
    /// Constructs that the endpoint is known to read as the matched form does.
    settled: Doubts,
}

impl<'a> PathReadings<'a> {
    /// The readings in what [`write_readings`] has written; `matched` is the length that it gave.
    pub fn new(written: &'a [u8], matched: usize) -> Self {
        let (matched, others) = written.split_at_checked(matched).unwrap_or((written, &[]));
        Self { matched, others, settled: Doubts::NONE }
    }

    /// The same for an endpoint that reads these constructs as the matched form does.
    #[must_use]
    pub const fn settle(self, settled: Doubts) -> Self {
        Self { settled, ..self }
    }

    /// The other readings, with the constructs that each interprets differently than the matched form does: empty
    /// segments are kept, parameters are cut, encoded slashes and backslashes are slashes. All combinations that the
    /// path gives rise to, at most seven; those of one construct come before those that add it to others.
    pub fn others(self) -> impl Iterator<Item = (Doubts, &'a [u8])> {
        let mut rest = self.others;
        let next = move || {
            let ([ways, length @ ..], behind) = rest.split_first_chunk::<5>()?;
            let (reading, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            Some((Doubts(*ways), reading))
        };
        std::iter::from_fn(next).filter(move |(ways, _)| !ways.has_any(self.settled))
    }
}

/// Appends the matched form of a path in normal form, and behind it the other readings for [`PathReadings::new`]. Gives
/// the length of the matched form; `None`, and nothing is appended: the path has that form and no doubts.
pub fn write_readings(path: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let base = out.len();
    let doubts = write_reading(path, Doubts::NONE, out);
    let matched = out.len() - base;
    if doubts == Doubts::NONE && out[base..] == *path {
        out.truncate(base);
        return None;
    }
    for ways in doubts.combinations() {
        out.push(ways.0);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        write_reading(path, ways, out);
        // Heads are far smaller than 4 GiB.
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
    Some(matched)
}

/// The matched form of a path in normal form: characters that need no escape in a segment are decoded, all others are
/// escaped in upper case, and empty segments are removed except at the end. `None`: the path already has that form.
pub fn matched_form(path: &[u8]) -> Option<Vec<u8>> {
    let mut matched = Vec::with_capacity(path.len());
    write_reading(path, Doubts::NONE, &mut matched);
    (matched != path).then_some(matched)
}

/// A path in normal form with the escapes of [`matched_form`] but all of its segments: for decision services.
pub fn decode_path(path: &[u8]) -> Cow<'_, [u8]> {
    if path.iter().all(|byte| octet::is_segment(*byte) || *byte == b'/') {
        return Cow::Borrowed(path);
    }
    let mut decoded = Vec::with_capacity(path.len());
    write_reading(path, Doubts::EMPTY, &mut decoded);
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

/// Appends the reading of a path that interprets the constructs of `ways` differently than the matched form; gives its
/// doubts.
fn write_reading(path: &[u8], ways: Doubts, out: &mut Vec<u8>) -> Doubts {
    let base = out.len();
    let (keeps_empty, cuts) = (ways.contains(Doubts::EMPTY), ways.contains(Doubts::PARAMETERS));
    let separates = ways.contains(Doubts::SEPARATORS);
    let (mut doubts, mut rest, mut is_left_out, mut was_slash) = (Doubts::NONE, path, false, false);
    while let Some((piece, behind)) = first_piece(rest) {
        rest = behind;
        let is_separator = matches!(piece, Piece::Escape(b'/' | b'\\'));
        if is_separator {
            doubts = doubts.union(Doubts::SEPARATORS);
        }
        let is_slash = piece == Piece::Byte(b'/');
        // Also a segment that is empty once its parameters are cut.
        let ends_segment = is_slash || is_separator || piece == Piece::Byte(b';');
        if ends_segment && was_slash {
            doubts = doubts.union(Doubts::EMPTY);
        }
        was_slash = is_slash || is_separator;
        match piece {
            _ if is_slash || (is_separator && separates) => {
                is_left_out = false;
                if keeps_empty || out.len() == base || !out.ends_with(b"/") {
                    out.push(b'/');
                }
                continue;
            }
            Piece::Byte(b';') => {
                doubts = doubts.union(Doubts::PARAMETERS);
                is_left_out |= cuts;
            }
            _ => {}
        }
        match piece {
            _ if is_left_out => {}
            Piece::Byte(byte) => out.push(byte),
            Piece::Escape(byte) => octet::write_escape(out, byte),
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(path: &str) -> String {
        String::from_utf8(matched_form(path.as_bytes()).unwrap_or_else(|| path.into())).unwrap()
    }

    fn others(path: &str, settled: Doubts) -> Vec<String> {
        let mut written = b"before".to_vec();
        let Some(matched) = write_readings(path.as_bytes(), &mut written) else {
            assert_eq!(written, b"before");
            return Vec::new();
        };
        let readings = PathReadings::new(&written[6..], matched).settle(settled);
        assert_eq!(readings.matched, self::matched(path).as_bytes());
        readings.others().map(|(_, other)| String::from_utf8(other.to_vec()).unwrap()).collect()
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
            // A segment may be empty only once a parameter is cut or an escape decoded.
            ("/a/;x/b", &["/a/;x/b", "/a/b", "/a//b"]),
            ("/a/%5Cb", &["/a/%5Cb", "/a/b", "/a//b"]),
        ] {
            assert_eq!(others(path, Doubts::NONE), expected, "{path}");
        }
        assert_eq!(others("/a%2F%2Fb//c;d", Doubts::NONE).len(), 7);
        for (settled, expected) in [
            (Doubts::EMPTY, &["/a%2F/b", "/a/b;c", "/a/b"][..]),
            (Doubts::PARAMETERS, &["/a%2F//b;c", "/a/b;c", "/a///b;c"]),
            (Doubts::SEPARATORS, &["/a%2F//b;c", "/a%2F/b", "/a%2F//b"]),
            (Doubts::ALL, &[]),
        ] {
            assert_eq!(others("/a%2F//b;c", settled), expected, "{settled:?}");
        }
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
