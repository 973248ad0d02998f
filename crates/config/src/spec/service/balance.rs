//! `services.<name>.balance:` which endpoint takes a request.

use crate::schema;
use crate::spec::{PercentSpec, Spanned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The name of an algorithm, or what is hashed.
#[derive(Clone, Debug, PartialEq)]
pub enum BalanceSpec {
    /// `least_requests`
    Name(String),
    /// `{ hash: { on: client_ip } }`
    Hash(HashSpec),
}

/// Goes by a key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `hash`")]
struct LongBalanceSpec {
    /// Requests with the same key go to the same endpoint.
    hash: HashSpec,
}

/// `balance.hash:` requests with the same key go to the same endpoint.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `on`")]
pub struct HashSpec {
    /// What of a request is hashed.
    pub on: KeySpec,
    /// `ring`, `maglev` or `rendezvous`.
    #[schemars(extend("x-default" = "ring"))]
    #[schemars(with = "Option<schema::KeyedBalancerName>")]
    pub algorithm: Option<Spanned<String>>,
    /// Most of what is under way that one endpoint gets, in percent of its fair share; beyond it the next one takes
    /// the request.
    #[schemars(extend("x-range" = ["101%", "1000%"], "x-default-words" = "no bound"))]
    pub bounded_load: Option<Spanned<PercentSpec>>,
}

/// What of a request is hashed. A request that has none of it goes anywhere.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(
    rename_all = "snake_case",
    expecting = "`client_ip`, `path`, or a map with `header`, `cookie` or `query`"
)]
pub enum KeySpec {
    /// The client's address, seen through `trusted_proxies`.
    ClientIp,
    /// The path without the query.
    Path,
    /// The first field with this name.
    Header(Spanned<String>),
    /// The first cookie with this name.
    Cookie(Spanned<String>),
    /// The first parameter of the query with this name.
    Query(Spanned<String>),
}

impl<'de> Deserialize<'de> for BalanceSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = BalanceSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a balancer or a map with `hash`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BalanceSpec, E> {
                Ok(BalanceSpec::Name(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BalanceSpec, A::Error> {
                let long = LongBalanceSpec::deserialize(MapAccessDeserializer::new(map))?;
                Ok(BalanceSpec::Hash(long.hash))
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for BalanceSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BalanceSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            generator.subschema_for::<schema::BalancerName>(),
            generator.subschema_for::<LongBalanceSpec>(),
        ] })
    }
}
