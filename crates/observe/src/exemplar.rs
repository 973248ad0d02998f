//! Examples of exchanges for the buckets of a histogram: from a peak in a graph to the record of one request.
//!
//! A worker writes one now and then while somebody asks for OpenMetrics ([`Registry::wants_exemplars`]); otherwise an
//! exchange pays one comparison. Invariant: one writer per slot, which never waits. A reader that meets a slot that is
//! being written leaves it out: the number of its turn is odd, or another one afterwards.
//!
//! [`Registry::wants_exemplars`]: crate::Registry::wants_exemplars

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_core::RequestId;

use crate::meter::{BUCKETS, bucket_of};

/// Words that an id takes.
const WORDS: usize = RequestId::LEN.div_ceil(8);
/// Milliseconds between two examples of a bucket.
const EVERY_MS: u64 = 1_000;

/// One exchange.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) id: RequestId,
    pub(crate) seconds: f64,
    /// When it ended, in seconds since the Unix epoch.
    pub(crate) unix_s: f64,
}

#[derive(Debug, Default)]
struct Slot {
    /// Odd while it is written.
    turn: AtomicU64,
    /// When it was written, by the clock of the registry.
    at_ms: AtomicU64,
    unix_ms: AtomicU64,
    ns: AtomicU64,
    id: [AtomicU64; WORDS],
}

/// One slot per bucket. They take their place, 1.2 KB, when the first example is written.
#[derive(Debug, Default)]
pub struct Exemplars(OnceLock<Box<[Slot; BUCKETS]>>);

impl Exemplars {
    /// Keeps an exchange as the example of its bucket, unless that has one of the last second. `now_ms`: of a clock
    /// that does not go back. Only the owner may call this.
    pub fn note(&self, duration: Duration, id: &RequestId, now_ms: u64) {
        let slots = self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Slot::default())));
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let Some(slot) = slots.get(bucket_of(ns)) else { return };
        let turn = slot.turn.load(Relaxed);
        if turn > 0 && now_ms.saturating_sub(slot.at_ms.load(Relaxed)) < EVERY_MS {
            return;
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        slot.turn.store(turn.wrapping_add(1), Relaxed);
        fence(Release);
        slot.at_ms.store(now_ms, Relaxed);
        slot.unix_ms.store(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX), Relaxed);
        slot.ns.store(ns, Relaxed);
        let mut bytes = [0; WORDS * 8];
        let text = id.as_bytes();
        bytes[..text.len()].copy_from_slice(text);
        for (word, bytes) in slot.id.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        slot.turn.store(turn.wrapping_add(2), Release);
    }

    /// Puts what is newer than what is there into its place.
    pub(crate) fn newest(&self, found: &mut [Option<Exemplar>; BUCKETS]) {
        for (place, slot) in found.iter_mut().zip(self.0.get().into_iter().flat_map(|slots| slots.iter())) {
            if let Some(read) = slot.read()
                && place.as_ref().is_none_or(|known| known.unix_s < read.unix_s)
            {
                *place = Some(read);
            }
        }
    }
}

impl Slot {
    fn read(&self) -> Option<Exemplar> {
        let turn = self.turn.load(Acquire);
        if turn == 0 || turn % 2 == 1 {
            return None;
        }
        let (unix_ms, ns) = (self.unix_ms.load(Relaxed), self.ns.load(Relaxed));
        let words = self.id.each_ref().map(|word| word.load(Relaxed).to_le_bytes());
        fence(Acquire);
        if self.turn.load(Relaxed) != turn {
            return None;
        }
        let bytes = words.as_flattened();
        let id = RequestId::given(bytes.split(|byte| *byte == 0).next().unwrap_or_default())?;
        Some(Exemplar { id, seconds: ns as f64 / 1e9, unix_s: unix_ms as f64 / 1e3 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn read(exemplars: &Exemplars) -> [Option<Exemplar>; BUCKETS] {
        let mut found = std::array::from_fn(|_| None);
        exemplars.newest(&mut found);
        found
    }

    #[test]
    fn each_bucket_has_an_example_of_its_own_which_is_not_replaced_at_once() {
        let exemplars = Exemplars::default();
        assert!(read(&exemplars).iter().all(Option::is_none));
        let (one, other) = (RequestId::given(b"one").unwrap(), RequestId::new(7, 9));
        exemplars.note(Duration::from_micros(700), &one, 5);
        exemplars.note(Duration::from_secs(90), &other, 5);
        exemplars.note(Duration::from_micros(800), &other, 500);
        let found = read(&exemplars);
        assert_eq!(found.iter().flatten().count(), 2);
        let first = found[1].as_ref().unwrap();
        assert_eq!((first.id, first.seconds), (one, 0.0007));
        assert_eq!(found[BUCKETS - 1].as_ref().unwrap().id, other);
        exemplars.note(Duration::from_micros(800), &other, 1_005);
        assert_eq!(read(&exemplars)[1].as_ref().unwrap().id, other);
    }

    #[test]
    fn a_reader_never_sees_half_of_one() {
        let exemplars = Arc::new(Exemplars::default());
        let writer = exemplars.clone();
        let ids = [RequestId::given(&[b'a'; 36]).unwrap(), RequestId::given(&[b'b'; 36]).unwrap()];
        let writes = thread::spawn(move || {
            (0..20_000u64).for_each(|at| writer.note(Duration::ZERO, &ids[(at % 2) as usize], at * EVERY_MS));
        });
        while !writes.is_finished() {
            if let Some(found) = &read(&exemplars)[0] {
                assert!(ids.contains(&found.id), "{:?}", found.id);
            }
        }
        writes.join().unwrap();
    }
}
