//! `services.<name>.endpoints[]:` where a service is reached.

use crate::schema;
use crate::spec::{NamedSpec, Spanned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// One endpoint: a URL, `http://host:port`, `https://host:port` or `unix:/path`, alone or with a weight, a tier and
/// bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointSpec {
    /// `"http://10.0.0.1:8080"`
    Short(String),
    /// `{ url: "http://10.0.0.1:8080", weight: 3 }`
    Long(LongEndpointSpec),
}

/// A URL with a weight, a tier and bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct LongEndpointSpec {
    /// The URL.
    #[schemars(with = "schema::EndpointUrl")]
    #[schemars(extend("x-api" = "address"))]
    #[schemars(extend("x-shown" = true))]
    pub url: Spanned<String>,
    /// Its share.
    #[schemars(extend("x-range" = [0, 1000], "x-default" = 1))]
    pub weight: Option<Spanned<u64>>,
    /// It is used only while none of a lower tier is well.
    #[schemars(extend("x-range" = [0, 9], "x-default" = 0))]
    pub tier: Option<Spanned<u64>>,
    /// `true` is another word for `tier: 1`.
    #[schemars(extend("x-default" = false))]
    pub backup: Option<Spanned<bool>>,
    /// What is said of it beside, such as `zone`, which `prefer` goes by.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub labels: NamedSpec<Spanned<String>>,
    /// Connections open, idle ones included.
    #[schemars(extend("x-range" = [1, 1000000], "x-default-words" = "no bound"))]
    pub max_connections: Option<Spanned<u64>>,
    /// Exchanges under way.
    #[schemars(extend("x-range" = [1, 1000000], "x-default-words" = "no bound"))]
    pub max_in_flight: Option<Spanned<u64>>,
}

impl<'de> Deserialize<'de> for EndpointSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = EndpointSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL or a map with `url`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<EndpointSpec, E> {
                Ok(EndpointSpec::Short(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EndpointSpec, A::Error> {
                LongEndpointSpec::deserialize(MapAccessDeserializer::new(map)).map(EndpointSpec::Long)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for EndpointSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EndpointSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            generator.subschema_for::<schema::EndpointUrl>(),
            generator.subschema_for::<LongEndpointSpec>(),
        ] })
    }
}
