//! `listeners.<name>.tls.acme:` certificates that an authority issues.

use super::secret::SecretSpec;
use super::spanned::{ListSpec, Spanned};
use super::values::DurationSpec;
use crate::schema;
use schemars::JsonSchema;
use serde::Deserialize;

/// `tls.acme:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `email`")]
pub struct AcmeSpec {
    /// Whom the authority may write to.
    pub email: Spanned<String>,
    /// How it is shown that a host is ours.
    #[schemars(extend("x-default" = "tls_alpn"))]
    pub challenge: Option<Spanned<ChallengeSpec>>,
    /// Hosts, each with a certificate of its own, `*.example.com` among them where `challenge` is `dns`.
    #[schemars(extend("x-default-words" = "the hosts of the routes of this listener that are no wildcards and that no certificate of the list has"))]
    #[schemars(extend("x-shown" = true))]
    pub domains: Option<Spanned<ListSpec<String>>>,
    /// Where the authority says what it offers, an `https` URL.
    #[schemars(extend("x-default-words" = "that of Let's Encrypt"))]
    #[schemars(with = "Option<schema::WebhookUrl>")]
    #[schemars(extend("x-api" = "trust"))]
    pub directory: Option<Spanned<String>>,
    /// A PEM file with the roots that the authority itself is trusted by.
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "reference"))]
    pub directory_ca: Option<Spanned<String>>,
    /// The kind of the certificates' keys.
    #[schemars(extend("x-default" = "p256"))]
    pub key_type: Option<KeyTypeSpec>,
    /// An account elsewhere that ours is bound to (RFC 8555 §7.3.4).
    #[schemars(extend("x-default-words" = "none"))]
    pub eab: Option<EabSpec>,
    /// Who sets records, for the challenge `dns`.
    #[schemars(extend("x-default-words" = "nobody"))]
    pub dns: Option<Spanned<DnsHookSpec>>,
    /// Hosts that are asked for when the first client comes with them.
    #[schemars(extend("x-default-words" = "none"))]
    pub on_demand: Option<Spanned<OnDemandSpec>>,
    /// The profile of the authority that certificates are ordered with.
    #[schemars(extend("x-default-words" = "the authority's own choice"))]
    pub profile: Option<Spanned<String>>,
}

/// How it is shown that a host is ours.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`http`, `tls_alpn` or `dns`")]
pub enum ChallengeSpec {
    /// By an answer over plain HTTP: the authority connects to port 80.
    Http,
    /// By a certificate in a handshake: the authority connects to port 443.
    TlsAlpn,
    /// By a record in the DNS.
    Dns,
}

/// Kinds of keys.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`p256`, `p384` or `rsa2048`")]
pub enum KeyTypeSpec {
    /// ECDSA with P-256.
    P256,
    /// ECDSA with P-384.
    P384,
    /// RSA with 2048 bits.
    Rsa2048,
}

/// `acme.eab:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `key_id` and `hmac`")]
pub struct EabSpec {
    /// The name of the account there.
    pub key_id: Spanned<String>,
    /// Its key, in base64url as authorities give it.
    pub hmac: Spanned<SecretSpec>,
}

/// `acme.dns:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `exec` or `webhook`")]
pub struct DnsHookSpec {
    /// A program and its arguments; `set` or `unset`, the record's name and its value are added.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    pub exec: Option<Spanned<ListSpec<String>>>,
    /// A service that is called, instead of `exec`.
    #[schemars(extend("x-default-words" = "none"))]
    pub webhook: Option<Spanned<DnsWebhookSpec>>,
    /// For one call.
    #[schemars(extend("x-range" = ["5s", "30m"], "x-default" = "2m"))]
    pub timeout: Option<Spanned<DurationSpec>>,
    /// What a record gets to reach all name servers.
    #[schemars(extend("x-range" = ["0s", "1h"], "x-default" = "1m"))]
    pub propagation: Option<Spanned<DurationSpec>>,
}

/// `acme.dns.webhook:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct DnsWebhookSpec {
    /// `http://…` or `https://…`.
    #[schemars(with = "schema::WebhookUrl")]
    #[schemars(extend("x-api" = "destination"))]
    pub url: Spanned<String>,
    /// What signs the calls, at least 16 bytes.
    #[schemars(extend("x-default-words" = "they are not signed"))]
    pub secret: Option<Spanned<SecretSpec>>,
}

/// `acme.on_demand:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `allow` or `ask`")]
pub struct OnDemandSpec {
    /// Hosts, and `*.example.com` for whatever ends so, that may be asked for.
    #[schemars(extend("x-default-words" = "none"))]
    pub allow: Option<Spanned<ListSpec<String>>>,
    /// Who is asked, with `?domain=`, about a further host; 200 says yes.
    #[schemars(extend("x-default-words" = "nobody"))]
    #[schemars(with = "Option<schema::WebhookUrl>")]
    #[schemars(extend("x-api" = "trust"))]
    pub ask: Option<Spanned<String>>,
    /// Hosts that are asked for within an hour.
    #[schemars(extend("x-range" = [1, 1000], "x-default" = 20))]
    pub per_hour: Option<Spanned<u64>>,
}
