//! The texts that a configuration was read from, and places in them.
//!
//! Every node, spec and error holds a [`Span`]: a file's number and a range of bytes. Only
//! [`Sources`] can turn it into a line and a column, so spans stay small and texts are kept once.

/// A range of bytes in one of the [`Sources`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span {
    /// The number of the file in [`Sources`].
    pub file: u16,
    /// The first byte.
    pub start: u32,
    /// The byte after the last one; equal to `start` for a place between two characters.
    pub end: u32,
    /// The value came (at least in part) from the environment: messages must not show it.
    pub filled: bool,
}

impl Span {
    /// A range of `file`. Offsets past 4 GiB cannot occur: files are bounded to far less.
    pub fn new(file: u16, range: std::ops::Range<usize>) -> Self {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { file, start: small(range.start), end: small(range.end.max(range.start)), filled: false }
    }

    /// From the first byte of `self` to the last of `other`.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { end: self.end.max(other.end), ..self }
    }

    /// The range of bytes.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A place as people count it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

/// One file: its name as shown to the user and its text.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    /// Where each line begins.
    lines: Vec<u32>,
    readable: bool,
    /// Where another file names it.
    included: Option<Span>,
}

impl Source {
    /// The name as shown to the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text, without a byte order mark. Bytes that are not UTF-8 are shown as U+FFFD.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the file could be opened and read at all; if not, places in it mean nothing.
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// The line that holds byte `at`, from 0, and the bytes it spans without its line break.
    pub(crate) fn line_of(&self, at: usize) -> (usize, std::ops::Range<usize>) {
        let index = self.lines.partition_point(|start| *start as usize <= at).saturating_sub(1);
        let start = self.lines.get(index).map_or(0, |n| *n as usize);
        let next = self.lines.get(index + 1).map_or(self.text.len(), |n| *n as usize);
        let line = self.text.get(start..next).unwrap_or("");
        (index, start..start + line.trim_end_matches(['\n', '\r']).len())
    }
}

/// The files of one configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
}

/// The most texts that one configuration is read from.
pub const MOST: u16 = u16::MAX;

impl Sources {
    /// A number that no text has.
    pub const NO_TEXT: u16 = MOST;

    /// Adds a text and returns its number for [`Span::file`]: [`NO_TEXT`](Self::NO_TEXT) when there are [`MOST`] texts
    /// already. Then it is not added, and nothing can be read by its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u16 {
        let Some(file) = u16::try_from(self.files.len()).ok().filter(|file| *file < MOST) else {
            return Self::NO_TEXT;
        };
        let mut text: String = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        // A file may be called anything; a message of one line must stay one.
        let name: String = name.into().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let starts = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        let lines = std::iter::once(0).chain(starts).map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect();
        self.files.push(Source { name, text, lines, readable: true, included: None });
        file
    }

    /// Adds a file that could not be read, so that an error can name it.
    pub fn add_unreadable(&mut self, name: impl Into<String>) -> u16 {
        let file = self.add(name, "");
        if let Some(source) = self.files.get_mut(usize::from(file)) {
            source.readable = false;
        }
        file
    }

    /// Puts another text in the place of one; spans into it mean that one from then on.
    pub(crate) fn replace(&mut self, file: u16, text: String) {
        let mut new = Self::default();
        let Some(source) = self.files.get_mut(usize::from(file)) else { return };
        new.add(source.name.clone(), text);
        if let Some(new) = new.files.pop() {
            *source = new;
        }
    }

    /// Notes where another file includes this one.
    pub(crate) fn set_included(&mut self, file: u16, at: Option<Span>) {
        if let Some(source) = self.files.get_mut(usize::from(file)) {
            source.included = at;
        }
    }

    /// Where another file includes this one; `None` for the main file.
    pub fn included_at(&self, file: u16) -> Option<Span> {
        self.get(file)?.included
    }

    /// Replaces what stands in these spans by `*`, as many bytes as before, so that every other place stays
    /// where it is. For secrets, which nothing may quote.
    ///
    /// # Returns
    /// What stood there, line by line and without quotes.
    pub(crate) fn mask(&mut self, spans: &[Span]) -> Vec<String> {
        let mut hidden = Vec::new();
        for spans in spans.chunk_by(|a, b| a.file == b.file) {
            let file = spans.first().map(|span| usize::from(span.file));
            let Some(source) = file.and_then(|file| self.files.get_mut(file)) else { continue };
            let mut bytes = std::mem::take(&mut source.text).into_bytes();
            for span in spans {
                let Some(place) = bytes.get_mut(span.range()) else { continue };
                let text = String::from_utf8_lossy(place);
                hidden.extend(text.lines().map(|line| line.trim().trim_matches(['"', '\'']).to_owned()));
                place.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b'*');
            }
            source.text = String::from_utf8_lossy(&bytes).into_owned();
        }
        hidden
    }

    /// The names of the files, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(Source::name)
    }

    /// The file with this number.
    pub fn get(&self, file: u16) -> Option<&Source> {
        self.files.get(usize::from(file))
    }

    /// The text of a span; empty when the span does not fit.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.file).and_then(|source| source.text.get(span.range())).unwrap_or("")
    }

    /// The line in which a span begins, from 1.
    pub fn line(&self, span: Span) -> u32 {
        let line = self.get(span.file).map_or(0, |source| source.line_of(span.start as usize).0);
        u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Where a span begins.
    pub fn position(&self, span: Span) -> Position {
        let Some(source) = self.get(span.file) else { return Position { line: 1, column: 1 } };
        let at = (span.start as usize).min(source.text.len());
        let (index, line) = source.line_of(at);
        let before = source.text.get(line.start..at).unwrap_or("");
        Position { line: index + 1, column: before.chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_and_characters_from_one() {
        let mut sources = Sources::default();
        let file = sources.add("a", "\u{feff}ab\r\nä: x\n");
        let at = |n: usize| sources.position(Span::new(file, n..n));
        assert_eq!(at(0), Position { line: 1, column: 1 });
        assert_eq!(at(4), Position { line: 2, column: 1 });
        assert_eq!(at(6), Position { line: 2, column: 2 });
        assert_eq!(at(10), Position { line: 3, column: 1 });
        assert_eq!(at(999), Position { line: 3, column: 1 });
        assert_eq!(sources.slice(Span::new(file, 4..6)), "ä");
    }

    #[test]
    fn one_text_too_many_has_no_number_of_another() {
        let mut sources = Sources::default();
        for at in 0..MOST {
            assert_eq!(sources.add("a", "x"), at);
        }
        let file = sources.add("b", "y");
        assert_eq!(file, Sources::NO_TEXT);
        assert!(sources.get(file).is_none());
        assert_eq!(sources.slice(Span::new(file, 0..1)), "");
        assert_eq!(sources.add_unreadable("c"), Sources::NO_TEXT);
        assert!(sources.get(MOST - 1).is_some_and(Source::is_readable));
    }
}
