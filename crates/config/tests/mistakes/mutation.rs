//! One mistake in one file.

use std::fmt;
use std::ops::Range;

/// What kind of mistake it is, in the words of the page.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Mistake {
    KeyTypo,
    KeyStyle,
    KeyElsewhere,
    KeyTwice,
    WordTypo,
    ReferenceTypo,
    DefinitionTypo,
    DefinitionMissing,
    Twice,
    WrongType,
    ValueMissing,
    UnitMissing,
    OutOfRange,
    Indentation,
    Tab,
    Quote,
    Bracket,
    Colon,
    Comma,
    CutOff,
}

impl Mistake {
    /// All of them, in the order of the page.
    pub(crate) const ALL: &[Self] = &[
        Self::KeyTypo,
        Self::KeyStyle,
        Self::KeyElsewhere,
        Self::KeyTwice,
        Self::WordTypo,
        Self::ReferenceTypo,
        Self::DefinitionTypo,
        Self::DefinitionMissing,
        Self::Twice,
        Self::WrongType,
        Self::ValueMissing,
        Self::UnitMissing,
        Self::OutOfRange,
        Self::Indentation,
        Self::Tab,
        Self::Quote,
        Self::Bracket,
        Self::Colon,
        Self::Comma,
        Self::CutOff,
    ];

    /// A sentence for the page: what was done to the file, and on which lines an error counts as right.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::KeyTypo => "a letter of a key swapped, left out or wrong",
            Self::KeyStyle => "a key in capitals, in camel case, with `-` for `_`, or in the plural",
            Self::KeyElsewhere => "a key that stands in another section than its own",
            Self::KeyTwice => "a key written twice in one map (either line)",
            Self::WordTypo => {
                "a letter of a fixed word (`round_robin`, `stdout`, `true`) swapped, left out or wrong"
            }
            Self::ReferenceTypo => "a typo where a service or listener is referred to",
            Self::DefinitionTypo => {
                "a typo where a service or listener is defined (the line of the definition)"
            }
            Self::DefinitionMissing => {
                "a service or listener removed that something refers to (a line that refers to it)"
            }
            Self::Twice => "a name, an endpoint or an address given twice (either line)",
            Self::WrongType => "a value of another type: a map, a list, a number, text, true",
            Self::ValueMissing => "a key without its value",
            Self::UnitMissing => "a duration, size or share without its unit",
            Self::OutOfRange => "a number below or above its range",
            Self::Indentation => {
                "a line moved by one or two columns (that line, or the next one where only it shows the mistake)"
            }
            Self::Tab => "a line indented with a tab",
            Self::Quote => "a quote left out",
            Self::Bracket => "a bracket or brace left out (its line, or that of the one it belongs to)",
            Self::Colon => "a `:` left out, or the space behind it",
            Self::Comma => "a comma left out of a list or map in brackets",
            Self::CutOff => {
                "a file that ends in the middle of a line (the last line, an opening bracket or quote that is not \
                 closed, or a line that refers to what is lost)"
            }
        }
    }
}

/// A text with one mistake.
#[derive(Clone)]
pub(crate) struct Mutation {
    pub(crate) mistake: Mistake,
    /// The file that it was made from.
    pub(crate) file: usize,
    /// What is replaced in its text, and by what.
    pub(crate) range: Range<usize>,
    pub(crate) by: String,
    /// On one of these lines, from 1, the mistake is to be shown.
    pub(crate) lines: Vec<usize>,
    /// What was done.
    pub(crate) what: String,
}

impl Mutation {
    /// The text with the mistake: there are many more mutations than are looked at.
    pub(crate) fn text(&self, of: &str) -> String {
        [&of[..self.range.start], &self.by, &of[self.range.end..]].concat()
    }

    /// Decides which mutations are taken: the same in every run, and for one file independent of the others.
    pub(crate) fn order(&self, seed: u64) -> u64 {
        hash(&[&self.what, &self.lines.iter().map(|line| line.to_string()).collect::<String>()], seed)
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// FNV-1a, mixed.
pub(crate) fn hash(parts: &[&str], seed: u64) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
