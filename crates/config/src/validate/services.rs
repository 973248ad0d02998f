//! `services:` endpoints and the policies around them.

use super::limits::{endpoint_limits, service_limits};
use super::{address, bounded, check_name, deadline};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::source::Span;
use crate::spec::{
    AutoSpec, EndpointSpec, ListSpec, NamedSpec, PoolSpec, ServiceSpec, Spanned, TimeoutsSpec,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_balance::{BALANCERS, Balancer, balancer};
use thalweg_core::limits::ENDPOINTS;
use thalweg_proxy::plan::Timeouts;
use thalweg_upstream::{
    Address, BalancePolicy, Endpoint, EndpointLimits, HostRule, Mode, PoolPolicy, RetryPolicy, Service,
};

/// Largest weight of an endpoint.
const WEIGHT: u64 = 1000;
/// Most attempts for one request.
const ATTEMPTS: u64 = 10;
/// Most idle connections kept per endpoint and worker.
const IDLE: u64 = 65_535;

/// Deadlines as far as they are written at one place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadlines {
    connect: Option<Duration>,
    first_byte: Option<Duration>,
    idle: Option<Duration>,
    request: Option<Duration>,
}

impl Deadlines {
    /// Those of `timeouts:`; the ones towards clients are refused unless `defaults` is read.
    pub(crate) fn read(spec: &TimeoutsSpec, in_defaults: bool, problems: &mut Problems) -> Self {
        for (name, value) in [("head", &spec.head), ("keep_alive", &spec.keep_alive)] {
            if let (false, Some(value)) = (in_defaults, value) {
                let message = format!("`{name}` belongs to `defaults.timeouts`");
                let error = SpecError::new(Class::Invalid, value.span, message)
                    .help("it ends before the route is known, so it is the same for all");
                problems.push(error);
            }
        }
        Self {
            connect: deadline(spec.connect.as_ref(), problems),
            first_byte: deadline(spec.first_byte.as_ref(), problems),
            idle: deadline(spec.idle.as_ref(), problems),
            request: deadline(spec.request.as_ref(), problems),
        }
    }

    /// The nearer ones win: route, service, defaults, then the built-in ones.
    pub(crate) fn resolve(nearest_first: &[Self]) -> Timeouts {
        let built_in = Timeouts::default();
        let pick = |field: fn(&Self) -> Option<Duration>| nearest_first.iter().find_map(field);
        Timeouts {
            connect: pick(|d| d.connect).unwrap_or(built_in.connect),
            first_byte: pick(|d| d.first_byte).unwrap_or(built_in.first_byte),
            idle: pick(|d| d.idle).unwrap_or(built_in.idle),
            request: pick(|d| d.request).or(built_in.request),
        }
    }
}

/// Checks the services.
pub(crate) fn services(specs: &NamedSpec<ServiceSpec>, problems: &mut Problems) -> Vec<(Service, Deadlines)> {
    specs.0.iter().map(|(name, spec)| service(name, spec, problems)).collect()
}

fn service(name: &Spanned<String>, spec: &ServiceSpec, problems: &mut Problems) -> (Service, Deadlines) {
    check_name(name, name.span, problems);
    if spec.endpoints.written == 0 {
        let message = format!("the service `{}` has no endpoints", name.value);
        let error = SpecError::new(Class::Invalid, name.span, message)
            .help("add at least one: `endpoints: [ \"http://127.0.0.1:9001\" ]`");
        problems.push(error);
    }
    let mut endpoints = Endpoints::default();
    for item in &spec.endpoints.items {
        match &item.value {
            EndpointSpec::Short(url) => {
                endpoints.add(url, item.span, (1, EndpointLimits::default()), problems);
            }
            EndpointSpec::Long(long) => {
                let weight = long.weight.as_ref().map_or(Some(1), |n| bounded(n, 0, WEIGHT, problems));
                let weight = weight.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
                let (connections, in_flight) = (long.max_connections.as_ref(), long.max_in_flight.as_ref());
                let limits = endpoint_limits(connections, in_flight, problems);
                endpoints.add(&long.url, long.url.span, (weight, limits), problems);
            }
        }
    }
    let attempts = spec.retry.attempts.as_ref().and_then(|n| bounded(n, 1, ATTEMPTS, problems));
    let retry = attempts
        .and_then(|n| u32::try_from(n).ok())
        .map_or(RetryPolicy::default(), |attempts| RetryPolicy { attempts, ..RetryPolicy::default() });
    let service = Service {
        name: name.value.as_str().into(),
        endpoints: endpoints.list,
        balance: BalancePolicy {
            algorithm: balance(spec.balance.as_ref(), problems),
            ..BalancePolicy::default()
        },
        host: host_rule(spec.host.as_ref(), problems),
        retry,
        pool: pool(&spec.pool, problems),
        limits: service_limits(&spec.limits, problems),
        ..Service::default()
    };
    (service, Deadlines::read(&spec.timeouts, false, problems))
}

/// The service of a route that lists URLs itself.
pub(crate) fn inline(
    name: &Arc<str>,
    urls: &ListSpec<String>,
    span: Span,
    problems: &mut Problems,
) -> Service {
    if urls.written == 0 {
        let error = SpecError::new(Class::Invalid, span, "the list of URLs is empty")
            .help("add at least one: `to: [ \"http://127.0.0.1:9001\" ]`");
        problems.push(error);
    }
    let mut endpoints = Endpoints::default();
    for url in &urls.items {
        endpoints.add(&url.value, url.span, (1, EndpointLimits::default()), problems);
    }
    Service { name: Arc::clone(name), endpoints: endpoints.list, ..Service::default() }
}

#[derive(Default)]
struct Endpoints {
    list: Vec<Endpoint>,
    seen: HashMap<Address, Span>,
}

impl Endpoints {
    fn add(
        &mut self,
        url: &str,
        span: Span,
        (weight, limits): (u32, EndpointLimits),
        problems: &mut Problems,
    ) {
        let (url, address) = match address::endpoint(url) {
            Ok(read) => read,
            Err(flaw) => return problems.push(flaw.at(span, "endpoint URL")),
        };
        if let Some(first) = self.seen.get(&address) {
            let error = SpecError::new(Class::Invalid, span, "this endpoint is listed twice")
                .label("again here")
                .related(*first, "first here")
                .help("a larger share is written `{ url: …, weight: 2 }`");
            return problems.push(error);
        }
        if self.list.len() >= ENDPOINTS {
            let message = format!("a service has at most {ENDPOINTS} endpoints");
            return problems.push(SpecError::new(Class::Invalid, span, message));
        }
        self.seen.insert(address.clone(), span);
        self.list.push(Endpoint { url, address, weight, tier: 0, mode: Mode::default(), limits });
    }
}

/// The first of the list.
fn default_balancer() -> &'static Balancer {
    &BALANCERS[0]
}

fn balance(name: Option<&Spanned<String>>, problems: &mut Problems) -> &'static Balancer {
    let Some(name) = name else { return default_balancer() };
    if let Some(found) = balancer(name) {
        return found;
    }
    let names: Vec<&str> = BALANCERS.iter().map(|entry| entry.name).collect();
    let error = SpecError::value(name.span, "balancer", format!("unknown balancer `{}`", name.value))
        .class(Class::Unknown)
        .maybe_help(suggest(name, "balancers", &names));
    problems.push(error);
    default_balancer()
}

fn host_rule(host: Option<&Spanned<String>>, problems: &mut Problems) -> HostRule {
    let Some(host) = host else { return HostRule::default() };
    match host.value.as_str() {
        "keep" => return HostRule::Keep,
        "endpoint" => return HostRule::Endpoint,
        _ => {}
    }
    let (name, port) = match host.value.rsplit_once(':') {
        Some((name, port)) if !host.value.ends_with(']') => (name, Some(port)),
        _ => (host.value.as_str(), None),
    };
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_ip = inner.map_or_else(
        || name.parse::<std::net::Ipv4Addr>().is_ok(),
        |inner| inner.parse::<std::net::Ipv6Addr>().is_ok(),
    );
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if (is_ip || address::wrong_name(name).is_none()) && port_fits {
        return HostRule::Fixed(host.value.to_ascii_lowercase().into());
    }
    let error = SpecError::value(host.span, "host", format!("`{}` is not a host", host.value))
        .help("write `keep`, `endpoint` or a name such as `app.internal`");
    problems.push(error);
    HostRule::default()
}

fn pool(spec: &PoolSpec, problems: &mut Problems) -> PoolPolicy {
    let built_in = PoolPolicy::default();
    let max_idle = spec.max_idle.as_ref().and_then(|value| match value.value {
        AutoSpec::Auto => None,
        AutoSpec::Number(n) => bounded(&Spanned::new(value.span, n), 0, IDLE, problems),
    });
    let max_requests = spec.max_requests.as_ref().and_then(|n| bounded(n, 1, u64::from(u32::MAX), problems));
    PoolPolicy {
        max_idle: max_idle.and_then(|n| u32::try_from(n).ok()),
        idle: deadline(spec.idle.as_ref(), problems).unwrap_or(built_in.idle),
        max_age: deadline(spec.max_age.as_ref(), problems).unwrap_or(built_in.max_age),
        max_requests: max_requests.and_then(|n| u32::try_from(n).ok()).unwrap_or(built_in.max_requests),
    }
}
