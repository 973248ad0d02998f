//! What came of a replay, and how it is told.

use crate::printable::acts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_har::Recorded;

/// What was answered this time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) time: Duration,
}

impl Answered {
    fn value(&self, name: &str) -> String {
        let named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// What is compared.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// Names of headers of the response.
    pub(super) headers: Vec<String>,
    /// An answer that takes this many times as long is another one.
    pub(super) slowdown: Option<f64>,
}

/// One exchange that was replayed, and in what it differs.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) recorded: Recorded,
    pub(super) answered: Result<Answered, String>,
}

impl Outcome {
    /// What differs: what it is, and how it was and is.
    pub(super) fn differences(&self, compared: &Comparison) -> Vec<(String, String, String)> {
        let recorded = &self.recorded;
        let answered = match &self.answered {
            Ok(answered) => answered,
            Err(error) => return vec![("answer".into(), recorded.status.to_string(), error.clone())],
        };
        let mut found = Vec::new();
        if answered.status != recorded.status {
            found.push(("status".into(), recorded.status.to_string(), answered.status.to_string()));
        }
        for name in &compared.headers {
            let now = answered.value(name);
            match recorded.answered(name) {
                Some(former) if former != now => found.push((name.to_ascii_lowercase(), former, now)),
                // What was redacted cannot be compared.
                _ => {}
            }
        }
        let (former, now) = (recorded.time, answered.time);
        if compared.slowdown.is_some_and(|factor| now.as_secs_f64() > former.as_secs_f64() * factor) {
            found.push(("latency".into(), ms_text(former), ms_text(now)));
        }
        found
    }
}

/// All of a replay.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) outcomes: Vec<Outcome>,
    /// Why exchanges were not sent, and how many.
    pub(super) skipped: BTreeMap<&'static str, usize>,
    pub(super) compared: Comparison,
}

impl Report {
    /// How many differ.
    pub(super) fn differing(&self) -> usize {
        let outcomes = self.outcomes.iter();
        outcomes.filter(|outcome| !outcome.differences(&self.compared).is_empty()).count()
    }

    /// For people: what differs, then the sum.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for outcome in &self.outcomes {
            let differences = outcome.differences(&self.compared);
            if differences.is_empty() {
                continue;
            }
            text.push_str(&format!("{} {}\n", plain(&outcome.recorded.method), plain(&outcome.recorded.url)));
            for (what, former, now) in differences {
                text.push_str(&format!("  {what}: {} -> {}\n", shown(&former), shown(&now)));
            }
        }
        let skipped: usize = self.skipped.values().sum();
        let (sent, differing) = (self.outcomes.len(), self.differing());
        text.push_str(&format!("{sent} replayed, {differing} differ, {skipped} not sent\n"));
        for (why, count) in &self.skipped {
            text.push_str(&format!("  {count}: {why}\n"));
        }
        if let Some((recorded, replayed)) = self.latencies() {
            let line = |[half, most]: [Duration; 2]| format!("p50 {}, p99 {}", ms_text(half), ms_text(most));
            text.push_str(&format!("latency: recorded {}; now {}\n", line(recorded), line(replayed)));
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let differing = self.outcomes.iter().filter_map(|outcome| {
            let differences = outcome.differences(&self.compared);
            let of = |(what, former, now): (String, String, String)| {
                json!({ "what": what, "recorded": former, "replayed": now })
            };
            (!differences.is_empty()).then(|| {
                json!({
                    "method": outcome.recorded.method,
                    "url": outcome.recorded.url,
                    "differences": differences.into_iter().map(of).collect::<Vec<_>>(),
                })
            })
        });
        let quantiles = |[half, most]: [Duration; 2]| json!({ "p50_ms": ms(half), "p99_ms": ms(most) });
        let latencies = self.latencies().map(|(recorded, replayed)| {
            json!({ "recorded": quantiles(recorded), "replayed": quantiles(replayed) })
        });
        json!({
            "replayed": self.outcomes.len(),
            "differing": self.differing(),
            "skipped": self.skipped,
            "latency": latencies,
            "exchanges": differing.collect::<Vec<_>>(),
        })
    }

    /// Median and 99th percentile of those that were answered: as recorded, and now.
    fn latencies(&self) -> Option<([Duration; 2], [Duration; 2])> {
        let answered = self.outcomes.iter().filter_map(|outcome| {
            let answered = outcome.answered.as_ref().ok()?;
            Some((outcome.recorded.time, answered.time))
        });
        let (mut recorded, mut replayed): (Vec<_>, Vec<_>) = answered.unzip();
        recorded.sort_unstable();
        replayed.sort_unstable();
        let quantile = |sorted: &[Duration], percent: usize| {
            sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
        };
        let both = |sorted: &[Duration]| Some([quantile(sorted, 50)?, quantile(sorted, 99)?]);
        both(&recorded).zip(both(&replayed))
    }
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn ms_text(time: Duration) -> String {
    format!("{:.1} ms", ms(time))
}

/// A value, or that there was none.
fn shown(text: &str) -> String {
    if text.is_empty() { "none".into() } else { plain(text) }
}

/// Text that does nothing to a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if acts(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, now: Result<u16, &str>, times: (u64, u64)) -> Outcome {
        let header = |value: &str| vec![("Content-Type".to_owned(), value.to_owned())];
        Outcome {
            recorded: Recorded {
                method: "GET".into(),
                url: format!("http://a.test/{status}"),
                target: "/".into(),
                headers: Vec::new(),
                body: Vec::new(),
                status,
                answered: header("text/html"),
                time: Duration::from_millis(times.0),
            },
            answered: now.map_err(str::to_owned).map(|status| Answered {
                status,
                headers: header(if status == 200 { "text/html" } else { "" }),
                time: Duration::from_millis(times.1),
            }),
        }
    }

    fn report(outcomes: Vec<Outcome>, slowdown: Option<f64>) -> Report {
        let compared = Comparison { headers: vec!["Content-Type".into()], slowdown };
        Report { outcomes, skipped: BTreeMap::from([("its body is not recorded", 2)]), compared }
    }

    #[test]
    fn what_differs_is_told_and_then_the_sum() {
        let report = report(
            vec![
                outcome(200, Ok(200), (10, 20)),
                outcome(200, Ok(503), (10, 30)),
                outcome(404, Err("no answer\u{1b}"), (1, 0)),
            ],
            None,
        );
        assert_eq!(
            report.text(),
            "GET http://a.test/200\n  status: 200 -> 503\n  content-type: text/html -> none\n\
             GET http://a.test/404\n  answer: 404 -> no answer\u{fffd}\n\
             3 replayed, 2 differ, 2 not sent\n  2: its body is not recorded\n\
             latency: recorded p50 10.0 ms, p99 10.0 ms; now p50 20.0 ms, p99 30.0 ms\n"
        );
        let json = report.json();
        assert_eq!(
            (&json["differing"], &json["skipped"]["its body is not recorded"]),
            (&2.into(), &2.into())
        );
        assert_eq!(json["exchanges"][0]["differences"][0]["replayed"], "503");
        assert_eq!(json["latency"]["replayed"]["p50_ms"], 20.0);
    }

    /// With --all-methods, the method comes unchecked from the archive.
    #[test]
    fn nothing_of_an_archive_reaches_the_terminal_raw() {
        let mut hostile = outcome(200, Err("no answer"), (1, 1));
        hostile.recorded.method = "GET\u{1b}]0;x\u{7}\n".into();
        hostile.recorded.url = "http://a\u{1b}[2J/".into();
        let text = report(vec![hostile], None).text();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(text.lines().next(), Some("GET\u{fffd}]0;x\u{fffd}\u{fffd} http://a\u{fffd}[2J/"));
    }

    #[test]
    fn latency_differs_only_where_a_factor_is_given() {
        let slow = |slowdown| report(vec![outcome(200, Ok(200), (10, 25))], slowdown).differing();
        assert_eq!((slow(None), slow(Some(3.0)), slow(Some(2.0))), (0, 0, 1));
        assert!(report(Vec::new(), None).text().starts_with("0 replayed, 0 differ, 2 not sent\n"));
    }
}
