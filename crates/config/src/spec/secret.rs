//! Secrets, which stand in the file by reference.

use super::spanned::Spanned;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// Where a secret comes from.
#[derive(Clone, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "a map with `file`, `env` or `value`")]
#[schemars(extend("x-api" = "secret"))]
pub enum SecretSpec {
    /// The first line of a file.
    File(#[schemars(extend("x-api" = "reference"))] Spanned<String>),
    /// An environment variable.
    Env(#[schemars(extend("x-api" = "reference"))] Spanned<String>),
    /// The secret itself.
    Value(Spanned<String>),
}

impl fmt::Debug for SecretSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::Value(_) => f.write_str("Value(…)"),
        }
    }
}
