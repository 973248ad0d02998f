//! Configurations that have run, and how the present one is watched.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

use super::service::rfc3339;

/// Who asks for a change of the configuration.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Author {
    /// How they came.
    pub via: Via,
    /// The user at the other end of the unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Address and port of the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

/// How somebody reached the proxy.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Nobody asked: the proxy itself, or a signal.
    #[default]
    Process,
    /// The unix socket: the user that runs the proxy, or root.
    Socket,
    /// The admin listener, with the write token.
    Token,
}

/// How a configuration is watched after it took over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WatchOptions {
    /// For this time, 1 s–1 h.
    pub time: Duration,
    /// Most that the share of failed exchanges of a route may grow, in points of percent, 1–100. Default 5.
    pub max_errors: u32,
    /// Most that the p99 of a route may grow to, in percent of what it was, 101–10,000. Default 200.
    pub max_p99: u32,
    /// Exchanges of a route before it is judged. Default 20.
    pub min_requests: u64,
}

impl WatchOptions {
    /// Most for [`Self::time`], in seconds.
    pub const TIME_MAX: u64 = 3600;
    /// Default of [`Self::max_errors`].
    pub const MAX_ERRORS: u32 = 5;
    /// Default of [`Self::max_p99`].
    pub const MAX_P99: u32 = 200;
    /// Default of [`Self::min_requests`].
    pub const MIN_REQUESTS: u64 = 20;

    /// A watch with the defaults.
    pub fn of(time: Duration) -> Self {
        let (max_errors, max_p99, min_requests) = (Self::MAX_ERRORS, Self::MAX_P99, Self::MIN_REQUESTS);
        Self { time, max_errors, max_p99, min_requests }
    }
}

/// How a configuration is or was watched.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct WatchStatus {
    /// Where it stands.
    pub state: WatchState,
    /// When it ends by itself, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub until: SystemTime,
    /// What came of it, in a sentence; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

/// Where a watch stands.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchState {
    /// It runs.
    Watching,
    /// Its time was over, and nothing spoke against the configuration.
    Passed,
    /// The configuration did harm and was taken back.
    RolledBack,
    /// Another configuration took over before its time was over, or the process ended.
    Replaced,
    /// The configuration did harm, and the one before it could not take over.
    Failed,
}

/// The answer to `GET /api/v1/history`.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct History {
    /// Configurations that took over, newest first; the first one runs.
    pub entries: Vec<HistoryEntry>,
}

/// A configuration that took over.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HistoryEntry {
    /// Its number, from 1; goes on over restarts where the history is kept. `POST /api/v1/rollback` takes it.
    pub number: u64,
    /// When it took over, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: SystemTime,
    /// Number of the plan that it became; begins anew with each start of the process.
    pub generation: u64,
    /// Why it took over.
    pub origin: ConfigOrigin,
    /// Who asked for it.
    pub by: Author,
    /// Its tag.
    pub etag: String,
    /// Size of its text, in bytes.
    pub bytes: usize,
    /// Whether it ran without being written to the file.
    pub ephemeral: bool,
    /// What became of it.
    pub state: HistoryState,
    /// How it was watched; absent when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchStatus>,
}

/// Why a configuration took over.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigOrigin {
    /// The process started with it.
    Start,
    /// SIGHUP.
    Signal,
    /// `POST /api/v1/reload`, as `thalweg reload` asks.
    Reload,
    /// `PUT /api/v1/config`.
    Put,
    /// The file had changed.
    File,
    /// `POST /api/v1/rollback`.
    Rollback,
    /// A watch took back the one after it.
    Watch,
    /// Sources of routes told of other documents.
    Source,
}

/// What became of a configuration.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryState {
    /// It runs.
    Running,
    /// Another one took its place.
    Replaced,
    /// It was taken back: by a watch, or by somebody.
    RolledBack,
}
