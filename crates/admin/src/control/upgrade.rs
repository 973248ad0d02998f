//! An upgrade: another process takes over.

use std::future::Future;
use std::pin::Pin;

use schemars::JsonSchema;
use serde::Serialize;

use super::refusal::Refusal;

/// An upgrade under way. Dropping it stops nothing.
pub type Upgrading = Pin<Box<dyn Future<Output = Result<Upgraded, Refusal>> + Send>>;

/// Which process has taken over.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Upgraded {
    /// Its number.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The version that was replaced.
    pub before: String,
}
