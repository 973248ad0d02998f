//! `files` and nginx over one directory, asked the same: where they do not agree, the table says what the standard
//! says. Not compared are the pages of errors, tags, and two fields: `Vary` (nginx sends it where a compressed form is
//! there, `files` wherever one could be: RFC 9110 §12.5.5) and `Accept-Ranges` (`files` has it on 206 and on compressed
//! forms too: RFC 9110 §14.3).

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use thalweg_tests::message::Kind;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Message, Process, Proxy, STEP};

use super::{pattern, serving, site, watchdog, write};

const ANY_LENGTH: &str =
    "RFC 9110 §14.1.2: a last position beyond the end, or a suffix longer than the whole, means the rest";
const NO_DATE: &str = "RFC 9110 §13.1.4: a recipient ignores the field if its value is no valid date";
const TAG_FIRST: &str =
    "RFC 9110 §13.1.3, §13.1.4, §13.2.2: beside a condition on tags the one on dates is ignored";
const TWO_SLASHES: &str =
    "RFC 3986 §3.3: a path does not begin with two slashes where it could be read as a host";
const ONE_PATH: &str =
    "RFC 3986 §3.3: an empty segment is a segment, and no file has that name (decision 0005)";
const HIDDEN: &str = "RFC 9110 §15.5.4: a server that does not want to tell of a resource answers 404";
const RANGES_OF_GET: &str = "RFC 9110 §14.2: ranges are defined for GET alone";
const WEIGHTS: &str =
    "RFC 9110 §12.5.3: `*` is any coding, `x-gzip` is gzip (§8.4.1.3), and weights order the choice";
const CODED_RANGES: &str =
    "RFC 9110 §14.1.1: a range is one of the representation that is chosen, coded or not";

/// Where they differ: the request, the status of nginx, that of `files`, and why.
const DIFFERENCES: &[(&str, u16, u16, &str)] = &[
    ("GET /ten.txt Range: bytes=0-18446744073709551615", 416, 206, ANY_LENGTH),
    ("GET /thousand.bin Range: bytes=0-18446744073709551615", 416, 206, ANY_LENGTH),
    ("GET /nothing.txt Range: bytes=0-18446744073709551615", 416, 200, ANY_LENGTH),
    ("GET /ten.txt Range: bytes=0-99999999999999999999999", 416, 206, ANY_LENGTH),
    ("GET /thousand.bin Range: bytes=0-99999999999999999999999", 416, 206, ANY_LENGTH),
    ("GET /nothing.txt Range: bytes=0-99999999999999999999999", 416, 200, ANY_LENGTH),
    ("GET /ten.txt Range: bytes=-99999999999999999999999", 416, 206, ANY_LENGTH),
    ("GET /thousand.bin Range: bytes=-99999999999999999999999", 416, 206, ANY_LENGTH),
    ("GET /nothing.txt Range: bytes=-99999999999999999999999", 416, 200, ANY_LENGTH),
    ("GET /ten.txt If-Unmodified-Since: now", 412, 200, NO_DATE),
    (
        "GET /ten.txt If-None-Match: {tag} If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
        200,
        304,
        TAG_FIRST,
    ),
    ("GET /ten.txt If-Match: {tag} If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT", 412, 200, TAG_FIRST),
    ("GET //ten.txt", 200, 400, TWO_SLASHES),
    ("GET /docs//index.html", 200, 404, ONE_PATH),
    ("GET /empty", 301, 404, HIDDEN),
    ("GET /empty/", 403, 404, HIDDEN),
    ("HEAD /ten.txt If-Unmodified-Since: now", 412, 200, NO_DATE),
    (
        "HEAD /ten.txt If-None-Match: {tag} If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
        200,
        304,
        TAG_FIRST,
    ),
    ("HEAD /ten.txt If-Match: {tag} If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT", 412, 200, TAG_FIRST),
    ("HEAD //ten.txt", 200, 400, TWO_SLASHES),
    ("HEAD /docs//index.html", 200, 404, ONE_PATH),
    ("HEAD /empty", 301, 404, HIDDEN),
    ("HEAD /empty/", 403, 404, HIDDEN),
    ("HEAD /ten.txt Range: bytes=99- If-Match: {tag}", 416, 200, RANGES_OF_GET),
    ("HEAD /ten.txt Range: bytes=0-1 If-Range: {tag}", 206, 200, RANGES_OF_GET),
    ("HEAD /ten.txt Range: bytes=0-1 If-Range: Tue, 14 Nov 2023 22:13:20 GMT", 206, 200, RANGES_OF_GET),
    ("HEAD /ten.txt Range: bytes=0-1", 206, 200, RANGES_OF_GET),
    ("HEAD /ten.txt Range: bytes=99-", 416, 200, RANGES_OF_GET),
    ("GET /page.html Accept-Encoding: *", 200, 200, WEIGHTS),
    ("GET /page.html Accept-Encoding: identity;q=1, gzip;q=0.5", 200, 200, WEIGHTS),
    ("GET /page.html Accept-Encoding: x-gzip", 200, 200, WEIGHTS),
    ("GET /page.html Accept-Encoding: gzip Range: bytes=0-1", 200, 206, CODED_RANGES),
    ("GET /page.html Accept-Encoding: gzip Range: bytes=99-", 200, 416, CODED_RANGES),
];

/// Values of `Range`.
const RANGES: &[&str] = &[
    "bytes=0-0",
    "bytes=0-4",
    "bytes=2-4",
    "bytes=9-9",
    "bytes=0-9",
    "bytes=0-10",
    "bytes=0-999",
    "bytes=5-",
    "bytes=0-",
    "bytes=9-",
    "bytes=10-",
    "bytes=11-",
    "bytes=10-10",
    "bytes=-1",
    "bytes=-5",
    "bytes=-10",
    "bytes=-11",
    "bytes=-0",
    "bytes=5-2",
    "bytes=0-1,3-4",
    "bytes=3-4,0-1",
    "bytes=0-4,2-6",
    "bytes=0-1,1-2,2-3",
    "bytes=0-9,0-9",
    "bytes=0-,0-",
    "bytes=0-0,-1",
    "bytes=-1,0-0",
    "bytes=0-1,99-",
    "bytes=99-,0-1",
    "bytes=0-1,5-2",
    "bytes=5-2,0-1",
    "bytes=99-,98-",
    "bytes=0-1, 3-4",
    "bytes= 0-1",
    "bytes=0 - 1",
    "bytes=0- 1",
    "bytes=0-1 ",
    "bytes=0-1 ,3-4",
    "bytes=",
    "bytes=-",
    "bytes=a",
    "bytes=0",
    "bytes=a-1",
    "bytes=0-a",
    "bytes=0-1-2",
    "bytes=--1",
    "bytes=+0-1",
    "bytes=0-1,",
    "bytes=,0-1",
    "bytes=0-1,,3-4",
    "bytes=0x0-1",
    "bytes=0-18446744073709551615",
    "bytes=0-99999999999999999999999",
    "bytes=99999999999999999999999-",
    "bytes=-99999999999999999999999",
    "BYTES=0-1",
    "Bytes=0-1",
    "bytes 0-1",
    "bytes:0-1",
    "byte=0-1",
    "items=0-1",
    "lines=0-1",
    "bytes",
    "none",
    "bytes=0-1;q=1",
    "bytes=\"0-1\"",
];

/// Conditions; `{tag}` is the tag that the server has given.
const CONDITIONS: &[&str] = &[
    "If-None-Match: {tag}",
    "If-None-Match: W/{tag}",
    "If-None-Match: *",
    "If-None-Match: \"x\"",
    "If-None-Match: \"x\", {tag}",
    "If-None-Match: {tag}, \"x\"",
    "If-None-Match: \"x\",{tag},\"y\"",
    "If-None-Match: x",
    "If-None-Match: \"",
    "If-None-Match: \"x",
    "If-Match: {tag}",
    "If-Match: *",
    "If-Match: \"x\"",
    "If-Match: \"x\", {tag}",
    "If-Match: W/{tag}",
    "If-Match: x",
    "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
    "If-Modified-Since: Tue, 14 Nov 2023 22:13:21 GMT",
    "If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
    "If-Modified-Since: Tuesday, 14-Nov-23 22:13:20 GMT",
    "If-Modified-Since: Tue Nov 14 22:13:20 2023",
    "If-Modified-Since: now",
    "If-Modified-Since: 0",
    "If-Modified-Since: Sat, 14 Nov 2099 22:13:20 GMT",
    "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
    "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
    "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:21 GMT",
    "If-Unmodified-Since: now",
    "If-None-Match: \"x\"\r\nIf-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
    "If-None-Match: {tag}\r\nIf-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
    "If-Match: {tag}\r\nIf-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
    "If-Match: {tag}\r\nIf-None-Match: {tag}",
    "Range: bytes=0-1\r\nIf-None-Match: {tag}",
    "Range: bytes=0-1\r\nIf-Match: \"x\"",
    "Range: bytes=99-\r\nIf-Match: {tag}",
    "Range: bytes=0-1\r\nIf-Range: {tag}",
    "Range: bytes=0-1\r\nIf-Range: \"x\"",
    "Range: bytes=0-1\r\nIf-Range: W/{tag}",
    "Range: bytes=0-1\r\nIf-Range: Tue, 14 Nov 2023 22:13:20 GMT",
    "Range: bytes=0-1\r\nIf-Range: Tue, 14 Nov 2023 22:13:21 GMT",
    "Range: bytes=0-1\r\nIf-Range: Tue, 14 Nov 2023 22:13:19 GMT",
    "Range: bytes=0-1\r\nIf-Range: x",
    "Range: bytes=99-\r\nIf-Range: \"x\"",
    "If-Range: {tag}",
    "If-Range: \"x\"",
];

const PATHS: &[&str] = &[
    "/",
    "/index.html",
    "/ten.txt",
    "/nothing.txt",
    "/docs",
    "/docs/",
    "/docs?a=1",
    "/docs/index.html",
    "/docs/a%20b.txt",
    "/none",
    "/none/",
    "/none/a",
    "/ten.txt/",
    "/ten.txt/a",
    "/ten.txt?a=1",
    "/ten%2Etxt",
    "/%74en.txt",
    "/TEN.txt",
    "/./ten.txt",
    "/docs/../ten.txt",
    "//ten.txt",
    "/docs//index.html",
    "/thousand.bin",
    "/page.html",
    "/empty",
    "/empty/",
    "/within.txt",
    "/ten.txt%20",
    "/a?b/../ten.txt",
];

const ENCODINGS: &[&str] = &[
    "gzip",
    "gzip, deflate, br",
    "GZIP",
    "br",
    "identity",
    "",
    "gzip;q=0",
    "gzip;q=0.5",
    "gzip;q=1.0",
    "gzip; q=0.000",
    "deflate, gzip;q=1.0, *;q=0.5",
    "*",
    "identity;q=1, gzip;q=0.5",
    "x-gzip",
    "gzipped",
];

const METHODS: &[&str] = &["POST", "PUT", "DELETE", "OPTIONS", "PATCH"];

/// Every request, as its first words and its fields.
fn requests() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut ask = |start: String, fields: String| all.push((start, fields));
    for range in RANGES {
        for path in ["/ten.txt", "/thousand.bin", "/nothing.txt"] {
            ask(format!("GET {path}"), format!("Range: {range}"));
        }
    }
    for condition in CONDITIONS {
        ["GET", "HEAD"].iter().for_each(|method| ask(format!("{method} /ten.txt"), (*condition).into()));
    }
    for path in PATHS {
        ["GET", "HEAD"].iter().for_each(|method| ask(format!("{method} {path}"), String::new()));
    }
    for encoding in ENCODINGS {
        ask("GET /page.html".into(), format!("Accept-Encoding: {encoding}"));
    }
    for method in METHODS {
        ask(format!("{method} /ten.txt"), "Content-Length: 0".into());
    }
    for range in ["bytes=0-1", "bytes=99-"] {
        ask("HEAD /ten.txt".into(), format!("Range: {range}"));
        ask("GET /page.html".into(), format!("Accept-Encoding: gzip\r\nRange: {range}"));
    }
    all
}

/// Asks on a connection of its own.
fn ask(mut stream: impl Read + Write, (start, fields): (&str, &str)) -> Message {
    let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
    let request = format!("{start} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let kind = if start.starts_with("HEAD") { Kind::ResponseToHead } else { Kind::Response };
    Message::parse(&bytes, kind, true)
        .unwrap()
        .unwrap_or_else(|| panic!("{start} {fields}: no whole answer"))
        .0
}

/// What both must say alike.
fn told(answer: &Message) -> String {
    let status = answer.status();
    let mut out = format!("{status}");
    let boundary =
        answer.value("content-type").and_then(|kind| kind.split_once("boundary=")).map(|(_, it)| it);
    let plain = |text: &str| boundary.map_or_else(|| text.to_owned(), |boundary| text.replace(boundary, "B"));
    for name in ["content-range", "last-modified", "content-encoding", "content-type"] {
        let is_own_page = !matches!(status, 200 | 206) && name == "content-type";
        if let Some(value) = answer.value(name).filter(|_| !is_own_page) {
            let _ = write!(out, " {name}={}", plain(value));
        }
    }
    if let Some(place) = answer.value("location") {
        let path = place.split_once("a.test").map_or(place, |(_, path)| path);
        let _ = write!(out, " location={path}");
    }
    if matches!(status, 200 | 206) {
        let _ = write!(out, " body={}", plain(&answer.body.escape_ascii().to_string()));
        if boundary.is_none() {
            let _ = write!(out, " length={:?}", answer.value("content-length"));
        }
    }
    out
}

fn start_nginx(proxy: &Proxy) -> Option<(Process, String)> {
    let nginx = find_or_skip("nginx")?;
    let root = proxy.directory().display().to_string();
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log stderr notice;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path {root}/b; proxy_temp_path {root}/p;\n\
           fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;\n\
           types {{ text/html html; text/plain txt; }} default_type application/octet-stream; charset utf-8;\n\
           charset_types text/plain; if_modified_since before; gzip_static on; gzip_vary on;\n\
           absolute_redirect off; disable_symlinks off;\n\
           server {{ listen unix:{root}/nginx.sock; root {root}/site; }} }}\n"
    );
    let path = proxy.directory().join("nginx.conf");
    std::fs::write(&path, config).unwrap();
    let server = Process::start(Command::new(nginx).args(["-e", "stderr", "-p", &root, "-c"]).arg(path));
    server.wait_line("the first event loop", STEP, |line| line.contains("OS: ").then_some(()));
    Some((server, format!("{root}/nginx.sock")))
}

#[test]
fn files_agrees_with_nginx_or_says_why_not() {
    let _watchdog = watchdog("files_agrees_with_nginx_or_says_why_not");
    let directory = site();
    write(&directory, "thousand.bin", &pattern(1000));
    write(&directory, "page.html", b"<p>a page");
    write(&directory, "page.html.gz", b"not really gzip");
    std::os::unix::fs::symlink("ten.txt", directory.path().join("site/within.txt")).unwrap();
    let proxy = serving(directory, ", precompressed: true");
    let Some((_server, socket)) = start_nginx(&proxy) else { return };
    let of_nginx = |request: (&str, &str)| ask(UnixStream::connect(&socket).unwrap(), request);
    let of_files = |request: (&str, &str)| ask(TcpStream::connect(proxy.web()).unwrap(), request);
    let tag = |answer: Message| answer.value("etag").unwrap().to_owned();
    let tags = (tag(of_nginx(("GET /ten.txt", ""))), tag(of_files(("GET /ten.txt", ""))));
    let requests = requests();
    assert!(requests.len() >= 200, "{}", requests.len());
    let (mut wrong, mut known) = (String::new(), 0);
    for (start, fields) in &requests {
        let theirs = of_nginx((start, &fields.replace("{tag}", &tags.0)));
        let ours = of_files((start, &fields.replace("{tag}", &tags.1)));
        let name = format!("{start} {}", fields.replace("\r\n", " "));
        let name = name.trim_end();
        let listed = DIFFERENCES.iter().find(|(request, ..)| *request == name);
        let statuses = (theirs.status(), ours.status());
        let (theirs, ours) = (told(&theirs), told(&ours));
        match listed {
            None if theirs == ours => {}
            None => drop(writeln!(wrong, "{name}\n  nginx {theirs:.300}\n  files {ours:.300}")),
            Some((_, nginx, files, _)) if theirs != ours && statuses == (*nginx, *files) => known += 1,
            Some(_) => drop(writeln!(wrong, "{name} is listed\n  nginx {theirs:.300}\n  files {ours:.300}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(known, DIFFERENCES.len(), "a difference is listed for a request that is not made");
}
