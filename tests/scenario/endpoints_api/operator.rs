//! Changes with a token are compared with the configuration that an operator supplied last (decision 0108).

use std::fs;

use thalweg_tests::message::fetch;
use thalweg_tests::{Admin, Directory, Message, Proxy, Upstream};

use super::{TOKENS, state_in};
use crate::scenario::watchdog;

const ROUTE: &str = "- { name: inner, match: { host: inner.test }, filters: [ FILTER ], to: inner }\n";
const GUARD: &str = "{ auth: { network: 192.0.2.0/24 } }";

/// The operator's configuration: a service for one network only, and one for all clients.
fn config(directory: &Directory, (inner, shop): (&Upstream, &Upstream)) -> String {
    let (write, read) = TOKENS;
    format!(
        "{}admin: {{ address: \"127.0.0.1:0\", token: {{ value: \"{write}\" }}, read_token: {{ value: \"{read}\" }} }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ inner: {{ endpoints: [ \"{}\" ] }}, shop: {{ endpoints: [ \"{}\" ] }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n\
         routes:\n\
         - {{ name: shop, match: {{ host: shop.test }}, to: shop }}\n",
        state_in(directory),
        inner.url(),
        shop.url()
    ) + &ROUTE.replace("FILTER", GUARD)
}

fn put(admin: &Admin, text: &str) -> Message {
    admin.ask("PUT", "/api/v1/config", "Content-Type: application/yaml\r\nIf-Match: *\r\n", text).unwrap()
}

fn ask(proxy: &Proxy) -> u16 {
    fetch(proxy.web(), "GET / HTTP/1.1\r\nHost: inner.test\r\nConnection: close\r\n\r\n").unwrap().status()
}

/// The text without the guarded route, and with the route but without its guard.
fn steps(text: &str) -> (String, String) {
    let guarded = ROUTE.replace("FILTER", GUARD);
    assert!(text.contains(&guarded));
    (text.replace(&guarded, ""), text.replace(GUARD, ""))
}

/// The route does not come back without its guard, whatever the token tries.
fn assert_refused(proxy: &Proxy, open: &str, inner: &Upstream) {
    let token = Admin::on_tcp(proxy, Some(TOKENS.0));
    let other = open.replace("name: inner, match: { host: inner.test }", "name: b, match: { host: b.test }");
    for text in [open, &other] {
        for query in ["", "?ephemeral=true", "?dry_run=true"] {
            let fields = "Content-Type: application/yaml\r\nIf-Match: *\r\n";
            let answer = token.ask("PUT", &format!("/api/v1/config{query}"), fields, text).unwrap();
            assert_eq!(answer.status(), 403, "{query}: {}", answer.text());
            assert!(answer.text().contains("an operator supplied last"), "{}", answer.text());
        }
    }
    let added =
        token.call("POST", "/api/v1/services/shop/endpoints", &format!("{{\"url\": \"{}\"}}", inner.url()));
    assert_eq!(added.status(), 403, "{}", added.text());
    assert_eq!((ask(proxy), inner.served()), (404, 0));
}

#[test]
fn a_token_removes_no_guard_in_two_steps_and_an_operator_may() {
    let _watchdog = watchdog("a_token_removes_no_guard_in_two_steps_and_an_operator_may");
    let (inner, shop) = (Upstream::saying("inner"), Upstream::saying("shop"));
    let directory = Directory::new();
    let text = config(&directory, (&inner, &shop));
    let proxy = Proxy::start_in(directory, &text);
    let (closed, open) = steps(&text);
    let token = Admin::on_tcp(&proxy, Some(TOKENS.0));
    let answer = put(&token, &closed);
    assert_eq!((answer.status(), ask(&proxy)), (200, 404), "{}", answer.text());
    assert_refused(&proxy, &open, &inner);
    // A reload of the token's file does not make it the operator's.
    assert_eq!(Admin::of(&proxy).call("POST", "/api/v1/reload", "").status(), 200);
    assert_refused(&proxy, &open, &inner);
    // The guarded route may come back, and go again.
    for (text, status) in [(&text, 401), (&closed, 404)] {
        let answer = put(&token, text);
        assert_eq!((answer.status(), ask(&proxy)), (200, status), "{}", answer.text());
    }
    assert_refused(&proxy, &open, &inner);

    // Nor is the argument of a guard widened on a route that a token has added.
    let added = ROUTE.replace("name: inner, match: { host: inner.test }", "name: b, match: { host: b.test }");
    let answer = put(&token, &(closed.clone() + &added.replace("FILTER", GUARD)));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let wide = "{ auth: { network: [ 0.0.0.0/0, '::/0' ] } }";
    assert_eq!(put(&token, &(closed.clone() + &added.replace("FILTER", wide))).status(), 403);
    assert_eq!(put(&token, &closed).status(), 200);

    // After a restart with the file that the token has written.
    let on_disk = fs::read_to_string(proxy.directory().join("thalweg.yaml")).unwrap();
    assert_eq!(on_disk, closed);
    let proxy = Proxy::start_in(proxy.stop().directory, &on_disk);
    assert_refused(&proxy, &open, &inner);

    // An operator edits the file.
    fs::write(proxy.directory().join("thalweg.yaml"), format!("{closed}# edited\n")).unwrap();
    assert_eq!(Admin::of(&proxy).call("POST", "/api/v1/reload", "").status(), 200);
    let answer = put(&Admin::on_tcp(&proxy, Some(TOKENS.0)), &open);
    assert_eq!((answer.status(), ask(&proxy)), (200, 200), "{}", answer.text());
}
