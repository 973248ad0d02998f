//! `slos.<name>:` which share of the exchanges must be good.

use super::spanned::Spanned;
use super::values::{DurationSpec, GoalSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `slos.<name>:`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `route` or `service`, and `target`")]
pub struct SloSpec {
    /// The route that it is about, by its name.
    #[schemars(extend("x-default-words" = "none: `service` is written"))]
    pub route: Option<Spanned<String>>,
    /// The service that it is about.
    #[schemars(extend("x-default-words" = "none: `route` is written"))]
    #[schemars(extend("x-shown" = true))]
    pub service: Option<Spanned<String>>,
    /// The share of the exchanges that must be good, from 50% to 99.999%. A status from 500 on is bad.
    pub target: Spanned<GoalSpec>,
    /// The time over which that is judged, in whole hours.
    #[schemars(extend("x-range" = ["1h", "30d"], "x-default" = "30d"))]
    pub window: Option<Spanned<DurationSpec>>,
    /// What takes longer is bad too. Durations are counted in buckets: one of 500us, 1ms, 2500us, 5ms, 10ms, 25ms,
    /// 50ms, 100ms, 250ms, 500ms, 1s, 2500ms, 5s, 10s, 30s and 1m.
    #[schemars(extend("x-default-words" = "however long it takes"))]
    pub slower_than: Option<Spanned<DurationSpec>>,
}
