//! `tests[]`: requests, and what must become of them.

use super::spanned::{NamedSpec, Spanned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// One test: the configuration is refused when it fails.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `request` and `expect`")]
pub struct TestSpec {
    /// For messages.
    #[schemars(extend("x-default-words" = "the request"))]
    #[schemars(extend("x-shown" = true))]
    pub name: Option<Spanned<String>>,
    /// What is asked.
    pub request: Spanned<RequestSpec>,
    /// What must become of it.
    pub expect: Spanned<ExpectSpec>,
}

/// The request of a test.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestSpec {
    /// `GET https://shop.example.com/products/42`
    Short(String),
    /// `{ method: POST, url: "https://…", headers: { x-beta: "on" }, client: 192.0.2.7, listener: web }`
    Long(LongRequestSpec),
}

/// The long form of [`RequestSpec`].
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct LongRequestSpec {
    /// The method of the request.
    #[schemars(extend("x-default" = "GET"))]
    pub method: Option<Spanned<String>>,
    /// `https://host/path?query`, or a path alone.
    pub url: Spanned<String>,
    /// Fields of the request by name; a `host` takes the place of the URL's.
    #[serde(default)]
    #[schemars(extend("x-named" = true))]
    pub headers: NamedSpec<Spanned<String>>,
    /// The address that the request comes from.
    #[schemars(extend("x-default" = "127.0.0.1"))]
    pub client: Option<Spanned<String>>,
    /// The name of a listener.
    #[schemars(extend("x-default-words" = "the one whose port the URL names, else the first"))]
    pub listener: Option<Spanned<String>>,
}

/// What must become of the request of a test; at least one of these.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a map of `route`, `service`, `upstream_path` and `status`"
)]
pub struct ExpectSpec {
    /// The name of the route that takes it, or `none`.
    #[schemars(extend("x-default-words" = "any"))]
    pub route: Option<Spanned<String>>,
    /// The service that it goes to; of a split by chance, one that has a share.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(extend("x-shown" = true))]
    pub service: Option<Spanned<String>>,
    /// The path that goes upstream, without the query.
    #[schemars(extend("x-default-words" = "any"))]
    pub upstream_path: Option<Spanned<String>>,
    /// The status with which the proxy answers itself: 404 when no route takes the request.
    #[schemars(extend("x-default-words" = "any"))]
    pub status: Option<Spanned<u64>>,
}

impl<'de> Deserialize<'de> for RequestSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = RequestSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a method and a URL, or a map with `url`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RequestSpec, E> {
                Ok(RequestSpec::Short(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RequestSpec, A::Error> {
                LongRequestSpec::deserialize(MapAccessDeserializer::new(map)).map(RequestSpec::Long)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for RequestSpec {
    fn schema_name() -> Cow<'static, str> {
        "RequestSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "description": "A method and a URL: `GET https://shop.example.com/products/42`." },
            generator.subschema_for::<LongRequestSpec>(),
        ] })
    }
}
