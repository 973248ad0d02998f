//! `mirror: shadow`: a copy of each request goes to another service, whose response nobody sees.
//!
//! The copy is what goes upstream after all filters. It leaves when the request's body has been sent on, so it never
//! delays the request; what becomes of it changes nothing for the client. Bodies over a bound, upgrades and what goes
//! over the worker's bounds on copies are not mirrored and are counted (`thalweg_limit_hits_total`, limit `copies`).

use crate::{Filter, Hooks, RequestCopy, RequestCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::units::{parse_duration, parse_percent, parse_size};

/// Bytes of a body that are copied where nothing is written.
const BODY: u64 = 64 * 1024;
/// The most that may be written.
const MOST_BODY: u64 = 1024 * 1024;
/// The longest that a copy may take.
const LONGEST: Duration = Duration::from_secs(60);

/// Where copies go: a service, or a map with more.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum MirrorSpec {
    /// The service alone.
    Short(String),
    /// With more.
    Long(MirrorMapSpec),
}

crate::shape::by_shape!(MirrorSpec, "the name of a service, or a map with `to`", { text => Short, map => Long });

/// Where copies go, and which.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `to`")]
pub struct MirrorMapSpec {
    /// The service that gets the copies.
    #[schemars(extend("x-shown" = true))]
    to: String,
    /// The share of requests that are copied, in whole percent.
    #[schemars(extend("x-default" = "100%"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*%[\s\u0085]*$"))]
    share: Option<String>,
    /// Requests with a larger body are not copied; at most `1MiB`.
    #[schemars(extend("x-default" = "64KiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$"))]
    max_body: Option<String>,
    /// For a copy as a whole, `100ms` to `1m`; it is then given up.
    #[schemars(extend("x-default" = "10s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$"))]
    timeout: Option<String>,
}

impl MirrorSpec {
    /// Checks the values; whether the service exists is checked by who knows the services.
    ///
    /// # Errors
    /// A share, a size or a time that is none or out of its range.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let (to, share, max_body, timeout) = match self {
            Self::Short(to) => (to, None, None, None),
            Self::Long(long) => {
                (&long.to, long.share.as_deref(), long.max_body.as_deref(), long.timeout.as_deref())
            }
        };
        let share = share.map_or(Ok(100), parse_percent)?;
        if !(1..=100).contains(&share) {
            return Err(format!("`share: {share}%` must be from 1% to 100%"));
        }
        let max_body = max_body.map_or(Ok(BODY), parse_size)?;
        if max_body > MOST_BODY {
            return Err("`max_body` may be 1MiB at most: copies are held in memory".into());
        }
        let timeout = timeout.map_or(Ok(Duration::from_secs(10)), parse_duration)?;
        if !(Duration::from_millis(100)..=LONGEST).contains(&timeout) {
            return Err("`timeout` must be from 100ms to 1m".into());
        }
        let copy = RequestCopy { service: to.as_str().into(), max_body: max_body as usize, timeout };
        Ok(Arc::new(Mirror { copy, share }))
    }
}

#[derive(Debug)]
struct Mirror {
    copy: RequestCopy,
    /// In percent.
    share: u32,
}

impl Filter for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn argument(&self) -> String {
        let RequestCopy { service, max_body, timeout } = &self.copy;
        format!("{}% to {service}, bodies up to {max_body} bytes, for {timeout:?}", self.share)
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn calls(&self) -> Vec<Arc<str>> {
        vec![self.copy.service.clone()]
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let is_drawn = self.share == 100 || cx.facts.connection.chance() % 100 < u64::from(self.share);
        let is_too_large = cx.content_length.is_some_and(|length| length > self.copy.max_body as u64);
        if is_drawn && !is_too_large && !cx.facts.is_dry_run {
            cx.copy_to(self.copy.clone());
        }
        Verdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn copies(json: &str) -> usize {
        let filter = built::<MirrorSpec>(json).build().unwrap();
        let mut asked = Asked::at("/a");
        asked.send(&*filter);
        asked.outcome.copies.len()
    }

    #[test]
    fn requests_are_copied_to_the_named_service() {
        assert_eq!(copies("\"shadow\""), 1);
        assert_eq!(copies("{\"to\": \"shadow\", \"share\": \"1%\"}"), 1, "chance is 0 here");
        let filter = built::<MirrorSpec>("\"shadow\"").build().unwrap();
        assert_eq!(filter.calls(), [Arc::from("shadow")]);
    }

    #[test]
    fn wrong_values_are_refused() {
        for (json, part) in [
            ("{\"to\": \"a\", \"share\": \"0%\"}", "1% to 100%"),
            ("{\"to\": \"a\", \"share\": \"101%\"}", "1% to 100%"),
            ("{\"to\": \"a\", \"max_body\": \"2MiB\"}", "1MiB"),
            ("{\"to\": \"a\", \"timeout\": \"2m\"}", "100ms to 1m"),
        ] {
            let error = built::<MirrorSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
