//! `concurrency: { max: 10, key: client_ip }`: how many requests of a key may be in flight at once.
//!
//! A request takes its place when it reaches the filter and gives it back when its exchange is over, however it ends:
//! the place is among what the exchange remembers, and goes with it. An upgraded connection keeps its place until it
//! closes.

use crate::limit_key::{Key, KeySpec, MissingSpec, PrefixSpec};
use crate::named::Named;
use crate::{Filter, Hooks, RequestCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_access::InFlight;
use thalweg_core::units::{duration_text, parse_duration};

/// How many requests may be in flight at once, for each key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `max` and `key`")]
pub struct ConcurrencySpec {
    /// Requests in flight at once.
    #[schemars(extend("x-range" = [1, 1_000_000]))]
    max: u32,
    /// What is counted by.
    #[schemars(extend("x-default" = "client_ip"))]
    key: Option<KeySpec>,
    /// How many bits of addresses make a key.
    #[serde(default)]
    prefix: PrefixSpec,
    /// What becomes of requests without a key.
    #[schemars(extend("x-default" = "share"))]
    missing: Option<MissingSpec>,
    /// The status of those that are refused: 429, or 503 where it is no fault of the client.
    #[schemars(extend("x-default" = 429))]
    status: Option<u16>,
    /// When they may come back (`Retry-After`), whole seconds.
    #[schemars(extend("x-range" = ["1s", "1h"], "x-default" = "1s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["1s", "10s"]))]
    retry_after: Option<String>,
    /// Filters of the same name count together, wherever they stand.
    #[schemars(extend("x-default-words" = "each counts by itself"))]
    name: Option<String>,
    /// Whether requests that it would refuse pass; the access log says so.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    dry_run: bool,
}

impl ConcurrencySpec {
    /// Checks numbers and key.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        if !(1..=1_000_000).contains(&self.max) {
            return Err("`max` must be from 1 to 1000000".into());
        }
        let status = self.status.unwrap_or(429);
        if !matches!(status, 429 | 503) {
            return Err("`status` of `concurrency` is 429 or 503".into());
        }
        let retry_after = self.retry_after.as_deref().map_or(Ok(Duration::from_secs(1)), parse_duration)?;
        if retry_after.subsec_nanos() != 0 || !(1..=3600).contains(&retry_after.as_secs()) {
            return Err("`retry_after` must be from 1s to 1h, in whole seconds".into());
        }
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.len() > 64) {
            return Err("`name` has 1 to 64 bytes".into());
        }
        let key = self.key.clone().unwrap_or_else(KeySpec::client_ip).build(&self.prefix, "in flight")?;
        Ok(Arc::new(Concurrency {
            max: self.max,
            key,
            missing: self.missing.unwrap_or_default(),
            status,
            retry_after,
            name: self.name.as_deref().map(Into::into),
            is_dry_run: self.dry_run,
            in_flight: OnceLock::new(),
        }))
    }
}

#[derive(Debug)]
struct Concurrency {
    max: u32,
    key: Key,
    missing: MissingSpec,
    status: u16,
    retry_after: Duration,
    name: Option<Box<str>>,
    is_dry_run: bool,
    in_flight: OnceLock<Arc<InFlight>>,
}

/// Counts of filters that count together.
static NAMED: Named<Box<str>, InFlight> = Named::new();

impl Concurrency {
    fn in_flight(&self) -> &Arc<InFlight> {
        self.in_flight.get_or_init(|| {
            self.name.as_ref().map_or_else(Arc::default, |name| NAMED.share(name, Arc::default))
        })
    }

    /// Answers with the status, or lets it pass in a dry run.
    fn refuse(&self, cx: &mut RequestCx<'_>, (detail, reason): (&'static str, String)) -> Verdict {
        if self.is_dry_run {
            cx.explain(format!("{reason} (dry run)"));
            return Verdict::Continue;
        }
        cx.fault_field("Retry-After", self.retry_after.as_secs().to_string().as_bytes());
        cx.refuse(self.status, detail, reason)
    }
}

impl Filter for Concurrency {
    fn name(&self) -> &'static str {
        "concurrency"
    }

    fn argument(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(", counted as {name}")).unwrap_or_default();
        let dry_run = if self.is_dry_run { ", dry run" } else { "" };
        let (max, key, status) = (self.max, self.key.text(), self.status);
        format!(
            "{max} by {key}, else {status}, retry after {}{name}{dry_run}",
            duration_text(self.retry_after)
        )
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn captures(&self) -> Vec<String> {
        self.key.captures().collect()
    }

    fn adopt(&self, former: &dyn Filter) {
        let former = former as &dyn Any;
        if let Some(former) = former.downcast_ref::<Self>().filter(|former| former.name == self.name)
            && let Some(in_flight) = former.in_flight.get()
        {
            self.in_flight.get_or_init(|| in_flight.clone());
        }
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if cx.facts.is_dry_run {
            return Verdict::Continue;
        }
        let (key, is_whole) = self.key.of(&cx.values());
        match self.missing {
            MissingSpec::Allow if !is_whole => return Verdict::Continue,
            MissingSpec::Deny if !is_whole => {
                let reason = format!("concurrency: no key ({})", self.key.text());
                return self.refuse(cx, ("a request without what its limit counts by", reason));
            }
            _ => {}
        }
        match self.in_flight().enter(key, self.max) {
            Some(place) => {
                cx.remember(place);
                Verdict::Continue
            }
            None => {
                let reason = format!("concurrency: {} in flight by {}", self.max, self.key.text());
                self.refuse(cx, ("too many requests at once", reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn filter(json: &str) -> Arc<dyn Filter> {
        built::<ConcurrencySpec>(json).build().unwrap()
    }

    fn status(asked: &mut Asked, filter: &dyn Filter) -> Option<u16> {
        match asked.send(filter) {
            Verdict::Continue => None,
            Verdict::Fault(fault) => Some(fault.status),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_place_is_taken_while_the_exchange_remembers() {
        let two = filter(r#"{"max": 2}"#);
        let mut held: Vec<Asked> = (0..2).map(|_| Asked::at("/")).collect();
        assert!(held.iter_mut().all(|asked| status(asked, &*two).is_none()));
        let mut third = Asked::at("/");
        assert_eq!(status(&mut third, &*two), Some(429));
        assert_eq!(third.outcome.reason.as_deref(), Some("concurrency: 2 in flight by client_ip"));
        assert_eq!(third.outcome.fault_fields, b"Retry-After: 1\r\n");
        let mut other = Asked::at("/");
        other.client_ip = "192.0.2.2".parse().unwrap();
        assert_eq!(status(&mut other, &*two), None);
        held.pop();
        assert_eq!(status(&mut third, &*two), None);
    }

    #[test]
    fn places_outlive_a_reload() {
        let first = filter(r#"{"max": 1, "status": 503, "retry_after": "5s"}"#);
        let mut held = Asked::at("/");
        assert_eq!(status(&mut held, &*first), None);
        let second = filter(r#"{"max": 1}"#);
        second.adopt(&*first);
        assert_eq!(status(&mut Asked::at("/"), &*second), Some(429));
        drop(held);
        assert_eq!(status(&mut Asked::at("/"), &*second), None);
    }

    #[test]
    fn a_question_and_a_dry_run_refuse_nothing() {
        let one = filter(r#"{"max": 1}"#);
        let mut held = Asked::at("/");
        assert_eq!(status(&mut held, &*one), None);
        let mut question = Asked::at("/");
        question.is_dry_run = true;
        assert_eq!(status(&mut question, &*one), None);
        let dry = filter(r#"{"max": 1, "dry_run": true, "key": {"header": "X-T"}, "missing": "deny"}"#);
        let mut asked = Asked::at("/");
        assert_eq!(status(&mut asked, &*dry), None);
        assert_eq!(asked.outcome.reason.as_deref(), Some("concurrency: no key (header X-T) (dry run)"));
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (json, part) in [
            (r#"{"max": 0}"#, "1 to 1000000"),
            (r#"{"max": 1, "status": 500}"#, "429 or 503"),
            (r#"{"max": 1, "retry_after": "500ms"}"#, "whole seconds"),
            (r#"{"max": 1, "name": ""}"#, "1 to 64"),
        ] {
            let error = built::<ConcurrencySpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
