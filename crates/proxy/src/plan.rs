//! The compiled configuration that workers run: validated, immutable, swapped whole.
//!
//! `config` makes it from a Spec; every worker holds a local pointer to it. Indices
//! ([`thalweg_route::RouteId`], [`ServiceId`], a listener's position) are positions in the vectors
//! of one plan and mean nothing in another.

pub use crate::plan::access::{AccessPolicy, Banned};
pub use crate::plan::cache::{CACHE_DISK_MIN, CACHE_MIN, CachePlan, DiskPlan};
pub use crate::plan::canary::{CanaryGates, CanaryPolicy, OnFailure};
pub use crate::plan::own_addresses::{Barred, OwnAddresses, is_localhost};
pub use crate::plan::sealed::{Leads, RevokedFile, Sealed, SealedRoute, Target, redacted};
pub use crate::plan::secrets::PlanSecrets;

mod access;
mod cache;
mod canary;
mod filters;
pub(crate) mod own_addresses;
pub(crate) mod sealed;
mod secrets;

use ipnet::IpNet;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_access::rules::AddressRules;
use thalweg_core::{limits, written};
use thalweg_filter::Chain;
pub use thalweg_http::Escapes;
use thalweg_http::HeadLimits;
use thalweg_net::connect::needs_keepalive;
pub use thalweg_net::interfaces::is_machines;
use thalweg_observe::trace::Tracing;
use thalweg_route::{PathPattern, Query, RouteId, RouteMatch, Table};
use thalweg_tls::AcmePolicy;
use thalweg_tls::{Acceptor, Tickets};
use thalweg_upstream::{HashKey, Priority, QueuePolicy, Service};

/// The position of a service in [`Plan::services`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ServiceId(pub u32);

/// Everything that the data plane knows of the configuration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where clients connect; at most 65,535.
    pub listeners: Vec<Listener>,
    /// Compiled from the matches of [`Self::routes`], in the same order.
    pub table: Arc<Table>,
    /// Of listeners that take connections and no requests: compiled from the matches of the routes behind those of
    /// [`Self::table`], in the same order. They name a listener each, and perhaps the hosts that clients ask for in
    /// their first words of TLS.
    pub connections: Arc<Table>,
    /// In file order, then those of listeners that take connections.
    pub routes: Vec<Route>,
    /// Requests that filters send to services by themselves: a route of its own, without a match and without filters,
    /// for each service that one of them names.
    pub calls: Vec<CallRoute>,
    /// In file order, then those that routes define by listing URLs.
    pub services: Vec<Arc<Service>>,
    /// Peers whose forwarded fields are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Lists of addresses, and bans.
    pub access: AccessPolicy,
    /// Bounds on heads and connections.
    pub limits: Limits,
    /// Deadlines towards clients.
    pub client_timeouts: ClientTimeouts,
    /// How the proxy stops.
    pub shutdown: Shutdown,
    /// What is remembered of exchanges that are over.
    pub requests: RequestsPolicy,
    /// What the HTTP cache may use.
    pub cache: CachePlan,
    /// Whether traces are kept, and where they go.
    pub tracing: Option<Tracing>,
    /// Whether answers that the proxy makes itself say what went wrong; default true.
    pub error_details: bool,
    /// Where the process is to listen beside its listeners: the admin API and the metrics, as written.
    pub beside: Vec<SocketAddr>,
    /// Which services receive secrets of the configuration, and what no display shows.
    pub secrets: PlanSecrets,
}

impl Plan {
    /// The match of the route at a position.
    pub fn match_of(&self, position: usize) -> Option<&RouteMatch> {
        // Those of connections stand behind the others and have a table of their own.
        let (table, position) = match position.checked_sub(self.table.len()) {
            None => (&self.table, position),
            Some(position) => (&self.connections, position),
        };
        table.written(RouteId(u32::try_from(position).ok()?))
    }

    /// The listeners that the route at a position names; none: every one that takes requests.
    pub fn listeners_of(&self, position: usize) -> impl Iterator<Item = &Listener> {
        let numbers = self.match_of(position).map_or(&[][..], |route| &route.listeners);
        numbers.iter().filter_map(|number| self.listeners.get(usize::from(*number)))
    }

    /// Whether forwarded fields from this peer are believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        !self.trusted_proxies.is_empty() && self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }
}

impl Plan {
    /// The route that the table has found.
    pub fn route(&self, found: Option<RouteId>) -> Option<&Route> {
        self.routes.get(found?.0 as usize)
    }

    /// The route of connections to a listener, at this position, whose clients ask for this name.
    pub fn route_of_connection(&self, listener: u16, name: &[u8], client: IpAddr) -> Option<RouteId> {
        let RouteId(found) = self.connections.find(&Query::of_connection(listener, name, client))?;
        Some(RouteId(self.table.len() as u32 + found))
    }

    /// Bounds on a request head, for the parser.
    pub(crate) fn head_limits(&self) -> HeadLimits {
        HeadLimits {
            line: limits::REQUEST_LINE.min(self.limits.max_head),
            head: self.limits.max_head,
            fields: self.limits.max_fields,
        }
    }

    /// Whether a connection to this address would end at the process itself, as far as its addresses are written: a
    /// port that the kernel chooses stands nowhere.
    pub fn is_own(&self, address: SocketAddr) -> bool {
        OwnAddresses::written(self).contains(address)
    }

    /// Whether a listener takes requests through TLS.
    pub fn takes_https(&self) -> bool {
        self.https_listener().is_some()
    }

    /// What goes to each service, in their order.
    pub fn traffic(&self) -> Vec<Traffic> {
        let mut all = vec![Traffic::default(); self.services.len()];
        let (requests, connections) = self.routes.split_at(self.table.len().min(self.routes.len()));
        let mut note = |route: &Route, of: fn(&mut Traffic) -> &mut bool| {
            for service in route.all_services() {
                all.get_mut(service.0 as usize).into_iter().for_each(|traffic| *of(traffic) = true);
            }
        };
        let calls = self.calls.iter().map(|call| &call.route);
        requests.iter().chain(calls).for_each(|route| note(route, |traffic| &mut traffic.requests));
        connections.iter().for_each(|route| note(route, |traffic| &mut traffic.connections));
        let udp = (0_u16..).zip(&self.listeners).filter(|(_, it)| it.protocol == ListenerProtocol::Udp);
        let any = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let of_udp = udp.filter_map(|(at, _)| self.route(self.route_of_connection(at, b"", any)));
        of_udp.for_each(|route| note(route, |traffic| &mut traffic.datagrams));
        all
    }

    /// The position of the listener that `redirect_https` sends clients to: the first one with TLS.
    pub(crate) fn https_listener(&self) -> Option<usize> {
        let is_https =
            |listener: &Listener| listener.tls.is_some() && listener.protocol == ListenerProtocol::Http;
        self.listeners.iter().position(is_https)
    }

    /// How long clients' connections may be silent. It looks at every route: once for all listeners.
    pub(crate) fn silence(&self) -> Silence {
        let calls = || self.calls.iter().map(|call| &call.route);
        let all = || self.routes.iter().chain(calls()).flat_map(Route::all_timeouts);
        let idle = all().map(|timeouts| timeouts.idle).max().unwrap_or_default();
        let first_byte = all().map(|timeouts| timeouts.first_byte).max().unwrap_or_default();
        let longest = self.client_timeouts.keep_alive.max(idle).max(first_byte);
        Silence { longest, needs_keepalive: needs_keepalive(idle) }
    }
}

/// How long the connections of a plan's clients may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    /// The longest time without a byte that any of them may have to bear.
    pub(crate) longest: Duration,
    /// A route lets a tunnel be silent until the kernel would ask for the first time.
    needs_keepalive: bool,
}

impl Silence {
    /// Whether connections that a listener accepts are to have keep-alive. One that is a tunnel from its beginning
    /// has deadlines for all of its life, and only that of a route can be long.
    pub(crate) fn has_keepalive(self, listener: &Listener) -> bool {
        listener.protocol == ListenerProtocol::Http || self.needs_keepalive
    }
}

/// An address that the proxy accepts on.
#[derive(Clone, Debug, Serialize)]
pub struct Listener {
    /// The key under `listeners:`.
    #[serde(skip)]
    pub name: Arc<str>,
    /// Where.
    #[serde(serialize_with = "written::text")]
    pub address: ListenAddress,
    /// What its clients speak.
    pub protocol: ListenerProtocol,
    /// Bounds of its own.
    pub limits: ListenerLimits,
    /// TCP connections are accepted when their first bytes are here, or after a second without any.
    pub defer_accept: bool,
    /// Clients may speak HTTP/2 without TLS, from the first byte on (prior knowledge).
    pub h2c: bool,
    /// A client that has ended its sending side after its request still gets its answer.
    pub allow_half_close: bool,
    /// Whose words about clients are heard before anything else; `None`: nobody's.
    #[serde(serialize_with = "written::shared")]
    pub proxy_protocol: Option<Arc<ProxyProtocolPolicy>>,
    /// Who may connect; `None`: everybody who is not in the list `blocked`.
    #[serde(serialize_with = "access_text")]
    pub access: Option<Arc<AddressRules>>,
    /// `None`: clients speak in the clear.
    #[serde(skip)]
    pub tls: Option<Arc<ListenerTls>>,
    /// Whoever comes in the clear is sent to the same place through TLS; never with [`Self::tls`].
    pub redirect_https: bool,
    /// Answers to each datagram of a client, 1–1000, after which its session ends; `None`: silence ends it.
    pub expected_responses: Option<u32>,
}

fn access_text<S: Serializer>(rules: &Option<Arc<AddressRules>>, serializer: S) -> Result<S::Ok, S::Error> {
    rules.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Bounds of one listener (`listeners.<name>.limits`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct ListenerLimits {
    /// Its client connections at the same time; `None`: no bound of its own.
    pub max_connections: Option<usize>,
    /// Streams at the same time on each of those that speak HTTP/2, 1 to 1000; default 100.
    pub max_streams: u32,
    /// Requests on each of its client connections, after which it is closed; `None`: no bound.
    pub max_requests: Option<u32>,
}

impl ListenerLimits {
    /// Whether a connection that has brought so many requests takes no more.
    pub(crate) fn are_spent(&self, requests: u32) -> bool {
        self.max_requests.is_some_and(|most| requests >= most)
    }
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self { max_connections: None, max_streams: limits::H2_STREAMS, max_requests: None }
    }
}

/// What the clients of a listener speak (`listeners.<name>.protocol`).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenerProtocol {
    /// HTTP/1 and HTTP/2.
    #[default]
    Http,
    /// Anything: bytes go both ways from the first one on. Where [`Listener::tls`] is there, through that.
    Tcp,
    /// TLS, which is not ended here: who gets a connection is told by the name that its client asks for (SNI).
    TlsPassthrough,
    /// Datagrams (UDP): those of one client go to one endpoint, and its answers back.
    Udp,
}

impl ListenerProtocol {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::TlsPassthrough => "tls_passthrough",
            Self::Udp => "udp",
        }
    }
}

/// Who says with the PROXY protocol on whose behalf it connects (`listeners.<name>.proxy_protocol`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProxyProtocolPolicy {
    /// Peers that say it; at least one. Others are clients themselves.
    #[serde(serialize_with = "written::list")]
    pub from: Vec<IpNet>,
    /// Whether they always say it; default true. Otherwise a connection may begin without.
    pub required: bool,
}

/// How the clients of a listener are secured (`listeners.<name>.tls`).
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    /// Certificates and policy. It shows no keys.
    pub acceptor: Arc<Acceptor>,
    /// Where its certificates came from, in its order.
    pub files: Arc<[CertificateFiles]>,
    /// How sessions are resumed; `None`: they are not.
    pub tickets: Option<TicketPolicy>,
    /// From the first byte to the end of the handshake, 1 s to 5 min; default 10 s.
    pub handshake_timeout: Duration,
    /// What an authority is asked for, for control: handshakes find what it has issued in the acceptor.
    pub acme: Option<Arc<AcmePolicy>>,
    /// `localhost` and the names below it are shown, with certificates of this machine's own authority; never with
    /// [`Self::acme`].
    pub local: bool,
}

/// How sessions are resumed (`listeners.<name>.tls.tickets`).
#[derive(Clone, Debug, PartialEq)]
pub struct TicketPolicy {
    /// How long a key seals, 10 min to 7 days; default 12 h.
    pub rotate: Duration,
    /// Keys from a file; `None`: those of the process.
    pub keys: Option<TicketKeyFile>,
}

/// Keys from a file, for replicas. Equal when the keys are; `Debug` shows none.
#[derive(Clone)]
pub struct TicketKeyFile {
    /// As written.
    pub path: PathBuf,
    /// Which keys it held: [`thalweg_tls::TicketKeys::digest`].
    pub digest: [u8; 32],
    /// What the acceptor seals and opens with: other keys are put into it.
    pub tickets: Arc<Tickets>,
}

impl PartialEq for TicketKeyFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path && self.digest == other.digest
    }
}

impl fmt::Debug for TicketKeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Where a certificate came from.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CertificateFiles {
    /// The chain, as written: relative to the working directory of the process.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Where a listener is bound.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ListenAddress {
    /// `:8080` (both IPv6 and IPv4 on every interface), `127.0.0.1:8080`, `[::1]:8080`; port 0: the kernel chooses.
    Tcp {
        /// The address; `[::]` stands for both families when `dual_stack`.
        address: SocketAddr,
        /// `:8080` was written: accept IPv4 on the IPv6 wildcard socket too.
        dual_stack: bool,
    },
    /// The same for datagrams: they have ports of their own.
    Udp {
        /// As of TCP.
        address: SocketAddr,
        /// As of TCP.
        dual_stack: bool,
    },
    /// `unix:/run/thalweg/app.sock`.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address of connections as it is written. A path has none, nor have datagrams.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, .. } => Some(*address),
            Self::Udp { .. } | Self::Unix(_) => None,
        }
    }

    /// The UDP address as written.
    pub fn udp(&self) -> Option<SocketAddr> {
        match self {
            Self::Udp { address, .. } => Some(*address),
            Self::Tcp { .. } | Self::Unix(_) => None,
        }
    }

    /// The port as it is written; 0: the kernel chooses. A path has none.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { address, .. } | Self::Udp { address, .. } => Some(address.port()),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { address, dual_stack: true } | Self::Udp { address, dual_stack: true } => {
                write!(f, ":{}", address.port())
            }
            Self::Tcp { address, dual_stack: false } | Self::Udp { address, dual_stack: false } => {
                address.fmt(f)
            }
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What goes to a service.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Requests do.
    pub requests: bool,
    /// Whole connections do, or datagrams.
    pub connections: bool,
    /// Datagrams do.
    pub datagrams: bool,
}

/// A route without its match: what happens to a request that it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// As written, or made from its position; unique.
    #[serde(skip)]
    pub name: Arc<str>,
    /// What it matches, for people: `shop.example.com /products/* GET`.
    #[serde(skip)]
    pub matches: Arc<str>,
    /// Some of its conditions on fields or parameters came from the environment: they are never shown.
    #[serde(skip)]
    pub conceals: bool,
    /// Those of `defaults` and its own, in order; see [`Self::chain`].
    #[serde(skip)]
    pub filters: Chain,
    /// Filters in place of these, where a listener or a service has some of its own.
    #[serde(skip)]
    pub filter_variants: Arc<[FilterVariant]>,
    /// The patterns of its path, of which one matches.
    #[serde(skip)]
    pub patterns: Arc<[PathPattern]>,
    /// Where the request goes.
    #[serde(skip)]
    pub to: To,
    /// How its requests move to a newcomer among its services.
    pub canary: Option<Box<CanaryPolicy>>,
    /// Services that filters may send it to instead, by their names.
    #[serde(skip)]
    pub choices: Arc<[(Arc<str>, ServiceId)]>,
    /// Deadlines towards every service that has none of its own here: see [`Self::timeouts_to`].
    pub timeouts: Timeouts,
    /// Deadlines towards those that have, where the route leads to more than one service.
    #[serde(skip)]
    pub service_timeouts: Arc<[(ServiceId, Timeouts)]>,
    /// Bounds on its exchanges.
    pub limits: RouteLimits,
    /// What its requests may have in their paths; see [`Escapes`]. Default none.
    pub allow_encoded: Escapes,
}

/// The route of requests that filters send to a service.
#[derive(Clone, Debug)]
pub struct CallRoute {
    /// The service.
    pub service: ServiceId,
    /// Named after it; it leads there.
    pub route: Route,
}

/// The filters of a route for what comes in at one listener and goes to one service.
#[derive(Clone, Debug)]
pub struct FilterVariant {
    /// The position of the listener.
    pub listener: u16,
    /// The service; `None` while it is not known.
    pub service: Option<ServiceId>,
    /// Those of the listener, of `defaults`, of the route and of the service, in order.
    pub chain: Chain,
}

impl Route {
    /// The filters of what comes in at a listener and goes to a service.
    #[inline]
    pub fn chain(&self, listener: u16, service: Option<ServiceId>) -> &Chain {
        let mut variants = self.filter_variants.iter();
        let own = variants.find(|variant| variant.listener == listener && variant.service == service);
        own.map_or(&self.filters, |variant| &variant.chain)
    }

    /// Whether the route has a filter chain for this listener and service. If not, [`Self::chain`] gives the filters
    /// of the route alone, without those of listeners and services: such a request must be refused.
    pub fn has_chain(&self, listener: u16, service: Option<ServiceId>) -> bool {
        let mut variants = self.filter_variants.iter();
        self.filter_variants.is_empty()
            || variants.any(|variant| variant.listener == listener && variant.service == service)
    }

    /// Whether a filter that the admin API turns on and off is on; `None`: there is none.
    pub fn is_on(&self) -> Option<bool> {
        let variants = self.filter_variants.iter().map(|variant| &variant.chain);
        let chains = std::iter::once(&self.filters).chain(variants);
        chains.filter_map(Chain::is_on).reduce(|one, other| one || other)
    }

    /// Turns such filters on or off.
    pub fn switch(&mut self, on: bool) {
        self.filters = self.filters.switched(on);
        let variants = self.filter_variants.iter().cloned();
        let switched =
            |variant: FilterVariant| FilterVariant { chain: variant.chain.switched(on), ..variant };
        self.filter_variants = variants.map(switched).collect();
    }

    /// The position of the variant that [`Self::chain`] finds, plus one; 0 for none, or one beyond the 254th.
    pub(crate) fn variant(&self, listener: u16, service: Option<ServiceId>) -> u8 {
        let mut variants = self.filter_variants.iter();
        let at = variants.position(|variant| variant.listener == listener && variant.service == service);
        at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// The filters of a variant.
    pub(crate) fn chain_of(&self, variant: u8) -> &Chain {
        let own = usize::from(variant).checked_sub(1).and_then(|at| self.filter_variants.get(at));
        own.map_or(&self.filters, |variant| &variant.chain)
    }

    /// The services that its requests may go to.
    pub fn all_services(&self) -> impl Iterator<Item = ServiceId> {
        self.to.services().chain(self.choices.iter().map(|(_, service)| *service))
    }

    /// Deadlines towards this service.
    pub fn timeouts_to(&self, service: Option<ServiceId>) -> Timeouts {
        let mut own = self.service_timeouts.iter();
        let own = own.find(|(of, _)| Some(*of) == service);
        own.map_or(self.timeouts, |(_, timeouts)| *timeouts)
    }

    /// Deadlines towards any of its services.
    fn all_timeouts(&self) -> impl Iterator<Item = &Timeouts> {
        std::iter::once(&self.timeouts).chain(self.service_timeouts.iter().map(|(_, timeouts)| timeouts))
    }
}

/// Where a route sends its requests (`routes[].to`).
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// A service.
    Service(ServiceId),
    /// Several, each with its share.
    Split(Split),
    /// Wherever the label says that its host begins with.
    Sealed(Arc<SealedRoute>),
    /// Nowhere: a filter of the route answers every request.
    Nowhere,
}

impl To {
    /// The services that it names.
    pub fn services(&self) -> impl Iterator<Item = ServiceId> {
        let (one, parts, named) = match self {
            Self::Service(service) => (Some(*service), &[][..], &[][..]),
            Self::Split(split) => (None, &split.parts[..], &[][..]),
            Self::Sealed(sealed) => (Some(sealed.service), &[][..], &sealed.named[..]),
            Self::Nowhere => (None, &[][..], &[][..]),
        };
        one.into_iter().chain(parts.iter().map(|(service, _)| *service)).chain(named.iter().copied())
    }
}

/// A split of a route's requests between services by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Services and their weights, 0–1000, at least one above 0.
    pub parts: Vec<(ServiceId, u32)>,
    /// What keeps a client in one part (`sticky_by`); default nothing: each request is drawn anew.
    pub key: Option<HashKey>,
}

/// Bounds on the exchanges of a route (`routes[].limits`, then `defaults.limits`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct RouteLimits {
    /// Bytes of a request body, chunked or not; longer is answered 413. Default: no bound.
    #[serde(serialize_with = "written::size")]
    pub max_body: Option<u64>,
    /// Bytes per second that a request body must bring, and that a client must take of a response that
    /// waits for it, as a mean over the idle deadline; 0: no bound. Default 128.
    #[serde(serialize_with = "per_second")]
    pub min_rate: u64,
    /// Exchanges and tunnels under way, 1–1,000,000; default no bound.
    pub max_in_flight: Option<u32>,
    /// Who may wait for a place of the route.
    pub queue: QueuePolicy,
    /// Who goes first in every queue that an exchange of the route waits in.
    pub priority: Priority,
}

fn per_second<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{bytes}B/s"))
}

impl Default for RouteLimits {
    fn default() -> Self {
        Self {
            max_body: None,
            min_rate: 128,
            max_in_flight: None,
            queue: QueuePolicy::default(),
            priority: Priority::default(),
        }
    }
}

/// Deadlines towards a service, resolved from the route, its service and `defaults`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Timeouts {
    /// Until an endpoint has accepted the connection; default 2 s.
    #[serde(serialize_with = "written::duration")]
    pub connect: Duration,
    /// From the request's last byte sent to the response's first byte; default 60 s.
    #[serde(serialize_with = "written::duration")]
    pub first_byte: Duration,
    /// Without a byte in either direction of a body or tunnel; default 60 s.
    #[serde(serialize_with = "written::duration")]
    pub idle: Duration,
    /// For the whole exchange, from the request's head to the response's last byte; default none. Not
    /// for tunnels.
    #[serde(serialize_with = "written::duration")]
    pub request: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            request: None,
        }
    }
}

/// Deadlines towards clients (`defaults.timeouts.head`, `defaults.timeouts.keep_alive`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct ClientTimeouts {
    /// From the first byte of a request's head (for the first: from the accept) to its last; default 10 s.
    #[serde(serialize_with = "written::duration")]
    pub head: Duration,
    /// An idle connection between requests is closed after this time; default 75 s.
    #[serde(serialize_with = "written::duration")]
    pub keep_alive: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), keep_alive: Duration::from_secs(75) }
    }
}

/// Bounds (`limits:`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Limits {
    /// Client connections at the same time in the whole process; `None` (`auto`): what the budget admits.
    #[serde(serialize_with = "written::or_auto")]
    pub max_connections: Option<usize>,
    /// Connections at the same time of one client address (IPv6: of one /64); 0: no bound.
    pub max_connections_per_client: u32,
    /// Bytes that the process and its sockets may use; `None` (`auto`): a share of what the machine gives.
    #[serde(serialize_with = "written::size_or_auto")]
    pub memory: Option<u64>,
    /// Exchanges at the same time in the whole process; `None` (`auto`): what the budget admits.
    #[serde(serialize_with = "written::or_auto")]
    pub max_in_flight: Option<usize>,
    /// Bytes of a head, requests and responses alike; default 64 KiB.
    #[serde(serialize_with = "written::size_of_memory")]
    pub max_head: usize,
    /// Fields of a head; default 128.
    pub max_fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: None,
            max_connections_per_client: 0,
            memory: None,
            max_in_flight: None,
            max_head: limits::HEAD,
            max_fields: limits::FIELDS,
        }
    }
}

/// What is remembered of exchanges that are over (`requests:`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct RequestsPolicy {
    /// Exchanges that each worker remembers, the newest ones, 0–10,000; 0: none. Beyond them, as many of those that
    /// failed, of those that were slow and of those that clients did not get right. Default 1,000.
    pub keep: usize,
    /// From this time on an exchange is slow; default 1 s.
    #[serde(serialize_with = "written::duration")]
    pub slow: Duration,
}

impl Default for RequestsPolicy {
    fn default() -> Self {
        Self { keep: 1000, slow: Duration::from_secs(1) }
    }
}

/// How the proxy stops (`shutdown:`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Shutdown {
    /// `/readyz` fails and accepting goes on for this long, so that load balancers notice; default 0 s.
    #[serde(serialize_with = "written::duration")]
    pub delay: Duration,
    /// Then running exchanges get this long; default 30 s.
    #[serde(serialize_with = "written::duration")]
    pub grace: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { delay: Duration::ZERO, grace: Duration::from_secs(30) }
    }
}
