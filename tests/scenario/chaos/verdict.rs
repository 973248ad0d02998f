//! What must hold when it is over.

use std::time::Duration;

use serde_json::Value;
use thalweg_tests::Endpoint;
use thalweg_tests::endpoint::PAUSE;
use thalweg_tests::event_stream::Told;
use thalweg_tests::proxy::Ended;

use super::load::{Cut, Outcome};
use super::receiver::Receiver;
use super::timeline::{Happened, Kind};
use super::{ENDPOINTS, IDLE, Leg};

/// How long after the death of an endpoint its responses may still be handed on.
const HANDED_ON: Duration = Duration::from_millis(500);

/// What a timer may be early by.
const TIMER: Duration = Duration::from_millis(10);
/// Failures that are told in full.
const TOLD: usize = 10;

/// No request failed but those whose response had begun, and those only by what was done to their endpoint.
pub(super) fn load(load: &Outcome, happened: &[Happened], names: [&str; ENDPOINTS]) {
    let (failed, asked) = (&load.failed, load.asked);
    let told: Vec<_> = failed.iter().take(TOLD).map(|cut| tell(cut, happened)).collect();
    assert!(failed.is_empty(), "{} of {asked} requests failed, such as:\n{}", failed.len(), told.join("\n"));
    for cut in &load.cut {
        let by = cut.endpoint.map(|endpoint| names[endpoint]);
        let why = happened.iter().find(|happened| has_cut(happened, cut));
        assert!(
            why.is_some(),
            "the response of {by:?} was cut, and nothing explains it: {}",
            tell(cut, happened)
        );
    }
    assert_eq!(load.answered + load.cut.len() as u64, asked);
}

/// A failure, and what went on when it happened.
fn tell(cut: &Cut, happened: &[Happened]) -> String {
    let during = happened.iter().rfind(|happened| happened.begun.0 <= cut.at);
    let since = during.map(|during| cut.at.saturating_duration_since(during.begun.0));
    let trouble = during.map(|during| during.trouble);
    let took = cut.at.saturating_duration_since(cut.asked);
    format!("{}: {} after {took:?}; {since:?} into {trouble:?}", cut.id, cut.why)
}

/// Whether what happened explains why the response was cut.
fn has_cut(happened: &Happened, cut: &Cut) -> bool {
    let (before, after) = happened.begun;
    let own = Some(happened.trouble.endpoint) == cut.endpoint && cut.asked <= after;
    own && match happened.trouble.kind {
        Kind::Kill => before <= cut.at && cut.at <= after + HANDED_ON,
        // The proxy waits so long for the next byte of a body; the last one came a pause ago at most.
        Kind::Freeze => before + IDLE <= cut.at + PAUSE + TIMER && cut.at <= after + IDLE + HANDED_ON,
        _ => false,
    }
}

/// Every exchange is in the log once, with a fault exactly where it was cut.
pub(super) fn log(load: &Outcome, Ended { log, stderr, .. }: &Ended) {
    assert_eq!(log.len() as u64, load.asked, "exchanges in the log\n{stderr}");
    let faults: Vec<_> = log.iter().filter(|record| record["fault"].is_string()).collect();
    assert_eq!(faults.len(), load.cut.len(), "faults in the log: {faults:?}");
}

/// What was sent to endpoints is within the budget.
pub(super) fn budget(load: &Outcome, sent: u64, percent: u64) {
    let most = load.asked * (100 + percent) / 100;
    assert!(sent >= load.answered, "{sent} requests were sent for {} answers", load.answered);
    assert!(sent <= most, "{sent} requests were sent for {}; the budget is {most}", load.asked);
}

/// Each trouble has been told once, in its order, nothing else has, and the webhook was told the same.
pub(super) fn told(
    endpoints: &[Endpoint; ENDPOINTS],
    happened: &[Happened],
    events: &[Told],
    receiver: &Receiver,
) {
    let line = |kind: &str, url: &str| format!("{kind} {url}");
    let expected: Vec<_> = happened
        .iter()
        .flat_map(|happened| {
            let url = endpoints[happened.trouble.endpoint].url();
            [line("endpoint_down", &url), line("endpoint_up", &url)]
        })
        .collect();
    let streamed: Vec<_> = events.iter().map(|told| line(&told.kind, told.endpoint())).collect();
    assert_eq!(streamed, expected, "{events:#?}");
    for told in events {
        let up = told.kind == "endpoint_up";
        for endpoint in told.data["endpoints"].as_array().unwrap() {
            let is_it = endpoint["url"] == told.data["endpoint"];
            let (state, ready) = (&endpoint["state"], endpoint["state"] == "ready");
            assert!(ready == (up || !is_it), "{} is {state} in {}", endpoint["url"], told.data);
        }
    }
    let (hooked, retried) = receiver.wait(expected.len());
    let without_missed = |mut event: Value| {
        assert_eq!(event["missed"], 0, "{event}");
        event.as_object_mut().unwrap().remove("missed");
        event
    };
    let hooked: Vec<_> = hooked.into_iter().map(without_missed).collect();
    let streamed: Vec<_> = events.iter().map(|told| told.data.clone()).collect();
    assert_eq!(hooked, streamed, "webhook and stream");
    assert!(retried > 0 || expected.len() < 8, "the receiver has failed none");
}

/// All serve again, and none much more or less than its share.
pub(super) fn shares(balance: &str, shares: &[u64; ENDPOINTS]) {
    let fair = shares.iter().sum::<u64>() / ENDPOINTS as u64;
    // By latency the shares are as different as the latencies, which are those of a busy machine.
    let (least, most) = if balance == "peak_ewma" { (fair / 10, fair * 4) } else { (fair / 2, fair * 2) };
    let even = |share: &u64| (least..=most).contains(share);
    assert!(shares.iter().all(even), "{balance}: the endpoints answered {shares:?} afterwards");
    eprintln!("chaos: {balance}: shares afterwards {shares:?}");
}

/// Says what there was.
pub(super) fn report(balance: &str, leg: &Leg) {
    let Leg { happened, load, sent } = leg;
    let rate = load.asked as f64 / load.took.as_secs_f64();
    let extra = (*sent as f64 / load.asked as f64 - 1.0) * 100.0;
    eprintln!(
        "chaos: {balance}: {} requests in {:.1} s ({rate:.0}/s), {} troubles, {} failed, {} cut, {extra:.2} % sent again",
        load.asked,
        load.took.as_secs_f64(),
        happened.len(),
        load.failed.len(),
        load.cut.len()
    );
    for happened in happened {
        let down = happened.down.at.saturating_duration_since(happened.begun.0);
        let up = happened.up.at.saturating_duration_since(happened.over);
        let trouble = &happened.trouble;
        let kind = format!("{:?}{}", trouble.kind, if trouble.seen { "" } else { " (unseen)" });
        eprintln!(
            "chaos:   {kind:20} {} ms to endpoint_down ({}), {} ms to endpoint_up after {} ms",
            down.as_millis(),
            happened.down.cause(),
            up.as_millis(),
            happened.over.saturating_duration_since(happened.begun.0).as_millis()
        );
    }
}
