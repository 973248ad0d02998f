//! `hsts`: browsers are told through TLS, once, and never in the clear.

use std::time::Instant;

use thalweg_tests::message::{Kind, fetch};
use thalweg_tests::{Admin, Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::watchdog;

const FIELD: &str = "strict-transport-security";

#[test]
fn browsers_are_told_once_through_tls_and_never_in_the_clear() {
    let _watchdog = watchdog("browsers_are_told_once_through_tls_and_never_in_the_clear");
    let upstream = Upstream::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nstrict-transport-security: max-age=1\r\nA: b\r\nStrict-Transport-Security: max-age=2\r\n";
        Some(format!("{head}Content-Length: 2\r\n\r\nok").into_bytes())
    });
    let directory = Directory::new();
    let certificate = Identity::shared().write(&directory, "web");
    let text = super::config(&[&upstream.url()], &format!("certificates: [ {certificate} ]"), "");
    let routes = "routes: [ { name: told, match: { path: /told/* }, filters: [ { strip_prefix: /told }, { hsts: { include_subdomains: true } } ], to: s },\
                   { name: down, match: { path: /down }, filters: [ { hsts: { max_age: 1h } } ], to: [ \"http://127.0.0.1:1\" ] },\
                   { name: plain, match: { path: /plain }, to: s } ]";
    let text = text.replace("routes: [ { to: s } ]", routes);
    let text = text.replace("listeners: {", "listeners: { plain: { address: \"127.0.0.1:0\" },");
    let proxy = Proxy::start_in(directory, &text);
    let fields = |path: &str, is_secure: bool| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: example.test\r\n\r\n");
        let answer = match is_secure {
            false => fetch(proxy.address("plain"), &request).unwrap(),
            true => {
                let mut client =
                    Connection::open_secure(proxy.web(), Identity::shared(), "example.test").unwrap();
                client.send(request);
                Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap()
            }
        };
        let values: Vec<_> = answer.values(FIELD).map(str::to_owned).collect();
        (answer.status(), values)
    };
    let own = vec!["max-age=1".to_owned(), "max-age=2".to_owned()];
    let told = vec!["max-age=31536000; includeSubDomains".to_owned()];
    assert_eq!(fields("/told/a", true), (200, told));
    assert_eq!(fields("/told/a", false), (200, own.clone()), "the response of the service is left alone");
    assert_eq!(fields("/plain", true), (200, own));
    // An answer of the proxy's own.
    assert_eq!(fields("/down", true), (503, vec!["max-age=3600".to_owned()]));
    assert_eq!(fields("/down", false), (503, Vec::new()));
    assert_eq!(fields("/nowhere", true), (404, Vec::new()), "no route, no filter");
    let records = Admin::of(&proxy).get("/api/v1/requests?route=told");
    let acted = |at: usize| records["requests"][at]["filters"].clone();
    assert_eq!((&acted(0)[1]["acted"], &acted(1)[1]["acted"]), (&false.into(), &true.into()), "{records:#?}");
}
