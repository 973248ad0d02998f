//! The store as workers see it.

use crate::record::{HEADER, SUM};
use crate::settings::LEAST_BYTES;
use crate::testing::{
    Folder, Got, Said, THEN, get, key, key_of, lines, memory, object, open, open_now, read, wait,
};
use crate::{Condition, Disk, Settings, Ticket};
use std::sync::Arc;
use std::time::Duration;
use thalweg_cache::{KeyRule, Policy, SetCookie, UnixMillis};
use thalweg_store::{CHUNK, How, Object, PathIs, Select};

mod crash;
mod damage;
mod growth;
mod large;
mod model;
mod room;

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut out);
    out
}

fn put(disk: &Disk, path: &str, fields: &str, body: &[u8]) -> Arc<Object> {
    let object = object(&key(path), fields, "", body);
    // False: it fails where the queue is full, which these tests do not do.
    assert!(disk.put(&object, disk.ticket()));
    object
}

fn is_there(disk: &Disk, path: &str) -> bool {
    get(disk, &key(path), "") != Got::Nothing
}

#[test]
fn objects_come_back_as_they_were_put() {
    let folder = Folder::new();
    let lengths = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 20 * CHUNK + 7];
    let mut disk = open(&folder);
    for (number, length) in lengths.into_iter().enumerate() {
        put(&disk, &format!("/{number}"), &format!("X-Number: {number}"), &bytes(length, number as u64));
    }
    disk.wait_idle();
    for _ in 0..2 {
        let counts = disk.counts();
        assert_eq!(
            (disk.condition(), counts.objects),
            (Condition::Ready, lengths.len() as u64),
            "{counts:?}"
        );
        for (number, length) in lengths.into_iter().enumerate() {
            let Got::Object(head, true, body) = get(&disk, &key(&format!("/{number}")), "") else {
                panic!("{number}")
            };
            assert!(head.contains(&format!("X-Number: {number}\r\n")));
            assert!(body == bytes(length, number as u64), "{length}");
        }
        assert!(!is_there(&disk, "/other"));
        disk.close();
        disk = open(&folder);
    }
}

#[test]
fn bodies_are_read_from_any_byte_on() {
    let folder = Folder::new();
    let (disk, body, policy) = (open(&folder), bytes(5 * CHUNK + 9, 1), Policy::default());
    put(&disk, "/", "", &body);
    disk.wait_idle();
    let (key, mut variant) = (key("/"), Vec::new());
    let place = disk.find(&key, &policy, lines(""), &mut variant).unwrap();
    let mut load = disk.load(place, &key, &variant).unwrap();
    wait(|context| load.poll_head(context, &policy)).unwrap();
    for from in [3 * CHUNK + 5, 0, 1, CHUNK - 1, 5 * CHUNK + 8, 2 * CHUNK, body.len(), body.len() + 5] {
        load.seek(from as u64);
        let first = wait(|context| load.poll_piece(context)).unwrap();
        assert_eq!(first.is_none(), from >= body.len());
        let mut all = first.map_or_else(Vec::new, |piece| piece.to_vec());
        all.extend(read(&mut load).unwrap());
        assert!(all == body[from.min(body.len())..], "{from}");
    }
}

#[test]
fn small_objects_go_back_into_memory_unless_they_were_purged_meanwhile() {
    let folder = Folder::new();
    let (disk, memory, policy) = (open(&folder), memory(), Policy::default());
    let key = key("/a");
    for case in 0..4 {
        put(&disk, "/a", "cache-tag: t", b"abc");
        disk.wait_idle();
        let mut variant = Vec::new();
        let place = disk.find(&key, &policy, lines(""), &mut variant).unwrap();
        let mut load = disk.load(place, &key, &variant).unwrap();
        let loaded = wait(|context| load.poll_head(context, &policy)).unwrap();
        match case {
            0 => {}
            1 => assert_eq!(disk.remove_url(key.url()), 1),
            2 => disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::Remove),
            _ => disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::MakeStale(THEN)),
        }
        let mut read = Vec::new();
        let body = wait(|context| load.poll_body(context, &mut read)).unwrap();
        let promoted = load.promote(&memory, &key, &loaded, body);
        assert_eq!((promoted.is_some(), memory.counts().objects), (case == 0, u64::from(case == 0)));
        memory.remove(&key);
    }
}

#[test]
fn variants_and_keys_of_one_url_are_told_apart() {
    let folder = Folder::new();
    let rule = KeyRule { fields: vec!["x-kind".into()], ..KeyRule::default() };
    let disk = open(&folder);
    for kind in ["x-kind: 1", "x-kind: 2"] {
        for language in ["accept-language: de", "accept-language: en"] {
            let key = key_of(&rule, "/", kind);
            let object =
                object(&key, "Vary: Accept-Language", language, format!("{kind} {language}").as_bytes());
            assert!(disk.put(&object, disk.ticket()));
        }
    }
    disk.wait_idle();
    disk.close();
    let disk = open(&folder);
    for kind in ["x-kind: 1", "x-kind: 2"] {
        let key = key_of(&rule, "/", kind);
        for language in ["accept-language: de", "accept-language: en"] {
            let body = get(&disk, &key, language).body().unwrap();
            assert_eq!(body, format!("{kind} {language}").as_bytes());
        }
        assert_eq!(get(&disk, &key, "accept-language: fr"), Got::Nothing);
    }
    let one = object(&key_of(&rule, "/", "x-kind: 1"), "Vary: Accept-Language", "accept-language: de", b"");
    assert_eq!((disk.remove_object(&one), disk.remove_object(&one)), (1, 0));
    assert_eq!(disk.remove(&key_of(&rule, "/", "x-kind: 1")), 1);
    assert_eq!(get(&disk, &key_of(&rule, "/", "x-kind: 1"), "accept-language: de"), Got::Nothing);
    assert_eq!(disk.remove_url(key("/").url()), 2);
    assert_eq!(disk.counts().objects, 0);
}

#[test]
fn another_policy_may_refuse_what_is_stored() {
    let folder = Folder::new();
    let disk = open(&folder);
    put(&disk, "/", "ETag: \"1\"", b"abc");
    disk.wait_idle();
    let (key, policy, mut variant) = (key("/"), Policy::default(), Vec::new());
    let place = disk.find(&key, &policy, lines(""), &mut variant).unwrap();
    let mut load = disk.load(place, &key, &variant).unwrap();
    let loaded = wait(|context| load.poll_head(context, &policy)).unwrap();
    assert_eq!(loaded.head.etag().map(|tag| tag.text.to_vec()), Some(b"\"1\"".to_vec()));
    let strict = Policy { set_cookie: SetCookie::Refuse, ..Policy::default() };
    assert!(wait(|context| load.poll_head(context, &strict)).is_some(), "there is no cookie");
}

#[test]
fn what_is_put_again_takes_the_place_of_the_old() {
    let folder = Folder::new();
    let mut disk = open(&folder);
    for number in 0..5 {
        put(&disk, "/", "", format!("body {number}").as_bytes());
        disk.wait_idle();
        disk.close();
        disk = open(&folder);
        assert_eq!(get(&disk, &key("/"), "").body().unwrap(), format!("body {number}").as_bytes());
        assert_eq!(disk.counts().objects, 1);
    }
}

/// Two hundred objects with tags.
fn many(folder: &Folder) -> Disk {
    let disk = open(folder);
    for number in 0..200 {
        put(&disk, &format!("/p/{number}"), &format!("cache-tag: n{}, all", number % 10), b"abc");
    }
    disk.wait_idle();
    disk
}

#[test]
fn purges_hold_at_once_and_after_a_restart() {
    for is_restarted in [false, true] {
        for waits in [false, true] {
            let folder = Folder::new();
            let mut disk = many(&folder);
            disk.purge(&Select { tag: Some(b"N3"), ..Select::default() }, How::Remove);
            disk.purge(&Select { path: Some(PathIs::Prefix(b"/p/4")), ..Select::default() }, How::Remove);
            disk.purge(&Select { path: Some(PathIs::Prefix(b"/q")), ..Select::default() }, How::Remove);
            if waits {
                disk.wait_idle();
                assert_eq!(disk.counts().bans, 0);
            }
            if is_restarted {
                disk.close();
                disk = if waits { open(&folder) } else { open_now(&folder) };
                disk.wait_idle();
            }
            let there = (0..200).filter(|number| is_there(&disk, &format!("/p/{number}")));
            let expected = (0..200).filter(|number| number % 10 != 3 && !number.to_string().starts_with('4'));
            assert!(there.eq(expected), "{is_restarted} {waits}");
            // What comes later is not concerned.
            put(&disk, "/p/3", "cache-tag: n3", b"def");
            disk.wait_idle();
            assert!(is_there(&disk, "/p/3"));
        }
    }
}

#[test]
fn what_is_purged_softly_is_stale_from_then_on() {
    let from = UnixMillis(THEN.0 + 5000);
    for waits in [false, true] {
        let folder = Folder::new();
        let mut disk = many(&folder);
        disk.purge(&Select { tag: Some(b"n3"), ..Select::default() }, How::MakeStale(from));
        for _ in 0..3 {
            for number in 0..200 {
                let got = get(&disk, &key(&format!("/p/{number}")), "");
                assert!(
                    matches!(got, Got::Object(_, is_fresh, _) if is_fresh == (number % 10 != 3)),
                    "{number}"
                );
            }
            if waits {
                disk.wait_idle();
            }
            disk.close();
            disk = open(&folder);
        }
    }
}

#[test]
fn removals_hold_while_the_store_is_being_read_and_after_a_restart() {
    let folder = Folder::new();
    let mut disk = many(&folder);
    assert_eq!((disk.remove_url(key("/p/1").url()), disk.remove(&key("/p/2"))), (1, 1));
    for round in 0..3 {
        disk.close();
        disk = open_now(&folder);
        disk.remove_url(key(&format!("/p/1{round}")).url());
        disk.remove(&key(&format!("/p/2{round}")));
        disk.wait_idle();
        let gone = |number: u32| {
            let number = number.to_string();
            ["1", "2"].contains(&&*number)
                || (0..=round).any(|round| [format!("1{round}"), format!("2{round}")].contains(&number))
        };
        for number in 0..200 {
            assert_eq!(is_there(&disk, &format!("/p/{number}")), !gone(number), "{number} in {round}");
        }
    }
}

#[test]
fn what_was_on_its_way_during_a_purge_is_not_stored() {
    let folder = Folder::new();
    let disk = open(&folder);
    let before = disk.ticket();
    disk.remove_url(key("/url").url());
    disk.remove(&key("/key"));
    disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::Remove);
    disk.purge(&Select { tag: Some(b"soft"), ..Select::default() }, How::MakeStale(THEN));
    for (path, fields) in
        [("/url", ""), ("/key", ""), ("/t", "cache-tag: t"), ("/s", "cache-tag: soft"), ("/o", "")]
    {
        // What was removed by name may be refused at once.
        let is_taken = disk.put(&object(&key(path), fields, "", b"abc"), before);
        assert!(is_taken || ["/url", "/key"].contains(&path), "{path}");
    }
    disk.wait_idle();
    assert!(!["/url", "/key", "/t"].into_iter().any(|path| is_there(&disk, path)));
    assert!(matches!(get(&disk, &key("/s"), ""), Got::Object(_, false, _)));
    assert!(matches!(get(&disk, &key("/o"), ""), Got::Object(_, true, _)));
    // The purges are forgotten: what may have been concerned is not stored.
    assert!(disk.put(&object(&key("/x"), "", "", b"abc"), before));
    assert!(disk.put(&object(&key("/y"), "", "", b"abc"), disk.ticket()));
    disk.wait_idle();
    assert!(!is_there(&disk, "/x") && is_there(&disk, "/y"));
    assert_eq!(before, Ticket { bans: 0, removals: 0 });
}

#[test]
fn a_directory_is_used_once_and_taken_over() {
    let folder = Folder::new();
    let first = many(&folder);
    let said = Said::default();
    let settings = Settings::of(folder.path().join("cache"), LEAST_BYTES);
    let second = Disk::open(settings, said.say()).unwrap();
    assert!(!is_there(&second, "/p/1") && !second.put(&object(&key("/"), "", "", b""), second.ticket()));
    // A purge does not wait for the other process, and holds for what it leaves.
    second.purge(&Select { path: Some(PathIs::Exactly(b"/p/1", &[None])), ..Select::default() }, How::Remove);
    first.close();
    second.wait_idle();
    assert!(!is_there(&second, "/p/1") && is_there(&second, "/p/2"));
    assert!(said.all().iter().all(|line| line.contains("another process uses it")), "{:?}", said.all());
}

#[test]
fn another_version_is_emptied_and_a_directory_in_use_for_other_things_is_not_touched() {
    let folder = Folder::new();
    let path = folder.path().join("cache");
    many(&folder).close();
    let state = path.join("state");
    let mut bytes = std::fs::read(&state).unwrap();
    bytes[15] += 1;
    std::fs::write(&state, bytes).unwrap();
    let disk = open(&folder);
    assert_eq!((disk.counts().objects, disk.condition()), (0, Condition::Ready));
    disk.close();
    let said = Said::default();
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    let disk = Disk::open(Settings::of(folder.path(), LEAST_BYTES), said.say()).unwrap();
    disk.wait_idle();
    assert_eq!(disk.condition(), Condition::Unusable);
    assert!(said.all()[0].contains("has other files"), "{:?}", said.all());
    disk.purge(&Select::default(), How::Remove);
    assert!(!disk.begin_purge(&Select::default(), How::Remove).wait(Duration::ZERO), "it is not kept");
    assert_eq!((disk.remove_url(b"x"), disk.counts().objects), (0, 0));
}
