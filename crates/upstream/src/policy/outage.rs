//! When no endpoint is well.

use serde::Serialize;
use std::sync::Arc;
use thalweg_core::written;

/// `services.<name>.when_down`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenDown {
    /// `error`, the default: endpoints that failed health checks are not used; the client gets 503 and the
    /// fault `destination_unavailable`. Those that were only ejected are tried all the same.
    #[default]
    Error,
    /// `try_all`: every endpoint is tried, whatever is known of it (fail open).
    TryAll,
    /// `{ status: …, body: … }`: this answer, which is the fault's all the same.
    #[serde(untagged)]
    Answer(StaticAnswer),
}

/// A response that stands in the configuration.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct StaticAnswer {
    /// 200–599.
    pub status: u16,
    /// Default `text/plain; charset=utf-8`.
    #[serde(serialize_with = "written::text")]
    pub content_type: Arc<str>,
    /// At most 64 KiB.
    #[serde(serialize_with = "written::text")]
    pub body: Arc<str>,
}
