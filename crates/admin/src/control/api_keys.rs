//! API keys that are added and revoked while the proxy runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Refusal;

/// Lists of API keys, as the running proxy has them. No method waits.
pub trait ApiKeyControl {
    /// The lists that filters name, and those that keys were added to.
    fn lists(&self) -> Vec<ApiKeyList>;

    /// A list with the keys that were added to it.
    ///
    /// # Errors
    /// An unknown list.
    fn list(&self, list: &str) -> Result<ApiKeyListContents, Refusal>;

    /// Makes a key; it counts at once, everywhere.
    ///
    /// # Errors
    /// An unknown list, what cannot be said of a key (field `name`, `scopes`, `claims` or `expires`), a name that is
    /// there already, or lists that are full.
    fn add(&self, list: &str, new: NewApiKey) -> Result<MadeApiKey, Refusal>;

    /// Takes a key away; at once, everywhere.
    ///
    /// # Errors
    /// An unknown list, or no key of this name.
    fn revoke(&self, list: &str, name: &str) -> Result<ApiKeyEntry, Refusal>;
}

/// A key that is to be made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NewApiKey {
    /// Whose it is.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// What else is known of it.
    pub claims: BTreeMap<String, String>,
    /// From then on it is not taken: `2027-01-31`, or a time as in RFC 3339.
    pub expires: Option<String>,
}

/// A list.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ApiKeyList {
    /// Its name.
    pub name: String,
    /// How many keys were added to it and not revoked.
    pub keys: usize,
}

/// All lists.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ApiKeyLists {
    /// By their names.
    pub lists: Vec<ApiKeyList>,
}

/// A list with its keys.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ApiKeyListContents {
    /// Its name.
    pub name: String,
    /// The keys by their names; of none is the key itself known.
    pub keys: Vec<ApiKeyEntry>,
}

/// What is known of a key.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ApiKeyEntry {
    /// Whose it is: the `user` of its requests.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// What else is known of it.
    pub claims: BTreeMap<String, String>,
    /// When it was made, in seconds since the Unix epoch.
    pub since: u64,
    /// From then on it is not taken, likewise; absent: it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// A key that was made.
#[derive(Clone, JsonSchema, Serialize)]
pub struct MadeApiKey {
    /// The key. It is shown this once: only its hash is kept.
    pub key: String,
    /// What is known of it.
    pub entry: ApiKeyEntry,
    /// Whether it is there after a restart: where the configuration has `state`.
    pub kept: bool,
}

/// Without the key.
impl std::fmt::Debug for MadeApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MadeApiKey").field("entry", &self.entry).finish_non_exhaustive()
    }
}
