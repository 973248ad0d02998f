//! `services.<name>.ejection:` leaving endpoints out that fail the requests sent to them.

use crate::spec::{DurationSpec, ListSpec, PercentSpec, Spanned, StatusSpec, TenthsSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `ejection:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of rules")]
pub struct EjectionSpec {
    /// Failures in a row that eject, where 0 is never.
    #[schemars(extend("x-range" = [0, 1000], "x-default" = 5))]
    pub consecutive: Option<Spanned<u64>>,
    /// Responses that count as failures, beside resets, timeouts and malformed ones.
    #[schemars(extend("x-default-words" = "none"))]
    pub statuses: ListSpec<StatusSpec>,
    /// Share of failures in the window that ejects.
    #[schemars(extend("x-range" = ["1%", "100%"], "x-default-words" = "none"))]
    pub failures: Option<Spanned<PercentSpec>>,
    /// Standard deviations below the mean success rate of all that eject.
    #[schemars(extend("x-range" = [0.1, 10], "x-default-words" = "none"))]
    pub success_rate: Option<Spanned<TenthsSpec>>,
    /// Mean latency in percent of the median of all that ejects.
    #[schemars(extend("x-range" = ["110%", "10000%"], "x-default-words" = "none"))]
    pub latency: Option<Spanned<PercentSpec>>,
    /// Requests that an endpoint must have had in the window to be judged by a share.
    #[schemars(extend("x-range" = [1, 1000000], "x-default" = 20))]
    pub min_requests: Option<Spanned<u64>>,
    /// The time that is looked at.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "10s"))]
    pub window: Option<Spanned<DurationSpec>>,
    /// How long the first ejection lasts; each that follows on another takes twice as long.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "5s"))]
    pub time: Option<Spanned<DurationSpec>>,
    /// And at most.
    #[schemars(extend("x-range" = ["100ms", "1d"], "x-default" = "5m"))]
    pub max_time: Option<Spanned<DurationSpec>>,
    /// Most of the endpoints that these rules may leave out at once.
    #[schemars(extend("x-range" = ["0%", "100%"], "x-default" = "50%"))]
    pub max_share: Option<Spanned<PercentSpec>>,
}
