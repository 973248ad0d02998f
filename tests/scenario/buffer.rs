//! `buffer`: an endpoint has to do with a request when its body is whole, however slowly it comes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::talk::chunk;
use thalweg_tests::{Directory, Message, Proxy, Talk, Upstream, upstream::ok};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);

/// An endpoint that says what it was told of the length, and what came.
fn counting() -> Upstream {
    Upstream::start(|request: &Message| {
        let sum: u64 = request.body.iter().zip(1..).map(|(byte, at)| u64::from(*byte) * at).sum();
        Some(ok(&format!("{:?} {} {sum}", request.value("content-length"), request.body.len())))
    })
}

fn said(body: &[u8]) -> String {
    let sum: u64 = body.iter().zip(1..).map(|(byte, at)| u64::from(*byte) * at).sum();
    format!("{:?} {} {sum}", Some(body.len().to_string()), body.len())
}

fn buffering(upstream: &Upstream, buffer: &str) -> Proxy {
    Proxy::start(&format!(
        "workers: 1\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\", h2c: true }} }}\n\
         services: {{ s: {{ endpoints: \"{}\" }} }}\n\
         routes:\n\
         \x20 - {{ match: {{ path: /own }}, to: s, filters: [ {{ respond: own }} ] }}\n\
         \x20 - {{ to: s, filters: [ {{ buffer: {buffer} }} ] }}\n",
        upstream.url()
    ))
}

#[test]
fn a_slow_upload_holds_no_endpoint() {
    let _watchdog = watchdog("a_slow_upload_holds_no_endpoint");
    for buffer in ["{}", "{ memory: 0B }", "{ memory: 6B }"] {
        let upstream = counting();
        let proxy = buffering(&upstream, buffer);
        let mut talk = Talk::open(proxy.web()).unwrap();
        talk.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        assert_eq!(talk.head().unwrap().status(), 100);
        for piece in ["slow", "ly", " it ", "comes"] {
            talk.send(chunk(piece.as_bytes())).unwrap();
            // The only worker is at work, and nothing has gone on.
            assert_eq!(get(proxy.web(), "/own").unwrap().text(), "own");
            assert_eq!(upstream.connections(), 0, "{buffer}");
        }
        talk.send("0\r\n\r\nGET /own HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        for expected in [said(b"slowly it comes"), "own".to_owned()] {
            let head = talk.head().unwrap();
            assert_eq!(head.status(), 200, "{buffer}");
            let mut body = Vec::new();
            talk.body(&head).each(|piece| body.extend_from_slice(piece)).unwrap();
            assert_eq!(String::from_utf8(body).unwrap(), expected, "{buffer}");
        }
    }
}

#[test]
fn bodies_of_any_size_come_whole_over_every_version() {
    let _watchdog = watchdog("bodies_of_any_size_come_whole_over_every_version");
    let upstream = counting();
    let proxy = buffering(&upstream, "{ max_body: 4MiB }");
    let Some(curl) = find_or_skip("curl") else { return };
    let directory = Directory::new();
    for length in [0, 1, 65_536, 65_537, 3_000_000] {
        let bytes: Vec<u8> =
            (0..length).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let file = directory.path().join("body");
        fs::write(&file, &bytes).unwrap();
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            for framing in ["Content-Type: a/b", "Transfer-Encoding: chunked"] {
                if version != "--http1.1" && framing.starts_with("Transfer") {
                    continue;
                }
                let mut command = Command::new(&curl);
                command.args(["-sS", version, "-H", framing, "--data-binary"]);
                command.arg(format!("@{}", file.display())).arg(format!("http://{}/", proxy.web()));
                let finished = run(&mut command, LIMIT);
                assert_eq!(finished.code, 0, "{}", finished.stderr);
                assert_eq!(finished.stdout, said(&bytes), "{length} {version} {framing}");
            }
        }
    }
    let bytes = vec![7; 5_000_000];
    let file = directory.path().join("body");
    fs::write(&file, &bytes).unwrap();
    let mut command = Command::new(&curl);
    command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-T"]).arg(&file);
    let finished = run(command.arg(format!("http://{}/", proxy.web())), LIMIT);
    assert_eq!(finished.stdout, "413", "{}", finished.stderr);
    // Some releases of curl do not show an answer that ends its stream before the body is sent (RFC 9113 §8.1).
    let Some(nghttp) = find_or_skip("nghttp") else { return };
    let mut command = Command::new(nghttp);
    command.args(["-v", "-H:method: PUT", "-d"]).arg(&file);
    let finished = run(command.arg(format!("http://{}/", proxy.web())), LIMIT);
    assert!(finished.stdout.contains(":status: 413"), "{} {}", finished.stdout, finished.stderr);
}
