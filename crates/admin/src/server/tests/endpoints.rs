//! Services and endpoints: shown, added, changed, removed; of several writers one wins.

use std::sync::Barrier;

use super::*;

const ENDPOINTS: &str = "/api/v1/services/checkout/endpoints";

#[test]
fn services_routes_and_one_service_are_shown_with_a_tag() {
    let running = Running::start(Some("secret"));
    let services = running.send("GET /api/v1/services", "", "");
    assert_eq!(services.json()["version"], 1);
    let endpoint = &services.json()["services"][0]["endpoints"][0];
    assert_eq!((&endpoint["state"], &endpoint["source"]), (&"ready".into(), &"file".into()));
    assert_eq!(endpoint["since"], "1970-01-01T00:00:00.000Z");
    let service = running.send("GET /api/v1/services/checkout", "", "");
    assert_eq!((service.etag(), &service.json()["name"]), (services.etag(), &"checkout".into()));
    let odd = running.send("GET /api/v1/services/a%2Fb%20%C3%A4", "", "");
    assert_eq!(odd.json()["name"], "a/b ä");
    let routes = running.send("GET /api/v1/routes", "", "").json();
    assert_eq!(routes["routes"][0]["to"][1], serde_json::json!({ "service": "checkout-next", "weight": 5 }));
    let status = running.send("GET /api/v1/status", "", "").json();
    assert_eq!(status["services"], serde_json::json!({ "up": 2, "degraded": 0, "down": 0 }));
    let url = running.send(&format!("GET {ENDPOINTS}/http%3A%2F%2F10.0.0.1%3A8080"), "", "");
    assert_eq!(url.json()["id"], endpoint["id"]);
}

#[test]
fn an_endpoint_is_added_changed_and_removed() {
    let running = Running::start(Some("secret"));
    let before = running.send("GET /api/v1/services", "", "").etag().to_owned();
    let added = running.json(&format!("POST {ENDPOINTS}"), r#"{"url":"http://10.0.0.2:80","weight":3}"#);
    assert_eq!((added.status, &added.json()["weight"], &added.json()["tier"]), (201, &3.into(), &0.into()));
    assert_ne!(added.etag(), before);
    let place = added.field("location").unwrap().to_owned();
    assert!(place.starts_with(&format!("{ENDPOINTS}/")), "{place}");
    let shown = running.send(&format!("GET {place}"), "", "");
    assert_eq!((shown.json()["url"].as_str(), shown.etag()), (Some("http://10.0.0.2:80"), added.etag()));
    let changed = running.json(&format!("PATCH {place}"), r#"{"weight":0,"state":"maintenance"}"#);
    assert_eq!((changed.status, &changed.json()["weight"]), (200, &0.into()));
    assert_eq!(changed.json()["state"], "maintenance");
    let kept = running.json(&format!("PATCH {place}"), r#"{"state":"ready"}"#);
    assert_eq!((&kept.json()["weight"], &kept.json()["state"]), (&0.into(), &"ready".into()));
    let removed = running.send(&format!("DELETE {place}?drain=1m"), "", "");
    assert_eq!((removed.status, &removed.json()["cause"]), (202, &"60 s".into()));
    assert_eq!(running.send(&format!("GET {place}"), "", "").status, 404);
    let at_once = running.send(&format!("DELETE {ENDPOINTS}/http%3A%2F%2F10.0.0.1%3A8080?drain=0s"), "", "");
    assert_eq!(at_once.status, 200);
}

#[test]
fn the_location_of_a_service_with_any_name_leads_to_the_endpoint() {
    let running = Running::start(Some("secret"));
    let added = running.json("POST /api/v1/services/a%2Fb%20%C3%A4/endpoints", r#"{"url":"http://h"}"#);
    let place = added.field("location").unwrap().to_owned();
    assert!(place.starts_with("/api/v1/services/a%2Fb%20%C3%A4/endpoints/"), "{place}");
    assert_eq!(running.send(&format!("GET {place}"), "", "").json()["url"], "http://h");
}

#[test]
fn a_drain_without_a_time_is_30_seconds() {
    let running = Running::start(Some("secret"));
    let removed = running.send(&format!("DELETE {ENDPOINTS}/http%3A%2F%2F10.0.0.1%3A8080"), "", "");
    assert_eq!((removed.status, &removed.json()["cause"]), (202, &"30 s".into()));
}

#[test]
fn weights_of_a_route_are_changed() {
    let running = Running::start(Some("secret"));
    let line = "PATCH /api/v1/routes/checkout%20canary/weights";
    let changed = running.json(line, r#"{"checkout-next":50,"checkout":50}"#);
    assert_eq!((changed.status, &changed.json()["to"][1]["weight"]), (200, &50.into()));
    let wrong = running.json(line, r#"{"other":1}"#);
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &"other".into()));
    assert_eq!(running.json("PATCH /api/v1/routes/other/weights", r#"{"checkout":1}"#).status, 404);
}

#[test]
fn maintenance_of_a_route_is_turned_on_and_taken_back_and_that_is_audited() {
    let running = Running::start(Some("secret"));
    let place = "/api/v1/routes/checkout%20canary/maintenance";
    let set = running.json(&format!("PATCH {place}"), r#"{"on":true}"#);
    assert_eq!((set.status, &set.json()["maintenance"]), (200, &true.into()));
    assert_eq!(running.send(&format!("DELETE {place}"), "If-Match: \"x\"\n", "").status, 412);
    assert_eq!(running.send(&format!("DELETE {place}"), "", "").status, 204);
    for (route, body, status) in [
        ("other", r#"{"on":true}"#, 404),
        ("plain", r#"{"on":true}"#, 409),
        ("plain", "{}", 400),
        ("plain", r#"{"on":1}"#, 400),
    ] {
        let line = format!("PATCH /api/v1/routes/{route}/maintenance");
        assert_eq!(running.json(&line, body).status, status, "{route} {body}");
    }
    let audit = json(&running.unix("GET", "/api/v1/audit"));
    let entry = &audit["entries"][0];
    assert_eq!((&entry["before"], &entry["after"]), (&false.into(), &true.into()), "{audit}");
}

#[test]
fn weights_that_were_set_are_taken_back_once_and_that_is_audited() {
    let running = Running::start(Some("secret"));
    let place = "/api/v1/routes/checkout%20canary/weights";
    let set = running.json(&format!("PATCH {place}"), r#"{"checkout-next":50}"#);
    let stale = running.send(&format!("DELETE {place}"), "If-Match: \"x\"\n", "");
    assert_eq!(stale.status, 412);
    let back = running.send(&format!("DELETE {place}"), &format!("If-Match: {}\n", set.etag()), "");
    assert_eq!((back.status, &*back.body), (204, ""));
    assert_ne!(back.etag(), set.etag());
    let again = running.send(&format!("DELETE {place}"), "", "");
    assert_eq!((again.status, again.etag()), (204, back.etag()), "nothing is left to take back");
    let shown = running.send("GET /api/v1/routes", "", "").json();
    assert_eq!(shown["routes"][0]["to"][1]["weight"], 5);
    assert_eq!(running.send("DELETE /api/v1/routes/other/weights", "", "").status, 404);
    let audit = json(&running.unix("GET", "/api/v1/audit"));
    let entry = &audit["entries"][2];
    assert_eq!((&entry["method"], &entry["status"]), (&"DELETE".into(), &204.into()), "{audit}");
    assert_eq!((&entry["before"][1]["weight"], &entry["after"][1]["weight"]), (&50.into(), &5.into()));
}

#[test]
fn unknown_things_are_404_and_duplicates_409() {
    let running = Running::start(Some("secret"));
    for (line, body) in [
        ("GET /api/v1/services/other", ""),
        ("GET /api/v1/services/checkout/endpoints/other", ""),
        ("POST /api/v1/services/other/endpoints", r#"{"url":"http://h"}"#),
        ("PATCH /api/v1/services/checkout/endpoints/other", r#"{"weight":1}"#),
        ("DELETE /api/v1/services/checkout/endpoints/other", ""),
    ] {
        let answer = running.json(line, body);
        assert_eq!(answer.status, 404, "{line}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("`other`"), "{answer:?}");
    }
    let twice = running.json(&format!("POST {ENDPOINTS}"), r#"{"url":"http://10.0.0.1:8080"}"#);
    assert_eq!(twice.status, 409);
    let url = running.json(&format!("POST {ENDPOINTS}"), r#"{"url":"gopher://h"}"#).json();
    assert_eq!((&url["status"], &url["field"]), (&400.into(), &"url".into()));
    assert_eq!(url["help"], "write `http://host:port`");
}

#[test]
fn a_write_with_an_old_weak_or_foreign_tag_is_412_and_says_the_present_one() {
    let running = Running::start(Some("secret"));
    let first = running.send("GET /api/v1/services", "", "").etag().to_owned();
    let add = |tag: &str, n: u32| {
        let fields = format!("Content-Type: application/json\nIf-Match: {tag}\n");
        running.send(&format!("POST {ENDPOINTS}"), &fields, &format!(r#"{{"url":"http://h{n}"}}"#))
    };
    let added = add(&first, 1);
    assert_eq!(added.status, 201);
    for tag in [first.clone(), format!("W/{}", added.etag()), "\"2\"".into(), "\"x\", \"y\"".into()] {
        let stale = add(&tag, 2);
        assert_eq!((stale.status, stale.json()["current"].as_str()), (412, Some(added.etag())), "{tag}");
    }
    assert_eq!(add(&format!("\"x\", {first}, {}", added.etag()), 3).status, 201);
    assert_eq!(add("*", 4).status, 201);
    assert_eq!(add("x", 5).status, 400);
    // What could not be done anyway is not a matter of versions (RFC 9110 §13.2.1).
    assert_eq!(add(&first, 1).status, 409);
}

#[test]
fn of_many_writers_with_one_tag_exactly_one_wins_in_every_round() {
    const WRITERS: usize = 16;
    const ROUNDS: usize = 25;
    let running = Running::start(Some("secret"));
    let barrier = Barrier::new(WRITERS);
    let place = format!("{ENDPOINTS}/http%3A%2F%2F10.0.0.1%3A8080");
    for round in 0..ROUNDS {
        let tag = running.send("GET /api/v1/services", "", "").etag().to_owned();
        let statuses = thread::scope(|scope| {
            let write = |writer: usize| {
                let (running, barrier, place, tag) = (&running, &barrier, &place, &tag);
                scope.spawn(move || {
                    let fields = format!("Content-Type: application/json\nIf-Match: {tag}\n");
                    barrier.wait();
                    // Half of them change, half of them add.
                    match writer % 2 {
                        0 => running.send(&format!("PATCH {place}"), &fields, r#"{"weight":2}"#).status,
                        _ => {
                            let body = format!(r#"{{"url":"http://h{round}-{writer}"}}"#);
                            running.send(&format!("POST {ENDPOINTS}"), &fields, &body).status
                        }
                    }
                })
            };
            let writers = (0..WRITERS).map(write).collect::<Vec<_>>();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        let won = statuses.iter().filter(|status| [200, 201].contains(status)).count();
        let lost = statuses.iter().filter(|status| **status == 412).count();
        assert_eq!((won, lost), (1, WRITERS - 1), "round {round}: {statuses:?}");
    }
    let version = running.send("GET /api/v1/services", "", "").json()["version"].as_u64();
    assert_eq!(version, Some(1 + ROUNDS as u64));
}
