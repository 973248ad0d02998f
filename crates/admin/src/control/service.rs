//! Services, endpoints and routes, as the admin API shows and changes them.

use std::time::SystemTime;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Largest weight of an endpoint or of a share of a route.
pub const WEIGHT: u32 = 1000;
/// Largest number of a tier; 0 is served first.
pub const TIER: u8 = 9;

/// The answer to `GET /api/v1/services`.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Services {
    /// Number of the endpoint sets: one more with every change of a set, a weight or a wanted state.
    /// Figures and health do not change it. It is what `ETag` and `If-Match` are made of.
    pub version: u64,
    /// Services, in the order of the configuration.
    pub services: Vec<ServiceStatus>,
}

/// One service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceStatus {
    /// Its name in the configuration.
    pub name: String,
    /// How one of its endpoints is chosen, as in the configuration.
    pub balance: String,
    /// Whether it can serve.
    pub state: ServiceState,
    /// Whether certificates of its endpoints are not verified (`tls.insecure_skip_verify`): who stands in between can
    /// read and change everything.
    pub insecure_skip_verify: bool,
    /// Its endpoints.
    pub endpoints: Vec<EndpointStatus>,
    /// Exchanges under way.
    pub requests_active: u64,
    /// Exchanges that wait for a place.
    pub queued: u64,
}

/// Whether a service can serve.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// All of its endpoints that are wanted can be used.
    Up,
    /// Some can.
    Degraded,
    /// None can.
    Down,
}

/// How many services are in which state.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ServicesSummary {
    /// Services with every endpoint.
    pub up: u64,
    /// Services with some endpoints.
    pub degraded: u64,
    /// Services without an endpoint that can be used.
    pub down: u64,
}

impl ServicesSummary {
    /// Counts them.
    pub fn of(services: &[ServiceStatus]) -> Self {
        let mut summary = Self::default();
        for service in services {
            match service.state {
                ServiceState::Up => summary.up += 1,
                ServiceState::Degraded => summary.degraded += 1,
                ServiceState::Down => summary.down += 1,
            }
        }
        summary
    }
}

/// One endpoint.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EndpointStatus {
    /// Stable: 16 hexadecimal digits, a hash of its URL. Paths take it, or the percent-encoded URL.
    pub id: String,
    /// Its URL.
    pub url: String,
    /// Its share among the endpoints of its tier, 0–1000; 0 gets no traffic.
    pub weight: u32,
    /// Its tier, 0–9: a tier serves when those with lower numbers cannot.
    pub tier: u8,
    /// How it stands.
    pub state: EndpointState,
    /// Since when, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: SystemTime,
    /// Why it stands so, in a few words; absent when there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Where it comes from.
    pub source: EndpointSource,
    /// The same in words: `written in thalweg.yaml:12`, `found by …` with the source, or `added through the admin API`.
    /// Absent where the place is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The addresses that its host name has now.
    pub addresses: Vec<String>,
    /// Exchanges under way.
    pub requests_active: u64,
    /// Exchanges since the proxy started.
    pub requests_total: u64,
    /// Failed ones among them.
    pub failures_total: u64,
    /// Smoothed time to the first byte, in milliseconds; absent before the first exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// It gets its full share.
    Ready,
    /// Its share grows until it is the full one.
    SlowStart,
    /// Health checks fail.
    Unhealthy,
    /// Set aside for failing exchanges, until its ejection time is over.
    Ejected,
    /// It gets nothing new; what is under way may finish.
    Draining,
    /// Set aside by an operator.
    Maintenance,
    /// It waits for its first health check.
    Unchecked,
}

/// Where an endpoint comes from.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointSource {
    /// The configuration.
    File,
    /// The admin API.
    Runtime,
    /// The source that the service says under `discover`.
    Discovered,
}

/// An endpoint to add. Ranges have been checked; the URL has not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewEndpoint {
    /// Its URL, by the rules of the configuration.
    pub url: String,
    /// Its share, 0–1000.
    pub weight: u32,
    /// Its tier, 0–9.
    pub tier: u8,
}

/// What is to change of an endpoint; at least one of the two is there. Ranges have been checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EndpointChange {
    /// Its share, 0–1000.
    pub weight: Option<u32>,
    /// How it shall stand.
    pub state: Option<WantedState>,
}

/// How an operator wants an endpoint to stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WantedState {
    /// In rotation; health decides the rest.
    Ready,
    /// Nothing new; what is under way may finish.
    Draining,
    /// Nothing new, whatever health says.
    Maintenance,
}

/// An endpoint was added, changed or removed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Number of the endpoint sets after the change.
    pub version: u64,
    /// How it was; `None`: it was not there.
    pub before: Option<EndpointStatus>,
    /// How it is; of one that is gone, how it last was.
    pub endpoint: EndpointStatus,
    /// It is not in the service any more.
    pub gone: bool,
}

/// One route.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct RouteStatus {
    /// Its name.
    pub name: String,
    /// What it matches, as a text for people: `shop.example.com /products/*`.
    pub matches: String,
    /// Where it is written: file, or document of a source, and line. Absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Names of its listeners; empty: every listener that takes requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<String>,
    /// Its filters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<&'static str>,
    /// Whether it has a canary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
    /// Where its requests go; empty where one of its filters answers all of them.
    pub to: Vec<RouteTarget>,
    /// The domain below which labels lead elsewhere: `*.svc.example.com`; absent where the route takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Whether its filter `maintenance` is on; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<bool>,
}

/// A share of a route's requests.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RouteTarget {
    /// Name of the service.
    pub service: String,
    /// Its share, 0–1000.
    pub weight: u32,
}

/// The weights of a route were changed.
#[derive(Clone, Debug)]
pub struct Reweighted {
    /// Number of the endpoint sets after the change.
    pub version: u64,
    /// The shares before.
    pub before: Vec<RouteTarget>,
    /// The route with its new shares.
    pub route: RouteStatus,
}

/// The filter `maintenance` of a route was turned on or off, or is as the configuration says.
#[derive(Clone, Debug)]
pub struct MaintenanceChanged {
    /// Number of the endpoint sets afterwards; the one before where nothing has changed.
    pub version: u64,
    /// Whether it was on; `None`: there was none.
    pub before: Option<bool>,
    /// The route as it is now; `None`: the configuration has it no more.
    pub route: Option<RouteStatus>,
}

/// The weights of a route are those of the configuration.
#[derive(Clone, Debug)]
pub struct WeightsReset {
    /// Number of the endpoint sets afterwards; the one before where nothing had been set.
    pub version: u64,
    /// The shares before; none of a route that the configuration does not have any more.
    pub before: Vec<RouteTarget>,
    /// The shares of the configuration.
    pub after: Vec<RouteTarget>,
}

/// Writes a time as RFC 3339 in UTC, to the millisecond. A time that the calendar does not have is its end.
pub(crate) fn rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_text(*time))
}

/// The text of [`rfc3339`].
pub(crate) fn rfc3339_text(time: SystemTime) -> String {
    format!("{:.3}", Timestamp::try_from(time).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_123);
        assert_eq!(rfc3339_text(time), "2001-09-09T01:46:40.123Z");
    }
}
