//! Services and endpoints through the admin API: what is changed holds for the next request, and is told.

mod configuration;
mod kept;
mod leaving;
mod operator;
mod own_addresses;
mod refusals;
mod secrets;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};
use thalweg_tests::admin::{json as document, segment};
use thalweg_tests::message::{Kind, get};
use thalweg_tests::{Admin, Connection, Directory, Message, Proxy, STEP, Upstream};

use super::{config, watchdog};

/// Both workers of the tests' proxies.
const WORKERS: usize = 2;
/// The token of [`guarded`] that may do everything, and the one that may read.
const TOKENS: (&str, &str) = ("write-token-0123456789", "read-token-0123456789");

/// A proxy whose admin API is on TCP too, and whose state is in its directory.
fn guarded(endpoints: &[&str], more: &str) -> Proxy {
    let ((write, read), directory) = (TOKENS, Directory::new());
    let admin = format!(
        "admin: {{ address: \"127.0.0.1:0\", token: {{ value: \"{write}\" }}, read_token: {{ value: \"{read}\" }} }}\n"
    );
    let text = config(endpoints, &(state_in(&directory) + &admin + more));
    Proxy::start_in(directory, &text)
}

/// A proxy with its state in its directory.
fn proxy(endpoints: &[&str]) -> Proxy {
    guarded(endpoints, "")
}

/// The key that puts what must last into this directory.
pub(super) fn state_in(directory: &Directory) -> String {
    format!("state: {{ path: \"{}\" }}\n", directory.path().join("kept").display())
}

/// The path of an endpoint of the service that every test has.
fn path_of(url: &str) -> String {
    format!("/api/v1/services/s/endpoints/{}", segment(url))
}

/// Adds an endpoint.
fn add(admin: &Admin, url: &str) -> Value {
    let answer = admin.call("POST", "/api/v1/services/s/endpoints", &json!({ "url": url }).to_string());
    assert_eq!(answer.status(), 201, "{}", answer.text());
    document(&answer)
}

/// Changes an endpoint.
fn patch(admin: &Admin, url: &str, change: &Value) -> Value {
    let answer = admin.call("PATCH", &path_of(url), &change.to_string());
    assert_eq!(answer.status(), 200, "{}", answer.text());
    document(&answer)
}

/// Removes an endpoint; `query` is empty or begins with `?`.
fn remove(admin: &Admin, url: &str, query: &str) -> Message {
    let answer = admin.call("DELETE", &format!("{}{query}", path_of(url)), "");
    assert!(matches!(answer.status(), 200 | 202), "{}", answer.text());
    answer
}

/// The URLs of the endpoints that the service has.
fn urls(admin: &Admin) -> Vec<String> {
    let service = admin.get("/api/v1/services/s");
    let endpoints = service["endpoints"].as_array().unwrap().iter();
    endpoints.map(|endpoint| endpoint["url"].as_str().unwrap().to_owned()).collect()
}

/// The state of an endpoint.
fn state_of(admin: &Admin, url: &str) -> String {
    admin.get(&path_of(url))["state"].as_str().unwrap().to_owned()
}

/// Waits until the service does not have the endpoint any more.
fn wait_gone(admin: &Admin, url: &str) {
    let end = Instant::now() + STEP;
    while urls(admin).iter().any(|known| known == url) {
        assert!(Instant::now() < end, "{url} stays: {}", admin.get("/api/v1/services/s"));
    }
}

/// Asks one after the other on so many connections, so that every worker is asked; who answered how often.
fn asked(web: SocketAddr, connections: usize, requests: usize) -> BTreeMap<String, usize> {
    let mut clients: Vec<_> = (0..connections).map(|_| Connection::open(web).unwrap()).collect();
    let mut answers = BTreeMap::new();
    for _ in 0..requests {
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
            let answer = Message::read(client, Kind::Response, Instant::now() + STEP).unwrap();
            assert_eq!(answer.status(), 200, "{answer:?}");
            *answers.entry(answer.text()).or_insert(0) += 1;
        }
    }
    answers
}

/// Asks on many connections: this upstream answers no more than a request that each worker may have had in hand.
fn assert_left_alone(web: SocketAddr, name: &str) {
    let answers = asked(web, 16, 4);
    assert!(answers.get(name).copied().unwrap_or(0) <= WORKERS, "{name} is still asked: {answers:?}");
}

#[test]
fn services_and_routes_are_listed_on_the_socket_and_on_tcp() {
    let _watchdog = watchdog("services_and_routes_are_listed_on_the_socket_and_on_tcp");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = guarded(&[&one.url(), &two.url()], "");
    let doors =
        [Admin::of(&proxy), Admin::on_tcp(&proxy, Some(TOKENS.0)), Admin::on_tcp(&proxy, Some(TOKENS.1))];
    let mut tags = Vec::new();
    for admin in &doors {
        let answer = admin.call("GET", "/api/v1/services", "");
        tags.push(answer.value("etag").unwrap().to_owned());
        let services = document(&answer);
        let service = &services["services"][0];
        assert_eq!((&service["name"], &service["state"]), (&json!("s"), &json!("up")), "{services}");
        assert_eq!(service["endpoints"].as_array().unwrap().len(), 2, "{services}");
        for (endpoint, url) in service["endpoints"].as_array().unwrap().iter().zip([one.url(), two.url()]) {
            assert_eq!(endpoint["url"], url, "in the order of the file");
            assert_eq!((&endpoint["weight"], &endpoint["state"]), (&json!(1), &json!("ready")));
            assert_eq!(endpoint["source"], "file");
            let by_id = format!("/api/v1/services/s/endpoints/{}", endpoint["id"].as_str().unwrap());
            assert_eq!(admin.get(&by_id)["url"], url);
            assert_eq!(admin.get(&path_of(&url))["id"], endpoint["id"]);
        }
        let routes = admin.get("/api/v1/routes");
        assert_eq!(routes["routes"][0]["to"], json!([{ "service": "s", "weight": 1 }]), "{routes}");
    }
    assert!(tags.iter().all(|tag| *tag == tags[0]), "one version for all: {tags:?}");
}

#[test]
fn an_endpoint_that_is_added_gets_traffic_at_once() {
    let _watchdog = watchdog("an_endpoint_that_is_added_gets_traffic_at_once");
    let (old, new) = (Upstream::saying("old"), Upstream::saying("new"));
    let proxy = guarded(&[&old.url()], "");
    let admin = Admin::on_tcp(&proxy, Some(TOKENS.0));
    assert_eq!(asked(proxy.web(), 8, 1)["old"], 8);
    let body = json!({ "url": new.url(), "weight": 2 }).to_string();
    let answer = admin.call("POST", "/api/v1/services/s/endpoints", &body);
    assert_eq!(answer.status(), 201, "{}", answer.text());
    let added = document(&answer);
    assert_eq!((&added["weight"], &added["source"]), (&json!(2), &json!("runtime")), "{added}");
    assert_eq!(document(&admin.call("GET", answer.value("location").unwrap(), ""))["url"], new.url());
    // Its share from the next request on: 64 requests, two thirds of which are its own.
    let answers = asked(proxy.web(), 8, 8);
    let own = answers.get("new").copied().unwrap_or(0);
    assert!((36..=48).contains(&own), "{answers:?}");
}

#[test]
fn shares_follow_a_weight_that_is_changed_and_0_gets_nothing() {
    let _watchdog = watchdog("shares_follow_a_weight_that_is_changed_and_0_gets_nothing");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url(), &two.url()]);
    let admin = Admin::of(&proxy);
    for (weight, share) in [(3, 75), (1, 50), (9, 90)] {
        let changed = patch(&admin, &two.url(), &json!({ "weight": weight }));
        assert_eq!(changed["weight"], weight);
        let answers = asked(proxy.web(), 1, 100);
        assert!(answers["two"].abs_diff(share) <= 2, "weight {weight}: {answers:?}");
    }
    patch(&admin, &two.url(), &json!({ "weight": 0 }));
    assert_left_alone(proxy.web(), "two");
    assert!(!asked(proxy.web(), 16, 4).contains_key("two"));
    patch(&admin, &two.url(), &json!({ "weight": 1 }));
    assert!(asked(proxy.web(), 16, 4)["two"] > 0, "and back");
}

#[test]
fn draining_and_maintenance_take_an_endpoint_out_and_ready_brings_it_back() {
    let _watchdog = watchdog("draining_and_maintenance_take_an_endpoint_out_and_ready_brings_it_back");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url(), &two.url()]);
    let admin = Admin::of(&proxy);
    for state in ["draining", "maintenance"] {
        assert_eq!(patch(&admin, &two.url(), &json!({ "state": state }))["state"], state);
        assert_left_alone(proxy.web(), "two");
        assert!(!asked(proxy.web(), 16, 4).contains_key("two"), "{state}");
        assert_eq!(state_of(&admin, &two.url()), state);
        assert_eq!(admin.get("/api/v1/services/s")["state"], "up", "all that are wanted can be used");
        assert_eq!(patch(&admin, &two.url(), &json!({ "state": "ready" }))["state"], "ready");
        let answers = asked(proxy.web(), 16, 4);
        assert!(answers["two"] >= 24, "after {state}: {answers:?}");
    }
    let both = patch(&admin, &two.url(), &json!({ "state": "maintenance", "weight": 7 }));
    assert_eq!((&both["state"], &both["weight"]), (&json!("maintenance"), &json!(7)));
}

#[test]
fn a_service_without_its_last_endpoint_answers_503_and_the_proxy_lives() {
    let _watchdog = watchdog("a_service_without_its_last_endpoint_answers_503_and_the_proxy_lives");
    let upstream = Upstream::saying("back");
    let proxy = proxy(&[&upstream.url()]);
    let admin = Admin::of(&proxy);
    let events = admin.events();
    assert_eq!(asked(proxy.web(), 4, 1)["back"], 4);
    remove(&admin, &upstream.url(), "?drain=0s");
    wait_gone(&admin, &upstream.url());
    for _ in 0..8 {
        let answer = get(proxy.web(), "/").unwrap();
        assert_eq!(answer.status(), 503, "{answer:?}");
        assert!(answer.value("proxy-status").unwrap().contains("destination_unavailable"), "{answer:?}");
    }
    events.wait("service_unavailable", None);
    assert_eq!(admin.get("/api/v1/services/s")["state"], "down");
    assert!(proxy.process().is_running());
    add(&admin, &upstream.url());
    assert_eq!(asked(proxy.web(), 8, 2)["back"], 16, "from the next request on");
    events.wait("service_available", None);
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn the_shares_of_a_split_route_are_changed_at_run_time() {
    let _watchdog = watchdog("the_shares_of_a_split_route_are_changed_at_run_time");
    let (blue, green) = (Upstream::saying("blue"), Upstream::saying("green"));
    let text = config(&[&blue.url()], "").replace(
        "routes: [ { to: s } ]",
        "routes: [ { name: the split, to: [ { service: s, weight: 1 }, { service: t, weight: 0 } ] } ]",
    );
    let services = format!("services: {{ t: {{ endpoints: [ \"{}\" ] }}, s:", green.url());
    let directory = Directory::new();
    let text = text.replace("services: { s:", &services) + &state_in(&directory);
    let proxy = Proxy::start_in(directory, &text);
    let admin = Admin::of(&proxy);
    assert_eq!(asked(proxy.web(), 8, 4)["blue"], 32);
    let weights = "/api/v1/routes/the%20split/weights";
    let answer = admin.call("PATCH", weights, r#"{"s": 0, "t": 1}"#);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let shares = json!([{ "service": "s", "weight": 0 }, { "service": "t", "weight": 1 }]);
    assert_eq!(document(&answer)["to"], shares);
    assert_eq!(admin.get("/api/v1/routes")["routes"][0]["to"], shares);
    assert_left_alone(proxy.web(), "blue");
    assert_eq!(admin.call("PATCH", weights, r#"{"s": 1}"#).status(), 200, "who is not named stays");
    let answers = asked(proxy.web(), 8, 25);
    assert!(answers["blue"].abs_diff(100) <= 50, "200 draws of one half: {answers:?}");

    for (body, status, field) in [
        (r#"{"s": 0, "t": 0}"#, 400, "weights"),
        (r#"{"u": 1}"#, 400, "u"),
        (r#"{"s": 1001}"#, 400, "s"),
        (r#"{"s": "1"}"#, 400, "s"),
    ] {
        let answer = admin.call("PATCH", weights, body);
        assert_eq!((answer.status(), &document(&answer)["field"]), (status, &json!(field)), "{body}");
    }
    assert_eq!(admin.call("PATCH", "/api/v1/routes/none/weights", r#"{"s": 1}"#).status(), 404);
}
