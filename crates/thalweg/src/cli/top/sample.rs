//! What the admin API says at one time: totals since the start of the proxy, and how its objects stand.

use super::super::{AdminArgs, problem::detail_of};
use super::exposition::lines;
use crate::printable::acts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// The metrics that are looked at.
const METRICS: &[&str] = &[
    "thalweg_requests_total",
    "thalweg_request_duration_seconds_bucket",
    "thalweg_request_bytes_total",
    "thalweg_response_bytes_total",
    "thalweg_upstream_response_seconds_bucket",
    "thalweg_connections_total",
    "thalweg_connections_active",
    "thalweg_connections_refused_total",
    "thalweg_tls_handshakes_total",
];

/// How often which time was not exceeded: upper bounds in seconds, and counts that include those of smaller bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets(Vec<(f64, u64)>);

/// What a route has served.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RouteTotals {
    /// By the first digit of the status; 0 for none.
    pub(super) classes: [u64; 6],
    pub(super) duration: Buckets,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// How a service stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServiceNow {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) active: u64,
    pub(super) queued: u64,
    pub(super) endpoints: Vec<EndpointNow>,
}

/// How an endpoint stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EndpointNow {
    pub(super) url: String,
    pub(super) state: String,
    pub(super) cause: String,
    pub(super) weight: u64,
    pub(super) active: u64,
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) response: Buckets,
}

/// How a listener stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ListenerNow {
    pub(super) address: String,
    pub(super) protocol: String,
    pub(super) active: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) handshakes: u64,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) version: String,
    pub(super) pid: u64,
    pub(super) uptime_seconds: u64,
    pub(super) state: String,
    pub(super) active: u64,
    pub(super) connections: (u64, u64),
}

/// All of it, at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) process: Process,
    /// By name; those without a route have the name "".
    pub(super) routes: BTreeMap<String, RouteTotals>,
    pub(super) services: Vec<ServiceNow>,
    pub(super) listeners: BTreeMap<String, ListenerNow>,
}

impl Sample {
    /// Asks the running proxy; an error is a sentence for people.
    pub(super) fn take(admin: &AdminArgs) -> Result<Self, String> {
        let document = |path| -> Result<Value, String> {
            serde_json::from_slice(&body(admin, path)?).map_err(|error| format!("{path}: {error}"))
        };
        let (status, services) = (document("/api/v1/status")?, document("/api/v1/services")?);
        let page = body(admin, "/metrics")?;
        Ok(Self::of(Instant::now(), &status, &services, &String::from_utf8_lossy(&page)))
    }

    /// Puts the answers together.
    pub(super) fn of(at: Instant, status: &Value, services: &Value, page: &str) -> Self {
        let mut sample = Self {
            at,
            process: Process {
                version: text(status, "version"),
                pid: number(status, "pid"),
                uptime_seconds: number(status, "uptime_seconds"),
                state: text(status, "state"),
                active: number(status, "requests_active"),
                connections: (
                    number(&status["connections"], "active"),
                    number(&status["connections"], "max"),
                ),
            },
            routes: BTreeMap::new(),
            services: list(services, "services").map(ServiceNow::of).collect(),
            listeners: BTreeMap::new(),
        };
        for listener in list(status, "listeners") {
            let entry = sample.listeners.entry(text(listener, "name")).or_default();
            (entry.address, entry.protocol) = (text(listener, "address"), text(listener, "protocol"));
        }
        sample.read(page);
        sample
    }

    /// Takes what the metrics page says.
    fn read(&mut self, page: &str) {
        let mut responses: BTreeMap<(String, String), Buckets> = BTreeMap::new();
        for line in lines(page, METRICS) {
            let (label, count) = (|name| plain(line.label(name)), line.count());
            match line.name.as_str() {
                "thalweg_requests_total" => {
                    let class = line.label("code").bytes().next().map_or(0, |digit| digit.wrapping_sub(b'0'));
                    let route = self.routes.entry(label("route")).or_default();
                    route.classes[usize::from(class).min(5)] += count;
                }
                "thalweg_request_duration_seconds_bucket" => {
                    self.routes.entry(label("route")).or_default().duration.push(line.label("le"), count);
                }
                "thalweg_request_bytes_total" => {
                    self.routes.entry(label("route")).or_default().bytes_in += count;
                }
                "thalweg_response_bytes_total" => {
                    self.routes.entry(label("route")).or_default().bytes_out += count;
                }
                "thalweg_upstream_response_seconds_bucket" => {
                    let key = (label("service"), label("endpoint"));
                    responses.entry(key).or_default().push(line.label("le"), count);
                }
                name => {
                    let Some(listener) = self.listeners.get_mut(&label("listener")) else { continue };
                    match name {
                        "thalweg_connections_total" => listener.accepted += count,
                        "thalweg_connections_active" => listener.active += count,
                        "thalweg_connections_refused_total" => listener.refused += count,
                        "thalweg_tls_handshakes_total" => listener.handshakes += count,
                        _ => {}
                    }
                }
            }
        }
        for service in &mut self.services {
            for endpoint in &mut service.endpoints {
                let key = (service.name.clone(), endpoint.url.clone());
                endpoint.response = responses.remove(&key).unwrap_or_default();
            }
        }
    }
}

impl ServiceNow {
    fn of(value: &Value) -> Self {
        Self {
            name: text(value, "name"),
            state: text(value, "state"),
            active: number(value, "requests_active"),
            queued: number(value, "queued"),
            endpoints: list(value, "endpoints").map(EndpointNow::of).collect(),
        }
    }
}

impl EndpointNow {
    fn of(value: &Value) -> Self {
        Self {
            url: text(value, "url"),
            state: text(value, "state"),
            cause: text(value, "cause"),
            weight: number(value, "weight"),
            active: number(value, "requests_active"),
            requests: number(value, "requests_total"),
            failures: number(value, "failures_total"),
            response: Buckets::default(),
        }
    }
}

impl Buckets {
    fn push(&mut self, bound: &str, count: u64) {
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap_or(f64::INFINITY) };
        self.0.push((bound, count));
    }

    /// Adds those of another one with the same bounds.
    pub(super) fn add(&mut self, other: &Self) {
        match self.0.is_empty() {
            true => self.0.clone_from(&other.0),
            false => self.0.iter_mut().zip(&other.0).for_each(|((_, own), (_, more))| *own += more),
        }
    }

    /// The time in seconds that this share of what came since `before` did not exceed, between bounds on a straight
    /// line; `None`: nothing came. What is beyond all bounds is infinite.
    pub(super) fn quantile(&self, before: &Self, share: f64) -> Option<f64> {
        let since = |at: usize| {
            let former = before.0.get(at).map_or(0, |(_, count)| *count);
            self.0.get(at).map_or(0, |(_, count)| count.saturating_sub(former)) as f64
        };
        let total = since(self.0.len().checked_sub(1)?);
        if total <= 0.0 {
            return None;
        }
        let wanted = total * share;
        let at = (0..self.0.len()).find(|at| since(*at) >= wanted)?;
        let (lower, below) = match at.checked_sub(1) {
            Some(lower) => (self.0[lower].0, since(lower)),
            None => (0.0, 0.0),
        };
        let (upper, within) = (self.0[at].0, since(at) - below);
        if upper.is_infinite() || within <= 0.0 {
            return Some(upper);
        }
        Some(lower + (upper - lower) * (wanted - below) / within)
    }
}

fn body(admin: &AdminArgs, path: &str) -> Result<Vec<u8>, String> {
    let answer = admin.call("GET", path)?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(format!("{path} answers {status}: {}", plain(&detail_of(&answer)))),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().map_or_else(String::new, plain)
}

/// Text that does nothing to a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if acts(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: [u64; 4]) -> Buckets {
        let mut buckets = Buckets::default();
        ["0.001", "0.01", "0.1", "+Inf"]
            .iter()
            .zip(counts)
            .for_each(|(bound, count)| buckets.push(bound, count));
        buckets
    }

    #[test]
    fn quantiles_are_of_what_came_between_two_samples() {
        let (before, now) = (buckets([100, 100, 100, 100]), buckets([100, 200, 200, 200]));
        let half = now.quantile(&before, 0.5).unwrap();
        assert!((half - 0.0055).abs() < 1e-9, "{half}");
        assert_eq!(now.quantile(&now, 0.5), None);
        assert_eq!(Buckets::default().quantile(&before, 0.5), None);
        assert_eq!(buckets([0, 0, 0, 9]).quantile(&Buckets::default(), 0.99), Some(f64::INFINITY));
        // A proxy that has begun anew counts less than before.
        assert_eq!(buckets([1, 1, 1, 1]).quantile(&now, 0.5), None);
    }
}
