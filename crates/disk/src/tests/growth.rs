//! Responses that are larger than memory's share: written while they come.

use super::*;
use crate::testing::head;
use std::task::{Context, Waker};
use thalweg_store::{Broken, Claim, Lead, Limits, Reader, Store};

/// Larger than what memory keeps of one.
pub(super) const LARGE: usize = 20 * CHUNK + 77;

/// A memory that keeps nothing that is longer than a chunk.
pub(super) fn small() -> Store {
    Store::new(Limits { largest: CHUNK as u64, ..Limits::of(64 << 20) }).unwrap()
}

fn claim(store: &Store, path: &str) -> Claim {
    store.claim(&key(path), b"", &store.find(&key(path)), THEN)
}

/// A leader whose response goes to the disk.
pub(super) fn lead(disk: &Disk, store: &Store, path: &str, (fields, length): (&str, Option<u64>)) -> Lead {
    let Claim::Lead(mut lead) = claim(store, path) else { panic!("{path} is claimed") };
    lead.spill_to(disk.tier(disk.ticket()));
    assert!(lead.give_head(Arc::new(head(fields)), b"", length));
    lead
}

/// Appends bytes as the disk takes them.
pub(super) fn append(lead: &mut Lead, body: &[u8]) {
    for part in body.chunks(40_000) {
        wait(|context| lead.poll_room(context));
        lead.append(part).unwrap();
    }
}

/// Puts a whole one.
pub(super) fn grow(disk: &Disk, store: &Store, path: &str, body: &[u8]) {
    let mut lead = lead(disk, store, path, ("cache-tag: t", Some(body.len() as u64)));
    append(&mut lead, body);
    assert!(lead.finish().unwrap().is_none());
}

pub(super) fn rest(reader: &mut Reader) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    while let Some(piece) = wait(|context| reader.poll_piece(context))? {
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

pub(super) fn files(folder: &Folder, end: &str) -> usize {
    let all = std::fs::read_dir(folder.path().join("cache")).unwrap();
    all.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|found| found == end)).count()
}

#[test]
fn what_memory_does_not_hold_is_there_as_a_whole_and_after_a_restart() {
    let folder = Folder::new();
    let (mut disk, store) = (open(&folder), small());
    for (number, declared) in [true, false].into_iter().enumerate() {
        for length in [CHUNK + 1, 2 * CHUNK, LARGE] {
            let (path, body) = (format!("/{number}/{length}"), bytes(length, number as u64));
            let length = declared.then_some(length as u64);
            let mut lead = lead(&disk, &store, &path, ("x: y", length));
            append(&mut lead, &body);
            assert!(!is_there(&disk, &path), "it is not complete");
            assert!(lead.finish().unwrap().is_none());
        }
    }
    for _ in 0..2 {
        disk.wait_idle();
        let counts = disk.counts();
        assert_eq!((counts.objects, files(&folder, "growth")), (6, 0), "{counts:?}");
        for number in 0..2 {
            for length in [CHUNK + 1, 2 * CHUNK, LARGE] {
                let Got::Object(lines, true, body) = get(&disk, &key(&format!("/{number}/{length}")), "")
                else {
                    panic!("{length} is not there")
                };
                assert!(body == bytes(length, number) && lines.contains("x: y"), "{length}");
            }
        }
        disk.close();
        disk = open(&folder);
    }
    assert_eq!((store.counts().spilled, store.counts().objects), (6, 0));
}

#[test]
fn who_follows_reads_what_is_written_at_any_pace() {
    let folder = Folder::new();
    let (disk, store, body) = (open(&folder), small(), bytes(3 * LARGE / 2, 3));
    let mut lead = lead(&disk, &store, "/", ("", Some(body.len() as u64)));
    let mut first = lead.reader().unwrap();
    append(&mut lead, &body[..LARGE]);
    let Claim::Follow(mut second) = claim(&store, "/") else { panic!("it is followed") };
    let mut from = second.another().unwrap();
    from.seek(LARGE as u64 / 2 + 5);
    // Written are all whole chunks but the last half megabyte, which memory has.
    let mut front = Vec::new();
    while front.len() < LARGE / 2 {
        let piece = wait(|context| first.poll_piece(context)).unwrap().unwrap();
        front.extend_from_slice(&piece);
    }
    append(&mut lead, &body[LARGE..]);
    let memory = store.counts().fill_bytes;
    assert!(memory < 2 << 20, "{memory} bytes are kept");
    lead.finish().unwrap();
    front.extend(rest(&mut first).unwrap());
    assert!(front == body && rest(&mut second).unwrap() == body);
    assert!(rest(&mut from).unwrap() == body[LARGE / 2 + 5..]);
    disk.wait_idle();
    assert!(matches!(claim(&store, "/"), Claim::Lead(_)), "the disk has it");
    assert!(get(&disk, &key("/"), "").body().unwrap() == body);
}

#[test]
fn what_breaks_off_is_never_found() {
    let folder = Folder::new();
    let (disk, store, body) = (open(&folder), small(), bytes(LARGE, 1));
    for is_dropped in [false, true] {
        let mut lead = lead(&disk, &store, "/", ("", Some(LARGE as u64)));
        let mut reader = lead.reader().unwrap();
        append(&mut lead, &body[..LARGE - 1]);
        match is_dropped {
            true => drop(lead),
            false => assert!(lead.finish().is_err()),
        }
        let mut read = Vec::new();
        let end = loop {
            match wait(|context| reader.poll_piece(context)) {
                Ok(Some(piece)) => read.extend_from_slice(&piece),
                end => break end,
            }
        };
        assert!(end.is_err() && body.starts_with(&read), "what looks whole is not");
        drop(reader);
        disk.wait_idle();
        assert!(!is_there(&disk, "/"));
        assert_eq!((files(&folder, "growth"), files(&folder, "segment")), (0, 0));
    }
    assert!(disk.counts().bytes < 4096);
}

#[test]
fn a_purge_or_a_removal_while_it_comes_holds() {
    let purges: [fn(&Disk); 4] = [
        |disk| disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::Remove),
        |disk| assert!(disk.remove_url(key("/").url()) < 2),
        |disk| assert!(disk.remove(&key("/")) < 2),
        |disk| {
            disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::Remove);
            // The purge is forgotten before the response is complete.
            disk.wait_idle();
        },
    ];
    for (number, purge) in purges.into_iter().enumerate() {
        for is_complete in [false, true] {
            let folder = Folder::new();
            let (mut disk, store, body) = (open(&folder), small(), bytes(LARGE, 1));
            let mut lead = lead(&disk, &store, "/", ("cache-tag: t", None));
            append(&mut lead, &body[..LARGE / 2]);
            if !is_complete {
                purge(&disk);
            }
            append(&mut lead, &body[LARGE / 2..]);
            lead.finish().unwrap();
            if is_complete {
                purge(&disk);
            }
            for _ in 0..2 {
                disk.wait_idle();
                assert!(!is_there(&disk, "/"), "{number} {is_complete}");
                disk.close();
                disk = open(&folder);
            }
            assert_eq!(files(&folder, "growth"), 0);
        }
    }
}

#[test]
fn other_purges_and_soft_ones_do_not_keep_it_away() {
    let folder = Folder::new();
    let (disk, store, body) = (open(&folder), small(), bytes(LARGE, 1));
    let mut lead = lead(&disk, &store, "/", ("cache-tag: t", None));
    append(&mut lead, &body[..LARGE / 2]);
    disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::MakeStale(THEN));
    disk.purge(&Select { tag: Some(b"other"), ..Select::default() }, How::Remove);
    disk.remove_url(key("/other").url());
    // They are forgotten, and what they say of it is not.
    disk.wait_idle();
    assert_eq!(disk.counts().bans, 0);
    append(&mut lead, &body[LARGE / 2..]);
    lead.finish().unwrap();
    disk.wait_idle();
    disk.close();
    let disk = open(&folder);
    let Got::Object(_, false, found) = get(&disk, &key("/"), "") else { panic!("it is there, and stale") };
    assert!(found == body);
}

#[test]
fn the_newest_takes_the_place_of_others_in_either_tier() {
    let folder = Folder::new();
    let (mut disk, store) = (open(&folder), small());
    for round in 0..6 {
        let (large, small) = (bytes(LARGE, round), format!("small {round}"));
        let is_large = round % 2 == 0;
        match is_large {
            true => grow(&disk, &store, "/", &large),
            false => drop(put(&disk, "/", "", small.as_bytes())),
        }
        for _ in 0..2 {
            disk.wait_idle();
            let found = get(&disk, &key("/"), "").body().unwrap();
            assert!(found == if is_large { &large[..] } else { small.as_bytes() }, "{round}");
            assert_eq!(disk.counts().objects, 1);
            disk.close();
            disk = open(&folder);
        }
    }
}

#[test]
fn the_room_is_kept_whatever_grows() {
    let folder = Folder::new();
    let (disk, store) = (open(&folder), small());
    let largest = (LEAST_BYTES / 8) as usize;
    let used = || room::used(&folder);
    for round in 0..30 {
        let mut lead = lead(&disk, &store, &format!("/{round}"), ("", None));
        let body = bytes(largest, round);
        for part in body.chunks(200_000) {
            append(&mut lead, part);
            put(&disk, &format!("/small/{round}"), "", &part[..20_000]);
            assert!(used() <= LEAST_BYTES, "{round}: {}", used());
        }
        lead.finish().unwrap();
        disk.wait_idle();
        assert!(get(&disk, &key(&format!("/{round}")), "").body().unwrap() == body);
        assert!(used() <= LEAST_BYTES && disk.counts().bytes <= LEAST_BYTES);
    }
    // One that becomes too large is not stored, and its readers get it nevertheless.
    let body = bytes(largest + 1, 1);
    let mut one = lead(&disk, &store, "/large", ("", None));
    let mut reader = one.reader().unwrap();
    let mut read = Vec::new();
    for part in body.chunks(50_000) {
        let mut context = Context::from_waker(Waker::noop());
        while one.poll_room(&context).is_pending() {
            if let std::task::Poll::Ready(piece) = reader.poll_piece(&context) {
                read.extend_from_slice(&piece.unwrap().unwrap());
            }
            context = Context::from_waker(Waker::noop());
        }
        one.append(part).unwrap();
    }
    assert!(one.finish().unwrap().is_none());
    read.extend(rest(&mut reader).unwrap());
    assert!(read == body);
    disk.wait_idle();
    assert!(!is_there(&disk, "/large") && files(&folder, "growth") == 0);
}

#[test]
fn a_store_that_closes_leaves_nothing_unfinished() {
    let folder = Folder::new();
    let (disk, store, body) = (open(&folder), small(), bytes(2 * LARGE, 1));
    let mut lead = lead(&disk, &store, "/", ("", None));
    let mut reader = lead.reader().unwrap();
    append(&mut lead, &body[..LARGE]);
    let mut front = Vec::new();
    while front.len() < LARGE {
        front.extend_from_slice(&wait(|context| reader.poll_piece(context)).unwrap().unwrap());
    }
    disk.close();
    assert!(files(&folder, "growth") == 0 && !lead.is_stored_when_complete());
    // It goes on without the disk, at the pace of its reader.
    let reads = std::thread::spawn(move || rest(&mut reader));
    append(&mut lead, &body[LARGE..]);
    lead.finish().unwrap();
    front.extend(reads.join().unwrap().unwrap());
    assert!(front == body && !is_there(&open(&folder), "/"));
}

#[test]
fn what_a_process_has_left_unfinished_is_removed() {
    let folder = Folder::new();
    let disk = open(&folder);
    grow(&disk, &small(), "/", &bytes(LARGE, 1));
    disk.wait_idle();
    disk.close();
    let segment = damage::segments(&folder).pop().unwrap();
    // As it was before its last step.
    std::fs::rename(&segment, segment.with_file_name("00000000.growth")).unwrap();
    let disk = open(&folder);
    assert!(!is_there(&disk, "/") && files(&folder, "growth") == 0);
}
