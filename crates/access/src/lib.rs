//! What decides who may pass, and how often: networks, limits, passwords, keys, tokens and sessions.
//!
//! The filters `access`, `rate_limit` and `auth` are thin: what they ask is decided here. What has to wait (a store, an
//! identity provider, the check of a password) is a future or a closure that a filter hands to its exchange as a
//! [`Job`](https://docs.rs/thalweg-filter) and that runs beside the workers.
#![forbid(unsafe_code)]

pub mod networks;

pub mod geo;
pub mod list;
pub mod live;
pub mod live_keys;
pub mod rules;
pub mod sources;
mod stamp;

pub mod bans;

pub mod api_keys;
mod attempts;
pub mod jwks;
pub mod jwt;
pub mod oidc;
mod recent;
mod remote;
mod web;

pub use attempts::{Attempts, WRONG};
pub use recent::{Digest, Recent, digest};
pub use remote::{Remote, Say, Times};
pub use thalweg_tls::Identity as ClientCertificate;
pub use web::https;
mod fingerprint;
mod gcra;
mod in_flight;
mod key_table;
pub mod logins;
pub mod password;
mod redis_limits;
pub mod signed_url;
pub mod users;
pub mod watched_file;

pub use fingerprint::{Fingerprint, FingerprintMaker, fingerprint};
pub use gcra::{Cost, Decision, Rate};
pub use in_flight::{InFlight, InFlightPlace};
pub use key_table::KeyTable;
pub use redis_limits::{
    FAILURES, NoDecision, RedisLimits, RedisNews, RedisSettings, SharedCost, SharedDecision, SharedName,
};
pub use thalweg_client::Destination;
