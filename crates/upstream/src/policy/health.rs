//! Asking endpoints whether they are well (active health).

use super::Statuses;
use regex::bytes::Regex;
use serde::{Serialize, Serializer};
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::written;

/// `services.<name>.health`. Default: endpoints are not asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthPolicy {
    /// How.
    #[serde(rename = "")]
    pub check: Check,
    /// The port that is asked, where it is not the endpoint's own.
    pub port: Option<u16>,
    /// Time between two checks, ±10 %; 100 ms–1 h, default 5 s.
    #[serde(serialize_with = "written::duration")]
    pub interval: Duration,
    /// The same while the endpoint is down, 100 ms–1 h; default: as `interval`.
    #[serde(serialize_with = "written::duration")]
    pub interval_down: Option<Duration>,
    /// For one check, 10 ms–1 min, at most the shorter interval; default 1 s or that interval.
    #[serde(serialize_with = "written::duration")]
    pub timeout: Duration,
    /// Failed checks one after the other after which it is down, 1–100; default 3.
    pub unhealthy_after: u32,
    /// Passed checks one after the other after which it is up again, 1–100; default 2.
    pub healthy_after: u32,
    /// A new endpoint takes no request before its first passed check; default false: it is up until
    /// checks fail.
    #[serde(rename = "initial", serialize_with = "initial")]
    pub starts_unhealthy: bool,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            check: Check::Tcp,
            port: None,
            interval: Duration::from_secs(5),
            interval_down: None,
            timeout: Duration::from_secs(1),
            unhealthy_after: 3,
            healthy_after: 2,
            starts_unhealthy: false,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Whether it accepts a connection.
    Tcp,
    /// A call of `grpc.health.v1.Health/Check` through HTTP/2, on a connection of its own.
    Grpc {
        /// The service that is asked for; empty for the server as a whole.
        #[serde(serialize_with = "written::text", skip_serializing_if = "str::is_empty")]
        service: Arc<str>,
    },
    #[serde(untagged)]
    /// An HTTP/1.1 request on a connection of its own.
    Http {
        /// Path and query; default `/`.
        #[serde(serialize_with = "hidden_query")]
        path: Arc<str>,
        /// Default `GET`.
        #[serde(serialize_with = "written::text")]
        method: Arc<str>,
        /// Further fields, in order; a `host` here replaces the endpoint's authority.
        #[serde(flatten, serialize_with = "hidden_values")]
        headers: Vec<(Arc<str>, Arc<str>)>,
        /// Statuses that pass; default 200–399.
        expect: Statuses,
        /// What the first 64 KiB of the body must match; default anything.
        #[serde(serialize_with = "written::maybe_text")]
        body: Option<Regex>,
    },
}

/// The query may contain a secret.
fn hidden_query<S: Serializer>(path: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    match path.split_once('?') {
        Some((shown, _)) => written::Partly::of(format_args!("{shown}?…"), &**path).serialize(serializer),
        None => serializer.serialize_str(path),
    }
}

fn initial<S: Serializer>(starts_unhealthy: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *starts_unhealthy { "unhealthy" } else { "healthy" })
}

/// Values may be credentials.
fn hidden_values<S: Serializer>(headers: &[(Arc<str>, Arc<str>)], serializer: S) -> Result<S::Ok, S::Error> {
    let named = headers
        .iter()
        .zip(0..)
        .map(|((name, value), at)| (format!("headers[{at}] ({name})"), written::Hidden::of(value)));
    serializer.collect_map(named)
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp, Self::Tcp) => true,
            (Self::Grpc { service }, Self::Grpc { service: other }) => service == other,
            (
                Self::Http { path, method, headers, expect, body },
                Self::Http { path: p, method: m, headers: h, expect: e, body: b },
            ) => {
                let text = |body: &Option<Regex>| body.as_ref().map(|body| body.as_str().to_owned());
                (path, method, headers, expect, text(body)) == (p, m, h, e, text(b))
            }
            _ => false,
        }
    }
}
