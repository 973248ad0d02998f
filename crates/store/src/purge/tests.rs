use super::*;
use crate::body::Body;
use crate::limits::{LEAST_BYTES, Limits};
use crate::store::Stored;
use crate::testing::{THEN, head, key_of};
use thalweg_cache::KeyRule;

/// A store with two hosts, some paths and tags.
fn store() -> Store {
    let store = Store::new(Limits::of(LEAST_BYTES)).unwrap();
    for host in ["a.com", "b.com"] {
        for number in 0..300 {
            let tags = format!("cache-tag: n{number}, even{}", number % 2);
            for path in [format!("/p/{number}"), format!("/q/{number}?x=1")] {
                let key = key_of(&KeyRule::default(), host, &path, "");
                store.put(&key, b"", head(&tags), Body::copy_of(b"abc")).unwrap();
            }
        }
    }
    store
}

fn is_there(store: &Store, host: &str, path: &str) -> bool {
    !matches!(store.find(&key_of(&KeyRule::default(), host, path, "")), Stored::Nothing)
}

fn purge(select: Select<'_>) -> (u64, Store) {
    let store = store();
    let count = store.purge(&select, How::Remove);
    assert_eq!(store.counts().objects + count, 1200);
    assert_eq!(store.counts().removed, count);
    (count, store)
}

#[test]
fn all_that_is_given_must_fit() {
    assert_eq!(purge(Select::default()).0, 1200);
    let (count, store) = purge(Select { host: Some(b"a.com"), ..Select::default() });
    assert!(count == 600 && !is_there(&store, "a.com", "/p/1") && is_there(&store, "b.com", "/p/1"));
    let path = Some(PathIs::Prefix(b"/p/1"));
    assert_eq!(purge(Select { host: Some(b"a.com"), path, ..Select::default() }).0, 111);
    assert_eq!(purge(Select { path, scheme: Some(b"http"), ..Select::default() }).0, 0);
    assert_eq!(purge(Select { path, port: Some(443), spaces: &[b""], ..Select::default() }).0, 222);
    assert_eq!(purge(Select { tag: Some(b"N7"), ..Select::default() }).0, 4);
    assert_eq!(purge(Select { tag: Some(b"even0"), path, ..Select::default() }).0, 110);
    let exactly =
        |queries| purge(Select { path: Some(PathIs::Exactly(b"/q/1", queries)), ..Select::default() }).0;
    assert_eq!((exactly(&[None]), exactly(&[Some(b"x=1")]), exactly(&[None, Some(b"x=1")])), (0, 2, 2));
    assert_eq!(purge(Select { spaces: &[b"other", b""], ..Select::default() }).0, 1200);
    assert_eq!(purge(Select { spaces: &[b"other"], ..Select::default() }).0, 0);
    assert_eq!(purge(Select { path: Some(PathIs::Path(b"/q/1")), ..Select::default() }).0, 2);
}

#[test]
fn what_is_purged_softly_is_stale_from_then_on() {
    let store = store();
    let now = UnixMillis(THEN.0 + 10_500);
    let bytes = store.counts().bytes;
    assert_eq!(store.purge(&Select { tag: Some(b"n1"), ..Select::default() }, How::MakeStale(now)), 4);
    assert_eq!((store.counts().objects, store.counts().bytes), (1200, bytes));
    let freshness = |path: &str| match store.find(&key_of(&KeyRule::default(), "a.com", path, "")) {
        Stored::One(object) => object.head().freshness,
        _ => panic!("{path}"),
    };
    assert!(!freshness("/p/1").is_fresh(now) && freshness("/p/2").is_fresh(now));
    assert_eq!(freshness("/p/1").ttl(now), 0, "its windows begin now");
    assert_eq!(store.purge(&Select::default(), How::MakeStale(UnixMillis(now.0 + 60_000))), 1200);
    assert_eq!(freshness("/p/1").lifetime.seconds, 10, "it does not become fresher");
}
