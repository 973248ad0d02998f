//! The same with responses that memory does not hold, which are written while they come.

use super::*;

/// Longer than an eighth of a memory of 16 MiB, not longer than an eighth of a store of 32 MiB.
fn large(number: usize) -> String {
    format!("/{}/{number}-{}", number % 5, FIRST + 77_777 * (number % 10))
}

/// Bytes of the first of them.
const FIRST: usize = 2_200_000;

/// How many files there are of what is not finished.
fn unfinished(disk: &Path) -> usize {
    let files = fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "growth")).count()
}

#[test]
fn a_process_that_is_killed_in_large_writes_leaves_no_wrong_byte_behind() {
    let _watchdog = watchdog("a_process_that_is_killed_in_large_writes_leaves_no_wrong_byte_behind");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    // There is no room for all.
    let text = config(&origin, &disk, "32MiB", "16MiB");
    kill_under_a_crowd(&text, 32 << 20, (large, 24), (2, 2));
    assert_eq!(unfinished(&disk), 0);
}

#[test]
fn a_flip_in_a_large_one_breaks_off_who_reads_it_and_it_is_fetched_anew() {
    let _watchdog = watchdog("a_flip_in_a_large_one_breaks_off_who_reads_it_and_it_is_fetched_anew");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let text = config(&origin, &disk, "64MiB", "16MiB");
    let path = large(0);
    for at in [100, 300_000, 1_400_000, FIRST] {
        let proxy = Proxy::start(&text);
        // Before that nothing large is written.
        wait_disk(&proxy, "ready", |disk| disk["condition"] == "ready");
        whole(&proxy, &path);
        wait_disk(&proxy, "written", |disk| disk["objects"] == 1);
        assert!(proxy.stop().status.success());
        let file = segments(&disk).pop().unwrap();
        let mut bytes = fs::read(&file).unwrap();
        // Each chunk of 65,536 bytes has eight behind it.
        assert!(bytes.len() > FIRST + 8 * (FIRST / 65_536), "{}", bytes.len());
        bytes[at] ^= 4;
        fs::write(&file, bytes).unwrap();
        let proxy = Proxy::start(&text);
        wait_disk(&proxy, "ready", |disk| disk["condition"] == "ready");
        let before = origin.asked();
        // A part in front of what is damaged, then all of it.
        if at > 500_000 {
            let part = ask(&proxy, &path, "Range: bytes=100-199\r\n");
            assert!(part.status() == 206 && part.body == body_of(&path)[100..200], "{at}");
            assert_eq!(origin.asked(), before);
        }
        match try_to_ask(proxy.web(), &path, "") {
            Ok(answer) => {
                assert!(at == 100 && answer.body == body_of(&path), "{at}: a damaged one looks whole")
            }
            Err(why) => assert!(at > 100, "{at}: {why}"),
        }
        let status = status_of(&whole(&proxy, &path));
        assert_eq!(origin.asked(), before + 1, "{at}: {status}");
        wait_disk(&proxy, "written again", |disk| disk["objects"] == 1);
        purge(&proxy, &json!({ "all": true }));
        assert!(proxy.stop().status.success());
        fs::remove_dir_all(&disk).unwrap();
    }
}

#[test]
fn a_full_disk_costs_no_large_response() {
    let _watchdog = watchdog("a_full_disk_costs_no_large_response");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let script = "mount -t tmpfs -o size=6m,mode=700 none DISK";
    let Some(proxy) = start_mounted(&origin, &disk, script, ("64MiB", "16MiB")) else { return };
    wait_disk(&proxy, "ready", |disk| disk["condition"] == "ready");
    // Several at a time: the disk is full in the middle of some.
    thread::scope(|scope| {
        for number in 0..10 {
            let proxy = &proxy;
            scope.spawn(move || whole(proxy, &large(number)));
        }
    });
    (10..14).for_each(|number| drop(whole(&proxy, &large(number))));
    let full = wait_disk(&proxy, "paused", |disk| disk["condition"] == "paused");
    assert!(full["errors"].as_u64() > Some(0), "{full}");
    (0..14).for_each(|number| drop(whole(&proxy, &large(number))));
    let seen = PathBuf::from(format!("/proc/{}/root{}", proxy.process().pid(), disk.display()));
    assert_eq!(unfinished(&seen), 0);
    let said = proxy.process().stderr();
    assert_eq!(said.matches("cannot write: no space left on device").count(), 1, "{said}");
    assert!(proxy.stop().status.success());
}
