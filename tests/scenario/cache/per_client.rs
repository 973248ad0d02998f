//! `per_client`: what one client has caused answers it again, by all that it has sent, and never another one.

use thalweg_tests::h2_frames::{DATA, END, END_HEADERS, Frames, HEADERS, frame, section};
use thalweg_tests::message::fetch;
use thalweg_tests::{Message, Proxy, Talk};

use super::versions::answer;
use super::{Origin, config, reply, watchdog};

const RULE: &str = "{ per_client: { ttl: 60s, methods: [ GET, POST ], max_body: 1KiB } }";

/// What a proxy before this one says.
const FOR: &str = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";

/// An endpoint that says how often it was asked, and what.
fn telling() -> Origin {
    Origin::start(|request, _| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let line = request.start.clone();
        Some(reply("200 OK", "Cache-Control: private\r\n", &format!("{line}|{body}")))
    })
}

/// A proxy that believes 127.0.0.0/8 what it says of clients, or nobody.
fn behind(origin: &Origin, rule: &str, trusts: bool) -> Proxy {
    let trusted = if trusts { "trusted_proxies: [ 127.0.0.0/8 ]\n" } else { "" };
    Proxy::start(&format!("{trusted}{}", config(&origin.url(), &format!("{{ cache: {rule} }}"))))
}

fn post(proxy: &Proxy, path: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n{fields}\r\n{body}");
    fetch(proxy.web(), &request).unwrap()
}

#[test]
fn the_same_post_reaches_the_service_once() {
    let _watchdog = watchdog("the_same_post_reaches_the_service_once");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    for body in ["", "a", "b", &"c".repeat(1024)] {
        for round in 0..3 {
            let answer = post(&proxy, "/search", "", body);
            assert_eq!(answer.text(), format!("POST /search HTTP/1.1|{body}"), "round {round}");
            let told = answer.value("cache-status").unwrap();
            assert_eq!(told.contains("hit"), round > 0, "{told}");
        }
    }
    assert_eq!(origin.asked("/search"), 4);
    let sent = origin.requests();
    assert_eq!((sent[1].value("content-length"), sent[1].value("transfer-encoding")), (Some("1"), None));
    let got = fetch(proxy.web(), "GET /search HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(got.text(), "GET /search HTTP/1.1|", "a GET is not a POST");
}

#[test]
fn whatever_differs_is_another_request() {
    let _watchdog = watchdog("whatever_differs_is_another_request");
    let origin = telling();
    let proxy = behind(&origin, RULE, true);
    // Parts of one must not become parts of the next: `ab` and `c` are not `a` and `bc`.
    let requests = [
        ("/a", "", "bc"),
        ("/ab", "", "c"),
        ("/a?b", "", "c"),
        ("/a", "Cookie: b\r\n", "c"),
        ("/a", "Authorization: b\r\n", "c"),
        ("/a", "Cookie: b\r\nAuthorization: c\r\n", ""),
        ("/a", "Cookie: bc\r\n", ""),
        ("/a", "Content-Type: b\r\n", "c"),
        ("/a", "Content-Type: c\r\n", "b"),
        ("/a", "Content-Encoding: b\r\n", "c"),
        ("/a", "X-Forwarded-For: 192.0.2.1\r\n", "bc"),
        ("/a", "X-Forwarded-For: 192.0.2.11\r\n", "bc"),
        ("/a", "X-Forwarded-For: 192.0.2.1\r\n", "1bc"),
        ("/a", "X-Forwarded-For: 2001:db8::1\r\n", "bc"),
    ];
    for round in 0..2 {
        for (number, (path, fields, body)) in requests.into_iter().enumerate() {
            let answer = post(&proxy, path, fields, body);
            assert_eq!(answer.text(), format!("POST {path} HTTP/1.1|{body}"), "{number}");
            let told = answer.value("cache-status").unwrap();
            assert_eq!(told.contains("hit"), round > 0, "{number}: {told}");
        }
    }
    assert_eq!(origin.requests().len(), requests.len());
}

#[test]
fn a_stranger_does_not_become_another_client() {
    let _watchdog = watchdog("a_stranger_does_not_become_another_client");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    for address in ["192.0.2.1", "192.0.2.2", "127.0.0.1"] {
        post(&proxy, "/", &format!("X-Forwarded-For: {address}\r\nX-Real-IP: {address}\r\n"), "a");
    }
    assert_eq!(origin.asked("/"), 1, "what it says of its address counts for nothing");
}

#[test]
fn what_is_too_long_or_has_no_length_passes_by() {
    let _watchdog = watchdog("what_is_too_long_or_has_no_length_passes_by");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    let long = "c".repeat(1025);
    for _ in 0..2 {
        let answer = post(&proxy, "/long", "", &long);
        assert_eq!(answer.text(), format!("POST /long HTTP/1.1|{long}"));
        assert!(answer.value("cache-status").unwrap().contains("fwd=bypass"));
        let chunked =
            "POST /chunked HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        assert_eq!(fetch(proxy.web(), chunked).unwrap().text(), "POST /chunked HTTP/1.1|a");
    }
    assert_eq!((origin.asked("/long"), origin.asked("/chunked")), (2, 2));
}

#[test]
fn a_post_that_passes_by_removes_nothing() {
    let _watchdog = watchdog("a_post_that_passes_by_removes_nothing");
    let origin = telling();
    // Behind another proxy, as it mostly is.
    let proxy = behind(&origin, RULE, true);
    let long = "c".repeat(1025);
    post(&proxy, "/search", FOR, "a");
    for (fields, body) in [("", long.as_str()), ("If-Match: \"a\"\r\n", "a")] {
        let passed = post(&proxy, "/search", &format!("{FOR}{fields}"), body);
        assert!(passed.value("cache-status").unwrap().contains("fwd=bypass"));
        let told = post(&proxy, "/search", FOR, "a");
        assert!(told.value("cache-status").unwrap().contains("hit"), "{fields:?}");
    }
    assert_eq!(origin.asked("/search"), 3);
}

#[test]
fn a_post_that_is_another_method_reaches_the_service_and_removes() {
    let _watchdog = watchdog("a_post_that_is_another_method_reaches_the_service_and_removes");
    for trusts in [false, true] {
        let origin = telling();
        let proxy = behind(&origin, RULE, trusts);
        let is_hit = || post(&proxy, "/search", FOR, "a").value("cache-status").unwrap().contains("hit");
        assert_eq!((is_hit(), is_hit()), (false, true), "{trusts}");
        for length in [1, 1025] {
            let fields = format!("{FOR}X-HTTP-Method-Override: DELETE\r\n");
            for _ in 0..2 {
                let told = post(&proxy, "/search", &fields, &"a".repeat(length));
                assert!(told.value("cache-status").unwrap().contains("fwd=bypass"), "{trusts} {length}");
            }
            assert_eq!((is_hit(), is_hit()), (false, true), "{trusts} {length}");
        }
        assert_eq!(origin.asked("/search"), 7, "{trusts}");
    }
}

#[test]
fn conditions_of_a_post_are_for_the_service() {
    let _watchdog = watchdog("conditions_of_a_post_are_for_the_service");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    for condition in
        ["If-None-Match: *", "If-Match: \"a\"", "Cache-Control: no-store", "Cache-Control: no-cache"]
    {
        for _ in 0..2 {
            let answer = post(&proxy, "/", &format!("{condition}\r\n"), "a");
            assert_eq!(
                (answer.status(), answer.value("cache-status").unwrap().contains("hit")),
                (200, false)
            );
        }
    }
    assert_eq!(origin.asked("/"), 8);
}

#[test]
fn a_post_that_says_no_store_or_fails_is_not_kept() {
    let _watchdog = watchdog("a_post_that_says_no_store_or_fails_is_not_kept");
    let origin = Origin::start(|request, before| {
        Some(match request.target() {
            "/no-store" => reply("200 OK", "Cache-Control: no-store\r\n", &before.to_string()),
            "/late" => reply("503 Service Unavailable", "", &before.to_string()),
            _ => reply("200 OK", "Set-Cookie: a=b\r\n", &before.to_string()),
        })
    });
    let proxy = behind(&origin, RULE, false);
    for path in ["/no-store", "/late", "/cookie"] {
        for number in 0..3 {
            assert_eq!(post(&proxy, path, "", "a").text(), number.to_string(), "{path}");
        }
    }
}

#[test]
fn without_methods_or_with_post_alone_the_others_pass() {
    let _watchdog = watchdog("without_methods_or_with_post_alone_the_others_pass");
    for (rule, posts, gets) in
        [("{ per_client: 60s }", 2, 1), ("{ per_client: { ttl: 60s, methods: POST } }", 1, 2)]
    {
        let origin = telling();
        let proxy = behind(&origin, rule, false);
        for _ in 0..2 {
            post(&proxy, "/post", "", "a");
            fetch(proxy.web(), "GET /get HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        }
        assert_eq!((origin.asked("/post"), origin.asked("/get")), (posts, gets), "{rule}");
    }
}

#[test]
fn a_post_waits_to_be_asked_for_its_body() {
    let _watchdog = watchdog("a_post_waits_to_be_asked_for_its_body");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    for _ in 0..2 {
        let mut talk = Talk::open(proxy.web()).unwrap();
        talk.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
            .unwrap();
        assert_eq!(talk.head().unwrap().status(), 100);
        talk.send("a").unwrap();
        assert_eq!(talk.head().unwrap().status(), 200);
    }
    assert_eq!(origin.asked("/"), 1);
    assert_eq!(origin.requests()[0].value("expect"), None);
}

#[test]
fn what_makes_another_method_of_a_post_passes_by_with_it() {
    let _watchdog = watchdog("what_makes_another_method_of_a_post_passes_by_with_it");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    post(&proxy, "/", "", "");
    for body in ["", "a"] {
        let answer = post(&proxy, "/", "X-HTTP-Method-Override: DELETE\r\n", body);
        assert!(!answer.value("cache-status").unwrap().contains("hit"), "{answer:?}");
        let last = origin.requests().pop().unwrap();
        assert_eq!(last.value("x-http-method-override"), Some("DELETE"));
    }
    assert_eq!(origin.asked("/"), 3);
}

/// What stands behind a body on the connection is the next request, also where `buffer` receives the body once more.
#[test]
fn what_is_behind_a_body_is_no_part_of_it() {
    let _watchdog = watchdog("what_is_behind_a_body_is_no_part_of_it");
    let origin = telling();
    let filters = "{ buffer: { memory: 1KiB } }, { cache: { per_client: { ttl: 60s, methods: POST, max_body: 4KiB } } }";
    let proxy = Proxy::start(&config(&origin.url(), filters));
    let bodies = ["a".repeat(4096), "b".repeat(4097), "c".repeat(100), "d".repeat(2000)];
    let posted = |body: &str| {
        let length = body.len();
        format!("POST /{length} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    for _ in 0..2 {
        let mut talk = Talk::open(proxy.web()).unwrap();
        talk.send(bodies.iter().map(|body| posted(body)).collect::<String>()).unwrap();
        for body in &bodies {
            let (head, mut got) = (talk.head().unwrap(), Vec::new());
            talk.body(&head).each(|piece| got.extend_from_slice(piece)).unwrap();
            assert!(
                got == format!("POST /{} HTTP/1.1|{body}", body.len()).into_bytes(),
                "{} bytes",
                got.len()
            );
        }
    }
    assert_eq!(origin.requests().len(), 5, "one is too long");
}

#[test]
fn both_versions_get_what_the_other_has_stored() {
    let _watchdog = watchdog("both_versions_get_what_the_other_has_stored");
    let origin = telling();
    let proxy = behind(&origin, RULE, false);
    let mut client = Frames::open(proxy.web(), &[]);
    for (stream, body, asked) in [(1, "a", 1), (3, "a", 1), (5, "b", 2)] {
        let length = [("content-length", "1")];
        client.send(frame(HEADERS, END_HEADERS, stream, &section("POST", "/", &length)));
        client.send(frame(DATA, END, stream, body.as_bytes()));
        let (status, got) = answer(&mut client, stream);
        assert_eq!((status, got), (200, format!("POST / HTTP/1.1|{body}").into_bytes()));
        assert_eq!(origin.asked("/"), asked);
    }
    for body in ["b", "a"] {
        let answer = post(&proxy, "/", "", body);
        assert!(answer.value("cache-status").unwrap().contains("hit"), "{answer:?}");
    }
    assert_eq!(origin.asked("/"), 2);
    // Without a length nothing is received for the key.
    for stream in [7, 9] {
        client.send(frame(HEADERS, END_HEADERS, stream, &section("POST", "/", &[])));
        client.send(frame(DATA, END, stream, b"a"));
        assert_eq!(answer(&mut client, stream).0, 200);
    }
    assert_eq!(origin.asked("/"), 4);
}
