//! Labels that the running proxy seals.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

/// What is to be sealed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewLabel {
    /// `10.0.0.7:3000`, `https://10.0.0.7:8443` or `service:checkout`.
    pub destination: String,
    /// How long it is good for.
    pub ttl: Duration,
    /// The route that is to take it; `None`: the only one that takes labels.
    pub route: Option<String>,
}

/// A label. Whoever has it can use it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SealedLabel {
    /// The host name that it stands in.
    pub host: String,
    /// The label: 63 characters.
    pub label: String,
    /// When it expires, in seconds since the Unix epoch.
    pub expires: u64,
    /// The id of the key that sealed it.
    pub key: u8,
    /// What logs show of it.
    pub redacted: String,
    /// The route that takes it.
    pub route: String,
}
