//! `files`: what real clients get of a directory, over both versions of HTTP, whatever stands in it.

mod nginx;

use std::fs::{self, File, FileTimes};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Directory, Proxy, Talk};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);
/// When all files of a site were written.
const TIME: Duration = Duration::from_secs(1_700_000_000);

/// A directory `site`, with a secret beside it.
fn site() -> Directory {
    let directory = Directory::new();
    for folder in ["site/docs", "site/empty", "site/.git"] {
        fs::create_dir_all(directory.path().join(folder)).unwrap();
    }
    directory.write("secret", "the secret");
    for (name, text) in [
        ("index.html", "<p>home"),
        ("ten.txt", "0123456789"),
        ("nothing.txt", ""),
        ("docs/index.html", "<p>docs"),
        ("docs/a b.txt", "with a space"),
        (".env", "the secret"),
        (".git/config", "the secret"),
    ] {
        write(&directory, name, text.as_bytes());
    }
    directory
}

fn write(directory: &Directory, name: &str, bytes: &[u8]) {
    let path = directory.path().join("site").join(name);
    fs::write(&path, bytes).unwrap();
    let times = FileTimes::new().set_modified(UNIX_EPOCH + TIME);
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

/// Bytes that tell where they stand.
fn pattern(length: u32) -> Vec<u8> {
    (0..length / 4).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// A proxy over the directory; `more` are further keys of the filter.
fn serving(directory: Directory, more: &str) -> Proxy {
    Proxy::start_in(
        directory,
        &format!(
            "access_log: {{ format: json, path: \"{{log}}\" }}\n\
             listeners: {{ web: {{ address: \"127.0.0.1:0\", h2c: true }} }}\n\
             routes: [ {{ to: [ \"http://127.0.0.1:1\" ], filters: [ {{ files: {{ root: site{more} }} }} ] }} ]\n\
             shutdown: {{ delay: 0s, grace: 5s }}\n"
        ),
    )
}

#[test]
fn files_of_any_size_come_whole_over_every_version() {
    let _watchdog = watchdog("files_of_any_size_come_whole_over_every_version");
    let directory = site();
    let sizes = [("small.bin", 1000), ("middle.bin", 70_000), ("large.bin", 9_000_000)];
    sizes.iter().for_each(|(name, length)| write(&directory, name, &pattern(*length)));
    let proxy = serving(directory, "");
    for (name, length) in sizes {
        let bytes = pattern(length);
        for version in ["1.0", "1.1"] {
            let request = format!("GET /{name} HTTP/{version}\r\nHost: a.test\r\n\r\n");
            let whole = fetch(proxy.web(), &request).unwrap();
            assert!(whole.status() == 200 && whole.body == bytes, "{name} {version}");
            let part = request.replace("\r\n\r\n", "\r\nRange: bytes=5-\r\n\r\n");
            let part = fetch(proxy.web(), &part).unwrap();
            assert!(part.status() == 206 && part.body == bytes[5..], "{name} {version}");
        }
        let Some(curl) = find_or_skip("curl") else { continue };
        let out = proxy.directory().join("out");
        for (range, expected) in [("0-", &bytes[..]), ("7-900", &bytes[7..901])] {
            let url = format!("http://{}/{name}", proxy.web());
            let mut command = Command::new(&curl);
            command.args(["-sS", "--fail", "--http2-prior-knowledge", "-r", range, &url, "-o"]).arg(&out);
            let finished = run(&mut command, LIMIT);
            assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{name} {range}");
            assert!(fs::read(&out).unwrap() == expected, "{name} {range}");
        }
    }
    // One connection takes several.
    let mut talk = Talk::open(proxy.web()).unwrap();
    for (name, length) in sizes.into_iter().rev() {
        talk.send(format!("GET /{name} HTTP/1.1\r\nHost: a.test\r\n\r\n")).unwrap();
        let head = talk.head().unwrap();
        let mut body = Vec::new();
        talk.body(&head).read_to_end(&mut body).unwrap();
        assert!(body == pattern(length), "{name}");
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_breaks_the_response() {
    let _watchdog = watchdog("a_file_that_shrinks_while_it_is_sent_breaks_the_response");
    let directory = site();
    let path = directory.path().join("site/large.bin");
    File::create(&path).unwrap().set_len(512 * 1024 * 1024).unwrap();
    let proxy = serving(directory, "");
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("GET /large.bin HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = talk.head().unwrap();
    assert_eq!(head.value("content-length"), Some("536870912"));
    let mut piece = vec![0; 100_000];
    let mut body = talk.body(&head);
    body.read_exact(&mut piece).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    let mut left = 0;
    let ended = loop {
        match body.read(&mut piece) {
            Ok(0) => break "an end",
            Ok(n) => left += n,
            Err(_) => break "an error",
        }
    };
    assert!(left < 500_000_000, "{left} bytes and {ended}");
    drop(talk);
    if let Some(curl) = find_or_skip("curl") {
        File::options().write(true).open(&path).unwrap().set_len(512 * 1024 * 1024).unwrap();
        let url = format!("http://{}/large.bin", proxy.web());
        let out = proxy.directory().join("out");
        let mut command = Command::new(curl);
        command.args(["-sS", "--http2-prior-knowledge", "--limit-rate", "1M", &url, "-o"]).arg(&out);
        let mut child = command.spawn().unwrap();
        while fs::metadata(&out).map_or(0, |metadata| metadata.len()) == 0 {
            std::thread::yield_now();
        }
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert!(!child.wait().unwrap().success(), "a stream that is not whole looks whole");
    }
    let log = proxy.stop().log;
    assert!(log.iter().all(|line| line["fault"] == "http_response_incomplete"), "{log:?}");
    assert!(!log.is_empty());
}

#[test]
fn nothing_outside_and_nothing_but_files_is_served() {
    let _watchdog = watchdog("nothing_outside_and_nothing_but_files_is_served");
    let directory = site();
    let inside = directory.path().join("site");
    let mkfifo = Command::new("mkfifo").arg(inside.join("fifo")).status().unwrap();
    assert!(mkfifo.success());
    let _socket = UnixListener::bind(inside.join("socket")).unwrap();
    for (to, name) in [
        ("../secret", "up.txt"),
        ("/etc/passwd", "absolute.txt"),
        ("/dev/zero", "zero"),
        ("/dev/stdin", "stdin"),
        ("..", "parent"),
        ("/", "everything"),
        ("loop", "loop"),
        ("ten.txt", "within.txt"),
    ] {
        symlink(to, inside.join(name)).unwrap();
    }
    let proxy = serving(directory, ", listing: true");
    for path in [
        "/fifo",
        "/socket",
        "/up.txt",
        "/absolute.txt",
        "/zero",
        "/stdin",
        "/parent/secret",
        "/everything/etc/passwd",
        "/loop",
        "/.env",
        "/.git/config",
        "/%2egit/config",
        "/../secret",
        "/../../../../../etc/passwd",
        "/docs/../../secret",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/docs/..%2f..%2fsecret",
        "/docs%2f..%2f..%2fsecret",
        "/..%5csecret",
        "/..\\secret",
        "/%252e%252e/secret",
        "/%c0%ae%c0%ae/secret",
        "/ten.txt%00",
        "/ten.txt%00.html",
        "/ten.txt/",
        "/ten.txt;a",
        "//etc/passwd",
        "/docs%2findex.html",
        "/proc/self/environ",
    ] {
        let answer = fetch(proxy.web(), &format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")).unwrap();
        assert!(matches!(answer.status(), 400 | 403 | 404), "{path}: {answer:?}");
        assert!(!answer.text().contains("the secret") && !answer.text().contains("root:"), "{path}");
    }
    assert_eq!(get(proxy.web(), "/within.txt").unwrap().text(), "0123456789");
    assert_eq!(get(proxy.web(), "/docs/a%20b.txt").unwrap().text(), "with a space");
    let page = get(proxy.web(), "/parent/").unwrap();
    assert_eq!(page.status(), 404, "{}", page.text());
    let page = get(proxy.web(), "/empty/").unwrap();
    assert_eq!((page.status(), page.value("content-type")), (200, Some("text/html; charset=utf-8")));
}

#[test]
fn roots_are_relative_to_their_file_and_a_link_to_one_may_turn() {
    let _watchdog = watchdog("roots_are_relative_to_their_file_and_a_link_to_one_may_turn");
    let directory = Directory::new();
    let at = |name: &str| directory.path().join(name);
    for (release, text) in [("one", "first"), ("two", "second")] {
        fs::create_dir_all(at("conf").join(release)).unwrap();
        fs::write(at("conf").join(release).join("index.html"), text).unwrap();
    }
    symlink("one", at("conf/current")).unwrap();
    let route = "routes: [ { to: [ \"http://127.0.0.1:1\" ], filters: [ { files: current } ] } ]\n";
    directory.write("conf/site.yaml", route);
    let main = "include: [ conf/site.yaml ]\nlisteners: { web: { address: \"127.0.0.1:0\" } }\n";
    let proxy = Proxy::start_in(directory, main);
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "first");
    let conf = proxy.directory().join("conf");
    symlink("two", conf.join("next")).unwrap();
    fs::rename(conf.join("next"), conf.join("current")).unwrap();
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "second");
}
