//! Random changes of seeds for the short runs: what libFuzzer does, without its view of the code.

use std::fs;

use crate::pieces::Draw;
use crate::seeds::{self, Seed};
use crate::targets::Target;

/// Most changes of one seed.
const CHANGES: u64 = 4;
/// Bytes that parsers treat in a special way.
const SPECIAL: &[u8] = b"\0\t\n\r \"#%&*,-./:;=?@[\\]_{}\x7f\x80\xff09azAZ";

/// A source of inputs that is the same in every run.
pub(crate) struct Mutations {
    draw: Draw,
    seeds: Vec<Seed>,
    words: Vec<Vec<u8>>,
    longest: usize,
}

impl Mutations {
    pub(crate) fn of(target: &Target) -> Self {
        let seeds = seeds::of(target).unwrap_or_else(|error| panic!("{error}"));
        let dictionary = seeds::dictionary(target);
        let text = fs::read_to_string(&dictionary).unwrap_or_else(|error| panic!("{error}"));
        let words = text.lines().filter_map(|line| {
            let word = line.split_once('"')?.1.strip_suffix('"')?;
            let mut bytes = Vec::new();
            seeds::unescape(word, &mut bytes)?;
            Some(bytes)
        });
        let words: Vec<_> = words.collect();
        assert!(!words.is_empty() && !seeds.is_empty(), "{}", target.name);
        Self { draw: Draw::of(target.name.as_bytes()), seeds, words, longest: target.bytes }
    }

    pub(crate) fn seeds(&self) -> &[Seed] {
        &self.seeds
    }

    /// A seed with a few changes.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut bytes = self.seeds[seed].bytes.clone();
        for _ in 0..=self.draw.below(CHANGES) {
            self.change(&mut bytes);
        }
        bytes.truncate(self.longest);
        bytes
    }

    fn below(&mut self, bound: usize) -> usize {
        self.draw.below(bound as u64) as usize
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(16)).min(bytes.len()).max(at);
        match self.draw.below(8) {
            0 => {
                bytes.drain(at..end);
            }
            1 => {
                let part = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            2 => bytes.insert(at, SPECIAL[self.draw.below(SPECIAL.len() as u64) as usize]),
            3 if at < bytes.len() => bytes[at] = SPECIAL[self.draw.below(SPECIAL.len() as u64) as usize],
            4 if at < bytes.len() => bytes[at] ^= 1 << self.draw.below(8),
            5 => {
                // The rest comes from another seed.
                let other = self.below(self.seeds.len());
                let from = self.below(self.seeds[other].bytes.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&self.seeds[other].bytes[from..]);
            }
            6 => bytes.truncate(at),
            _ => {
                let word = self.below(self.words.len());
                bytes.splice(at..at, self.words[word].iter().copied());
            }
        }
    }
}
