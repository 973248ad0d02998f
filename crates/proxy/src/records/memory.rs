//! What is remembered how long: the newest of all, and beyond them the newest of each notable kind.

use super::decision::Notable;
use super::entry::Entry;
use std::cmp::Reverse;
use thalweg_net::prefetch;

/// The newest entries, up to a number of them; room for all is taken at once, when the first one comes.
#[derive(Debug, Default)]
pub(super) struct Newest {
    entries: Vec<Entry>,
    /// The place of the oldest one, once there are as many as may be.
    next: usize,
    most: usize,
}

impl Newest {
    /// The place for another entry, when the oldest one stands in it.
    fn oldest(&mut self) -> Option<&mut Entry> {
        if self.entries.len() < self.most {
            return None;
        }
        let at = self.next;
        self.next = if at + 1 < self.most { at + 1 } else { 0 };
        self.entries.get_mut(at)
    }

    /// Asks for the memory of the place that the next entry will take.
    fn expect(&self) {
        self.entries.get(self.next).inspect(|place| prefetch(*place));
    }

    /// Adds one where there is room without the oldest.
    fn append(&mut self, entry: Entry) {
        if self.entries.capacity() < self.most {
            self.entries.reserve_exact(self.most - self.entries.len());
        }
        self.entries.push(entry);
    }

    /// Adds one; says whether another one had to go.
    fn add(&mut self, entry: Entry) -> bool {
        let place = self.oldest();
        let is_full = place.is_some();
        match place {
            Some(place) => *place = entry,
            None => self.append(entry),
        }
        is_full
    }

    /// Keeps so many from now on.
    fn resize(&mut self, most: usize) {
        self.entries.rotate_left(self.next);
        self.entries.drain(..self.entries.len().saturating_sub(most));
        self.entries.shrink_to_fit();
        (self.next, self.most) = (0, most);
    }

    /// The newest first.
    fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (later, earlier) = self.entries.split_at(self.next.min(self.entries.len()));
        later.iter().rev().chain(earlier.iter().rev())
    }
}

/// All that a worker remembers.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Whatever they are.
    newest: Newest,
    /// Notable ones that are no longer among the newest, by kind.
    kept: [Newest; 3],
    /// Whether one has been forgotten.
    has_forgotten: bool,
}

impl Memory {
    /// Keeps so many of all, and of each notable kind, from now on.
    pub(super) fn resize(&mut self, most: usize) {
        let all = std::iter::once(&mut self.newest).chain(&mut self.kept);
        for part in all.filter(|part| part.most != most) {
            self.has_forgotten |= part.entries.len() > most;
            part.resize(most);
        }
    }

    /// Asks for the memory that the next entry will take: as many as are kept push each other out of the caches.
    pub(super) fn expect(&self) {
        self.newest.expect();
    }

    /// Adds the newest one. The oldest of all makes room, and goes to its kind when it is notable.
    pub(super) fn add(&mut self, entry: Entry) {
        let Some(place) = self.newest.oldest() else { return self.newest.append(entry) };
        match place.notable {
            None => {
                *place = entry;
                self.has_forgotten = true;
            }
            Some(kind) => {
                let oldest = std::mem::replace(place, entry);
                self.has_forgotten |= self.kept[part_of(kind)].add(oldest);
            }
        }
    }

    /// Those that are asked for, the newest first, at most `limit`.
    pub(super) fn find(&self, limit: usize, is_asked_for: impl Fn(&Entry) -> bool) -> Vec<&Entry> {
        let parts = std::iter::once(&self.newest).chain(&self.kept);
        let mut found: Vec<_> =
            parts.flat_map(|part| part.iter().filter(|entry| is_asked_for(entry)).take(limit)).collect();
        found.sort_by_key(|entry| Reverse(entry.ended_us()));
        found.truncate(limit);
        found
    }

    /// The oldest one since which none has been forgotten; `None`: none has been.
    pub(super) fn complete_since(&self) -> Option<&Entry> {
        self.newest.iter().last().filter(|_| self.has_forgotten)
    }
}

fn part_of(kind: Notable) -> usize {
    match kind {
        Notable::Failed => 0,
        Notable::Slow => 1,
        Notable::Refused => 2,
    }
}
