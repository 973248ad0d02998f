//! The page as a whole: sums, and the rules of the text format checked line by line.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_core::FaultKind;

use crate::names::{self, Kind};
use crate::{CacheDiskStanding, CacheStanding, CacheUse, Limit, Registry};

/// A registry with one of everything, counted on two workers.
fn busy() -> Registry {
    let registry = Registry::new(2);
    for number in 0..2 {
        let route = registry.route(number, "shop \"front\"\\\n");
        route.codes.add(200);
        route.codes.add(502);
        route.grpc.add(14);
        route.duration.record(Duration::from_millis(3));
        route.bytes_in.add(10);
        let endpoint = registry.endpoint(number, "products", "10.0.0.1:8080");
        endpoint.requests.add(4);
        endpoint.connects.add(1);
        endpoint.response.record(Duration::from_millis(2));
        let service = registry.service(number, "products");
        service.active.add(3);
        service.queued.add(2);
        service.wait.record(Duration::from_millis(2));
        let listener = registry.listener(number, "web");
        listener.connections.add(3);
        listener.active.add(2);
        let worker = registry.worker(number);
        worker.active_exchanges.add(1);
        worker.fault(FaultKind::ConnectionRefused);
        worker.limit(Limit::Connections);
        worker.lag_us.set(1500);
    }
    registry.endpoint_up("products", "10.0.0.1:8080").set(1);
    registry.budget().descriptors.set(1024);
    registry.set_cache(Some(CacheStanding {
        limit_bytes: 8 << 20,
        objects: 2,
        disk: Some(CacheDiskStanding { condition: "ready", hits: 5, ..CacheDiskStanding::default() }),
        ..CacheStanding::default()
    }));
    registry.route(0, "products").cache[CacheUse::Hit as usize].add(3);
    registry
}

#[test]
fn sums_over_workers() {
    let page = busy().render();
    for line in [
        "thalweg_build_info{version=\"0.1.0\"} 1",
        "thalweg_requests_total{route=\"shop \\\"front\\\"\\\\\\n\",code=\"200\"} 2",
        "thalweg_requests_total{route=\"shop \\\"front\\\"\\\\\\n\",code=\"502\"} 2",
        "thalweg_grpc_requests_total{route=\"shop \\\"front\\\"\\\\\\n\",grpc_status=\"unavailable\"} 2",
        "thalweg_request_bytes_total{route=\"shop \\\"front\\\"\\\\\\n\"} 20",
        "thalweg_connections_total{listener=\"web\"} 6",
        "thalweg_connections_active{listener=\"web\"} 4",
        "thalweg_requests_active 2",
        "thalweg_upstream_requests_total{service=\"products\",endpoint=\"10.0.0.1:8080\"} 8",
        "thalweg_upstream_connects_total{service=\"products\",endpoint=\"10.0.0.1:8080\",result=\"ok\"} 2",
        "thalweg_upstream_connects_total{service=\"products\",endpoint=\"10.0.0.1:8080\",result=\"failed\"} 0",
        "thalweg_upstream_response_seconds_count{service=\"products\",endpoint=\"10.0.0.1:8080\"} 2",
        "thalweg_service_requests_active{service=\"products\"} 6",
        "thalweg_service_requests_queued{service=\"products\"} 4",
        "thalweg_queue_wait_seconds_count{service=\"products\"} 2",
        "thalweg_endpoint_up{service=\"products\",endpoint=\"10.0.0.1:8080\"} 1",
        "thalweg_faults_total{fault=\"connection_refused\",side=\"upstream\"} 2",
        "thalweg_limit_hits_total{limit=\"connections\"} 2",
        "thalweg_log_dropped_total{reason=\"queue_full\"} 0",
        "thalweg_worker_lag_seconds{worker=\"1\"} 0.0015",
        "thalweg_budget_descriptors 1024",
        "thalweg_cache_requests_total{route=\"products\",result=\"hit\"} 3",
        "thalweg_cache_limit_bytes 8388608",
        "thalweg_cache_objects 2",
        "thalweg_cache_disk_condition{condition=\"ready\"} 1",
        "thalweg_cache_disk_hits_total 5",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing from\n{page}");
    }
}

#[test]
fn every_name_of_the_list_is_on_the_page_and_no_other() {
    let registry = busy();
    registry.budget().connections.set(1);
    registry.budget().upstream_connections.set(1);
    registry.budget().requests.set(1);
    registry.budget().bodies.set(1);
    registry.budget().buffer_bytes.set(1);
    registry.budget().memory_bytes.set(1);
    let page = registry.render();
    let heads = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect::<Vec<_>>();
    let listed = names::ALL.iter().map(|m| format!("{} {}", m.name, m.kind.name())).collect::<Vec<_>>();
    assert_eq!(heads, listed);
}

/// Reads one sample: name, labels, value, by the grammar of the format.
fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let end = line.find(['{', ' ']).expect("a name ends");
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, tail) = rest.split_once("=\"").expect("a label has a value");
            let mut value = String::new();
            let mut chars = tail.char_indices();
            let close = loop {
                match chars.next().expect("a value is closed") {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().expect("an escape is whole").1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        c => panic!("\\{c} is not an escape"),
                    },
                    (_, c) => value.push(c),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &tail[close + 1..];
            match rest.split_at(1) {
                (",", tail) => rest = tail,
                ("}", tail) => {
                    rest = tail;
                    break;
                }
                other => panic!("{other:?} after a label"),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("a blank before the value");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

#[test]
fn keeps_the_rules_of_the_text_format() {
    let page = busy().render();
    assert!(page.ends_with('\n') && !page.contains("\n\n"));
    let (mut seen, mut current) = (BTreeSet::new(), "");
    let mut last_bucket = 0.0;
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            current = head.split(' ').next().expect("a name");
            assert!(seen.insert(line.to_owned()), "{current} stands twice");
            continue;
        }
        if line.starts_with("# TYPE ") {
            continue;
        }
        let (name, labels, value) = sample(line);
        let metric = names::ALL.iter().find(|m| m.name == current).expect("a listed metric");
        let suffix = name.strip_prefix(current).expect("samples stand under their head");
        match metric.kind {
            Kind::Histogram => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{name}"),
            _ => assert_eq!(suffix, ""),
        }
        if suffix == "_bucket" {
            let (label, le) = labels.last().expect("le");
            assert_eq!(label, "le");
            last_bucket = if le == "0.0005" { 0.0 } else { last_bucket };
            assert!(value >= last_bucket, "{line}");
            last_bucket = value;
        }
        if suffix == "_count" {
            assert_eq!(value, last_bucket, "{line}");
        }
        assert!(seen.insert(line.rsplit_once(' ').expect("a value").0.to_owned()), "{line} stands twice");
    }
}
