//! The worked example of CONTRIBUTING.md, compiled and run.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

#[expect(unreachable_pub, reason = "in the crate it is public, because the list of filters is")]
mod example;

use example::ServerTimingSpec;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_filter::{
    Chain, Facts, FieldView, Filter, FilterStates, HeadFields, Hooks, NoConnection, RequestCx,
    RequestOutcome, ResponseCx, Step, TargetEdit, Verdict,
};
use thalweg_http::{FieldSet, Version};

fn facts(now: Instant) -> Facts<'static> {
    Facts {
        method: b"GET",
        scheme: "https",
        host: b"shop.test",
        port: 443,
        path: b"/",
        readings: None,
        query: None,
        client_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        request_id: None,
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        is_trusted: false,
        listener: "web",
        route: "r",
        service: "s",
        version: Version::Http11,
        patterns: &[],
        now,
        unix_seconds: 0,
        connection: &NoConnection,
        is_dry_run: false,
    }
}

fn built(json: &str) -> Result<Arc<dyn Filter>, String> {
    serde_json::from_str::<ServerTimingSpec>(json).unwrap().build()
}

#[test]
fn the_example_tells_how_long_a_request_took() {
    let chain = Chain::new(vec![Step::always(built("\"edge\"").unwrap())]);
    let began = Instant::now();
    let (mut target, mut states) = (TargetEdit::default(), FilterStates::default());
    let (mut outcome, mut known) = (RequestOutcome::default(), FieldSet::default());
    let (mut added, mut lines) = (Vec::new(), Vec::new());
    let fields = HeadFields::new(&mut [], &[], (&mut added, 0), &mut known);
    let lent = (&mut states, &mut outcome);
    let mut cx = RequestCx::new(facts(began), (&mut target, fields), lent, (false, None));
    assert!(matches!(chain.on_request(0, &mut cx, &mut |_, _| {}), (1, Verdict::Continue)));
    let later = facts(began + Duration::from_millis(12));
    let fields = HeadFields::new(&mut [], &[], (&mut lines, 0), &mut known);
    let mut cx = ResponseCx::new(later, FieldView::default(), fields, &mut states);
    chain.on_response(&mut cx, &mut |_, _| {});
    assert_eq!(lines, b"Server-Timing: edge;dur=12\r\n");
    assert!(built("\"a b\"").unwrap_err().contains("letters"));
}

#[test]
fn the_example_is_the_one_that_people_read() {
    let page = include_str!("../../../CONTRIBUTING.md");
    let example = include_str!("example/mod.rs");
    assert!(
        page.contains(&format!("```rust\n{example}```")),
        "CONTRIBUTING.md differs from tests/example/mod.rs"
    );
}
