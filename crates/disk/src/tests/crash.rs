//! Processes that are killed, full disks and read-only ones: each in a process of its own.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a child has its store.
pub(super) const PLACE: &str = "THALWEG_DISK_TEST";
pub(super) const ROUND: &str = "THALWEG_DISK_ROUND";
/// Paths that the child writes to.
const PATHS: u64 = 200;
/// More than the steps of one round.
const STEPS: u64 = 1_000_000;

pub(super) fn child(program: &mut Command, test: &str, place: &Path) -> std::process::Child {
    let args = [&format!("tests::{test}"), "--exact", "--ignored", "--nocapture"];
    program.args(args).env(PLACE, place).stdout(Stdio::piped()).spawn().unwrap()
}

pub(super) fn settings(place: &str) -> Settings {
    Settings { readers: 1, ..Settings::of(Path::new(place).join("cache"), LEAST_BYTES) }
}

fn body_of(number: u64, version: u64) -> Vec<u8> {
    let mut body = format!("{number} {version} ").into_bytes();
    let length = [50, 3000, CHUNK, 5 * CHUNK][(version % 4) as usize];
    body.extend(bytes(length, version));
    body
}

fn version_of(body: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "a process of its own that others start"]
fn writes_until_it_is_killed() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let disk = Disk::open(settings(&place), Said::default().say()).unwrap();
    let mut random = fastrand::Rng::with_seed(round);
    let mut out = std::io::stdout();
    writeln!(out, "\nopen").unwrap();
    for version in round * STEPS + 1.. {
        let number = random.u64(..PATHS);
        let object = object(&key(&format!("/{number}")), "", "", &body_of(number, version));
        disk.put(&object, disk.ticket());
        if version % 8 == 0 {
            let path = format!("/{}", random.u64(..PATHS));
            let path_is = Some(PathIs::Exactly(path.as_bytes(), &[None]));
            disk.purge(&Select { path: path_is, ..Select::default() }, How::Remove);
            writeln!(out, "purged {} {version}", &path[1..]).unwrap();
        }
        if version % 64 == 0 {
            // What is removed by a request is written a little later.
            let number = random.u64(..PATHS);
            disk.remove_url(key(&format!("/{number}")).url());
            disk.wait_idle();
            writeln!(out, "purged {number} {version}").unwrap();
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_no_wrong_byte_and_nothing_that_was_purged() {
    let folder = Folder::new();
    let (mut purged, mut found, mut random) = (HashMap::new(), 0, fastrand::Rng::with_seed(1));
    for round in 0..8 {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let mut child =
            child(program.env(ROUND, round.to_string()), "crash::writes_until_it_is_killed", folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut note = |line: String| {
            let Some((number, version)) = line.strip_prefix("purged ").and_then(|rest| rest.split_once(' '))
            else {
                return false;
            };
            purged.insert(number.parse::<u64>().unwrap(), version.parse::<u64>().unwrap());
            true
        };
        let mut left = random.u32(1..60);
        while left > 0 {
            left -= u32::from(note(lines.next().unwrap().unwrap()));
        }
        child.kill().unwrap();
        // What it has said before it was killed holds too; a line that was cut off does not.
        lines
            .map_while(Result::ok)
            .filter(|line| line.starts_with("purged ") && line.split(' ').count() == 3)
            .for_each(|line| assert!(note(line)));
        child.wait().unwrap();
        let disk = Disk::open(settings(folder.path().to_str().unwrap()), Said::default().say()).unwrap();
        disk.wait_idle();
        assert_eq!(disk.condition(), Condition::Ready);
        assert_eq!(disk.counts().damaged, 0, "a torn end is no damage");
        for number in 0..PATHS {
            let Some(body) = get(&disk, &key(&format!("/{number}")), "").body() else { continue };
            let version = version_of(&body);
            assert!(body == body_of(number, version));
            assert!(version > purged.get(&number).copied().unwrap_or(0), "{number} {version} in {round}");
            found += 1;
        }
        disk.close();
    }
    assert!(found > 100, "{found}");
}

/// Runs a test in a process that has a file system of its own, of six megabytes; false: that is not allowed here.
pub(super) fn in_a_small_file_system(test: &str) -> bool {
    let is_allowed = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        return false;
    }
    let folder = Folder::new();
    let mut program = Command::new("unshare");
    let script = "mount -t tmpfs -o size=6m none \"$0\" && exec \"$@\"";
    program.args(["-m", "sh", "-c", script]).arg(folder.path()).arg(std::env::current_exe().unwrap());
    let output = child(&mut program, test, folder.path()).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    true
}

#[test]
#[ignore = "a process of its own that others start"]
fn fills_its_disk() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let said = Said::default();
    let mut disk = Disk::open(settings(&place), said.say()).unwrap();
    disk.wait_idle();
    for number in 0..200 {
        put(&disk, &format!("/{number}"), "cache-tag: t", &bytes(100_000, number));
        disk.wait_idle();
    }
    assert_eq!(disk.condition(), Condition::Paused);
    let told: Vec<_> =
        said.all().into_iter().filter(|line| line.contains("cannot write: no space")).collect();
    assert_eq!((told.len(), said.all().len()), (1, 1), "{:?}", said.all());
    for _ in 0..2 {
        let there = (0..200).filter(|number| {
            let body = get(&disk, &key(&format!("/{number}")), "").body();
            assert!(body.as_ref().is_none_or(|body| *body == bytes(100_000, *number)));
            body.is_some()
        });
        assert!(there.count() > 30);
        disk.close();
        disk = Disk::open(settings(&place), said.say()).unwrap();
        disk.wait_idle();
    }
    // Something else takes the rest: a purge holds nevertheless, also after a restart.
    let rest = std::fs::File::create(Path::new(&place).join("rest")).unwrap();
    while (&rest).write(&[1; 4096]).is_ok_and(|written| written > 0) {}
    disk.purge(&Select { tag: Some(b"t"), ..Select::default() }, How::Remove);
    assert!((0..200).all(|number| !is_there(&disk, &format!("/{number}"))));
    disk.close();
    let disk = Disk::open(settings(&place), said.say()).unwrap();
    disk.wait_idle();
    assert!((0..200).all(|number| !is_there(&disk, &format!("/{number}"))));
}

#[test]
fn a_full_disk_ends_writing_and_nothing_else() {
    if !in_a_small_file_system("crash::fills_its_disk") {
        println!("not seen: mounting is not allowed here");
    }
}

#[test]
#[ignore = "a process of its own that others start"]
fn has_a_read_only_disk() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let disk = Disk::open(settings(&place), Said::default().say()).unwrap();
    disk.wait_idle();
    put(&disk, "/", "", b"abc");
    disk.wait_idle();
    disk.close();
    assert!(Command::new("mount").args(["-o", "remount,ro", &place]).status().unwrap().success());
    let said = Said::default();
    let disk = Disk::open(settings(&place), said.say()).unwrap();
    disk.wait_idle();
    assert_eq!((disk.condition(), disk.counts().objects), (Condition::Unusable, 0));
    assert!(said.all()[0].contains("read-only"), "{:?}", said.all());
    assert!(!is_there(&disk, "/") && !disk.put(&object(&key("/"), "", "", b"abc"), disk.ticket()));
    disk.purge(&Select::default(), How::Remove);
    disk.remove_url(key("/").url());
}

#[test]
fn with_a_read_only_disk_nothing_is_stored_on_it() {
    if !in_a_small_file_system("crash::has_a_read_only_disk") {
        println!("not seen: mounting is not allowed here");
    }
}
