//! Mistakes in the form of the text: found through its lines and its signs.

use crate::corpus::{File, line_of, references};
use crate::mutation::{Mistake, hash};
use crate::values::Maker;
use thalweg_config::parse::Kind;

/// Every mistake in the form of the file.
pub(crate) fn make(maker: &mut Maker<'_>) {
    let file = maker.file;
    let signs = signs(&file.text);
    let mut start = 0;
    for (at, line) in file.text.split_inclusive('\n').enumerate() {
        let content = line.trim_start_matches(' ');
        if !content.trim().is_empty() && !content.starts_with('#') && !inside(&signs, start) {
            of_line(maker, at + 1, start, line.len() - content.len());
            cut_off(maker, &signs, start, line.trim_end().len());
        }
        start += line.len();
    }
    of_signs(maker, &signs);
}

fn of_line(maker: &mut Maker<'_>, number: usize, start: usize, indent: usize) {
    let text = &maker.file.text;
    let following = text.lines().enumerate().skip(number);
    let mut following =
        following.filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let next = following.next().map_or(number, |(at, _)| at + 1);
    let shown = text.lines().nth(number - 1).unwrap_or("").trim().to_owned();
    for by in [-2_isize, -1, 1, 2] {
        let Some(moved) = indent.checked_add_signed(by) else { continue };
        let what = format!("`{shown}` moved by {by}");
        let spaces = " ".repeat(moved);
        maker.replace(Mistake::Indentation, (start..start + indent, &spaces), &[number, next], what);
    }
    if indent > 0 {
        let what = format!("`{shown}` behind a tab");
        maker.replace(Mistake::Tab, (start..start + indent, "\t"), &[number], what);
        let half = " ".repeat(indent / 2) + "\t";
        let what = format!("`{shown}` behind spaces and a tab");
        maker.replace(Mistake::Tab, (start..start + indent, &half), &[number], what);
    }
}

/// A quote, bracket or comma that is one: not in a comment, not inside a text.
struct Sign {
    at: usize,
    byte: u8,
    /// The other one of the pair.
    pair: usize,
}

/// The signs of a text that is YAML without errors.
fn signs(text: &str) -> Vec<Sign> {
    let bytes = text.as_bytes();
    let (mut signs, mut open): (Vec<Sign>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let before = at.checked_sub(1).map_or(b'\n', |at| bytes[at]);
        let begins = before.is_ascii_whitespace() || b"[{,".contains(&before);
        match byte {
            b'#' if before.is_ascii_whitespace() => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            b'"' | b'\'' if begins => {
                let mut end = at + 1;
                while bytes[end] != byte {
                    end += if byte == b'"' && bytes[end] == b'\\' { 2 } else { 1 };
                }
                signs.push(Sign { at, byte, pair: end });
                signs.push(Sign { at: end, byte, pair: at });
                at = end;
            }
            b'{' | b'[' if begins => {
                open.push(signs.len());
                signs.push(Sign { at, byte, pair: at });
            }
            b'}' | b']' if !open.is_empty() && before != b'}' || b"]}".contains(&byte) && before == b' ' => {
                let Some(first) = open.pop() else { return signs };
                let pair = signs[first].at;
                signs[first].pair = at;
                signs.push(Sign { at, byte, pair });
            }
            b',' if !open.is_empty() => signs.push(Sign { at, byte, pair: at }),
            _ => {}
        }
        at += 1;
    }
    signs
}

/// Whether a place is inside brackets or quotes.
fn inside(signs: &[Sign], at: usize) -> bool {
    signs.iter().any(|sign| sign.at < at && at <= sign.pair)
}

fn of_signs(maker: &mut Maker<'_>, signs: &[Sign]) {
    for sign in signs {
        let text = &maker.file.text;
        let (line, pair) = (line_of(text, sign.at), line_of(text, sign.pair));
        let mistake = match sign.byte {
            b'"' | b'\'' => Mistake::Quote,
            b',' => Mistake::Comma,
            _ => Mistake::Bracket,
        };
        let from = text[..sign.at].char_indices().rev().nth(9).map_or(0, |(at, _)| at);
        let shown = text[from..(sign.at + 10).min(text.len())].replace('\n', " ");
        let what = format!("`{}` left out in `{}`", char::from(sign.byte), shown.trim());
        maker.replace(mistake, (sign.at..sign.at + 1, ""), &[line, pair], what);
    }
}

/// Ends the file inside a line, at two places of it.
fn cut_off(maker: &mut Maker<'_>, signs: &[Sign], start: usize, length: usize) {
    let file = maker.file;
    for which in ["a", "b"] {
        let line = &file.text[start..start + length];
        let behind = usize::try_from(hash(&[line, which], 0) % length.max(1) as u64).unwrap_or(0) + 1;
        let at = start + behind.min(length - 1).max(1);
        if !file.text.is_char_boundary(at) {
            continue;
        }
        let cut = &file.text[..at];
        let mut lines = vec![line_of(cut, cut.trim_end().len())];
        let open = signs.iter().filter(|sign| sign.at < at && at <= sign.pair);
        lines.extend(open.map(|sign| line_of(cut, sign.at)));
        for name in lost(file, cut) {
            let last = lines[0];
            lines.extend(references(&file.text, &name).into_iter().filter(|line| *line <= last));
        }
        let what = format!("cut off behind `{}`", cut.trim_end().lines().last().unwrap_or("").trim());
        maker.replace(Mistake::CutOff, (at..file.text.len(), ""), &lines, what);
    }
}

/// The listeners and services whose definition is not in the text any more, or not as a whole.
fn lost(file: &File, cut: &str) -> Vec<String> {
    let mut names = Vec::new();
    for section in ["services", "listeners"] {
        if let Some(Kind::Map(entries)) = file.root.entry(section).map(|node| &node.kind) {
            let behind = entries.iter().filter(|(key, _)| key.span.end as usize >= cut.len());
            names.extend(behind.map(|(key, _)| key.name.clone()));
        }
    }
    names
}
