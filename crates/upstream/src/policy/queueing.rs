//! Who may wait for a place, for how long, and who goes first.

use serde::Serialize;
use std::time::Duration;
use thalweg_core::written;

/// Who goes first when several wait (`routes[].limits.priority`). Within one, the first to come.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// When nobody else waits; the first to make room in a line that is full.
    Low,
}

/// How many may wait at a concurrency limit, and for how long (`limits.queue`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct QueuePolicy {
    /// Most that wait at once, 0–100,000; 0: nobody waits. Default 100.
    pub size: u32,
    /// Longest wait of one; default 1 s.
    #[serde(serialize_with = "written::duration")]
    pub timeout: Duration,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self { size: 100, timeout: Duration::from_secs(1) }
    }
}
