//! S3-FIFO beside a reference that is written from the paper, and beside LRU.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// A cache of objects with sizes, as the store uses the queues.
struct Cache {
    queues: Queues,
    objects: HashMap<u64, (u32, u64, AtomicU8)>,
    bytes: u64,
    most: u64,
}

/// Far apart, as hashes are.
fn id(number: u64) -> u64 {
    number
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
        .wrapping_mul(0xff51_afd7_ed55_8ccd)
}

impl Cache {
    fn new(most: u64) -> Self {
        Self { queues: Queues::default(), objects: HashMap::new(), bytes: 0, most }
    }

    fn access(&mut self, number: u64, size: u64) -> bool {
        if let Some((_, _, uses)) = self.objects.get(&number) {
            let count = uses.load(Ordering::Relaxed);
            uses.store((count + 1).min(3), Ordering::Relaxed);
            return true;
        }
        while self.bytes + size > self.most {
            let objects = &self.objects;
            let used = |queued: Queued| {
                objects.get(&queued.hash).map(|(_, _, uses)| Used { uses, id: id(queued.hash) })
            };
            let Some(gone) = self.queues.evict(used) else { break };
            let (node, size, _) = self.objects.remove(&gone.hash).unwrap();
            assert_eq!(node, gone.node);
            self.bytes -= size;
        }
        let node = self.queues.insert(number, id(number), size);
        self.objects.insert(number, (node, size, AtomicU8::new(0)));
        self.bytes += size;
        false
    }
}

/// The same with lists that are searched.
struct Reference {
    small: VecDeque<(u64, u64, u8)>,
    main: VecDeque<(u64, u64, u8)>,
    ghost: Ghost,
    most: u64,
}

impl Reference {
    fn access(&mut self, number: u64, size: u64) -> bool {
        let all = self.small.iter_mut().chain(&mut self.main);
        if let Some((_, _, uses)) = all.into_iter().find(|(other, ..)| *other == number) {
            *uses = (*uses + 1).min(3);
            return true;
        }
        let sum = |list: &VecDeque<(u64, u64, u8)>| list.iter().map(|(_, size, _)| size).sum::<u64>();
        while sum(&self.small) + sum(&self.main) + size > self.most {
            if sum(&self.small) * 10 >= sum(&self.small) + sum(&self.main) && !self.small.is_empty() {
                let (number, size, uses) = self.small.pop_front().unwrap();
                if uses > 1 {
                    self.main.push_back((number, size, 0));
                } else {
                    self.ghost.add(id(number));
                }
            } else {
                let Some((number, size, uses)) = self.main.pop_front() else { break };
                if uses > 0 {
                    self.main.push_back((number, size, uses - 1));
                }
            }
        }
        let is_back = self.ghost.take(id(number));
        if is_back { &mut self.main } else { &mut self.small }.push_back((number, size, 0));
        self.ghost.resize(self.small.len() + self.main.len());
        false
    }
}

/// The least recently used goes.
struct Lru {
    order: std::collections::BTreeMap<u64, u64>,
    at: HashMap<u64, u64>,
    now: u64,
    most: usize,
}

impl Lru {
    fn access(&mut self, number: u64) -> bool {
        self.now += 1;
        let was = self.at.insert(number, self.now);
        self.order.insert(self.now, number);
        if let Some(was) = was {
            self.order.remove(&was);
        } else if self.at.len() > self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.at.remove(&oldest);
        }
        was.is_some()
    }
}

proptest! {
    #[test]
    fn it_does_what_the_paper_says(accesses in prop::collection::vec((0..60_u64, 1..4_u64), 1..600)) {
        let mut cache = Cache::new(40 * UNIT);
        let mut reference = Reference {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: Ghost::default(),
            most: 40 * UNIT,
        };
        for (number, size) in accesses {
            prop_assert_eq!(cache.access(number, size * UNIT), reference.access(number, size * UNIT));
            let mut kept: Vec<_> = cache.objects.keys().copied().collect();
            let lists = reference.small.iter().chain(&reference.main);
            let mut expected: Vec<_> = lists.map(|(number, ..)| *number).collect();
            kept.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(kept, expected);
        }
    }

    #[test]
    fn objects_can_be_removed_from_anywhere(operations in prop::collection::vec((0..3_u8, 0..30_u64), 1..300)) {
        let mut queues = Queues::default();
        let mut known: HashMap<u64, u32> = HashMap::new();
        let uses = AtomicU8::new(1);
        for (operation, number) in operations {
            match operation {
                0 if !known.contains_key(&number) => {
                    known.insert(number, queues.insert(number, id(number), 16));
                }
                1 => {
                    if let Some(node) = known.remove(&number) {
                        queues.remove(node);
                    }
                }
                2 => {
                    uses.store((number % 3) as u8, Ordering::Relaxed);
                    let gone = queues.evict(|queued| Some(Used { uses: &uses, id: id(queued.hash) }));
                    prop_assert_eq!(gone.is_some(), !known.is_empty());
                    if let Some(gone) = gone {
                        prop_assert_eq!(known.remove(&gone.hash), Some(gone.node));
                    }
                }
                _ => {}
            }
            prop_assert_eq!(queues.len, known.len());
            prop_assert_eq!(queues.small.bytes + queues.main.bytes, known.len() as u64);
            let found = (0..queues.nodes()).filter_map(|node| queues.at(node)).count();
            prop_assert_eq!(found, known.len());
        }
    }
}

/// Numbers whose frequency falls as their rank to this power.
fn zipf(objects: usize, power: f64) -> impl FnMut() -> u64 {
    let mut sums: Vec<f64> = Vec::with_capacity(objects);
    for rank in 1..=objects {
        sums.push(sums.last().unwrap_or(&0.0) + (rank as f64).powf(-power));
    }
    let mut random = fastrand::Rng::with_seed(26);
    move || {
        let at = random.f64() * sums[sums.len() - 1];
        sums.partition_point(|sum| *sum < at) as u64
    }
}

fn ratios(objects: usize, most: usize, scan_every: u64) -> (f64, f64) {
    let mut next = zipf(objects, 0.9);
    let mut cache = Cache::new(most as u64 * UNIT);
    let mut lru = Lru { order: Default::default(), at: HashMap::new(), now: 0, most };
    let (mut hits, mut lru_hits, mut asked) = (0_u32, 0_u32, 0_u32);
    for turn in 0..120_000_u64 {
        let is_scan = scan_every > 0 && turn % scan_every == 0;
        let number = if is_scan { 1_000_000 + turn } else { next() };
        let (hit, lru_hit) = (cache.access(number, UNIT), lru.access(number));
        if turn >= 40_000 && !is_scan {
            asked += 1;
            hits += u32::from(hit);
            lru_hits += u32::from(lru_hit);
        }
    }
    (f64::from(hits) / f64::from(asked), f64::from(lru_hits) / f64::from(asked))
}

#[test]
fn it_keeps_more_of_what_is_asked_for_than_lru() {
    for (most, scan_every) in [(500, 0), (3000, 0), (500, 2), (3000, 2)] {
        let (ratio, lru) = ratios(30_000, most, scan_every);
        println!("{most} of 30000, scan every {scan_every}: S3-FIFO {ratio:.4}, LRU {lru:.4}");
        assert!(ratio > lru + 0.02, "{most}, {scan_every}: {ratio} and {lru}");
    }
}
