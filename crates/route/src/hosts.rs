//! Levels by host: the first step of a lookup.
//!
//! Exact names and wildcards sit in two maps under a keyed hash. Wildcards are looked up longest
//! first, one probe for each suffix of the request's host whose length some wildcard has, so a long host
//! full of dots costs a glance per dot and at most [`HOST_LENGTH`] / 2 short probes.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use crate::host::{HOST_LENGTH, HostPattern};
use crate::level::Level;

/// Words of a bit set over the lengths `0..=HOST_LENGTH`.
const LENGTH_WORDS: usize = HOST_LENGTH / 64 + 1;

/// All levels of a table.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    exact: HashMap<Box<[u8]>, Level, RandomState>,
    wildcard: HashMap<Box<[u8]>, Level, RandomState>,
    wildcard_lengths: [u64; LENGTH_WORDS],
    any: Level,
}

impl Hosts {
    /// The level of a pattern in normal form, made when it is missing.
    pub(crate) fn level(&mut self, host: &HostPattern) -> &mut Level {
        match host {
            HostPattern::Any => &mut self.any,
            HostPattern::Exact(name) => self.exact.entry(name.as_bytes().into()).or_default(),
            HostPattern::Wildcard(suffix) => {
                if let Some(word) = self.wildcard_lengths.get_mut(suffix.len() / 64) {
                    *word |= 1 << (suffix.len() % 64);
                }
                self.wildcard.entry(suffix.as_bytes().into()).or_default()
            }
        }
    }

    /// The levels that serve a host, best first.
    pub(crate) fn levels<'t>(&'t self, host: &'t [u8]) -> Levels<'t> {
        Levels { hosts: self, step: Step::Exact, host }
    }

    fn has_wildcard_of(&self, length: usize) -> bool {
        self.wildcard_lengths.get(length / 64).is_some_and(|word| word >> (length % 64) & 1 == 1)
    }
}

/// Iterates over the levels that serve a host.
#[derive(Debug)]
pub(crate) struct Levels<'t> {
    hosts: &'t Hosts,
    step: Step,
    host: &'t [u8],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Exact,
    /// Dots from this place on have not been looked at.
    Wildcard(usize),
    Done,
}

impl<'t> Iterator for Levels<'t> {
    type Item = &'t Level;

    fn next(&mut self) -> Option<&'t Level> {
        if matches!(self.step, Step::Exact) {
            // The first byte stands in front of every dot that counts: a wildcard needs a label.
            self.step = Step::Wildcard(1);
            if let Some(level) = self.hosts.exact.get(self.host) {
                return Some(level);
            }
        }
        if let Step::Wildcard(from) = self.step {
            if let Some((level, after)) = self.wildcard(from) {
                self.step = Step::Wildcard(after);
                return Some(level);
            }
            self.step = Step::Done;
            return Some(&self.hosts.any);
        }
        None
    }
}

impl<'t> Levels<'t> {
    /// The longest wildcard whose dot stands at `from` or later, and where to go on.
    fn wildcard(&self, from: usize) -> Option<(&'t Level, usize)> {
        if self.hosts.wildcard.is_empty() {
            return None;
        }
        let tail = self.host.get(from..)?;
        memchr::memchr_iter(b'.', tail).find_map(|dot| {
            let suffix = &tail[dot + 1..];
            if !self.hosts.has_wildcard_of(suffix.len()) {
                return None;
            }
            self.hosts.wildcard.get(suffix).map(|level| (level, from + dot + 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_exact_then_longest_wildcard_then_any() {
        let mut hosts = Hosts::default();
        for (route, text) in ["*", "*.com", "*.b.com", "a.b.com", "*.a.b.com"].iter().enumerate() {
            hosts.level(&HostPattern::parse(text).unwrap()).everything.push(route as u32);
        }
        let found = |host: &str| -> Vec<u32> {
            hosts
                .levels(host.as_bytes())
                .flat_map(|level| level.everything.as_slice().iter().copied())
                .collect()
        };
        assert_eq!(found("a.b.com"), [3, 2, 1, 0]);
        assert_eq!(found("x.a.b.com"), [4, 2, 1, 0]);
        assert_eq!(found("b.com"), [1, 0]);
        assert_eq!(found(".com"), [0]);
        assert_eq!(found("com"), [0]);
        assert_eq!(found(""), [0]);
        assert_eq!(found(&"a.".repeat(8000)), [0]);
    }
}
