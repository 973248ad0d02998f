//! Who may pass: lists that change, blocks at run time, listeners, bans; and what becomes of bad lists.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::proxy::read_log;
use thalweg_tests::{Admin, Bare, Directory, Proxy, STEP, Talk, Upstream};

use super::budget::{ask_from, open_from};
use super::{config, wait_counted, watchdog};

const LIMIT: Duration = Duration::from_secs(20);
const TRUSTED: &str = "trusted_proxies: [ 127.0.0.1 ]\n";

fn verb(directory: &Path, arguments: &[&str]) -> Finished {
    run(command(directory).args(arguments), LIMIT)
}

/// The status that a client behind a trusted proxy gets.
fn status_of(web: SocketAddr, client: &str, path: &str) -> u16 {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n"
    );
    fetch(web, &request).unwrap().status()
}

/// Waits until a client gets this status.
fn wait_status(web: SocketAddr, client: &str, wanted: u16) {
    let end = Instant::now() + STEP;
    while status_of(web, client, "/") != wanted {
        assert!(Instant::now() < end, "{client} does not get {wanted}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The configuration with these filters at its route.
fn filtered(upstream: &Upstream, filters: &str, more: &str) -> String {
    config(&[&upstream.url()], more).replace("{ to: s }", &format!("{{ filters: [ {filters} ], to: s }}"))
}

#[test]
fn an_address_is_blocked_at_run_time_and_unblocked() {
    let _watchdog = watchdog("an_address_is_blocked_at_run_time_and_unblocked");
    let upstream = Upstream::saying("here");
    let proxy = Proxy::start(&config(&[&upstream.url()], &format!("{TRUSTED}state: {{ path: state }}\n")));
    let (web, directory) = (proxy.web(), proxy.directory().to_owned());
    assert_eq!(status_of(web, "192.0.2.7", "/"), 200);
    let mut kept = Talk::open(web).unwrap();
    let ask = |talk: &mut Talk| {
        talk.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n").unwrap();
        let head = talk.head().unwrap();
        talk.body(&head).each(|_| {}).unwrap();
        head.status()
    };
    assert_eq!(ask(&mut kept), 200);
    let events = Admin::of(&proxy).events();
    let done = verb(&directory, &["block", "192.0.2.7", "--for", "1h", "--reason", "scans"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "192.0.2.7: in the list `blocked` for 1h\n"),
        "{done:?}"
    );
    // At once, on every worker, and also on a connection that was there before.
    assert_eq!(ask(&mut kept), 403);
    for _ in 0..8 {
        assert_eq!((status_of(web, "192.0.2.7", "/"), status_of(web, "192.0.2.8", "/")), (403, 200));
    }
    let cause = events.wait("address_blocked", None)["cause"].as_str().unwrap().to_owned();
    assert_eq!(cause, "192.0.2.7 in the list `blocked` for 1h (scans)");
    let list = Admin::of(&proxy).get("/api/v1/access/blocked");
    assert_eq!(
        (&list["entries"][0]["network"], &list["entries"][0]["reason"]),
        (&"192.0.2.7".into(), &"scans".into())
    );
    assert!(list["entries"][0]["until"].as_u64().unwrap() > list["entries"][0]["since"].as_u64().unwrap());
    // It is in the audit log, and kept across a restart.
    let audit = Admin::of(&proxy).get("/api/v1/audit").to_string();
    assert!(audit.contains("/api/v1/access/blocked") && audit.contains("192.0.2.7"), "{audit}");
    let ended = proxy.stop();
    let reasons: Vec<&str> = ended.log.iter().filter_map(|record| record["reason"].as_str()).collect();
    assert!(reasons.contains(&"192.0.2.7 is denied: 192.0.2.7 (scans) of the list `blocked`"), "{reasons:?}");
    let text = fs::read_to_string(ended.directory.path().join("thalweg.yaml")).unwrap();
    let proxy = Proxy::start_in(ended.directory, &text);
    let web = proxy.web();
    assert_eq!((status_of(web, "192.0.2.7", "/"), status_of(web, "192.0.2.8", "/")), (403, 200));
    let wrong = verb(&directory, &["unblock", "192.0.2.70"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("was not added"), "{wrong:?}");
    assert_eq!(verb(&directory, &["unblock", "192.0.2.7"]).code, 0);
    assert_eq!(status_of(web, "192.0.2.7", "/"), 200);
    // A time that is over.
    assert_eq!(verb(&directory, &["block", "2001:db8::/64", "--for", "1s"]).code, 0);
    assert_eq!(status_of(web, "2001:db8::9", "/"), 403);
    let inside = verb(&directory, &["unblock", "2001:db8::9"]);
    assert!(inside.stderr.contains("`2001:db8::/64` contains it"), "{inside:?}");
    wait_status(web, "2001:db8::9", 200);
    for wrong in
        [&["block", "nobody"][..], &["block", "10.0.0.1/8"], &["block", "10.0.0.1", "--list", "none"]]
    {
        let told = verb(&directory, wrong);
        assert_ne!(told.code, 0, "{told:?}");
    }
}

#[test]
fn a_blocked_peer_is_closed_before_it_is_read() {
    let _watchdog = watchdog("a_blocked_peer_is_closed_before_it_is_read");
    let upstream = Upstream::saying("here");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let (web, directory) = (proxy.web(), proxy.directory().to_owned());
    assert_eq!(ask_from("127.0.0.2", web).0, 200);
    assert_eq!(verb(&directory, &["block", "127.0.0.2"]).code, 0);
    is_closed("127.0.0.2", web);
    assert_eq!(get(web, "/").unwrap().status(), 200, "others pass");
    wait_counted(&proxy, "thalweg_limit_hits_total", "limit=\"access\"", 1);
    let end = Instant::now() + STEP;
    loop {
        let log = read_log(&proxy.log_path());
        if log.iter().any(|record| record["reason"].as_str().is_some_and(|text| text.contains("`blocked`"))) {
            break;
        }
        assert!(Instant::now() < end, "no line: {log:?}");
        thread::yield_now();
    }
    assert_eq!(verb(&directory, &["unblock", "127.0.0.2"]).code, 0);
    assert_eq!(ask_from("127.0.0.2", web).0, 200);
}

/// The proxy ends the connection of this address without a word.
fn is_closed(address: &str, to: SocketAddr) {
    let mut client = open_from(address, to);
    let end = client.read_to_end(Instant::now() + STEP);
    assert!(client.seen().is_empty() && !matches!(end, Event::Late), "{address}: {end:?}");
}

/// The mistake: addresses are looked up in a list that is read at the start alone, and under load some pass. What `ab`
/// makes: many clients at once, some of whom are blocked by the file, and some while the proxy runs.
#[test]
fn under_load_the_blocked_get_403_and_all_others_pass() {
    let _watchdog = watchdog("under_load_the_blocked_get_403_and_all_others_pass");
    let upstream = Upstream::saying("here");
    let directory = Directory::new();
    directory.write("blocked.txt", "# of the seed\n192.0.2.1\n198.51.100.0/24\n");
    let more = format!("{TRUSTED}lists: {{ blocked: [ {{ file: blocked.txt }} ] }}\n");
    let proxy = Proxy::start_in(directory, &config(&[&upstream.url()], &more));
    let web = proxy.web();
    assert_eq!(verb(proxy.directory(), &["block", "203.0.113.0/25"]).code, 0);
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..8_u8)
        .map(|worker| {
            let wrong = wrong.clone();
            thread::spawn(move || {
                for round in 0..40_u8 {
                    let host = worker.wrapping_mul(31).wrapping_add(round);
                    for (client, wanted) in [
                        ("192.0.2.1".to_owned(), 403),
                        (format!("198.51.100.{host}"), 403),
                        (format!("203.0.113.{}", host % 128), 403),
                        (format!("203.0.113.{}", 128 + host % 128), 200),
                        (format!("192.0.2.{}", 2 + host % 200), 200),
                        (format!("2001:db8::{host:x}"), 200),
                    ] {
                        let got = status_of(web, &client, "/");
                        if got != wanted {
                            wrong.lock().unwrap().push((client, got));
                        }
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert!(wrong.lock().unwrap().is_empty(), "{:?}", wrong.lock().unwrap());
    assert_eq!(upstream.served(), 8 * 40 * 3);
}

#[test]
fn a_list_in_a_file_is_read_again_and_a_half_written_one_is_not_taken() {
    let _watchdog = watchdog("a_list_in_a_file_is_read_again_and_a_half_written_one_is_not_taken");
    let upstream = Upstream::saying("here");
    let directory = Directory::new();
    let list = directory.write("deny.txt", "192.0.2.0/24\n");
    let filters = "{ access: { deny: { file: deny.txt } } }";
    let proxy = Proxy::start_in(directory, &filtered(&upstream, filters, TRUSTED));
    let web = proxy.web();
    assert_eq!((status_of(web, "192.0.2.1", "/"), status_of(web, "198.51.100.1", "/")), (403, 200));
    fs::write(&list, "192.0.2.0/24\n198.51.100.0/24\n").unwrap();
    wait_status(web, "198.51.100.1", 403);
    fs::write(&list, "198.51.100.0/24\n192.0.2.0/\n").unwrap();
    let said =
        |line: &str| line.contains("line 2: is neither a network nor an address").then(|| line.to_owned());
    let line = proxy.process().wait_line("the wrong line", STEP, said);
    assert!(line.contains("deny.txt") && line.ends_with("the old list with 2 networks stays"), "{line}");
    assert_eq!((status_of(web, "192.0.2.1", "/"), status_of(web, "198.51.100.1", "/")), (403, 403));
    // A reload says the same and changes nothing.
    let reload = verb(proxy.directory(), &["reload"]);
    assert!(reload.code == 1 && (reload.stdout + &reload.stderr).contains("line 2"));
    assert_eq!(status_of(web, "192.0.2.1", "/"), 403);
    // Another file takes its place.
    let next = list.with_extension("new");
    fs::write(&next, "203.0.113.0/24\n").unwrap();
    fs::rename(&next, &list).unwrap();
    wait_status(web, "192.0.2.1", 200);
    assert_eq!(status_of(web, "203.0.113.1", "/"), 403);
}

#[test]
fn a_wrong_list_is_an_error_at_the_start() {
    let _watchdog = watchdog("a_wrong_list_is_an_error_at_the_start");
    let upstream = Upstream::saying("here");
    for (text, part) in [
        ("192.0.2.0/24\nnonsense\n".to_owned(), "line 2: is neither a network nor an address"),
        ("1".repeat(1 << 20), "line 1: it is longer"),
    ] {
        let directory = Directory::new();
        directory.write("deny.txt", &text);
        let text =
            filtered(&upstream, "{ access: { deny: { file: deny.txt } } }", "").replace("{log}", "log");
        let file = directory.write("a.yaml", &text);
        let told = verb(directory.path(), &["check", file.to_str().unwrap()]);
        assert!(told.code == 1 && (told.stdout.clone() + &told.stderr).contains(part), "{told:?}");
    }
}

#[test]
fn a_list_at_a_url_is_asked_for_with_its_tag_and_the_old_one_stays() {
    let _watchdog = watchdog("a_list_at_a_url_is_asked_for_with_its_tag_and_the_old_one_stays");
    let step = Arc::new(AtomicU32::new(0));
    let now = step.clone();
    let server = Upstream::start(move |request| {
        let same = request.value("if-none-match") == Some("\"one\"");
        let body = |tag: &str, text: &str| {
            let length = text.len();
            format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: {length}\r\n\r\n{text}").into_bytes()
        };
        Some(match now.load(Ordering::SeqCst) {
            0 if same => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
            0 => body("\"one\"", "192.0.2.0/24\n"),
            1 => body("\"two\"", "198.51.100.0/24\n<html>\n"),
            _ => body("\"three\"", "203.0.113.0/24\n"),
        })
    });
    let upstream = Upstream::saying("here");
    let filters =
        format!("{{ access: {{ deny: {{ url: {{ at: \"{}/list\", every: 2s }} }} }} }}", server.url());
    let proxy = Proxy::start(&filtered(&upstream, &filters, TRUSTED));
    let web = proxy.web();
    wait_status(web, "192.0.2.1", 403);
    step.store(1, Ordering::SeqCst);
    let said =
        |line: &str| line.contains("line 2: is neither a network nor an address").then(|| line.to_owned());
    let line = proxy.process().wait_line("the wrong line", STEP, said);
    assert!(line.ends_with("the old list with 1 networks stays"), "{line}");
    assert_eq!(status_of(web, "192.0.2.1", "/"), 403);
    step.store(9, Ordering::SeqCst);
    wait_status(web, "203.0.113.1", 403);
    assert_eq!(status_of(web, "192.0.2.1", "/"), 200);
}

/// A server that answers with an error, declares too much, sends without an end, or says nothing at all.
#[test]
fn a_list_that_is_huge_or_does_not_come_leaves_the_old_one() {
    let _watchdog = watchdog("a_list_that_is_huge_or_does_not_come_leaves_the_old_one");
    let step = Arc::new(AtomicU32::new(0));
    let now = step.clone();
    let server = Bare::start(move |talk| {
        talk.head()?;
        match now.load(Ordering::SeqCst) {
            0 => talk.send("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n192.0.2.0/24\n"),
            1 => talk.send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
            2 => talk.send("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n192.0.2.0/24\n"),
            3 => {
                talk.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
                let lines = "203.0.113.0/24\n".repeat(4096);
                loop {
                    talk.send(&lines)?;
                }
            }
            // Says nothing for longer than the proxy waits.
            _ => {
                thread::sleep(LIMIT);
                Ok(())
            }
        }
    });
    let upstream = Upstream::saying("here");
    let filters =
        format!("{{ access: {{ deny: {{ url: {{ at: \"{}/list\", every: 2s }} }} }} }}", server.url());
    let proxy = Proxy::start(&filtered(&upstream, &filters, TRUSTED));
    let web = proxy.web();
    wait_status(web, "192.0.2.1", 403);
    // What is said a second time in a row is not told again.
    let ways = [(1, "answers 503"), (2, "134217728 bytes"), (4, "15s"), (3, "134217728 bytes")];
    for (at, (number, words)) in ways.into_iter().enumerate() {
        step.store(number, Ordering::SeqCst);
        let end = Instant::now() + LIMIT * 2;
        let line = loop {
            let said = proxy.process().stderr();
            if let Some(line) = said.lines().filter(|line| line.contains("is not taken")).nth(at) {
                break line.to_owned();
            }
            assert!(Instant::now() < end, "nothing is said of {words}: {said}");
            thread::sleep(Duration::from_millis(50));
        };
        let is_right = line.contains(words) && line.ends_with("the old list with 1 networks stays");
        assert!(is_right, "{words}: {line}");
        assert_eq!((status_of(web, "192.0.2.1", "/"), status_of(web, "203.0.113.1", "/")), (403, 200));
    }
}

#[test]
fn a_listener_takes_whom_it_allows_before_a_byte_is_read() {
    let _watchdog = watchdog("a_listener_takes_whom_it_allows_before_a_byte_is_read");
    let upstream = Upstream::saying("here");
    let rules = "access: { allow: [ 127.0.0.0/8, 203.0.113.0/24 ], deny: [ 127.0.0.2, 203.0.113.66 ] }";
    let text = config(&[&upstream.url()], "").replace(
        "web: { address: \"127.0.0.1:0\" }",
        &format!(
            "web: {{ address: \"127.0.0.1:0\", {rules} }}, \
             db: {{ address: \"127.0.0.1:0\", protocol: tcp, to: [ \"tcp://{0}\" ], {rules} }}, \
             edge: {{ address: \"127.0.0.1:0\", proxy_protocol: {{ from: [ 127.0.0.1 ] }}, {rules} }}",
            upstream.address()
        ),
    );
    let proxy = Proxy::start(&text);
    assert_eq!((ask_from("127.0.0.1", proxy.web()).0, ask_from("127.0.0.3", proxy.web()).0), (200, 200));
    is_closed("127.0.0.2", proxy.web());
    assert_eq!(ask_from("127.0.0.3", proxy.address("db")).0, 200);
    is_closed("127.0.0.2", proxy.address("db"));
    // The address that another proxy says is the one that counts.
    let through = |client: &str| {
        let mut talk = Talk::open(proxy.address("edge")).unwrap();
        let head = format!("PROXY TCP4 {client} 192.0.2.1 4711 443\r\n");
        let _ = talk.send(format!("{head}GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        talk
    };
    assert_eq!(through("203.0.113.9").head().unwrap().status(), 200);
    through("203.0.113.66").assert_ends("denied");
    through("192.0.2.66").assert_ends("not allowed");
    wait_counted(&proxy, "thalweg_limit_hits_total", "limit=\"access\"", 4);
    assert_eq!(verb(proxy.directory(), &["block", "203.0.113.9"]).code, 0);
    through("203.0.113.9").assert_ends("blocked");
}

#[test]
fn a_client_that_is_refused_too_often_is_banned_and_longer_each_time() {
    let _watchdog = watchdog("a_client_that_is_refused_too_often_is_banned_and_longer_each_time");
    let upstream = Upstream::start(|request| {
        let status = if request.target() == "/login" { "401 Unauthorized" } else { "200 OK" };
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    let bans = "bans: { logins: { status: 401, after: 3, within: 1m, for: 1s, longest: 1h, never: [ 10.0.0.0/8 ] } }\n";
    let proxy = Proxy::start(&config(&[&upstream.url()], &format!("{TRUSTED}{bans}")));
    let web = proxy.web();
    let events = Admin::of(&proxy).events();
    for times in 1..=2 {
        for _ in 0..3 {
            assert_eq!(status_of(web, "192.0.2.7", "/login"), 401);
        }
        wait_status(web, "192.0.2.7", 403);
        assert_eq!(status_of(web, "192.0.2.8", "/login"), 401, "another client");
        let wanted = match times {
            1 => {
                "192.0.2.7 in the list `blocked` for 1s (ban `logins`: 3 within 1m, the last answer was 401)"
            }
            _ => {
                "192.0.2.7 in the list `blocked` for 2s (ban `logins`: 3 within 1m, 2 times now, the last answer was 401)"
            }
        };
        let end = Instant::now() + STEP;
        while !events.all().iter().any(|event| event["cause"] == wanted) {
            assert!(Instant::now() < end, "no event `{wanted}` in {:?}", events.all());
            thread::yield_now();
        }
        wait_status(web, "192.0.2.7", 200);
    }
    for _ in 0..6 {
        assert_eq!(status_of(web, "10.1.2.3", "/login"), 401, "never banned");
    }
    // A client without a proxy that would say who it is: what is no HTTP counts too. The peer is trusted: not banned.
    for _ in 0..4 {
        assert_eq!(fetch(web, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n").unwrap().status(), 400);
    }
    assert_eq!(get(web, "/").unwrap().status(), 200);
}

#[test]
fn countries_are_told_apart_by_a_database() {
    let _watchdog = watchdog("countries_are_told_apart_by_a_database");
    let upstream = Upstream::saying("here");
    let directory = Directory::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/access/example.mmdb");
    fs::copy(example, directory.path().join("geo.mmdb")).unwrap();
    let filters = "{ access: { deny: [ { country: XB } ], geo_file: geo.mmdb } }";
    let proxy = Proxy::start_in(directory, &filtered(&upstream, filters, TRUSTED));
    let web = proxy.web();
    for (client, status) in
        [("192.0.2.1", 200), ("198.51.100.1", 403), ("2001:db8::1", 403), ("203.0.113.1", 200)]
    {
        assert_eq!(status_of(web, client, "/"), status, "{client}");
    }
}
