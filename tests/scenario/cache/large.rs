//! Responses that are larger than memory's share: they go to the disk while they are fetched, one fetch for all, and
//! what is there is whole or not there.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use thalweg_tests::{Admin, Directory, Proxy, STEP};

use super::{Half, Halves, ask, asking, body, config, reads, reads_body, send, wait_metric, watchdog};

/// Less than an eighth of the disk. Half of it is more than an eighth of the memory.
const LEN: usize = 5_000_000;

/// A proxy with 16 MiB of memory, enough for two of them to come at a time, and 64 MiB of disk.
fn start(endpoint: &str, disk: &Directory, rule: &str) -> Proxy {
    let text = config(endpoint, &format!("{{ cache: {rule} }}"));
    let cache = format!(
        "cache: {{ memory: 16MiB, disk: {{ path: {}, size: 64MiB }} }}",
        disk.path().join("c").display()
    );
    let proxy = Proxy::start(&text.replace("cache: { memory: 256MiB }", &cache));
    wait_metric(&proxy, "thalweg_cache_disk_condition{condition=\"ready\"}", |ready| ready == 1);
    proxy
}

#[test]
fn one_fetch_serves_all_and_fills_the_disk() {
    let _watchdog = watchdog("one_fetch_serves_all_and_fills_the_disk");
    for chunked in [false, true] {
        let (object, disk) = (body(LEN, 7), Directory::new());
        let endpoint = Halves::start(vec![object.clone()], chunked);
        let proxy = start(&endpoint.url(), &disk, "{}");
        let leader = asking(&proxy, "/object");
        let half = endpoint.next();
        let mut clients: Vec<_> = (0..10).map(|_| asking(&proxy, "/object")).collect();
        clients.push(leader);
        let heads: Vec<_> = clients.iter_mut().map(|client| client.head().unwrap()).collect();
        half.send(Half::Rest).unwrap();
        let threads: Vec<_> = clients
            .into_iter()
            .zip(heads)
            .map(|(mut client, head)| {
                let object = object.clone();
                thread::spawn(move || reads_body(&mut client, &head, &object))
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(()), "chunked: {chunked}");
        }
        wait_metric(&proxy, "thalweg_cache_disk_objects", |objects| objects == 1);
        assert!(proxy.stop().status.success());
        // From the disk, after a restart; but not with a limit below its size.
        let proxy = start(&endpoint.url(), &disk, "{}");
        wait_metric(&proxy, "thalweg_cache_disk_objects", |objects| objects == 1);
        assert_eq!(reads(&mut asking(&proxy, "/object"), &object), Ok(()));
        let part = ask(&proxy, "/object", "Range: bytes=2000000-2000009\r\n");
        assert!(part.status() == 206 && part.body == object[2_000_000..2_000_010]);
        let head = send(&proxy, "HEAD", "/object", "");
        assert_eq!((head.value("content-length"), head.body.len()), (Some("5000000"), 0));
        assert_eq!(endpoint.asked(), 1);
        assert!(proxy.stop().status.success());
        let proxy = start(&endpoint.url(), &disk, "{ max_object: 1MB }");
        let mut again = asking(&proxy, "/object");
        endpoint.next().send(Half::Rest).unwrap();
        assert_eq!(reads(&mut again, &object), Ok(()));
        assert_eq!(endpoint.asked(), 2);
    }
}

#[test]
fn a_cut_leaves_nothing_on_the_disk() {
    let _watchdog = watchdog("a_cut_leaves_nothing_on_the_disk");
    for chunked in [false, true] {
        let (object, disk) = (body(LEN, 8), Directory::new());
        let endpoint = Halves::start(vec![object.clone()], chunked);
        let proxy = start(&endpoint.url(), &disk, "{}");
        let mut clients = vec![asking(&proxy, "/object")];
        let half = endpoint.next();
        clients.extend((0..5).map(|_| asking(&proxy, "/object")));
        let heads: Vec<_> = clients.iter_mut().map(|client| client.head().unwrap()).collect();
        half.send(Half::Cut).unwrap();
        for (client, head) in clients.iter_mut().zip(&heads) {
            assert!(reads_body(client, head, &object).is_err(), "a response looks whole");
        }
        let mut next = asking(&proxy, "/object");
        endpoint.next().send(Half::Rest).unwrap();
        assert_eq!(reads(&mut next, &object), Ok(()));
        wait_metric(&proxy, "thalweg_cache_disk_objects", |objects| objects == 1);
        assert_eq!(endpoint.asked(), 2);
    }
}

/// The files of unfinished responses, with their lengths.
fn unfinished(disk: &Directory) -> Vec<(PathBuf, u64)> {
    let files = std::fs::read_dir(disk.path().join("c")).unwrap().map(|entry| entry.unwrap().path());
    let all = files.filter(|path| path.extension().is_some_and(|end| end == "growth"));
    all.filter_map(|path| Some((path.clone(), path.metadata().ok()?.len()))).collect()
}

/// Waits until so many bytes of a response that is coming are on the disk.
fn wait_unfinished(disk: &Directory, bytes: u64) {
    let end = Instant::now() + STEP;
    while !unfinished(disk).iter().any(|(_, length)| *length >= bytes) {
        assert!(Instant::now() < end, "{:?}", unfinished(disk));
        thread::yield_now();
    }
}

#[test]
fn a_process_that_is_killed_in_a_large_response_leaves_nothing_of_it() {
    let _watchdog = watchdog("a_process_that_is_killed_in_a_large_response_leaves_nothing_of_it");
    for chunked in [false, true] {
        let (object, disk) = (body(LEN, 9), Directory::new());
        let endpoint = Halves::start(vec![object.clone()], chunked);
        let proxy = start(&endpoint.url(), &disk, "{}");
        let mut client = asking(&proxy, "/object");
        let half = endpoint.next();
        wait_unfinished(&disk, LEN as u64 / 4);
        proxy.process().signal(Signal::KILL);
        proxy.process().wait_exit(STEP);
        assert!(reads(&mut client, &object).is_err(), "a response looks whole");
        drop(half);
        assert_eq!(unfinished(&disk).len(), 1, "it was killed while it wrote");
        let proxy = start(&endpoint.url(), &disk, "{}");
        assert_eq!(unfinished(&disk), []);
        let part = ask(&proxy, "/object", "Range: bytes=0-9\r\nCache-Control: only-if-cached\r\n");
        assert_eq!(part.status(), 504, "{}", part.text());
        let mut again = asking(&proxy, "/object");
        endpoint.next().send(Half::Rest).unwrap();
        assert_eq!(reads(&mut again, &object), Ok(()));
        wait_metric(&proxy, "thalweg_cache_disk_objects", |objects| objects == 1);
        assert_eq!(endpoint.asked(), 2);
    }
}

#[test]
fn a_purge_while_a_large_response_comes_keeps_it_from_being_stored() {
    let _watchdog = watchdog("a_purge_while_a_large_response_comes_keeps_it_from_being_stored");
    let (old, new) = (body(LEN, 10), body(LEN + 100_000, 11));
    for what in
        ["url\":\"http://a.test/object", "prefix\":\"http://a.test/ob", "host\":\"a.test", "tag\":\"t"]
    {
        let disk = Directory::new();
        let endpoint = Halves::start(vec![old.clone(), new.clone()], false);
        let proxy = start(&endpoint.url(), &disk, "{}");
        let mut early = asking(&proxy, "/object");
        let half = endpoint.next();
        let mut follower = asking(&proxy, "/object");
        let head = follower.head().unwrap();
        wait_unfinished(&disk, LEN as u64 / 4);
        let purged = Admin::of(&proxy).call("POST", "/api/v1/cache/purge", &format!("{{\"{what}\"}}"));
        assert_eq!(purged.status(), 200, "{what}: {}", purged.text());
        // Who asks after the purge gets nothing of before.
        let mut late = asking(&proxy, "/object");
        endpoint.next().send(Half::Rest).unwrap();
        assert_eq!(reads(&mut late, &new), Ok(()), "{what}");
        half.send(Half::Rest).unwrap();
        assert_eq!(reads(&mut early, &old), Ok(()), "{what}: who asked before gets what was begun");
        assert_eq!(reads_body(&mut follower, &head, &old), Ok(()), "{what}");
        wait_metric(&proxy, "thalweg_cache_disk_objects", |objects| objects == 1);
        assert_eq!(reads(&mut asking(&proxy, "/object"), &new), Ok(()), "{what}");
        proxy.process().signal(Signal::KILL);
        proxy.process().wait_exit(STEP);
        let proxy = start(&endpoint.url(), &disk, "{}");
        assert_eq!(reads(&mut asking(&proxy, "/object"), &new), Ok(()), "{what}: after a restart");
        assert_eq!(endpoint.asked(), 2, "{what}");
    }
}
