//! Routes that send nothing anywhere: a filter of theirs answers every request.

use std::fs;

use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Proxy, STEP};

use super::watchdog;

const CONFIG: &str = "workers: 2
metrics: { address: \"127.0.0.1:0\" }
access_log: { format: json, path: \"{log}\" }
listeners:
  web: { address: \"127.0.0.1:0\", filters: [ { headers: { response: { set: { X-Listener: web } } } } ] }
defaults: { filters: [ { compress: {} } ] }
routes:
  - name: moved
    match: { path: \"/old/{rest*}\" }
    filters: [ { redirect: { to: \"https://www.example.com/{path.rest}\", status: 301 } } ]
  - { name: files, match: { path: /files/* }, filters: [ { strip_prefix: /files }, { files: site } ] }
  - { name: rest, filters: [ { respond: { status: 404, body: \"nothing here\" } } ] }
";

fn proxy() -> Proxy {
    let directory = Directory::new();
    fs::create_dir(directory.path().join("site")).unwrap();
    fs::write(directory.path().join("site/a.txt"), "a file").unwrap();
    Proxy::start_in(directory, CONFIG)
}

#[test]
fn a_route_that_answers_needs_no_service() {
    let _watchdog = watchdog("a_route_that_answers_needs_no_service");
    let proxy = proxy();
    let moved = get(proxy.web(), "/old/shoes?size=42").unwrap();
    assert_eq!(moved.status(), 301);
    assert_eq!(moved.value("location"), Some("https://www.example.com/shoes?size=42"));
    assert_eq!(moved.value("x-listener"), Some("web"), "filters of the listener take part");
    let file = get(proxy.web(), "/files/a.txt").unwrap();
    assert_eq!((file.status(), file.text()), (200, "a file".to_owned()));
    let upgrade = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let posted = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";
    for request in [upgrade, posted] {
        let answer = fetch(proxy.web(), request).unwrap();
        assert_eq!((answer.status(), answer.text()), (404, "nothing here".to_owned()), "{request}");
    }

    let routes = Admin::of(&proxy).get("/api/v1/routes");
    let shown: Vec<_> = routes["routes"].as_array().unwrap().iter().map(|route| &route["to"]).collect();
    assert!(shown.iter().all(|to| to.as_array().is_some_and(Vec::is_empty)), "{routes}");
    let told = run(command(proxy.directory()).args(["explain", "GET", "http://a.test/old/x"]), STEP);
    assert!(told.code == 0 && told.stdout.contains("301"), "{told:?}");
    let log = proxy.stop().log;
    let mut routes: Vec<_> = log.iter().map(|record| record["route"].as_str().unwrap()).collect();
    routes.sort_unstable();
    assert_eq!(routes, ["files", "moved", "rest", "rest"]);
}

#[test]
fn a_change_brings_a_service_and_takes_it_away() {
    let _watchdog = watchdog("a_change_brings_a_service_and_takes_it_away");
    let upstream = thalweg_tests::Upstream::saying("hello");
    let proxy = proxy();
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 404);
    let file = proxy.directory().join("thalweg.yaml");
    let without = fs::read_to_string(&file).unwrap();
    let answer = "filters: [ { respond: { status: 404, body: \"nothing here\" } } ]";
    let with = without.replace(answer, &format!("to: [ \"{}\" ]", upstream.url()));
    assert_ne!(with, without);
    for (text, status) in [(&with, 200), (&without, 404), (&with, 200)] {
        fs::write(&file, text).unwrap();
        let done = run(command(proxy.directory()).arg("reload"), STEP);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(get(proxy.web(), "/").unwrap().status(), status);
    }
}

/// The mistake: a service that caches had the caches before it taken out of the list of filters, and an exchange that
/// was sent to it on the way went on one filter too late.
#[test]
fn no_filter_is_left_out_where_another_service_is_chosen() {
    let _watchdog = watchdog("no_filter_is_left_out_where_another_service_is_chosen");
    let upstream = thalweg_tests::Upstream::saying("hello");
    let url = upstream.url();
    let config = format!(
        "workers: 2
listeners:
  web:
    address: \"127.0.0.1:0\"
    filters: [ {{ cache: {{}} }}, {{ split: {{ header: X-To, to: {{ caching: caching, plain: plain }} }} }} ]
services:
  plain: {{ endpoints: [ \"{url}\" ] }}
  caching: {{ endpoints: [ \"{url}\" ], filters: [ {{ cache: {{}} }} ] }}
routes:
  - {{ match: {{ path: /gone }}, filters: [ {{ respond: 410 }} ] }}
  - {{ match: {{ path: /of/plain }}, filters: [ {{ access: {{ allow: 10.0.0.0/8 }} }} ], to: plain }}
  - {{ match: {{ path: /of/caching }}, filters: [ {{ access: {{ allow: 10.0.0.0/8 }} }} ], to: caching }}
  - {{ to: plain }}
"
    );
    let proxy = Proxy::start(&config);
    for to in ["caching", "plain", "other"] {
        for (path, status) in [("/gone", 410), ("/of/plain", 403), ("/of/caching", 403), ("/", 200)] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-To: {to}\r\n\r\n");
            assert_eq!(fetch(proxy.web(), &request).unwrap().status(), status, "{path} to {to}");
        }
    }
}
