//! The configuration, as the admin API shows and replaces it.

use schemars::JsonSchema;
use serde::Serialize;

use super::change::{ConfigChange, ListenerChange, RuntimeChange};
use super::history::{Author, WatchOptions, WatchStatus};

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
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReplaceOptions {
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
    /// Run it without writing the file; a restart or reload brings the file's back.
    pub ephemeral: bool,
    /// Watch it afterwards, and take it back when it does harm.
    pub watch: Option<WatchOptions>,
    /// Who asks.
    pub by: Author,
}

/// How the configuration is to be read again.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReloadOptions {
    /// Watch it afterwards, and take it back when it does harm.
    pub watch: Option<WatchOptions>,
    /// Who asks.
    pub by: Author,
}

/// How an earlier configuration is to be brought back.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RollbackOptions {
    /// Its number in the history; `None`: the newest one before the present that was not taken back.
    pub to: Option<u64>,
    /// Who asks.
    pub by: Author,
}

/// What a plan, a trial run or a change of the configuration comes to.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct ConfigOutcome {
    /// The tag of the configuration that runs now; with `dry_run`, of the one that would.
    pub etag: String,
    /// Number of the plan that runs now.
    pub generation: u64,
    /// Whether nothing was changed because only a trial was asked for.
    pub dry_run: bool,
    /// Its number in the history; absent with `dry_run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What changes, by object.
    pub changes: Vec<ConfigChange>,
    /// Listeners that open or close.
    pub listeners: Vec<ListenerChange>,
    /// Keys whose change waits for a restart.
    pub waits_for_restart: Vec<String>,
    /// What the admin API has changed over what the file says.
    pub drift: Vec<RuntimeChange>,
    /// What else there is to know, a sentence each.
    pub notes: Vec<String>,
    /// What was accepted but may not be meant, one line each.
    pub warnings: Vec<String>,
    /// How it is watched; absent when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchStatus>,
    /// All of it for people.
    pub text: String,
}

/// One mistake in a configuration.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Mistake {
    /// The file, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
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
