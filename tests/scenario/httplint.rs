//! What `httplint` says of responses that the proxy makes itself or changes: it warns of nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, SystemTime};

use thalweg_tests::program::run;
use thalweg_tests::python_tool::python_tool;
use thalweg_tests::{Directory, Proxy, STEP, Upstream, Watchdog};

const HTTPLINT: &str = "httplint==2026.10.4";
const TIME: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(240);

/// Requests, and the status that each is answered with.
const REQUESTS: &[(&str, &str, u16)] = &[
    ("file", "GET /files/page.html HTTP/1.1\r\n", 200),
    ("file_part", "GET /files/page.html HTTP/1.1\r\nRange: bytes=2-9\r\n", 206),
    ("file_missing", "GET /files/none HTTP/1.1\r\n", 404),
    ("part_out_of_range", "GET /files/page.html HTTP/1.1\r\nRange: bytes=9000-\r\n", 416),
    ("unreachable", "GET /gone HTTP/1.1\r\n", 503),
    ("redirect", "GET /moved HTTP/1.1\r\n", 301),
    ("denied", "GET /denied HTTP/1.1\r\n", 403),
    ("limited_first", "GET /limited HTTP/1.1\r\n", 200),
    ("limited", "GET /limited HTTP/1.1\r\n", 429),
    ("maintenance", "GET /closed HTTP/1.1\r\n", 503),
    (
        "preflight",
        "OPTIONS /cors HTTP/1.1\r\nOrigin: https://b.example\r\nAccess-Control-Request-Method: PUT\r\n",
        204,
    ),
    ("secured", "GET /secured HTTP/1.1\r\n", 200),
    ("miss", "GET /cached HTTP/1.1\r\n", 200),
    ("hit", "GET /cached HTTP/1.1\r\n", 200),
    ("hit_compressed", "GET /cached HTTP/1.1\r\nAccept-Encoding: gzip\r\n", 200),
    ("hit_part", "GET /cached HTTP/1.1\r\nRange: bytes=2-9\r\n", 206),
    (
        "hit_not_modified_compressed",
        "GET /cached HTTP/1.1\r\nAccept-Encoding: gzip\r\nIf-None-Match: W/\"v1\"\r\n",
        304,
    ),
    ("hit_not_modified", "GET /cached HTTP/1.1\r\nIf-None-Match: \"v1\"\r\n", 304),
    ("only_if_cached", "GET /cached?b HTTP/1.1\r\nCache-Control: only-if-cached\r\n", 504),
];

/// What it warns of, and why that is not for the proxy to mend.
const TOLERATED: &[&str] = &[
    // A redirect for good may be kept for as long as a cache likes (RFC 9110 §15.4.2).
    "redirect: This response allows caches to assign their own freshness lifetimes to it.",
    // It does not see the request, which is one.
    "preflight: CORS headers are only allowed in preflight responses.",
];

fn config(url: &str, root: &Path) -> String {
    format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         cache: {{ memory: 16MiB }}\n\
         services: {{ s: {{ endpoints: \"{url}\" }}, gone: {{ endpoints: \"http://127.0.0.1:1\" }} }}\n\
         routes:\n\
         - {{ match: {{ path: /files/* }}, to: s, filters: [ {{ strip_prefix: /files }}, \
              {{ files: {{ root: \"{}\", cache_control: no-cache }} }} ] }}\n\
         - {{ match: {{ path: /gone }}, to: gone }}\n\
         - {{ match: {{ path: /moved }}, to: s, filters: [ {{ redirect: {{ to: \"https://a.example/new\", status: 301 }} }} ] }}\n\
         - {{ match: {{ path: /denied }}, to: s, filters: [ {{ access: {{ deny: [ 127.0.0.0/8 ] }} }} ] }}\n\
         - {{ match: {{ path: /limited }}, to: s, filters: [ {{ rate_limit: {{ requests: 1, per: 1h }} }} ] }}\n\
         - {{ match: {{ path: /closed }}, to: s, filters: [ {{ maintenance: {{ on: true }} }} ] }}\n\
         - {{ match: {{ path: /cors }}, to: s, filters: [ {{ cors: {{ origins: [ \"https://b.example\" ], methods: [ PUT ] }} }} ] }}\n\
         - {{ match: {{ path: /secured }}, to: s, filters: [ security_headers: {{}} ] }}\n\
         - {{ match: {{ path: /cached }}, to: s, filters: [ {{ cache: {{}} }}, {{ compress: {{}} }} ] }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        root.display()
    )
}

/// The bytes of the answer, to the end of the connection.
fn ask(address: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    write!(stream, "{request}Host: a.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn httplint_warns_of_nothing() {
    let Some(mut lint) = python_tool(&[HTTPLINT]) else { return };
    let _watchdog = Watchdog::new("httplint_warns_of_nothing", LIMIT);
    let upstream = Upstream::start(|_| {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let fields = "Content-Type: application/json\r\nETag: \"v1\"\r\nCache-Control: max-age=600";
        let body = format!("{{ \"text\": \"{}\" }}", "word ".repeat(1000));
        let length = body.len();
        Some(
            format!("HTTP/1.1 200 OK\r\nDate: {date}\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{body}")
                .into_bytes(),
        )
    });
    let files = Directory::new();
    fs::write(files.path().join("page.html"), "<!doctype html><title>page</title>\n").unwrap();
    let proxy = Proxy::start(&config(&upstream.url(), files.path()));
    lint.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/lint.py"));
    let answers = Directory::new();
    for (name, request, status) in REQUESTS {
        let answer = ask(proxy.web(), request);
        let line = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(line.as_bytes()), "{name}: {}", String::from_utf8_lossy(&answer));
        let file = answers.path().join(name);
        fs::write(&file, answer).unwrap();
        lint.arg(file);
    }
    let done = run(&mut lint, TIME);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let mut warnings: Vec<_> = done.stdout.lines().collect();
    warnings.sort_unstable();
    // One that it does not warn of any more goes from the list.
    let mut tolerated = TOLERATED.to_vec();
    tolerated.sort_unstable();
    assert_eq!(warnings, tolerated);
}
