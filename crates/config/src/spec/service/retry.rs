//! `retry:` of a service, or of the defaults that services inherit.

use crate::spec::{DurationSpec, ListSpec, PercentSpec, Spanned, StatusSpec, SwitchSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `retry:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `attempts`")]
pub struct RetrySpec {
    /// Attempts in all, 1–10; default 2.
    pub attempts: Option<Spanned<u64>>,
    /// Responses after which another attempt is made: 5xx, 408, 421, 429; default none.
    pub statuses: Option<ListSpec<StatusSpec>>,
    /// For one attempt, until the head of its response; default: `timeouts.first_byte`.
    pub per_try: Option<Spanned<DurationSpec>>,
    /// Requests that may be sent again, in percent of all of the service, 0%–1000%; default 20%.
    pub budget: Option<Spanned<PercentSpec>>,
    /// As many per second may always be, 0–1000000; default 3.
    pub min_per_second: Option<Spanned<u64>>,
    /// A second copy of a request that is slow to be answered; default `off`.
    pub hedge: Option<Spanned<SwitchSpec<HedgeSpec>>>,
}

/// `retry.hedge:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `after`")]
pub struct HedgeSpec {
    /// The copy is sent when there is no response after this time, 1ms–1m.
    pub after: Spanned<DurationSpec>,
    /// Copies in percent of all requests of the service, 1%–100%; default 5%.
    pub budget: Option<Spanned<PercentSpec>>,
}
