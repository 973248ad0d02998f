//! Random operations against a model.

use super::*;
use std::collections::HashMap;

/// What an object should be.
#[derive(Clone, Debug)]
struct Model {
    version: u64,
    length: usize,
    is_fresh: bool,
    /// One that came later was not taken: it is not there, or again after a restart.
    may_be_gone: bool,
}

fn body(path: &str, version: u64, length: usize) -> Vec<u8> {
    let mut out = format!("{path} {version} ").into_bytes();
    out.extend(bytes(length, version));
    out
}

fn play(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Folder::new();
    let (mut disk, mut model, mut version) = (open(&folder), HashMap::<String, Model>::new(), 0);
    for _ in 0..120 {
        let number = random.usize(..12);
        let path = format!("/{}/{number}", ["x", "y"][number % 2]);
        match random.u32(..100) {
            0..50 => {
                version += 1;
                let length = [0, 10, 1000, CHUNK, 3 * CHUNK][random.usize(..5)];
                let tag = format!("cache-tag: t{}", number % 3);
                let object = object(&key(&path), &tag, "", &body(&path, version, length));
                match disk.put(&object, disk.ticket()) {
                    true => {
                        let now = Model { version, length, is_fresh: true, may_be_gone: false };
                        model.insert(path, now);
                    }
                    false => {
                        model.entry(path).and_modify(|model| model.may_be_gone = true);
                    }
                }
            }
            50..60 => {
                disk.remove_url(key(&path).url());
                model.remove(&path);
            }
            60..68 => {
                let prefix = ["/x", "/y", "/x/1"][random.usize(..3)];
                let path = Some(PathIs::Prefix(prefix.as_bytes()));
                disk.purge(&Select { path, ..Select::default() }, How::Remove);
                model.retain(|path, _| !path.starts_with(prefix));
            }
            68..76 => {
                let tag = random.usize(..3);
                let how = if random.bool() { How::Remove } else { How::MakeStale(THEN) };
                disk.purge(&Select { tag: Some(format!("t{tag}").as_bytes()), ..Select::default() }, how);
                let has = |path: &str| path[3..].parse::<usize>().unwrap() % 3 == tag;
                model.retain(|path, _| how != How::Remove || !has(path));
                model.iter_mut().filter(|(path, _)| has(path)).for_each(|(_, model)| model.is_fresh = false);
            }
            76..82 => disk.wait_idle(),
            82..88 => {
                disk.close();
                disk = if random.bool() { open(&folder) } else { open_now(&folder) };
            }
            _ => check(&disk, &path, model.get(&path), false),
        }
    }
    disk.wait_idle();
    for number in 0..12 {
        let path = format!("/{}/{number}", ["x", "y"][number % 2]);
        check(&disk, &path, model.get(&path), true);
    }
    let sure = model.values().filter(|model| !model.may_be_gone).count() as u64;
    assert!((sure..=model.len() as u64).contains(&disk.counts().objects));
    assert_eq!(disk.counts().damaged, 0);
}

fn check(disk: &Disk, path: &str, model: Option<&Model>, must_be_there: bool) {
    match (get(disk, &key(path), ""), model) {
        (Got::Nothing, None) => {}
        (Got::Nothing, Some(model)) => assert!(!must_be_there || model.may_be_gone, "{path}"),
        (Got::Object(_, is_fresh, found), Some(model)) => {
            assert!(found == body(path, model.version, model.length), "{path}");
            assert_eq!(is_fresh, model.is_fresh, "{path}");
        }
        (Got::Object(head, ..), None) => panic!("{path}: {head} instead of nothing"),
        (Got::Broken(_), _) => panic!("{path} breaks off"),
    }
}

#[test]
fn the_store_does_what_a_model_does() {
    let seeds = if std::env::var_os("THALWEG_LONG").is_some() { 300 } else { 25 };
    for seed in 0..seeds {
        play(seed);
    }
}
