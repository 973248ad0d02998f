//! `redirect_https`: clients in the clear are sent to the listener with TLS, and nowhere else.

use std::process::Command;
use std::time::{Duration, Instant};

use thalweg_tests::message::{Kind, fetch};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Admin, Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::{wait_counted, watchdog};

/// A proxy with `plain`, which redirects, and `web`, which has TLS.
fn redirecting(upstream: &Upstream) -> Proxy {
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    let tls = format!("certificates: [ {certificate} ]");
    let plain = "plain: { address: \"127.0.0.1:0\", redirect_https: true }";
    let text = super::config(&[&upstream.url()], &tls, "");
    Proxy::start_in(directory, &text.replace("listeners: {", &format!("listeners: {{ {plain},")))
}

#[test]
fn a_client_in_the_clear_is_sent_to_the_port_with_tls() {
    let _watchdog = watchdog("a_client_in_the_clear_is_sent_to_the_port_with_tls");
    let upstream = Upstream::saying("hello");
    let proxy = redirecting(&upstream);
    let (plain, port) = (proxy.address("plain"), proxy.web().port());
    let mut client = Connection::open(plain).unwrap();
    for (target, place) in [("/a/../b?c=%20d", "/b?c=%20d"), ("http://other.test/x", "/x")] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: Example.test:8080\r\n\r\n"));
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
        let host = if target.starts_with('/') { "example.test" } else { "other.test" };
        let location = format!("https://{host}:{port}{place}");
        assert_eq!((answer.status(), answer.value("location")), (308, Some(&*location)));
        assert!(answer.value("proxy-status").is_none() && answer.value("x-request-id").is_some());
        assert!(answer.value("date").is_some());
        assert_eq!(answer.body, b"", "and the connection stays");
    }
    let body = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n";
    let answer = fetch(plain, body).unwrap();
    assert_eq!((answer.status(), answer.value("connection")), (308, Some("close")), "its body is not read");
    let head = fetch(plain, "HEAD / HTTP/1.0\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(head.status(), 308);
    for nowhere in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.test@evil.test\r\n\r\n",
    ] {
        let answer = fetch(plain, nowhere).unwrap();
        assert_eq!((answer.status(), answer.value("location")), (400, None), "{nowhere}");
    }
    wait_counted(&proxy, "thalweg_requests_total", "code=\"308\"", 4);
    let records = Admin::of(&proxy).get("/api/v1/requests?status=308");
    let records = records["requests"].as_array().unwrap();
    assert_eq!(records.len(), 4, "{records:#?}");
    assert!(
        records.iter().all(|record| record["route"].is_null() && record["fault"].is_null()),
        "{records:#?}"
    );
    let ended = proxy.stop();
    let redirected = ended.log.iter().filter(|record| record["status"] == 308);
    assert!(redirected.clone().all(|record| record["listener"] == "plain" && record["fault"].is_null()));
    assert_eq!(redirected.count(), 4);
}

#[test]
fn curl_follows_to_tls_with_its_method_and_body() {
    let _watchdog = watchdog("curl_follows_to_tls_with_its_method_and_body");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = Upstream::start(|request| {
        let text = format!("{} {}", request.start, String::from_utf8_lossy(&request.body));
        Some(thalweg_tests::upstream::ok(&text))
    });
    let proxy = redirecting(&upstream);
    let trusted = proxy.directory().join("web.pem").to_string_lossy().into_owned();
    let url = format!("http://localhost:{}/a?b", proxy.address("plain").port());
    let mut command = Command::new(curl);
    command.args(["-sS", "--fail", "-4", "-L", "--cacert", &trusted, "-d", "hello", &url]);
    let finished = run(&mut command, Duration::from_secs(30));
    assert_eq!((finished.code, &*finished.stdout), (0, "POST /a?b HTTP/1.1 hello"), "{}", finished.stderr);
}
