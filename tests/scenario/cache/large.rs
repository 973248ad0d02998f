//! Responses that are larger than memory's share: they go to the disk while they are fetched, one fetch for all, and
//! what is there is whole or not there.

use std::thread;

use thalweg_tests::{Directory, Proxy};

use super::{Half, Halves, asking, body, config, reads, reads_body, wait_metric, watchdog};

/// More than an eighth of the memory, less than an eighth of the disk.
const LEN: usize = 3_000_000;

/// A proxy with 8 MiB of memory and 64 MiB of disk.
fn start(endpoint: &str, disk: &Directory, rule: &str) -> Proxy {
    let text = config(endpoint, &format!("{{ cache: {rule} }}"));
    let cache = format!(
        "cache: {{ memory: 8MiB, disk: {{ path: {}, size: 64MiB }} }}",
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
        let part = super::ask(&proxy, "/object", "Range: bytes=2000000-2000009\r\n");
        assert!(part.status() == 206 && part.body == object[2_000_000..2_000_010]);
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
