//! `services.<name>.pool:` how connections are kept.

use crate::diagnose::Problems;
use crate::spec::{AutoSpec, DurationSpec, Spanned};
use crate::validate::{bounded, deadline};
use schemars::JsonSchema;
use serde::Deserialize;
use thalweg_upstream::PoolPolicy;

/// Most idle connections kept per endpoint and worker.
const IDLE: u64 = 65_535;

/// `pool:` per endpoint and worker.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of pool settings")]
pub struct PoolSpec {
    /// Idle connections kept; `auto`: as many as were in use at once.
    #[schemars(extend("x-range" = [0, IDLE], "x-default" = "auto"))]
    pub max_idle: Option<Spanned<AutoSpec>>,
    /// An idle connection is closed after this time.
    #[schemars(extend("x-default" = "60s"))]
    pub idle: Option<Spanned<DurationSpec>>,
    /// A connection is not reused after this time.
    #[schemars(extend("x-default" = "1h"))]
    pub max_age: Option<Spanned<DurationSpec>>,
    /// A connection is not reused after this many requests.
    #[schemars(extend("x-range" = [1, u32::MAX], "x-default-words" = "no limit"))]
    pub max_requests: Option<Spanned<u64>>,
    /// Whether a request takes the connection that has been idle longest, and not the one that was used last: requests
    /// then go round all idle connections, and so round what is behind an endpoint that is a load balancer itself. None
    /// of them passes `idle` while there is traffic.
    #[schemars(extend("x-default" = false))]
    pub oldest_first: Option<bool>,
}

impl PoolSpec {
    /// What it comes to; where nothing is written, what is built in.
    pub(crate) fn policy(&self, problems: &mut Problems) -> PoolPolicy {
        let built_in = PoolPolicy::default();
        let max_idle = self.max_idle.as_ref().and_then(|value| match value.value {
            AutoSpec::Auto => None,
            AutoSpec::Number(n) => bounded(&Spanned::new(value.span, n), 0, IDLE, problems),
        });
        let most = u64::from(u32::MAX);
        let max_requests = self.max_requests.as_ref().and_then(|n| bounded(n, 1, most, problems));
        PoolPolicy {
            max_idle: max_idle.and_then(|n| u32::try_from(n).ok()),
            idle: deadline(self.idle.as_ref(), problems).unwrap_or(built_in.idle),
            max_age: deadline(self.max_age.as_ref(), problems).unwrap_or(built_in.max_age),
            max_requests: max_requests.and_then(|n| u32::try_from(n).ok()).unwrap_or(built_in.max_requests),
            oldest_first: self.oldest_first.unwrap_or(built_in.oldest_first),
        }
    }
}
