//! `to: { sealed: … }`: destinations that stand, encrypted, in the first label of the host.

use super::secret::SecretSpec;
use super::service::ServiceTlsSpec;
use super::spanned::{ListSpec, Spanned};
use super::values::DurationSpec;
use crate::schema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// `sealed:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `domain`, `keys` and `allow`")]
pub struct SealedSpec {
    /// The domain below which labels stand: `*.svc.example.com`. The route has to match it as a host.
    #[schemars(extend("x-shown" = true))]
    pub domain: Spanned<String>,
    /// The keys that labels are sealed with. The last one seals, all of them open.
    #[schemars(extend("minItems" = 1))]
    pub keys: Spanned<ListSpec<SealKeySpec>>,
    /// Addresses that labels may name, as networks with ports: `10.0.0.0/8:1024-65535`, `[2001:db8::/32]:443`.
    /// Loopback, link-local and other special addresses have to be named for themselves.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    #[schemars(with = "ListSpec<schema::NetworkWithPorts>")]
    pub allow: ListSpec<String>,
    /// Services that labels may name.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub services: ListSpec<String>,
    /// Labels that hold no longer.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-kept" = true))]
    pub revoked: Option<RevokedSpec>,
    /// How long a label may be good for, from any moment on.
    #[schemars(extend("x-range" = ["1m", "8760h"], "x-default" = "24h"))]
    pub max_ttl: Option<Spanned<DurationSpec>>,
    /// Requests, tunnels and connections under way to each destination at once.
    #[schemars(extend("x-range" = [1, 1000000], "x-default" = 1000))]
    pub max_in_flight: Option<Spanned<u64>>,
    /// How destinations prove who they are that labels want reached through TLS.
    #[schemars(extend("x-default-words" = "these are not reached"))]
    #[schemars(extend("x-kept" = true))]
    pub tls: Option<Spanned<ServiceTlsSpec>>,
    /// Addresses of this machine that connections to destinations come from, in turn, each with as many ports as a
    /// machine has.
    #[schemars(extend("x-default-words" = "what the kernel chooses"))]
    #[serde(default)]
    #[schemars(with = "ListSpec<schema::IpAddress>")]
    #[schemars(extend("x-api" = "address"))]
    pub sources: ListSpec<String>,
}

/// `sealed.keys[]:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `id` and `secret`")]
pub struct SealKeySpec {
    /// What labels call it. Not given to another key while labels of this one may be about.
    #[schemars(extend("x-range" = [1, 31]))]
    pub id: Spanned<u64>,
    /// 64 random bytes as 128 hexadecimal digits, as `openssl rand -hex 64` makes them, or where these stand.
    #[schemars(extend("x-api" = "secret"))]
    pub secret: Spanned<SealSecretSpec>,
}

/// `sealed.keys[].secret:`
#[derive(Clone, PartialEq)]
pub enum SealSecretSpec {
    /// The digits.
    Digits(String),
    /// Where they stand.
    Reference(SecretSpec),
}

impl fmt::Debug for SealSecretSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digits(_) => f.write_str("Digits(…)"),
            Self::Reference(reference) => reference.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for SealSecretSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = SealSecretSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("128 hexadecimal digits, or a map with `file`, `env` or `value`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SealSecretSpec, E> {
                Ok(SealSecretSpec::Digits(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SealSecretSpec, A::Error> {
                let Some(place) = map.next_key()? else { return Err(A::Error::missing_field("file")) };
                let reference = match place {
                    PlaceSpec::File => SecretSpec::File(map.next_value()?),
                    PlaceSpec::Env => SecretSpec::Env(map.next_value()?),
                    PlaceSpec::Value => SecretSpec::Value(map.next_value()?),
                };
                if map.next_key::<PlaceSpec>()?.is_some() {
                    return Err(A::Error::custom("a secret stands in one place: `file`, `env` or `value`"));
                }
                Ok(SealSecretSpec::Reference(reference))
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

/// The keys of a [`SecretSpec`]: it may stand beside another form.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "`file`, `env` or `value`")]
enum PlaceSpec {
    File,
    Env,
    Value,
}

impl JsonSchema for SealSecretSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SealSecretSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            generator.subschema_for::<schema::SealDigits>(),
            generator.subschema_for::<SecretSpec>(),
        ] })
    }
}

/// `sealed.revoked:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `file`")]
pub struct RevokedSpec {
    /// A file with a label on each line; `#` begins a comment. It is looked at while the proxy runs: a label that is
    /// added holds no longer.
    #[schemars(extend("x-api" = "reference"))]
    pub file: Spanned<String>,
}
