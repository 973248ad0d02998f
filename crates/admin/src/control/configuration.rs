//! The configuration, as the admin API shows and replaces it.

use schemars::JsonSchema;
use serde::Serialize;

/// The answer to `GET /api/v1/config` for those who accept JSON.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ConfigDocument {
    /// The text as it was written, with secrets by value shown as `<redacted>`.
    pub text: String,
    /// How it is written.
    pub format: ConfigFormat,
    /// An opaque text of letters, digits, `-` and `_` that changes with the configuration.
    pub etag: String,
    /// The file; absent when the proxy runs without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether the file can be replaced.
    pub writable: bool,
}

/// How a configuration is written.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigFormat {
    /// YAML; JSON is accepted too, being a part of it.
    Yaml,
    /// JSON.
    Json,
    /// TOML.
    Toml,
}

/// How a configuration is to be replaced.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReplaceOptions {
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
    /// Run it without writing the file; a restart or reload brings the file's back.
    pub ephemeral: bool,
}

/// The answer to `PUT /api/v1/config` and `POST /api/v1/reload`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ConfigOutcome {
    /// The tag of the configuration that runs now; with `dry_run`, of the one that would.
    pub etag: String,
    /// Number of the plan that runs now.
    pub generation: u64,
    /// Whether nothing was changed because only a trial was asked for.
    pub dry_run: bool,
    /// What changes, one line each.
    pub changes: Vec<String>,
    /// What was accepted but may not be meant, one line each.
    pub warnings: Vec<String>,
}

/// One mistake in a configuration.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Mistake {
    /// Line in the text, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}
