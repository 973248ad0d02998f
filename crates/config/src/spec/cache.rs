//! `cache:` at the top: what the HTTP cache may use, and how replicas tell each other of purges.

use super::secret::SecretSpec;
use super::spanned::Spanned;
use super::values::{AutoSizeSpec, SizeSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `cache:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a map with `memory`, `disk` and `purge`; routes cache with the filter `cache`"
)]
pub struct CacheMemorySpec {
    /// Bytes for stored responses, what finds them and what is being stored; `auto`: an eighth of `limits.memory`.
    /// Nothing is used while no route has the filter `cache`.
    #[schemars(extend("x-range" = ["8MiB", "1024TiB"], "x-default" = "auto"))]
    pub memory: Option<Spanned<AutoSizeSpec>>,
    /// A store on a disk below the one in memory: it has what memory has no room for, and outlasts a restart.
    #[schemars(extend("x-default-words" = "memory alone"))]
    #[schemars(extend("x-api" = "setting"))]
    pub disk: Option<Spanned<CacheDiskSpec>>,
    /// How replicas tell each other of purges.
    #[schemars(extend("x-default-words" = "they do not"))]
    #[schemars(extend("x-api" = "setting"))]
    pub purge: Option<Spanned<PurgeChannelSpec>>,
}

/// `cache.disk:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `path` and `size`")]
pub struct CacheDiskSpec {
    /// The directory, absolute, which nothing else uses. It is made where it is missing.
    #[schemars(extend("examples" = ["/var/cache/thalweg"]))]
    #[schemars(extend("x-api" = "reference"))]
    pub path: Spanned<String>,
    /// Bytes of the disk that it takes at most.
    #[schemars(extend("x-range" = ["16MiB", "1024TiB"], "examples" = ["10GiB"]))]
    pub size: Spanned<SizeSpec>,
}

/// `cache.purge:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `redis`")]
pub struct PurgeChannelSpec {
    /// The server through which they do.
    pub redis: PurgeRedisSpec,
    /// The channel of the server. Whoever may publish on it purges all replicas.
    #[schemars(extend("x-default" = "thalweg-purge"))]
    pub channel: Option<Spanned<String>>,
    /// What becomes of what is stored when the connection is back: purges of others may have been missed.
    #[schemars(extend("x-default" = "keep"))]
    #[serde(default)]
    pub after_loss: AfterLossSpec,
}

/// What becomes of what is stored after the connection was lost.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum AfterLossSpec {
    /// It is used as before.
    #[default]
    Keep,
    /// All of it is stale: it is validated before it is used again, or used stale where that is allowed.
    MakeStale,
}

/// A server of Redis or Valkey.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct PurgeRedisSpec {
    /// `redis://HOST:PORT`, `rediss://HOST:PORT` for TLS, or `unix:/PATH`. The port is 6379 unless it is written.
    #[schemars(extend("examples" = ["redis://10.0.0.5:6379"]))]
    #[schemars(extend("x-api" = "destination"))]
    pub url: Spanned<String>,
    /// The user.
    #[schemars(extend("x-default-words" = "the default user"))]
    pub user: Option<Spanned<String>>,
    /// Its password.
    #[schemars(extend("x-default-words" = "none"))]
    pub password: Option<Spanned<SecretSpec>>,
    /// For TLS: certificates in PEM that vouch for the server's.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    pub ca: Option<Spanned<String>>,
}
