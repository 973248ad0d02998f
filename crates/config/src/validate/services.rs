//! `services:` endpoints and the policies around them.

mod balance;
mod breaker;
mod discover;
mod ejection;
mod endpoints;
mod health;
mod outage;
mod retry;
mod sticky;
mod tls;

pub(super) use breaker::adaptive;
pub(crate) use discover::stand_in;
pub(crate) use retry::Retries;

pub(super) use tls::service_tls;

use super::limits::service_limits;
use super::secret::Secrets;
use super::{address, check_name, deadline};
use crate::diagnose::{Class, Problems, SpecError};
use crate::settings::Discover;
use crate::source::Span;
use crate::spec::{
    ListSpec, NamedSpec, ProxyProtocolVersionSpec, ServiceProtocolSpec, ServiceSpec, Spanned, TimeoutsSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_proxy::plan::Timeouts;
use thalweg_upstream::{Address, DiscoverPolicy, Endpoint, HostRule, Protocol, ProxyProtocol, Service};

/// Deadlines as far as they are written at one place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
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
    pub(crate) fn resolve(nearest_first: &[Self], built_in: Timeouts) -> Timeouts {
        let pick = |field: fn(&Self) -> Option<Duration>| nearest_first.iter().find_map(field);
        Timeouts {
            connect: pick(|d| d.connect).unwrap_or(built_in.connect),
            first_byte: pick(|d| d.first_byte).unwrap_or(built_in.first_byte),
            idle: pick(|d| d.idle).unwrap_or(built_in.idle),
            request: pick(|d| d.request).or(built_in.request),
        }
    }
}

/// What the services need to know of the rest.
pub(crate) struct Context<'a> {
    pub(crate) secrets: &'a Secrets<'a>,
    /// Of the defaults.
    pub(crate) retries: &'a Retries,
}

/// Checks the services. Where endpoints of some of them come from is added to `sources`.
pub(crate) fn services(
    specs: &NamedSpec<Spanned<ServiceSpec>>,
    around: &Context<'_>,
    sources: &mut BTreeMap<Arc<str>, Discover>,
    problems: &mut Problems,
) -> Vec<(Service, Deadlines)> {
    let mut named = Vec::new();
    for (name, spec) in &specs.0 {
        let discovered = discover::discover(spec, around.secrets, problems);
        let (policy, discover) = discovered.unzip();
        let (mut service, deadlines) = service(name, spec, (around, policy.as_ref()), problems);
        service.discover = policy;
        if let Some(discover) = discover {
            let written = service.endpoints.clone();
            sources.insert(service.name.clone(), Discover { written, ..discover });
        }
        named.push((service, deadlines));
    }
    named
}

fn service(
    name: &Spanned<String>,
    spec: &Spanned<ServiceSpec>,
    (around, discovered): (&Context<'_>, Option<&DiscoverPolicy>),
    problems: &mut Problems,
) -> (Service, Deadlines) {
    check_name(name, name.span, problems);
    let lacks = match &spec.endpoints {
        Some(endpoints) => endpoints.written == 0,
        // Where something could not be read, that is the mistake.
        None => !problems.has_error_in(spec.span),
    };
    if lacks && spec.discover.is_none() {
        let message = format!("the service `{}` has no endpoints", name.value);
        let error = SpecError::new(Class::Invalid, name.span, message)
            .help("add at least one: `endpoints: [ \"http://127.0.0.1:9001\" ]`");
        problems.push(error);
    }
    let written = spec.endpoints.as_ref().map(|list| endpoints::endpoints(list, problems));
    let written = written.unwrap_or_default();
    let endpoints: Vec<_> =
        written.iter().cloned().chain(discovered.map(|policy| stand_in(policy.scheme))).collect();
    let service = Service {
        name: name.value.as_str().into(),
        discover: None,
        prefer: discover::prefer(spec.prefer.as_ref(), problems),
        balance: balance::balance(spec, endpoints.len(), problems),
        sticky: sticky::sticky(spec.sticky.as_ref(), around.secrets, problems),
        health: health::health(spec.health.as_ref(), &endpoints, problems),
        ejection: ejection::ejection(spec.ejection.as_ref(), problems),
        breaker: breaker::breaker(spec.breaker.as_ref(), problems),
        protocol: match spec.protocol {
            ServiceProtocolSpec::Auto => Protocol::Auto,
            ServiceProtocolSpec::Http1 => Protocol::Http1,
            ServiceProtocolSpec::Http2 => Protocol::Http2,
        },
        send_proxy_protocol: spec.send_proxy_protocol.map(|written| {
            told_of_clients(&written, &endpoints, problems);
            match written.value {
                ProxyProtocolVersionSpec::V1 => ProxyProtocol::V1,
                ProxyProtocolVersionSpec::V2 => ProxyProtocol::V2,
            }
        }),
        when_down: outage::when_down(spec.when_down.as_ref(), problems),
        host: host_rule(spec.host.as_ref(), problems),
        tls: match &spec.tls {
            Some(tls) => service_tls(tls, &endpoints, around.secrets, problems),
            None => tls::built_in(&endpoints, name.span, problems),
        },
        retry: Retries::read(&spec.retry, problems).resolve(around.retries),
        pool: spec.pool.policy(problems),
        limits: service_limits(&spec.limits, problems),
        destinations: None,
        kept_off: Arc::default(),
        endpoints: written,
    };
    (service, Deadlines::read(&spec.timeouts, false, problems))
}

/// Connections to other endpoints carry requests of several clients.
fn told_of_clients<T>(written: &Spanned<T>, endpoints: &[Endpoint], problems: &mut Problems) {
    let carries_requests =
        |endpoint: &Endpoint| !endpoint.takes_connections() && !matches!(endpoint.address, Address::Unix(_));
    if endpoints.iter().any(carries_requests) {
        let message = "the PROXY protocol is sent to `tcp://` endpoints only";
        let help = match endpoints.iter().any(Endpoint::takes_datagrams) {
            true => "remove it: datagrams come from the proxy's address",
            false => "remove it: requests carry `X-Forwarded-For`",
        };
        problems.push(SpecError::new(Class::Invalid, written.span, message).help(help));
    }
}

/// The service of a route that lists URLs itself: with the defaults of the file.
pub(crate) fn inline(
    name: &Arc<str>,
    (urls, span): (&ListSpec<String>, Span),
    retries: &Retries,
    problems: &mut Problems,
) -> Service {
    if urls.written == 0 {
        let error = SpecError::new(Class::Invalid, span, "the list of URLs is empty")
            .help("add at least one: `to: [ \"http://127.0.0.1:9001\" ]`");
        problems.push(error);
    }
    let endpoints = endpoints::urls(&urls.items, problems);
    Service {
        name: Arc::clone(name),
        tls: tls::built_in(&endpoints, span, problems),
        endpoints,
        retry: Retries::default().resolve(retries),
        ..Service::default()
    }
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
