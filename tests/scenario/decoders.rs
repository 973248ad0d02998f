//! The memory of decoders (`decompress`) is bounded: what a stream asks for is not to be had past it.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use thalweg_tests::{Proxy, Talk, Upstream};

use super::{wait_counted, watchdog};

fn status(proxy: &Proxy, coding: &str, body: &[u8]) -> (u16, String) {
    let mut talk = Talk::open(proxy.web()).unwrap();
    let length = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n"
    );
    talk.send([head.as_bytes(), body].concat()).unwrap();
    let head = talk.head().unwrap();
    (head.status(), head.value("proxy-status").unwrap_or_default().to_owned())
}

#[test]
fn a_window_that_the_budget_does_not_have_is_refused_with_503() {
    let _watchdog = watchdog("a_window_that_the_budget_does_not_have_is_refused_with_503");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&format!(
        "workers: 1\n\
         limits: {{ memory: 64MiB }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         routes: [ {{ to: [ \"{}\" ], filters: [ {{ decompress: {{ request: true }} }} ] }} ]\n",
        upstream.url()
    ));
    // Its first bits ask for a window of 16 MiB (RFC 7932 §9.1).
    let (refused, why) = status(&proxy, "br", b"\x0f and whatever");
    assert!(refused == 503 && why.contains("the decoders of bodies hold all"), "{refused} {why}");
    wait_counted(&proxy, "thalweg_limit_hits_total", "limit=\"decoders\"", 1);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"small ones go on").unwrap();
    assert_eq!(status(&proxy, "gzip", &encoder.finish().unwrap()).0, 200);
}
