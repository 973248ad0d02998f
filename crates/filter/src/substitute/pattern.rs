//! Regular expressions in bodies: each sees one line at a time, without its line end.
//!
//! A match may then be as long as the line, and nothing of the next line can change it: what becomes of a body does not
//! depend on how it comes. A line longer than [`BLOCK`] is looked at in blocks of that many bytes; each decides the
//! matches that begin in its first half, and the next block begins behind them. So a match of up to half a block is
//! found wherever it stands, and a longer one may be cut. Of bytes at most a block is held back.

use super::{FREE, GREW, GROWTH};
use crate::stages::{PIECE, Stage, Step};
use memchr::memchr;
use regex::bytes::{Regex, RegexBuilder};
use std::fmt;
use std::sync::Arc;
use thalweg_core::Fault;

/// Bytes of a line that are looked at together.
pub(super) const BLOCK: usize = 64 * 1024;
/// Bytes that a compiled regular expression may have, and as many for its cache.
const COMPILED: usize = 1024 * 1024;

/// A regular expression, and what takes the place of its matches.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    to: Box<str>,
    is_once: bool,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~{} by {}", self.regex, self.to)
    }
}

impl Pattern {
    /// Checks and compiles it; the time of a match is linear in the length of the line.
    pub(super) fn new(regex: &str, to: &str, is_once: bool) -> Result<Self, String> {
        let compiled = RegexBuilder::new(regex).size_limit(COMPILED).dfa_size_limit(COMPILED).build();
        let compiled = compiled.map_err(|error| {
            let words = error.to_string();
            let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("`regex`: `{}` is not a regular expression: {last}", regex.escape_debug())
        })?;
        if compiled.is_match(b"") {
            return Err(format!("`regex`: `{}` matches where nothing is", regex.escape_debug()));
        }
        if let Some(group) = groups(to).find(|group| !is_group(&compiled, group)) {
            return Err(format!(
                "`to` names the group `{group}`, which `regex` does not have; write `$$` for a dollar"
            ));
        }
        Ok(Self { regex: compiled, to: to.into(), is_once })
    }

    /// Appends `text` from `from` on to `out`, with what becomes of the matches that begin before `until`; gives where
    /// it has come to, which is `until` or the end of a match, and whether there was one.
    fn replace(
        &self,
        text: &[u8],
        (from, until): (usize, usize),
        out: &mut Vec<u8>,
    ) -> Result<(usize, bool), Fault> {
        let most = out.len() + (text.len() as u64 * GROWTH + FREE) as usize;
        let (mut at, mut copied, mut last_end) = (from, from, None);
        while let Some(groups) = (at <= text.len()).then(|| self.regex.captures_at(text, at)).flatten() {
            let Some(found) = groups.get(0).filter(|found| found.start() < until) else { break };
            if found.is_empty() && last_end == Some(found.end()) {
                at = found.end() + 1;
                continue;
            }
            out.extend_from_slice(&text[copied..found.start()]);
            groups.expand(self.to.as_bytes(), out);
            if out.len() > most {
                return Err(GREW);
            }
            copied = found.end();
            last_end = Some(copied);
            at = copied + usize::from(found.is_empty());
            if self.is_once {
                break;
            }
        }
        let end = copied.max(until.min(text.len()));
        out.extend_from_slice(&text[copied..end]);
        Ok((end, last_end.is_some()))
    }
}

/// The groups that a replacement names, as the crate `regex` reads them.
fn groups(to: &str) -> impl Iterator<Item = &str> {
    let mut rest = to;
    std::iter::from_fn(move || {
        loop {
            let (_, behind) = rest.split_once('$')?;
            if let Some(behind) = behind.strip_prefix('$') {
                rest = behind;
                continue;
            }
            if let Some((name, after)) = behind.strip_prefix('{').and_then(|named| named.split_once('}')) {
                rest = after;
                return Some(name);
            }
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = behind.find(|letter| !is_name(letter)).unwrap_or(behind.len());
            let (name, after) = behind.split_at(end);
            rest = after;
            if !name.is_empty() {
                return Some(name);
            }
        }
    })
}

fn is_group(regex: &Regex, name: &str) -> bool {
    match name.parse::<usize>() {
        Ok(number) => number < regex.captures_len(),
        Err(_) => regex.capture_names().flatten().any(|known| known == name),
    }
}

/// A regular expression in one body.
#[derive(Debug)]
pub(super) struct PatternStage {
    rule: Arc<Pattern>,
    /// Bytes of the input in which no line ends.
    scanned: usize,
    /// The byte before the input, inside a line.
    before: Option<u8>,
    /// The one that is replaced has been found.
    is_over: bool,
}

impl PatternStage {
    pub(super) fn new(rule: &Arc<Pattern>) -> Self {
        Self { rule: Arc::clone(rule), scanned: 0, before: None, is_over: false }
    }

    /// Takes a block of a line, of which matches that begin before `until` are decided; the bytes taken.
    fn take(&mut self, block: &[u8], until: usize, out: &mut Vec<u8>) -> Result<usize, Fault> {
        let (end, has_found) = match self.before {
            None => self.rule.replace(block, (0, until), out)?,
            Some(before) => {
                // A boundary is judged by the byte before it.
                let text = [&[before], block].concat();
                let (end, has_found) = self.rule.replace(&text, (1, until.saturating_add(1)), out)?;
                (end - 1, has_found)
            }
        };
        self.is_over = has_found && self.rule.is_once;
        self.before = end.checked_sub(1).and_then(|last| block.get(last).copied()).or(self.before);
        Ok(end)
    }
}

impl Stage for PatternStage {
    fn step(&mut self, input: &[u8], is_all: bool, out: &mut Vec<u8>) -> Result<Step, Fault> {
        let mut at = 0;
        while !self.is_over && at < input.len() {
            if out.len() >= PIECE {
                return Ok(Step { taken: at, has_more: true });
            }
            let rest = &input[at..];
            let block = &rest[..rest.len().min(BLOCK)];
            let scanned = std::mem::take(&mut self.scanned).min(block.len());
            let line_end = memchr(b'\n', &block[scanned..]).map(|found| scanned + found);
            at += match line_end {
                Some(end) => {
                    let taken = self.take(&block[..end], usize::MAX, out)?;
                    debug_assert!(taken == end || self.is_over);
                    out.extend_from_slice(&block[taken..=end]);
                    self.before = None;
                    end + 1
                }
                None if block.len() == BLOCK => self.take(block, BLOCK / 2, out)?,
                None if is_all => self.take(block, usize::MAX, out)?,
                None => {
                    self.scanned = rest.len();
                    return Ok(Step { taken: at, has_more: false });
                }
            };
        }
        out.extend_from_slice(&input[at..]);
        Ok(Step { taken: input.len(), has_more: false })
    }
}
