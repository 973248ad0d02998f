//! One fetch for all who want the same: they get its bytes as they come, and none of them holds up another.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::Kind;
use thalweg_tests::vitals::{forget_most_resident, most_resident, resident};
use thalweg_tests::{Bare, Connection, Message, Proxy, STEP, Talk, Vitals, Watchdog};

use super::{Half, Halves, Origin, ask, asking, body, caching, good, head_of, reads, wait_metric, watchdog};
use crate::scenario::{measuring, quantile};

/// Clients and bytes of the large object, as the targets say, and on any machine.
const TARGET: (usize, usize) = (1000, 20_000_000);
const ANYWHERE: (usize, usize) = (150, 2_000_000);
/// Pieces in which the endpoint sends it, and time between two of them.
const PIECES: usize = 80;
const PACE: Duration = Duration::from_millis(10);
/// Memory that is allowed beside the object: buffers of connections, and what allocators keep.
const FOR_EACH: u64 = 128 << 10;
const FOR_ALL: u64 = 64 << 20;
/// Stack of a client's thread: there are many.
const STACK: usize = 256 << 10;

/// An endpoint that sends the object slowly, once it may, and tells when its first byte left.
fn slow(object: Arc<Vec<u8>>, asked: Arc<AtomicUsize>) -> (Bare, mpsc::Sender<()>, mpsc::Receiver<Instant>) {
    let (go, may_go) = mpsc::channel();
    let (begins, began) = mpsc::channel();
    let shared = Mutex::new((may_go, begins));
    let bare = Bare::start(move |talk| {
        talk.head()?;
        asked.fetch_add(1, Ordering::SeqCst);
        let (may_go, begins) = &*shared.lock().unwrap();
        may_go.recv_timeout(STEP * 4).map_err(|_| ErrorKind::TimedOut)?;
        let _ = begins.send(Instant::now());
        talk.send(head_of(object.len(), false))?;
        for piece in object.chunks(object.len().div_ceil(PIECES)) {
            talk.send(piece)?;
            thread::sleep(PACE); // The pace of a slow endpoint.
        }
        Ok(())
    });
    (bare, go, began)
}

/// What a client of the large object has seen: when its first byte came, and what was wrong.
type Seen = (Instant, Result<(), String>);

fn client(proxy: &Proxy, object: &Arc<Vec<u8>>, seen: mpsc::Sender<Seen>) -> thread::JoinHandle<()> {
    let (address, object) = (proxy.web(), Arc::clone(object));
    let run = move || {
        let mut talk = Talk::open(address).unwrap();
        // All of them wait for the same, some of them for long.
        talk.stream().set_read_timeout(Some(STEP * 20)).unwrap();
        talk.send("GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let mut first = [0];
        let begun = talk.stream().peek(&mut first).map_err(|error| error.to_string());
        let at = Instant::now();
        let outcome = begun.and_then(|_| reads(&mut talk, &object));
        let _ = seen.send((at, outcome));
    };
    thread::Builder::new().stack_size(STACK).spawn(run).unwrap()
}

#[test]
fn a_thousand_misses_are_one_fetch_and_all_get_the_bytes_as_they_come() {
    let name = "a_thousand_misses_are_one_fetch_and_all_get_the_bytes_as_they_come";
    let _watchdog = Watchdog::new(name, Duration::from_secs(300));
    let (clients, len) = if measuring() { TARGET } else { ANYWHERE };
    let object = Arc::new(body(len, 1));
    let asked: Arc<AtomicUsize> = Arc::default();
    let (endpoint, go, began) = slow(Arc::clone(&object), Arc::clone(&asked));
    let proxy = caching(&endpoint.url(), "{ wait: 1m }", "");
    let before = resident(&proxy);
    forget_most_resident(&proxy);
    let (tell, seen) = mpsc::channel();
    let threads: Vec<_> = (0..clients).map(|_| client(&proxy, &object, tell.clone())).collect();
    wait_metric(&proxy, "thalweg_requests_active", |active| active >= clients as u64);
    go.send(()).unwrap();
    let began = began.recv_timeout(STEP).unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(tell);
    let seen: Vec<Seen> = seen.iter().collect();
    let failed: Vec<_> = seen.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {clients} fail: {:?}", failed.len(), failed.first());
    let mut delays: Vec<_> = seen.iter().map(|(at, _)| at.saturating_duration_since(began)).collect();
    delays.sort_unstable();
    let (median, p99) = (quantile(&delays, 0.5), quantile(&delays, 0.99));
    let grown = most_resident(&proxy).saturating_sub(before);
    eprintln!(
        "{clients} clients, {len} bytes: first byte p50 {median:?}, p99 {p99:?} behind the endpoint's; {grown} bytes grown"
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one fetch");
    assert!(grown <= len as u64 + clients as u64 * FOR_EACH + FOR_ALL, "{grown} bytes of memory");
    assert!(!measuring() || p99 <= Duration::from_millis(50), "p99 {p99:?}");
}

#[test]
fn a_client_that_leaves_does_not_stop_the_fetch_that_it_has_caused() {
    let _watchdog = watchdog("a_client_that_leaves_does_not_stop_the_fetch_that_it_has_caused");
    for followed in [false, true] {
        let object = body(2_000_000, 2);
        let endpoint = Halves::start(vec![object.clone()], false);
        let proxy = caching(&endpoint.url(), "{}", "");
        let vitals = Vitals::of(&proxy);
        let mut leader = asking(&proxy, "/object");
        let half = endpoint.next();
        leader.head().unwrap();
        let follower = followed.then(|| {
            let mut follower = asking(&proxy, "/object");
            let object = object.clone();
            thread::spawn(move || reads(&mut follower, &object))
        });
        leader.reset();
        wait_metric(&proxy, "thalweg_connections_active", |open| {
            open <= vitals.clients + u64::from(followed)
        });
        half.send(Half::Rest).unwrap();
        if let Some(follower) = follower {
            assert_eq!(follower.join().unwrap(), Ok(()), "the follower");
        }
        // It joins the fetch or finds what it has brought.
        assert_eq!(reads(&mut asking(&proxy, "/object"), &object), Ok(()), "followed: {followed}");
        assert_eq!(endpoint.asked(), 1, "followed: {followed}");
        vitals.wait_for(&proxy, "a leader that left");
    }
}

#[test]
fn followers_that_leave_change_nothing_for_the_others() {
    let _watchdog = watchdog("followers_that_leave_change_nothing_for_the_others");
    let object = body(2_000_000, 3);
    let endpoint = Halves::start(vec![object.clone()], true);
    let proxy = caching(&endpoint.url(), "{}", "");
    let vitals = Vitals::of(&proxy);
    let mut leader = asking(&proxy, "/object");
    let half = endpoint.next();
    let mut followers: Vec<_> = (0..20)
        .map(|_| {
            let mut follower = asking(&proxy, "/object");
            let head = follower.head().unwrap();
            (follower, head)
        })
        .collect();
    for (number, (follower, _)) in followers.drain(..10).enumerate() {
        if number % 2 == 0 { follower.reset() } else { drop(follower) }
    }
    half.send(Half::Rest).unwrap();
    assert_eq!(reads(&mut leader, &object), Ok(()));
    for (follower, head) in &mut followers {
        let mut bytes = Vec::new();
        follower.body(head).each(|piece| bytes.extend_from_slice(piece)).unwrap();
        assert!(bytes == object, "{} bytes of a follower", bytes.len());
    }
    assert_eq!(endpoint.asked(), 1);
    drop((leader, followers));
    vitals.wait_for(&proxy, "followers that left");
}

/// Three more ask for what is coming, and each gets all of it.
fn three_follow(proxy: &Proxy, object: &[u8], half: &mpsc::Sender<Half>) {
    let mut followers = [(); 3].map(|()| asking(proxy, "/object"));
    half.send(Half::Rest).unwrap();
    thread::scope(|scope| {
        let reading: Vec<_> =
            followers.iter_mut().map(|follower| scope.spawn(|| reads(follower, object))).collect();
        for follower in reading {
            assert_eq!(follower.join().unwrap(), Ok(()));
        }
    });
}

#[test]
fn a_client_that_reads_nothing_slows_nobody_down() {
    let _watchdog = watchdog("a_client_that_reads_nothing_slows_nobody_down");
    // More than the sockets and buffers on the way of one client take.
    let object = body(24_000_000, 4);
    let endpoint = Halves::start(vec![object.clone()], false);
    let proxy = caching(&endpoint.url(), "{}", "");
    let leader = asking(&proxy, "/object");
    let half = endpoint.next();
    three_follow(&proxy, &object, &half);
    assert_eq!(endpoint.asked(), 1);
    // The slow one still gets all of it.
    let mut leader = leader;
    assert_eq!(reads(&mut leader, &object), Ok(()));
}

/// The body says no length and is larger than what is stored of one: only a window of it is kept.
#[test]
fn a_client_that_reads_nothing_of_what_is_not_stored_holds_up_others_for_a_short_time_only() {
    let _watchdog =
        watchdog("a_client_that_reads_nothing_of_what_is_not_stored_holds_up_others_for_a_short_time_only");
    let object = body(24_000_000, 7);
    let endpoint = Halves::start(vec![object.clone()], true);
    let idle = " ], timeouts: { idle: 8s } } }\nroutes";
    let text = super::config(&endpoint.url(), "{ cache: {} }").replace("memory: 256MiB", "memory: 128MiB");
    let proxy = Proxy::start(&text.replace(" ] } }\nroutes", idle));
    let mut leader = asking(&proxy, "/object");
    let half = endpoint.next();
    three_follow(&proxy, &object, &half);
    assert_eq!(endpoint.asked(), 1);
    assert!(reads(&mut leader, &object).is_err(), "it does not look whole");
}

#[test]
fn one_that_waits_too_long_goes_alone() {
    let _watchdog = watchdog("one_that_waits_too_long_goes_alone");
    let (hold, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::start(move |_, before| {
        if before == 0 {
            let _ = held.lock().unwrap().recv_timeout(STEP * 2);
        }
        Some(good("", &format!("answer {before}")))
    });
    let proxy = caching(&origin.url(), "{ wait: 300ms }", "");
    let deadline = Instant::now() + STEP * 2;
    let mut first = Connection::open(proxy.web()).unwrap();
    first.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    wait_metric(&proxy, "thalweg_requests_active", |active| active >= 1);
    let asked_at = Instant::now();
    let alone = ask(&proxy, "/slow", "");
    let waited = asked_at.elapsed();
    assert_eq!(alone.text(), "answer 1", "it did not wait for the first one");
    assert!(waited >= Duration::from_millis(300), "it went alone after {waited:?}");
    hold.send(()).unwrap();
    let answer = Message::read(&mut first, Kind::Response, deadline).unwrap();
    assert_eq!((answer.text().as_str(), origin.asked("/slow")), ("answer 0", 2));
}

#[test]
fn what_may_not_be_stored_is_fetched_by_everybody() {
    let _watchdog = watchdog("what_may_not_be_stored_is_fetched_by_everybody");
    let (arrives, arrived) = mpsc::channel();
    let arrives = Mutex::new(arrives);
    let endpoint = Bare::start(move |talk| {
        let head = talk.head()?;
        let _ = arrives.lock().unwrap().send(());
        let said = head.value("x-user").unwrap_or_default().to_owned();
        let framing = format!("Content-Length: {}\r\nCache-Control: no-store", said.len());
        talk.writer()?.write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{said}").as_bytes())
    });
    let proxy = caching(&endpoint.url(), "{}", "");
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let address = proxy.web();
            let request = format!("GET /own HTTP/1.1\r\nHost: a.test\r\nX-User: user{number}\r\n\r\n");
            thread::spawn(move || thalweg_tests::message::fetch(address, &request).unwrap().text())
        })
        .collect();
    for (number, client) in clients.into_iter().enumerate() {
        assert_eq!(client.join().unwrap(), format!("user{number}"));
    }
    assert_eq!(arrived.try_iter().count(), 20);
}
