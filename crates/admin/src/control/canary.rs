//! Canaries, as the admin API shows and orders them.

use schemars::JsonSchema;
use serde::Serialize;

/// Where the canary of a route stands.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct CanaryStatus {
    /// The route.
    pub route: String,
    /// The newcomer.
    pub service: String,
    /// `running`, `paused`, `rolled_back` or `finished`.
    pub phase: String,
    /// The step, from 1 on.
    pub step: u32,
    /// The shares of the steps, in percent.
    pub steps: Vec<u32>,
    /// The newcomer's share now, in percent.
    pub share: u32,
    /// Why it stands so; empty where there is nothing to say.
    pub reason: String,
    /// How long it has been at its step, in seconds.
    pub seconds: u64,
    /// What the newcomer did since the step began.
    pub newcomer: CanaryFigures,
    /// What the other services did meanwhile.
    pub baseline: CanaryFigures,
}

/// What was counted since a step began.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct CanaryFigures {
    /// Exchanges that ended.
    pub requests: u64,
    /// Those of them with a status from 500 on.
    pub errors: u64,
    /// What 99 of 100 of them kept, in milliseconds; absent without exchanges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
}

/// What may be asked of a canary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CanaryOrder {
    /// From the first step on, after it was rolled back, paused or finished.
    Start,
    /// It stays where it is.
    Pause,
    /// It goes on where it was paused.
    Resume,
    /// The newcomer gets the share of the last step.
    Promote,
    /// The newcomer gets nothing.
    Rollback,
}

impl CanaryOrder {
    /// Every order.
    pub const ALL: &'static [Self] = &[Self::Start, Self::Pause, Self::Resume, Self::Promote, Self::Rollback];

    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Promote => "promote",
            Self::Rollback => "rollback",
        }
    }

    /// The order of this word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|order| order.name() == name)
    }
}

/// A canary was ordered.
#[derive(Clone, Debug)]
pub struct CanaryChanged {
    /// Number of the endpoint sets after the change.
    pub version: u64,
    /// How it stood.
    pub before: CanaryStatus,
    /// How it stands.
    pub after: CanaryStatus,
}
