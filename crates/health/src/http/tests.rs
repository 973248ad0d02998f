//! Responses, byte by byte, over a pipe in memory. Time stands still but for timers, so that a timeout
//! takes none.

use super::*;
use proptest::prelude::*;
use regex::bytes::Regex;
use std::sync::Arc;
use thalweg_upstream::{PeerAddress, Statuses};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const TIMEOUT: Duration = Duration::from_secs(1);

fn check(method: &str, expect: Vec<std::ops::RangeInclusive<u16>>, body: Option<&str>) -> Target {
    let check = Check::Http {
        path: "/ping?from=proxy".into(),
        method: method.into(),
        headers: vec![("x-check".into(), "1".into())],
        expect: Statuses::new(expect),
        body: body.map(|pattern| Regex::new(pattern).unwrap()),
    };
    target(check)
}

fn target(check: Check) -> Target {
    Target {
        address: PeerAddress::Tcp(([127, 0, 0, 1], 80).into()),
        authority: "a.test:80".into(),
        tls: None,
        speaks_http2: false,
        policy: Arc::new(HealthPolicy { check, timeout: TIMEOUT, ..HealthPolicy::default() }),
    }
}

fn get(body: Option<&str>) -> Target {
    check("GET", vec![200..=399], body)
}

async fn in_time(target: &Target, stream: DuplexStream) -> Option<Outcome> {
    let deadline = Instant::now() + TIMEOUT;
    tokio::time::timeout_at(deadline, ask(target, deadline, stream)).await.ok()
}

/// Reads the request up to its end.
async fn request_on(stream: &mut DuplexStream) -> String {
    let mut sent = Vec::new();
    while !sent.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut sent).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(sent).unwrap()
}

/// What the check says, and the request, when the endpoint answers `response` and keeps the connection.
async fn kept(target: &Target, response: &[u8]) -> (Option<Outcome>, String) {
    let (ours, mut theirs) = tokio::io::duplex(256 * 1024);
    let endpoint = async {
        let request = request_on(&mut theirs).await;
        theirs.write_all(response).await.unwrap();
        request
    };
    tokio::join!(in_time(target, ours), endpoint)
}

/// What the check says when the endpoint answers `response` and then closes.
async fn answered(target: &Target, response: &[u8]) -> Outcome {
    let (ours, mut theirs) = tokio::io::duplex(256 * 1024);
    let endpoint = async {
        request_on(&mut theirs).await;
        theirs.write_all(response).await.unwrap();
        theirs.shutdown().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(in_time(target, ours), endpoint);
    outcome.expect("it ends in time")
}

/// The same when the endpoint goes on for ever with `again`; `None`: timed out.
async fn without_end(target: &Target, response: &[u8], again: &[u8]) -> Option<Outcome> {
    let (ours, mut theirs) = tokio::io::duplex(8 * 1024);
    let endpoint = async {
        request_on(&mut theirs).await;
        theirs.write_all(response).await.unwrap();
        while theirs.write_all(again).await.is_ok() {}
    };
    tokio::join!(in_time(target, ours), endpoint).0
}

fn failed(why: &str) -> Outcome {
    Outcome::Failed(why.into())
}

fn passed(why: &str) -> Outcome {
    Outcome::Passed(why.into())
}

#[tokio::test(start_paused = true)]
async fn the_request_says_who_asks_and_that_nothing_follows() {
    let (outcome, sent) = kept(&get(None), b"HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(outcome, Some(passed("status 204")));
    let (line, fields) = sent.split_once("\r\n").unwrap();
    assert_eq!(line, "GET /ping?from=proxy HTTP/1.1");
    let mut fields: Vec<_> = fields.trim_end().split("\r\n").collect();
    fields.sort_unstable();
    assert_eq!(fields, ["connection: close", "host: a.test:80", "user-agent: thalweg-health", "x-check: 1"]);
    assert!(sent.ends_with("\r\n\r\n"));
}

#[tokio::test(start_paused = true)]
async fn a_host_of_the_policy_replaces_that_of_the_endpoint() {
    let headers = vec![("Host".into(), "b.test".into()), ("user-agent".into(), "me".into())];
    let asked = target(Check::Http {
        path: "/".into(),
        method: "GET".into(),
        headers,
        expect: Statuses::new(vec![200..=200]),
        body: None,
    });
    let sent = request(&asked).unwrap();
    assert_eq!(sent.headers()[HOST], "b.test");
    assert_eq!(sent.headers()[USER_AGENT], "me");
    assert_eq!(sent.headers().get_all(HOST).iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_status_decides() {
    let with = |status: u16| format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok").into_bytes();
    assert_eq!(answered(&get(None), &with(200)).await, passed("status 200"));
    assert_eq!(answered(&get(None), &with(302)).await, passed("status 302"));
    assert_eq!(answered(&get(None), &with(404)).await, failed("status 404"));
    assert_eq!(answered(&get(None), &with(503)).await, failed("status 503"));
    let only = check("GET", vec![200..=200, 418..=418], None);
    assert_eq!(answered(&only, &with(302)).await, failed("status 302"));
    assert_eq!(answered(&only, &with(418)).await, passed("status 418"));
}

#[tokio::test(start_paused = true)]
async fn the_body_decides_where_there_is_a_pattern() {
    let with = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let wants = get(Some("^ready: (yes|soon)"));
    assert_eq!(answered(&wants, with("ready: yes").as_bytes()).await, passed("status 200, the body matches"));
    assert_eq!(answered(&wants, with("ready: no").as_bytes()).await, failed("the body does not match"));
    assert_eq!(answered(&wants, with("").as_bytes()).await, failed("the body does not match"));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nready: yes";
    assert!(matches!(answered(&wants, cut).await, Outcome::Failed(why) if why.contains("broke off")));
    let chunked =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nread\r\n6\r\ny: yes\r\n0\r\n\r\n";
    assert_eq!(answered(&wants, chunked).await, passed("status 200, the body matches"));
}

#[tokio::test(start_paused = true)]
async fn only_the_first_64_kib_are_looked_at() {
    let with = |before: usize| {
        let body = format!("{}needle", "x".repeat(before));
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let wants = get(Some("needle"));
    assert!(matches!(answered(&wants, &with(BODY - 6)).await, Outcome::Passed(_)));
    assert_eq!(answered(&wants, &with(BODY - 5)).await, failed("the body does not match"));
}

#[tokio::test(start_paused = true)]
async fn a_body_without_end_is_not_waited_for() {
    let head = b"HTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(without_end(&get(None), head, b"xxxxxxxx").await, Some(passed("status 200")));
    let outcome = without_end(&get(Some("xx")), head, b"xxxxxxxx").await;
    assert_eq!(outcome, Some(passed("status 200, the body matches")));
    let outcome = without_end(&get(Some("y")), head, b"xxxxxxxx").await;
    assert_eq!(outcome, Some(failed("the body does not match")));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_in_time_counts_although_its_body_does_not() {
    let (ours, mut theirs) = tokio::io::duplex(1024);
    let target = get(None);
    let late = async {
        request_on(&mut theirs).await;
        tokio::time::sleep(TIMEOUT - Duration::from_millis(5)).await;
        theirs.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(in_time(&target, ours), late);
    assert_eq!(outcome, Some(passed("status 200")));
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_too_large_and_a_slow_one_times_out() {
    let outcome = without_end(&get(None), b"HTTP/1.1 200 OK\r\nx: ", b"xxxxxxxx").await;
    assert_eq!(outcome, Some(failed(&format!("the response's head is larger than {HEAD} bytes"))));
    assert_eq!(kept(&get(None), b"HTTP/1.1 200 OK\r\n").await.0, None);
}

#[tokio::test(start_paused = true)]
async fn interim_responses_are_no_answer() {
    let both = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(answered(&get(None), both).await, passed("status 200"));
    let only = b"HTTP/1.1 103 Early Hints\r\n\r\n";
    assert_eq!(answered(&get(None), only).await, failed("closed before the end of the response"));
    assert_eq!(kept(&get(None), only).await.0, None, "nothing but an interim response, and silence");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_http_fails() {
    assert_eq!(answered(&get(None), b"SSH-2.0-OpenSSH_9.9\r\n").await, failed("the response is not HTTP/1"));
    assert_eq!(answered(&get(None), b"").await, failed("closed before the end of the response"));
    assert_eq!(answered(&get(None), b"HTTP/1.1 20").await, failed("closed before the end of the response"));
}

#[tokio::test(start_paused = true)]
async fn who_speaks_first_speaks_no_http() {
    let (ours, mut theirs) = tokio::io::duplex(1024);
    theirs.write_all(b"220 mail ready\r\n").await.unwrap();
    assert_eq!(in_time(&get(None), ours).await, Some(failed("spoke or closed before it was asked")));
}

#[tokio::test(start_paused = true)]
async fn head_has_no_body_whatever_its_length_says() {
    let head = check("HEAD", vec![200..=200], None);
    let begun = Instant::now();
    let (outcome, sent) = kept(&head, b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
    assert_eq!(outcome, Some(passed("status 200")));
    assert_eq!(begun.elapsed(), Duration::ZERO, "there is no body to wait for");
    assert!(sent.starts_with("HEAD /ping?from=proxy HTTP/1.1\r\n"), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_does_not_count_against_the_endpoint() {
    for (method, path, field) in [("G T", "/", "a"), ("GET", "/ b", "a"), ("GET", "/", "a b")] {
        let asked = target(Check::Http {
            path: path.into(),
            method: method.into(),
            headers: vec![(field.into(), "1".into())],
            expect: Statuses::new(vec![200..=200]),
            body: None,
        });
        let (ours, _theirs) = tokio::io::duplex(1024);
        assert!(matches!(in_time(&asked, ours).await, Some(Outcome::NotAsked(_))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Whatever an endpoint answers, the check ends, and passes only where a status line says so.
    #[test]
    fn any_bytes_are_judged(
        start in prop_oneof![Just(""), Just("HTTP/1.1 200 OK\r\n"), Just("HTTP/1.0 500\r\ncontent-length: 3\r\n")],
        rest in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), any::<u8>()], 0..200),
        pattern: bool,
    ) {
        let response = [start.as_bytes(), &rest].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let outcome = runtime.block_on(answered(&get(pattern.then_some("a")), &response));
        if matches!(outcome, Outcome::Passed(_)) {
            prop_assert!(response.starts_with(b"HTTP/1."), "{outcome:?}");
            prop_assert!(!response.starts_with(b"HTTP/1.0 500"), "{outcome:?}");
        }
    }
}

/// What the check says of an endpoint that speaks HTTP/2 alone, and the head of its request.
async fn through_http2(target: &Target, status: u16, body: &'static [u8]) -> (Option<Outcome>, Request<()>) {
    let (ours, theirs) = tokio::io::duplex(256 * 1024);
    let endpoint = async {
        let mut connection = ::h2::server::handshake(theirs).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        let head = Response::builder().status(status).body(()).unwrap();
        respond.send_response(head, body.is_empty()).unwrap().send_data(Bytes::from_static(body), true).ok();
        while connection.accept().await.is_some() {}
        request.map(drop)
    };
    tokio::join!(in_time(target, ours), endpoint)
}

#[tokio::test(start_paused = true)]
async fn who_speaks_http2_alone_is_asked_in_it() {
    let http2 = |target: Target| Target { speaks_http2: true, ..target };
    let (outcome, asked) = through_http2(&http2(get(None)), 204, b"").await;
    assert_eq!(outcome, Some(Outcome::Passed("status 204".into())));
    assert_eq!(
        (asked.method().as_str(), asked.uri().to_string().as_str()),
        ("GET", "http://a.test:80/ping?from=proxy")
    );
    assert_eq!(
        (asked.headers()["x-check"].as_bytes(), asked.headers().contains_key(HOST)),
        (&b"1"[..], false)
    );
    let (outcome, _) = through_http2(&http2(get(None)), 500, b"broken").await;
    assert_eq!(outcome, Some(Outcome::Failed("status 500".into())));
    let (outcome, _) = through_http2(&http2(get(Some("^we"))), 200, b"well").await;
    assert_eq!(outcome, Some(Outcome::Passed("status 200, the body matches".into())));
    let (outcome, _) = through_http2(&http2(get(Some("^we"))), 200, b"ill").await;
    assert_eq!(outcome, Some(Outcome::Failed("the body does not match".into())));
}

#[test]
fn a_port_of_its_own_is_asked_in_http_1() {
    let policy = HealthPolicy { port: Some(9), ..HealthPolicy::default() };
    let target = Target { speaks_http2: true, policy: Arc::new(policy), ..get(None) };
    assert!(!target.is_http2());
}
