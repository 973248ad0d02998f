//! What the configuration says of a service: its endpoints and the policies around them.
//!
//! These are plan types: validated and immutable. What changes while the proxy runs (members,
//! health, pools) lives in [`crate::members`] and [`crate::pool`].

use crate::labels::Labels;
use crate::policy::{
    AdaptivePolicy, BalancePolicy, BreakerPolicy, EjectionPolicy, HealthPolicy, QueuePolicy, RetryPolicy,
    StickyPolicy, WhenDown,
};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::written;
use thalweg_tls::PeerTerms;

/// A named set of interchangeable endpoints with its policies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Service {
    /// The key under `services:`, or the route's name when the route lists URLs itself.
    #[serde(skip)]
    pub name: Arc<str>,
    /// As written, in file order; at least one, unless exchanges bring theirs along.
    #[serde(skip)]
    pub endpoints: Vec<Endpoint>,
    /// Where further endpoints come from while the proxy runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discover: Option<DiscoverPolicy>,
    /// Which endpoints are used rather than others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefer: Option<PreferPolicy>,
    /// How one endpoint is chosen.
    #[serde(flatten)]
    pub balance: BalancePolicy,
    /// Whether and how clients stay at one endpoint.
    pub sticky: Option<StickyPolicy>,
    /// How endpoints are asked whether they are well.
    #[serde(serialize_with = "written::shared")]
    pub health: Option<Arc<HealthPolicy>>,
    /// When endpoints that fail are left out.
    pub ejection: EjectionPolicy,
    /// When nothing is sent for a while.
    pub breaker: Option<BreakerPolicy>,
    /// What is done when no endpoint is well.
    pub when_down: WhenDown,
    /// The `Host` that is sent upstream.
    pub host: HostRule,
    /// What is asked of endpoints that are reached through TLS; there where one of them is.
    #[serde(skip)]
    pub tls: Option<Arc<PeerTerms>>,
    /// What is spoken with endpoints.
    pub protocol: Protocol,
    /// Whether endpoints are told of clients before their first byte; only of whole connections.
    pub send_proxy_protocol: Option<ProxyProtocol>,
    /// When another attempt is made.
    pub retry: RetryPolicy,
    /// How connections are kept.
    pub pool: PoolPolicy,
    /// How much it takes at once.
    pub limits: ServiceLimits,
    /// Where it has no endpoints, and every exchange brings its own along.
    #[serde(rename = "sealed")]
    pub destinations: Option<DestinationPolicy>,
    /// Addresses to which host names of its endpoints from outside the file may not resolve: those of endpoints that
    /// the file reaches only through filters, while a document reaches this service without them. Set only for
    /// services that documents lead to.
    #[serde(skip)]
    pub kept_off: Arc<[Address]>,
}

impl Service {
    /// Whether an endpoint has a bound of its own.
    pub fn bounds_endpoints(&self) -> bool {
        let own = |endpoint: &Endpoint| endpoint.limits != EndpointLimits::default();
        self.limits.adaptive.is_some() || self.endpoints.iter().any(own)
    }
}

/// Two services are the same when everything that is configured of them is. The numbers of bounds do
/// not count: they live in concurrency limits, which outlast a reload, so that changing one closes no connection. A
/// bound on connections that was not there before does: those open already are not counted in it.
impl PartialEq for Service {
    fn eq(&self, other: &Self) -> bool {
        let Self { name, endpoints, balance, sticky, health, ejection, breaker, .. } = self;
        let Self { when_down, host, tls, protocol, send_proxy_protocol, retry, pool, limits, .. } = self;
        let Self { destinations, discover, prefer, kept_off, .. } = self;
        *name == other.name
            && limits.max_connections.is_some() == other.limits.max_connections.is_some()
            && *endpoints == other.endpoints
            && *balance == other.balance
            && *sticky == other.sticky
            && *health == other.health
            && *ejection == other.ejection
            && *breaker == other.breaker
            && *when_down == other.when_down
            && *host == other.host
            && *tls == other.tls
            && *protocol == other.protocol
            && *send_proxy_protocol == other.send_proxy_protocol
            && *retry == other.retry
            && *pool == other.pool
            && *destinations == other.destinations
            && *discover == other.discover
            && *prefer == other.prefer
            && *kept_off == other.kept_off
    }
}

/// Where endpoints come from beside those that are written (`services.<name>.discover`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct DiscoverPolicy {
    /// Who is asked for what, in words; all settings are compared.
    #[serde(rename = "")]
    pub source: written::Partly,
    /// The scheme of endpoints of which the source tells none: `http` (the default), `https`, `tcp` or `udp`.
    pub scheme: &'static str,
    /// Only endpoints with these labels are used; default all.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub subset: Labels,
}

/// Which endpoints are used rather than others (`services.<name>.prefer`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PreferPolicy {
    /// Those with this label `zone`, of the lowest tier that serves.
    #[serde(serialize_with = "written::text")]
    pub zone: Arc<str>,
    /// The others are used too while less than this share of them is well, 1–100; default 50.
    pub spill_over: u32,
}

/// How endpoints are reached that exchanges bring along.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct DestinationPolicy {
    /// Exchanges, tunnels and connections under way to each, 1–1,000,000; default 1,000.
    pub max_in_flight: u32,
    /// Addresses of this machine that connections come from, in turn; none: the kernel chooses.
    #[serde(serialize_with = "written::list")]
    pub sources: Arc<[IpAddr]>,
}

/// In which form endpoints are told of clients (HAProxy's `proxy-protocol.txt`).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyProtocol {
    /// A line of text.
    V1,
    /// Binary, with the name that the client asked for and the request id.
    V2,
}

/// The scheme of endpoints that are reached through TLS.
const HTTPS: &str = "https://";

/// The scheme of endpoints that take whole connections.
const TCP: &str = "tcp://";

/// The scheme of endpoints that take datagrams.
const UDP: &str = "udp://";

/// Whether the endpoint of this URL, in its written form, is reached through TLS.
pub(crate) fn is_secure(url: &str) -> bool {
    url.starts_with(HTTPS)
}

/// One endpoint as written: an address or a host name, and a weight.
#[derive(Clone, Debug, Serialize)]
pub struct Endpoint {
    /// The URL as the user wrote it, for names in logs and metrics, and the `Host` of [`HostRule::Endpoint`].
    #[serde(skip)]
    pub url: Arc<str>,
    /// Where to connect.
    #[serde(serialize_with = "written::text")]
    pub address: Address,
    /// The share of the traffic, 0 (none) to 1000; default 1.
    pub weight: u32,
    /// Endpoints of a higher tier are used only while none of a lower one is well, 0–9; default 0.
    pub tier: u8,
    /// Whether it takes new requests. Only the admin API sets another than the default.
    #[serde(rename = "state")]
    pub mode: Mode,
    /// What is said of it beside, such as its zone.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// How much it takes at once.
    #[serde(flatten)]
    pub limits: EndpointLimits,
    /// Not from the file: discovered by a source, or added by a document or the admin API. It may use fewer addresses
    /// than an endpoint of the file ([`EndpointSets::keep_off`](crate::EndpointSets::keep_off)).
    #[serde(skip)]
    pub is_added: bool,
}

/// What an operator wants of an endpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It takes requests.
    #[default]
    Ready,
    /// It takes no new ones; what is under way goes on to its end, or to the drain's.
    Draining,
    /// It takes none until further notice.
    Maintenance,
}

/// As for [`Service`]: the numbers of bounds do not count.
impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        let Self { url, address, weight, tier, mode, labels, limits, is_added } = self;
        *url == other.url
            && *address == other.address
            && *weight == other.weight
            && *tier == other.tier
            && *mode == other.mode
            && *labels == other.labels
            && *is_added == other.is_added
            && limits.max_connections.is_some() == other.limits.max_connections.is_some()
    }
}

/// Bounds on what an endpoint takes at once, all its addresses together (`services.<name>.endpoints[]`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct EndpointLimits {
    /// Connections open to it, idle ones included, 1–1,000,000; default no bound.
    pub max_connections: Option<u32>,
    /// Exchanges and tunnels under way to it, 1–1,000,000; default no bound.
    pub max_in_flight: Option<u32>,
}

/// Bounds on what a service takes at once (`services.<name>.limits`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ServiceLimits {
    /// Connections open to it, idle ones included, 1–1,000,000; default no bound.
    pub max_connections: Option<u32>,
    /// Exchanges and tunnels under way to it, 1–1,000,000; default no bound.
    pub max_in_flight: Option<u32>,
    /// A bound on what is under way to each endpoint that follows its latency.
    pub adaptive: Option<AdaptivePolicy>,
    /// Who may wait at each of its concurrency limits and those of its endpoints.
    pub queue: QueuePolicy,
}

impl Endpoint {
    /// The authority of the URL: what follows `http://`, `https://`, `tcp://` or `udp://`; `localhost` for a unix
    /// socket.
    pub fn authority(&self) -> &str {
        let schemes = ["http://", HTTPS, TCP, UDP];
        let rest = schemes.iter().find_map(|scheme| self.url.strip_prefix(scheme));
        rest.map_or("localhost", |rest| rest.trim_end_matches('/'))
    }

    /// Whether it takes whole connections, and no requests.
    pub fn takes_connections(&self) -> bool {
        self.url.starts_with(TCP)
    }

    /// Whether it takes datagrams, and nothing else.
    pub fn takes_datagrams(&self) -> bool {
        self.url.starts_with(UDP)
    }

    /// Whether it is reached through TLS.
    pub fn is_secure(&self) -> bool {
        is_secure(&self.url)
    }

    /// The host of the URL: a name, or an address without brackets; `localhost` for a unix socket.
    pub fn host(&self) -> String {
        match &self.address {
            Address::Socket(address) => address.ip().to_string(),
            Address::Name { host, .. } => host.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    }
}

/// Where an endpoint is.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Address {
    /// An IP address and a port: `http://10.0.0.1:8080`, `https://10.0.0.1`.
    Socket(SocketAddr),
    /// A host name, resolved by the control thread; every address becomes a member.
    Name {
        /// Lower case, without a trailing dot.
        host: Arc<str>,
        /// 1–65535.
        port: u16,
    },
    /// `unix:/run/app.sock`.
    Unix(Arc<PathBuf>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The `Host` field of the request that is sent upstream (`services.<name>.host`).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRule {
    /// `keep`: the client's, in normal form. The default.
    #[default]
    Keep,
    /// `endpoint`: the authority of the endpoint's URL.
    Endpoint,
    /// Any other text: this name.
    #[serde(untagged, serialize_with = "written::text")]
    Fixed(Arc<str>),
}

/// What is spoken with endpoints (`services.<name>.protocol`).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// `auto`: through TLS what an endpoint chooses of HTTP/2 and HTTP/1.1 (ALPN), else HTTP/1.1. The default.
    #[default]
    Auto,
    /// `http1`: HTTP/1.1.
    Http1,
    /// `http2`: HTTP/2; without TLS by prior knowledge (h2c).
    Http2,
}

/// How connections to an endpoint are kept (`services.<name>.pool`). Per worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct PoolPolicy {
    /// Idle connections kept per endpoint and worker; `None` (the default, `auto`): as many as were
    /// in use at once, bounded by the descriptor budget.
    #[serde(serialize_with = "written::or_auto")]
    pub max_idle: Option<u32>,
    /// An idle connection is closed after this time; default 60 s.
    #[serde(serialize_with = "written::duration")]
    pub idle: Duration,
    /// A connection is not reused after this time; default 1 h.
    #[serde(serialize_with = "written::duration")]
    pub max_age: Duration,
    /// A connection is not reused after this many requests; default none (`u32::MAX`).
    #[serde(skip_serializing_if = "is_unbounded")]
    pub max_requests: u32,
    /// The connection that has been idle longest is taken first, not the one that was used last; default false.
    pub oldest_first: bool,
}

fn is_unbounded(number: &u32) -> bool {
    *number == u32::MAX
}

impl Default for PoolPolicy {
    fn default() -> Self {
        Self {
            max_idle: None,
            idle: Duration::from_secs(60),
            max_age: Duration::from_secs(3600),
            max_requests: u32::MAX,
            oldest_first: false,
        }
    }
}
