//! `throttle: { response: 512KB/s }`: bounds how fast bodies come, of requests, of responses, or of both.
//!
//! The relay paces (`relay/pacer.rs` of `proxy`): it takes no more from the sender than the rate allows, and TCP or the
//! flow control of HTTP/2 slows the sender. Held is no more than what came with a head. A throttled client is not
//! judged by `min_rate` while the pace holds it back. Counted is what arrives, before other filters change it.

use crate::{Bandwidth, Filter, Hooks, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_core::units::{parse_size, size_text};

/// The slowest rate, in bytes per second.
const LEAST: u64 = 1024;
/// The fastest.
const MOST: u64 = 1 << 40;
/// The time for which a burst stands where nothing is written: a quarter of a second, as a divisor.
const BURST: u64 = 4;
/// The shortest time for which a burst may stand, likewise: what a worker lets come between two looks.
const LEAST_BURST: u64 = 50;
/// The largest burst, in bytes.
const MOST_BURST: u64 = 1 << 30;

/// How fast bodies may come.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields, default, expecting = "a map with `request`, `response`, `burst`")]
pub struct ThrottleSpec {
    /// Of a request's body, in bytes per second, 1KiB/s to 1TiB/s.
    #[schemars(extend("x-default-words" = "no bound"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B/s[\s\u0085]*$", "examples" = ["1MB/s", "64KiB/s"]))]
    request: Option<String>,
    /// Of a response's body, in bytes per second, 1KiB/s to 1TiB/s.
    #[schemars(extend("x-default-words" = "no bound"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B/s[\s\u0085]*$", "examples" = ["1MB/s", "64KiB/s"]))]
    response: Option<String>,
    /// Bytes that may come at once, first and after a pause; at least what comes in 20ms.
    #[schemars(extend("x-range" = ["1KiB", "1GiB"], "x-default-words" = "what comes in 250ms, at least 4KiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["64KiB", "1MB"]))]
    burst: Option<String>,
}

impl ThrottleSpec {
    /// Checks rates and burst.
    ///
    /// # Errors
    /// A rate or burst that is none or out of its range, or no rate at all.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let burst = self.burst.as_deref().map(parse_size).transpose()?;
        if burst.is_some_and(|burst| !(1024..=MOST_BURST).contains(&burst)) {
            return Err("`burst` must be from 1KiB to 1GiB".into());
        }
        let side = |text: &Option<String>| text.as_deref().map(|text| bandwidth(text, burst)).transpose();
        let (request, response) = (side(&self.request)?, side(&self.response)?);
        if request.is_none() && response.is_none() {
            return Err("`throttle` without a rate changes nothing; write `response: 1MB/s`".into());
        }
        Ok(Arc::new(Throttle { request, response }))
    }
}

/// A rate as it is written, `512KB/s`, with a burst or the usual one.
pub(crate) fn bandwidth(text: &str, burst: Option<u64>) -> Result<Bandwidth, String> {
    let Some(size) = text.trim().strip_suffix("/s") else {
        return Err(format!("`{text}` is not a rate; write for example `512KB/s`"));
    };
    let rate = parse_size(size)?;
    if !(LEAST..=MOST).contains(&rate) {
        return Err(format!("`{text}`: a rate must be from 1KiB/s to 1TiB/s"));
    }
    let least = (rate / LEAST_BURST).min(MOST_BURST);
    if burst.is_some_and(|burst| burst < least) {
        return Err(format!("`burst` must hold what comes in 20ms of `{text}`: write `{least}B` or more"));
    }
    let burst = burst.unwrap_or((rate / BURST).clamp(4096, MOST_BURST));
    Ok(Bandwidth { bytes_per_second: rate, burst })
}

#[derive(Debug)]
struct Throttle {
    request: Option<Bandwidth>,
    response: Option<Bandwidth>,
}

impl Filter for Throttle {
    fn name(&self) -> &'static str {
        "throttle"
    }

    fn argument(&self) -> String {
        let side = |name: &str, side: Option<Bandwidth>| {
            side.map(|Bandwidth { bytes_per_second, burst }| {
                format!("{name} {}/s, {} at once", size_text(bytes_per_second), size_text(burst))
            })
        };
        let sides = [side("request", self.request), side("response", self.response)];
        sides.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        let request = if self.request.is_some() { Hooks::REQUEST } else { Hooks::NONE };
        let response = if self.response.is_some() { Hooks::RESPONSE } else { Hooks::NONE };
        request | response
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if let Some(bandwidth) = self.request.filter(|_| cx.has_body) {
            cx.throttle_body(bandwidth);
        }
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        if let Some(bandwidth) = self.response.filter(|_| cx.has_body) {
            cx.throttle_body(bandwidth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    #[test]
    fn the_slowest_of_all_filters_counts() {
        let mut asked = Asked::at("/");
        for (json, rate) in [
            (r#"{"request": "1MB/s"}"#, 1_000_000),
            (r#"{"request": "64KiB/s", "response": "1KiB/s"}"#, 65_536),
            (r#"{"request": "2MB/s"}"#, 65_536),
        ] {
            let filter = built::<ThrottleSpec>(json).build().unwrap();
            assert!(matches!(asked.send(&*filter), Verdict::Continue));
            let asked_for = asked.outcome.bandwidth.map(|bandwidth| bandwidth.bytes_per_second);
            assert_eq!(asked_for, Some(rate), "{json}");
        }
        let filter = built::<ThrottleSpec>(r#"{"response": "1KiB/s", "burst": "8KiB"}"#).build().unwrap();
        let outcome = asked.answer(&*filter);
        assert_eq!(outcome.bandwidth, Some(Bandwidth { bytes_per_second: 1024, burst: 8192 }));
        assert_eq!((filter.hooks(), &*filter.argument()), (Hooks::RESPONSE, "response 1KiB/s, 8KiB at once"));
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (json, part) in [
            ("{}", "changes nothing"),
            (r#"{"burst": "64KiB"}"#, "changes nothing"),
            (r#"{"response": "1MB"}"#, "not a rate"),
            (r#"{"response": "5B/s"}"#, "from 1KiB/s to 1TiB/s"),
            (r#"{"response": "1MB/s", "burst": "1B"}"#, "from 1KiB to 1GiB"),
            (r#"{"response": "1MB/s", "burst": "19KB"}"#, "write `20000B` or more"),
        ] {
            let error = built::<ThrottleSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
