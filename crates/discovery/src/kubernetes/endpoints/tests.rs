use super::*;
use serde_json::{Value, json};

fn slice(json: Value) -> EndpointSliceSpec {
    serde_json::from_value(json).unwrap()
}

/// A slice of `checkout`, with the port `http`.
fn of(kind: &str, version: &str, endpoints: Value) -> EndpointSliceSpec {
    let metadata = json!({ "name": format!("checkout-{version}"), "resourceVersion": version });
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    slice(json!({ "metadata": metadata, "addressType": kind, "endpoints": endpoints, "ports": ports }))
}

fn service(spec: Value) -> KubeServiceSpec {
    serde_json::from_value(json!({ "metadata": { "name": "checkout" }, "spec": spec })).unwrap()
}

fn usual() -> KubeServiceSpec {
    service(json!({ "type": "ClusterIP", "ports": [{ "name": "http", "port": 80 }] }))
}

fn wanted(port: Option<PortOf>) -> Wanted {
    Wanted { service: "checkout".to_owned(), port }
}

/// `host:port` of those that are found.
fn found(
    port: Option<PortOf>,
    service: &KubeServiceSpec,
    slices: &[EndpointSliceSpec],
) -> Result<Vec<String>, String> {
    let slices: Vec<_> = slices.iter().collect();
    let answer = endpoints(&wanted(port), Some(service), &slices)?;
    Ok(answer.found.iter().map(|found| found.url("").trim_start_matches("://").to_owned()).collect())
}

fn at(address: &str, conditions: Value) -> Value {
    json!({ "addresses": [address], "conditions": conditions })
}

#[test]
fn endpoints_that_are_ready_are_used_and_a_condition_that_is_not_there_is_a_good_one() {
    let slices = [of(
        "IPv4",
        "1",
        json!([
            at("10.0.0.1", json!({ "ready": true, "serving": true, "terminating": false })),
            at("10.0.0.2", json!({ "ready": false, "serving": false, "terminating": false })),
            at("10.0.0.3", json!({ "ready": false, "serving": true, "terminating": true })),
            at("10.0.0.4", json!({})),
            { "addresses": ["10.0.0.5", "10.0.0.6"] },
        ]),
    )];
    assert_eq!(found(None, &usual(), &slices).unwrap(), ["10.0.0.1:8080", "10.0.0.4:8080", "10.0.0.5:8080"]);
}

#[test]
fn where_none_is_ready_those_that_leave_and_still_serve_are_used() {
    let slices = [of(
        "IPv4",
        "1",
        json!([
            at("10.0.0.2", json!({ "ready": false, "serving": false, "terminating": false })),
            at("10.0.0.3", json!({ "ready": false, "serving": true, "terminating": true })),
            at("10.0.0.4", json!({ "ready": false, "serving": false, "terminating": true })),
            at("10.0.0.5", json!({ "ready": false, "terminating": true })),
        ]),
    )];
    assert_eq!(found(None, &usual(), &slices).unwrap(), ["10.0.0.3:8080"]);
}

#[test]
fn an_endpoint_that_moves_between_slices_is_one_as_the_newer_slice_says() {
    let old = of("IPv4", "9", json!([at("10.0.0.1", json!({ "ready": true })), at("10.0.0.2", json!({}))]));
    let new = of("IPv4", "10", json!([at("10.0.0.1", json!({ "ready": false }))]));
    assert_eq!(found(None, &usual(), &[new, old]).unwrap(), ["10.0.0.2:8080"]);
}

#[test]
fn of_two_families_the_primary_one_is_used_while_it_has_endpoints() {
    let v4 = || of("IPv4", "1", json!([at("10.0.0.1", json!({}))]));
    let v6 = || of("IPv6", "2", json!([at("fd00::1", json!({}))]));
    let families = |families: Value| {
        service(json!({ "ports": [{ "name": "http", "port": 80 }], "ipFamilies": families }))
    };
    assert_eq!(found(None, &families(json!(["IPv6", "IPv4"])), &[v4(), v6()]).unwrap(), ["[fd00::1]:8080"]);
    assert_eq!(found(None, &families(json!(["IPv4", "IPv6"])), &[v4(), v6()]).unwrap(), ["10.0.0.1:8080"]);
    assert_eq!(found(None, &usual(), &[v4(), v6()]).unwrap(), ["10.0.0.1:8080"]);
    assert_eq!(found(None, &usual(), &[of("IPv4", "1", Value::Null), v6()]).unwrap(), ["[fd00::1]:8080"]);
}

#[test]
fn host_names_are_endpoints_and_what_is_none_is_left_out_and_told() {
    let names = of("FQDN", "1", json!([{ "addresses": ["DB.example.com."] }, { "addresses": ["a/b"] }]));
    let odd = of("IPv4", "2", json!([{ "addresses": ["10.0.0.256"] }, { "addresses": [] }]));
    let unknown = of("Carrier-Pigeon", "3", json!([{ "addresses": ["coo"] }]));
    let answer = endpoints(&wanted(None), Some(&usual()), &[&names, &odd, &unknown]).unwrap();
    assert_eq!(answer.found, [Found::at("db.example.com", 8080)]);
    assert_eq!(
        answer.flaw.unwrap(),
        "an endpoint of `checkout` has the address `a/b`, which is no FQDN address"
    );
}

#[test]
fn zone_node_pod_and_hints_become_labels() {
    let endpoint = json!({
        "addresses": ["10.0.0.1"], "nodeName": "n1", "zone": "eu-1a",
        "targetRef": { "kind": "Pod", "name": "checkout-1", "namespace": "default" },
        "hints": { "forZones": [{ "name": "eu-1a" }, { "name": "eu-1b" }], "forNodes": null },
    });
    let slices = of("IPv4", "1", json!([endpoint]));
    let answer = endpoints(&wanted(None), Some(&usual()), &[&slices]).unwrap();
    let labels: Vec<_> = answer.found[0].labels.iter().collect();
    assert_eq!(
        labels,
        [("hint_zones", "eu-1a,eu-1b"), ("node", "n1"), ("pod", "checkout-1"), ("zone", "eu-1a")]
    );
}

#[test]
fn a_port_is_named_or_numbered_as_the_service_says() {
    let two = service(json!({ "ports": [{ "name": "http", "port": 80 }, { "name": "admin", "port": 81 }] }));
    let ports = json!([
        { "name": "http", "port": 8080, "appProtocol": "http" },
        { "name": "admin", "port": 9090, "appProtocol": "https" },
    ]);
    let slices = [slice(json!({
        "metadata": { "name": "a", "resourceVersion": "1" }, "addressType": "IPv4", "ports": ports,
        "endpoints": [{ "addresses": ["10.0.0.1"] }],
    }))];
    let of = |port| found(port, &two, &slices);
    let named = |name: &str| Some(PortOf::Name(name.to_owned()));
    assert_eq!(of(named("http")).unwrap(), ["10.0.0.1:8080"]);
    assert_eq!(of(Some(PortOf::Number(80))).unwrap(), ["10.0.0.1:8080"]);
    // The endpoints' own number, where the Service has none of it.
    assert_eq!(of(Some(PortOf::Number(8080))).unwrap(), ["10.0.0.1:8080"]);
    assert_eq!(of(Some(PortOf::Number(81))).unwrap(), ["https://10.0.0.1:9090"]);
    assert_eq!(
        of(named("web")).unwrap_err(),
        "the Service `checkout` has no port `web`; it has `http` (80), `admin` (81)"
    );
    assert!(of(Some(PortOf::Number(443))).unwrap_err().contains("no port 443"));
    assert!(of(None).unwrap_err().contains("help: write `port`"));
}

#[test]
fn slices_that_do_not_yet_know_a_port_are_no_empty_set() {
    let renamed = service(json!({ "ports": [{ "name": "web", "port": 80 }] }));
    let slices = [of("IPv4", "1", json!([at("10.0.0.1", json!({}))]))];
    assert!(found(None, &renamed, &slices).unwrap_err().contains("no endpoint of the Service"));
    // A Service without endpoints has one slice, with nothing in it.
    let empty = slice(
        json!({ "metadata": { "name": "a" }, "addressType": "IPv4", "ports": null, "endpoints": null }),
    );
    assert_eq!(found(None, &renamed, &[empty]).unwrap(), Vec::<String>::new());
}

#[test]
fn slices_that_do_not_limit_ports_have_the_one_that_is_written() {
    let headless = service(json!({ "clusterIP": "None" }));
    let all = || {
        let endpoints = json!([{ "addresses": ["10.0.0.1"] }]);
        [slice(
            json!({ "metadata": { "name": "a" }, "addressType": "IPv4", "ports": null, "endpoints": endpoints }),
        )]
    };
    assert_eq!(found(Some(PortOf::Number(5432)), &headless, &all()).unwrap(), ["10.0.0.1:5432"]);
    assert!(found(None, &headless, &all()).unwrap_err().contains("help: write `port`"));
}

#[test]
fn a_service_that_is_another_name_is_refused_with_help() {
    let external = service(json!({ "type": "ExternalName", "externalName": "db.example.com" }));
    let why = found(None, &external, &[]).unwrap_err();
    assert!(why.contains("`db.example.com`") && why.contains("help:"), "{why}");
}

#[test]
fn slices_without_a_service_are_used_and_that_is_told() {
    let slices = of("IPv4", "1", json!([{ "addresses": ["10.0.0.1"] }]));
    let answer = endpoints(&wanted(None), None, &[&slices]).unwrap();
    assert_eq!(answer.found, [Found::at("10.0.0.1", 8080)]);
    assert_eq!(answer.flaw.unwrap(), "there is no Service `checkout` in the namespace");
    assert!(endpoints(&wanted(None), None, &[]).unwrap().found.is_empty());
}
