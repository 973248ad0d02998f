//! `explain`: it says what the proxy then does, live and offline, and tests in a configuration gate what is loaded.

mod random;

use std::fs;
use std::time::{Duration, Instant};

use thalweg_tests::admin::segment;
use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Proxy, STEP, Upstream};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);

/// A shop; `{a}` and `{b}` stand for URLs.
const SHOP: &str = "workers: 2
metrics: { address: \"127.0.0.1:0\" }
listeners: { web: { address: \"127.0.0.1:0\" } }
shutdown: { delay: 0s, grace: 5s }
routes:
  - name: products
    match: { path: /products/* }
    filters: [ { strip_prefix: /products } ]
    to: products
  - name: rest
    to: rest
services:
  products: { endpoints: [ \"{a}\" ] }
  rest: { endpoints: [ \"{b}\" ] }
";

fn shop(a: &str, b: &str) -> String {
    SHOP.replace("{a}", a).replace("{b}", b)
}

fn explain(directory: &Directory, arguments: &[&str]) -> Finished {
    run(command(directory.path()).arg("explain").args(arguments), LIMIT)
}

#[test]
fn a_file_is_explained_without_a_running_proxy() {
    let _watchdog = watchdog("a_file_is_explained_without_a_running_proxy");
    let directory = Directory::new();
    directory.write("thalweg.yaml", &shop("http://127.0.0.1:9001", "http://127.0.0.1:9002"));
    let told = explain(&directory, &["GET", "https://Shop.test/a/../products/42?x=1", "-H", "x-a: 1"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(
        told.stdout,
        "GET shop.test/products/42?x=1  (listener web, client 127.0.0.1)\n\
         goes to `products` as GET /42?x=1 with Host: shop.test\n\
         \n\
         route `products` (thalweg.yaml:6): /products/*\n  \
           strip_prefix: /products/42 -> /42\n  \
           timeouts: connect 2s, first byte 1m, idle 1m\n\
         \n\
         service `products`: round_robin, up to 2 attempts (budget 20 %)\n  \
           gets Host: shop.test\n  \
           http://127.0.0.1:9001  weight 1; written in thalweg.yaml:13\n\
         \n\
         routes that do not take it\n  \
           `rest`: it would, but `products` goes before it: a prefix goes before patterns and `/*`\n\
         \n\
         where route `products` is written\n  \
           match                               thalweg.yaml:7\n  \
           filters[0] strip_prefix: /products  thalweg.yaml:8\n  \
           filters[1] map_back: true           built in\n  \
           to products                         thalweg.yaml:9\n  \
           timeouts.connect 2s                 built in\n  \
           timeouts.first_byte 1m              built in\n  \
           timeouts.idle 1m                    built in\n\
         \n\
         where service `products` is written\n  \
           endpoints                           thalweg.yaml:13\n  \
           balance round_robin                 built in\n  \
           retry.attempts 2                    built in\n  \
           retry.budget 20%                    built in\n"
    );
    let told = explain(&directory, &["GET", "/x", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(json["outcome"]["forwarded"]["service"], "rest");
    let origin = &json["origins"][0];
    assert_eq!((&origin["object"], &origin["field"]), (&"route `rest`".into(), &"to".into()));
    assert_eq!(json["other_routes"][0]["because"]["fails"]["condition"], "path");
}

#[test]
fn a_question_that_makes_no_sense_ends_with_2_and_a_bad_file_with_1() {
    let _watchdog = watchdog("a_question_that_makes_no_sense_ends_with_2_and_a_bad_file_with_1");
    let directory = Directory::new();
    directory.write("thalweg.yaml", &shop("http://127.0.0.1:9001", "http://127.0.0.1:9002"));
    for (arguments, said) in [
        (&["GET", "/", "--listener", "wob"][..], "no listener `wob`"),
        (&["GET", "ftp://a/"], "http://"),
        (&["GET", "/", "-H", "nonsense"], "not a header"),
        (&["GET", "/", "--from", "nowhere"], "nowhere"),
        (&["GET"], "URL"),
    ] {
        let told = explain(&directory, arguments);
        assert_eq!(told.code, 2, "{told:?}");
        assert!(told.stderr.contains(said) && told.stdout.is_empty(), "{told:?}");
    }
    let bad = directory.write("bad.yaml", "routes: []\n");
    let told = explain(&directory, &["GET", "/", "--config", &bad.to_string_lossy()]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("there are no listeners"), "{told:?}");
}

#[test]
fn the_running_proxy_says_how_endpoints_stand() {
    let _watchdog = watchdog("the_running_proxy_says_how_endpoints_stand");
    let (a, b) = (Upstream::saying("a"), Upstream::saying("b"));
    let proxy = Proxy::start(&shop(&a.url(), &b.url()));
    let here = |arguments: &[&str]| run(command(proxy.directory()).arg("explain").args(arguments), LIMIT);
    let told = here(&["GET", "/products/1", "--live"]);
    assert_eq!(told.code, 0, "{told:?}");
    let endpoint = format!("{}  weight 1, ready, 0 under way; written in ", a.url());
    assert!(told.stdout.contains(&endpoint), "{told:?}");
    assert!(told.stdout.contains("filters[0] strip_prefix: /products  "), "{told:?}");
    // The lines are those of what runs.
    let below = format!("# another line\n{}", shop(&a.url(), &b.url()));
    let line = |told: &Finished| {
        told.stdout
            .lines()
            .find(|line| line.contains("strip_prefix: ") && line.contains("filters[0]"))
            .map(str::to_owned)
    };
    let before = line(&told);
    fs::write(proxy.directory().join("thalweg.yaml"), below).unwrap();
    assert_eq!(line(&here(&["GET", "/products/1", "--live"])), before);
    assert_eq!(run(command(proxy.directory()).arg("reload"), LIMIT).code, 0);
    assert_ne!(line(&here(&["GET", "/products/1", "--live"])), before);

    let admin = Admin::of(&proxy);
    let path = format!("/api/v1/services/products/endpoints/{}", segment(&a.url()));
    let changed = admin.call("PATCH", &path, "{ \"state\": \"maintenance\", \"weight\": 3 }");
    assert_eq!(changed.status(), 200, "{changed:?}");
    let told = here(&["GET", "/products/1", "--live"]);
    let endpoint = format!("{}  weight 3, maintenance, 0 under way; written in ", a.url());
    assert!(told.stdout.contains(&endpoint), "{told:?}");

    let told = here(&["GET", "/products/1", "--live", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(json["route"]["services"][0]["endpoints"][0]["state"], "maintenance");
    let told = here(&["GET", "/", "--live", "--listener", "wob"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("no listener `wob`") && told.stderr.contains("help: "), "{told:?}");
}

#[test]
fn a_failing_test_keeps_the_proxy_from_starting_and_reloads_from_happening() {
    let _watchdog = watchdog("a_failing_test_keeps_the_proxy_from_starting_and_reloads_from_happening");
    let (a, b) = (Upstream::saying("a"), Upstream::saying("b"));
    let good =
        shop(&a.url(), &b.url()) + "tests:\n  - request: GET /products/1\n    expect: { route: products }\n";
    let bad = good.replace("path: /products/*", "path: /product/*");
    let directory = Directory::new();
    let file = directory.write("bad.yaml", &bad);
    for verb in [&["run", "--config"][..], &["check"]] {
        let finished = run(command(directory.path()).args(verb).arg(&file), LIMIT);
        assert_eq!(finished.code, 1, "{finished:?}");
        let said = &finished.stderr;
        assert!(said.contains("the test fails: the route `rest` takes the request"), "{said}");
        assert!(said.contains("path is `/products/1`, not `/product/*`"), "{said}");
    }

    let proxy = Proxy::start(&good);
    fs::write(proxy.directory().join("thalweg.yaml"), &bad).unwrap();
    proxy.process().signal(Signal::HUP);
    let end = Instant::now() + STEP;
    while !proxy.process().stderr().contains("the test fails") {
        assert!(Instant::now() < end, "no word of the test in\n{}", proxy.process().stderr());
        std::thread::yield_now();
    }
    assert_eq!(get(proxy.web(), "/products/1").unwrap().text(), "a", "the old configuration goes on");
}
