//! Damaged files: whatever becomes of them, no wrong byte comes out, and the store goes on.

use super::*;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PATHS: [&str; 3] = ["/a", "/b", "/c"];

fn body(path: &str) -> Vec<u8> {
    format!("the body of {path}").into_bytes()
}

/// A store of three objects in one segment: the file and its bytes.
fn small(folder: &Folder) -> (PathBuf, Vec<u8>) {
    let disk = open(folder);
    for path in PATHS {
        put(&disk, path, "", &body(path));
        disk.wait_idle();
    }
    disk.close();
    let file = segments(folder).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    (file, bytes)
}

pub(super) fn segments(folder: &Folder) -> Vec<PathBuf> {
    let all = fs::read_dir(folder.path().join("cache")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect();
    found.sort();
    found
}

/// What is found is right; how many that are.
fn check(disk: &Disk) -> usize {
    let is_right = |path: &&&str| match get(disk, &key(path), "") {
        Got::Nothing => false,
        Got::Object(head, true, found) => {
            assert!(found == body(path) && head.contains("max-age=60"));
            true
        }
        other => panic!("{other:?}"),
    };
    PATHS.iter().filter(is_right).count()
}

#[test]
fn a_segment_that_ends_anywhere_has_what_is_whole() {
    let folder = Folder::new();
    let (file, bytes) = small(&folder);
    let record = (bytes.len() - 64) / 3;
    for length in 0..=bytes.len() {
        fs::write(&file, &bytes[..length]).unwrap();
        let disk = open(&folder);
        assert_eq!(check(&disk), length.saturating_sub(64) / record, "{length}");
        assert_eq!(disk.counts().damaged, 0);
        disk.close();
    }
}

#[test]
fn a_flip_of_any_bit_costs_objects_and_never_a_wrong_byte() {
    let folder = Folder::new();
    let (file, bytes) = small(&folder);
    // Every bit takes minutes; that of headers and of the state are all tried in their own tests.
    let is_long = std::env::var_os("THALWEG_LONG").is_some();
    let padding = |at: usize| at >= 64 && bytes[at..].iter().take_while(|byte| **byte == 0).count() > 0;
    for at in 0..bytes.len() {
        for bit in (0..8).filter(|bit| is_long || *bit == at % 8) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&file, &flipped).unwrap();
            let disk = open(&folder);
            let found = check(&disk);
            assert!(found < 3 || padding(at), "{at} {bit}");
            disk.close();
        }
    }
}

#[test]
fn a_flip_in_a_file_that_is_in_use_is_found_when_it_is_read() {
    let folder = Folder::new();
    let (file, bytes) = small(&folder);
    let record = (bytes.len() - 64) / 3;
    let open_file = fs::OpenOptions::new().write(true).open(&file).unwrap();
    for at in 64..64 + record {
        let disk = open(&folder);
        open_file.write_all_at(&[bytes[at] ^ 0x10], at as u64).unwrap();
        let found = check(&disk);
        assert!(found >= 2, "{at}");
        assert_eq!(disk.counts().damaged, 3 - found as u64);
        assert_eq!(check(&disk), found);
        disk.close();
        fs::write(&file, &bytes).unwrap();
    }
}

#[test]
fn a_large_body_breaks_off_where_it_is_damaged() {
    let folder = Folder::new();
    let (disk, body) = (open(&folder), bytes(6 * CHUNK, 5));
    put(&disk, "/", "", &body);
    disk.wait_idle();
    let file = fs::OpenOptions::new().read(true).write(true).open(&segments(&folder)[0]).unwrap();
    let at = file.metadata().unwrap().len() - (CHUNK + SUM + HEADER) as u64;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    assert!(
        matches!(get(&disk, &key("/"), ""), Got::Broken(found) if found == body[..found.len()] && found.len() >= 4 * CHUNK)
    );
    assert_eq!((get(&disk, &key("/"), ""), disk.counts().damaged), (Got::Nothing, 1));
    disk.close();
    assert!(!is_there(&open(&folder), "/"));
}

#[test]
fn a_damaged_state_empties_the_store() {
    let folder = Folder::new();
    let (file, bytes) = small(&folder);
    let state = folder.path().join("cache/state");
    for at in [0, 20, 30, 39, 41, 60, 200_000] {
        fs::write(&file, &bytes).unwrap();
        let mut kept = fs::read(&state).unwrap();
        kept[at] ^= 1;
        fs::write(&state, kept).unwrap();
        let disk = open(&folder);
        assert_eq!((check(&disk), disk.counts().objects), (0, 0), "{at}");
        disk.close();
    }
}

#[test]
fn segments_of_other_stores_and_places_are_not_used() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (file, bytes) = small(&folder);
    let (foreign, _) = small(&other);
    for name in ["00000000.segment", "00000077.segment"] {
        fs::write(file.with_file_name(name), &bytes).unwrap();
    }
    fs::copy(foreign, file.with_file_name("00000078.segment")).unwrap();
    let disk = open(&folder);
    assert_eq!((check(&disk), disk.counts().objects), (3, 3));
    assert_eq!(segments(&folder), [file]);
}
