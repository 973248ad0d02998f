//! `fault: { share: 1%, delay: 2s }`: delays requests, slows their bodies, or breaks them off, to see how those who
//! send them bear it.
//!
//! Which requests it is for beside the share, `when:` says. What was done stands in the access log
//! (`fault_injected`), in metrics and in decision records, and in `Proxy-Status`.

use crate::throttle::bandwidth;
use crate::{Bandwidth, Filter, Hooks, Job, JobResult, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::units::{duration_text, parse_duration, parse_percent, size_text};
use thalweg_core::{Fault, FaultKind};

/// The longest delay: filters may not keep a request waiting for longer.
const DELAY: Duration = Duration::from_secs(60);

/// What is done to requests. At least one of `delay`, `bandwidth`, `abort` and `reset` is written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a map with `share`, `delay`, `bandwidth`, `abort` and `reset`"
)]
pub struct FaultSpec {
    /// The share of requests that it is done to, in whole percent, drawn for each.
    #[schemars(extend("x-default" = "100%", "x-range" = ["0%", "100%"], "pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*%[\s\u0085]*$"))]
    share: Option<String>,
    /// How long requests wait, at most 1m: a duration, or a range from which one is drawn, `100ms..2s`.
    #[schemars(extend("x-default-words" = "no time", "examples" = ["2s", "100ms..2s"]))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*(\.\.[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*)?$"))]
    delay: Option<String>,
    /// How fast the bodies of request and response come, each, in bytes per second, 1KiB/s to 1TiB/s. Not with `abort`
    /// or `reset`.
    #[schemars(extend("x-default-words" = "no bound"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B/s[\s\u0085]*$", "examples" = ["20KB/s"]))]
    bandwidth: Option<String>,
    /// The status that the client gets in place of the service's response, after the delay; 400 to 599.
    #[schemars(extend("x-default-words" = "the request goes on"))]
    abort: Option<u16>,
    /// Whether the connection is reset without an answer, after the delay; over HTTP/2 the stream. Not with `abort`.
    #[schemars(extend("x-default" = false))]
    reset: bool,
}

impl FaultSpec {
    /// Checks the share, the times and the status.
    ///
    /// # Errors
    /// One of them is out of its range, or nothing is done.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let share = self.share.as_deref().map_or(Ok(100), parse_percent)?;
        if share > 100 {
            return Err("`share` must be from 0% to 100%".into());
        }
        let delay = self.delay.as_deref().map(Delay::parse).transpose()?;
        let end = match (self.abort, self.reset) {
            (None, false) => None,
            (Some(status @ 400..=599), false) => Some(status),
            (Some(status), false) => {
                return Err(format!(
                    "`abort: {status}` is no status of an error; write a number from 400 to 599"
                ));
            }
            (None, true) => Some(Fault::NO_ANSWER),
            (Some(_), true) => return Err("write one of `abort` and `reset`".into()),
        };
        let bandwidth = self.bandwidth.as_deref().map(|text| bandwidth(text, None)).transpose()?;
        if delay.is_none() && end.is_none() && bandwidth.is_none() {
            return Err("`fault` does nothing; write `delay`, `bandwidth`, `abort` or `reset`".into());
        }
        if bandwidth.is_some() && end.is_some() {
            return Err("write `bandwidth` without `abort` and `reset`: they leave no body to be slow".into());
        }
        Ok(Arc::new(Injects { share, delay, bandwidth, end }))
    }
}

/// From the shortest to the longest.
#[derive(Clone, Copy, Debug)]
struct Delay(Duration, Duration);

impl Delay {
    fn parse(text: &str) -> Result<Self, String> {
        let (shortest, longest) = match text.split_once("..") {
            None => (parse_duration(text)?, parse_duration(text)?),
            Some((from, to)) => (parse_duration(from)?, parse_duration(to)?),
        };
        if shortest > longest {
            return Err(format!("`delay: {text}` ends before it begins; write the shorter time first"));
        }
        if longest > DELAY {
            return Err(format!("`delay` must be from 0s to {}", duration_text(DELAY)));
        }
        Ok(Self(shortest, longest))
    }

    fn draw(self, chance: impl FnOnce() -> u64) -> Duration {
        let span = u64::try_from((self.1 - self.0).as_micros()).unwrap_or(0);
        if span == 0 { self.0 } else { self.0 + Duration::from_micros(chance() % (span + 1)) }
    }
}

#[derive(Debug)]
struct Injects {
    share: u32,
    delay: Option<Delay>,
    bandwidth: Option<Bandwidth>,
    /// The status with which the request ends.
    end: Option<u16>,
}

/// The request was drawn: its response is slow too.
struct Drawn;

impl Injects {
    fn end(&self) -> Verdict {
        match self.end {
            None => Verdict::Continue,
            Some(status) => {
                let detail = "a fault was injected, as the configuration asks";
                Verdict::Fault(Fault { status, ..Fault::new(FaultKind::FaultInjected, detail) })
            }
        }
    }
}

impl Filter for Injects {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn argument(&self) -> String {
        let mut words = vec![format!("{}%", self.share)];
        if let Some(Delay(from, to)) = self.delay {
            let range = if from == to { String::new() } else { format!("..{}", duration_text(to)) };
            words.push(format!("delay {}{range}", duration_text(from)));
        }
        words.extend(
            self.bandwidth.map(|bandwidth| format!("bandwidth {}/s", size_text(bandwidth.bytes_per_second))),
        );
        words.extend(self.end.map(|status| match status {
            Fault::NO_ANSWER => "reset".to_owned(),
            status => format!("abort {status}"),
        }));
        words.join(", ")
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        if self.bandwidth.is_some() { Hooks::REQUEST | Hooks::RESPONSE } else { Hooks::REQUEST }
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let connection = cx.facts.connection;
        let is_drawn = || self.share == 100 || connection.chance() % 100 < u64::from(self.share);
        if cx.facts.is_dry_run || self.share == 0 || !is_drawn() {
            return Verdict::Continue;
        }
        if let Some(bandwidth) = self.bandwidth {
            cx.remember(Drawn);
            if cx.has_body {
                cx.throttle_body(bandwidth);
            }
        }
        match self.delay {
            Some(delay) => Verdict::Wait(Job::Sleep(delay.draw(|| connection.chance()))),
            None => self.end(),
        }
    }

    fn resume(&self, _cx: &mut RequestCx<'_>, _got: JobResult) -> Verdict {
        self.end()
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let is_drawn = cx.remembered::<Drawn>().is_some();
        if let Some(bandwidth) = self.bandwidth.filter(|_| is_drawn && cx.has_body) {
            cx.throttle_body(bandwidth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn verdict(json: &str) -> Verdict {
        Asked::at("/").send(&*built::<FaultSpec>(json).build().unwrap())
    }

    #[test]
    fn requests_are_delayed_or_broken_off() {
        assert!(
            matches!(verdict(r#"{"delay": "2s"}"#), Verdict::Wait(Job::Sleep(time)) if time.as_secs() == 2)
        );
        // The tests' chance is always 0.
        let drawn = verdict(r#"{"delay": "100ms..2s", "share": "1%"}"#);
        assert!(matches!(drawn, Verdict::Wait(Job::Sleep(time)) if time.as_millis() == 100));
        let fault = verdict(r#"{"abort": 503}"#);
        assert!(
            matches!(fault, Verdict::Fault(fault) if fault.status == 503 && fault.kind == FaultKind::FaultInjected)
        );
        assert!(
            matches!(verdict(r#"{"reset": true}"#), Verdict::Fault(fault) if fault.status == Fault::NO_ANSWER)
        );
        assert!(matches!(verdict(r#"{"abort": 500, "share": "0%"}"#), Verdict::Continue));
    }

    #[test]
    fn a_draw_stays_within_its_range() {
        let delay = Delay::parse("100ms..2s").unwrap();
        for chance in [0, 1, 1_900_000, 1_900_001, u64::MAX] {
            let drawn = delay.draw(|| chance);
            assert!(drawn >= Duration::from_millis(100) && drawn <= Duration::from_secs(2), "{drawn:?}");
        }
    }

    #[test]
    fn both_bodies_of_a_drawn_request_are_slow() {
        for (share, is_slow) in [("100%", true), ("0%", false)] {
            let mut asked = Asked::at("/");
            let json = format!(r#"{{"bandwidth": "20KiB/s", "share": "{share}"}}"#);
            let filter = built::<FaultSpec>(&json).build().unwrap();
            assert!(matches!(asked.send(&*filter), Verdict::Continue));
            let response = asked.answer(&*filter).bandwidth;
            for bandwidth in [asked.outcome.bandwidth, response] {
                let rate = bandwidth.map(|bandwidth| bandwidth.bytes_per_second);
                assert_eq!(rate, is_slow.then_some(20_480), "{share}");
            }
            assert_eq!(filter.argument(), format!("{share}, bandwidth 20KiB/s"));
        }
    }

    #[test]
    fn a_dry_run_draws_nothing() {
        let mut asked = Asked::at("/");
        asked.is_dry_run = true;
        let filter = built::<FaultSpec>(r#"{"abort": 500}"#).build().unwrap();
        assert!(matches!(asked.send(&*filter), Verdict::Continue));
    }

    #[test]
    fn wrong_faults_are_refused() {
        for (json, part) in [
            ("{}", "does nothing"),
            (r#"{"bandwidth": "20KB"}"#, "not a rate"),
            (r#"{"bandwidth": "20KB/s", "reset": true}"#, "no body to be slow"),
            (r#"{"share": "10%"}"#, "does nothing"),
            (r#"{"abort": 200}"#, "400 to 599"),
            (r#"{"abort": 500, "reset": true}"#, "one of"),
            (r#"{"delay": "61s"}"#, "0s to 1m"),
            (r#"{"delay": "2s..1s"}"#, "ends before it begins"),
            (r#"{"delay": "soon"}"#, "soon"),
            (r#"{"abort": 500, "share": "101%"}"#, "0% to 100%"),
        ] {
            let error = built::<FaultSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
