//! `compress` and `decompress` over every combination of what frames a response, what it is, and who asks how:
//! HTTP/1.0, 1.1 and 2, clients that read at once and a few bytes at a time.

use std::io::{Read, Write};
use std::time::Instant;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use thalweg_tests::h2_frames::{
    DATA, END, END_HEADERS, Frames, HEADERS, INITIAL_WINDOW, frame, section, window_update,
};
use thalweg_tests::talk::chunk;
use thalweg_tests::{Message, Proxy, STEP, Talk, Upstream};

use super::watchdog;

/// What the endpoint answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    Length,
    Chunked,
    Trailers,
    Coded,
    CodedChunked,
    CodedTrailers,
    Range,
    CodedRange,
    NoContent,
    NotModified,
}

const ANSWERS: [Answer; 10] = [
    Answer::Length,
    Answer::Chunked,
    Answer::Trailers,
    Answer::Coded,
    Answer::CodedChunked,
    Answer::CodedTrailers,
    Answer::Range,
    Answer::CodedRange,
    Answer::NoContent,
    Answer::NotModified,
];

impl Answer {
    fn status(self) -> u16 {
        match self {
            Self::Range | Self::CodedRange => 206,
            Self::NoContent => 204,
            Self::NotModified => 304,
            _ => 200,
        }
    }

    fn is_coded(self) -> bool {
        matches!(self, Self::Coded | Self::CodedChunked | Self::CodedTrailers | Self::CodedRange)
    }

    fn has_trailers(self) -> bool {
        matches!(self, Self::Trailers | Self::CodedTrailers)
    }

    /// The body as the endpoint sends it, without framing.
    fn body(self) -> Vec<u8> {
        match self {
            Self::NoContent | Self::NotModified => Vec::new(),
            _ if self.is_coded() => gzip(text().as_bytes()),
            _ => text().into_bytes(),
        }
    }

    /// Whether the filter changes the body; `is_compress`: it is `compress`, else `decompress`.
    fn is_changed(self, is_compress: bool) -> bool {
        self.status() == 200 && self.is_coded() != is_compress
    }

    /// The whole response.
    fn write(self, is_head: bool) -> Vec<u8> {
        let body = self.body();
        let mut out = format!("HTTP/1.1 {} Some\r\nETag: \"t\"\r\n", self.status()).into_bytes();
        if body.is_empty() {
            return [out, b"\r\n".to_vec()].concat();
        }
        out.extend_from_slice(b"Content-Type: text/plain\r\nAccept-Ranges: bytes\r\nContent-MD5: x\r\n");
        if self.is_coded() {
            out.extend_from_slice(b"Content-Encoding: gzip\r\n");
        }
        match self {
            Self::Chunked | Self::CodedChunked | Self::Trailers | Self::CodedTrailers => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                if !is_head {
                    body.chunks(7_777).for_each(|piece| out.extend_from_slice(&chunk(piece)));
                    let end: &[u8] =
                        if self.has_trailers() { b"0\r\nX-End: yes\r\n\r\n" } else { b"0\r\n\r\n" };
                    out.extend_from_slice(end);
                }
                return out;
            }
            _ => out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes()),
        }
        if !is_head {
            out.extend_from_slice(&body);
        }
        out
    }
}

fn text() -> String {
    (0..6_000_u32)
        .map(|line| format!("line {line} of a text, {}\n", line.wrapping_mul(2_654_435_761)))
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

fn library() -> Upstream {
    Upstream::start(|request: &Message| {
        let at: usize = request.target().rsplit('/').next()?.parse().ok()?;
        Some(ANSWERS[at].write(request.start.starts_with("HEAD ")))
    })
}

fn proxy_of(url: &str) -> Proxy {
    Proxy::start(&format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\", h2c: true }} }}\n\
         services: {{ s: {{ endpoints: \"{url}\" }} }}\n\
         routes:\n\
         - {{ match: {{ path: /compress/* }}, to: s, filters: [ {{ compress: {{ algorithms: gzip }} }} ] }}\n\
         - {{ match: {{ path: /decompress/* }}, to: s, filters: [ {{ decompress: {{ response: true }} }} ] }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    ))
}

/// What the client may see of a body.
fn assert_body(answer: Answer, is_compress: bool, body: &[u8], case: &str) {
    match (answer.is_changed(is_compress), is_compress) {
        (true, true) => {
            assert!(body.len() * 2 < text().len(), "{case}: {}", body.len());
            assert!(decoded(body) == text().as_bytes(), "{case}");
        }
        (true, false) => assert!(body == text().as_bytes(), "{case}: {} bytes", body.len()),
        (false, _) => assert!(body == answer.body(), "{case}: {} bytes", body.len()),
    }
}

fn assert_fields(answer: Answer, is_compress: bool, head: &Message, case: &str) {
    assert_eq!(head.status(), answer.status(), "{case}");
    let is_changed = answer.is_changed(is_compress);
    assert_eq!(head.value("etag"), Some(if is_changed { "W/\"t\"" } else { "\"t\"" }), "{case}");
    // A 304 says what the 200 has said.
    let is_freshened = is_compress && matches!(answer, Answer::NotModified);
    assert!(!is_freshened || head.value("vary") == Some("Accept-Encoding"), "{case}");
    if answer.body().is_empty() {
        return;
    }
    let coding = (answer.is_coded() != is_changed).then_some("gzip");
    assert_eq!(head.value("content-encoding"), coding, "{case}");
    for name in ["accept-ranges", "content-md5"] {
        assert_eq!(head.value(name).is_none(), is_changed, "{case} {name}");
    }
    if is_changed {
        assert_eq!(head.value("content-length"), None, "{case}");
        assert_eq!(head.value("vary"), Some("Accept-Encoding"), "{case}");
    }
}

/// Asks over HTTP/1 and reads the body with a buffer of this size.
fn ask_http1(
    proxy: &Proxy,
    (answer, is_compress): (usize, bool),
    (method, version): (&str, &str),
    most: usize,
) {
    let (folder, accepts) =
        if is_compress { ("compress", "Accept-Encoding: gzip\r\n") } else { ("decompress", "") };
    let case = format!("{method} {folder} {:?} over {version}, {most} bytes at a time", ANSWERS[answer]);
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send(format!("{method} /{folder}/{answer} HTTP/{version}\r\nHost: a.test\r\n{accepts}\r\n"))
        .unwrap();
    let head = talk.head().unwrap();
    let answer = ANSWERS[answer];
    assert_fields(answer, is_compress, &head, &case);
    assert!(version == "1.1" || head.value("transfer-encoding").is_none(), "{case}");
    if method == "HEAD" || answer.body().is_empty() {
        // Nothing follows: the next answer begins here.
        if head.value("connection") != Some("close") && version == "1.1" {
            talk.send(format!("HEAD /{folder}/8 HTTP/1.1\r\nHost: a.test\r\n\r\n")).unwrap();
            assert_eq!(talk.head().unwrap().status(), 204, "{case}");
        }
        return;
    }
    let (mut body, mut buffer) = (Vec::new(), vec![0; most]);
    let mut reader = talk.body(&head);
    loop {
        match reader.read(&mut buffer).unwrap_or_else(|error| panic!("{case}: {error}")) {
            0 => break,
            n => body.extend_from_slice(&buffer[..n]),
        }
    }
    if answer.has_trailers() && version == "1.1" {
        assert_eq!(reader.trailer("x-end"), Some("yes"), "{case}");
    }
    assert_body(answer, is_compress, &body, &case);
}

/// The same over HTTP/2, with a window that opens by so many bytes.
fn ask_http2(proxy: &Proxy, (answer, is_compress): (usize, bool), method: &str, window: u32) {
    let folder = if is_compress { "compress" } else { "decompress" };
    let fields: &[_] = if is_compress { &[("accept-encoding", "gzip")] } else { &[] };
    let case = format!("{method} {folder} {:?} over HTTP/2, windows of {window}", ANSWERS[answer]);
    let mut client = Frames::open(proxy.web(), &[(INITIAL_WINDOW, window)]);
    let block = section(method, &format!("/{folder}/{answer}"), fields);
    client.send(frame(HEADERS, END | END_HEADERS, 1, &block));
    let (mut body, mut status, deadline) = (Vec::new(), None, Instant::now() + STEP);
    loop {
        let frame = client.next(deadline).unwrap_or_else(|event| panic!("{case}: {event:?}"));
        assert_eq!(frame.code(), None, "{case}");
        status = status.or(frame.status());
        if frame.kind == DATA && !frame.payload.is_empty() {
            body.extend_from_slice(&frame.payload);
            let n = u32::try_from(frame.payload.len()).unwrap();
            client.send([window_update(0, n), window_update(1, n)].concat());
        }
        if frame.ends() {
            break;
        }
    }
    assert_eq!(status, Some(ANSWERS[answer].status()), "{case}");
    match method {
        "HEAD" => assert!(body.is_empty(), "{case}"),
        _ => assert_body(ANSWERS[answer], is_compress, &body, &case),
    }
}

#[test]
fn every_response_comes_as_it_should_to_every_client() {
    let _watchdog = watchdog("every_response_comes_as_it_should_to_every_client");
    let upstream = library();
    let proxy = proxy_of(&upstream.url());
    for answer in 0..ANSWERS.len() {
        for (is_compress, method) in [(true, "GET"), (false, "GET"), (true, "HEAD"), (false, "HEAD")] {
            for version in ["1.0", "1.1"] {
                for most in [64, 64 * 1024] {
                    ask_http1(&proxy, (answer, is_compress), (method, version), most);
                }
            }
            for window in [1000, 1 << 20] {
                ask_http2(&proxy, (answer, is_compress), method, window);
            }
        }
    }
}

/// A transform behind another one gets more at once than it makes at once, and a body of nothing stays one.
#[test]
fn filters_of_bodies_stand_behind_each_other() {
    let _watchdog = watchdog("filters_of_bodies_stand_behind_each_other");
    let page: String = (0..40_000).map(|line| format!("{line}: http://internal/{line}\n")).collect();
    let coded = gzip(page.as_bytes());
    let upstream = Upstream::start(move |request: &Message| {
        let head = "Content-Type: text/html\r\nContent-Encoding: gzip\r\n";
        Some(match request.target() {
            "/empty" => {
                format!("HTTP/1.1 302 Found\r\nLocation: /a\r\n{head}Content-Length: 0\r\n\r\n").into_bytes()
            }
            _ => {
                let head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n", coded.len());
                [head.as_bytes(), &coded].concat()
            }
        })
    });
    let proxy = Proxy::start(&format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         routes:\n  - to: [ \"{}\" ]\n    filters:\n      - compress: {{}}\n      \
         - substitute: {{ rules: [ {{ text: internal, to: www.example.com }} ] }}\n      \
         - decompress: {{ response: true, always: true }}\n",
        upstream.url()
    ));
    let wanted = page.replace("internal", "www.example.com");
    let mut talk = Talk::open(proxy.web()).unwrap();
    for (accept, is_coded) in [("gzip", true), ("identity", false)] {
        talk.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {accept}\r\n\r\n")).unwrap();
        let head = talk.head().unwrap();
        let mut body = Vec::new();
        talk.body(&head).read_to_end(&mut body).unwrap();
        let mut text = String::new();
        match is_coded {
            true => drop(GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap()),
            false => text = String::from_utf8(body).unwrap(),
        }
        assert!(text == wanted, "{accept}: {} bytes of {}", text.len(), wanted.len());
    }
    // On the same connection: what has no body says so.
    for _ in 0..2 {
        talk.send("GET /empty HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
        let head = talk.head().unwrap();
        assert_eq!((head.status(), head.value("content-length")), (302, Some("0")), "{head:?}");
    }
}
