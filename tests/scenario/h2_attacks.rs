//! Clients of HTTP/2 that mean harm (rows D7 to D11 of the hostile inputs): a connection that floods is ended with
//! ENHANCE_YOUR_CALM, the proxy holds hardly more than before, and everybody else is served. A client that only looks
//! like one of them is served too.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use thalweg_tests::connection::Event;
use thalweg_tests::h2_attacks::{self, Attack, Attacked, Open};
use thalweg_tests::h2_frames::{DATA, END, END_HEADERS, HEADERS, frame, request, section};
use thalweg_tests::message::get;
use thalweg_tests::upstream::ok;
use thalweg_tests::vitals::{forget_most_resident, most_resident, resident};
use thalweg_tests::{
    Bare, Connection, Directory, Frames, Identity, Proxy, STEP, Talk, Upstream, Vitals, Watchdog,
};

use super::{Priority, config, measuring, quantile, wait_counted, watchdog};

/// Most that a test may take: it attacks many proxies, one after the other.
const LIMIT: Duration = Duration::from_secs(120);
/// Clients that ask all the while, each as fast as it is answered, but for a pause; and attackers.
const CLIENTS: usize = 2;
const ATTACKERS: usize = 2;
const PAUSE: Duration = Duration::from_micros(500);
/// Times that each attack is looked at, and how long each look takes, and both with `THALWEG_MEASURE=1`.
const TURNS: (usize, usize) = (1, 8);
const TURN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(400));

/// A proxy whose clients may speak HTTP/2 on `web` without TLS and on `safe` with it.
fn proxy(url: &str, more: &str) -> Proxy {
    proxy_of(&config(&[url], more))
}

/// The same before two endpoints: `far` for what attackers ask for, and `near`.
fn proxy_of_two(near: &str, far: &str) -> Proxy {
    let text = config(&[far], "defaults: { timeouts: { head: 1s } }")
        .replace("services: {", &format!("services: {{ near: {{ endpoints: [ \"{near}\" ] }},"))
        .replace("routes: [", "routes: [ { match: { path: /near }, to: near },");
    proxy_of(&text)
}

fn proxy_of(text: &str) -> Proxy {
    let web = "web: { address: \"127.0.0.1:0\"";
    assert!(text.contains(web));
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "safe");
    let safe = format!("safe: {{ address: \"127.0.0.1:0\", tls: {{ certificates: [ {certificate} ] }} }}");
    Proxy::start_in(directory, &text.replace(web, &format!("{safe}, {web}, h2c: true")))
}

/// How a client comes to a connection of HTTP/2.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Tls,
}

impl Way {
    fn open(self, proxy: &Proxy) -> impl Fn() -> Connection + Sync + Send + use<> {
        let (web, safe) = (proxy.web(), proxy.address("safe"));
        let mut config: ClientConfig = Identity::shared().client();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let config = Arc::new(config);
        move || match self {
            Self::Plain => Connection::open(web).unwrap(),
            Self::Tls => Connection::open_as(safe, Arc::clone(&config), "localhost").unwrap(),
        }
    }
}

/// Serves one request of HTTP/2 and of HTTP/1, so that memory is warm and the proxy known to work.
fn warm(proxy: &Proxy, way: Way) {
    let mut client = Frames::over(way.open(proxy)(), &[]);
    client.send(request(1, "/"));
    assert_eq!(client.answer(1), Ok(200));
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
}

/// Attacks a proxy: it does what it has to, holds hardly more than before, and nothing stays behind.
fn is_met(attack: &Attack, way: Way) {
    let name = attack.name;
    let upstream = Attacked::start();
    let proxy = proxy(&upstream.url(), attack.more);
    warm(&proxy, way);
    let (before, asked, memory) = (Vitals::of(&proxy), upstream.asked(), resident(&proxy));
    forget_most_resident(&proxy);
    let held = attack.run(&way.open(&proxy));
    let grown = most_resident(&proxy).saturating_sub(memory);
    let asked = upstream.asked() - asked;
    eprintln!("{name}, {way:?}: memory grew by {} KiB at most, {asked} requests", grown / 1024);
    assert!(grown < attack.resident, "{name}, {way:?}: memory grew by {grown} bytes");
    assert!(asked <= attack.asks, "{name}, {way:?}: {asked} requests came to the endpoint");
    if let Some(flood) = attack.flood {
        wait_counted(&proxy, "thalweg_http2_floods_total", &format!("\"{flood}\""), attack.floods);
    }
    // Others on other connections are served meanwhile.
    warm(&proxy, way);
    drop(held);
    before.wait_for(&proxy, name);
}

fn are_met(name: &str, attacks: Vec<Attack>) {
    let _watchdog = Watchdog::new(name, LIMIT);
    for attack in attacks {
        is_met(&attack, Way::Plain);
        is_met(&attack, Way::Tls);
    }
}

/// Hostile input D7.
#[test]
fn streams_that_end_before_their_answers_are_ended() {
    are_met("streams_that_end_before_their_answers_are_ended", h2_attacks::resets());
}

/// Hostile input D8.
#[test]
fn field_sections_without_end_are_ended() {
    are_met("field_sections_without_end_are_ended", h2_attacks::sections());
}

/// Hostile input D8.
#[test]
fn frames_that_carry_nothing_are_ended() {
    are_met("frames_that_carry_nothing_are_ended", h2_attacks::empty_frames());
}

/// Hostile input D9.
#[test]
fn compressed_bombs_are_refused() {
    are_met("compressed_bombs_are_refused", h2_attacks::bombs());
}

/// Hostile inputs D8, D10 and E1.
#[test]
fn windows_and_prefaces_that_do_not_go_on_hold_little() {
    are_met("windows_and_prefaces_that_do_not_go_on_hold_little", h2_attacks::windows());
}

/// Hostile input D11: small messages, while the upstream takes none for a while. What the client may send is what its
/// windows say.
#[test]
fn a_stream_of_small_messages_is_served_however_slow_the_upstream() {
    let _watchdog = watchdog("a_stream_of_small_messages_is_served_however_slow_the_upstream");
    const MESSAGE: usize = 15;
    let messages = if measuring() { 200_000 } else { 20_000 };
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
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

/// Asks until it is told to stop; gives when each request began, and how long it took.
fn ask(address: SocketAddr, stop: &AtomicBool, into: &Mutex<Vec<(Instant, Duration)>>) {
    Priority::Above.take();
    let mut talk = Talk::open(address).unwrap();
    let mut taken = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let begin = Instant::now();
        talk.send("GET /near HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let head = talk.head().unwrap();
        assert_eq!(head.status(), 200);
        talk.body(&head).each(|_| {}).unwrap();
        taken.push((begin, begin.elapsed()));
        thread::sleep(PAUSE); // The pace of the load.
    }
    into.lock().unwrap().append(&mut taken);
}

/// Tells the clients to stop, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Attacks for a while, again and again; gives how often.
fn attack_for(attack: &Attack, open: Open<'_>, time: Duration) -> u32 {
    Priority::Below.take();
    let (begin, mut count) = (Instant::now(), 0);
    while count == 0 || begin.elapsed() < time {
        drop(attack.run(open));
        count += 1;
    }
    count
}

/// A time that was looked at, and what was counted in it.
#[derive(Clone, Copy)]
struct Span {
    from: Instant,
    to: Instant,
    count: u32,
}

fn span(act: impl FnOnce() -> u32) -> Span {
    let from = Instant::now();
    let count = act();
    Span { from, to: Instant::now(), count }
}

/// All attackers attack for a while; gives how often.
fn attack_from_all(attack: &Attack, open: Open<'_>, time: Duration) -> u32 {
    thread::scope(|scope| {
        let attackers = [(); ATTACKERS].map(|()| scope.spawn(|| attack_for(attack, open, time)));
        attackers.map(|attacker| attacker.join().unwrap()).iter().sum()
    })
}

/// What is asked of a proxy while it is attacked takes hardly longer than in quiet.
///
/// The attackers, and the endpoint that they make work, get what nobody else wants of the two cores, for theirs are
/// other machines; clients and their endpoint come first, because what they wait for themselves is not to count. What
/// cannot be told apart on one machine is seen by attacks on another proxy, which gets as little: there the clients
/// wait for the kernel. So the bound is twice what they take in quiet; where the machine itself makes them wait longer,
/// what they take beside that other proxy, and a quarter for noise.
#[test]
fn others_are_served_during_attacks() {
    let _watchdog = Watchdog::new("others_are_served_during_attacks", LIMIT * 3);
    let (turns, turn) = if measuring() { (TURNS.1, TURN.1) } else { (TURNS.0, TURN.0) };
    Priority::Above.take();
    let near = Upstream::saying("hello");
    Priority::Below.take();
    let far = Attacked::start();
    let other = proxy_of_two(&near.url(), &far.url());
    Priority::Ordinary.take();
    let proxy = proxy_of_two(&near.url(), &far.url());
    let web = proxy.web();
    let [open, elsewhere] = [&proxy, &other].map(|proxy| Way::Plain.open(proxy));
    [&proxy, &other].into_iter().for_each(|proxy| warm(proxy, Way::Plain));
    let (mut late, stop, all) = (Vec::new(), AtomicBool::new(false), Mutex::default());
    let mut looks = Vec::new();
    thread::scope(|scope| {
        (0..CLIENTS).for_each(|_| drop(scope.spawn(|| ask(web, &stop, &all))));
        let _stop = Stop(&stop);
        let only = std::env::var("ATTACK").unwrap_or_default();
        for attack in h2_attacks::all().into_iter().filter(|a| a.name.contains(&only)) {
            eprintln!("{}", attack.name);
            let spans: Vec<_> = (0..turns)
                .map(|_| {
                    let quiet = span(|| {
                        thread::sleep(turn); // How long the quiet value is looked at.
                        0
                    });
                    let away = measuring().then(|| span(|| attack_from_all(&attack, &elsewhere, turn)));
                    (quiet, away, span(|| attack_from_all(&attack, &open, turn)))
                })
                .collect();
            looks.push((attack.name, spans));
        }
    });
    let all = all.into_inner().unwrap();
    let figures = |spans: Vec<Span>| {
        let is_in = |at: Instant| spans.iter().any(|span| at >= span.from && at < span.to);
        let mut taken: Vec<_> = all.iter().filter(|(at, _)| is_in(*at)).map(|(_, took)| *took).collect();
        taken.sort();
        [0.5, 0.99, 1.0].map(|share| if taken.is_empty() { STEP } else { quantile(&taken, share) })
    };
    eprintln!("median, p99 and most in quiet, during attacks on another proxy, and during those on this one");
    for (name, spans) in looks {
        let count: u32 = spans.iter().map(|(_, _, busy)| busy.count).sum();
        let quiet = figures(spans.iter().map(|(quiet, ..)| *quiet).collect());
        let away = figures(spans.iter().filter_map(|(_, away, _)| *away).collect());
        let busy = figures(spans.iter().map(|(.., busy)| *busy).collect());
        let most = if measuring() { (quiet[1] * 2).max(away[1] * 5 / 4) } else { STEP / 4 };
        let is_late = busy[1] > most;
        let mark = match is_late {
            true => " LATE",
            false if busy[1] > quiet[1] * 2 => " (the machine's)",
            false => "",
        };
        eprintln!("{name}: {quiet:?}, {away:?}, {busy:?}, {count} attacks{mark}");
        late.extend(is_late.then_some(name));
    }
    assert!(late.is_empty(), "others notice {late:?}");
}
