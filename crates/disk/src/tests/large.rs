//! Large objects under kills, full disks, flipped bits and a disk that hangs: no wrong byte comes out, and nothing
//! unfinished is found.

use super::crash::{PLACE, ROUND, child, in_a_small_file_system, settings};
use super::growth::{LARGE, append, files, grow, lead, rest, small};
use super::*;
use crate::log::FIRST;
use crate::record::{At, Header};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use thalweg_store::{Claim, Lead, Store};

/// Paths that the child writes to.
const PATHS: u64 = 5;

fn body_of(number: u64, round: u64) -> Vec<u8> {
    bytes(LARGE + number as usize, 100 * round + number)
}

#[test]
#[ignore = "a process of its own that others start"]
fn writes_large_ones_until_it_is_killed() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let (disk, store) = (Disk::open(settings(&place), Said::default().say()).unwrap(), small());
    disk.wait_idle();
    let mut out = std::io::stdout();
    writeln!(out, "\nopen").unwrap();
    for number in (0..PATHS).cycle() {
        let body = body_of(number, round);
        let mut one = lead(&disk, &store, &format!("/{number}"), ("", None));
        for (place, part) in body.chunks(body.len() / 8).enumerate() {
            append(&mut one, part);
            writeln!(out, "part {place}").unwrap();
        }
        // From here on the earlier one may be gone.
        writeln!(out, "finishes {number}").unwrap();
        one.finish().unwrap();
        disk.wait_idle();
        writeln!(out, "stored {number}").unwrap();
    }
}

#[test]
fn a_process_that_is_killed_in_a_large_write_leaves_nothing_unfinished() {
    let (folder, mut found) = (Folder::new(), 0);
    for round in 0..10_u64 {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let test = "large::writes_large_ones_until_it_is_killed";
        let mut child = child(program.env(ROUND, round.to_string()), test, folder.path());
        let (mut stored, mut left) = (BTreeSet::new(), 1 + 7 * round);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut note = |line: &str| match line.split_once(' ') {
            Some(("finishes", number)) => drop(stored.remove(number)),
            Some(("stored", number)) => drop(stored.insert(number.to_owned())),
            _ => {}
        };
        while left > 0 {
            let line = lines.next().expect("the child writes until it is killed");
            left -= u64::from(line.starts_with("part ") || line.starts_with("finishes "));
            note(&line);
        }
        child.kill().unwrap();
        // What it has said before it died counts too; the last line may be a part of one.
        let rest: Vec<_> = lines.collect();
        child.wait().unwrap();
        rest.iter().for_each(|line| note(line));
        let disk = Disk::open(settings(folder.path().to_str().unwrap()), Said::default().say()).unwrap();
        disk.wait_idle();
        assert_eq!((disk.condition(), files(&folder, "growth")), (Condition::Ready, 0), "{round}");
        for number in 0..PATHS {
            let got = get(&disk, &key(&format!("/{number}")), "");
            if stored.contains(&number.to_string()) {
                assert_ne!(got, Got::Nothing, "{number} was stored in {round}");
            }
            let Some(body) = got.body() else { continue };
            assert!((0..=round).any(|round| body == body_of(number, round)), "{number} in {round}");
            found += 1;
        }
        assert_eq!(disk.counts().damaged, 0);
        disk.close();
    }
    assert!(found >= 10, "{found}");
}

/// Fills a response whose client reads it to its end at the same time.
fn fill_and_read(disk: &Disk, store: &Store, path: &str, body: &[u8]) {
    let mut one = lead(disk, store, path, ("cache-tag: t", None));
    let mut reader = one.reader().unwrap();
    let reads = std::thread::spawn(move || rest(&mut reader));
    append(&mut one, body);
    one.finish().unwrap();
    assert!(reads.join().unwrap().unwrap() == body, "{path}");
}

/// What is found of these is right; how many that are.
fn right(disk: &Disk) -> usize {
    let is_right = |number: &u64| match get(disk, &key(&format!("/{number}")), "") {
        Got::Nothing => false,
        Got::Object(_, _, body) => {
            assert!(body == body_of(*number, 0), "{number}");
            true
        }
        Got::Broken(_) => panic!("{number} breaks off"),
    };
    (0..20).filter(is_right).count()
}

/// Large responses come while the disk refuses to take them, and their clients get them.
fn comes_while_the_disk_refuses(place: &str, least: usize) {
    let said = Said::default();
    let (mut disk, store) = (Disk::open(settings(place), said.say()).unwrap(), small());
    disk.wait_idle();
    for number in 0..20 {
        fill_and_read(&disk, &store, &format!("/{number}"), &body_of(number, 0));
        disk.wait_idle();
    }
    assert_eq!(disk.condition(), Condition::Paused, "{:?}", said.all());
    assert_eq!(said.all().len(), 1, "it is said once: {:?}", said.all());
    for _ in 0..2 {
        let unfinished = std::fs::read_dir(Path::new(place).join("cache")).unwrap();
        let is_one = |end: &std::ffi::OsStr| end == "growth";
        assert!(!unfinished.into_iter().any(|one| one.unwrap().path().extension().is_some_and(is_one)));
        assert!(right(&disk) >= least);
        disk.close();
        disk = Disk::open(settings(place), said.say()).unwrap();
        disk.wait_idle();
    }
    // It goes on: a small one is stored, and a purge holds.
    put(&disk, "/small", "", b"abc");
    disk.wait_idle();
    assert_eq!(get(&disk, &key("/small"), "").body().unwrap(), b"abc");
    disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::Remove);
    assert_eq!(right(&disk), 0);
}

#[test]
#[ignore = "a process of its own that others start"]
fn fills_its_disk_with_large_ones() {
    let Ok(place) = std::env::var(PLACE) else { return };
    comes_while_the_disk_refuses(&place, 1);
}

#[test]
fn a_full_disk_costs_no_large_response() {
    if !in_a_small_file_system("large::fills_its_disk_with_large_ones") {
        println!("not seen: mounting is not allowed here");
    }
}

#[test]
#[ignore = "a process of its own that others start"]
fn has_a_limit_for_its_files() {
    let Ok(place) = std::env::var(PLACE) else { return };
    comes_while_the_disk_refuses(&place, 0);
}

#[test]
fn a_limit_for_files_costs_no_large_response() {
    let folder = Folder::new();
    let mut program = Command::new("sh");
    // Blocks of 512 bytes: less than a large one, more than the file of bans.
    program.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""]);
    program.arg(std::env::current_exe().unwrap());
    let child = child(&mut program, "large::has_a_limit_for_its_files", folder.path());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "a process of its own that others start"]
fn has_a_read_only_disk_and_large_ones() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let (disk, store) = (Disk::open(settings(&place), Said::default().say()).unwrap(), small());
    disk.wait_idle();
    disk.close();
    assert!(Command::new("mount").args(["-o", "remount,ro", &place]).status().unwrap().success());
    let disk = Disk::open(settings(&place), Said::default().say()).unwrap();
    disk.wait_idle();
    fill_and_read(&disk, &store, "/0", &body_of(0, 0));
    assert_eq!((disk.condition(), right(&disk)), (Condition::Unusable, 0));
}

#[test]
fn a_read_only_disk_costs_no_large_response() {
    if !in_a_small_file_system("large::has_a_read_only_disk_and_large_ones") {
        println!("not seen: mounting is not allowed here");
    }
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// The only segment, and the header of its first record.
fn segment(folder: &Folder) -> (File, Header) {
    let path = damage::segments(folder).pop().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut front = [0; FIRST as usize + HEADER];
    file.read_exact_at(&mut front, 0).unwrap();
    let instance = u64::from_le_bytes(front[16..24].try_into().unwrap());
    let number = u32::from_le_bytes(front[24..28].try_into().unwrap());
    let header = Header::decode(&front[FIRST as usize..], At { instance, segment: number, offset: FIRST });
    (file, header.unwrap())
}

/// Places of a flip, each with the length of what may come before it.
fn places(header: &Header) -> Vec<(u64, usize)> {
    let front = [0, HEADER as u64 - 1, HEADER as u64, (HEADER + header.meta()) as u64 - 1];
    let mut all: Vec<_> = front.map(|at| (FIRST + at, 0)).into();
    for number in [0, 1, 10, 19, 20] {
        let (from, length) = header.chunk(number).unwrap();
        for at in [0, length / 2, length, length + SUM - 1] {
            all.push((FIRST + from + at as u64, number as usize * CHUNK));
        }
    }
    all
}

#[test]
fn a_flip_anywhere_in_a_large_one_breaks_it_off_and_drops_it() {
    let body = bytes(LARGE, 1);
    let many = 4 + 5 * 4;
    for (place, is_restarted) in (0..many).flat_map(|place| [(place, false), (place, true)]) {
        let folder = Folder::new();
        let disk = open(&folder);
        grow(&disk, &small(), "/", &body);
        disk.wait_idle();
        let (file, header) = segment(&folder);
        let all = places(&header);
        assert_eq!(all.len(), many);
        let (at, before) = all[place];
        let in_use = if is_restarted {
            disk.close();
            None
        } else {
            Some(disk)
        };
        flip(&file, at);
        let mut disk = in_use.unwrap_or_else(|| open(&folder));
        disk.wait_idle();
        match get(&disk, &key("/"), "") {
            Got::Nothing => assert!(before == 0, "{at}"),
            Got::Broken(found) => assert!(found.len() == before && found == body[..before], "{at}"),
            Got::Object(..) => panic!("{at}: a damaged one looks whole"),
        }
        for _ in 0..2 {
            disk.wait_idle();
            assert_eq!((get(&disk, &key("/"), ""), disk.counts().objects), (Got::Nothing, 0), "{at}");
            disk.close();
            disk = open(&folder);
        }
        // The place is free for the next.
        grow(&disk, &small(), "/", &body);
        disk.wait_idle();
        assert!(get(&disk, &key("/"), "").body().unwrap() == body);
    }
}

#[test]
fn a_part_behind_a_flip_is_right_and_one_with_it_breaks_off() {
    let (folder, body, policy) = (Folder::new(), bytes(LARGE, 1), Policy::default());
    let disk = open(&folder);
    grow(&disk, &small(), "/", &body);
    disk.wait_idle();
    let (file, header) = segment(&folder);
    flip(&file, FIRST + header.chunk(10).unwrap().0);
    let (key, mut variant) = (key("/"), Vec::new());
    let place = disk.find(&key, &policy, lines(""), &mut variant).unwrap();
    let mut load = disk.load(place, &key, &variant).unwrap();
    wait(|context| load.poll_head(context, &policy)).unwrap();
    load.seek(11 * CHUNK as u64 + 5);
    assert!(read(&mut load).unwrap() == body[11 * CHUNK + 5..]);
    load.seek(10 * CHUNK as u64 + 5);
    assert_eq!(read(&mut load), Err(Vec::new()));
    assert_eq!((get(&disk, &key, ""), disk.counts().damaged), (Got::Nothing, 1));
}

#[test]
fn a_flip_in_what_is_still_written_breaks_off_who_reads_it() {
    let (folder, body) = (Folder::new(), bytes(3 * LARGE / 2, 1));
    let (disk, store) = (open(&folder), small());
    let mut one = lead(&disk, &store, "/", ("", None));
    let mut behind = one.reader().unwrap();
    append(&mut one, &body[..LARGE]);
    disk.wait_idle();
    let all = std::fs::read_dir(folder.path().join("cache")).unwrap();
    let mut paths = all.map(|entry| entry.unwrap().path());
    let path = paths.find(|path| path.extension().is_some_and(|end| end == "growth")).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // In the fourth chunk, give or take the length of the head.
    flip(&file, FIRST + HEADER as u64 + 3 * (CHUNK + SUM) as u64 + CHUNK as u64 / 2);
    let mut read = Vec::new();
    let end = loop {
        match wait(|context| behind.poll_piece(context)) {
            Ok(Some(piece)) => read.extend_from_slice(&piece),
            end => break end,
        }
    };
    assert!(end.is_err() && read == body[..3 * CHUNK], "{}", read.len());
    // The fill goes on; what it has left is not used as a whole.
    append(&mut one, &body[LARGE..]);
    one.finish().unwrap();
    disk.wait_idle();
    assert!(matches!(get(&disk, &key("/"), ""), Got::Broken(found) if found == body[..3 * CHUNK]));
    assert_eq!(get(&disk, &key("/"), ""), Got::Nothing);
}

/// Fills until nothing more is taken; how much that was.
fn append_what_is_taken(one: &mut Lead, body: &[u8]) -> usize {
    let mut taken = 0;
    for part in body.chunks(CHUNK) {
        let context = std::task::Context::from_waker(std::task::Waker::noop());
        if one.poll_room(&context).is_pending() {
            break;
        }
        one.append(part).unwrap();
        taken += part.len();
    }
    taken
}

#[test]
fn a_disk_that_hangs_ends_the_write_and_nothing_else() {
    let (folder, body) = (Folder::new(), bytes(LARGE, 1));
    let (disk, store) = (open(&folder), small());
    let mut one = lead(&disk, &store, "/", ("", None));
    let mut reader = one.reader().unwrap();
    // So much is written.
    let written = 2 * CHUNK;
    append(&mut one, &body[..written]);
    disk.wait_idle();
    let growth = disk.shared().all_growths().pop().unwrap();
    growth.hang();
    let taken = written + append_what_is_taken(&mut one, &body[written..]);
    assert!(taken < LARGE, "the leader waits for the disk");
    disk.shared().end_stalled();
    assert!(one.is_stored_when_complete(), "it has not waited for long");
    growth.has_waited(crate::settings::STALLED);
    disk.shared().end_stalled();
    assert!(!one.is_stored_when_complete());
    // At the pace of its reader, and without the disk.
    let reads = std::thread::spawn(move || rest(&mut reader));
    append(&mut one, &body[taken..]);
    one.finish().unwrap();
    assert!(reads.join().unwrap().unwrap() == body);
    assert!(!is_there(&disk, "/"));
    // Once the write has come to its end at last.
    growth.queue();
    disk.wait_idle();
    assert!(!is_there(&disk, "/") && files(&folder, "growth") == 0);
    // The next has nothing to do with it.
    grow(&disk, &store, "/", &body);
    disk.wait_idle();
    assert!(get(&disk, &key("/"), "").body().unwrap() == body);
}

#[test]
fn a_service_that_is_silent_is_not_taken_for_a_disk_that_hangs() {
    let (folder, body) = (Folder::new(), bytes(LARGE, 1));
    let (disk, store) = (open(&folder), small());
    let mut one = lead(&disk, &store, "/", ("", None));
    // A client that reads nothing does not hold it up.
    let mut idle = one.reader().unwrap();
    append(&mut one, &body[..LARGE / 2]);
    disk.wait_idle();
    let growth = disk.shared().all_growths().pop().unwrap();
    // All is written: whatever time goes by, the disk is not to blame.
    growth.has_waited(crate::settings::STALLED);
    disk.shared().end_stalled();
    assert!(one.is_stored_when_complete());
    append(&mut one, &body[LARGE / 2..]);
    one.finish().unwrap();
    disk.wait_idle();
    assert!(matches!(store.claim(&key("/"), b"", &store.find(&key("/")), THEN), Claim::Lead(_)));
    assert!(get(&disk, &key("/"), "").body().unwrap() == body && rest(&mut idle).unwrap() == body);
}
