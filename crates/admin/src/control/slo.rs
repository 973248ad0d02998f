//! Objectives, as the admin API shows them.

use schemars::JsonSchema;
use serde::Serialize;

/// The answer to `GET /api/v1/slos`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Slos {
    /// In the order of the configuration.
    pub slos: Vec<SloStatus>,
}

/// How an objective stands.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SloStatus {
    /// Its name.
    pub name: String,
    /// The route that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The service that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The share of exchanges that must be good, 0 to 1.
    pub target: f64,
    /// What takes longer than so many microseconds is bad too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_us: Option<u64>,
    /// The time over which that is judged, in seconds.
    pub window_s: u64,
    /// How much of that time is known, in seconds: less than all of it after a start, or without `state`.
    pub covered_s: u64,
    /// Exchanges in that time that were good.
    pub good: u64,
    /// All exchanges in that time.
    pub total: u64,
    /// What is left of the exchanges that may be bad in that time, 0 to 1.
    pub budget_left: f64,
    /// How many times too fast the budget was used up lately.
    pub burn: Vec<SloBurn>,
    /// Whether the budget holds.
    pub state: SloState,
}

/// How fast the budget was used up over a time.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct SloBurn {
    /// The time until now, in seconds.
    pub window_s: u64,
    /// With 1 the budget is used up when the window of the objective ends.
    pub rate: f64,
}

/// Whether the budget of an objective is used up too fast, or is used up.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SloState {
    /// It is not, and something is left of it.
    Ok,
    /// It is: 14.4 times too fast over 1 h and 5 m, or 6 times over 6 h and 30 m.
    Burning,
    /// It is not any more, but nothing is left of it: more was bad in the window than may be.
    Exhausted,
}
