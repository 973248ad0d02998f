//! Decision records: what was decided about a request can be asked for by its id, and for as long as is promised.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::admin::json;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Load, Proxy, STEP, Upstream};

use super::scripted::{GET, House, OK, response};
use super::{config, reload, watchdog};

/// An upstream whose answers say which id the request had.
fn echo() -> Upstream {
    Upstream::start(|request| Some(ok(request.value("x-request-id").unwrap_or("none"))))
}

/// The records of an id.
fn records(admin: &Admin, id: &str) -> Vec<Value> {
    admin.get(&format!("/api/v1/requests/{id}"))["requests"].as_array().unwrap().clone()
}

/// The only record of an id.
fn record(admin: &Admin, id: &str) -> Value {
    let mut records = records(admin, id);
    assert_eq!(records.len(), 1, "{records:#?}");
    records.remove(0)
}

/// Those that a query finds.
fn listed(admin: &Admin, query: &str) -> Vec<Value> {
    admin.get(&format!("/api/v1/requests?{query}"))["requests"].as_array().unwrap().clone()
}

/// Why there is no record.
fn missing(admin: &Admin, id: &str) -> Value {
    let answer = admin.call("GET", &format!("/api/v1/requests/{id}"), "");
    assert_eq!(answer.status(), 404, "{}", answer.text());
    json(&answer)
}

#[test]
fn a_request_that_was_sent_again_shows_both_attempts_in_their_order() {
    let _watchdog = watchdog("a_request_that_was_sent_again_shows_both_attempts_in_their_order");
    let house = House::start(2, "retry: { statuses: [ 503 ], budget: 100% }", "");
    let mut client = house.client("GET /a?token=t&b=1 HTTP/1.1\r\nHost: a.test:8080\r\n\r\n");
    let mut first = house.asked();
    first.talk.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut second = house.asked();
    second.talk.send(OK).unwrap();
    assert_eq!(response(&mut client).0.status(), 200);
    let id = second.head.value("x-request-id").unwrap();
    let admin = Admin::of(&house.proxy);
    let record = record(&admin, id);
    let told = ["method", "host", "path", "query", "service", "kept", "listener"].map(|key| &record[key]);
    assert_eq!(
        told,
        ["GET", "a.test:8080", "/a", "token=[redacted]&b=1", "s", "failed", "web"],
        "{record:#}"
    );
    assert_eq!((&record["status"], &record["open"]), (&200.into(), &false.into()));
    let attempts = record["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{record:#}");
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    assert_eq!([&attempts[0]["endpoint"], &attempts[1]["endpoint"]], [&*url(first.port), &*url(second.port)]);
    assert_eq!([&attempts[0]["answered"], &attempts[1]["answered"]], [false, true]);
    assert_eq!(
        (&attempts[0]["fault"], &attempts[1]["fault"]),
        (&"http_response_status".into(), &Value::Null)
    );
    let us = |value: &Value, key: &str| value[key].as_u64().unwrap();
    let times = [
        us(&attempts[0], "began_us"),
        us(&attempts[0], "failed_us"),
        us(&attempts[1], "began_us"),
        us(&record, "duration_us"),
    ];
    assert!(times.is_sorted(), "{times:?}");
    let told = run(command(house.proxy.directory()).args(["explain", "--id", id]), STEP);
    assert_eq!(told.code, 0, "{}", told.stderr);
    for (number, port, end) in [(1, first.port, "failed after "), (2, second.port, "answered")] {
        let attempt = told.stdout.split(&format!("attempt {number}: ")).nth(1).unwrap();
        let lines: Vec<_> = attempt.lines().map(str::trim).take(3).collect();
        assert_eq!(lines[0], url(port), "{}", told.stdout);
        assert!(lines[2].starts_with(end), "{}", told.stdout);
    }
}

#[test]
fn a_slow_request_outlives_ten_thousand_fast_ones() {
    let _watchdog = watchdog("a_slow_request_outlives_ten_thousand_fast_ones");
    let slow: Arc<Mutex<Option<String>>> = Arc::default();
    let seen = slow.clone();
    let upstream = Upstream::start(move |request| {
        if request.target() == "/slow" {
            *seen.lock().unwrap() = request.value("x-request-id").map(str::to_owned);
            // What makes it slow.
            thread::sleep(Duration::from_millis(1100));
        }
        Some(ok(request.value("x-request-id").unwrap()))
    });
    // Each worker remembers as many: with one it is certain who is forgotten.
    let proxy = Proxy::start(&config(&[&upstream.url()], "").replace("workers: 2", "workers: 1"));
    let admin = Admin::of(&proxy);
    assert_eq!(get(proxy.web(), "/slow").unwrap().status(), 200);
    let fast: Vec<_> = (0..4).map(|_| get(proxy.web(), "/fast").unwrap().text()).collect();
    assert!(fast.iter().all(|id| record(&admin, id)["path"] == "/fast"));
    assert!(admin.get("/api/v1/requests")["complete_since"].is_null());
    let load = Load::start(proxy.web(), 8);
    load.wait_for(10_000);
    let (answered, failures) = load.stop();
    assert!(answered >= 10_000 && failures.is_empty(), "{answered}, {failures:?}");
    let id = slow.lock().unwrap().clone().unwrap();
    let record = record(&admin, &id);
    assert_eq!((&record["path"], &record["kept"]), (&"/slow".into(), &"slow".into()));
    assert!(record["duration_us"].as_u64().unwrap() >= 1_000_000, "{record:#}");
    // What was not slow is gone, and it is said since when nothing is.
    let since = admin.get("/api/v1/requests")["complete_since"].as_str().unwrap().to_owned();
    for id in fast {
        let problem = missing(&admin, &id);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&id) && detail.contains(&since), "{problem:#}");
    }
}

#[test]
fn switched_off_it_says_so_and_a_reload_switches_it() {
    let _watchdog = watchdog("switched_off_it_says_so_and_a_reload_switches_it");
    let upstream = echo();
    let text = |keep: &str| config(&[&upstream.url()], keep);
    let proxy = Proxy::start(&text("request_history: { keep: 0 }"));
    let admin = Admin::of(&proxy);
    let ask = || get(proxy.web(), "/").unwrap().text();
    let problem = missing(&admin, &ask());
    assert!(problem["detail"].as_str().unwrap().contains("`request_history.keep` is 0"), "{problem:#}");
    assert!(problem["help"].as_str().unwrap().contains("request_history:"), "{problem:#}");
    assert_eq!(admin.get("/api/v1/requests")["requests"].as_array().unwrap().len(), 0);
    reload(&proxy, &text("request_history: { keep: 2 }"), 1);
    let kept = ask();
    assert_eq!(record(&admin, &kept)["path"], "/");
    reload(&proxy, &text("request_history: { keep: 0 }"), 2);
    missing(&admin, &kept);
    missing(&admin, &ask());
}

#[test]
fn whoever_has_an_answer_finds_its_record_while_many_others_read_and_write() {
    let _watchdog = watchdog("whoever_has_an_answer_finds_its_record_while_many_others_read_and_write");
    let upstream = echo();
    let proxy = Proxy::start(&config(&[&upstream.url()], "request_history: { keep: 10000 }"));
    let (admin, web, over) = (Admin::of(&proxy), proxy.web(), AtomicBool::new(false));
    let known: HashSet<String> = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let listed = listed(&admin, "limit=1000");
                    let ids: HashSet<_> =
                        listed.iter().map(|record| record["id"].as_str().unwrap()).collect();
                    assert_eq!(ids.len(), listed.len(), "a record is there twice");
                }
            });
        }
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let admin = &admin;
                scope.spawn(move || {
                    let ask = |number: u32| {
                        let path = format!("/{client}/{number}");
                        let id = get(web, &path).unwrap().text();
                        assert_eq!(record(admin, &id)["path"], path);
                        id
                    };
                    (0..200).map(ask).collect::<Vec<_>>()
                })
            })
            .collect();
        let known = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        over.store(true, Ordering::Release);
        known
    });
    let listed = listed(&admin, "limit=1000");
    let listed: HashSet<_> = listed.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, known);
}

#[test]
fn what_could_not_be_served_is_found_by_the_id_in_its_answer() {
    let _watchdog = watchdog("what_could_not_be_served_is_found_by_the_id_in_its_answer");
    let text = config(&["http://127.0.0.1:1"], "").replace(
        "routes: [ { to: s } ]",
        "routes: [ { name: only, match: { host: a.test, path: /a/* }, filters: [ { strip_prefix: /a } ], to: s } ]",
    );
    let proxy = Proxy::start(&text);
    let admin = Admin::of(&proxy);
    let ask = |request: &str| {
        let answer = fetch(proxy.web(), request).unwrap();
        record(&admin, answer.value("x-request-id").unwrap_or_else(|| panic!("no id: {answer:?}")))
    };
    let refused = ask("GET /a/b HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    assert_eq!((&refused["fault"], &refused["kept"]), (&"destination_unavailable".into(), &"failed".into()));
    // What moves a request brings `map_back` along.
    let filters = [("strip_prefix", true), ("map_back", false)];
    let filters = filters.map(|(name, acted)| serde_json::json!({ "name": name, "acted": acted }));
    assert_eq!(refused["filters"], serde_json::json!(filters));
    let attempt = &refused["attempts"][0];
    assert_eq!((&attempt["fault"], &attempt["answered"]), (&"connection_refused".into(), &false.into()));
    let nowhere = ask("GET /b HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    assert_eq!((&nowhere["fault"], &nowhere["kept"]), (&"destination_not_found".into(), &"refused".into()));
    assert!(nowhere["route"].is_null() && nowhere["attempts"].as_array().unwrap().is_empty(), "{nowhere:#}");
    let twice = ask("GET /a/ HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n");
    assert_eq!((&twice["status"], &twice["kept"]), (&400.into(), &"refused".into()));
    let garbage = ask("\0\0\0\r\n\r\n");
    assert_eq!((&garbage["status"], &garbage["fault"]), (&400.into(), &"http_request_error".into()));
    // A long path is kept whole where it went wrong, up to 512 bytes with what stands before it.
    let long = format!("/b/{}", "c".repeat(400));
    let ask_for =
        |path: &str| ask(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"));
    assert_eq!(ask_for(&long)["path"], long);
    let longer = format!("{long}{long}");
    assert_eq!(ask_for(&longer)["path"], longer[..512 - "GETa.test".len()]);
}

#[test]
fn the_list_is_narrowed_by_what_is_asked_for() {
    let _watchdog = watchdog("the_list_is_narrowed_by_what_is_asked_for");
    let upstream = Upstream::start(|request| {
        Some(match request.target() {
            "/busy" => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec(),
            _ => ok("hello"),
        })
    });
    let text = config(&[&upstream.url()], "").replace(
        "routes: [ { to: s } ]",
        "routes: [ { name: all of it, match: { path: /* }, to: s }, { name: two, match: { path: /two }, to: s }, \
         { name: post, match: { path: /three, methods: [ POST ] }, to: s } ]",
    );
    let proxy = Proxy::start(&text);
    let admin = Admin::of(&proxy);
    for path in ["/one", "/two", "/busy", "/four"] {
        get(proxy.web(), path).unwrap();
    }
    let bad = fetch(proxy.web(), "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
    assert_eq!(bad.status(), 400);
    let found = |query: &str| {
        let listed = listed(&admin, query);
        let paths = listed.iter().map(|record| record["path"].as_str().unwrap_or("-").to_owned());
        paths.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(""), "- /four /busy /two /one");
    assert_eq!(found("limit=2"), "- /four");
    assert_eq!(found("route=two"), "/two");
    assert_eq!(found("route=all%20of%20it"), "/four /busy /one");
    assert_eq!(found("service=s&status=200"), "/four /two /one");
    assert_eq!(found("status=5xx"), "/busy");
    assert_eq!(found("fault=http_request_error"), "-");
    assert_eq!(found("service=other"), "");
    assert_eq!(found("slower_than=1h"), "");
    assert_eq!(found("slower_than=0s&route=two"), "/two");
    for wrong in ["status=6xx", "fault=nothing", "limit=1001", "route=", "path=/"] {
        let answer = admin.call("GET", &format!("/api/v1/requests?{wrong}"), "");
        assert_eq!(answer.status(), 400, "{wrong}: {}", answer.text());
        assert_eq!(json(&answer)["field"], wrong.split('=').next().unwrap());
    }
    // Clients may bring ids of their own (`request_id`): of the right form, but unknown.
    assert_eq!(admin.call("GET", "/api/v1/requests/nonsense", "").status(), 404);
    let answer = admin.call("GET", "/api/v1/requests/no%20id", "");
    assert_eq!((answer.status(), &json(&answer)["field"]), (400, &"id".into()));
}

#[test]
fn a_tunnel_is_found_while_it_goes_on_and_when_it_has_ended() {
    let _watchdog = watchdog("a_tunnel_is_found_while_it_goes_on_and_when_it_has_ended");
    let house = House::start(1, "pool: {}", "");
    let mut client = house.client(
        "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let mut asked = house.asked();
    let id = asked.head.value("x-request-id").unwrap().to_owned();
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    asked.talk.send(switch).unwrap();
    assert_eq!(client.head().unwrap().status(), 101);
    let admin = Admin::of(&house.proxy);
    let open = record(&admin, &id.to_uppercase());
    let told = ["open", "path", "route", "service"].map(|key| &open[key]);
    assert_eq!(told, [&true.into(), &"/ws".into(), &open["route"], &"s".into()], "{open:#}");
    assert!(open["route"].is_string() && open["attempts"][0]["answered"] == true, "{open:#}");
    client.half_close();
    asked.talk.half_close();
    assert_eq!(client.rest().unwrap(), b"");
    let end = Instant::now() + STEP;
    loop {
        let record = record(&admin, &id);
        if record["open"] == false {
            assert_eq!((&record["status"], &record["kept"]), (&101.into(), &Value::Null), "{record:#}");
            break;
        }
        assert!(Instant::now() < end, "{record:#}");
        thread::yield_now();
    }
}

#[test]
fn exchanges_with_one_id_are_all_shown_and_names_are_those_of_their_time() {
    let _watchdog = watchdog("exchanges_with_one_id_are_all_shown_and_names_are_those_of_their_time");
    let upstream = echo();
    let text = |name: &str| {
        let config = config(&[&upstream.url()], "trusted_proxies: [ 127.0.0.1 ]");
        config.replace("routes: [ { to: s } ]", &format!("routes: [ {{ name: {name}, to: s }} ]"))
    };
    let proxy = Proxy::start(&text("before"));
    let admin = Admin::of(&proxy);
    let id = "01923456-789A-7fff-bfff-ffffffffffff";
    let ask = || {
        let head =
            format!("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id}\r\nX-Forwarded-For: 192.0.2.7\r\n");
        let answer = fetch(proxy.web(), &format!("{head}Connection: close\r\n\r\n")).unwrap();
        assert_eq!(answer.text(), id);
    };
    ask();
    reload(&proxy, &text("after"), 1);
    ask();
    let records = records(&admin, id);
    let routes: Vec<_> = records.iter().map(|record| record["route"].as_str().unwrap()).collect();
    assert_eq!(routes, ["after", "before"]);
    for record in &records {
        assert_eq!((&record["client_ip"], &record["client_port"]), (&"192.0.2.7".into(), &Value::Null));
    }
}

#[test]
fn without_an_access_log_no_query_is_kept() {
    let _watchdog = watchdog("without_an_access_log_no_query_is_kept");
    let upstream = echo();
    let text = config(&[&upstream.url()], "");
    let text: String =
        text.lines().filter(|line| !line.starts_with("access_log")).map(|l| format!("{l}\n")).collect();
    let proxy = Proxy::start(&text);
    let id = get(proxy.web(), "/a?b=c").unwrap().text();
    let record = record(&Admin::of(&proxy), &id);
    assert_eq!((&record["path"], &record["query"]), (&"/a".into(), &Value::Null), "{record:#}");
}

#[test]
fn a_copy_and_who_was_called_off_are_told_apart() {
    let _watchdog = watchdog("a_copy_and_who_was_called_off_are_told_apart");
    let house = House::start(2, "retry: { hedge: { after: 50ms, budget: 100% } }", "");
    let mut client = house.client(GET);
    let silent = house.asked();
    let mut copy = house.asked();
    copy.talk.send(OK).unwrap();
    assert_eq!(response(&mut client).0.status(), 200);
    let id = copy.head.value("x-request-id").unwrap();
    let record = record(&Admin::of(&house.proxy), id);
    let told = |at: usize| {
        let attempt = &record["attempts"][at];
        (attempt["endpoint"].as_str().unwrap().to_owned(), &attempt["hedge"], &attempt["answered"])
    };
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    assert_eq!(told(0), (url(silent.port), &false.into(), &false.into()), "{record:#}");
    assert_eq!(told(1), (url(copy.port), &true.into(), &true.into()), "{record:#}");
}
