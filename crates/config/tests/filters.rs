//! The property suite of filters: every entry of the list is read from its example, and keeps what
//! the upstream relies on, whatever path comes.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;
use thalweg_config::check_text;
use thalweg_filter::{
    ALL, Chain, Entry, Facts, FilterStates, HeadFields, NoConnection, RequestCx, RequestOutcome, TargetEdit,
};
use thalweg_http::{FieldSet, Version};

/// Services that examples name.
const OTHER: &str = "{ endpoints: \"http://127.0.0.1:1\" }";

fn plan_with(name: &str, example: &str) -> thalweg_config::Loaded {
    let text = format!(
        "listeners: {{ web: {{ address: \":0\" }} }}\n\
         services: {{ shadow: {OTHER}, shop-a: {OTHER}, shop-b: {OTHER} }}\n\
         routes: [ {{ filters: [ {{ {name}: {example} }} ], to: [ \"http://127.0.0.1:1\" ] }} ]\n"
    );
    check_text("filter.yaml", &text, &|_| None).map_err(|report| report.lines()).unwrap()
}

/// Those whose example needs no file of its own: modules of `wasm` have their own tests.
fn entries() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().filter(|entry| entry.name != "wasm")
}

#[test]
fn every_filter_is_described_and_its_example_compiles() {
    assert!(!ALL.is_empty());
    for entry in entries() {
        let loaded = plan_with(entry.name, entry.example);
        assert_eq!(loaded.plan.routes[0].filters.steps()[0].name(), entry.name);
        assert!(entry.about.len() > 20, "{}", entry.name);
    }
}

proptest! {
    /// A path stays a path: it begins with one slash, keeps no control bytes, and does not grow without reason.
    #[test]
    fn every_filter_leaves_a_path_a_path(segments in prop::collection::vec("[a-z]{0,3}|products|%2F", 1..6)) {
        let path = format!("/{}", segments.join("/"));
        for entry in entries() {
            let loaded = plan_with(entry.name, entry.example);
            let edited = sent(&loaded.plan.routes[0].filters, &path);
            prop_assert!(edited.starts_with(b"/"), "{}: {path}", entry.name);
            prop_assert!(edited.iter().all(|byte| byte.is_ascii_graphic()));
        }
    }
}

/// The path behind a chain.
fn sent(chain: &Chain, path: &str) -> Vec<u8> {
    let facts = Facts {
        method: b"GET",
        scheme: "https",
        host: b"shop.test",
        port: 443,
        path: path.as_bytes(),
        readings: None,
        query: Some(b"a=1"),
        client_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        request_id: None,
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        is_trusted: false,
        listener: "web",
        route: "r",
        service: "s",
        version: Version::Http11,
        patterns: &[],
        now: Instant::now(),
        unix_seconds: 0,
        connection: &NoConnection,
        is_dry_run: true,
    };
    let (mut target, mut added, mut known) = (TargetEdit::default(), Vec::new(), FieldSet::default());
    let (mut states, mut outcome) = (FilterStates::default(), RequestOutcome::default());
    target.begin(path.as_bytes());
    let fields = HeadFields::new(&mut [], &[], (&mut added, 0), &mut known);
    let mut cx = RequestCx::new(facts, (&mut target, fields), (&mut states, &mut outcome), (false, None));
    chain.on_request(0, &mut cx, &mut |_, _| {});
    target.path().to_vec()
}
