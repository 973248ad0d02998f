//! Caches that are only counted: which of a sequence of requests would have been hits, with so many objects of one
//! size.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Times that an object is remembered to have been used, S3-FIFO.
const MOST_USES: u8 = 3;

/// Share of the requests that are hits with the least recently used object going first.
pub(super) fn lru(requests: &[u32], capacity: usize) -> f64 {
    let (mut last, mut order): (HashMap<u32, usize>, BTreeMap<usize, u32>) = Default::default();
    let mut hits = 0;
    for (now, &object) in requests.iter().enumerate() {
        match last.insert(object, now) {
            Some(before) => {
                hits += 1;
                order.remove(&before);
            }
            None if last.len() > capacity => {
                if let Some((_, oldest)) = order.pop_first() {
                    last.remove(&oldest);
                }
            }
            None => {}
        }
        order.insert(now, object);
    }
    hits as f64 / requests.len().max(1) as f64
}

/// Where an object is, S3-FIFO.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Queue {
    Small,
    Main,
    /// Only its name is kept.
    Ghost,
}

/// The state of S3-FIFO (Yang and others, SOSP 2023): a tenth of the objects in a small queue, where those that are
/// used once leave soon; the others in a main queue, in which used ones go round again; names of those that left.
struct S3Fifo {
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghost: VecDeque<u32>,
    /// Queue and uses of every object and name.
    known: HashMap<u32, (Queue, u8)>,
    capacity: usize,
    /// Objects from which on the small queue is the one that lets one go.
    small_most: usize,
}

impl S3Fifo {
    fn new(capacity: usize) -> Self {
        Self {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            known: HashMap::new(),
            capacity: capacity.max(2),
            small_most: (capacity / 10).max(1),
        }
    }

    /// One request: whether it is a hit.
    fn ask(&mut self, object: u32) -> bool {
        match self.known.get_mut(&object) {
            Some((Queue::Small | Queue::Main, uses)) => {
                *uses = (*uses + 1).min(MOST_USES);
                return true;
            }
            Some((Queue::Ghost, _)) => {
                self.make_room();
                self.main.push_back(object);
                self.known.insert(object, (Queue::Main, 0));
            }
            None => {
                self.make_room();
                self.small.push_back(object);
                self.known.insert(object, (Queue::Small, 0));
            }
        }
        false
    }

    fn make_room(&mut self) {
        while self.small.len() + self.main.len() >= self.capacity {
            if self.small.len() >= self.small_most || self.main.is_empty() {
                self.leave_small();
            } else {
                self.leave_main();
            }
        }
    }

    fn leave_small(&mut self) {
        let Some(object) = self.small.pop_front() else { return };
        if self.known.get(&object).is_some_and(|(_, uses)| *uses > 0) {
            self.main.push_back(object);
            self.known.insert(object, (Queue::Main, 0));
            return;
        }
        self.known.insert(object, (Queue::Ghost, 0));
        self.ghost.push_back(object);
        while self.ghost.len() > self.capacity {
            let Some(name) = self.ghost.pop_front() else { return };
            // It may have come back meanwhile.
            if self.known.get(&name).is_some_and(|(queue, _)| *queue == Queue::Ghost) {
                self.known.remove(&name);
            }
        }
    }

    fn leave_main(&mut self) {
        let Some(object) = self.main.pop_front() else { return };
        match self.known.get_mut(&object) {
            Some((_, uses)) if *uses > 0 => {
                *uses -= 1;
                self.main.push_back(object);
            }
            _ => {
                self.known.remove(&object);
            }
        }
    }
}

/// Share of the requests that are hits with S3-FIFO.
pub(super) fn s3_fifo(requests: &[u32], capacity: usize) -> f64 {
    let mut cache = S3Fifo::new(capacity);
    let hits = requests.iter().filter(|object| cache.ask(**object)).count();
    hits as f64 / requests.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        // 1 is used again, so that 2 goes for 3.
        assert_eq!(lru(&[1, 2, 1, 3, 1, 2], 2), 2.0 / 6.0);
        assert_eq!(lru(&[], 2), 0.0);
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_used() {
        // Ten objects that are used all the time, and as many as one likes that are asked for once.
        let mut requests = Vec::new();
        for round in 0..200_u32 {
            requests.extend(0..10);
            requests.extend((0..40).map(|once| 1000 + round * 40 + once));
        }
        let (lru, fifo) = (lru(&requests, 30), s3_fifo(&requests, 30));
        assert!(lru < 0.01 && fifo > 0.15, "LRU {lru}, S3-FIFO {fifo}");
    }

    #[test]
    fn everything_that_fits_is_a_hit_the_second_time() {
        let requests: Vec<u32> = (0..2).flat_map(|_| 0..9).collect();
        assert_eq!(lru(&requests, 9), 0.5);
        let mut cache = S3Fifo::new(1000);
        let hits = requests.iter().filter(|object| cache.ask(**object)).count();
        assert_eq!(hits, 9);
    }

    #[test]
    fn no_more_is_held_than_the_capacity() {
        let mut cache = S3Fifo::new(50);
        let mut state = 7_u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            cache.ask((state >> 33) as u32 % 300);
            assert!(cache.small.len() + cache.main.len() <= 50 && cache.ghost.len() <= 50);
        }
    }
}
