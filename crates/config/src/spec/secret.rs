//! Secrets, which stand in the file by reference.

use super::spanned::Spanned;
use schemars::JsonSchema;
use serde::Deserialize;

/// Where a secret comes from.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "a map with `file`, `env` or `value`")]
pub enum SecretSpec {
    /// The first line of a file.
    File(Spanned<String>),
    /// An environment variable.
    Env(Spanned<String>),
    /// The secret itself.
    Value(Spanned<String>),
}
