//! The store: who has points, and what a reading adds to them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::point::Point;
use super::timeline::Timeline;
use super::{LONG_STEP, LONG_STEPS, NAME, OBJECTS, STEP, STEPS};
use crate::registry::OTHER;
use crate::totals::{Object, ObjectKind, Totals};

/// Of a score, what is left of it at the next reading: it halves in 11 minutes.
const KEPT: f64 = 0.99;
/// Objects that may take the places of others in one reading.
const SWAPS: usize = 32;

/// Gauges of the process at the end of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Client connections open.
    pub connections: u32,
    /// Exchanges under way.
    pub in_flight: u32,
    /// The largest of the shares in use, 0 to 1; of a long step the most there was.
    pub saturation: f32,
}

/// What a reading is about as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it ended, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// Milliseconds since the one before, by a clock that does not jump.
    pub elapsed_ms: u64,
    /// How the process stands.
    pub gauges: Gauges,
}

/// The points of one object.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) short: Box<[Point]>,
    pub(super) long: Box<[Point]>,
}

impl Rings {
    pub(super) fn new() -> Self {
        let blank = |places: usize| vec![Point::default(); places].into_boxed_slice();
        Self { short: blank(STEPS), long: blank(LONG_STEPS) }
    }

    fn add(&mut self, (short, long): (usize, usize), counts: &Totals) {
        if !counts.is_blank() {
            self.short[short].add(counts);
            self.long[long].add(counts);
        }
    }

    fn merge(&mut self, other: &Self) {
        let pairs = self.short.iter_mut().chain(&mut self.long).zip(other.short.iter().chain(&other.long));
        pairs.filter(|(_, more)| !more.is_blank()).for_each(|(sum, more)| sum.merge(more));
    }
}

/// An object that has points.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) kind: ObjectKind,
    pub(super) service: Box<str>,
    pub(super) name: Box<str>,
    pub(super) rings: Rings,
    /// What it had counted at the last reading.
    before: Totals,
    /// What this reading adds.
    more: Totals,
    pub(super) score: f64,
    /// The last reading that has seen it.
    seen: u64,
    /// The last short step in which it counted something.
    pub(super) busy: u64,
}

impl Tracked {
    pub(super) fn object(&self) -> Object<'_> {
        Object { kind: self.kind, service: &self.service, name: &self.name }
    }
}

/// An object without points.
#[derive(Clone, Copy, Debug)]
struct Idle {
    requests: u64,
    score: f32,
    seen: u32,
}

/// An object without points that is busier than one with.
#[derive(Debug)]
struct Candidate {
    kind: ObjectKind,
    service: Box<str>,
    name: Box<str>,
    totals: Totals,
    score: f64,
}

/// All time series. See the module.
#[derive(Debug)]
pub struct SeriesStore {
    pub(super) short: Timeline,
    pub(super) long: Timeline,
    /// Of the process as a whole.
    pub(super) process: Rings,
    pub(super) short_gauges: Box<[Gauges]>,
    pub(super) long_gauges: Box<[Gauges]>,
    /// By kind: what objects without points have counted.
    pub(super) others: [Rings; ObjectKind::ALL.len()],
    pub(super) objects: Vec<Tracked>,
    /// Where those with points are, by the hash of their names.
    places: HashMap<u64, usize>,
    idle: HashMap<u64, Idle>,
    hasher: RandomState,
    candidates: Vec<Candidate>,
    /// The lowest score with which an object gets into a full store.
    threshold: f64,
    reading: u64,
    /// By kind: what all had counted at the last reading, and at this one.
    before: [Totals; ObjectKind::ALL.len()],
    now: [Totals; ObjectKind::ALL.len()],
}

impl Default for SeriesStore {
    fn default() -> Self {
        Self {
            short: Timeline::new(STEP, STEPS),
            long: Timeline::new(LONG_STEP, LONG_STEPS),
            process: Rings::new(),
            short_gauges: vec![Gauges::default(); STEPS].into_boxed_slice(),
            long_gauges: vec![Gauges::default(); LONG_STEPS].into_boxed_slice(),
            others: [Rings::new(), Rings::new(), Rings::new()],
            objects: Vec::new(),
            places: HashMap::new(),
            idle: HashMap::new(),
            hasher: RandomState::new(),
            candidates: Vec::new(),
            threshold: 0.0,
            reading: 1,
            before: Default::default(),
            now: Default::default(),
        }
    }
}

impl SeriesStore {
    /// Begins a reading: what things have counted that are no more, by kind.
    pub fn begin(&mut self, gone: [Totals; ObjectKind::ALL.len()]) {
        self.reading += 1;
        self.now = gone;
        self.candidates.clear();
        self.objects.iter_mut().for_each(|tracked| tracked.more = Totals::default());
    }

    /// One thing of the reading.
    pub fn see(&mut self, object: Object<'_>, totals: &Totals) {
        self.now[object.kind as usize].merge(totals);
        let hash = self.hasher.hash_one(object);
        if let Some(tracked) = self.places.get(&hash).and_then(|at| self.objects.get_mut(*at)) {
            tracked.more = totals.since(&tracked.before);
            tracked.before = *totals;
            tracked.seen = self.reading;
            return;
        }
        if totals.is_blank() || object.name == OTHER || object.name.len() + object.service.len() > NAME {
            return;
        }
        let seen = self.reading as u32;
        let before = self.idle.get(&hash).copied();
        let requests = totals.requests.saturating_sub(before.map_or(0, |before| before.requests));
        if self.objects.len() < OBJECTS {
            // Of one that was read without points only its requests are known: what it counts now is in `_other`.
            let more = if before.is_none() { *totals } else { Totals::default() };
            self.idle.remove(&hash);
            self.track(object, hash, (*totals, more));
            return;
        }
        let score = f64::from(before.map_or(0.0, |before| before.score)) * KEPT + requests as f64;
        self.idle.insert(hash, Idle { requests: totals.requests, score: score as f32, seen });
        if score > self.threshold && self.candidates.len() < SWAPS {
            let (service, name) = (object.service.into(), object.name.into());
            self.candidates.push(Candidate { kind: object.kind, service, name, totals: *totals, score });
        }
    }

    /// Gives an object points.
    pub(super) fn track(&mut self, object: Object<'_>, hash: u64, (before, more): (Totals, Totals)) {
        self.places.insert(hash, self.objects.len());
        self.objects.push(Tracked {
            kind: object.kind,
            service: object.service.into(),
            name: object.name.into(),
            rings: Rings::new(),
            before,
            more,
            score: 0.0,
            seen: self.reading,
            busy: self.short.head,
        });
    }

    pub(super) fn hash(&self, object: Object<'_>) -> u64 {
        self.hasher.hash_one(object)
    }

    /// Ends a reading: what was seen becomes points.
    ///
    /// It is counted in the step in which the middle of the time since the last reading lies, so that a reading shortly
    /// after the end of a step belongs to that one.
    pub fn commit(&mut self, sample: &Sample) {
        let middle = sample.unix_ms.saturating_sub(sample.elapsed_ms.min(STEP * 1_000) / 2);
        let places = self.turn_to(self.short.step_of(middle), self.long.step_of(middle));
        let head = self.short.head;
        let mut others = [Totals::default(); ObjectKind::ALL.len()];
        for (kind, other) in others.iter_mut().enumerate() {
            *other = self.now[kind].less(&self.before[kind]);
            self.before[kind] = self.before[kind].most(&self.now[kind]);
        }
        self.process.add(places, &others[ObjectKind::Route as usize]);
        for tracked in &mut self.objects {
            if tracked.seen != self.reading {
                // It is gone; should there be one of its name again, it counts anew.
                tracked.before = Totals::default();
            }
            tracked.score = tracked.score * KEPT + tracked.more.requests as f64;
            if !tracked.more.is_blank() {
                tracked.busy = head;
                tracked.rings.add(places, &tracked.more);
                let other = &mut others[tracked.kind as usize];
                *other = other.less(&tracked.more);
            }
        }
        for (rings, other) in self.others.iter_mut().zip(&others) {
            rings.add(places, other);
        }
        self.note_gauges(places, sample.gauges);
        self.swap();
        self.forget();
    }

    /// Turns all rings; gives the places of the newest steps.
    pub(super) fn turn_to(&mut self, short: u64, long: u64) -> (usize, usize) {
        let went_back = short < self.short.head && self.short.filled > 0;
        let (short, long) = (self.short.turn_to(short), self.long.turn_to(long));
        let short_blank: Vec<usize> = (0..short).map(|age| self.short.place(age)).collect();
        let long_blank: Vec<usize> = (0..long).map(|age| self.long.place(age)).collect();
        let rings = self.objects.iter_mut().map(|tracked| &mut tracked.rings);
        for rings in rings.chain(&mut self.others).chain([&mut self.process]) {
            short_blank.iter().for_each(|at| rings.short[*at] = Point::default());
            long_blank.iter().for_each(|at| rings.long[*at] = Point::default());
        }
        short_blank.iter().for_each(|at| self.short_gauges[*at] = Gauges::default());
        long_blank.iter().for_each(|at| self.long_gauges[*at] = Gauges::default());
        if went_back {
            let head = self.short.head;
            self.objects.iter_mut().for_each(|tracked| tracked.busy = tracked.busy.min(head));
        }
        (self.short.newest(), self.long.newest())
    }

    fn note_gauges(&mut self, (short, long): (usize, usize), gauges: Gauges) {
        let most =
            |before: &Gauges| Gauges { saturation: gauges.saturation.max(before.saturation), ..gauges };
        self.short_gauges[short] = most(&self.short_gauges[short]);
        self.long_gauges[long] = most(&self.long_gauges[long]);
    }

    /// Lets the busiest objects without points take the places of those that are much less busy.
    fn swap(&mut self) {
        if self.objects.len() < OBJECTS {
            self.threshold = 0.0;
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by(|a, b| self.objects[*a].score.total_cmp(&self.objects[*b].score));
        let mut lowest = order.into_iter();
        let mut next = lowest.next();
        for candidate in candidates {
            let Some(at) = next.filter(|at| candidate.score > 2.0 * self.objects[*at].score) else { break };
            self.replace(at, candidate);
            next = lowest.next();
        }
        self.threshold = next.map_or(0.0, |at| 2.0 * self.objects[at].score);
    }

    fn replace(&mut self, at: usize, new: Candidate) {
        let old = &mut self.objects[at];
        self.others[old.kind as usize].merge(&old.rings);
        let hash = self.hasher.hash_one(old.object());
        self.places.remove(&hash);
        if old.seen == self.reading {
            let (requests, score) = (old.before.requests, old.score as f32);
            self.idle.insert(hash, Idle { requests, score, seen: self.reading as u32 });
        }
        let object = Object { kind: new.kind, service: &new.service, name: &new.name };
        let hash = self.hasher.hash_one(object);
        self.idle.remove(&hash);
        self.places.insert(hash, at);
        self.objects[at] = Tracked {
            kind: new.kind,
            rings: Rings::new(),
            before: new.totals,
            more: Totals::default(),
            score: new.score,
            seen: self.reading,
            busy: self.short.head,
            service: new.service,
            name: new.name,
        };
    }

    /// Forgets what was not read any more: counts at once, points when the last of them is a day old.
    fn forget(&mut self) {
        let seen = self.reading as u32;
        self.idle.retain(|_, idle| idle.seen == seen);
        let day = LONG_STEP * LONG_STEPS as u64 / STEP;
        let (head, reading) = (self.short.head, self.reading);
        let before = self.objects.len();
        self.objects.retain(|tracked| tracked.seen == reading || tracked.busy + day > head);
        if self.objects.len() != before {
            let places = self.objects.iter().enumerate();
            self.places = places.map(|(at, tracked)| (self.hasher.hash_one(tracked.object()), at)).collect();
        }
    }
}
