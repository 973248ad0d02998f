//! What `explain` says, as data: the JSON of the command and of the admin API.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What becomes of a request, and why.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Explanation {
    /// The request as routes, filters, logs and the upstream see it.
    pub request: SeenRequest,
    /// The route that takes it; absent when none does, or the request is refused before one is looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<TakenRoute>,
    /// Routes that do not: those whose host and path match, best first, then the others, nearest first.
    pub other_routes: Vec<OtherRoute>,
    /// How many more there are whose host or path does not match.
    pub more_routes: usize,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Where the values above are written; empty where that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<ValueOrigin>,
}

/// Where a value is written.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct ValueOrigin {
    /// What has it: ``route `products` ``, ``service `api` ``.
    pub object: String,
    /// As in the configuration: `timeouts.first_byte`.
    pub field: String,
    /// The value; absent for one that is no word or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// File and line, and by what it speaks for the value: `thalweg.yaml:12 (defaults)`; or `built in`. What was
    /// changed at run time is not written anywhere: `plan` shows it.
    pub origin: String,
}

/// A request in its normal form.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct SeenRequest {
    /// The method.
    pub method: String,
    /// The URL as it was asked for.
    pub url: String,
    /// The host without its port; empty where the request is refused before it is known.
    pub host: String,
    /// The path; empty where the request is refused before it is known.
    pub path: String,
    /// The query, as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The client's address, seen through trusted proxies.
    pub client: String,
    /// The name of the listener.
    pub listener: String,
}

/// The route that takes the request.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TakenRoute {
    /// Its name.
    pub name: String,
    /// What it matches: `shop.example.com /products/*`.
    pub matches: String,
    /// Where it is written: file, or document of a source, and line. Absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The filters that ran, in order.
    pub filters: Vec<FilterStep>,
    /// What the cache makes of it; absent where the route caches nothing, or a filter has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSeen>,
    /// What of the request decides between services; absent for one service, or where chance decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_by: Option<String>,
    /// What the label in the host says; absent where the route wants none, or it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedSeen>,
    /// Where it sends requests.
    pub services: Vec<ServicePart>,
    /// Deadlines towards its services; those that have their own show them.
    pub timeouts: TimeoutsSeen,
    /// Bounds on its exchanges.
    pub limits: RouteLimitsSeen,
    /// Escapes that it lets pass in paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_encoded: Vec<String>,
}

/// What the cache makes of a request.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct CacheSeen {
    /// Whether a stored response may answer it.
    pub looked_up: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The URL in its key, with the part of the query that counts; absent where it has no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What else is in its key: `header X-Tenant`, `cookie lang`, `client_ip`. Values are not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key_parts: Vec<String>,
    /// What of the request decides whether a response is used or stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// What a label says.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct SealedSeen {
    /// `http://10.0.0.7:3000`; absent where it names a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// When it expires, in seconds since the Unix epoch.
    pub expires: u64,
}

/// What a filter did.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct FilterStep {
    /// Its name in the configuration.
    pub name: String,
    /// The path before it.
    pub before: String,
    /// The path behind it.
    pub after: String,
    /// Whether it changed the request: its path or its fields.
    pub changed: bool,
}

/// A service of the route.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct ServicePart {
    /// Its name.
    pub name: String,
    /// Its weight in the route's split; absent when the route has one service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Its share of the route's requests, in percent.
    pub share: f64,
    /// Whether this request goes to it; absent where chance decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<bool>,
    /// The `Host` that it gets; absent when it is the authority of whichever endpoint is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How an endpoint is chosen: the name of the algorithm, or `sealed` where the label names the address.
    pub balance: String,
    /// Deadlines towards it, where they are not those of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutsSeen>,
    /// What of the request decides, for balancers by key: `client_ip`, `header x-user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The endpoint that the client's cookie names; absent for one with a host name, which has many addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky_to: Option<String>,
    /// The source of endpoints beside those that are written: `eureka: app SHOP at http://10.0.0.9/eureka`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// In the order of the configuration, up to a bound.
    pub endpoints: Vec<EndpointSeen>,
    /// How many more there are.
    pub more_endpoints: usize,
    /// When another attempt is made.
    pub retry: RetrySeen,
    /// Exchanges under way to the service at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
}

/// An endpoint.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct EndpointSeen {
    /// Its URL.
    pub url: String,
    /// Its share among the endpoints of its tier, 0–1000.
    pub weight: u32,
    /// Its tier, 0–9: a tier serves when those with lower numbers cannot.
    pub tier: u8,
    /// How it stands in the running proxy; absent when a file is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why it stands so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Exchanges under way to it; absent when a file is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Where it comes from: `written in thalweg.yaml:12`, `found by …` or `added through the admin API`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// When another attempt is made.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct RetrySeen {
    /// Attempts in all.
    pub attempts: u32,
    /// Requests that may be sent again, in percent of all of the service.
    pub budget_percent: u32,
    /// For one attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout_ms: Option<u64>,
    /// A copy is sent when there is no response after so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge_after_ms: Option<u64>,
}

/// Deadlines towards a service, in milliseconds.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TimeoutsSeen {
    /// Until an endpoint has accepted the connection.
    pub connect_ms: u64,
    /// From the request sent to the response's first byte.
    pub first_byte_ms: u64,
    /// Without a byte of a body.
    pub idle_ms: u64,
    /// For the whole exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_ms: Option<u64>,
}

/// Bounds on the exchanges of a route.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct RouteLimitsSeen {
    /// Bytes of a request body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// Exchanges under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
}

/// A route that does not take the request.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct OtherRoute {
    /// Its name.
    pub name: String,
    /// What it matches.
    pub matches: String,
    /// Why it does not.
    pub because: Because,
}

/// Why a route does not take a request.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// A condition of it fails: the first one.
    Fails(Failed),
    /// It would, but another one goes before it: what that one has ahead.
    After(String),
}

/// A condition that does not hold.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Failed {
    /// `host`, `path`, `method`, `header`, `query`, `client` or `listener`.
    pub condition: &'static str,
    /// The name of the header or parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the route asks for, in words.
    pub expected: String,
    /// What the request has; absent when it has nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// What becomes of a request.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is sent to an endpoint.
    Forwarded {
        /// Of this service; absent where chance decides between several.
        #[serde(skip_serializing_if = "Option::is_none")]
        service: Option<String>,
        /// With this target: the path behind the filters, and the query.
        target: String,
        /// And this `Host`; absent when it is not the same for every service and endpoint that may be chosen.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// The proxy answers itself.
    Answered {
        /// The status.
        status: u16,
        /// The error type of RFC 9209.
        fault: &'static str,
        /// What exactly.
        detail: &'static str,
    },
    /// A filter of the route answers.
    Replied {
        /// The status.
        status: u16,
        /// The filter.
        filter: String,
        /// Where the client is sent.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
    },
    /// The client is sent to another place, before a route is looked for (`redirect_https`).
    Redirected {
        /// The status.
        status: u16,
        /// The place. A port that the kernel chooses is missing in it.
        location: String,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(failed) => failed.fmt(f),
            Self::After(ahead) => write!(f, "it would, but {ahead}"),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition)?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        match &self.found {
            Some(found) => write!(f, " is `{found}`, not {}", self.expected),
            None => write!(f, " is missing, expected {}", self.expected),
        }
    }
}
