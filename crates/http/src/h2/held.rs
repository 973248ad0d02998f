//! Payload that was handed to the codec and that it has not written.
//!
//! By stream, because what waits of a stream goes with it when either side resets it.

use std::collections::VecDeque;

/// Of one connection. Streams for which nothing is held take no room.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Bytes by stream. The codec sends in the order in which it was given, mostly: who is looked for stands in front.
    streams: VecDeque<(u32, usize)>,
    sum: usize,
}

impl Held {
    /// Bytes of all streams.
    pub(super) const fn sum(&self) -> usize {
        self.sum
    }

    /// The codec got so much.
    pub(super) fn add(&mut self, stream: u32, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.sum += bytes;
        match self.find(stream) {
            Some(at) => self.streams[at].1 += bytes,
            None => self.streams.push_back((stream, bytes)),
        }
    }

    /// It has written so much.
    pub(super) fn wrote(&mut self, stream: u32, bytes: usize) {
        let Some(at) = self.find(stream) else { return };
        let held = &mut self.streams[at].1;
        let wrote = bytes.min(*held);
        *held -= wrote;
        self.sum -= wrote;
        if *held == 0 {
            self.streams.remove(at);
        }
    }

    /// The stream has been reset: what was held of it is gone.
    pub(super) fn forget(&mut self, stream: u32) {
        if let Some((_, held)) = self.find(stream).and_then(|at| self.streams.remove(at)) {
            self.sum -= held;
        }
    }

    fn find(&self, stream: u32) -> Option<usize> {
        self.streams.iter().position(|(known, _)| *known == stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_what_was_given_less_what_was_written_and_what_was_reset(
            steps in proptest::collection::vec((0_u8..3, 1_u32..8, 0_usize..100), 0..200),
        ) {
            let mut held = Held::default();
            let mut expected = BTreeMap::<u32, usize>::new();
            for (step, stream, bytes) in steps {
                let entry = expected.entry(stream).or_default();
                match step {
                    0 => {
                        held.add(stream, bytes);
                        *entry += bytes;
                    }
                    1 => {
                        held.wrote(stream, bytes);
                        *entry = entry.saturating_sub(bytes);
                    }
                    _ => {
                        held.forget(stream);
                        *entry = 0;
                    }
                }
                prop_assert_eq!(held.sum(), expected.values().sum::<usize>());
                prop_assert_eq!(held.streams.len(), expected.values().filter(|bytes| **bytes > 0).count());
            }
        }
    }
}
