//! Fills that go to a second tier: one that writes when it is told, and random leaders and readers.

use super::*;
use crate::body::{Chunk, Piece};
use crate::limits::{MOST_SPILL_READERS, SPILL_AHEAD, SPILL_WINDOW};
use crate::spill::{Progress, Spill, SpillRead, Spilled, Spills};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

/// The largest object in memory.
const LARGEST: u64 = 300_000;

/// A second tier in memory.
#[derive(Clone, Default)]
struct Tier(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Chunk>,
    written: Vec<u8>,
    progress: Option<Progress>,
    declared: Option<u64>,
    is_finished: bool,
    is_abandoned: bool,
    /// It has no room.
    refuses: bool,
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tier")
    }
}

impl Spills for Tier {
    fn begin(&self, response: &Spilled<'_>, progress: Progress) -> Option<Arc<dyn Spill>> {
        let mut inner = self.0.lock().unwrap();
        assert!(response.key.starts_with(response.url));
        (inner.progress, inner.declared) = (Some(progress), response.length);
        (!inner.refuses).then(|| Arc::new(self.clone()) as Arc<dyn Spill>)
    }
}

impl Spill for Tier {
    fn push(&self, chunk: Chunk) {
        let mut inner = self.0.lock().unwrap();
        assert!(!inner.is_finished && !inner.is_abandoned);
        assert!(inner.waiting.back().is_none_or(|last| last.len() == CHUNK), "only the last is shorter");
        inner.waiting.push_back(chunk);
    }

    fn finish(&self) {
        self.0.lock().unwrap().is_finished = true;
    }

    fn abandon(&self) {
        self.0.lock().unwrap().is_abandoned = true;
    }

    fn read(&self, from: u64, upto: u64) -> Option<Box<dyn SpillRead>> {
        assert!(upto <= self.0.lock().unwrap().written.len() as u64 && from < upto);
        Some(Box::new(TierRead { tier: self.clone(), at: from as usize, upto: upto as usize }))
    }
}

#[derive(Debug)]
struct TierRead {
    tier: Tier,
    at: usize,
    upto: usize,
}

impl SpillRead for TierRead {
    fn poll_piece(&mut self, _context: &Context<'_>) -> Poll<Result<Option<Piece>, Broken>> {
        let end = (self.at + 10_000).min(self.upto);
        let bytes = self.tier.0.lock().unwrap().written[self.at..end].to_vec();
        self.at = end;
        Poll::Ready(Ok((!bytes.is_empty()).then(|| Piece::of(bytes.into(), 0))))
    }
}

impl Tier {
    /// Writes a chunk; false: none waits.
    fn write(&self) -> bool {
        let mut inner = self.0.lock().unwrap();
        let Some(chunk) = inner.waiting.pop_front() else { return false };
        inner.written.extend_from_slice(&chunk);
        let (progress, written) = (inner.progress.take().unwrap(), inner.written.len() as u64);
        drop(inner);
        progress.written(written);
        self.0.lock().unwrap().progress = Some(progress);
        true
    }

    fn tell(&self, tell: impl FnOnce(&Progress)) {
        let progress = self.0.lock().unwrap().progress.take().unwrap();
        tell(&progress);
        self.0.lock().unwrap().progress = Some(progress);
    }
}

fn small() -> Store {
    Store::new(Limits { largest: LARGEST, ..Limits::of(LEAST_BYTES) }).unwrap()
}

fn spilling(store: &Store, path: &str, length: Option<u64>) -> (Lead, Tier) {
    let (mut lead, tier) = (lead(store, path), Tier::default());
    lead.spill_to(Box::new(tier.clone()));
    assert!(lead.give_head(Arc::new(head("")), b"", length));
    (lead, tier)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u32).map(|number| (number % 251 + number / 65_521) as u8).collect()
}

#[test]
fn what_is_too_large_goes_to_the_second_tier_and_is_followed_until_it_is_there() {
    for declared in [true, false] {
        let (store, body) = (small(), bytes(3_000_000));
        let old = store.put(&key("/a"), b"", head(""), crate::Body::copy_of(b"old")).unwrap();
        store.remove_object(&old);
        let (mut lead, tier) = spilling(&store, "/a", declared.then_some(body.len() as u64));
        let mut first = lead.reader().unwrap();
        for part in body.chunks(70_001) {
            while lead.poll_room(&context()).is_pending() {
                assert!(tier.write());
            }
            lead.append(part).unwrap();
            let most = LARGEST + (SPILL_WINDOW + SPILL_AHEAD + 4 * CHUNK) as u64;
            assert!(store.counts().fill_bytes < most, "{}", store.counts().fill_bytes);
        }
        // One who comes now reads from the front, and the first one has not begun.
        let mut late = follow(&store, "/a");
        assert!(lead.is_stored_when_complete() && lead.finish().unwrap().is_none());
        let mut last = follow(&store, "/a");
        while tier.write() {}
        assert!(tier.0.lock().unwrap().is_finished && tier.0.lock().unwrap().written == body);
        tier.tell(Progress::stored);
        assert!(matches!(claim(&store, "/a"), Claim::Lead(_)), "it is found elsewhere");
        for reader in [&mut first, &mut late, &mut last] {
            let (read, end) = drain(reader);
            assert!(read == body && end == Poll::Ready(Ok(())));
        }
        assert_eq!((store.counts().spilled, store.counts().rejected), (1, 0));
        drop((first, late, last));
        assert_eq!(
            (store.counts().fill_bytes, store.inner.spilling.load(std::sync::atomic::Ordering::SeqCst)),
            (0, 0)
        );
    }
}

#[test]
fn a_larger_response_takes_the_place_of_one_in_memory() {
    let store = small();
    let (mut lead, tier) = spilling(&store, "/a", Some(1_000_000));
    store.put(&key("/a"), b"", head(""), crate::Body::copy_of(b"old")).unwrap();
    lead.append(&bytes(1_000_000)).unwrap();
    lead.finish().unwrap();
    assert!(!is_stored(&store, "/a") && tier.0.lock().unwrap().is_finished);
}

#[test]
fn the_leader_waits_for_the_second_tier_and_for_no_reader() {
    let store = small();
    let (mut lead, tier) = spilling(&store, "/a", Some(10_000_000));
    let _slow = lead.reader().unwrap();
    let (woken, waker) = Woken::new();
    lead.append(&vec![0; SPILL_AHEAD + CHUNK]).unwrap();
    assert!(lead.poll_room(&Context::from_waker(&waker)).is_pending());
    while tier.write() {}
    assert!(woken.times() > 0 && lead.poll_room(&context()).is_ready());
    // Where it fails, the reader is waited for.
    lead.append(&vec![0; SPILL_AHEAD + CHUNK]).unwrap();
    assert!(lead.poll_room(&Context::from_waker(&waker)).is_pending());
    let before = woken.times();
    tier.tell(Progress::failed);
    assert!(woken.times() > before && !lead.is_stored_when_complete());
    assert!(lead.poll_room(&Context::from_waker(&waker)).is_pending());
    drop(_slow);
    assert!(lead.poll_room(&context()).is_ready() && !lead.is_wanted());
}

#[test]
fn without_room_there_what_is_too_large_is_not_stored() {
    let store = small();
    let (mut one, tier) = (lead(&store, "/a"), Tier::default());
    tier.0.lock().unwrap().refuses = true;
    one.spill_to(Box::new(tier));
    assert!(!one.give_head(Arc::new(head("")), b"", Some(1_000_000)));
    // So many at one time.
    let all: Vec<_> = (0..store.limits().spills())
        .map(|number| spilling(&store, &format!("/{number}"), Some(1_000_000)))
        .collect();
    let mut more = lead(&store, "/more");
    more.spill_to(Box::new(Tier::default()));
    assert!(!more.give_head(Arc::new(head("")), b"", Some(1_000_000)));
    drop(all);
    // More than the configuration allows.
    let mut bound = lead(&store, "/bound");
    bound.bound(500_000);
    bound.spill_to(Box::new(Tier::default()));
    assert!(!bound.give_head(Arc::new(head("")), b"", Some(500_001)));
    let (growing, tier) = spilling(&store, "/growing", None);
    let mut growing = growing;
    growing.bound(500_000);
    growing.append(&bytes(500_000)).unwrap();
    assert!(growing.is_stored_when_complete() && !tier.0.lock().unwrap().is_abandoned);
    growing.append(b"x").unwrap();
    assert!(!growing.is_stored_when_complete() && tier.0.lock().unwrap().is_abandoned);
}

#[test]
fn what_breaks_off_or_is_purged_is_not_stored_there() {
    for is_purged in [false, true] {
        let (store, body) = (small(), bytes(1_000_000));
        let (mut lead, tier) = spilling(&store, "/a", Some(body.len() as u64));
        let mut reader = lead.reader().unwrap();
        lead.append(&body[..900_000]).unwrap();
        while tier.write() {}
        if is_purged {
            store.purge(&Select::default(), How::Remove);
            assert!(matches!(claim(&store, "/a"), Claim::Lead(_)));
            lead.append(&body[900_000..]).unwrap();
            lead.finish().unwrap();
        } else {
            lead.fail(Broken::Failed);
        }
        let (read, end) = drain(&mut reader);
        let (expected, length) = match is_purged {
            true => (Ok(()), body.len()),
            false => (Err(Broken::Failed), 900_000),
        };
        assert!(read == body[..length] && end == Poll::Ready(expected));
        let inner = tier.0.lock().unwrap();
        assert!(inner.is_abandoned && !inner.is_finished);
    }
}

#[test]
fn a_crowd_of_readers_is_bounded() {
    let store = small();
    let (lead, _tier) = spilling(&store, "/a", Some(1_000_000));
    let readers: Vec<_> = (0..MOST_SPILL_READERS).map(|_| follow(&store, "/a")).collect();
    assert!(matches!(claim(&store, "/a"), Claim::Pass(Pass::Crowded)));
    drop((lead, readers));
}

/// A leader, a second tier and readers take their turns at random.
fn play(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (store, body) = (small(), bytes(random.usize(LARGEST as usize + 1..4_000_000)));
    let (mut lead, tier) = spilling(&store, "/a", random.bool().then_some(body.len() as u64));
    let mut readers: Vec<(usize, Reader)> = vec![(0, lead.reader().unwrap())];
    let (mut written, mut has_failed) = (0, false);
    // What the second tier is to do when all is over.
    let fails_at = random.bool().then(|| random.usize(..body.len()));
    while written < body.len() {
        match random.u32(..10) {
            0..4 if lead.poll_room(&context()).is_ready() => {
                let more = [1, 500, 5000, CHUNK, 200_000][random.usize(..5)].min(body.len() - written);
                lead.append(&body[written..written + more]).unwrap();
                written += more;
            }
            0..6 if !has_failed => drop(tier.write()),
            6 if readers.len() < 20 && !has_failed => readers.push((0, follow(&store, "/a"))),
            _ => {
                let (position, reader) = random.choice(&mut readers).unwrap();
                let steps = random.usize(1..60);
                step(&body, reader, position, steps);
            }
        }
        let has_begun = tier.0.lock().unwrap().progress.is_some();
        if has_begun && fails_at.is_some_and(|at| at < written) && !std::mem::replace(&mut has_failed, true) {
            // Before the next turn of the leader, as another thread would.
            tier.tell(Progress::failed);
        }
    }
    lead.finish().unwrap();
    while !has_failed && tier.write() {}
    for (position, reader) in &mut readers {
        step(&body, reader, position, usize::MAX);
        assert_eq!(*position, body.len(), "{seed}");
        assert!(matches!(reader.poll_piece(&context()), Poll::Ready(Ok(None))));
    }
    let inner = tier.0.lock().unwrap();
    assert_eq!(inner.is_finished, !has_failed);
    assert!(has_failed || inner.written == body);
}

/// Reads some pieces, and compares them.
fn step(body: &[u8], reader: &mut Reader, position: &mut usize, most: usize) {
    for _ in 0..most {
        let Poll::Ready(piece) = reader.poll_piece(&context()) else { return };
        let Some(piece) = piece.unwrap() else { return };
        assert!(body[*position..].starts_with(&piece), "other bytes at {position}");
        *position += piece.len();
    }
}

#[test]
fn readers_get_the_same_bytes_from_memory_and_from_the_second_tier() {
    (0..40).for_each(play);
}
