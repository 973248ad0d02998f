//! Attacks by way of other requests than the one that is answered: those that are under way at the same time, HEADs,
//! and what proxies and filters before the cache say.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_tests::{Bare, Directory, Message, Proxy, STEP};

use super::{Origin, ask, asking, caching, config, good, reply, send, wait_metric, watchdog};

/// A client that asks for `path` in a thread of its own.
fn asks(proxy: &Proxy, path: &str, fields: &str) -> JoinHandle<Message> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
    let address = proxy.web();
    thread::spawn(move || thalweg_tests::message::fetch(address, &request).unwrap())
}

/// A page for who has the cookie, of a service that leaves it to validation whether it still holds, as many frameworks
/// do by themselves.
#[test]
fn a_page_that_each_use_validates_is_given_to_nobody_who_waits_for_anothers() {
    let _watchdog = watchdog("a_page_that_each_use_validates_is_given_to_nobody_who_waits_for_anothers");
    for said in ["", "Cache-Control: no-cache\r\n", "Cache-Control: max-age=0\r\n"] {
        let (go, may_go) = mpsc::channel::<()>();
        let may_go = Mutex::new(may_go);
        let origin = Origin::start(move |request, before| {
            if before % 2 == 0 {
                let _ = may_go.lock().unwrap().recv_timeout(STEP);
            }
            let owner = request.value("cookie").unwrap_or("nobody").to_owned();
            let tag = format!("\"{owner}\"");
            if request.value("if-none-match") == Some(&tag) {
                return Some(format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n{said}\r\n").into());
            }
            Some(reply("200 OK", &format!("ETag: {tag}\r\n{said}"), &format!("account of {owner}")))
        });
        let proxy = caching(&origin.url(), "{}", "");
        for round in 0..3 {
            let alice = asks(&proxy, "/account", "Cookie: alice\r\n");
            wait_until(|| origin.asked("/account") == 2 * round + 1);
            let bob = asks(&proxy, "/account", "Cookie: bob\r\n");
            // He waits for her response, or has asked for his own.
            let end = Instant::now() + STEP;
            let active = || thalweg_tests::vitals::sum(&metrics(&proxy), "thalweg_requests_active");
            while origin.asked("/account") < 2 * round + 2 && active() < 3 {
                assert!(Instant::now() < end, "bob's request does not arrive");
                thread::yield_now();
            }
            go.send(()).unwrap();
            assert_eq!(alice.join().unwrap().text(), "account of alice", "{said} {round}");
            assert_eq!(bob.join().unwrap().text(), "account of bob", "{said} {round}");
            assert_eq!(origin.asked("/account"), 2 * round + 2, "{said} {round}");
        }
    }
}

fn metrics(proxy: &Proxy) -> String {
    thalweg_tests::message::get(proxy.metrics(), "/metrics").unwrap().text()
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + STEP;
    while !is_so() {
        assert!(Instant::now() < end, "it does not come about");
        thread::yield_now();
    }
}

/// The first response comes in two parts, with a long time in between; it is fresh for a second.
#[test]
fn a_response_that_has_become_stale_while_it_arrives_is_given_to_nobody_new() {
    let _watchdog = watchdog("a_response_that_has_become_stale_while_it_arrives_is_given_to_nobody_new");
    let (go, may_go) = mpsc::channel::<()>();
    let (asked, may_go) = (Arc::new(AtomicUsize::new(0)), Mutex::new(may_go));
    let count = Arc::clone(&asked);
    let endpoint = Bare::start(move |talk| {
        talk.head()?;
        let number = count.fetch_add(1, Ordering::SeqCst);
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=1\r\nContent-Length: 6\r\n\r\n";
        talk.writer()?.write_all(format!("{head}{}", ["old", "new"][number.min(1)]).as_bytes())?;
        if number == 0 {
            let _ = may_go.lock().unwrap().recv_timeout(STEP);
        }
        talk.send("...")
    });
    let proxy = caching(&endpoint.url(), "{}", "");
    let mut first = asking(&proxy, "/");
    let head = first.head().unwrap();
    thread::sleep(Duration::from_millis(1100)); // Until it is stale.
    assert_eq!(ask(&proxy, "/", "").text(), "new...");
    go.send(()).unwrap();
    let mut body = Vec::new();
    first.body(&head).each(|bytes| body.extend_from_slice(bytes)).unwrap();
    assert_eq!(body, b"old...");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// It is stale when it comes.
const STALE: &str = "Cache-Control: public, max-age=60\r\nAge: 100\r\n";

#[test]
fn a_head_with_fields_of_no_key_changes_nothing_that_is_stored() {
    let _watchdog = watchdog("a_head_with_fields_of_no_key_changes_nothing_that_is_stored");
    for name in ["X-Original-URL", "X-Original-URI", "X-HTTP-Method", "X-Rewrite-URL", "X-Host"] {
        let origin = Origin::start(|request, _| {
            if request.start.starts_with("HEAD ") {
                let fields = "X-Of: evil\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
                return Some(format!("HTTP/1.1 200 OK\r\n{fields}").into());
            }
            Some(reply("200 OK", &format!("{STALE}X-Of: page\r\n"), "page"))
        });
        let proxy = caching(&origin.url(), "{}", "");
        ask(&proxy, "/", "");
        let head = send(&proxy, "HEAD", "/", &format!("{name}: /evil\r\n"));
        assert_eq!(head.value("x-of"), Some("evil"), "{name}: it goes to the service");
        assert_eq!(ask(&proxy, "/", "").value("x-of"), Some("page"), "{name}");
    }
}

#[test]
fn a_head_of_a_verified_client_changes_nothing_for_others() {
    let _watchdog = watchdog("a_head_of_a_verified_client_changes_nothing_for_others");
    let origin = Origin::start(|request, _| {
        let user = request.value("x-user").unwrap_or("nobody").to_owned();
        if request.start.starts_with("HEAD ") {
            let fields = "Cache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
            return Some(format!("HTTP/1.1 200 OK\r\nX-Of: {user}\r\n{fields}").into());
        }
        Some(reply("200 OK", &format!("{STALE}X-Of: all\r\n"), "page"))
    });
    let directory = Directory::new();
    directory.write(
        "keys.txt",
        "ada sha256:83a82519c9c15a29b02a234fc6cfc77cb691fe67770070594596d45f0f5201d2\n\
         bob sha256:32a04c0e2b000cd3a827423a2f78324f5e92d3f3da6812676d3868e5544e9b19\n",
    );
    let keys = directory.path().join("keys.txt").display().to_string();
    let auth = format!(
        "{{ auth: {{ api_key: {{ file: \"{keys}\" }}, forward: {{ X-User: \"{{user}}\" }} }} }}, {{ cache: {{}} }}"
    );
    let proxy = Proxy::start_in(directory, &config(&origin.url(), &auth));
    assert_eq!(ask(&proxy, "/", "X-Api-Key: thalweg-test-key-of-ada-0001\r\n").value("x-of"), Some("all"));
    assert_eq!(
        send(&proxy, "HEAD", "/", "X-Api-Key: thalweg-test-key-of-bob-0002\r\n").value("x-of"),
        Some("bob")
    );
    assert_eq!(ask(&proxy, "/", "X-Api-Key: thalweg-test-key-of-ada-0001\r\n").value("x-of"), Some("all"));
}

/// A proxy in front ends TLS, or has several sites, and says so in its fields.
#[test]
fn what_a_trusted_proxy_says_is_part_of_the_key() {
    let _watchdog = watchdog("what_a_trusted_proxy_says_is_part_of_the_key");
    let names =
        ["X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-User", "Forwarded"];
    let origin = Origin::start(move |request, _| {
        let said = names.map(|name| request.value(name).unwrap_or_default().to_owned());
        Some(good("Vary: X-Forwarded-Proto\r\n", &said.join(" ")))
    });
    let text = config(&origin.url(), "{ cache: {} }");
    let proxy = Proxy::start(&format!("{text}trusted_proxies: [ 127.0.0.1 ]\n"));
    let others = ["https", "b.test", "8443", "alice", "for=6.6.6.6;proto=https"];
    for (number, (name, value)) in names.iter().zip(others).enumerate() {
        let path = format!("/{number}");
        let mut seen = Vec::new();
        for fields in ["", &*format!("{name}: {value}\r\n"), &*format!("{name}: other\r\n")] {
            let own = ask(&proxy, &path, fields).text();
            assert_eq!(ask(&proxy, &path, fields).text(), own, "{name}");
            assert!(!seen.contains(&own), "{name}: {own} is another's");
            seen.push(own);
        }
        assert_eq!(origin.asked(&path), 3, "{name}: each is stored");
    }
    // The address of a client makes no difference.
    for address in ["192.0.2.1", "192.0.2.2"] {
        ask(
            &proxy,
            "/same",
            &format!("X-Forwarded-For: {address}\r\nForwarded: for={address};proto=http\r\n"),
        );
    }
    assert_eq!(origin.asked("/same"), 1);
}

#[test]
fn what_filters_write_reaches_the_service_on_fetches_for_the_cache_too() {
    let _watchdog = watchdog("what_filters_write_reaches_the_service_on_fetches_for_the_cache_too");
    let names = ["X-Forwarded-Prefix", "X-Original-URL"];
    let origin = Origin::start(move |request, _| {
        Some(good("", &names.map(|name| request.value(name).unwrap_or("none").to_owned()).join(" ")))
    });
    let set = "{ headers: { request: { set: { X-Forwarded-Prefix: /app, X-Original-URL: /own } } } }";
    let proxy = caching(&origin.url(), "{}", &format!(", {set}"));
    for _ in 0..2 {
        assert_eq!(ask(&proxy, "/", "X-Original-URL: /evil\r\n").text(), "/app /own");
    }
    assert_eq!(origin.asked("/"), 1);
}

/// The request that fetches is refused for what it says itself, while others wait for it.
#[test]
fn a_request_that_is_refused_takes_nobody_along() {
    let _watchdog = watchdog("a_request_that_is_refused_takes_nobody_along");
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::start(move |request, _| {
        if request.target() == "/slow" {
            let _ = may_go.lock().unwrap().recv_timeout(STEP);
        }
        Some(good("", "page"))
    });
    let text = config(&origin.url(), "{ cache: { wait: 1m } }");
    let proxy = Proxy::start(&text.replace(" ] } }\nroutes", " ], limits: { max_in_flight: 1 } } }\nroutes"));
    let slow = asks(&proxy, "/slow", "");
    wait_until(|| origin.asked("/slow") == 1);
    let passed = "Via: 1.1 thalweg\r\n".repeat(8);
    let refused = asks(&proxy, "/page", &passed);
    wait_metric(&proxy, "thalweg_requests_active", |active| active >= 4);
    let other = asks(&proxy, "/page", "");
    wait_metric(&proxy, "thalweg_requests_active", |active| active >= 5);
    go.send(()).unwrap();
    assert_eq!(slow.join().unwrap().status(), 200);
    assert_eq!(refused.join().unwrap().status(), 508);
    let other = other.join().unwrap();
    assert_eq!((other.status(), other.text().as_str()), (200, "page"));
}

/// Clients that wait for what another one fetches.
const WAITING: usize = 20;

/// Answers requests for `/page`, of which the first waits until it may go on.
fn held(
    answer: impl Fn(&Message, usize) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Origin, mpsc::Sender<()>) {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::start(move |request, before| {
        if before == 0 {
            let _ = may_go.lock().unwrap().recv_timeout(STEP);
        }
        answer(request, before)
    });
    (origin, go)
}

/// The answers to a request with these fields and to those of clients who wait for what it fetches, once it may go on.
fn crowd(proxy: &Proxy, origin: &Origin, fields: &str, go: &mpsc::Sender<()>) -> (Message, Vec<Message>) {
    let first = asks(proxy, "/page", fields);
    wait_until(|| origin.asked("/page") == 1);
    let others: Vec<_> = (0..WAITING).map(|_| asks(proxy, "/page", "")).collect();
    // The exchange of the first one is two, and this question is one.
    wait_metric(proxy, "thalweg_requests_active", |active| active >= WAITING as u64 + 2);
    go.send(()).unwrap();
    (first.join().unwrap(), others.into_iter().map(|other| other.join().unwrap()).collect())
}

/// A service that answers nothing, or nothing that is a response, where a request has a field that it does not like.
#[test]
fn a_request_that_the_service_breaks_off_takes_nobody_along() {
    let _watchdog = watchdog("a_request_that_the_service_breaks_off_takes_nobody_along");
    let long = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Long: a\r\n".repeat(20_000));
    for text in [None, Some("garbage\r\n\r\n"), Some(&*long)] {
        let bytes = text.map(|text| text.as_bytes().to_vec());
        let (origin, go) = held(move |request, _| match request.value("x-bad") {
            Some(_) => bytes.clone(),
            None => Some(good("", "page")),
        });
        let proxy = caching(&origin.url(), "{ wait: 1m }", "");
        let (first, others) = crowd(&proxy, &origin, "X-Bad: 1\r\n", &go);
        let start: String = text.unwrap_or("nothing").chars().take(20).collect();
        assert_eq!(first.status(), 502, "{start}");
        for other in others {
            assert_eq!((other.status(), other.text().as_str()), (200, "page"), "{start}");
        }
        let requests = origin.requests();
        let of_others = requests.iter().filter(|request| request.value("x-bad").is_none()).count();
        assert_eq!(of_others, 1, "{start}: one of them fetches it for all");
    }
}

/// The same with a service that does not like a field and says so.
#[test]
fn a_request_that_the_service_refuses_takes_nobody_along() {
    let _watchdog = watchdog("a_request_that_the_service_refuses_takes_nobody_along");
    for status in [400, 403, 431, 503] {
        let (origin, go) = held(move |request, _| {
            let is_bad = request.value("x-bad").is_some();
            Some(if is_bad { reply(&format!("{status} No"), "", "no") } else { good("", "page") })
        });
        let proxy = caching(&origin.url(), "{ wait: 1m }", "");
        let (first, others) = crowd(&proxy, &origin, "X-Bad: 1\r\n", &go);
        assert_eq!((first.status(), first.text().as_str()), (status, "no"));
        for other in others {
            assert_eq!((other.status(), other.text().as_str()), (200, "page"), "{status}");
        }
        assert_eq!(origin.asked("/page"), 2, "{status}: one of them fetches it for all");
    }
}

#[test]
fn what_the_service_refuses_everybody_is_asked_for_once_by_each() {
    let _watchdog = watchdog("what_the_service_refuses_everybody_is_asked_for_once_by_each");
    let (origin, go) = held(|_, before| Some(reply("403 No", "", &format!("no {before}"))));
    let proxy = caching(&origin.url(), "{ wait: 1m }", "");
    let (first, others) = crowd(&proxy, &origin, "", &go);
    let mut said: Vec<_> = others.iter().chain([&first]).map(Message::text).collect();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), WAITING + 1, "nobody gets the refusal of another: {said:?}");
    assert_eq!(origin.asked("/page"), WAITING + 1);
}

#[test]
fn where_a_second_request_is_broken_off_too_each_goes_alone() {
    let _watchdog = watchdog("where_a_second_request_is_broken_off_too_each_goes_alone");
    let (origin, go) = held(|_, before| (before > 1).then(|| good("", "page")));
    let text = config(&origin.url(), "{ cache: { wait: 1m } }");
    let once = " ], retry: { attempts: 1 } } }\nroutes";
    let proxy = Proxy::start(&text.replace(" ] } }\nroutes", once));
    let (first, others) = crowd(&proxy, &origin, "", &go);
    assert_eq!(first.status(), 502);
    let told = others.iter().filter(|other| other.status() == 502).count();
    let served = others.iter().filter(|other| other.status() == 200 && other.text() == "page").count();
    assert_eq!((told, served), (1, WAITING - 1), "only the second one that has fetched is told");
    assert!(origin.asked("/page") <= WAITING + 1, "nobody asks twice");
}

#[test]
fn who_waits_for_a_service_that_cannot_be_reached_does_not_ask_again() {
    let _watchdog = watchdog("who_waits_for_a_service_that_cannot_be_reached_does_not_ask_again");
    let (origin, go) = held(|_, _| Some(good("", "page")));
    let text = config(&origin.url(), "{ cache: { wait: 1m } }");
    let limits = " ], timeouts: { first_byte: 3s }, retry: { attempts: 1 } } }\nroutes";
    let proxy = Proxy::start(&text.replace(" ] } }\nroutes", limits));
    let first = asks(&proxy, "/page", "");
    wait_until(|| origin.asked("/page") == 1);
    let others: Vec<_> = (0..WAITING).map(|_| asks(&proxy, "/page", "")).collect();
    wait_metric(&proxy, "thalweg_requests_active", |active| active >= WAITING as u64 + 2);
    for client in others.into_iter().chain([first]) {
        assert_eq!(client.join().unwrap().status(), 504);
    }
    assert_eq!(origin.asked("/page"), 1);
    drop(go);
}

/// Which of its services a request goes to is no matter of the URL that it changes.
#[test]
fn an_unsafe_method_takes_away_what_any_service_of_the_route_has_answered() {
    let _watchdog = watchdog("an_unsafe_method_takes_away_what_any_service_of_the_route_has_answered");
    let origin = Origin::start(|request, before| {
        Some(good("", &format!("{} {before}", request.value("x-to").unwrap_or("one"))))
    });
    let split = "{ split: { header: X-To, to: { one: s, two: t } } }, { cache: {} }";
    let url = origin.url();
    let services = format!("services: {{ t: {{ endpoints: [ \"{url}\" ] }}, ");
    let proxy = Proxy::start(&config(&url, split).replace("services: {", &services));
    let page = |to: &str| ask(&proxy, "/page", &format!("X-To: {to}\r\n")).text();
    let before = [page("one"), page("two")];
    assert_eq!([page("one"), page("two")], before, "they are stored");
    send(&proxy, "POST", "/page", "X-To: two\r\nContent-Length: 0\r\n");
    let after = [page("one"), page("two")];
    assert!(before[0] != after[0] && before[1] != after[1], "{before:?}, {after:?}");
}

/// A page with `Last-Modified` and nothing else may be made for a session.
#[test]
fn a_lifetime_is_not_guessed_for_a_request_with_a_cookie() {
    let _watchdog = watchdog("a_lifetime_is_not_guessed_for_a_request_with_a_cookie");
    let origin = Origin::start(|request, _| {
        let owner = request.value("cookie").unwrap_or("nobody").to_owned();
        Some(reply(
            "200 OK",
            "Last-Modified: Sat, 25 Nov 2023 14:00:00 GMT\r\n",
            &format!("account of {owner}"),
        ))
    });
    let proxy = caching(&origin.url(), "{}", "");
    for owner in ["alice", "bob", "alice"] {
        assert_eq!(ask(&proxy, "/", &format!("Cookie: {owner}\r\n")).text(), format!("account of {owner}"));
    }
    for _ in 0..2 {
        assert_eq!(ask(&proxy, "/", "").text(), "account of nobody");
    }
    assert_eq!(origin.asked("/"), 4);
}

/// A search whose question is its body.
#[test]
fn a_body_is_part_of_what_is_asked_also_where_responses_are_for_one_client() {
    let _watchdog = watchdog("a_body_is_part_of_what_is_asked_also_where_responses_are_for_one_client");
    let origin = Origin::start(|request, _| Some(good("", &format!("found {}", request.text()))));
    let proxy = caching(&origin.url(), "{ per_client: 60s }", "");
    for body in ["one", "two", "one"] {
        let request = format!("GET /search HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n{body}");
        let answer = thalweg_tests::message::fetch(proxy.web(), &request).unwrap();
        assert_eq!(answer.text(), format!("found {body}"));
    }
    assert_eq!(ask(&proxy, "/search", "").text(), "found ");
}

/// A service that is asked for the store is asked as if the client's request came by itself.
#[test]
fn a_service_sees_the_same_request_with_and_without_the_cache() {
    let _watchdog = watchdog("a_service_sees_the_same_request_with_and_without_the_cache");
    let origin = Origin::start(|_, _| Some(good("", "page")));
    let filters = "{ rewrite: { host: inner.test } }, { strip_prefix: /app }, \
                   { headers: { request: { set: { X-Real-IP: \"{client_ip}\", X-Forwarded-Proto: https } } } }";
    let with = caching(&origin.url(), "{}", &format!(", {filters}"));
    let without = Proxy::start(&config(&origin.url(), filters));
    let seen: Vec<_> = [with, without]
        .iter()
        .map(|proxy| {
            let fields = "Accept: a/b\r\nX-Forwarded-Host: evil.test\r\nCookie: c=d\r\n";
            assert_eq!(ask(proxy, "/app/page?a=1", fields).status(), 200);
            let request = origin.requests().pop().unwrap();
            let mut lines: Vec<_> = request
                .fields
                .iter()
                .map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()))
                // The one names the version of its hop, the other is another's.
                .filter(|line| !line.starts_with("via:") && !line.starts_with("x-request-id:"))
                .collect();
            lines.sort();
            (request.start, lines)
        })
        .collect();
    assert_eq!(seen[0], seen[1]);
    let (start, lines) = &seen[0];
    assert!(start.starts_with("GET /page?a=1 "), "{start}");
    for line in
        ["host: inner.test", "x-forwarded-host: a.test", "x-forwarded-proto: https", "x-real-ip: 127.0.0.1"]
    {
        assert!(lines.iter().any(|known| known == line), "{line} in {lines:?}");
    }
}
