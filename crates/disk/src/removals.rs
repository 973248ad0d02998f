//! What was removed lately, by key or URL: an object that is on its way to the disk meanwhile does not arrive.

use std::collections::{HashMap, VecDeque};

/// Removals that are remembered; objects from before those that are not are not written.
const MOST: usize = 64 * 1024;

/// Removals in their order.
#[derive(Default)]
pub(crate) struct Removals {
    newest: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
    last: u64,
    forgotten: u64,
}

impl Removals {
    /// The number of the last one.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Notes one of a key or URL with this hash.
    pub(crate) fn note(&mut self, hash: u64) {
        self.last += 1;
        if self.order.len() >= MOST
            && let Some((old, number)) = self.order.pop_front()
        {
            self.forgotten = number;
            if self.newest.get(&old) == Some(&number) {
                self.newest.remove(&old);
            }
        }
        self.order.push_back((hash, self.last));
        self.newest.insert(hash, self.last);
    }

    /// Whether one of these hashes was removed after number `since`, or may have been.
    pub(crate) fn concern(&self, since: u64, hashes: &[u64]) -> bool {
        let is_newer = |hash: &u64| self.newest.get(hash).is_some_and(|number| *number > since);
        self.last > since && (since < self.forgotten || hashes.iter().any(is_newer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_concern_what_came_before_them() {
        let mut removals = Removals::default();
        removals.note(7);
        assert!(removals.concern(0, &[7, 8]) && removals.concern(0, &[8, 7]));
        assert!(!removals.concern(1, &[7, 7]) && !removals.concern(0, &[8, 9]));
        for other in 0..MOST as u64 {
            removals.note(100 + other);
        }
        assert!(removals.concern(0, &[8, 9]), "it is not known");
        assert!(!removals.concern(1, &[8, 9]) && removals.concern(1, &[100, 8]));
        assert_eq!((removals.newest.len(), removals.order.len()), (MOST, MOST));
    }
}
