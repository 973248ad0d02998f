//! What the admin API may ask of the running proxy and tell it.
//!
//! The binary implements [`Control`]; handlers call it on the admin thread. Invariant: no method
//! waits for a worker.

use serde::Serialize;

use crate::events::Events;

/// The running proxy, as the admin API sees it.
pub trait Control: Send + Sync + 'static {
    /// The figures of `GET /api/v1/status`.
    fn status(&self) -> Status;

    /// Whether every worker turns (`/livez`).
    ///
    /// # Errors
    /// Which worker does not, in a sentence.
    fn alive(&self) -> Result<(), String>;

    /// Whether traffic should be sent here (`/readyz`): a plan runs, listeners are bound, no drain.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn ready(&self) -> Result<(), String>;

    /// The metrics page in the Prometheus text format 0.0.4.
    fn metrics(&self) -> String;

    /// The events of this process (`GET /api/v1/events`).
    fn events(&self) -> &Events;

    /// Begins to drain and then ends the process. Returns at once; further calls change nothing.
    fn stop(&self);
}

/// The answer to `GET /api/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Version of the proxy.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Whether it takes new connections.
    pub state: State,
    /// Number of the plan that runs: 1 at start, one more with every reload.
    pub generation: u64,
    /// Number of workers.
    pub workers: usize,
    /// Listeners of the plan.
    pub listeners: Vec<ListenerStatus>,
    /// Client connections.
    pub connections: ConnectionStatus,
    /// Exchanges under way.
    pub requests_active: u64,
    /// File descriptors.
    pub descriptors: DescriptorStatus,
}

/// Whether the proxy takes new connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Running,
    /// It finishes what it has and then ends.
    Draining,
}

/// One listener.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The address it is bound to, with the port that the kernel chose.
    pub address: String,
    /// `http`, `tcp` and so on, as in the configuration.
    pub protocol: String,
}

/// Client connections and their bound.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ConnectionStatus {
    /// Open now.
    pub active: u64,
    /// May be open.
    pub max: u64,
}

/// File descriptors and their bound.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DescriptorStatus {
    /// Open now; absent when it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// May be open.
    pub limit: u64,
}
