//! Every file below `tests/wire`, each against a proxy of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_tests::Watchdog;
use thalweg_tests::wire::{Delivery, perform_all, read_all};

/// Fewer than this means that files were lost.
const AT_LEAST: usize = 150;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("wire")
}

/// The same for those that are performed over HTTP/2.
const AT_LEAST_OVER_HTTP2: usize = 7;

fn check(name: &str, delivery: Delivery) {
    let _watchdog = Watchdog::new(name, Duration::from_secs(300));
    let (performed, failures) = perform_all(&root(), delivery);
    let (failed, list) = (failures.len(), failures.join("\n\n"));
    assert!(failures.is_empty(), "{failed} of {performed} transcripts fail:\n\n{list}\n");
    let at_least = if delivery == Delivery::Http2 { AT_LEAST_OVER_HTTP2 } else { AT_LEAST };
    assert!(performed >= at_least || std::env::var("WIRE").is_ok(), "only {performed} transcripts");
}

#[test]
fn transcripts_are_well_formed() {
    let wrong = read_all(&root());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn transcripts_hold() {
    check("transcripts_hold", Delivery::Whole);
}

#[test]
fn transcripts_hold_through_tls() {
    check("transcripts_hold_through_tls", Delivery::Secure);
}

#[test]
fn transcripts_hold_when_bytes_arrive_one_by_one() {
    check("transcripts_hold_when_bytes_arrive_one_by_one", Delivery::Bytewise);
}

#[test]
fn transcripts_hold_over_http2() {
    check("transcripts_hold_over_http2", Delivery::Http2);
}
