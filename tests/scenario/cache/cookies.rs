//! Responses that set a cookie: none of their fields reaches other clients, and the client that caused them gets all
//! fields.

use super::{Origin, ask, caching, reply, send, watchdog};

/// Fields of a response that is stale on arrival, and can be revalidated.
const STALE: &str = "Cache-Control: public, max-age=60\r\nAge: 100\r\nETag: \"v1\"\r\n";

/// A service that starts a session in every answer to a client with a name.
fn sessions() -> Origin {
    Origin::start(|request, _| {
        let own = match request.value("x-client") {
            Some(client) => format!("Set-Cookie: session={client}\r\nX-Csrf-Token: token-of-{client}\r\n"),
            None => String::new(),
        };
        if request.start.starts_with("HEAD ") {
            let fields = "Cache-Control: public, max-age=600\r\nETag: \"v1\"\r\nContent-Length: 4\r\n";
            return Some(format!("HTTP/1.1 200 OK\r\n{fields}{own}\r\n").into());
        }
        if request.value("if-none-match") == Some("\"v1\"") {
            let fields = "Cache-Control: public, max-age=600\r\nETag: \"v1\"\r\n";
            return Some(format!("HTTP/1.1 304 Not Modified\r\n{fields}{own}\r\n").into());
        }
        Some(reply("200 OK", STALE, "page"))
    })
}

/// The token of one client went into the stored head, and all other clients got it (issue 43).
#[test]
fn a_304_that_sets_a_cookie_gives_its_fields_to_its_client_alone() {
    let _watchdog = watchdog("a_304_that_sets_a_cookie_gives_its_fields_to_its_client_alone");
    let origin = sessions();
    let proxy = caching(&origin.url(), "{}", "");
    assert_eq!(ask(&proxy, "/", "").text(), "page");
    let alice = ask(&proxy, "/", "X-Client: alice\r\n");
    assert_eq!((alice.status(), alice.text().as_str()), (200, "page"));
    assert_eq!(alice.value("set-cookie"), Some("session=alice"), "{alice:?}");
    assert_eq!(alice.value("x-csrf-token"), Some("token-of-alice"));
    let asked = origin.requests();
    assert_eq!(asked[1].value("if-none-match"), Some("\"v1\""), "hers was a validation");
    for _ in 0..2 {
        let bob = ask(&proxy, "/", "");
        assert_eq!(bob.text(), "page");
        assert_eq!((bob.value("set-cookie"), bob.value("x-csrf-token")), (None, None), "{bob:?}");
    }
}

#[test]
fn a_head_that_sets_a_cookie_gives_its_fields_to_its_client_alone() {
    let _watchdog = watchdog("a_head_that_sets_a_cookie_gives_its_fields_to_its_client_alone");
    let origin = sessions();
    let proxy = caching(&origin.url(), "{}", "");
    assert_eq!(ask(&proxy, "/", "").text(), "page");
    let alice = send(&proxy, "HEAD", "/", "X-Client: alice\r\n");
    assert_eq!(alice.value("set-cookie"), Some("session=alice"), "{alice:?}");
    assert_eq!(alice.value("x-csrf-token"), Some("token-of-alice"));
    for _ in 0..2 {
        let bob = ask(&proxy, "/", "");
        assert_eq!(bob.text(), "page");
        assert_eq!((bob.value("set-cookie"), bob.value("x-csrf-token")), (None, None), "{bob:?}");
    }
}
