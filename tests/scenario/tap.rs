//! Taps: exchanges as they end, filtered, without credentials, and at nobody's cost but the reader's.

use std::time::Instant;

use serde_json::Value;
use thalweg_tests::h2_frames::request;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Frames, Load, Process, Proxy, STEP, TapStream, Upstream};

use super::http2::h2c;
use super::{config, reload, watchdog};

/// An upstream that answers `/fail` with 503 and everything with fields of all kinds.
fn upstream() -> Upstream {
    Upstream::start(|request| {
        let status = if request.target().starts_with("/fail") { "503 Unavailable" } else { "200 OK" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: 2\r\nSet-Cookie: session=hidden\r\nX-Api-Key: hidden\r\n\
             X-Plain: shown\r\nLocation: /next?token=hidden&page=2\r\n\r\nok"
        );
        Some(head.into_bytes())
    })
}

/// With one worker it is certain when the tap is there.
fn start(upstream: &Upstream) -> Proxy {
    Proxy::start(&one_worker(upstream))
}

fn one_worker(upstream: &Upstream) -> String {
    let text = config(&[&upstream.url()], "").replace("workers: 2", "workers: 1");
    text.replace("{ to: s }", "{ name: shop, to: s }")
}

/// A tap that has been heard of by the worker: what comes after this is told.
fn watching(proxy: &Proxy, query: &str) -> TapStream {
    let tap = TapStream::open(proxy, query);
    // A worker looks into its mailbox before it answers a question that was put there later.
    Admin::of(proxy).get("/api/v1/requests?limit=1");
    tap
}

fn header<'a>(exchange: &'a Value, list: &str, name: &str) -> Option<&'a str> {
    let fields = exchange[list].as_array()?;
    let found = fields.iter().find(|field| field[0].as_str().unwrap().eq_ignore_ascii_case(name));
    found.and_then(|field| field[1].as_str())
}

#[test]
fn a_tap_tells_what_fits_its_filter_and_nothing_else() {
    let _watchdog = watchdog("a_tap_tells_what_fits_its_filter_and_nothing_else");
    let upstream = upstream();
    let proxy = start(&upstream);
    let mut failed = watching(&proxy, "where=status%3E%3D500%20and%20path~%2Ffail*");
    let mut other = watching(&proxy, "where=not%20(status%3D5xx%20or%20path%3D%22%2Fskip%22)&service=s");
    let mut nothing = watching(&proxy, "where=path%3D%2Fnone&for=1h");
    for path in ["/fail/1", "/a?key=hidden&b=1", "/skip", "/fail/2", "/b"] {
        get(proxy.web(), path).unwrap();
    }
    let paths =
        |tap: &mut TapStream| [tap.exchange(), tap.exchange()].map(|exchange| exchange["path"].clone());
    assert_eq!(paths(&mut failed), ["/fail/1", "/fail/2"]);
    let first = other.exchange();
    assert_eq!((&first["path"], &first["query"]), (&"/a".into(), &"key=[redacted]&b=1".into()), "{first:#}");
    assert_eq!(
        (&first["status"], &first["service"], &first["proto"]),
        (&200.into(), &"s".into(), &"HTTP/1.1".into())
    );
    assert_eq!(first["attempts"][0]["endpoint"], upstream.url(), "{first:#}");
    assert!(first["request_headers"].is_null() && first["response_headers"].is_null(), "{first:#}");
    assert_eq!(other.exchange()["path"], "/b");
    // The document of the record is the same.
    let id = first["id"].as_str().unwrap();
    let record = &Admin::of(&proxy).get(&format!("/api/v1/requests/{id}"))["requests"][0];
    for key in ["began", "duration_us", "attempts", "worker", "client_ip", "bytes_out", "route"] {
        assert_eq!(record[key], first[key], "{key}");
    }
    // The proxy ends all streams when it stops, and says so.
    let stopped = std::thread::spawn(move || nothing.event());
    proxy.stop();
    assert_eq!(stopped.join().unwrap(), Some(("end".into(), serde_json::json!({ "reason": "stopped" }))));
}

#[test]
fn headers_are_told_when_they_are_asked_for_and_credentials_never() {
    let _watchdog = watchdog("headers_are_told_when_they_are_asked_for_and_credentials_never");
    let upstream = upstream();
    let proxy = start(&upstream);
    let mut tap = watching(&proxy, "headers=true");
    let long = "p".repeat(300);
    let request = format!(
        "GET /a/{long}?jwt=hidden&c=3 HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic hidden\r\nCookie: a=hidden\r\n\
         X-Auth-Token: hidden\r\nX-Custom: Bearer hidden\r\nReferer: http://b.test/?password=hidden\r\n\
         Accept: text/plain\r\nConnection: close\r\n\r\n"
    );
    fetch(proxy.web(), &request).unwrap();
    let exchange = tap.exchange();
    assert!(!exchange.to_string().contains("hidden"), "{exchange:#}");
    assert_eq!(exchange["path"], format!("/a/{long}"));
    assert_eq!(header(&exchange, "request_headers", "accept"), Some("text/plain"));
    assert_eq!(header(&exchange, "request_headers", "host"), Some("a.test"));
    for name in ["authorization", "cookie", "x-auth-token", "x-custom"] {
        assert_eq!(header(&exchange, "request_headers", name), Some("[redacted]"), "{name}");
    }
    let referer = header(&exchange, "request_headers", "referer");
    assert_eq!(referer, Some("http://b.test/?password=[redacted]"));
    for (name, value) in [
        ("set-cookie", "[redacted]"),
        ("x-api-key", "[redacted]"),
        ("x-plain", "shown"),
        ("location", "/next?token=[redacted]&page=2"),
        ("connection", "close"),
    ] {
        assert_eq!(header(&exchange, "response_headers", name), Some(value), "{name}");
    }
    // What the proxy answers itself has fields too; a head is shown up to a bound.
    let wide = format!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Wide: {}\r\nConnection: close\r\n\r\n",
        "w".repeat(9000)
    );
    fetch(proxy.web(), &wide).unwrap();
    assert_eq!(tap.exchange()["headers_cut"], true);
    fetch(proxy.web(), "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let refused = tap.exchange();
    assert_eq!(refused["status"], 400, "{refused:#}");
    assert!(header(&refused, "response_headers", "date").is_some(), "{refused:#}");
}

#[test]
fn fields_in_which_a_filter_looks_for_keys_are_redacted_whatever_they_are_called() {
    let _watchdog = watchdog("fields_in_which_a_filter_looks_for_keys_are_redacted_whatever_they_are_called");
    let upstream = upstream();
    let text = one_worker(&upstream).replace(
        "routes: [ { name: shop, to: s } ]",
        "routes: [ { to: s, filters: [ { auth: { api_key: { header: X-Shop, keys: { k: { hash: \
         \"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\" } } } } } ] } ]",
    );
    let proxy = Proxy::start(&text);
    let mut tap = watching(&proxy, "headers=true");
    fetch(proxy.web(), "GET / HTTP/1.1\r\nHost: a.test\r\nX-Shop: test\r\nConnection: close\r\n\r\n")
        .unwrap();
    let exchange = tap.exchange();
    assert_eq!(header(&exchange, "request_headers", "x-shop"), Some("[redacted]"), "{exchange:#}");
}

#[test]
fn a_tap_ends_by_itself_and_there_are_only_so_many() {
    let _watchdog = watchdog("a_tap_ends_by_itself_and_there_are_only_so_many");
    let upstream = upstream();
    let proxy = start(&upstream);
    let mut short = watching(&proxy, "limit=2");
    (0..3).for_each(|_| drop(get(proxy.web(), "/").unwrap()));
    short.exchange();
    short.exchange();
    assert_eq!(short.event(), Some(("end".into(), serde_json::json!({ "reason": "limit" }))));
    assert_eq!(short.event(), None);
    let admin = Admin::of(&proxy);
    let mut open: Vec<_> = (0..8).map(|_| watching(&proxy, "for=1h")).collect();
    let refused = admin.call("GET", "/api/v1/tap", "");
    assert_eq!(refused.status(), 409, "{}", refused.text());
    // A place is free as soon as a reader has gone.
    open.pop();
    let end = Instant::now() + STEP;
    while admin.call("GET", "/api/v1/tap?for=1ms", "").status() == 409 {
        assert!(Instant::now() < end, "the place is not given back");
        std::thread::yield_now();
    }
}

#[test]
fn a_reader_that_stalls_loses_exchanges_is_told_so_and_slows_nobody() {
    let _watchdog = watchdog("a_reader_that_stalls_loses_exchanges_is_told_so_and_slows_nobody");
    let upstream = Upstream::saying("ok");
    let proxy = start(&upstream);
    let mut tap = watching(&proxy, "headers=true");
    let load = Load::start(proxy.web(), 4);
    // Nobody reads: what fits into the queue and the sockets waits, the rest is dropped.
    (0..5).for_each(|_| load.wait_for(1_000));
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{failures:?}");
    let (mut told, mut dropped) = (0, 0);
    while told + dropped < answered {
        match tap.event() {
            Some((kind, data)) if kind == "dropped" => dropped += data["count"].as_u64().unwrap(),
            Some((kind, _)) if kind == "exchange" => told += 1,
            other => panic!("after {told} and {dropped} of {answered}: {other:?}"),
        }
    }
    assert_eq!(told + dropped, answered);
    assert!(dropped > 0, "{told} of {answered}");
    let metrics = Admin::of(&proxy).call("GET", "/metrics", "").text();
    let hits = format!("thalweg_limit_hits_total{{limit=\"tap\"}} {dropped}\n");
    assert!(metrics.contains(&hits), "{hits}");
}

#[test]
fn a_sample_has_its_share_and_the_same_for_every_reader() {
    let _watchdog = watchdog("a_sample_has_its_share_and_the_same_for_every_reader");
    let upstream = Upstream::saying("ok");
    let proxy = start(&upstream);
    let mut taps = [watching(&proxy, "sample=10%25&limit=100"), watching(&proxy, "sample=10%25&limit=100")];
    let mut all = watching(&proxy, "limit=1");
    let load = Load::start(proxy.web(), 2);
    all.exchange();
    let seen = taps.each_mut().map(|tap| {
        let ids = (0..100).map(|_| tap.exchange()["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    });
    let (answered, _) = load.stop();
    assert_eq!(seen[0], seen[1]);
    assert!(answered >= 500, "100 of {answered} are more than a tenth");
}

#[test]
fn the_verb_prints_a_line_for_each_exchange_and_points_at_mistakes() {
    let _watchdog = watchdog("the_verb_prints_a_line_for_each_exchange_and_points_at_mistakes");
    let upstream = upstream();
    let proxy = start(&upstream);
    let tap = |arguments: &[&str]| {
        let process = Process::start(command(proxy.directory()).arg("tap").args(arguments));
        process.wait_line("the stream", STEP, |line| line.ends_with("watching").then_some(()));
        Admin::of(&proxy).get("/api/v1/requests?limit=1");
        process
    };
    let (lines, json) = (
        tap(&["--where", "status>=500", "--limit", "1", "--headers"]),
        tap(&["--route", "shop", "--limit", "2", "--json"]),
    );
    get(proxy.web(), "/a").unwrap();
    get(proxy.web(), "/fail?token=hidden").unwrap();
    assert_eq!(lines.wait_exit(STEP).code(), Some(0));
    let text = lines.stdout();
    assert!(
        text.contains(" 503 ")
            && text.contains("/fail?token=[redacted]")
            && text.contains("  shop > s  http://"),
        "{text}"
    );
    assert!(text.contains("\n  > Host: ") && text.contains("\n  < X-Plain: shown\n"), "{text}");
    assert!(!text.contains("hidden"), "{text}");
    assert_eq!(json.wait_exit(STEP).code(), Some(0), "{}", json.stderr());
    let documents: Vec<Value> =
        json.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((documents.len(), &documents[1]["path"]), (2, &"/fail".into()));
    let wrong = run(command(proxy.directory()).args(["tap", "--where", "status>=500 or latncy>1s"]), STEP);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains("  status>=500 or latncy>1s\n                 ^^^^^^\n"),
        "{}",
        wrong.stderr
    );
    assert!(wrong.stderr.contains("help: fields are status, latency"), "{}", wrong.stderr);
    let misspelt = run(command(proxy.directory()).args(["tap", "--route", "shpo"]), STEP);
    assert_eq!(misspelt.code, 1);
    assert!(misspelt.stderr.contains("there is no route `shpo`"), "{}", misspelt.stderr);
    let timed = run(command(proxy.directory()).args(["tap", "--for", "10ms"]), STEP);
    assert_eq!((timed.code, timed.stdout.as_str()), (0, ""));
    assert!(timed.stderr.contains("ended after 10ms"), "{}", timed.stderr);
    assert!(timed.stderr.len() < 200, "{}", timed.stderr);
}

#[test]
fn exchanges_of_http2_are_told_with_the_fields_that_their_client_had() {
    let _watchdog = watchdog("exchanges_of_http2_are_told_with_the_fields_that_their_client_had");
    let upstream = upstream();
    let proxy = Proxy::start(&h2c(&one_worker(&upstream)));
    let mut tap = watching(&proxy, "headers=true&where=proto~HTTP%2F2");
    get(proxy.web(), "/first").unwrap();
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(request(1, "/second"));
    assert_eq!(client.answer(1), Ok(200));
    let exchange = tap.exchange();
    assert_eq!(
        (&exchange["path"], &exchange["proto"]),
        (&"/second".into(), &"HTTP/2.0".into()),
        "{exchange:#}"
    );
    assert!(header(&exchange, "request_headers", "host").is_some(), "{exchange:#}");
    assert_eq!(header(&exchange, "response_headers", "x-plain"), Some("shown"));
    for name in ["connection", "keep-alive", "transfer-encoding"] {
        assert_eq!(header(&exchange, "response_headers", name), None, "{name}");
    }
}

#[test]
fn a_tap_goes_on_when_another_configuration_takes_over() {
    let _watchdog = watchdog("a_tap_goes_on_when_another_configuration_takes_over");
    let upstream = upstream();
    let text = one_worker(&upstream);
    let proxy = Proxy::start(&text);
    let mut tap = watching(&proxy, "service=s");
    get(proxy.web(), "/before").unwrap();
    reload(&proxy, &text.replace("name: shop", "name: store"), 1);
    get(proxy.web(), "/after").unwrap();
    let told = [tap.exchange(), tap.exchange()]
        .map(|exchange| (exchange["path"].clone(), exchange["route"].clone()));
    assert_eq!(told, [("/before".into(), "shop".into()), ("/after".into(), Value::from("store"))]);
}
