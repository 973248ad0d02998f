//! What differs between two configurations, as the admin API tells it.

use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;

/// One object of the configuration that differs.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ConfigChange {
    /// `listener`, `route`, `service`, `endpoint`, `webhook` or `setting`.
    pub kind: &'static str,
    /// Its name; of an endpoint its URL, of a webhook scheme, host and port, of a setting its key.
    pub name: String,
    /// Of an endpoint: its service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// What happens to it.
    pub action: ChangeAction,
    /// Where the side that is new is written: file, or document of a source, and line. Absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The fields that differ; of one that is added or removed, all that are set.
    pub fields: Vec<FieldChange>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeAction {
    /// It was not there.
    Added,
    /// Fields of it differ.
    Changed,
    /// Nothing but its place in the file differs, where that decides who takes a request.
    Moved,
    /// It is not there any more.
    Removed,
}

/// One field that differs.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FieldChange {
    /// As in the configuration, `timeouts.first_byte`; empty where the object is its own value, as `workers` is.
    pub field: Cow<'static, str>,
    /// Absent when it was not set, or is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Absent when it is not set, or is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether it differs in what is not shown: a secret, or the end of a long text.
    pub hidden: bool,
}

/// A listener that opens or closes.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ListenerChange {
    /// Its name.
    pub name: String,
    /// Where.
    pub address: String,
    /// Whether it opens; else it closes.
    pub opens: bool,
    /// Client connections that are open on it now.
    pub connections: u64,
}

/// Something that the admin API has changed over what the configuration says.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RuntimeChange {
    /// `service`, for one of its endpoints, or `route`, for its shares.
    pub kind: &'static str,
    /// The name of the service or route.
    pub name: String,
    /// The URL of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What was changed, in words.
    pub change: String,
    /// Whether it has no effect on the configuration that is looked at: what it changes is not there, or is so already.
    pub void: bool,
}
