//! Listeners that take datagrams: those of a client go to one endpoint and its answers come back, as long as anything
//! is said; whoever goes away, comes or floods.

mod bounds;
mod dns;
mod endpoints;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::process::Signal;
use thalweg_tests::{Proxy, STEP, Vitals};

use super::{reload, wait_counted, watchdog};

/// How long an answer is waited for before a datagram is sent again, or where none is to come.
const MOMENT: Duration = Duration::from_millis(200);
/// The longest datagram of IPv4.
const LONGEST: usize = 65_507;

/// An endpoint that says every datagram back to whom it came from.
struct Echo {
    address: SocketAddr,
    heard: Arc<AtomicUsize>,
    /// Whom it heard last.
    peer: Arc<Mutex<Option<SocketAddr>>>,
    socket: UdpSocket,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    fn at(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        let (heard, stops, peer) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default(), Arc::default());
        let thread = thread::spawn({
            let (socket, heard, stops) = (socket.try_clone().unwrap(), heard.clone(), stops.clone());
            let peer: Arc<Mutex<Option<SocketAddr>>> = Arc::clone(&peer);
            move || {
                let mut bytes = vec![0; LONGEST];
                while !stops.load(Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                    heard.fetch_add(1, Relaxed);
                    *peer.lock().unwrap() = Some(from);
                    let _ = socket.send_to(&bytes[..length], from);
                }
            }
        });
        let address = socket.local_addr().unwrap();
        Self { address, heard, peer, socket, stops, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("udp://{}", self.address)
    }

    /// Datagrams heard.
    fn heard(&self) -> usize {
        self.heard.load(Relaxed)
    }

    /// Says something to whom it heard last.
    fn say(&self, what: &[u8]) {
        let peer = self.peer.lock().unwrap().unwrap();
        self.socket.send_to(what, peer).unwrap();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stops.store(true, Relaxed);
        let waker = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _ = waker.send_to(b"", self.address);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// An address of this machine at which nobody hears anything: one that no other test takes a port of.
fn nowhere() -> String {
    format!("udp://{}", UdpSocket::bind("127.0.0.99:0").unwrap().local_addr().unwrap())
}

/// A listener `dns`, with `of_listener`, before a service of these endpoints; `more` are further top-level keys.
fn config(endpoints: &[String], (of_listener, of_service): (&str, &str), more: &str) -> String {
    let endpoints = endpoints.iter().map(|url| format!("\"{url}\"")).collect::<Vec<_>>().join(", ");
    let shutdown = if more.contains("shutdown:") { "" } else { "shutdown: { delay: 0s, grace: 10s }\n" };
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ dns: {{ address: \"127.0.0.1:0\", protocol: udp, to: s{of_listener} }} }}\n\
         services: {{ s: {{ endpoints: [ {endpoints} ]{of_service} }} }}\n\
         {shutdown}{more}\n"
    )
}

fn proxy(echoes: &[&Echo], of_listener: &str, of_service: &str) -> Proxy {
    let endpoints: Vec<_> = echoes.iter().map(|echo| echo.url()).collect();
    Proxy::start(&config(&endpoints, (of_listener, of_service), ""))
}

/// A client, who hears of nobody but the address that it speaks to.
struct Client(UdpSocket);

impl Client {
    fn of(proxy: &Proxy) -> Self {
        Self::to(proxy.address("dns"))
    }

    fn to(address: SocketAddr) -> Self {
        let any = if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.connect(address).unwrap();
        Self(socket)
    }

    fn send(&self, what: &[u8]) {
        self.0.send(what).unwrap();
    }

    fn next(&self, limit: Duration) -> Option<Vec<u8>> {
        self.0.set_read_timeout(Some(limit)).unwrap();
        let mut bytes = vec![0; LONGEST];
        let length = self.0.recv(&mut bytes).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }

    /// Says something once, which is heard and said back.
    fn echoes(&self, what: &[u8]) {
        self.send(what);
        let answer = self.next(STEP).unwrap();
        assert!(answer == what, "{} bytes came back of {}", answer.len(), what.len());
    }

    /// The same, as often as it takes.
    fn echoes_at_last(&self, what: &[u8]) {
        let end = Instant::now() + STEP;
        loop {
            // Where a port is gone the kernel says so to who sends.
            let _ = self.0.send(what);
            if self.next(MOMENT).is_some_and(|answer| answer == what) {
                return;
            }
            assert!(Instant::now() < end, "nobody answers");
        }
    }

    /// Speaks until nobody has the port.
    fn is_refused_at_last(&self) {
        let end = Instant::now() + STEP;
        self.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let is_refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        loop {
            let sent = self.0.send(b"more");
            if sent.is_err_and(is_refused) || self.0.recv(&mut [0; 9]).is_err_and(is_refused) {
                return;
            }
            assert!(Instant::now() < end, "the port is still there");
        }
    }

    /// Nobody answers.
    fn is_ignored(&self) {
        self.send(b"is anybody there?");
        assert_eq!(self.next(MOMENT), None);
    }
}

#[test]
fn every_client_stays_at_its_endpoint_and_gets_its_own_answers() {
    let _watchdog = watchdog("every_client_stays_at_its_endpoint_and_gets_its_own_answers");
    let (one, two) = (Echo::start(), Echo::start());
    let proxy = proxy(&[&one, &two], "", "");
    let clients: Vec<_> = (0..100).map(|_| Client::of(&proxy)).collect();
    for round in 0..5 {
        for (number, client) in clients.iter().enumerate() {
            client.send(format!("{number} {round}").as_bytes());
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.next(STEP).unwrap(), format!("{number} {round}").as_bytes());
        }
        assert_eq!(one.heard() + two.heard(), (round + 1) * 100);
    }
    let (at_one, at_two) = (one.heard(), two.heard());
    assert_eq!((at_one % 5, at_two % 5), (0, 0), "a client speaks to one of them: {at_one} and {at_two}");
    assert!(at_one >= 200 && at_two >= 200, "each has its part: {at_one} and {at_two}");
    wait_counted(&proxy, "thalweg_connections_active", "dns", 100);
    wait_counted(&proxy, "thalweg_datagrams_total", "direction=\"in\"", 500);
    wait_counted(&proxy, "thalweg_datagrams_total", "direction=\"out\"", 500);
    let bytes =
        clients.iter().enumerate().map(|(number, _)| 5 * (number.to_string().len() + 2)).sum::<usize>();
    wait_counted(&proxy, "thalweg_request_bytes_total", "dns", bytes as u32);
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "who has said nothing for a moment need not be waited for");
    assert_eq!(ended.log.len(), 100, "a line for each session");
    let line = &ended.log[0];
    let told = (&line["scheme"], &line["listener"], &line["service"], &line["status"], &line["fault"]);
    assert_eq!(told, (&json!("udp"), &json!("dns"), &json!("s"), &json!(200), &json!(null)), "{line}");
    assert_eq!(line["bytes_in"], line["bytes_out"], "{line}");
}

#[test]
fn datagrams_of_every_length_go_both_ways_whole() {
    let _watchdog = watchdog("datagrams_of_every_length_go_both_ways_whole");
    let echo = Echo::start();
    let proxy = proxy(&[&echo], "", "");
    let client = Client::of(&proxy);
    for length in [0, 1, 512, 1472, 1473, 9000, 65_000, LONGEST] {
        let said: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        client.echoes(&said);
    }
    // And a first one.
    Client::of(&proxy).echoes(b"");
    Client::of(&proxy).echoes(&vec![7; LONGEST]);
}

#[test]
fn an_answer_leaves_from_the_address_that_its_client_spoke_to() {
    let _watchdog = watchdog("an_answer_leaves_from_the_address_that_its_client_spoke_to");
    let echo = Echo::start();
    for any in ["0.0.0.0:0", ":0"] {
        let text = config(&[echo.url()], ("", ""), "").replacen(
            "\"127.0.0.1:0\", protocol",
            &format!("\"{any}\", protocol"),
            1,
        );
        let proxy = Proxy::start(&text);
        let port = proxy.address("dns").port();
        for address in ["127.0.0.1", "127.0.0.2", "127.1.2.3", "::1"] {
            if any == ":0" || address != "::1" {
                Client::to(SocketAddr::new(address.parse().unwrap(), port)).echoes(address.as_bytes());
            }
        }
        // The same client at two addresses of the proxy: it is answered from each.
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(STEP)).unwrap();
        for address in ["127.0.0.2", "127.0.0.3", "127.0.0.2"] {
            let to = SocketAddr::new(address.parse().unwrap(), port);
            client.send_to(b"x", to).unwrap();
            assert_eq!(client.recv_from(&mut [0; 9]).unwrap(), (1, to));
        }
    }
}

#[test]
fn an_endpoint_may_speak_as_long_as_a_session_lasts() {
    let _watchdog = watchdog("an_endpoint_may_speak_as_long_as_a_session_lasts");
    let echo = Echo::start();
    let proxy = proxy(&[&echo], "", "");
    let client = Client::of(&proxy);
    client.echoes(b"subscribe");
    for news in [&b"one"[..], b"", b"three"] {
        echo.say(news);
        assert_eq!(client.next(STEP).unwrap(), news);
    }
}

#[test]
fn silence_ends_a_session_in_time_and_a_word_of_either_side_does_not() {
    let _watchdog = watchdog("silence_ends_a_session_in_time_and_a_word_of_either_side_does_not");
    let (one, two) = (Echo::start(), Echo::start());
    let text = config(&[one.url(), two.url()], ("", ", timeouts: { idle: 400ms }"), "");
    let proxy = Proxy::start(&text.replace("workers: 2", "workers: 1"));
    let before = Vitals::of(&proxy);
    let (busy, silent) = (Client::of(&proxy), Client::of(&proxy));
    silent.echoes(b"first and last");
    busy.echoes(b"hello");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1200) {
        busy.send(b"hello");
        assert!(busy.next(STEP).is_some());
        thread::sleep(Duration::from_millis(50)); // The pace of a client that is slow, not silent.
    }
    wait_counted(&proxy, "thalweg_requests_total", "dns", 1);
    assert_eq!(one.heard().min(two.heard()), 1, "the one that spoke stayed where it was");
    silent.echoes(b"it begins another one");
    drop(busy);
    before.wait_for(&proxy, "sessions");
    assert_eq!(proxy.stop().log.len(), 3);
}

#[test]
fn the_last_answer_that_is_expected_ends_a_session() {
    let _watchdog = watchdog("the_last_answer_that_is_expected_ends_a_session");
    let echo = Echo::start();
    let proxy = proxy(&[&echo], ", expected_responses: 1", ", timeouts: { idle: 1h }");
    let before = Vitals::of(&proxy);
    let client = Client::of(&proxy);
    for round in 1..=3 {
        client.echoes(b"question");
        wait_counted(&proxy, "thalweg_requests_total", "dns", round);
    }
    before.wait_for(&proxy, "answers");
    let lines = proxy.stop().log;
    assert!(lines.iter().all(|line| line["bytes_in"] == 8 && line["bytes_out"] == 8), "{lines:?}");
}

#[test]
fn an_endpoint_that_owes_answers_and_gives_none_has_failed() {
    let _watchdog = watchdog("an_endpoint_that_owes_answers_and_gives_none_has_failed");
    // Bound, and never read from.
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let echo = Echo::start();
    let endpoints = [format!("udp://{}", mute.local_addr().unwrap()), echo.url()];
    let service = ", timeouts: { idle: 200ms }, ejection: { consecutive: 2, time: 1m, max_share: 100% }";
    let text =
        config(&endpoints, (", expected_responses: 1", service), "").replace("workers: 2", "workers: 1");
    let proxy = Proxy::start(&text);
    let clients: Vec<_> = (0..8).map(|_| Client::of(&proxy)).collect();
    clients.iter().for_each(|client| client.send(b"question"));
    wait_counted(&proxy, "thalweg_requests_total", "code=\"504\"", 4);
    // It is left out: everybody is answered at once.
    Client::of(&proxy).echoes(b"question");
    for client in &clients {
        client.next(Duration::from_millis(1));
        client.echoes(b"and again");
    }
    let lines = proxy.stop().log;
    let failed = lines.iter().find(|line| line["status"] == 504).unwrap();
    assert_eq!(failed["fault"], "http_response_timeout", "{failed}");
}

#[test]
fn the_proxy_waits_for_sessions_when_it_stops_and_then_ends_them() {
    let _watchdog = watchdog("the_proxy_waits_for_sessions_when_it_stops_and_then_ends_them");
    let echo = Echo::start();
    let text = config(&[echo.url()], ("", ""), "shutdown: { delay: 0s, grace: 3s }");
    let proxy = Proxy::start(&text);
    let client = Client::of(&proxy);
    client.echoes(b"hello");
    proxy.process().signal(Signal::TERM);
    wait_draining(&proxy);
    client.echoes(b"last words");
    Client::of(&proxy).is_ignored();
    let ended = proxy.ended(STEP);
    assert_eq!((ended.status.code(), ended.log.len()), (Some(0), 1), "it fell silent");
    let proxy = Proxy::start(&text);
    let client = Client::of(&proxy);
    client.echoes(b"hello");
    proxy.process().signal(Signal::TERM);
    client.is_refused_at_last();
    let ended = proxy.ended(STEP);
    assert_eq!((ended.status.code(), ended.log.len()), (Some(3), 1), "one had to be ended");
}

/// Waits until workers have been told to stop.
fn wait_draining(proxy: &Proxy) {
    let end = Instant::now() + STEP;
    // It is said when they have been told; they hear of it before what comes after that.
    while !proxy.process().stderr().contains("no more connections are taken") {
        assert!(Instant::now() < end, "no drain in\n{}", proxy.process().stderr());
        thread::yield_now();
    }
}

#[test]
fn a_reload_keeps_the_sessions_that_it_does_not_concern() {
    let _watchdog = watchdog("a_reload_keeps_the_sessions_that_it_does_not_concern");
    let (one, two) = (Echo::start(), Echo::start());
    let proxy = proxy(&[&one], "", "");
    let client = Client::of(&proxy);
    client.echoes(b"before");
    let port = one.peer.lock().unwrap().unwrap();
    reload(&proxy, &config(&[one.url(), two.url()], ("", ", timeouts: { idle: 30s }"), ""), 1);
    client.echoes(b"after");
    assert_eq!(one.peer.lock().unwrap().unwrap(), port, "through the same socket");
    reload(&proxy, &config(&[two.url()], ("", ""), ""), 2);
    client.echoes(b"elsewhere");
    assert_eq!((one.heard(), two.heard()), (2, 1), "its endpoint is gone");
    let away = config(&[two.url()], ("", ""), "routes: [ { to: [ \"http://127.0.0.1:1\" ] } ]");
    let away = away.replace("listeners: { dns:", "listeners: { web: { address: \"127.0.0.1:0\" }, other:");
    let was = proxy.address("dns");
    reload(
        &proxy,
        &away.replacen("protocol: udp, to: s", "protocol: tcp, to: [ \"tcp://127.0.0.1:1\" ]", 1),
        3,
    );
    client.is_refused_at_last();
    assert!(UdpSocket::bind(was).is_ok());
    wait_counted(&proxy, "thalweg_requests_total", "dns", 2);
}

#[test]
fn a_name_that_takes_an_address_over_begins_with_sessions_of_its_own() {
    let _watchdog = watchdog("a_name_that_takes_an_address_over_begins_with_sessions_of_its_own");
    let echo = Echo::start();
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let text = config(&[echo.url()], ("", ""), "").replacen(
        "127.0.0.1:0\", protocol",
        &format!("{address}\", protocol"),
        1,
    );
    let proxy = Proxy::start(&text);
    let client = Client::to(address);
    client.echoes(b"before");
    reload(&proxy, &text.replace("dns:", "resolver:"), 1);
    client.echoes(b"after");
    wait_counted(&proxy, "thalweg_requests_total", "route=\"dns\"", 1);
    wait_counted(&proxy, "thalweg_connections_active", "resolver", 1);
}
