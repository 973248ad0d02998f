//! Large plain bodies go through a pipe in the kernel: counted by strace over the whole life of the real binary, and
//! compared byte by byte.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Bare, Noise, Proxy, Talk};

use super::syscalls::counts;
use super::{config, watchdog};

/// Bytes of a body.
const LARGE: usize = 16 << 20;
/// Most bytes that the proxy receives into memory at once.
const RECEIVE: usize = 256 * 1024;
/// Fewest receives and sends with which the proxy could copy a body.
const COPIES: u32 = (2 * LARGE / RECEIVE) as u32;
/// Where strace writes, in the directory of the proxy.
const SUMMARY: &str = "syscalls.txt";

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Answers `/length` and `/close` with a large body, `/take` with what it thinks of the one it got, and `/tunnel` with
/// a tunnel that gives back a large body for one. Counts its connections.
fn upstream(connections: &Arc<AtomicUsize>) -> Bare {
    let connections = Arc::clone(connections);
    Bare::start(move |talk| {
        connections.fetch_add(1, Ordering::Relaxed);
        loop {
            let head = talk.head()?;
            match head.target() {
                "/length" => {
                    talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"))?;
                    talk.send(Noise::new(1).take(LARGE))?;
                }
                "/take" => {
                    let (mut noise, mut wrong) = (Noise::new(1), None);
                    let sum = talk.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()))?;
                    let said = format!("{sum} {wrong:?}");
                    talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()))?;
                }
                "/close" => {
                    talk.send("HTTP/1.1 200 OK\r\n\r\n")?;
                    return talk.send(Noise::new(1).take(LARGE));
                }
                _ => {
                    talk.send(
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
                    )?;
                    let got = talk.rest()?;
                    talk.send(&got)?;
                    talk.half_close();
                    return Ok(());
                }
            }
        }
    })
}

/// Reads `LARGE` bytes, more slowly than they come, and compares them.
fn is_right(mut from: impl Read) {
    let (mut noise, mut bytes, mut sum) = (Noise::new(1), vec![0; 64 * 1024], 0);
    while sum < LARGE {
        let len = from.read(&mut bytes).unwrap();
        assert!(len > 0, "it ends after {sum} bytes");
        assert_eq!(noise.check(&bytes[..len]), Ok(()));
        sum += len;
    }
    assert_eq!((sum, from.read(&mut bytes).unwrap()), (LARGE, 0), "and then it ends");
}

/// Has `work` done by a proxy under strace; it moves `bodies` large bodies, all on one connection upstream.
fn is_spliced(name: &str, bodies: u32, work: impl FnOnce(&Proxy)) {
    let _watchdog = watchdog(name);
    let Some(strace) = find_or_skip("strace") else { return };
    let connections = Arc::default();
    let upstream = upstream(&connections);
    let config = config(&[&upstream.url()], "").replace("workers: 2", "workers: 1");
    // -D: the tracer is the grandchild, so the process that the harness knows is the proxy.
    let proxy = Proxy::start_under(&strace, &["-D", "-f", "-c", "-o", SUMMARY], &config);
    work(&proxy);
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(connections.load(Ordering::Relaxed), 1, "a connection is not used again after a large body");
    let faults = ended.log.iter().filter(|record| !record["fault"].is_null()).count();
    assert_eq!(faults, 0, "{:?}", ended.log);
    let summary = fs::read_to_string(ended.directory.path().join(SUMMARY)).unwrap();
    let counts = counts(&summary);
    let sum = |names: &[&str]| names.iter().filter_map(|name| counts.get(name)).sum::<u32>();
    let copies = sum(&["recvfrom", "recvmsg", "readv", "sendto", "sendmsg", "writev"]);
    eprintln!("{name}: {copies} receives and sends, {} splices", sum(&["splice"]));
    assert!(copies < bodies * COPIES / 2, "{copies} receives and sends: the bodies are copied:\n{summary}");
    assert!(sum(&["splice"]) > 0, "nothing is spliced:\n{summary}");
}

#[test]
fn large_bodies_with_a_length_go_through_a_pipe_in_both_directions() {
    is_spliced("large_bodies_with_a_length_go_through_a_pipe_in_both_directions", 4, |proxy| {
        let mut client = Talk::open(proxy.web()).unwrap();
        // The next request stands right behind the body.
        let mut put =
            format!("PUT /take HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LARGE}\r\n\r\n").into_bytes();
        put.extend(Noise::new(1).take(LARGE));
        put.extend_from_slice(b"GET /length HTTP/1.1\r\nHost: a.test\r\n\r\n");
        for _ in 0..2 {
            client.send(&put).unwrap();
            let head = client.head().unwrap();
            let mut said = String::new();
            client.body(&head).read_to_string(&mut said).unwrap();
            assert_eq!(said, format!("{LARGE} None"));
            let head = client.head().unwrap();
            is_right(client.body(&head));
        }
    });
}

#[test]
fn an_answer_that_ends_with_its_connection_goes_through_a_pipe() {
    is_spliced("an_answer_that_ends_with_its_connection_goes_through_a_pipe", 1, |proxy| {
        let mut client = Talk::open(proxy.web()).unwrap();
        client.send("GET /close HTTP/1.0\r\nHost: a.test\r\n\r\n").unwrap();
        assert_eq!(client.head().unwrap().status(), 200);
        is_right(client.stream());
    });
}

#[test]
fn what_is_large_in_a_tunnel_goes_through_a_pipe_in_both_directions() {
    is_spliced("what_is_large_in_a_tunnel_goes_through_a_pipe_in_both_directions", 2, |proxy| {
        let mut client = Talk::open(proxy.web()).unwrap();
        client.send(format!("GET /tunnel HTTP/1.1\r\nHost: a.test\r\n{UPGRADE}\r\n")).unwrap();
        assert_eq!(client.head().unwrap().status(), 101);
        let mut writer = client.writer().unwrap();
        let sending = thread::spawn(move || {
            writer.write_all(&Noise::new(1).take(LARGE)).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        is_right(client.stream());
        sending.join().unwrap();
    });
}
