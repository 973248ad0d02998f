//! The top of a configuration file.

use super::access_log::AccessLogSpec;
use super::ban::BanSpec;
use super::cache::CacheMemorySpec;
use super::filter_entry::StepSpec;
use super::limits::RouteLimitsSpec;
use super::listener_tls::ListenerTlsSpec;
use super::route::RouteSpec;
use super::secret::SecretSpec;
use super::service::{RetrySpec, ServiceSpec, TimeoutsSpec};
use super::short::{Short, ShortSpec};
use super::slo::SloSpec;
use super::spanned::{ListSpec, NamedSpec, Spanned};
use super::target::ToSpec;
use super::test_case::TestSpec;
use super::tracing::TracingSpec;
use super::values::{AutoSizeSpec, AutoSpec, DurationSpec, SizeSpec};
use super::webhook::WebhookSpec;
use crate::diagnose::Problems;
use crate::schema;
use crate::validate::{CONNECTIONS_MAX, bounded, number};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use thalweg_core::limits::{H2_STREAMS, H2_STREAMS_MAX};
use thalweg_discovery::{RegistrationSpec, RouteSourceSpec};
use thalweg_filter::{AddressRulesSpec, MembersSpec};
use thalweg_proxy::plan::ListenerLimits;

/// A configuration file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `listeners` and `routes`")]
pub struct FileSpec {
    /// Files to read with this one: paths, or patterns with `*`, `?` and `[…]`, relative to the file in which they
    /// stand. Read before everything else.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "setting"))]
    pub include: ListSpec<String>,
    /// Where the admin API listens.
    #[schemars(extend("x-default-words" = "only the unix socket"))]
    #[schemars(extend("x-api" = "setting"))]
    pub admin: Option<AdminSpec>,
    /// What must last.
    #[schemars(extend("x-api" = "setting"))]
    pub state: StateSpec,
    /// Worker threads; `auto`: as many as CPUs are allowed.
    #[schemars(extend("x-range" = [1, 1024], "x-default" = "auto"))]
    pub workers: Option<Spanned<AutoSpec>>,
    /// Addresses and networks whose forwarded fields are believed.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(with = "ListSpec<schema::Network>")]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub trusted_proxies: ListSpec<String>,
    /// `user` or `user:group` to become before threads start.
    #[schemars(extend("x-default-words" = "stay"))]
    #[schemars(with = "Option<schema::UserName>")]
    #[schemars(extend("x-api" = "setting"))]
    pub user: Option<Spanned<String>>,
    /// Bounds on heads and connections.
    pub limits: LimitsSpec,
    /// How the proxy stops.
    pub shutdown: ShutdownSpec,
    /// What is remembered of exchanges that are over.
    pub request_history: RequestHistorySpec,
    /// What the HTTP cache may use; routes cache with the filter `cache`.
    pub cache: CacheMemorySpec,
    /// Answers that the proxy makes itself say what went wrong, in `Proxy-Status` and in the body. With `false`
    /// clients get the status and the id of the request, by which logs and records tell the rest.
    #[schemars(extend("x-default" = true))]
    pub error_details: Option<bool>,
    /// What routes and services inherit.
    pub defaults: DefaultsSpec,
    /// Where metrics are served without a token.
    #[schemars(extend("x-default-words" = "nowhere"))]
    #[schemars(extend("x-api" = "setting"))]
    pub metrics: Option<MetricsSpec>,
    /// The access log.
    #[schemars(extend("x-default-words" = "off"))]
    pub access_log: Option<AccessLogSpec>,
    /// Traces of requests, for OpenTelemetry collectors.
    #[schemars(extend("x-default-words" = "none"))]
    pub tracing: Option<TracingSpec>,
    /// Where clients connect, by name, each a map or its address alone.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 128 }))]
    pub listeners: NamedSpec<ShortSpec<ListenerSpec>>,
    /// What happens to requests, in file order.
    #[schemars(extend("x-default-words" = "none"))]
    pub routes: ListSpec<RouteSpec>,
    /// Lists of filters by name, for routes that share them.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 128 }))]
    pub chains: NamedSpec<ListSpec<StepSpec>>,
    /// Lists of addresses by name, for `access`: networks, `file` and `url`. Networks can be added to them and taken
    /// away while the proxy runs. The list `blocked` is always there, and denied at every listener and of every
    /// request.
    #[schemars(extend("x-default-words" = "`blocked`, which is empty"))]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 128 }))]
    pub lists: NamedSpec<Spanned<MembersSpec>>,
    /// When clients are put into a list by themselves, by name.
    #[schemars(extend("x-default-words" = "never"))]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 128 }))]
    pub bans: NamedSpec<Spanned<BanSpec>>,
    /// Where requests go, by name.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 128 }))]
    pub services: NamedSpec<Spanned<ServiceSpec>>,
    /// Who is told when something happens.
    #[schemars(extend("x-default-words" = "none"))]
    pub webhooks: ListSpec<WebhookSpec>,
    /// Which share of the exchanges of routes and services must be good, by name. `slo_burning` tells when the budget
    /// for bad ones is used up too fast.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("propertyNames" = { "minLength": 1, "maxLength": 128 }))]
    pub slos: NamedSpec<Spanned<SloSpec>>,
    /// Registries in which the proxy itself is an instance while it runs.
    #[schemars(extend("x-default-words" = "none"))]
    pub registrations: ListSpec<RegistrationSpec>,
    /// Where further routes and services come from: documents with `routes`, `services`, `chains` and `tests`, which
    /// are merged with this file while the proxy runs. What the file says wins.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "setting"))]
    pub route_sources: ListSpec<RouteSourceSpec>,
    /// Requests and what must become of them: checked before the configuration is used.
    #[schemars(extend("x-default-words" = "none"))]
    pub tests: ListSpec<TestSpec>,
}

/// `admin:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `address`")]
pub struct AdminSpec {
    /// `127.0.0.1:9900` and the like.
    #[schemars(with = "schema::ListenAddress")]
    #[schemars(extend("x-shown" = true))]
    pub address: Spanned<String>,
    /// The bearer token.
    #[schemars(extend("x-default-words" = "created once in the state directory"))]
    pub token: Option<Spanned<SecretSpec>>,
    /// A second token that may only read.
    #[schemars(extend("x-default-words" = "none"))]
    pub read_token: Option<Spanned<SecretSpec>>,
    /// A certificate: who asks speaks TLS.
    #[schemars(extend("x-default-words" = "in the clear"))]
    #[schemars(extend("x-kept" = true))]
    pub tls: Option<AdminTlsSpec>,
    /// Allows an address that is not loopback without TLS.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    #[schemars(extend("x-api" = "trust"))]
    pub insecure: bool,
}

/// `admin.tls:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `cert` and `key`")]
pub struct AdminTlsSpec {
    /// A PEM file with the certificate, then those that lead from it to a root.
    #[schemars(extend("x-api" = "reference"))]
    pub cert: Spanned<String>,
    /// A PEM file with the private key of the certificate.
    #[schemars(extend("x-api" = "reference"))]
    pub key: Spanned<String>,
}

/// `state:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `path`")]
pub struct StateSpec {
    /// A directory.
    #[schemars(extend("x-default-words" = "`/var/lib/thalweg` for root, else the XDG state directory"))]
    pub path: Option<Spanned<String>>,
}

/// `limits:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of limits")]
pub struct LimitsSpec {
    /// Client connections at once; `auto`: what descriptors and memory admit.
    #[schemars(extend("x-range" = [1, 100000000], "x-default" = "auto"))]
    pub max_connections: Option<Spanned<AutoSpec>>,
    /// Connections at once of one client address, IPv6 by /64; 0: no bound.
    #[schemars(extend("x-range" = [0, 1000000], "x-default" = 0))]
    pub max_connections_per_client: Option<Spanned<u64>>,
    /// Bytes that buffers and sockets may use with the process; `auto`: three quarters of the smallest cgroup limit,
    /// or half of the machine's memory.
    #[schemars(extend("x-range" = ["16MiB", "1024TiB"], "x-default" = "auto"))]
    pub memory: Option<Spanned<AutoSizeSpec>>,
    /// Exchanges at once; `auto`: what memory admits.
    #[schemars(extend("x-range" = [1, 100000000], "x-default" = "auto"))]
    pub max_in_flight: Option<Spanned<AutoSpec>>,
    /// Bytes of a head.
    #[schemars(extend("x-range" = ["1KiB", "1MiB"], "x-default" = "64KiB"))]
    pub max_head: Option<Spanned<SizeSpec>>,
    /// Fields of a head.
    #[schemars(extend("x-range" = [1, 10000], "x-default" = 128))]
    pub max_fields: Option<Spanned<u64>>,
}

/// `shutdown:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `delay` and `grace`")]
pub struct ShutdownSpec {
    /// Accepting goes on for this long while `/readyz` already fails.
    #[schemars(extend("x-default" = "0s"))]
    pub delay: Option<DurationSpec>,
    /// Then running exchanges get this long.
    #[schemars(extend("x-default" = "30s"))]
    pub grace: Option<DurationSpec>,
}

/// `request_history:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `keep` and `slow`")]
pub struct RequestHistorySpec {
    /// Exchanges that each worker remembers, and as many more of each kind that is worth it; 0: none.
    #[schemars(extend("x-range" = [0, 10000], "x-default" = 1000))]
    pub keep: Option<Spanned<u64>>,
    /// From this time on an exchange is slow and is remembered longer.
    #[schemars(extend("x-range" = ["1ms", "1d"], "x-default" = "1s"))]
    pub slow: Option<Spanned<DurationSpec>>,
}

/// `defaults:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `timeouts`, `retry` and `limits`")]
pub struct DefaultsSpec {
    /// Deadlines towards clients, and those that routes and services inherit.
    pub timeouts: TimeoutsSpec,
    /// When another attempt is made, inherited by services.
    pub retry: RetrySpec,
    /// Bounds that routes inherit, each for itself.
    pub limits: RouteLimitsSpec,
    /// Filters of every route, before its own; a route with `inherit: false` has none of them.
    #[schemars(extend("x-default-words" = "none"))]
    pub filters: ListSpec<StepSpec>,
}

/// `metrics:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `address`")]
pub struct MetricsSpec {
    /// `127.0.0.1:9901` and the like: `/metrics`, `/livez` and `/readyz`, no token.
    #[schemars(with = "schema::ListenAddress")]
    #[schemars(extend("x-api" = "address"))]
    #[schemars(extend("x-shown" = true))]
    pub address: Spanned<String>,
}

/// `listeners.<name>:`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `address`")]
pub struct ListenerSpec {
    /// `:80`, `127.0.0.1:80`, `[::1]:80` or `unix:/path`.
    #[schemars(with = "schema::ListenAddress")]
    #[schemars(extend("x-api" = "address"))]
    #[schemars(extend("x-shown" = true))]
    pub address: Spanned<String>,
    /// What is spoken.
    #[schemars(extend("x-default" = "http"))]
    #[serde(default)]
    pub protocol: ProtocolSpec,
    /// Where connections go, for `protocol: tcp`, or datagrams, for `protocol: udp`: the name of a service, a list of
    /// `tcp://…` or `udp://…` endpoints, or services with weights.
    #[schemars(extend("x-default-words" = "nowhere"))]
    #[schemars(extend("x-shown" = true))]
    pub to: Option<Spanned<ToSpec>>,
    /// Where connections go by the name that their clients ask for, for `protocol: tls_passthrough`: hosts, as in
    /// `match.host`, and `default` for all other names and none.
    #[schemars(extend("x-default-words" = "nowhere"))]
    #[serde(default)]
    pub sni: NamedSpec<Spanned<ToSpec>>,
    /// Peers that say with the PROXY protocol on whose behalf they connect, before anything else.
    #[schemars(extend("x-default-words" = "nobody does"))]
    #[schemars(extend("x-api" = "trust", "x-kept" = true))]
    pub proxy_protocol: Option<Spanned<ProxyProtocolSpec>>,
    /// Who may connect, by the address of the peer, or the one that it says with the PROXY protocol: asked before a
    /// byte of the client is read. Whoever may not gets no answer.
    #[schemars(extend("x-default-words" = "everybody who is not in the list `blocked`"))]
    pub access: Option<Spanned<AddressRulesSpec>>,
    /// Certificates, and how they are used: clients speak TLS.
    #[schemars(extend("x-default-words" = "clients speak in the clear"))]
    #[schemars(extend("x-kept" = true))]
    pub tls: Option<Spanned<ListenerTlsSpec>>,
    /// Answer every request 308: the same place through TLS, at the port of the first listener with `tls`. Not for a
    /// listener that has `tls` itself.
    #[schemars(extend("x-default" = false))]
    pub redirect_https: Option<Spanned<bool>>,
    /// Filters of every request that comes in here and that a route takes, before those of `defaults`; a route with
    /// `inherit: false` has none of them.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub filters: ListSpec<StepSpec>,
    /// Bounds of its own.
    #[serde(default)]
    pub limits: ListenerLimitsSpec,
    /// Accept a TCP connection when its first bytes are here, or after a second without any (`TCP_DEFER_ACCEPT`). It
    /// saves a wake-up for each connection. Off for `protocol: tcp`, where endpoints may have the first word.
    #[schemars(extend("x-default" = true))]
    pub defer_accept: Option<bool>,
    /// Clients may speak HTTP/2 without TLS, from the first byte on (prior knowledge, RFC 9113 §3.3), beside
    /// HTTP/1.1. With `tls` both are offered anyway.
    #[schemars(extend("x-default" = false))]
    pub h2c: Option<bool>,
    /// Answer a client that has ended its sending side after its request. Otherwise it is taken to have left, and its
    /// request is given up. For clients such as `nc -N`.
    #[schemars(extend("x-default" = false))]
    pub allow_half_close: Option<bool>,
    /// For `protocol: udp`: answers to each datagram of a client. With the last one that is expected it ends at once,
    /// and an endpoint that gives none within `timeouts.idle` has failed. For DNS it is 1.
    #[schemars(extend("x-range" = [1, 1000], "x-default-words" = "not known, and only silence ends a session"))]
    pub expected_responses: Option<Spanned<u64>>,
}

/// `listeners.<name>.proxy_protocol:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `from`")]
pub struct ProxyProtocolSpec {
    /// Addresses and networks of those peers. All others are clients themselves.
    #[schemars(with = "ListSpec<schema::Network>", extend("minItems" = 1))]
    #[schemars(extend("x-kept" = true))]
    pub from: Spanned<ListSpec<String>>,
    /// Whether they always say it. Otherwise what they send may begin without: only of peers that make every byte
    /// themselves, and not for a listener where endpoints may have the first word.
    #[schemars(extend("x-default" = true))]
    pub required: Option<Spanned<bool>>,
}

/// `listeners.<name>.limits:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `max_connections`")]
pub struct ListenerLimitsSpec {
    /// Its client connections, or sessions of clients with `protocol: udp`, at once.
    #[schemars(extend("x-range" = [1, CONNECTIONS_MAX], "x-default-words" = "no bound but `limits.max_connections`"))]
    pub max_connections: Option<Spanned<u64>>,
    /// Requests that a client may have under way at once on a connection of HTTP/2.
    #[schemars(extend("x-range" = [1, H2_STREAMS_MAX], "x-default" = H2_STREAMS))]
    pub max_streams: Option<Spanned<u64>>,
    /// Requests on a connection of a client, after which it is closed; with HTTP/2 up to `max_streams` more that come
    /// within a second are served too.
    #[schemars(extend("x-range" = [1, u32::MAX], "x-default-words" = "no bound"))]
    pub max_requests: Option<Spanned<u64>>,
}

impl ListenerLimitsSpec {
    /// What it comes to; where nothing is written, what is built in.
    pub(crate) fn policy(&self, problems: &mut Problems) -> ListenerLimits {
        let built_in = ListenerLimits::default();
        let most = self.max_connections.as_ref().and_then(|n| bounded(n, 1, CONNECTIONS_MAX, problems));
        let max_streams = number(self.max_streams.as_ref(), 1, H2_STREAMS_MAX, problems);
        ListenerLimits {
            max_connections: most.and_then(|n| usize::try_from(n).ok()),
            max_streams: max_streams.unwrap_or(built_in.max_streams),
            max_requests: number(self.max_requests.as_ref(), 1, u32::MAX, problems),
        }
    }
}

/// `web: ":8080"`
impl Short for ListenerSpec {
    const EXPECTED: &'static str = "an address or a map with `address`";

    fn of_text(address: Spanned<String>) -> Self {
        Self {
            address,
            protocol: ProtocolSpec::Http,
            to: None,
            sni: NamedSpec::default(),
            proxy_protocol: None,
            access: None,
            tls: None,
            redirect_https: None,
            filters: ListSpec::default(),
            limits: ListenerLimitsSpec::default(),
            defer_accept: None,
            h2c: None,
            allow_half_close: None,
            expected_responses: None,
        }
    }

    fn text_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<schema::ListenAddress>()
    }
}

impl ProtocolSpec {
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

/// What a listener speaks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`http`, `tcp`, `tls_passthrough` or `udp`")]
pub enum ProtocolSpec {
    /// HTTP/1 and, where it is agreed on, HTTP/2.
    #[default]
    Http,
    /// Anything: whole connections go to a service. With `tls` they are decrypted here.
    Tcp,
    /// TLS, whole connections of which go to a service by the name that clients ask for, undecrypted.
    TlsPassthrough,
    /// Datagrams: those of a client go to one endpoint of a service, and its answers back, until nothing is said for
    /// `timeouts.idle`.
    Udp,
}
