//! What has gone lately: objects that left the store after one use at most. One that comes back is worth keeping.
//!
//! A table of fingerprints with the time at which each came, the time being their number, as in the paper on S3-FIFO
//! (Yang et al., SOSP 2023, §4.2): what is too old counts as gone, without a queue to take it from. Eight bytes each.

/// Places that a fingerprint may take.
const WAYS: usize = 4;
/// The smallest table.
const LEAST: usize = 64;
/// The largest table.
const MOST: usize = 1 << 28;

#[derive(Clone, Copy, Default)]
struct Place {
    /// 0: free. Where it stands follows from it.
    fingerprint: u32,
    came: u32,
}

/// What has gone lately.
#[derive(Default)]
pub(crate) struct Ghost {
    places: Vec<Place>,
    /// How many have come.
    now: u32,
    /// How many are remembered.
    most: u32,
}

impl Ghost {
    /// Remembers as many as there are objects.
    pub(crate) fn resize(&mut self, objects: usize) {
        let objects = objects.min(MOST / 2);
        self.most = objects as u32;
        let places = (objects + objects / 4).next_power_of_two().max(LEAST);
        // Not at each change around a power of two.
        if places <= self.places.len() && places * 4 > self.places.len() {
            return;
        }
        let old = std::mem::replace(&mut self.places, vec![Place::default(); places]);
        let alive = old.into_iter().filter(|place| place.fingerprint != 0);
        for place in alive.filter(|place| self.now.wrapping_sub(place.came) <= self.most).collect::<Vec<_>>()
        {
            self.put(place);
        }
    }

    /// Notes that an object has gone.
    pub(crate) fn add(&mut self, id: u64) {
        if self.places.is_empty() {
            return;
        }
        self.now = self.now.wrapping_add(1);
        self.put(Place { fingerprint: fingerprint(id), came: self.now });
    }

    /// Whether it went lately; it is forgotten.
    pub(crate) fn take(&mut self, id: u64) -> bool {
        let (wanted, now, most) = (fingerprint(id), self.now, self.most);
        let found = self.bucket(wanted).iter_mut().find(|place| place.fingerprint == wanted);
        let Some(place) = found else { return false };
        let came = std::mem::take(place).came;
        now.wrapping_sub(came) < most
    }

    /// Bytes that it takes.
    pub(crate) fn charge(&self) -> u64 {
        (self.places.capacity() * size_of::<Place>()) as u64
    }

    fn put(&mut self, new: Place) {
        let now = self.now;
        let age = |place: &Place| match place.fingerprint {
            0 => u64::MAX,
            other if other == new.fingerprint => u64::MAX - 1,
            _ => u64::from(now.wrapping_sub(place.came)),
        };
        // The same one, a free place, or that of the oldest.
        let bucket = self.bucket(new.fingerprint);
        let same = bucket.iter().position(|place| place.fingerprint == new.fingerprint);
        let at = same.or_else(|| (0..bucket.len()).max_by_key(|at| age(&bucket[*at])));
        if let Some(at) = at {
            bucket[at] = new;
        }
    }

    fn bucket(&mut self, fingerprint: u32) -> &mut [Place] {
        let buckets = self.places.len() / WAYS;
        if buckets == 0 {
            return &mut [];
        }
        let at = (fingerprint >> 1) as usize & (buckets - 1);
        &mut self.places[at * WAYS..(at + 1) * WAYS]
    }
}

/// 31 bits of a hash; never 0.
fn fingerprint(id: u64) -> u32 {
    (id >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_went_lately_is_known_once() {
        let mut ghost = Ghost::default();
        assert!(!ghost.take(1));
        ghost.add(1);
        assert!(!ghost.take(1), "there is no room yet");
        ghost.resize(10);
        ghost.add(id(7));
        assert!(!ghost.take(id(8)));
        assert!(ghost.take(id(7)) && !ghost.take(id(7)));
    }

    #[test]
    fn as_many_are_remembered_as_there_are_objects() {
        let mut ghost = Ghost::default();
        ghost.resize(1000);
        (0..3000).for_each(|number| ghost.add(id(number)));
        let old = (0..2000).filter(|number| ghost.take(id(*number))).count();
        let new = (2000..3000).filter(|number| ghost.take(id(*number))).count();
        assert_eq!(old, 0);
        assert!(new > 850, "a full bucket loses a few: {new}");
    }

    #[test]
    fn it_grows_and_shrinks_with_what_it_has() {
        let mut ghost = Ghost::default();
        ghost.resize(100);
        (0..50).for_each(|number| ghost.add(id(number)));
        ghost.resize(10_000);
        let large = ghost.charge();
        assert!((0..40).filter(|number| ghost.take(id(*number))).count() > 35);
        ghost.resize(100);
        assert!(ghost.charge() < large / 10);
        assert!((40..50).all(|number| ghost.take(id(number))));
    }
}
