//! Endpoints that are removed: out of rotation at once, what is under way finishes or is cut at the deadline, and who
//! watches is told.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::message::Kind;
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Admin, Connection, Directory, Held, Hook, Message, Proxy, STEP, Talk, Upstream};

use super::{
    add, asked, assert_left_alone, guarded, patch, path_of, remove, state_in, state_of, urls, wait_gone,
};
use crate::scenario::{config, watchdog};

const UPGRADE: &str = "GET /tunnel HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A proxy before one upstream, with a webhook.
fn hooked(upstream: &Held) -> (Proxy, Admin, Hook) {
    let hook = Hook::start();
    let webhooks =
        format!("webhooks: [ {{ url: \"{}\", secret: {{ value: a-secret-of-the-hook }} }} ]\n", hook.url());
    let proxy = guarded(&[&upstream.url()], &webhooks);
    let admin = Admin::of(&proxy);
    (proxy, admin, hook)
}

/// A response that has begun.
fn long(proxy: &Proxy) -> (Talk, Message) {
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    assert_eq!(head.status(), 200);
    (client, head)
}

/// A tunnel that stands.
fn tunnel(proxy: &Proxy) -> Talk {
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send(UPGRADE).unwrap();
    assert_eq!(client.head().unwrap().status(), 101);
    echoes(&mut client);
    client
}

fn echoes(tunnel: &mut Talk) {
    tunnel.send("to and fro").unwrap();
    let mut back = [0; 10];
    tunnel.stream().read_exact(&mut back).unwrap();
    assert_eq!(&back, b"to and fro");
}

/// The rest of a body; an error when it is cut short.
fn rest(client: &mut Talk, head: &Message) -> Result<String, ErrorKind> {
    let mut text = Vec::new();
    let whole = client.body(head).each(|bytes| text.extend_from_slice(bytes));
    whole.map(|_| String::from_utf8_lossy(&text).into_owned()).map_err(|error| error.kind())
}

#[test]
fn what_is_under_way_to_a_removed_endpoint_finishes_when_it_ends_in_time() {
    let _watchdog = watchdog("what_is_under_way_to_a_removed_endpoint_finishes_when_it_ends_in_time");
    let (leaving, staying) = (Held::start("leaving"), Upstream::saying("staying"));
    let (proxy, admin, hook) = hooked(&leaving);
    let events = admin.events();
    let ((mut client, head), mut tunnel) = (long(&proxy), tunnel(&proxy));
    add(&admin, &staying.url());
    let url = leaving.url();
    let answer = remove(&admin, &url, "?drain=30s");
    assert_eq!(answer.status(), 202, "it drains: {}", answer.text());
    assert_eq!(state_of(&admin, &url), "draining");
    assert_left_alone(proxy.web(), "leaving");
    assert_eq!(admin.get(&path_of(&url))["requests_active"], 2);
    echoes(&mut tunnel);
    assert!(events.all().iter().all(|event| event["event"] != "drain_finished"), "nothing has ended yet");

    leaving.release();
    assert_eq!(rest(&mut client, &head).as_deref(), Ok("begun ended"));
    assert_eq!(state_of(&admin, &url), "draining", "the tunnel stands");
    echoes(&mut tunnel);
    drop(tunnel);
    let finished = events.wait("drain_finished", Some(&url));
    assert!(!finished["cause"].as_str().unwrap().contains("cut"), "{finished}");
    let removed = events.wait("endpoint_removed", Some(&url));
    assert!(finished["id"].as_u64() < removed["id"].as_u64(), "{finished} {removed}");
    assert_eq!(removed["endpoints"].as_array().unwrap().len(), 1, "{removed}");
    wait_gone(&admin, &url);

    for (kind, event) in [("drain_finished", &finished), ("endpoint_removed", &removed)] {
        let delivery = hook.wait(kind, Some(&url));
        assert_eq!(delivery.event["id"], event["id"]);
        assert!(delivery.signature.starts_with("sha256="), "{delivery:?}");
    }
    events.wait("endpoint_added", Some(&staying.url()));
    hook.wait("endpoint_added", Some(&staying.url()));
    assert_eq!(asked(proxy.web(), 4, 1)["staying"], 4);
}

#[test]
fn what_is_under_way_at_the_deadline_of_a_drain_is_cut() {
    let _watchdog = watchdog("what_is_under_way_at_the_deadline_of_a_drain_is_cut");
    let (leaving, staying) = (Held::start("leaving"), Upstream::saying("staying"));
    let (proxy, admin, hook) = hooked(&leaving);
    let events = admin.events();
    let ((mut client, head), mut tunnel) = (long(&proxy), tunnel(&proxy));
    add(&admin, &staying.url());
    let (url, begin) = (leaving.url(), Instant::now());
    assert_eq!(remove(&admin, &url, "?drain=300ms").status(), 202);
    assert_left_alone(proxy.web(), "leaving");
    let cut = rest(&mut client, &head).unwrap_err();
    let after = begin.elapsed();
    assert!(matches!(cut, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{cut:?}");
    assert!((Duration::from_millis(300)..STEP / 2).contains(&after), "cut after {after:?}");
    tunnel.assert_ends("a tunnel at the deadline");
    let finished = events.wait("drain_finished", Some(&url));
    assert!(finished["cause"].as_str().unwrap().contains("cut"), "{finished}");
    events.wait("endpoint_removed", Some(&url));
    hook.wait("drain_finished", Some(&url));
    hook.wait("endpoint_removed", Some(&url));
    wait_gone(&admin, &url);
    let ended = proxy.stop();
    let broken = ended.log.iter().find(|record| record["path"] == "/long").unwrap();
    assert!(broken["fault"].is_string() || broken["error"].is_string(), "the log says why: {broken}");
}

#[test]
fn a_drain_of_nothing_cuts_at_once() {
    let _watchdog = watchdog("a_drain_of_nothing_cuts_at_once");
    let leaving = Held::start("leaving");
    let (proxy, admin, _hook) = hooked(&leaving);
    let events = admin.events();
    let ((mut client, head), mut tunnel) = (long(&proxy), tunnel(&proxy));
    let (url, begin) = (leaving.url(), Instant::now());
    remove(&admin, &url, "?drain=0s");
    rest(&mut client, &head).unwrap_err();
    tunnel.assert_ends("a tunnel without a drain");
    assert!(begin.elapsed() < STEP / 2, "cut after {:?}", begin.elapsed());
    events.wait("drain_finished", Some(&url));
    wait_gone(&admin, &url);
}

#[test]
fn an_endpoint_with_nothing_under_way_is_gone_at_once() {
    let _watchdog = watchdog("an_endpoint_with_nothing_under_way_is_gone_at_once");
    let (leaving, staying) = (Held::start("leaving"), Upstream::saying("staying"));
    let (proxy, admin, hook) = hooked(&leaving);
    let events = admin.events();
    add(&admin, &staying.url());
    assert_eq!(asked(proxy.web(), 4, 2).len(), 2);
    for query in ["", "?drain=30s", "?drain=0s"] {
        // An exchange is over a moment after its client has the answer.
        let end = Instant::now() + STEP;
        while admin.get(&path_of(&leaving.url()))["requests_active"] != 0 {
            assert!(Instant::now() < end, "{}", admin.get(&path_of(&leaving.url())));
        }
        let answer = remove(&admin, &leaving.url(), query);
        assert_eq!(answer.status(), 200, "{query}: {}", answer.text());
        assert_eq!(urls(&admin), [staying.url()], "{query}");
        assert_left_alone(proxy.web(), "leaving");
        add(&admin, &leaving.url());
        assert!(asked(proxy.web(), 8, 4)["leaving"] >= 12, "it comes back");
    }
    for kind in ["endpoint_removed", "drain_finished"] {
        events.wait(kind, Some(&leaving.url()));
        hook.wait(kind, Some(&leaving.url()));
    }
}

#[test]
fn adding_an_endpoint_that_drains_revives_it() {
    let _watchdog = watchdog("adding_an_endpoint_that_drains_revives_it");
    let (leaving, staying) = (Held::start("leaving"), Upstream::saying("staying"));
    let (proxy, admin, _hook) = hooked(&leaving);
    add(&admin, &staying.url());
    let url = leaving.url();
    patch(&admin, &staying.url(), &json!({ "state": "maintenance" }));
    let (mut client, head) = long(&proxy);
    patch(&admin, &staying.url(), &json!({ "state": "ready" }));
    assert_eq!(remove(&admin, &url, "?drain=2s").status(), 202);
    let revived = add(&admin, &url);
    assert_eq!(revived["state"], "ready");
    assert_eq!(urls(&admin).iter().filter(|known| **known == url).count(), 1, "it is there once");
    assert!(asked(proxy.web(), 8, 4)["leaving"] >= 12);

    // Past the deadline that it had: a later drain with a deadline of its own has come and gone.
    let other = Held::start("other");
    add(&admin, &other.url());
    patch(&admin, &staying.url(), &json!({ "state": "maintenance" }));
    patch(&admin, &url, &json!({ "state": "maintenance" }));
    let (mut cut, cut_head) = long(&proxy);
    patch(&admin, &url, &json!({ "state": "ready" }));
    assert_eq!(remove(&admin, &other.url(), "?drain=2100ms").status(), 202);
    rest(&mut cut, &cut_head).unwrap_err();
    wait_gone(&admin, &other.url());
    assert_eq!(state_of(&admin, &url), "ready");
    leaving.release();
    assert_eq!(rest(&mut client, &head).as_deref(), Ok("begun ended"), "its old deadline does not hold");
    assert!(asked(proxy.web(), 8, 4).contains_key("leaving"));
}

/// A request that waits at an upstream which never answers.
fn stuck(proxy: &Proxy, upstream: &Receiver<TcpStream>, request: &str) -> (Connection, Talk) {
    let client = Connection::open(proxy.web()).unwrap();
    client.send(request);
    let mut there = Talk::new(upstream.recv_timeout(STEP).unwrap());
    there.head().unwrap();
    (client, there)
}

#[test]
fn a_request_that_is_cut_goes_to_another_endpoint_where_it_may_be_sent_again() {
    let _watchdog = watchdog("a_request_that_is_cut_goes_to_another_endpoint_where_it_may_be_sent_again");
    let (accepted, connections) = mpsc::channel();
    let leaving = Listener::start(accepted);
    let url = format!("http://{}", leaving.address());
    let staying = Upstream::saying("staying");
    let get = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";
    // Neither an attempt nor budget: one attempt is all that there is.
    // A backup: it has nothing to do before, and is known to the requests from their start.
    let directory = Directory::new();
    let more = state_in(&directory) + "defaults: { retry: { attempts: 1 } }\n";
    let backup = format!("{{ url: \"{}\", backup: true }}", staying.url());
    let text = config(&[&url, "backup"], &more).replace("\"backup\"", &backup);
    let proxy = Proxy::start_in(directory, &text);
    let admin = Admin::of(&proxy);
    let mut held: Vec<_> = [get, post].map(|request| stuck(&proxy, &connections, request)).into();
    assert_eq!(remove(&admin, &url, "?drain=0s").status(), 202);
    let mut read = |at: usize| Message::read(&mut held[at].0, Kind::Response, Instant::now() + STEP).unwrap();
    let answer = read(0);
    assert_eq!((answer.status(), answer.text().as_str()), (200, "staying"), "{answer:?}");
    let answer = read(1);
    assert_eq!(answer.status(), 502, "it may have been carried out: {answer:?}");
    assert!(answer.value("proxy-status").unwrap().contains("connection_terminated"), "{answer:?}");
    assert_eq!(staying.served(), 1, "the POST was not sent again");
}

#[test]
fn a_drain_may_be_made_shorter() {
    let _watchdog = watchdog("a_drain_may_be_made_shorter");
    let leaving = Held::start("leaving");
    let (proxy, admin, _hook) = hooked(&leaving);
    let (mut client, head) = long(&proxy);
    assert_eq!(remove(&admin, &leaving.url(), "").status(), 202, "30 s without a word about it");
    assert_eq!(remove(&admin, &leaving.url(), "?drain=0s").status(), 202);
    rest(&mut client, &head).unwrap_err();
    wait_gone(&admin, &leaving.url());
}

#[test]
fn the_state_draining_is_told_when_it_is_empty_and_removes_nothing() {
    let _watchdog = watchdog("the_state_draining_is_told_when_it_is_empty_and_removes_nothing");
    let (held, staying) = (Held::start("held"), Upstream::saying("staying"));
    let (proxy, admin, hook) = hooked(&held);
    let events = admin.events();
    let (mut client, head) = long(&proxy);
    add(&admin, &staying.url());
    patch(&admin, &held.url(), &json!({ "state": "draining" }));
    assert_left_alone(proxy.web(), "held");
    held.release();
    assert_eq!(rest(&mut client, &head).as_deref(), Ok("begun ended"));
    events.wait("drain_finished", Some(&held.url()));
    hook.wait("drain_finished", Some(&held.url()));
    assert_eq!(state_of(&admin, &held.url()), "draining", "it stays, and gets nothing");
    assert!(events.all().iter().all(|event| event["event"] != "endpoint_removed"));
}
