//! Recording exchanges and sending them again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use thalweg_tests::message::fetch;
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Message, Process, Proxy, STEP, Upstream};

use super::{config, watchdog};

/// What an upstream was asked.
type Asked = Arc<Mutex<Vec<Message>>>;

/// An upstream that answers with this `Content-Type`, and `/gone` with 404.
fn upstream(content_type: &'static str) -> (Upstream, Asked) {
    let asked = Asked::default();
    let seen = asked.clone();
    let upstream = Upstream::start(move |request| {
        seen.lock().unwrap().push(request.clone());
        let status = if request.target() == "/gone" { "404 Not Found" } else { "200 OK" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nSet-Cookie: s=hidden\r\nContent-Length: 2\r\n\r\nok"
        );
        Some(head.into_bytes())
    });
    (upstream, asked)
}

struct Recording {
    process: Process,
    file: PathBuf,
}

/// A recording that has begun.
fn recording(proxy: &Proxy, arguments: &[&str]) -> Recording {
    let file = proxy.directory().join("traffic.har");
    let process = Process::start(command(proxy.directory()).arg("record").arg(&file).args(arguments));
    process.wait_line("the stream", STEP, |line| line.ends_with("watching").then_some(()));
    Admin::of(proxy).get("/api/v1/requests?limit=1");
    Recording { process, file }
}

fn entries(file: &PathBuf) -> Vec<Value> {
    let archive: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(
        (&archive["log"]["version"], &archive["log"]["creator"]["name"]),
        (&"1.2".into(), &"thalweg".into())
    );
    archive["log"]["entries"].as_array().unwrap().clone()
}

fn ask(proxy: &Proxy, line: &str, more: &str) {
    let request = format!("{line} HTTP/1.1\r\nHost: shop.test\r\n{more}Connection: close\r\n\r\n");
    fetch(proxy.web(), &request).unwrap();
}

fn replay(proxy: &Proxy, file: &PathBuf, to: &Upstream, arguments: &[&str]) -> Finished {
    run(command(proxy.directory()).arg("replay").arg(file).args(["--to", &to.url()]).args(arguments), STEP)
}

#[test]
fn a_recording_is_an_archive_without_credentials_that_only_its_owner_reads() {
    let _watchdog = watchdog("a_recording_is_an_archive_without_credentials_that_only_its_owner_reads");
    let (upstream, _) = upstream("text/plain");
    let proxy = Proxy::start(&config(&[&upstream.url()], "").replace("{ to: s }", "{ name: shop, to: s }"));
    let first = recording(&proxy, &["--limit", "2", "--where", "path!=/skip"]);
    ask(&proxy, "GET /skip", "");
    ask(
        &proxy,
        "GET /a?b=1&token=hidden",
        "Authorization: Bearer hidden\r\nCookie: c=hidden\r\nX-Kept: kept\r\n",
    );
    ask(&proxy, "GET /gone", "");
    assert_eq!(first.process.wait_exit(STEP).code(), Some(0), "{}", first.process.stderr());
    assert!(first.process.stderr().contains("2 exchanges written to"), "{}", first.process.stderr());
    let text = fs::read_to_string(&first.file).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    let found = entries(&first.file);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["request"]["url"], "http://shop.test/a?b=1&token=[redacted]");
    assert_eq!(
        (&found[0]["_thalweg"]["route"], &found[1]["response"]["status"]),
        (&"shop".into(), &404.into())
    );
    let headers = found[0]["request"]["headers"].as_array().unwrap();
    assert!(
        headers.iter().any(|field| field["name"] == "X-Kept" && field["value"] == "kept"),
        "{headers:#?}"
    );
    assert_eq!(fs::metadata(&first.file).unwrap().permissions().mode() & 0o777, 0o600);
    // What is there is not written over by mistake; what a signal ends is written all the same.
    let again = run(command(proxy.directory()).arg("record").arg(&first.file), STEP);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    let second = recording(&proxy, &["--force"]);
    second.process.signal(Signal::INT);
    assert_eq!(second.process.wait_exit(STEP).code(), Some(0), "{}", second.process.stderr());
    assert!(entries(&second.file).is_empty() && !second.file.with_extension("har.part").exists());
}

#[test]
fn a_replay_tells_what_differs_and_sends_only_what_it_may() {
    let _watchdog = watchdog("a_replay_tells_what_differs_and_sends_only_what_it_may");
    let (first, _) = upstream("text/plain");
    let proxy = Proxy::start(&config(&[&first.url()], ""));
    let recorded = recording(&proxy, &["--limit", "5"]);
    ask(&proxy, "GET /a?b=1", "Authorization: Bearer hidden\r\nX-Kept: kept\r\n");
    ask(&proxy, "GET /gone", "");
    ask(&proxy, "GET /secret?token=hidden", "");
    ask(&proxy, "DELETE /d", "");
    fetch(proxy.web(), "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        .unwrap();
    assert_eq!(recorded.process.wait_exit(STEP).code(), Some(0), "{}", recorded.process.stderr());
    let file = &recorded.file;

    // The same again, and its Host; what the recording lacks is added.
    let (same, asked) = upstream("text/plain");
    let equal = replay(&proxy, file, &same, &["--header", "Authorization: Bearer mine"]);
    assert_eq!(equal.code, 0, "{}{}", equal.stdout, equal.stderr);
    assert!(equal.stdout.contains("2 replayed, 0 differ, 3 not sent"), "{}", equal.stdout);
    assert!(equal.stdout.contains("1: its query held a credential"), "{}", equal.stdout);
    assert!(equal.stdout.contains("2: its method may change something"), "{}", equal.stdout);
    let seen = asked.lock().unwrap().clone();
    assert_eq!(
        seen.iter().map(|request| request.start.as_str()).collect::<Vec<_>>(),
        ["GET /a?b=1 HTTP/1.1", "GET /gone HTTP/1.1"]
    );
    let values = ["host", "authorization", "x-kept"].map(|name| seen[0].value(name));
    assert_eq!(values, [Some("shop.test"), Some("Bearer mine"), Some("kept")]);

    // Another type: both differ in it, and nothing else is compared.
    let (other, asked) = upstream("text/html");
    let differing = replay(&proxy, file, &other, &["--all-methods", "--concurrency", "4", "--rate", "1000"]);
    assert_eq!(differing.code, 1);
    assert!(
        differing.stdout.starts_with("GET http://shop.test/a?b=1\n  content-type: text/plain -> text/html\n"),
        "{}",
        differing.stdout
    );
    assert!(differing.stdout.contains("3 replayed, 3 differ, 2 not sent"), "{}", differing.stdout);
    assert!(differing.stdout.contains("1: its body is not recorded"), "{}", differing.stdout);
    assert!(asked.lock().unwrap().iter().any(|request| request.start.starts_with("DELETE /d ")));
    assert_eq!(replay(&proxy, file, &other, &["--compare", "etag"]).code, 0);

    // Nobody there; data for programs.
    let url = other.url();
    drop(other);
    let gone = run(command(proxy.directory()).arg("replay").arg(file).args(["--to", &url, "--json"]), STEP);
    assert_eq!(gone.code, 1);
    let told: Value = serde_json::from_str(&gone.stdout).unwrap();
    assert_eq!((&told["replayed"], &told["differing"]), (&2.into(), &2.into()), "{told:#}");
    assert_eq!(told["exchanges"][0]["differences"][0]["what"], "answer");
}

#[test]
fn what_is_no_archive_or_no_server_is_refused() {
    let _watchdog = watchdog("what_is_no_archive_or_no_server_is_refused");
    let (upstream, _) = upstream("text/plain");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let file = proxy.directory().join("no.har");
    for (text, why) in [("{}", "no `log.entries`"), ("GET /", "not an HTTP archive")] {
        fs::write(&file, text).unwrap();
        let refused = replay(&proxy, &file, &upstream, &[]);
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    fs::write(&file, "{\"log\":{\"entries\":[null]}}").unwrap();
    let nothing = replay(&proxy, &file, &upstream, &[]);
    assert_eq!(
        (nothing.code, nothing.stdout.contains("0 replayed, 0 differ, 1 not sent")),
        (1, true),
        "{}",
        nothing.stdout
    );
    let place = run(command(proxy.directory()).arg("replay").arg(&file).args(["--to", "http://a/b"]), STEP);
    assert_eq!(place.code, 2, "{}", place.stderr);
}
