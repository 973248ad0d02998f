//! The store beside a naive model, and what its operations promise.

use crate::body::Body;
use crate::limits::{LEAST_BYTES, Limits, MOST_VARIANTS};
use crate::object::Object;
use crate::store::{Choice, Rejected, Store, Stored};
use crate::testing::{head, key, key_of, lines};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_cache::{KeyRule, Policy};

fn store() -> Store {
    Store::new(Limits { largest: 2 << 20, ..Limits::of(LEAST_BYTES) }).unwrap()
}

fn choose(stored: &Stored, fields: &str) -> Option<Arc<Object>> {
    match stored.choose(&Policy::default(), lines(fields), &mut Vec::new()) {
        Choice::Object(object) => Some(object.clone()),
        Choice::OtherVariants | Choice::Nothing => None,
    }
}

/// Stores a response as the proxy does: the variant is what its head makes of the request.
fn put(store: &Store, path: &str, request: &str, response: &str, body: &[u8]) -> Arc<Object> {
    let (head, mut variant) = (head(response), Vec::new());
    assert!(head.vary.write_key(&Policy::default(), lines(request), &mut variant));
    store.put(&key(path), &variant, head, Body::copy_of(body)).unwrap()
}

#[test]
fn what_is_stored_is_found_by_its_key_alone() {
    let store = store();
    assert!(matches!(store.find(&key("/a")), Stored::Nothing));
    let object = put(&store, "/a", "", "a: b", b"body");
    let found = choose(&store.find(&key("/a")), "").unwrap();
    assert!(Arc::ptr_eq(&found, &object));
    assert_eq!(&*found.body().piece(1).unwrap(), b"ody");
    assert!(matches!(store.find(&key("/a?")), Stored::Nothing));
    assert_eq!(store.counts().objects, 1);
    let newer = put(&store, "/a", "", "a: c", b"other");
    assert!(Arc::ptr_eq(&choose(&store.find(&key("/a")), "").unwrap(), &newer));
    assert_eq!((store.counts().objects, store.counts().stored), (1, 2));
}

#[test]
fn what_may_not_be_stored_takes_no_room() {
    let store = store();
    let before = store.counts();
    let refused = store.put_if((&key("/a"), b""), head(""), Body::copy_of(b"body"), || false);
    assert_eq!(refused.err(), Some(Rejected::Outdated));
    assert!(matches!(store.find(&key("/a")), Stored::Nothing));
    let after = store.counts();
    assert_eq!((after.objects, after.bytes, after.rejected), (0, before.bytes, 1));
}

#[test]
fn a_request_gets_the_variant_that_fits_it() {
    let store = store();
    let vary = "vary: accept-encoding";
    put(&store, "/a", "accept-encoding: gzip", vary, b"gzip");
    put(&store, "/a", "accept-encoding: br", vary, b"br");
    let body = |fields: &str| {
        let found = choose(&store.find(&key("/a")), fields)?;
        Some(found.body().piece(0)?.to_vec())
    };
    assert_eq!(body("accept-encoding: gzip").as_deref(), Some(&b"gzip"[..]));
    assert_eq!(body("Accept-Encoding: BR").as_deref(), Some(&b"br"[..]));
    assert_eq!(body(""), None);
    put(&store, "/a", "foo: 1", "vary: foo", b"foo");
    assert_eq!(body("accept-encoding: gzip").as_deref(), Some(&b"gzip"[..]), "another set of names");
    assert_eq!(body("accept-encoding: gzip\nfoo: 1").as_deref(), Some(&b"foo"[..]), "the newest that fits");
    assert_eq!(store.remove(&key("/a")), 3);
    assert_eq!(body("foo: 1"), None);
}

#[test]
fn the_variant_of_a_request_is_told_whether_it_is_stored_or_not() {
    let store = store();
    put(&store, "/a", "foo: 1", "vary: foo", b"");
    let variant = |fields: &str| {
        let mut variant = b"before".to_vec();
        let stored = store.find(&key("/a"));
        let is_found =
            matches!(stored.choose(&Policy::default(), lines(fields), &mut variant), Choice::Object(_));
        (is_found, variant)
    };
    let (is_found, one) = variant("foo: 1");
    assert!(is_found && one == choose(&store.find(&key("/a")), "foo: 1").unwrap().variant());
    let (is_found, two) = variant("foo: 2");
    assert!(!is_found && two != one && two == variant("foo: 2").1);
}

#[test]
fn the_oldest_variant_that_is_not_used_goes() {
    let store = store();
    let field = |number: usize| format!("foo: {number}");
    for number in 0..MOST_VARIANTS {
        put(&store, "/a", &field(number), "vary: foo", b"");
    }
    assert!(choose(&store.find(&key("/a")), &field(0)).is_some());
    put(&store, "/a", &field(1000), "vary: foo", b"");
    let is_there = |number: usize| choose(&store.find(&key("/a")), &field(number)).is_some();
    assert!(is_there(0) && !is_there(1) && is_there(2) && is_there(1000));
    assert_eq!(store.counts().objects, MOST_VARIANTS as u64);
}

#[test]
fn a_freshened_response_has_the_same_body() {
    let store = store();
    let old = put(&store, "/a", "", "a: 1", b"body");
    let new = store.freshen(&old, head("a: 2\nb: more than before"));
    let found = choose(&store.find(&key("/a")), "").unwrap();
    assert!(Arc::ptr_eq(&found, &new));
    assert_eq!((found.head().get("a"), &found.body().piece(0).unwrap()[..]), (Some(&b"2"[..]), &b"body"[..]));
    let late = store.freshen(&old, head("a: 3"));
    assert_eq!(late.head().get("a"), Some(&b"3"[..]), "it can be used");
    assert!(Arc::ptr_eq(&choose(&store.find(&key("/a")), "").unwrap(), &new), "but is not stored");
    store.freshen(&new, head("vary: foo"));
    assert!(matches!(store.find(&key("/a")), Stored::Nothing), "it would not be found by its requests");
    put(&store, "/a", "", "", b"");
    let used = store.counts().bytes;
    store.remove(&key("/a"));
    put(&store, "/a", "", "", b"");
    assert_eq!(store.counts().bytes, used);
}

#[test]
fn a_url_is_removed_whatever_else_its_keys_say() {
    let store = store();
    let rule = KeyRule { fields: vec!["foo".into()], ..KeyRule::default() };
    let keys: Vec<_> =
        (0..50).map(|number| key_of(&rule, "example.com", "/a", &format!("foo: {number}"))).collect();
    let other = key_of(&rule, "example.com", "/ab", "foo: 1");
    for key in keys.iter().chain([&other]) {
        store.put(key, b"", head(""), Body::default()).unwrap();
    }
    assert_eq!(store.remove_url(keys[0].url()), 50);
    assert!(keys.iter().all(|key| matches!(store.find(key), Stored::Nothing)));
    assert!(matches!(store.find(&other), Stored::One(_)));
    put(&store, "/c", "", "", b"");
    assert_eq!(store.remove_url(key("/c").url()), 1);
}

#[test]
fn what_is_too_large_is_not_stored() {
    let store = store();
    let body = Body::copy_of(&vec![0; (2 << 20) + 1]);
    assert_eq!(store.put(&key("/a"), b"", head(""), body).unwrap_err(), Rejected::TooLarge);
    assert_eq!((store.counts().rejected, store.counts().objects), (1, 0));
}

#[test]
fn what_is_used_stays_while_others_pass() {
    let store = Store::new(Limits { shards: 4, ..Limits::of(LEAST_BYTES) }).unwrap();
    for number in 0..100 {
        put(&store, &format!("/used{number}"), "", "", &[1; 2000]);
    }
    for number in 0..20_000 {
        put(&store, &format!("/scan{number}"), "", "", &[0; 2000]);
        choose(&store.find(&key(&format!("/used{}", number % 100))), "");
    }
    let kept = (0..100).filter(|number| choose(&store.find(&key(&format!("/used{number}"))), "").is_some());
    assert_eq!(kept.count(), 100);
    assert!(store.counts().evictions > 15_000 && store.counts().bytes <= LEAST_BYTES);
}

#[derive(Clone, Debug)]
enum Operation {
    Put(u8, u8, u32),
    Find(u8, u8),
    Freshen(u8, u8, u8),
    Remove(u8),
    RemoveUrl(u8),
    RemoveObject(u8, u8),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let (key, variant) = (0..40_u8, 0..6_u8);
    let operation = prop_oneof![
        6 => (key.clone(), variant.clone(), 0..400_000_u32).prop_map(|(k, v, size)| Operation::Put(k, v, size)),
        6 => (key.clone(), variant.clone()).prop_map(|(k, v)| Operation::Find(k, v)),
        2 => (key.clone(), variant.clone(), any::<u8>()).prop_map(|(k, v, a)| Operation::Freshen(k, v, a)),
        1 => key.clone().prop_map(Operation::Remove),
        1 => key.clone().prop_map(Operation::RemoveUrl),
        1 => (key, variant).prop_map(|(k, v)| Operation::RemoveObject(k, v)),
    ];
    prop::collection::vec(operation, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The store may have less than the model, which forgets nothing, but never something else, and never more bytes
    /// than it may.
    #[test]
    fn it_agrees_with_a_map(operations in operations()) {
        let store = Store::new(Limits { shards: 2, ..Limits::of(LEAST_BYTES) }).unwrap();
        let rule = KeyRule { fields: vec!["rest".into()], ..KeyRule::default() };
        // Every other key says more than its URL; two of them have one URL.
        let key_of = |number: u8| match number % 2 {
            0 => key(&format!("/{number}")),
            _ => key_of(&rule, "example.com", &format!("/r{}", number / 4), &format!("rest: {number}")),
        };
        let mut model: HashMap<(u8, u8), (u32, u8)> = HashMap::new();
        for operation in operations {
            match operation {
                Operation::Put(k, v, size) => {
                    let body = Body::copy_of(&vec![v; size as usize]);
                    let mut variant = Vec::new();
                    let head = head("vary: foo\nversion: 0");
                    let request = format!("foo: {v}");
                    head.vary.write_key(&Policy::default(), lines(&request), &mut variant);
                    store.put(&key_of(k), &variant, head, body).unwrap();
                    model.insert((k, v), (size, 0));
                }
                Operation::Find(k, v) => {
                    if let Some(object) = choose(&store.find(&key_of(k)), &format!("foo: {v}")) {
                        let (size, version) = model[&(k, v)];
                        prop_assert_eq!(object.body().len(), u64::from(size));
                        prop_assert!(object.body().chunks().concat() == vec![v; size as usize]);
                        let version = version.to_string();
                        prop_assert_eq!(object.head().get("version"), Some(version.as_bytes()));
                    }
                }
                Operation::Freshen(k, v, version) => {
                    if let Some(object) = choose(&store.find(&key_of(k)), &format!("foo: {v}")) {
                        store.freshen(&object, head(&format!("vary: foo\nversion: {version}")));
                        model.get_mut(&(k, v)).unwrap().1 = version;
                    }
                }
                Operation::Remove(k) => {
                    store.remove(&key_of(k));
                    model.retain(|(other, _), _| *other != k);
                }
                Operation::RemoveUrl(k) => {
                    let url = key_of(k);
                    store.remove_url(url.url());
                    model.retain(|(other, _), _| key_of(*other).url() != url.url());
                }
                Operation::RemoveObject(k, v) => {
                    if let Some(object) = choose(&store.find(&key_of(k)), &format!("foo: {v}")) {
                        prop_assert!(store.remove_object(&object));
                        model.remove(&(k, v));
                    }
                }
            }
            let counts = store.counts();
            prop_assert!(counts.bytes <= LEAST_BYTES, "{counts:?}");
            prop_assert!(counts.objects <= model.len() as u64);
        }
        // What is counted is what is there.
        let mut objects = 0;
        for (k, v) in model.keys() {
            objects += u64::from(choose(&store.find(&key_of(*k)), &format!("foo: {v}")).is_some());
        }
        prop_assert_eq!(store.counts().objects, objects);
        for k in 0..40 {
            store.remove(&key_of(k));
        }
        let empty = store.counts();
        prop_assert_eq!((empty.objects, empty.fill_bytes), (0, 0));
        prop_assert!(empty.bytes < 64 * 1024, "tables alone: {empty:?}");
    }
}
