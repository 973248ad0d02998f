//! Clients of HTTP/2 that mean harm (rows D7 to D11 of the hostile inputs): a connection that floods is ended with
//! ENHANCE_YOUR_CALM, the proxy holds hardly more than before, and everybody else is served. A client that only looks
//! like one of them is served too.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::h2_frames::{
    CANCEL, CONTINUATION, DATA, END, END_HEADERS, ENHANCE_YOUR_CALM, Frames, HEADERS, INITIAL_WINDOW, PADDED,
    PING, PREFACE, PRIORITY, TABLE_SIZE, frame, literal, request, reset, section, settings, window_update,
};
use thalweg_tests::message::get;
use thalweg_tests::upstream::ok;
use thalweg_tests::vitals::resident;
use thalweg_tests::{Bare, Connection, Proxy, STEP, Upstream, Vitals};

use super::{config, measuring, quantile, wait_counted, watchdog};

/// Most that a flood may add to the memory of the proxy.
const GROWTH: u64 = 4 << 20;
/// Most that a hundred answers of a mebibyte may add to it that nobody reads.
const GROWTH_BY_STALLS: u64 = 8 << 20;
/// A body of which a window leaves most with the upstream.
static LARGE: [u8; 1 << 20] = [b'x'; 1 << 20];

/// A proxy whose clients may speak HTTP/2 without TLS.
fn proxy(url: &str, more: &str) -> Proxy {
    let web = "web: { address: \"127.0.0.1:0\"";
    let text = config(&[url], more);
    assert!(text.contains(web));
    Proxy::start(&text.replace(web, &format!("{web}, h2c: true")))
}

/// An upstream that never answers, and ends when its client does.
fn silent() -> Bare {
    Bare::start(|talk| {
        talk.head()?;
        talk.rest().map(drop)
    })
}

/// Serves one request of HTTP/2 and of HTTP/1, so that memory is warm and the proxy known to work.
fn warm(proxy: &Proxy) {
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(200));
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
}

/// What an attacker sends in all, and which flood it is called.
struct Attack {
    name: &'static str,
    bytes: Vec<u8>,
    flood: &'static str,
}

/// Attacks a proxy before an upstream that says hello: the connection is ended as it has to be.
fn is_ended(attack: &Attack) {
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream.url(), "");
    warm(&proxy);
    let (before, memory) = (Vitals::of(&proxy), resident(&proxy));
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(attack.bytes.clone());
    let ending = client.ending();
    assert_eq!(ending.event, Event::End, "{}: {:?}", attack.name, ending.goaways);
    assert_eq!(ending.goaways.last(), Some(&ENHANCE_YOUR_CALM), "{}", attack.name);
    let grown = resident(&proxy).saturating_sub(memory);
    assert!(grown < GROWTH, "{}: memory grew by {grown} bytes", attack.name);
    wait_counted(&proxy, "thalweg_http2_floods_total", &format!("\"{}\"", attack.flood), 1);
    drop(client);
    before.wait_for(&proxy, attack.name);
    warm(&proxy);
}

fn are_ended(attacks: Vec<Attack>) {
    for attack in attacks {
        is_ended(&attack);
    }
}

/// Hostile input D7, CVE-2023-44487: the work of an upstream is what is limited.
#[test]
fn rapid_resets_are_ended_and_leave_nothing_with_the_upstream() {
    let _watchdog = watchdog("rapid_resets_are_ended_and_leave_nothing_with_the_upstream");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream.url(), "");
    let before = Vitals::of(&proxy);
    let mut client = Frames::open(proxy.web(), &[]);
    let wire: Vec<u8> =
        (0..400).flat_map(|at| [request(at * 2 + 1, "/"), reset(at * 2 + 1, CANCEL)].concat()).collect();
    client.send(wire);
    let ending = client.ending();
    assert_eq!((ending.event, ending.goaways.last()), (Event::End, Some(&ENHANCE_YOUR_CALM)));
    wait_counted(&proxy, "thalweg_http2_floods_total", "\"resets\"", 1);
    drop(client);
    before.wait_for(&proxy, "rapid resets");
    // A reset that comes with its request is known before an endpoint is.
    assert!(upstream.connections() < 60, "{} connections to the upstream", upstream.connections());
}

/// Hostile input D7, CVE-2025-8671: frames to which a reset is the answer.
#[test]
fn resets_that_the_proxy_is_made_to_send_are_ended() {
    let _watchdog = watchdog("resets_that_the_proxy_is_made_to_send_are_ended");
    let too_much = |stream: u32| window_update(stream, 0x7fff_ffff);
    let of_itself = |stream: u32| frame(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[0]].concat());
    for (name, provoke) in [
        ("a window over its bound", &too_much as &dyn Fn(u32) -> Vec<u8>),
        ("a stream that depends on itself", &of_itself),
    ] {
        let upstream = silent();
        let proxy = proxy(&upstream.url(), "");
        let before = Vitals::of(&proxy);
        let mut client = Frames::open(proxy.web(), &[]);
        let wire: Vec<u8> =
            (0..400).flat_map(|at| [request(at * 2 + 1, "/"), provoke(at * 2 + 1)].concat()).collect();
        client.send(wire);
        let ending = client.ending();
        assert_eq!((ending.event, ending.goaways.last()), (Event::End, Some(&ENHANCE_YOUR_CALM)), "{name}");
        assert!(ending.resets.len() < 300, "{name}: {} resets", ending.resets.len());
        wait_counted(&proxy, "thalweg_http2_floods_total", "\"provoked_resets\"", 1);
        drop(client);
        before.wait_for(&proxy, name);
    }
}

/// Hostile input D8, CVE-2024-27316.
#[test]
fn field_sections_without_end_are_ended() {
    let _watchdog = watchdog("field_sections_without_end_are_ended");
    let begun = frame(HEADERS, END, 1, &section("GET", "/", &[]));
    let growing = literal("x", &"y".repeat(16_000));
    are_ended(vec![
        Attack {
            name: "empty CONTINUATION",
            bytes: [&begun[..], &frame(CONTINUATION, 0, 1, &[]).repeat(1000)].concat(),
            flood: "continuations",
        },
        Attack {
            name: "growing CONTINUATION",
            bytes: [&begun[..], &frame(CONTINUATION, 0, 1, &growing).repeat(7)].concat(),
            flood: "field_section",
        },
    ]);
}

/// Hostile input D8, CVE-2019-9512 to -9518.
#[test]
fn frames_that_carry_nothing_are_ended() {
    let _watchdog = watchdog("frames_that_carry_nothing_are_ended");
    let flood = |name, frame: &[u8], count, flood| Attack { name, bytes: frame.repeat(count), flood };
    let upload = frame(HEADERS, END_HEADERS, 1, &section("POST", "/", &[]));
    let on_upload = |frame: &[u8], count| [&upload[..], &frame.repeat(count)].concat();
    let thrash = [settings(&[(TABLE_SIZE, 4096)]), settings(&[(TABLE_SIZE, 0)])].concat();
    are_ended(vec![
        flood("SETTINGS", &settings(&[]), 300, "settings"),
        flood("table thrash", &thrash, 150, "settings"),
        flood("PING", &frame(PING, 0, 0, &[0; 8]), 4000, "pings"),
        flood("PRIORITY", &frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]), 4000, "priorities"),
        flood("unknown", &frame(0x77, 0, 0, &[0; 8]), 4000, "other_frames"),
        Attack { name: "empty DATA", bytes: on_upload(&frame(DATA, 0, 1, &[]), 4000), flood: "empty_data" },
    ]);
}

/// Padding alone is no payload either; the codec itself ends the connection after a hundred such frames.
#[test]
fn padding_without_payload_is_ended() {
    let _watchdog = watchdog("padding_without_payload_is_ended");
    let upstream = silent();
    let proxy = proxy(&upstream.url(), "");
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/", &[])));
    client.send(frame(DATA, PADDED, 1, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]).repeat(4000));
    let ending = client.ending();
    assert_eq!((ending.event, ending.goaways.last()), (Event::End, Some(&ENHANCE_YOUR_CALM)));
}

/// Hostile input D8: the window is opened byte by byte, and every byte is asked for.
#[test]
fn windows_opened_by_crumbs_are_ended() {
    let _watchdog = watchdog("windows_opened_by_crumbs_are_ended");
    let upstream = Upstream::start(|_| Some(ok(std::str::from_utf8(&LARGE).unwrap())));
    let proxy = proxy(&upstream.url(), "");
    let memory = resident(&proxy);
    let mut client = Frames::open(proxy.web(), &[(INITIAL_WINDOW, 0)]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(200));
    // At most what the budget gives in the time that this may take.
    for _ in 0..20_000 {
        client.send(window_update(1, 1));
        let next = client.next(Instant::now() + STEP).unwrap();
        if next.kind != DATA {
            assert_eq!(next.code(), Some(ENHANCE_YOUR_CALM), "{next:?}");
            assert_eq!(client.ending().event, Event::End);
            let grown = resident(&proxy).saturating_sub(memory);
            assert!(grown < GROWTH, "memory grew by {grown} bytes");
            return;
        }
        assert_eq!(next.payload.len(), 1);
    }
    panic!("20,000 crumbs and no end");
}

/// Hostile input D9: what is small on the wire and large, or many, behind it. Answered or refused, never held.
#[test]
fn compressed_bombs_are_refused() {
    let _watchdog = watchdog("compressed_bombs_are_refused");
    // Of the dynamic table: an entry is put in, and then named again and again.
    let entry = |name: &str, value: &str| {
        let mut field = literal(name, value);
        field[0] = 0x40;
        field
    };
    let bomb = |first: Vec<u8>, count: usize| {
        let block = [section("GET", "/", &[]), first, vec![0xbe; count]].concat();
        let (head, rest) = block.split_at(block.len().min(16_384));
        let flags = if rest.is_empty() { END | END_HEADERS } else { END };
        let mut wire = frame(HEADERS, flags, 1, head);
        if !rest.is_empty() {
            wire.extend(frame(CONTINUATION, END_HEADERS, 1, rest));
        }
        wire
    };
    for (name, wire) in [
        ("a large entry", bomb(entry("x", &"y".repeat(4000)), 15_000)),
        ("an empty entry", bomb(entry("x", ""), 16_000)),
        ("crumbs of a cookie", bomb(entry("cookie", "a"), 16_000)),
        ("a few crumbs too many", bomb(entry("cookie", "a"), 200)),
    ] {
        let upstream = Upstream::saying("hello");
        let proxy = proxy(&upstream.url(), "");
        warm(&proxy);
        let memory = resident(&proxy);
        let clients: Vec<Frames> = (0..20)
            .map(|_| {
                let client = Frames::open(proxy.web(), &[(INITIAL_WINDOW, 0)]);
                client.send(wire.clone());
                client
            })
            .collect();
        for mut client in clients {
            let refused = client.until(|frame| match (frame.status(), frame.code()) {
                (None, None) => None,
                (status, code) => Some(status == Some(431) || code.is_some()),
            });
            assert!(refused, "{name}");
        }
        let grown = resident(&proxy).saturating_sub(memory);
        assert!(grown < GROWTH, "{name}: memory grew by {grown} bytes");
        assert_eq!(upstream.served(), 2, "{name} came to the upstream");
    }
}

/// Hostile input D10.
#[test]
fn answers_that_nobody_reads_are_not_held() {
    let _watchdog = watchdog("answers_that_nobody_reads_are_not_held");
    let upstream = Upstream::start(|_| Some(ok(std::str::from_utf8(&LARGE).unwrap())));
    let proxy = proxy(&upstream.url(), "");
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    let (before, memory) = (Vitals::of(&proxy), resident(&proxy));
    let mut client = Frames::open(proxy.web(), &[(INITIAL_WINDOW, 0)]);
    client.send((0..100).flat_map(|at| request(at * 2 + 1, "/")).collect::<Vec<_>>());
    let mut answered = 0;
    client.until(|frame| {
        answered += u32::from(frame.status() == Some(200));
        (answered == 100).then_some(())
    });
    let grown = resident(&proxy).saturating_sub(memory);
    assert!(grown < GROWTH_BY_STALLS, "memory grew by {grown} bytes");
    // Others on other connections are served meanwhile.
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    drop(client);
    before.wait_for(&proxy, "a hundred answers that nobody read");
}

/// Hostile input D11: small messages, while the upstream takes none for a while. What the client may send is what its
/// windows say.
#[test]
fn a_stream_of_small_messages_is_served_however_slow_the_upstream() {
    let _watchdog = watchdog("a_stream_of_small_messages_is_served_however_slow_the_upstream");
    const MESSAGE: usize = 15;
    let messages = if measuring() { 200_000 } else { 20_000 };
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(waits);
    let upstream = Bare::start(move |talk| {
        let head = talk.head()?;
        // Until the client has spent its window.
        let _ = waits.lock().map(|waits| waits.recv_timeout(STEP));
        let mut taken = 0;
        talk.body(&head).each(|bytes| taken += bytes.len())?;
        talk.send(ok(&taken.to_string()))
    });
    let proxy = proxy(&upstream.url(), "");
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/", &[])));
    let message = frame(DATA, 0, 1, &[b'm'; MESSAGE]);
    // Those of RFC 9113 §6.9.2, before the proxy gives more.
    let (mut stream, mut connection, mut sent) = (65_535_usize, 65_535_usize, 0);
    let mut release = Some(go_on);
    while sent < messages {
        let count = (stream.min(connection) / MESSAGE).min(messages - sent);
        client.send(message.repeat(count));
        (sent, stream, connection) = (sent + count, stream - count * MESSAGE, connection - count * MESSAGE);
        if count == 0
            && let Some(go_on) = release.take()
        {
            go_on.send(()).unwrap();
        }
        if sent < messages {
            let deadline = Instant::now() + if release.is_some() { Duration::from_millis(300) } else { STEP };
            match client.next(deadline) {
                Ok(frame) => {
                    assert_eq!(frame.code(), None, "{frame:?} after {sent} messages");
                    let more = frame.increment().unwrap_or(0);
                    *(if frame.stream == 0 { &mut connection } else { &mut stream }) += more;
                }
                // Nothing more is given: the upstream takes nothing.
                Err(Event::Late) if release.is_some() => {}
                Err(event) => panic!("{event:?} after {sent} messages"),
            }
        }
    }
    drop(release);
    client.send(frame(DATA, END, 1, &[]));
    assert_eq!(client.answer(1), Ok(200));
    let mut body = Vec::new();
    client.until(|frame| {
        assert_eq!(frame.code(), None, "{frame:?}");
        body.extend_from_slice(if frame.kind == DATA { &frame.payload } else { &[] });
        frame.ends().then_some(())
    });
    assert_eq!(String::from_utf8_lossy(&body), (messages * MESSAGE).to_string());
}

/// Hostile input E1.
#[test]
fn a_preface_that_does_not_go_on_is_ended() {
    let _watchdog = watchdog("a_preface_that_does_not_go_on_is_ended");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream.url(), "defaults: { timeouts: { head: 300ms } }");
    for begun in [&PREFACE[..10], PREFACE, &[PREFACE, &[0, 0, 0, 4]].concat()] {
        let mut client = Connection::open(proxy.web()).unwrap();
        client.send(begun);
        assert_ne!(client.read_to_end(Instant::now() + STEP), Event::Late, "{} bytes", begun.len());
    }
}

/// Attackers who come again and again keep nobody waiting.
#[test]
fn others_are_served_during_floods() {
    let _watchdog = watchdog("others_are_served_during_floods");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream.url(), "");
    warm(&proxy);
    let address = proxy.web();
    let ask = |count| -> Vec<Duration> {
        let mut times: Vec<Duration> = (0..count)
            .map(|_| {
                let start = Instant::now();
                assert_eq!(get(address, "/").unwrap().status(), 200);
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times
    };
    let quiet = quantile(&ask(300), 0.99);
    let (stop, stopped) = mpsc::channel::<()>();
    let attacker = thread::spawn(move || {
        let resets = |at: u32| [request(at * 2 + 1, "/"), reset(at * 2 + 1, CANCEL)].concat();
        let mut floods = 0;
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let mut client = Frames::open(address, &[]);
            match floods % 3 {
                0 => client.send(frame(PING, 0, 0, &[0; 8]).repeat(4000)),
                1 => client.send((0..400).flat_map(resets).collect::<Vec<_>>()),
                _ => client.send(settings(&[]).repeat(300)),
            }
            assert_eq!(client.ending().goaways.last(), Some(&ENHANCE_YOUR_CALM));
            floods += 1;
        }
        floods
    });
    let busy = quantile(&ask(300), 0.99);
    drop(stop);
    let floods = attacker.join().unwrap();
    eprintln!("p99 {quiet:?} when it is quiet, {busy:?} during {floods} floods");
    let most = if measuring() { quiet * 2 } else { STEP / 4 };
    assert!(busy <= most, "p99 {quiet:?} when it is quiet, {busy:?} during {floods} floods");
}
