//! `throttle`: bodies come as fast as they may and no faster, whole, over every version of HTTP.

use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::directory::Directory;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::secure::Identity;
use thalweg_tests::talk::chunk;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Message, Proxy, Talk, Upstream};

use super::clients::succeeds;
use super::{wait_counted, watchdog};

const LIMIT: Duration = Duration::from_secs(30);
/// Bytes of a body.
const SIZE: usize = 200_000;
/// Bytes of a field of which an answer of the proxy's own is made.
const PART: usize = 4000;
/// A body of that size at 100 KB/s takes 1.75 s behind its burst of 25 KB. Clocks and deadlines are a little apart.
const LEAST: Duration = Duration::from_millis(1600);
/// What it takes at most, on a busy machine.
const MOST: Duration = Duration::from_secs(10);

/// A text of which every part is another one.
fn text() -> String {
    let mut text: String = (0..SIZE).step_by(10).map(|at| format!("{at:09}\n")).collect();
    text.truncate(SIZE);
    text
}

/// An endpoint that gives the text, with its length or in chunks, and tells whether it got it.
fn library() -> Upstream {
    Upstream::start(|request: &Message| {
        let text = text();
        Some(match (request.start.starts_with("PUT "), request.target()) {
            (true, _) => ok(if request.body == text.as_bytes() { "whole" } else { "another one" }),
            (false, "/chunked") => {
                let mut whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                text.as_bytes().chunks(3_000).for_each(|piece| whole.extend_from_slice(&chunk(piece)));
                whole.extend_from_slice(b"0\r\n\r\n");
                whole
            }
            (false, _) => ok(&text),
        })
    })
}

/// A proxy before an endpoint that throttles to `rate`. It asks a pace of clients that none of them could keep, and
/// loses patience soon.
fn throttling(url: &str, rate: &str) -> Proxy {
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    let config = format!(
        "metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners:\n\
         \x20 web: {{ address: \"127.0.0.1:0\", h2c: true }}\n\
         \x20 secure: {{ address: \"127.0.0.1:0\", tls: {{ certificates: [ {certificate} ] }} }}\n\
         services: {{ s: {{ endpoints: \"{url}\" }} }}\n\
         defaults: {{ timeouts: {{ idle: 1s }}, limits: {{ min_rate: 1MB }} }}\n\
         routes:\n\
         \x20 - match: {{ path: /own }}\n\
         \x20   to: s\n\
         \x20   filters: [ {{ throttle: {{ response: {rate} }} }}, {{ respond: {{ body: \"{}\" }} }} ]\n\
         \x20 - {{ match: {{ path: /faulty }}, to: s, filters: [ {{ fault: {{ bandwidth: {rate} }} }} ] }}\n\
         \x20 - {{ to: s, filters: [ {{ throttle: {{ request: {rate}, response: {rate} }} }} ] }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        "{header.x-part}".repeat(SIZE / PART)
    );
    Proxy::start_in(directory, &config)
}

/// The ways on which curl reaches the proxy.
fn ways(proxy: &Proxy) -> Vec<(Vec<String>, String)> {
    let trusted = proxy.directory().join("web.pem").to_string_lossy().into_owned();
    let (plain, secure) = (proxy.web(), proxy.address("secure"));
    [
        (vec!["--http1.1"], format!("http://{plain}")),
        (vec!["--http2-prior-knowledge"], format!("http://{plain}")),
        (vec!["--http1.1", "--cacert", &trusted], format!("https://{secure}")),
        (vec!["--http2", "--cacert", &trusted], format!("https://{secure}")),
    ]
    .into_iter()
    .map(|(arguments, url)| (arguments.into_iter().map(str::to_owned).collect(), url))
    .collect()
}

/// Runs curl and says how long it took, where it got `expected`.
fn fetch(curl: &Path, arguments: &[String], url: &str, expected: &str) -> Duration {
    let began = Instant::now();
    let finished = run(Command::new(curl).args(["-sS", "--fail"]).args(arguments).arg(url), LIMIT);
    let took = began.elapsed();
    succeeds(&finished);
    assert!(finished.stdout == expected, "{arguments:?} {url}: {} bytes", finished.stdout.len());
    took
}

/// All of these fetches at once, each of which takes as long as its body must.
fn fetch_all(curl: &Path, fetches: Vec<(Vec<String>, String)>, expected: &str) {
    thread::scope(|scope| {
        for (arguments, url) in &fetches {
            scope.spawn(move || {
                let took = fetch(curl, arguments, url, expected);
                assert!((LEAST..MOST).contains(&took), "{arguments:?} {url} took {took:?}");
            });
        }
    });
}

#[test]
fn responses_come_as_fast_as_they_may_and_whole() {
    let _watchdog = watchdog("responses_come_as_fast_as_they_may_and_whole");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = library();
    let proxy = throttling(&upstream.url(), "100KB/s");
    let at = |path: &str| {
        ways(&proxy)
            .into_iter()
            .map(|(arguments, url)| (arguments, format!("{url}{path}")))
            .collect::<Vec<_>>()
    };
    fetch_all(&curl, ["/", "/chunked", "/faulty"].map(at).concat(), &text());
    let part = format!("X-Part: {}", "x".repeat(PART));
    let mut own = at("/own");
    own.iter_mut().for_each(|(arguments, _)| arguments.extend(["-H".to_owned(), part.clone()]));
    fetch_all(&curl, own, &"x".repeat(SIZE));
}

#[test]
fn requests_come_as_fast_as_they_may_and_whole() {
    let _watchdog = watchdog("requests_come_as_fast_as_they_may_and_whole");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = library();
    let proxy = throttling(&upstream.url(), "100KB/s");
    let upload = proxy.directory().join("upload");
    std::fs::write(&upload, text()).unwrap();
    let upload = upload.to_string_lossy().into_owned();
    let mut fetches = Vec::new();
    for more in [&["-T", &upload][..], &["-H", "Transfer-Encoding: chunked", "-T", &upload]] {
        for (mut arguments, url) in ways(&proxy) {
            arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
            fetches.push((arguments, format!("{url}/whole")));
        }
    }
    fetch_all(&curl, fetches, "whole");
}

#[test]
fn a_client_that_leaves_a_throttled_body_leaves_nothing_behind() {
    let _watchdog = watchdog("a_client_that_leaves_a_throttled_body_leaves_nothing_behind");
    let upstream = library();
    // What is left of a body would take minutes.
    let proxy = throttling(&upstream.url(), "1KiB/s");
    let mut clients = Vec::new();
    for path in ["/", "/chunked", "/own"] {
        let mut talk = Talk::open(proxy.web()).unwrap();
        let part = "x".repeat(PART);
        talk.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Part: {part}\r\n\r\n")).unwrap();
        let head = talk.head().unwrap();
        talk.body(&head).read_exact(&mut [0; 100]).unwrap();
        clients.push(talk);
    }
    let mut upload = Talk::open(proxy.web()).unwrap();
    upload
        .send(format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {SIZE}\r\n\r\n{}", text()))
        .unwrap();
    clients.push(upload);
    wait_counted(&proxy, "thalweg_service_requests_active", "service=\"s\"", 3);
    // An orderly end could be that of a request whose last bytes are still in the kernel.
    clients.into_iter().for_each(Talk::reset);
    wait_counted(&proxy, "thalweg_service_requests_active", "service=\"s\"", 0);
    let ended = proxy.stop();
    assert_eq!(ended.log.len(), 4, "{:?}", ended.log);
    for record in &ended.log {
        assert_eq!(record["fault"], "http_request_aborted", "{record}");
        // The head, the burst of 4 KiB, and what may have come since.
        assert!(record["bytes_out"].as_u64().unwrap() < 20_000, "{record}");
    }
}

/// Requests pipelined after a body wait for the body's rate limit with it.
#[test]
fn requests_behind_a_throttled_body_are_served() {
    let _watchdog = watchdog("requests_behind_a_throttled_body_are_served");
    let upstream = Upstream::start(|request| Some(ok(request.target())));
    let proxy = throttling(&upstream.url(), "8KiB/s");
    let mut talk = Talk::open(proxy.web()).unwrap();
    // More than the burst, followed by more than one receive.
    let body = "b".repeat(5000);
    let upload = format!("PUT /upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5000\r\n\r\n{body}");
    let next =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Part: {}\r\n\r\n", "x".repeat(PART));
    talk.send([upload, next("/second"), next("/third")].concat()).unwrap();
    for expected in ["/upload", "/second", "/third"] {
        let (head, body) = super::scripted::response(&mut talk);
        assert_eq!((head.status(), String::from_utf8_lossy(&body).as_ref()), (200, expected));
    }
}
