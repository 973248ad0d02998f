//! Parts that are joined, beside what each version of a representation has at each place.

use crate::limits::{LEAST_BYTES, Limits};
use crate::object::Object;
use crate::purge::{How, Select};
use crate::store::{Choice, Store};
use crate::testing::{THEN, key, lines};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use thalweg_cache::{Policy, Request, Response, StoredHead, UnixMillis};
use thalweg_http::Method;

const TOTAL: u64 = 1000;

fn store() -> Store {
    Store::new(Limits { largest: 2 << 20, ..Limits::of(LEAST_BYTES) }).unwrap()
}

/// How versions are told apart.
#[derive(Clone, Copy, Debug)]
enum Validator {
    Strong,
    Weak,
    None,
    /// `Last-Modified`, long before `Date`.
    Modified,
}

/// What a version has at a place.
fn byte(version: u64, at: u64) -> u8 {
    (at.wrapping_mul(31).wrapping_add(version * 101) % 251) as u8
}

fn validator(version: u64, kind: Validator) -> String {
    match kind {
        Validator::Strong => format!("ETag: \"v{version}\""),
        Validator::Weak => format!("ETag: W/\"v{version}\""),
        Validator::None => String::new(),
        Validator::Modified => format!(
            "Date: Mon, 21 Sep 2026 14:13:20 GMT\nLast-Modified: Mon, 21 Sep 2026 0{version}:00:00 GMT"
        ),
    }
}

/// A response with the whole of a version, or a part of it; it came so many seconds after the first.
fn head(version: u64, kind: Validator, part: Option<&Range<u64>>, later: u64) -> StoredHead {
    let (policy, time) = (Policy::default(), UnixMillis(THEN.0 + later * 1000));
    let fields = format!("Cache-Control: max-age=600\nX-Version: {version}\n{}", validator(version, kind));
    let range = part.map(|part| format!("bytes {}-{}/{TOTAL}", part.start, part.end - 1));
    let (status, asked, fields) = match &range {
        Some(range) => (206, "Range: bytes=0-", format!("{fields}\nContent-Range: {range}")),
        None => (200, "", fields),
    };
    let request = Request::read(Method::Get, false, lines(asked));
    let response = Response::read(&policy, status, (time, time), lines(&fields));
    StoredHead::new(&policy, &request, &response, lines(&fields)).unwrap()
}

/// Fetches a part, or the whole, in pieces of this length.
fn fetch(
    store: &Store,
    (version, kind): (u64, Validator),
    part: Option<Range<u64>>,
    later: u64,
) -> Option<Arc<Object>> {
    let mut lead = store.lead_alone(&key("/a")).unwrap();
    let head = head(version, kind, part.as_ref(), later);
    let range = part.unwrap_or(0..TOTAL);
    assert!(lead.give_head(Arc::new(head), b"", Some(range.end - range.start)));
    let bytes: Vec<u8> = range.map(|at| byte(version, at)).collect();
    for piece in bytes.chunks(300) {
        lead.append(piece).unwrap();
    }
    lead.finish().unwrap()
}

fn stored(store: &Store) -> Option<Arc<Object>> {
    match store.find(&key("/a")).choose(&Policy::default(), lines(""), &mut Vec::new()) {
        Choice::Object(object) => Some(object.clone()),
        Choice::OtherVariants | Choice::Nothing => None,
    }
}

/// Which bytes are there; each is that of the version that the head names.
fn ranges(object: &Object) -> Vec<Range<u64>> {
    let version: u64 = std::str::from_utf8(object.head().get("x-version").unwrap()).unwrap().parse().unwrap();
    let ranges = match object.parts() {
        Some(parts) => parts.ranges().to_vec(),
        None => vec![0..object.body().len()],
    };
    for range in &ranges {
        let mut at = range.start;
        while at < range.end {
            let piece = object.body().piece(at).unwrap();
            for found in piece.iter().take((range.end - at) as usize) {
                assert_eq!(*found, byte(version, at), "{at} of version {version}");
                at += 1;
            }
        }
    }
    assert_eq!(object.head().is_part(), ranges != [0..TOTAL]);
    assert_eq!(object.head().status, if object.head().is_part() { 206 } else { 200 });
    ranges
}

#[test]
fn parts_of_one_version_become_the_whole() {
    let store = store();
    let strong = (1, Validator::Strong);
    assert_eq!(ranges(&fetch(&store, strong, Some(100..200), 0).unwrap()), [100..200]);
    assert_eq!(ranges(&fetch(&store, strong, Some(500..600), 1).unwrap()), [100..200, 500..600]);
    assert_eq!(ranges(&fetch(&store, strong, Some(150..550), 2).unwrap()), [100..600]);
    assert_eq!(ranges(&fetch(&store, strong, Some(0..150), 3).unwrap()), [0..600]);
    let whole = fetch(&store, strong, Some(600..TOTAL), 4).unwrap();
    assert_eq!(ranges(&whole), [0..TOTAL]);
    let even = whole.body().even();
    assert_eq!(even.len(), TOTAL);
    assert_eq!(&*even.piece(0).unwrap(), &(0..TOTAL).map(|at| byte(1, at)).collect::<Vec<_>>()[..]);
    assert_eq!(store.counts().objects, 1);
}

#[test]
fn parts_of_two_versions_are_never_joined() {
    for kind in [Validator::Strong, Validator::Weak, Validator::None, Validator::Modified] {
        let store = store();
        fetch(&store, (1, kind), Some(0..100), 0);
        let joined = fetch(&store, (2, kind), Some(100..200), 1).unwrap();
        assert_eq!(ranges(&joined), [100..200], "{kind:?}");
        let again = fetch(&store, (2, kind), Some(200..300), 2).unwrap();
        let is_joined = matches!(kind, Validator::Strong | Validator::Modified);
        assert_eq!(ranges(&again), [if is_joined { 100..300 } else { 200..300 }], "{kind:?}");
    }
}

#[test]
fn a_part_that_is_older_than_what_is_stored_is_not_kept() {
    let store = store();
    fetch(&store, (2, Validator::Strong), Some(0..100), 10);
    assert!(fetch(&store, (1, Validator::Strong), Some(100..200), 5).is_none());
    assert_eq!(ranges(&stored(&store).unwrap()), [0..100]);
    let joined = fetch(&store, (2, Validator::Strong), Some(100..200), 5).unwrap();
    assert_eq!(joined.head().freshness.received.0, THEN.0 + 10_000, "the head is the newer one");
}

#[test]
fn a_part_never_takes_the_place_of_a_whole() {
    let store = store();
    fetch(&store, (1, Validator::Strong), None, 0);
    for version in [1, 2] {
        assert!(fetch(&store, (version, Validator::Strong), Some(0..100), 1).is_none());
        assert_eq!(ranges(&stored(&store).unwrap()), [0..TOTAL]);
    }
    store.remove(&key("/a"));
    fetch(&store, (1, Validator::Strong), Some(0..100), 0);
    fetch(&store, (2, Validator::Strong), None, 1);
    assert_eq!(ranges(&stored(&store).unwrap()), [0..TOTAL], "a whole takes the place of parts");
}

#[test]
fn a_part_that_is_not_whole_is_not_stored() {
    let store = store();
    for length in [99, 101] {
        let mut lead = store.lead_alone(&key("/a")).unwrap();
        let part = 0..100;
        assert!(lead.give_head(Arc::new(head(1, Validator::Strong, Some(&part), 0)), b"", Some(100)));
        let bytes = vec![0; length];
        let is_whole = lead.append(&bytes).and_then(|()| lead.finish().map(drop));
        assert!(is_whole.is_err(), "{length}");
    }
    assert!(stored(&store).is_none());
}

#[test]
fn a_part_that_is_purged_on_its_way_is_not_stored() {
    let store = store();
    fetch(&store, (1, Validator::Strong), Some(0..100), 0);
    let mut lead = store.lead_alone(&key("/a")).unwrap();
    let part = 100..200;
    assert!(lead.give_head(Arc::new(head(1, Validator::Strong, Some(&part), 0)), b"", Some(100)));
    store.purge(&Select::default(), How::Remove);
    lead.append(&[0; 100]).unwrap();
    assert!(lead.finish().unwrap().is_none());
    assert!(stored(&store).is_none());
}

#[test]
fn what_is_too_much_together_begins_anew() {
    let store = store();
    let mut last = None;
    for number in 0..2 * thalweg_cache::parts::MOST_PARTS as u64 {
        last = fetch(&store, (1, Validator::Strong), Some(number * 5..number * 5 + 2), 0);
    }
    let found = ranges(&last.unwrap());
    assert!(found.len() <= thalweg_cache::parts::MOST_PARTS && !found.contains(&(0..2)), "{found:?}");
    let mut lead = store.lead_alone(&key("/a")).unwrap();
    lead.bound(found.len() as u64 * 2);
    let part = 998..1000;
    assert!(lead.give_head(Arc::new(head(1, Validator::Strong, Some(&part), 0)), b"", Some(2)));
    lead.append(&[byte(1, 998), byte(1, 999)]).unwrap();
    assert_eq!(ranges(&lead.finish().unwrap().unwrap()), [998..1000]);
}

#[test]
fn what_joined_parts_take_is_counted() {
    let store = store();
    let before = store.counts().bytes;
    for number in 0..20 {
        fetch(&store, (number % 3, Validator::Strong), Some(number * 10..number * 10 + 15), number);
    }
    assert_eq!(store.counts().objects, 1);
    store.remove(&key("/a"));
    let after = store.counts().bytes;
    // Tables keep their room.
    assert!(after < before + 4096, "{before} {after}");
}

#[derive(Clone, Debug)]
enum Step {
    Part(u64, Range<u64>),
    Whole(u64),
    Remove,
}

fn step() -> impl Strategy<Value = Step> {
    let part = (1..4_u64, 0..TOTAL, 1..400_u64)
        .prop_map(|(version, start, len)| Step::Part(version, start..(start + len).min(TOTAL)));
    prop_oneof![20 => part, 1 => (1..4_u64).prop_map(Step::Whole), 1 => Just(Step::Remove)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes in whatever order, what is stored has the bytes of the version that it says to be, and as many as
    /// the rules allow.
    #[test]
    fn stored_parts_agree_with_a_model(steps in prop::collection::vec((step(), 0..50_u64, 0..8_u8), 1..60)) {
        let store = store();
        // Version, when it came, and which bytes are there.
        let mut model: Option<(u64, u64, bool, Vec<bool>)> = None;
        for (step, later, weak) in steps {
            let kind = if weak == 0 { Validator::Weak } else { Validator::Strong };
            match step {
                Step::Remove => {
                    store.remove(&key("/a"));
                    model = None;
                }
                Step::Whole(version) => {
                    fetch(&store, (version, kind), None, later);
                    model = Some((version, later, weak != 0, vec![true; TOTAL as usize]));
                }
                Step::Part(version, range) => {
                    fetch(&store, (version, kind), Some(range.clone()), later);
                    let mut own = vec![false; TOTAL as usize];
                    own[range.start as usize..range.end as usize].fill(true);
                    model = Some(match model.take() {
                        Some(old) if old.3.iter().all(|there| *there) => old,
                        Some((known, time, strong, mut bytes)) if known == version && strong && weak != 0 => {
                            bytes.iter_mut().zip(own).for_each(|(known, own)| *known |= own);
                            (version, time.max(later), true, bytes)
                        }
                        Some(old) if old.1 > later => old,
                        _ => (version, later, weak != 0, own),
                    });
                }
            }
            let found = stored(&store);
            prop_assert_eq!(found.is_some(), model.is_some());
            if let (Some(found), Some((version, time, _, bytes))) = (found, &model) {
                let mut there = vec![false; TOTAL as usize];
                for range in ranges(&found) {
                    there[range.start as usize..range.end as usize].fill(true);
                }
                prop_assert_eq!(&there, bytes);
                let named = version.to_string();
                prop_assert_eq!(found.head().get("x-version"), Some(named.as_bytes()));
                prop_assert_eq!(found.head().freshness.received.0, THEN.0 + time * 1000);
            }
        }
    }
}
