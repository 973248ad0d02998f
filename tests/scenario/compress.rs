//! `compress`: bodies change on their way, over every version of HTTP, as fast as they come.

use std::io::Read;
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use flate2::read::GzDecoder;
use thalweg_tests::message::fetch;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::talk::chunk;
use thalweg_tests::{Message, Proxy, Talk, Upstream};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);

/// A proxy that compresses what comes from `url`.
fn compressing(url: &str) -> Proxy {
    Proxy::start(&format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\", h2c: true }} }}\n\
         services: {{ s: {{ endpoints: \"{url}\" }} }}\n\
         routes: [ {{ to: s, filters: [ {{ compress: {{}} }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    ))
}

/// A text that is large and compresses well, but not to nothing.
fn text() -> String {
    (0..60_000_u32)
        .map(|line| format!("line {line} of a text, {}\n", line.wrapping_mul(2_654_435_761)))
        .collect()
}

/// An endpoint with that text: with its length, or in chunks for `/chunked`.
fn library() -> Upstream {
    Upstream::start(|request: &Message| {
        let text = text();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"t\"\r\n";
        Some(match (request.start.starts_with("HEAD "), request.target()) {
            (true, _) => format!("{head}Content-Length: {}\r\n\r\n", text.len()).into_bytes(),
            (false, "/chunked") => {
                let mut whole = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
                text.as_bytes().chunks(50_000).for_each(|piece| whole.extend_from_slice(&chunk(piece)));
                whole.extend_from_slice(b"0\r\n\r\n");
                whole
            }
            (false, _) => format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes(),
        })
    })
}

fn decoded(compressed: &[u8]) -> String {
    let mut out = String::new();
    GzDecoder::new(compressed).read_to_string(&mut out).unwrap();
    out
}

#[test]
fn bodies_come_back_whole_whatever_frames_them() {
    let _watchdog = watchdog("bodies_come_back_whole_whatever_frames_them");
    let upstream = library();
    let proxy = compressing(&upstream.url());
    for (version, path) in [("1.1", "/"), ("1.1", "/chunked"), ("1.0", "/"), ("1.0", "/chunked")] {
        let request = format!("GET {path} HTTP/{version}\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
        let mut talk = Talk::open(proxy.web()).unwrap();
        talk.send(&request).unwrap();
        let head = talk.head().unwrap();
        assert_eq!(head.value("content-encoding"), Some("gzip"), "{version} {path}");
        assert_eq!(
            (head.value("content-length"), head.value("etag")),
            (None, Some("W/\"t\"")),
            "{version} {path}"
        );
        let mut compressed = Vec::new();
        talk.body(&head).read_to_end(&mut compressed).unwrap();
        assert!(compressed.len() * 2 < text().len(), "{version} {path}: {}", compressed.len());
        assert_eq!(decoded(&compressed), text(), "{version} {path}");
    }
    let plain = fetch(proxy.web(), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!((plain.value("content-encoding"), plain.value("vary")), (None, Some("Accept-Encoding")));
    assert_eq!(plain.text(), text());
    let head =
        fetch(proxy.web(), "HEAD / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    assert_eq!((head.value("content-encoding"), head.value("content-length")), (Some("gzip"), None));
}

#[test]
fn curl_decodes_what_it_gets_over_both_versions() {
    let _watchdog = watchdog("curl_decodes_what_it_gets_over_both_versions");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = library();
    let proxy = compressing(&upstream.url());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["", "chunked"] {
            let url = format!("http://{}/{path}", proxy.web());
            let finished =
                run(Command::new(&curl).args(["-sS", "--fail", "--compressed", version, &url]), LIMIT);
            assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{version} {path}");
            assert!(finished.stdout == text(), "{version} {path}: {} bytes", finished.stdout.len());
        }
    }
}

#[test]
fn an_event_stream_is_compressed_as_it_comes() {
    let _watchdog = watchdog("an_event_stream_is_compressed_as_it_comes");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (read_first, first_is_read) = mpsc::channel();
    let endpoint = thread::spawn(move || {
        let mut talk = Talk::new(listener.accept().unwrap().0);
        talk.head().unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        talk.send([head.as_bytes(), &chunk(b"data: one\n\n")].concat()).unwrap();
        first_is_read.recv_timeout(LIMIT).unwrap();
        talk.send([chunk(b"data: two\n\n"), b"0\r\n\r\n".to_vec()].concat()).unwrap();
    });
    let proxy = compressing(&url);
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    let head = talk.head().unwrap();
    assert_eq!(head.value("content-encoding"), Some("gzip"));
    let mut decoder = GzDecoder::new(talk.body(&head));
    let mut event = [0; 11];
    decoder.read_exact(&mut event).unwrap();
    assert_eq!(&event, b"data: one\n\n");
    // The second one is sent only now.
    read_first.send(()).unwrap();
    let mut rest = String::new();
    decoder.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "data: two\n\n");
    endpoint.join().unwrap();
}
