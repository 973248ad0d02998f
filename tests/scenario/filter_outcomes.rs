//! What filters did is counted, by route, filter and outcome, and stands in the record of the request.

use thalweg_tests::message::get;
use thalweg_tests::{Proxy, Upstream};

use super::{wait_counted, watchdog};

#[test]
fn what_filters_did_is_counted() {
    let _watchdog = watchdog("what_filters_did_is_counted");
    let main = Upstream::saying("main");
    let proxy = Proxy::start(&format!(
        "metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ main: {{ endpoints: \"{}\" }} }}\n\
         defaults: {{ filters: [ {{ headers: {{ response: {{ set: {{ X-A: \"1\" }} }} }} }} ] }}\n\
         routes:\n\
         \x20 - {{ name: gone, match: {{ path: /gone }}, to: main, filters: [ {{ respond: 410 }} ] }}\n\
         \x20 - {{ name: loop, match: {{ path: /loop }}, to: main, filters: [ {{ redirect: \"/{{query.to}}\" }} ] }}\n\
         \x20 - {{ name: rest, to: main, filters: [ {{ strip_prefix: /api }} ] }}\n",
        main.url()
    ));
    for (path, status) in [("/gone", 410), ("/loop?to=loop", 508), ("/api/a", 200), ("/other", 200)] {
        assert_eq!(get(proxy.web(), path).unwrap().status(), status, "{path}");
    }
    let count = |labels: &str, expected| wait_counted(&proxy, "thalweg_filter_total", labels, expected);
    count("route=\"gone\",filter=\"respond\",outcome=\"answered\"", 1);
    count("route=\"loop\",filter=\"redirect\",outcome=\"refused\"", 1);
    count("route=\"rest\",filter=\"strip_prefix\",outcome=\"changed\"", 1);
    count("route=\"rest\",filter=\"headers\",outcome=\"changed\"", 2);
    count("route=\"gone\",filter=\"headers\",outcome=\"changed\"", 1);
}
