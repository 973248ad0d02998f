//! Time series: what is counted is seen step by step, and outlasts the process where `state:` says so.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::message::get;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Proxy, Upstream};

use super::{config, reload, watchdog};

/// A step is over in ten seconds, and then it is read.
const TWO_STEPS: Duration = Duration::from_secs(25);

/// An upstream that fails where the path says so.
fn upstream() -> Upstream {
    Upstream::start(|request| {
        let status = if request.target().contains("bad") { "500 Internal Server Error" } else { "200 OK" };
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nbody").into_bytes())
    })
}

/// The sum of one list of a series.
fn sum(series: &Value, list: &str) -> u64 {
    series[list].as_array().unwrap().iter().filter_map(Value::as_u64).sum()
}

/// The only series of an answer, once it has so many requests.
fn wait_series(admin: &Admin, query: &str, requests: u64) -> Value {
    let end = Instant::now() + TWO_STEPS;
    loop {
        let answer = admin.get(&format!("/api/v1/series?{query}"));
        let series = &answer["series"];
        if series.as_array().is_some_and(|all| all.len() == 1) && sum(&series[0], "requests") == requests {
            return answer;
        }
        assert!(Instant::now() < end, "{query}: {answer:#}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn series_show_what_was_counted_and_outlast_the_process() {
    let _watchdog = watchdog("series_show_what_was_counted_and_outlast_the_process");
    let upstream = upstream();
    let text = config(&[&upstream.url()], "state: { path: state }\n");
    let proxy = Proxy::start(&text);
    (0..15).for_each(|_| assert_eq!(get(proxy.web(), "/good").unwrap().status(), 200));
    (0..5).for_each(|_| assert_eq!(get(proxy.web(), "/bad").unwrap().status(), 500));
    let admin = Admin::of(&proxy);
    let process = wait_series(&admin, "", 20);
    assert_eq!((&process["kind"], &process["step_s"]), (&"process".into(), &10.into()));
    let steps = process["series"][0]["requests"].as_array().unwrap().len();
    for gauge in ["connections", "in_flight", "saturation"] {
        assert_eq!(process[gauge].as_array().unwrap().len(), steps, "{gauge}");
    }
    for query in ["kind=route", "kind=service&name=s", "kind=endpoint&service=s"] {
        let answer = wait_series(&admin, query, 20);
        let series = &answer["series"][0];
        assert_eq!(sum(series, "errors"), 5, "{query}: {series:#}");
        // Of the response at least its body, of the request at least its line.
        assert!(sum(series, "bytes_out") >= 80 && sum(series, "bytes_in") > 300, "{query}: {series:#}");
        assert!(sum(series, "p99_us") > 0, "{query}: {series:#}");
        assert!(answer.get("connections").is_none(), "{query}");
    }
    let endpoint = admin.get("/api/v1/series?kind=endpoint");
    assert_eq!(
        (&endpoint["series"][0]["name"], &endpoint["series"][0]["service"]),
        (&upstream.url().into(), &"s".into())
    );
    for query in ["kind=listener", "name=a", "service=s", "kind=route&span=1h", "limit=0"] {
        assert_eq!(admin.call("GET", &format!("/api/v1/series?{query}"), "").status(), 400, "{query}");
    }
    let ended = proxy.stop();
    let file = ended.directory.path().join("state/series");
    assert!(fs::metadata(&file).unwrap().len() < 10_000);
    let proxy = Proxy::start_in(ended.directory, &text);
    let restarted = wait_series(&Admin::of(&proxy), "kind=route", 20);
    assert!(sum(&restarted["series"][0], "errors") == 5, "{restarted:#}");
    let ended = proxy.stop();
    fs::write(&file, b"damaged").unwrap();
    let proxy = Proxy::start_in(ended.directory, &text);
    assert_eq!(get(proxy.web(), "/good").unwrap().status(), 200);
    let said = proxy.process().stderr();
    assert!(said.contains("cannot be read: its checksum is wrong; they begin empty"), "{said}");
}

/// The only objective, once it is so.
fn wait_slo(admin: &Admin, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + TWO_STEPS;
    loop {
        let slo = admin.get("/api/v1/slos")["slos"][0].clone();
        if is_so(&slo) {
            return slo;
        }
        assert!(Instant::now() < end, "{slo:#}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_objective_that_burns_is_told_everywhere_and_remembered() {
    let _watchdog = watchdog("an_objective_that_burns_is_told_everywhere_and_remembered");
    let (upstream, limit) = (upstream(), Duration::from_secs(20));
    let more = "state: { path: state }\nslos: { stock: { service: s, target: 99%, window: 1d, slower_than: 30s } }\n";
    let text = config(&[&upstream.url()], more);
    let proxy = Proxy::start(&config(&[&upstream.url()], "state: { path: state }\n"));
    let admin = Admin::of(&proxy);
    assert_eq!(admin.get("/api/v1/slos"), serde_json::json!({ "slos": [] }));
    reload(&proxy, &text, 1);
    wait_slo(&admin, |slo| !slo.is_null());
    (0..80).for_each(|_| assert_eq!(get(proxy.web(), "/good").unwrap().status(), 200));
    (0..20).for_each(|_| assert_eq!(get(proxy.web(), "/bad").unwrap().status(), 500));
    let slo = &wait_slo(&admin, |slo| slo["total"] == 100);
    let told = admin.events().wait("slo_burning", None);
    assert_eq!(told["service"], "s");
    let cause = told["cause"].as_str().unwrap();
    assert!(
        cause.starts_with("stock: the budget is used up too fast: ") && cause.ends_with("of 1d left"),
        "{cause}"
    );
    assert_eq!(
        (&slo["name"], &slo["service"], &slo["state"]),
        (&"stock".into(), &"s".into(), &"burning".into())
    );
    assert_eq!(
        (&slo["total"], &slo["good"], &slo["budget_left"]),
        (&100.into(), &80.into(), &0.0.into()),
        "{slo:#}"
    );
    assert!((slo["burn"][0]["rate"].as_f64().unwrap() - 20.0).abs() < 0.01, "{slo:#}");
    let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
    for line in ["thalweg_slo_budget_left_ratio{slo=\"stock\"} 0\n", "thalweg_slo_burning{slo=\"stock\"} 1\n"]
    {
        assert!(metrics.contains(line), "{line}");
    }
    let status = run(command(proxy.directory()).arg("status"), limit);
    assert_eq!(status.code, 1, "{status:?}");
    assert!(status.stdout.contains("objective stock: its budget is used up too fast\n"), "{status:?}");
    let proxy = Proxy::start_in(proxy.stop().directory, &text);
    let admin = Admin::of(&proxy);
    wait_slo(&admin, |slo| slo["total"] == 100);
    assert_eq!(admin.get("/api/v1/status")["slos_burning"], serde_json::json!(["stock"]));
}
