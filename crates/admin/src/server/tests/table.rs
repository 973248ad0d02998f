//! The table of operations, the router and the description agree.

use std::collections::BTreeSet;

use axum::http::Method;

use super::*;
use crate::openapi::document;
use crate::operation::{Access, Operation};
use crate::operations::{is_on_metrics_listener, operations};

/// The path with something in the place of each parameter.
fn sample_path(operation: &Operation) -> String {
    let path = operation.path.replace("requests/{id}", "requests/01923456-789a-7000-8000-000000000000");
    let path = path.replace("{service}", "checkout").replace("{id}", "x").replace("{route}", "x");
    if operation.id == "explain" { path + "?url=/" } else { path }
}

fn is_unknown(answer: &Raw) -> bool {
    answer.status == 404 && answer.json()["detail"].as_str().unwrap().starts_with("there is no GET /")
        || answer.status == 405
}

#[test]
fn every_operation_of_the_table_answers_and_has_a_name_of_its_own() {
    let running = Running::start(Some("secret"));
    let mut ids = BTreeSet::new();
    for operation in operations() {
        let answer = running.raw_unix(&format!("{} {}", operation.method, sample_path(operation)));
        assert!(!is_unknown(&answer), "{} {}: {answer:?}", operation.method, operation.path);
        assert!(ids.insert(operation.id), "{}", operation.id);
    }
}

#[test]
fn other_methods_of_each_path_are_405_and_allow_names_the_right_ones() {
    let running = Running::start(Some("secret"));
    for operation in operations() {
        let path = sample_path(operation);
        let of_path = operations().filter(|other| other.path == operation.path);
        let mut allowed = of_path.map(|other| other.method.as_str()).collect::<BTreeSet<_>>();
        if allowed.contains("GET") {
            allowed.insert("HEAD");
        }
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            if allowed.contains(method) {
                continue;
            }
            let answer = running.send(&format!("{method} {path}"), "", "");
            assert_eq!(answer.status, 405, "{method} {path}");
            let named = answer.field("allow").unwrap().split(", ").collect::<BTreeSet<_>>();
            assert_eq!(named, allowed, "{method} {path}");
        }
    }
}

#[test]
fn a_read_token_reads_and_nothing_else() {
    let running = Running::start(Some("secret"));
    for operation in operations() {
        let line = format!("{} {}", operation.method, sample_path(operation));
        let answer = running.send_as("reader", &line, "", "");
        let reads = operation.method == Method::GET && operation.access == Access::Read;
        match operation.access {
            Access::Open => assert_eq!(answer.status, 200, "{line}"),
            Access::Login => assert_eq!(answer.status, 415, "{line}"),
            Access::Read if operation.id == "end_session" => assert_eq!(answer.status, 204, "{line}"),
            Access::Read => assert!(reads && [200, 404].contains(&answer.status), "{line}: {answer:?}"),
            Access::Write => {
                assert_eq!((answer.status, &answer.json()["status"]), (403, &403.into()), "{line}");
            }
        }
    }
    assert_eq!(running.send_as("reader", "HEAD /api/v1/services", "", "").status, 200);
    // Not even whether a path exists.
    assert_eq!(running.send_as("reader", "POST /api/v1/nothing", "", "").status, 403);
    assert_eq!(running.send_as("other", "GET /api/v1/services", "", "").status, 401);
    assert_eq!(running.sample.stops.load(Ordering::Relaxed), 0);
}

#[test]
fn the_metrics_listener_has_what_the_table_says() {
    let running = Running::start(None);
    for operation in operations() {
        let answer = running.metrics("GET", &sample_path(operation));
        assert_eq!(answer.status == 200, is_on_metrics_listener(operation), "{}", operation.path);
    }
}

#[test]
fn the_description_has_every_operation_and_no_other() {
    let document: serde_json::Value = serde_json::from_str(&document()).unwrap();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.insert((
                path.clone(),
                method.to_uppercase(),
                operation["operationId"].as_str().unwrap().to_owned(),
            ));
        }
    }
    let table = operations();
    let table = table.map(|op| (op.path.to_owned(), op.method.to_string(), op.id.to_owned())).collect();
    assert_eq!(described, table);
    assert_eq!(
        Running::start(None).unix("GET", "/api/v1/openapi.json").body,
        crate::openapi::document().as_bytes()
    );
}

#[test]
fn every_reference_of_the_description_leads_somewhere() {
    fn walk<'a>(value: &'a serde_json::Value, found: &mut Vec<&'a str>) {
        match value {
            serde_json::Value::Object(map) => {
                found.extend(map.get("$ref").and_then(|reference| reference.as_str()));
                map.values().for_each(|value| walk(value, found));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let document: serde_json::Value = serde_json::from_str(&document()).unwrap();
    let mut references = Vec::new();
    walk(&document, &mut references);
    assert!(references.len() > 20);
    // What a validator of OpenAPI once found: a default that its own schema refuses.
    assert!(!crate::openapi::document().contains("\"default\": null"));
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn probes_are_the_operations_that_are_open_to_anybody() {
    let open = operations().filter(|operation| operation.access == Access::Open);
    assert_eq!(open.map(|operation| operation.path).collect::<Vec<_>>(), crate::auth::PROBES);
}
