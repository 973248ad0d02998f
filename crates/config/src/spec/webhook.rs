//! `webhooks[]:` who is told when something happens.

use super::secret::SecretSpec;
use super::spanned::{ListSpec, Spanned};
use super::values::DurationSpec;
use crate::schema;
use schemars::JsonSchema;
use serde::Deserialize;

/// One webhook.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct WebhookSpec {
    /// `http://…` or `https://…`.
    #[schemars(with = "schema::WebhookUrl")]
    #[schemars(extend("x-api" = "destination"))]
    pub url: Spanned<String>,
    /// Names of events.
    #[schemars(extend("x-default-words" = "all of them"))]
    #[schemars(with = "Option<ListSpec<schema::EventName>>")]
    pub events: Option<Spanned<ListSpec<String>>>,
    /// What signs the deliveries, at least 16 bytes.
    #[schemars(extend("x-default-words" = "they are not signed"))]
    pub secret: Option<Spanned<SecretSpec>>,
    /// For one attempt.
    #[schemars(extend("x-range" = ["100ms", "1m"], "x-default" = "5s"))]
    pub timeout: Option<Spanned<DurationSpec>>,
    /// Attempts for one delivery.
    #[schemars(extend("x-range" = [1, 10], "x-default" = 5))]
    pub attempts: Option<Spanned<u64>>,
}
