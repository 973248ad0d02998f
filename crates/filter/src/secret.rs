//! Secrets that filters need, which stand in the file by reference.

use crate::ConfigFiles;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// Largest file of a secret, in bytes.
const FILE: usize = 64 * 1024;

/// Where a secret comes from.
#[derive(Clone, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "a map with `file`, `env` or `value`")]
#[schemars(extend("x-api" = "secret"))]
pub enum SecretSpec {
    /// The first line of a file.
    File(#[schemars(extend("x-api" = "reference"))] String),
    /// An environment variable.
    Env(#[schemars(extend("x-api" = "reference"))] String),
    /// The secret itself.
    Value(String),
}

impl SecretSpec {
    /// The secret, however short.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or the variable is not set.
    pub fn read(&self, files: &dyn ConfigFiles) -> Result<Vec<u8>, String> {
        match self {
            Self::Value(text) => Ok(text.clone().into_bytes()),
            Self::Env(name) => {
                let value =
                    files.variable(name).ok_or_else(|| format!("the variable `{name}` is not set"))?;
                Ok(value.into_bytes())
            }
            Self::File(path) => {
                let mut bytes = files.read(path, FILE)?;
                if let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                    bytes.truncate(end);
                }
                Ok(bytes)
            }
        }
    }
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
