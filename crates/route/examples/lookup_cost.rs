//! What a lookup costs as the table grows: `cargo run --release -p thalweg-route --example lookup_cost`.
//!
//! Prints nanoseconds per lookup for 10, 1,000 and 10,000 routes, on one host with many paths and on many
//! hosts. `one` asks for the same route again and again; `spread` for all in turn, in an order that
//! caches do not like, and so shows what memory adds.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people at a terminal")]

use std::hint::black_box;
use std::time::Instant;

use thalweg_route::{HostPattern, NoFields, PathPattern, Query, RouteMatch, Table};

const LOOKUPS: usize = 100_000;
const ROUNDS: usize = 5;
const SIZES: [usize; 3] = [10, 1_000, 10_000];

type Shape = fn(usize) -> (String, String, String);

fn main() {
    let shapes: [(&str, Shape); 4] = [
        ("prefixes of one host", |i| {
            ("h.example.com".into(), format!("/service-{i}/*"), format!("/service-{i}/x/y"))
        }),
        ("exact paths of one host", |i| {
            ("h.example.com".into(), format!("/v1/item{i}"), format!("/v1/item{i}"))
        }),
        ("patterns of one host", |i| {
            ("h.example.com".into(), format!("/c{i}/{{id}}/x"), format!("/c{i}/77/x"))
        }),
        ("hosts", |i| (format!("h{i}.example.com"), "/api/*".into(), "/api/x".into())),
    ];
    println!("{:28}{:>8}{:>10}{:>10}   ns per lookup", "", "routes", "one", "spread");
    for (name, shape) in shapes {
        for size in SIZES {
            let asked: Vec<_> = (0..size).map(shape).collect();
            let routes: Vec<_> = asked.iter().map(|(host, path, _)| route(host, path)).collect();
            let table = Table::build(&routes).unwrap();
            let one = measure(&table, &asked[size / 2..size / 2 + 1]);
            let spread = measure(&table, &asked);
            println!("{name:28}{size:>8}{one:>10.1}{spread:>10.1}");
        }
    }
}

fn route(host: &str, path: &str) -> RouteMatch {
    RouteMatch {
        hosts: vec![HostPattern::parse(host).unwrap()],
        path: Some(PathPattern::parse(path).unwrap()),
        ..RouteMatch::default()
    }
}

/// Nanoseconds per lookup, without what it costs to bring the request's bytes into the cache: a proxy has just
/// received them.
fn measure(table: &Table, asked: &[(String, String, String)]) -> f64 {
    let with = rounds(asked, |query| table.find(query).is_some());
    let without = rounds(asked, |_| true);
    with - without
}

/// The best of some rounds, in nanoseconds per request.
fn rounds(asked: &[(String, String, String)], take: impl Fn(&Query<'_>) -> bool) -> f64 {
    const STRIDE: usize = 7_919;
    let mut best = f64::MAX;
    let mut host = Vec::with_capacity(128);
    let mut path = Vec::with_capacity(128);
    for _ in 0..ROUNDS {
        let mut at = 0;
        let start = Instant::now();
        for _ in 0..LOOKUPS {
            at = (at + STRIDE) % asked.len();
            host.clear();
            host.extend_from_slice(asked[at].0.as_bytes());
            path.clear();
            path.extend_from_slice(asked[at].2.as_bytes());
            let query = Query {
                listener: 0,
                host: &host,
                path: &path,
                query: b"",
                method: b"GET",
                client: [127, 0, 0, 1].into(),
                fields: &NoFields,
            };
            assert!(take(black_box(&query)));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
    }
    best
}
