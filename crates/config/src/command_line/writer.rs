//! Writes a file and remembers which of its values come from which argument.

use crate::source::Span;
use std::ops::Range;

/// An option with what was given for it.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    option: &'static str,
    /// What it is made of, in its order on the command line.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    /// A mark that the file does not have.
    Mark(&'static str),
    /// A value, by its place in the file.
    Value(Range<usize>),
}

/// A file under way.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    arguments: Vec<Argument>,
}

impl Writer {
    /// The values from here on belong to this option.
    pub(super) fn argument(&mut self, option: &'static str) -> &mut Self {
        self.arguments.push(Argument { option, pieces: Vec::new() });
        self
    }

    /// Text of the file that is nobody's value.
    pub(super) fn raw(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// What the command line has between two values and the file does not.
    pub(super) fn shown(&mut self, mark: &'static str) -> &mut Self {
        self.piece(Piece::Mark(mark))
    }

    /// A value that is a text, whatever it looks like.
    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        let start = self.text.len();
        // What JSON quotes, YAML reads the same.
        self.text.push_str(&serde_json::Value::from(value).to_string());
        self.piece(Piece::Value(start..self.text.len()))
    }

    /// A value that may be a number; quoted where YAML would take it for more than a word.
    pub(super) fn word(&mut self, value: &str) -> &mut Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%".contains(&byte);
        if value.is_empty() || !value.bytes().all(is_plain) {
            return self.text(value);
        }
        let start = self.text.len();
        self.text.push_str(value);
        self.piece(Piece::Value(start..self.text.len()))
    }

    /// Texts with commas between them.
    pub(super) fn list(&mut self, values: &[String]) -> &mut Self {
        for (at, value) in values.iter().enumerate() {
            self.raw(if at == 0 { "" } else { ", " }).shown(" ").text(value);
        }
        self
    }

    fn piece(&mut self, piece: Piece) -> &mut Self {
        if let Some(argument) = self.arguments.last_mut() {
            argument.pieces.push(piece);
        }
        self
    }

    /// The file, and the arguments.
    pub(super) fn finish(self) -> (String, Vec<Argument>) {
        (self.text, self.arguments)
    }
}

/// The arguments as messages quote them, one on a line.
pub(super) struct Shown {
    pub(super) text: String,
    /// Values by their place in the file, and where they stand here.
    values: Vec<(Range<usize>, usize)>,
}

/// Writes the arguments with the values that the file has.
pub(super) fn shown(file: &str, arguments: &[Argument]) -> Shown {
    let (mut text, mut values) = (String::new(), Vec::new());
    for argument in arguments {
        text.push_str(argument.option);
        text.push(' ');
        for piece in &argument.pieces {
            match piece {
                Piece::Mark(mark) => text.push_str(mark),
                Piece::Value(range) => {
                    values.push((range.clone(), text.len()));
                    text.push_str(file.get(range.clone()).unwrap_or("?"));
                }
            }
        }
        text.push('\n');
    }
    Shown { text, values }
}

impl Shown {
    /// Where a place of the file stands here. What surrounds values goes to the one that `message` quotes, else to the
    /// first of them; what stands between them to the one before.
    pub(super) fn place(&self, span: Span, message: &str) -> Span {
        let (start, end) = (span.start as usize, span.end as usize);
        let holds = |(range, _): &&(Range<usize>, usize)| range.contains(&start);
        if let Some((range, at)) = self.values.iter().find(holds) {
            let moved = at + start - range.start..at + end.clamp(start, range.end) - range.start;
            return Span { filled: span.filled, ..Span::new(span.file, moved) };
        }
        let inside = || self.values.iter().filter(|(range, _)| (start..end).contains(&range.start));
        let is_quoted = |(range, at): &&(Range<usize>, usize)| {
            let value = self.text.get(*at..at + range.len()).unwrap_or("").trim_matches('"');
            message.contains(&format!("`{value}`"))
        };
        let before = || self.values.iter().rev().find(|(range, _)| range.start <= start);
        let nearest = inside().find(is_quoted).or_else(|| inside().next()).or_else(before);
        let place = nearest.or(self.values.first()).map_or(0..0, |(range, at)| *at..at + range.len());
        Span { filled: span.filled, ..Span::new(span.file, place) }
    }
}
