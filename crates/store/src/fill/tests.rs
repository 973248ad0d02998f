//! Fills: leaders, readers at their own pace, and what breaks.

use crate::body::CHUNK;
use crate::claim::{Claim, Pass};
use crate::lead::{Lead, Unfinished};
use crate::limits::{LEAST_BYTES, Limits, WINDOW};
use crate::purge::{How, Select};
use crate::reader::{Alone, Broken, Reader, Seen};
use crate::store::{Choice, Store, Stored};
use crate::testing::{THEN, Woken, head, key, lines};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use thalweg_cache::{NotStored, Policy, UnixMillis};

mod spill;
mod stress;

fn store() -> Store {
    Store::new(Limits { largest: 2 << 20, ..Limits::of(LEAST_BYTES) }).unwrap()
}

fn claim(store: &Store, path: &str) -> Claim {
    store.claim(&key(path), b"", &store.find(&key(path)), THEN)
}

fn lead(store: &Store, path: &str) -> Lead {
    match claim(store, path) {
        Claim::Lead(lead) => lead,
        other => panic!("{other:?}"),
    }
}

fn follow(store: &Store, path: &str) -> Reader {
    match claim(store, path) {
        Claim::Follow(reader) => reader,
        other => panic!("{other:?}"),
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// What a reader has got, up to what is not there yet.
fn drain(reader: &mut Reader) -> (Vec<u8>, Poll<Result<(), Broken>>) {
    let mut read = Vec::new();
    loop {
        match reader.poll_piece(&context()) {
            Poll::Ready(Ok(Some(piece))) => read.extend_from_slice(&piece),
            Poll::Ready(Ok(None)) => return (read, Poll::Ready(Ok(()))),
            Poll::Ready(Err(why)) => return (read, Poll::Ready(Err(why))),
            Poll::Pending => return (read, Poll::Pending),
        }
    }
}

fn seen(reader: &mut Reader) -> Option<Seen> {
    match reader.poll_head(&context()) {
        Poll::Ready(seen) => Some(seen),
        Poll::Pending => None,
    }
}

fn alone(reader: &mut Reader) -> Option<Alone> {
    match seen(reader) {
        Some(Seen::Alone(why)) => Some(why),
        _ => None,
    }
}

fn is_stored(store: &Store, path: &str) -> bool {
    !matches!(store.find(&key(path)), Stored::Nothing)
}

#[test]
fn those_who_come_later_follow_the_first() {
    let store = store();
    let mut lead = lead(&store, "/a");
    let (mut first, mut second) = (follow(&store, "/a"), follow(&store, "/a"));
    assert!(seen(&mut first).is_none());
    assert!(lead.give_head(Arc::new(head("a: 1")), b"", Some(10)));
    assert!(matches!(seen(&mut first), Some(Seen::Response(given)) if given.length == Some(10)));
    lead.append(b"01234").unwrap();
    assert_eq!(drain(&mut first), (b"01234".to_vec(), Poll::Pending));
    lead.append(b"567").unwrap();
    assert_eq!(drain(&mut first), (b"567".to_vec(), Poll::Pending));
    assert!(!is_stored(&store, "/a"), "it is not complete");
    lead.append(b"89").unwrap();
    let object = lead.finish().unwrap().unwrap();
    assert_eq!(drain(&mut first), (b"89".to_vec(), Poll::Ready(Ok(()))));
    assert_eq!(drain(&mut second), (b"0123456789".to_vec(), Poll::Ready(Ok(()))));
    let stored = store.find(&key("/a"));
    let Choice::Object(found) = stored.choose(&Policy::default(), lines(""), &mut Vec::new()) else {
        panic!("nothing is stored");
    };
    assert!(Arc::ptr_eq(found, &object));
    assert_eq!(object.body().chunks().len(), 1, "one piece, in however many it came");
    let counts = store.counts();
    assert_eq!((counts.filling, counts.fills, counts.objects), (0, 1, 1));
    drop((first, second));
    assert_eq!(store.counts().fill_bytes, 0);
}

#[test]
fn who_has_not_seen_what_is_stored_looks_again() {
    let store = store();
    let seen = store.find(&key("/a"));
    let mut lead = lead(&store, "/a");
    lead.give_head(Arc::new(head("")), b"", None);
    lead.finish().unwrap();
    assert!(matches!(store.claim(&key("/a"), b"", &seen, THEN), Claim::Look));
    assert!(matches!(claim(&store, "/a"), Claim::Lead(_)), "to validate it");
}

#[test]
fn variants_that_are_known_apart_are_filled_apart() {
    let store = store();
    let of = |variant: &[u8]| store.claim(&key("/a"), variant, &Stored::Nothing, THEN);
    let (one, two) = (of(b"1"), of(b"2"));
    assert!(matches!((&one, &two), (Claim::Lead(_), Claim::Lead(_))));
    assert!(matches!(of(b"2"), Claim::Follow(_)));
}

#[test]
fn a_reader_goes_wherever_it_wants() {
    let store = store();
    let mut lead = lead(&store, "/a");
    let bytes: Vec<u8> = (0..3 * CHUNK + 100).map(|number| (number % 249) as u8).collect();
    lead.give_head(Arc::new(head("")), b"", None);
    let mut reader = follow(&store, "/a");
    for part in bytes[..CHUNK + 50].chunks(1000) {
        lead.append(part).unwrap();
        assert_eq!(drain(&mut reader).0, part, "at once");
    }
    reader.seek(CHUNK as u64 + 20);
    assert_eq!(drain(&mut reader).0, &bytes[CHUNK + 20..CHUNK + 50]);
    reader.seek(2 * CHUNK as u64);
    assert_eq!(drain(&mut reader), (vec![], Poll::Pending), "it is not there yet");
    lead.append(&bytes[CHUNK + 50..]).unwrap();
    assert_eq!(drain(&mut reader).0, &bytes[2 * CHUNK..]);
    reader.seek(7);
    let mut other = reader.another().unwrap();
    let object = lead.finish().unwrap().unwrap();
    assert_eq!(drain(&mut other), (bytes[7..].to_vec(), Poll::Ready(Ok(()))));
    let lengths: Vec<_> = object.body().chunks().iter().map(|chunk| chunk.len()).collect();
    assert_eq!(lengths, [CHUNK, CHUNK, CHUNK, 100], "stored in whole chunks");
    reader.seek(u64::MAX);
    assert_eq!(drain(&mut reader), (vec![], Poll::Ready(Ok(()))));
}

#[test]
fn a_leader_that_is_dropped_leaves_a_broken_response() {
    let store = store();
    let mut lead = lead(&store, "/a");
    let (mut before, mut early) = (follow(&store, "/a"), follow(&store, "/a"));
    lead.give_head(Arc::new(head("")), b"", None);
    lead.append(b"abc").unwrap();
    assert!(matches!(seen(&mut early), Some(Seen::Response(_))));
    drop(lead);
    assert_eq!(drain(&mut early), (b"abc".to_vec(), Poll::Ready(Err(Broken::LeaderGone))));
    assert_eq!(alone(&mut before), Some(Alone::Broken(Broken::LeaderGone)), "it has sent nothing yet");
    assert!(!is_stored(&store, "/a"));
    assert_eq!((store.counts().broken, store.counts().filling), (1, 0));
    assert!(matches!(claim(&store, "/a"), Claim::Lead(_)), "the next one tries again");
}

#[test]
fn a_body_has_the_length_that_was_declared() {
    let store = store();
    let mut short = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    short.give_head(Arc::new(head("")), b"", Some(4));
    short.append(b"abc").unwrap();
    assert_eq!(short.finish().unwrap_err(), Unfinished::TooShort);
    assert_eq!(drain(&mut reader), (b"abc".to_vec(), Poll::Ready(Err(Broken::Length))));
    let mut long = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    long.give_head(Arc::new(head("")), b"", Some(4));
    assert_eq!(long.append(b"abcde"), Err(Unfinished::TooLong));
    assert_eq!(long.finish().unwrap_err(), Unfinished::TooLong);
    assert_eq!(drain(&mut reader), (vec![], Poll::Ready(Err(Broken::Length))));
    assert_eq!(lead(&store, "/a").finish().unwrap_err(), Unfinished::NoHead);
    assert!(!is_stored(&store, "/a"));
    assert_eq!(store.counts().broken, 3);
}

#[test]
fn what_is_not_to_be_stored_is_not_waited_for() {
    let store = store();
    let until = UnixMillis(THEN.0 + 5000);
    let lead = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    lead.not_stored(NotStored::Private, Some(until));
    assert_eq!(alone(&mut reader), Some(Alone::NotStored(NotStored::Private)));
    assert!(matches!(claim(&store, "/a"), Claim::Pass(Pass::NotStored)));
    assert!(matches!(claim(&store, "/b"), Claim::Lead(_)));
    let mut alone = store.lead_alone(&key("/a")).unwrap();
    alone.give_head(Arc::new(head("")), b"", None);
    assert!(alone.finish().unwrap().is_some(), "one that may be stored is");
    let late = store.claim(&key("/a"), b"", &store.find(&key("/a")), until);
    assert!(matches!(late, Claim::Lead(_)));
}

#[test]
fn what_is_declared_too_large_is_not_waited_for() {
    let store = store();
    let mut lead = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    assert!(!lead.give_head(Arc::new(head("")), b"", Some((2 << 20) + 1)));
    assert_eq!(alone(&mut reader), Some(Alone::TooLarge));
    assert_eq!((store.counts().filling, store.counts().broken), (0, 0));
}

#[test]
fn a_purge_during_a_fill_lets_it_not_be_stored() {
    type Purge = fn(&Store) -> u64;
    let purges: [Purge; 4] = [
        |store| store.remove(&key("/a")),
        |store| store.remove_url(key("/a").url()),
        |store| store.purge(&Select { host: Some(b"example.com"), ..Select::default() }, How::Remove),
        |store| store.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::MakeStale(THEN)),
    ];
    for (number, purge) in purges.iter().enumerate() {
        let store = store();
        let mut lead = lead(&store, "/a");
        let mut reader = follow(&store, "/a");
        lead.give_head(Arc::new(head("cache-tag: t")), b"", None);
        lead.append(b"abc").unwrap();
        purge(&store);
        assert!(!lead.is_stored_when_complete() && lead.is_wanted());
        let after = claim(&store, "/a");
        assert!(matches!(after, Claim::Lead(_)), "{number}: who comes later gets what is new");
        assert!(lead.finish().unwrap().is_none());
        assert_eq!(drain(&mut reader), (b"abc".to_vec(), Poll::Ready(Ok(()))), "who waits gets it");
        assert!(!is_stored(&store, "/a"));
        drop((reader, after));
        assert_eq!((store.counts().rejected, store.counts().fill_bytes), (1, 0));
    }
}

#[test]
fn a_purge_by_tag_takes_fills_that_may_have_it() {
    let store = store();
    let select = Select { tag: Some(b"t"), ..Select::default() };
    let (mut other, unknown) = (lead(&store, "/other"), lead(&store, "/unknown"));
    other.give_head(Arc::new(head("cache-tag: u")), b"", None);
    store.purge(&select, How::Remove);
    assert!(other.is_stored_when_complete() && !unknown.is_stored_when_complete());
}

#[test]
fn a_validation_answers_all_who_wait_for_it() {
    let store = store();
    let mut first = lead(&store, "/a");
    first.give_head(Arc::new(head("a: 1")), b"", None);
    let old = first.finish().unwrap().unwrap();
    let second = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    let new = second.freshen(&old, head("a: 2"));
    assert!(matches!(seen(&mut reader), Some(Seen::Object(object)) if Arc::ptr_eq(&object, &new)));
    let stale = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    stale.answer_with(new.clone());
    assert!(matches!(seen(&mut reader), Some(Seen::Object(object)) if Arc::ptr_eq(&object, &new)));
}

#[test]
fn one_that_becomes_too_large_keeps_a_window_for_its_readers() {
    let store = Store::new(Limits { largest: 400_000, ..Limits::of(LEAST_BYTES) }).unwrap();
    let mut lead = lead(&store, "/a");
    lead.give_head(Arc::new(head("")), b"", None);
    let (mut fast, mut slow) = (lead.reader().unwrap(), follow(&store, "/a"));
    let part: Vec<u8> = (0..50_000_u32).map(|number| (number % 253) as u8).collect();
    let (woken, waker) = Woken::new();
    let context = Context::from_waker(&waker);
    let (mut written, mut of_fast, mut of_slow) = (0, 0, 0);
    for _ in 0..200 {
        if lead.poll_room(&context).is_pending() {
            assert_eq!(drain(&mut slow).0.len() + of_slow, written);
            of_slow = written;
            assert!(woken.times() > 0, "the leader is woken when there is room");
            assert!(lead.poll_room(&context).is_ready());
        }
        lead.append(&part).unwrap();
        written += part.len();
        of_fast += drain(&mut fast).0.len();
        assert!(store.counts().fill_bytes < 400_000 + 2 * WINDOW as u64);
    }
    assert_eq!(of_fast, written);
    assert!(lead.reader().is_none() && matches!(claim(&store, "/a"), Claim::Lead(_)));
    assert!(!lead.is_stored_when_complete() && lead.is_wanted());
    fast.seek(0);
    assert_eq!(drain(&mut fast), (vec![], Poll::Ready(Err(Broken::Behind))));
    assert!(lead.finish().unwrap().is_none());
    assert_eq!(of_slow + drain(&mut slow).0.len(), written);
    assert!(!is_stored(&store, "/a"));
}

#[test]
fn one_that_is_behind_is_let_go_of_where_it_holds_up_others() {
    let store = store();
    let mut lead = lead(&store, "/large");
    let (mut slow, mut fast) = (lead.reader().unwrap(), follow(&store, "/large"));
    assert!(lead.give_head(Arc::new(head("")), b"", None));
    let piece = vec![1; 64 * 1024];
    let mut written = 0;
    while lead.poll_room(&context()).is_ready() {
        lead.append(&piece).unwrap();
        written += piece.len();
    }
    // As long as nobody waits for more, it is as slow as it likes.
    lead.let_go();
    assert!(lead.poll_room(&context()).is_pending());
    assert_eq!(drain(&mut fast).0.len(), written);
    assert!(lead.poll_room(&context()).is_pending(), "the slow one holds it up");
    lead.let_go();
    assert!(lead.poll_room(&context()).is_ready());
    for _ in 0..8 {
        lead.append(&piece).unwrap();
        assert_eq!(drain(&mut fast), (piece.clone(), Poll::Pending));
        assert!(lead.poll_room(&context()).is_ready());
    }
    assert_eq!(drain(&mut slow), (Vec::new(), Poll::Ready(Err(Broken::Behind))));
    assert!(matches!(lead.finish(), Ok(None)));
    assert_eq!(drain(&mut fast), (Vec::new(), Poll::Ready(Ok(()))));
}

#[test]
fn nobody_is_waited_for_who_has_gone() {
    let store = Store::new(Limits { largest: 1000, ..Limits::of(LEAST_BYTES) }).unwrap();
    let mut lead = lead(&store, "/a");
    lead.give_head(Arc::new(head("")), b"", None);
    let slow = follow(&store, "/a");
    let (woken, waker) = Woken::new();
    lead.append(&[0; 2 * WINDOW]).unwrap();
    assert!(lead.poll_room(&Context::from_waker(&waker)).is_pending());
    drop(slow);
    assert_eq!(woken.times(), 1);
    assert!(lead.poll_room(&Context::from_waker(&waker)).is_ready());
    assert!(!lead.is_wanted(), "nobody reads it, and it is not stored");
    lead.append(&[0; 2 * WINDOW]).unwrap();
    assert!(store.counts().fill_bytes < 10_000);
}

#[test]
fn a_reader_is_registered_once() {
    let store = store();
    let mut lead = lead(&store, "/a");
    let mut reader = follow(&store, "/a");
    let (woken, waker) = Woken::new();
    for _ in 0..5 {
        assert!(reader.poll_head(&Context::from_waker(&waker)).is_pending());
    }
    lead.give_head(Arc::new(head("")), b"", None);
    assert_eq!(woken.times(), 1);
    lead.append(b"a").unwrap();
    assert_eq!(woken.times(), 1, "it does not wait");
    let (other, replaced) = Woken::new();
    assert_eq!(drain(&mut reader).0, b"a");
    assert!(reader.poll_piece(&Context::from_waker(&waker)).is_pending());
    assert!(reader.poll_piece(&Context::from_waker(&replaced)).is_pending());
    lead.fail(Broken::Failed);
    assert_eq!((woken.times(), other.times()), (1, 1), "the last waker counts");
}

#[test]
fn crumbs_take_no_more_memory_than_others() {
    let store = store();
    let mut lead = lead(&store, "/a");
    lead.give_head(Arc::new(head("")), b"", None);
    for _ in 0..200_000 {
        lead.append(b"x").unwrap();
    }
    assert!(store.counts().fill_bytes < 300_000, "{:?}", store.counts());
    assert_eq!(lead.finish().unwrap().unwrap().body().len(), 200_000);
}

#[test]
fn fills_are_bounded_in_number_and_bytes() {
    let store = store();
    let most = store.limits().fills();
    let mut leads: Vec<_> = (0..most).map(|number| lead(&store, &format!("/{number}"))).collect();
    assert!(matches!(claim(&store, "/more"), Claim::Pass(Pass::Busy)));
    assert!(store.lead_alone(&key("/more")).is_none());
    let readers: Vec<_> = leads.iter().map(|lead| lead.reader().unwrap()).collect();
    for lead in &mut leads {
        lead.give_head(Arc::new(head("")), b"", None);
        while lead.is_stored_when_complete() && lead.written_for_tests() < 1_500_000 {
            lead.append(&[0; 60_000]).unwrap();
        }
    }
    let counts = store.counts();
    assert!(counts.fill_bytes <= LEAST_BYTES / 4 * 3 && counts.bytes <= LEAST_BYTES, "{counts:?}");
    drop((leads, readers));
    assert_eq!((store.counts().filling, store.counts().fill_bytes), (0, 0));
}
