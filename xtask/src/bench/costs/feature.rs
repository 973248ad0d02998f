//! The features, and the load that uses each.

use super::configs::TOKEN;
use super::poll::Poll;

/// What a program does beside forwarding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Feature {
    /// Nothing
    Plain,
    /// Two fields set, one removed
    Headers,
    /// The path changed
    Rewrite,
    /// A rate limit by the client's address that lets everything pass
    RateLimit,
    /// A name and a password
    Basic,
    /// A token signed with HS256
    Jwt,
    /// A key in a field
    ApiKey,
    /// The 67 bytes compressed with gzip
    Compress,
    /// A stored response
    Cache,
    /// TLS 1.3 on kept connections, HTTP/1.1
    Tls,
    /// HTTP/2 with TLS
    H2,
    /// HTTP/2 in the clear, prior knowledge
    H2c,
    /// An access log in JSON
    Log,
    /// A trace of each exchange, sent by OTLP
    Traces,
    /// Metrics that are scraped every second
    Metrics,
    /// What an open dashboard asks every second
    Dashboard,
}

/// The paths that a dashboard asks most.
const VIEWS: &[&str] = &["/api/v1/status", "/api/v1/routes", "/api/v1/services", "/api/v1/requests"];

impl Feature {
    pub(super) const ALL: [Self; 16] = [
        Self::Plain,
        Self::Headers,
        Self::Rewrite,
        Self::RateLimit,
        Self::Basic,
        Self::Jwt,
        Self::ApiKey,
        Self::Compress,
        Self::Cache,
        Self::Tls,
        Self::H2,
        Self::H2c,
        Self::Log,
        Self::Traces,
        Self::Metrics,
        Self::Dashboard,
    ];

    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Headers => "headers",
            Self::Rewrite => "rewrite",
            Self::RateLimit => "rate limit",
            Self::Basic => "basic auth",
            Self::Jwt => "JWT",
            Self::ApiKey => "API key",
            Self::Compress => "gzip, 67 bytes",
            Self::Cache => "cache hit",
            Self::Tls => "TLS, kept",
            Self::H2 => "HTTP/2, TLS",
            Self::H2c => "HTTP/2, clear",
            Self::Log => "access log, JSON",
            Self::Traces => "traces, all",
            Self::Metrics => "metrics scraped",
            Self::Dashboard => "dashboard open",
        }
    }

    pub(super) fn scheme(self) -> &'static str {
        if matches!(self, Self::Tls | Self::H2) { "https" } else { "http" }
    }

    pub(super) fn is_h1(self) -> bool {
        !matches!(self, Self::H2 | Self::H2c)
    }

    /// Fields of each request.
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Basic => &["authorization: Basic YWRhOnBhc3N3b3Jk"],
            Self::Jwt => &[TOKEN],
            Self::ApiKey => &["x-api-key: key-of-the-bench-0123456789"],
            Self::Compress => &["accept-encoding: gzip"],
            _ => &[],
        }
    }

    /// What is asked beside the load.
    pub(super) fn polls(self) -> Option<Poll> {
        match self {
            Self::Metrics => Some(Poll { paths: &["/metrics"] }),
            Self::Dashboard => Some(Poll { paths: VIEWS }),
            _ => None,
        }
    }
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(value.as_ref().map_or("", clap::builder::PossibleValue::get_name))
    }
}
