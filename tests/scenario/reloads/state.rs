//! What is known of services and endpoints outlasts a reload that changes others, wherever they stand in the file.

use std::time::Instant;

use thalweg_tests::message::get;
use thalweg_tests::port::Refusing;
use thalweg_tests::{Proxy, STEP, Upstream};

use super::super::watchdog;
use super::{metric, plan, reload};

const BREAKER: &str = "breaker: { failures: 50%, min_requests: 5, window: 10s, open: 10m }";

/// A configuration in which `more` services and routes stand before the others.
fn text(urls: [&str; 3], more: usize) -> String {
    let [well, dead, failing] = urls;
    let extra =
        (0..more).map(|at| format!("x{more}x{at}: {{ endpoints: [ \"http://127.0.0.1:{}\" ] }}, ", at + 1));
    let routes = (0..more).map(|at| format!("{{ match: {{ path: /x{more}x{at} }}, to: x{more}x{at} }}, "));
    let services = format!(
        "{}well: {{ balance: peak_ewma, endpoints: [ \"{well}\", \"{dead}\" ] }}, \
         failing: {{ ejection: off, {BREAKER}, endpoints: [ \"{failing}\" ] }}",
        extra.collect::<String>()
    );
    let routes = format!(
        "{}{{ match: {{ path: /well }}, to: well }}, {{ match: {{ path: /failing }}, to: failing }}",
        routes.collect::<String>()
    );
    let guests = (0..more % 3).map(|at| format!("g{more}x{at}: {{ address: \"127.0.0.1:0\" }}, "));
    plan(&format!("{}web: {{ address: \"127.0.0.1:0\" }}", guests.collect::<String>()), &routes, &services)
        .replace("workers: 2", "workers: 1")
}

#[test]
fn pools_ejections_and_breakers_outlast_reloads_of_other_services_and_listeners() {
    let _watchdog = watchdog("pools_ejections_and_breakers_outlast_reloads_of_other_services_and_listeners");
    let well = Upstream::saying("well");
    let failing = Upstream::start(|_| None);
    let dead = Refusing::new();
    let urls = [well.url(), format!("http://{}", dead.address()), failing.url()];
    let urls = urls.each_ref().map(String::as_str);
    let proxy = Proxy::start(&text(urls, 0));
    let ask = |path: &str| get(proxy.web(), path).unwrap().status();
    // Until the dead endpoint has been set aside, and the breaker has opened.
    let end = Instant::now() + STEP;
    while metric(&proxy, "thalweg_endpoint_up", urls[1]) > 0.5 {
        assert_eq!(ask("/well"), 200);
        assert!(Instant::now() < end, "the dead endpoint is still used");
    }
    while metric(&proxy, "thalweg_breaker_state", "failing") < 0.5 {
        assert!(matches!(ask("/failing"), 502 | 503));
        assert!(Instant::now() < end, "the breaker does not open");
    }
    let (served, connects) = (failing.served(), metric(&proxy, "thalweg_upstream_connects_total", "ok"));
    for more in 1..8 {
        reload(&proxy, &text(urls, more));
        assert!(metric(&proxy, "thalweg_endpoint_up", urls[1]) < 0.5, "it is still set aside");
        assert!(metric(&proxy, "thalweg_breaker_state", "failing") > 0.5, "it is still open");
        assert_eq!((ask("/well"), ask("/failing")), (200, 503));
    }
    assert_eq!(failing.served(), served, "nothing went through the breaker");
    let after = metric(&proxy, "thalweg_upstream_connects_total", "ok");
    assert!((after - connects).abs() < 0.5, "{after} connections, {connects} before: the pool was kept");
}
