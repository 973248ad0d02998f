//! `cargo xtask tidy --fix`: mends what a machine can mend: wide comments, missing newlines at the end of a file, the
//! format of code, stale generated pages.
//!
//! A wide comment line keeps as many words as fit; the others move to the begin of the next line of the same
//! comment, or to a new line. Tables, code blocks and lines without a blank are left for people.

use std::fs;

use anyhow::{Context, Result};

use super::texts::{NEEDS_NEWLINE, WIDTH, known_files};
use crate::command::{cargo, root, run as run_command};
use crate::generate;

/// Mends every file that git knows, then formats the code and writes the generated pages.
pub(super) fn run() -> Result<()> {
    for name in known_files()? {
        let path = root().join(&name);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let mended = mended(&name, &text);
        if mended != text {
            fs::write(&path, mended).with_context(|| format!("cannot write {}", path.display()))?;
            println!("tidy: mended {name}");
        }
    }
    run_command(&mut cargo("fmt --all"))?;
    generate::write()
}

fn mended(name: &str, text: &str) -> String {
    let mut mended = if name.ends_with(".rs") { wrapped(text) } else { text.to_owned() };
    if NEEDS_NEWLINE.iter().any(|end| name.ends_with(end)) && !mended.is_empty() && !mended.ends_with('\n') {
        mended.push('\n');
    }
    mended
}

/// A line of a comment, in parts.
struct Comment<'a> {
    /// The blanks before it, and `//`, `///` or `//!` with one blank.
    prefix: &'a str,
    /// The blanks that a further line of the same paragraph has: those below the text of a list's entry.
    hang: usize,
    text: &'a str,
}

impl<'a> Comment<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let blanks = line.len() - line.trim_start().len();
        let mark = ["/// ", "//! ", "// "].into_iter().find(|mark| line[blanks..].starts_with(mark))?;
        let (prefix, text) = line.split_at(blanks + mark.len());
        let inner = text.trim_start();
        let bullet = if inner.starts_with("- ") || inner.starts_with("* ") { 2 } else { 0 };
        Some(Self { prefix, hang: text.len() - inner.len() + bullet, text })
    }

    /// Whether its words may be followed by others: no table, title or fence.
    fn is_prose(&self) -> bool {
        let inner = self.text.trim_start();
        !inner.is_empty() && !["|", "#", "```", "<"].iter().any(|sign| inner.starts_with(sign))
    }

    /// Whether the words of the line before may come first in this one.
    fn continues(&self, before: &Comment<'_>) -> bool {
        let inner = self.text.trim_start();
        let is_entry = ["- ", "* "].iter().any(|sign| inner.starts_with(sign))
            || inner.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        self.is_prose() && !is_entry && self.prefix == before.prefix && self.hang == before.hang
    }
}

/// A text of Rust whose wide comments are wrapped.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let (mut at, mut is_code) = (0, false);
    while at < lines.len() {
        let line = lines[at].clone();
        let comment = Comment::read(&line);
        is_code ^= comment.as_ref().is_some_and(|comment| comment.text.trim_start().starts_with("```"));
        if let Some(comment) = comment.filter(|comment| !is_code && comment.is_prose())
            && let Some((kept, moved)) = cut(&line)
            && kept.len() > comment.prefix.len() + comment.hang
        {
            let begin = format!("{}{}", comment.prefix, " ".repeat(comment.hang));
            let next = lines.get(at + 1).and_then(|next| Comment::read(next));
            match next.filter(|next| next.continues(&comment)) {
                Some(next) => lines[at + 1] = format!("{begin}{moved} {}", next.text.trim_start()),
                None => lines.insert(at + 1, format!("{begin}{moved}")),
            }
            lines[at] = kept.to_owned();
        }
        at += 1;
    }
    lines.join("\n")
}

/// Where a line is too wide: the words that fit, and the others.
fn cut(line: &str) -> Option<(&str, &str)> {
    let (end, _) = line.char_indices().nth(WIDTH)?;
    let blank = line[..=end].rfind(' ').filter(|blank| !line[..*blank].trim().is_empty())?;
    Some((line[..blank].trim_end(), line[blank..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` words of nine letters and a blank each.
    fn words(count: usize) -> String {
        vec!["wordwordw"; count].join(" ")
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn words_that_do_not_fit_move_to_the_next_line_of_the_paragraph() {
        let text = format!("    /// {}\n    /// end.\nfn x() {{}}\n", words(13));
        let mended = wrapped(&text);
        assert_eq!(mended, format!("    /// {}\n    /// {} end.\nfn x() {{}}\n", words(11), words(2)));
        assert_eq!(wrapped(&mended), mended);
    }

    #[test]
    fn a_paragraph_of_one_line_gets_further_lines() {
        let mended = wrapped(&format!("// {}\n// - entry\n", words(30)));
        assert_eq!(mended.lines().count(), 4);
        assert!(widest(&mended) <= WIDTH && mended.ends_with("\n// - entry\n"), "{mended}");
    }

    #[test]
    fn entries_of_lists_keep_their_indent() {
        let mended = wrapped(&format!("//! - {}\n//!   end\n", words(12)));
        assert_eq!(mended, format!("//! - {}\n//!   wordwordw end\n", words(11)));
    }

    #[test]
    fn tables_code_and_lines_without_blanks_stay() {
        let long = "x".repeat(WIDTH);
        for text in [
            format!("//! | {} |\n", words(13)),
            format!("/// ```\n/// {}\n/// ```\n", words(13)),
            format!("/// {long}\n"),
            format!("let {} = 1;\n", words(13)),
        ] {
            assert_eq!(wrapped(&text), text);
        }
    }

    #[test]
    fn a_missing_newline_is_added_to_sources_and_documents_only() {
        assert_eq!(mended("docs/a.md", "text"), "text\n");
        assert_eq!(mended("tests/config/bad/cut_off.yaml", "a: "), "a: ");
    }
}
