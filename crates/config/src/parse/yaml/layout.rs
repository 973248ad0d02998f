//! Which line a syntax error comes from: the parser notices many of them only further down.
//!
//! Looks at lines and their indentation only. It is asked once, for a message.

use std::ops::Range;

/// A line with something on it.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: usize,
    indent: usize,
    end: usize,
}

impl Line {
    /// The line without its indentation.
    fn content(self) -> Range<usize> {
        self.start + self.indent..self.end
    }
}

/// The lines up to the one that holds `at`, comments and empty ones left out.
fn lines(text: &str, at: usize) -> Vec<Line> {
    let (mut lines, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        if start > at {
            break;
        }
        let content = line.trim_start_matches([' ', '-']);
        let shown = line.trim_start_matches(' ');
        if !content.trim().is_empty() && !content.starts_with('#') {
            let end = start + line.trim_end().len();
            lines.push(Line { start, indent: line.len() - shown.len(), end });
        }
        start += line.len();
    }
    lines
}

/// Where the parser's complaint comes from, when it is another place than the one that it names.
pub(super) fn cause(text: &str, at: usize, info: &str) -> Option<(Range<usize>, &'static str, &'static str)> {
    if info.contains("found a tab") {
        let tab = text.get(at..)?.find('\t').map(|behind| at + behind)?;
        return Some((tab..tab + 1, "a tab stands in the indentation", "indent with spaces, not with tabs"));
    }
    if info.contains("simple key expect") {
        let before = lines(text, at).into_iter().rev().find(|line| line.end <= at)?;
        let message = "a `:` with a space behind it is missing on this line";
        return Some((before.content(), message, "write `key: value`; a list element begins with `- `"));
    }
    if info.contains("comment intercepting") {
        // The comment ends the value; the next line goes on with it, because it is indented deeper.
        let end = text.get(at..)?.find('\n').map(|behind| at + behind + 1)?;
        let rest = text.get(end..)?;
        let next = rest.find(|c: char| !c.is_whitespace()).map(|behind| end + behind)?;
        let line = text[next..].find('\n').map_or(text.len(), |behind| next + behind);
        let message = "this line is indented deeper than the entry above it";
        return Some((next..line, message, "begin it in the same column as its siblings"));
    }
    None
}

/// Where the block that a line does not fit into begins: its parent, and its first line.
pub(super) fn block_of(text: &str, at: usize, info: &str) -> Vec<(Range<usize>, &'static str)> {
    let of_a_block = ["did not find expected", "mapping values", "block"];
    if !of_a_block.iter().any(|words| info.contains(words)) {
        return Vec::new();
    }
    let lines = lines(text, at);
    let Some((here, above)) = lines.split_last() else { return Vec::new() };
    // A line without its colon goes on in the next one, which then has a colon too many.
    if info.contains("mapping values")
        && let Some(before) = above.last()
        && let Some(words) = text.get(before.content())
        && !words.contains(": ")
        && !words.ends_with([':', ']', '}', '"', '\''])
    {
        return vec![(before.content(), "a `:` with a space behind it may be missing here")];
    }
    let parent = above.iter().rposition(|line| line.indent < here.indent);
    let first = above.get(parent.map_or(0, |at| at + 1)).filter(|line| line.indent != here.indent);
    let Some(first) = first else { return Vec::new() };
    vec![(first.content(), "the block begins in this column")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_line_that_is_to_blame() {
        let text = "a:\n  b 1\n  c: 2\n";
        let (range, ..) = cause(text, 10, "simple key expect ':'").unwrap();
        assert_eq!(&text[range], "b 1");
        let text = "a: 1 # x\n   b: 2\n";
        let (range, ..) = cause(text, 5, "comment intercepting the multiline text").unwrap();
        assert_eq!(&text[range], "b: 2");
        let text = "a: 1\n\tb: 2\n";
        let (range, ..) = cause(text, 3, "while scanning a plain scalar, found a tab").unwrap();
        assert_eq!(range, 5..6);
    }

    #[test]
    fn finds_where_the_block_begins() {
        let text = "a:\n    b: 1\n    c: 2\n  d: 3\n";
        let marks = block_of(text, 23, "while parsing a block mapping, did not find expected key");
        assert_eq!(&text[marks[0].0.clone()], "b: 1");
        let text = "  a: 1\nb: 2\n";
        let marks = block_of(text, 7, "did not find expected <document start>");
        assert_eq!(&text[marks[0].0.clone()], "a: 1");
    }

    #[test]
    fn takes_any_place() {
        for text in ["", "\t", "#", "- ", "a\n", "ä: \u{2028}"] {
            for at in 0..text.len() + 2 {
                for info in ["found a tab", "simple key expect", "comment intercepting", "block"] {
                    cause(text, at, info);
                    block_of(text, at, info);
                }
            }
        }
    }
}
