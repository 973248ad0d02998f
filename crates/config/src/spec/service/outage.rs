//! `services.<name>.when_down:` what is done when no endpoint is well.

use crate::spec::Spanned;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

/// `when_down:`
#[derive(Clone, Debug, PartialEq)]
pub enum WhenDownSpec {
    /// `error`: 503.
    Error,
    /// `try_all`: every endpoint is tried.
    TryAll,
    /// `{ status: 503, body: "…" }`: this response.
    Answer(AnswerSpec),
}

/// A response that stands in the file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `status` and `body`")]
pub struct AnswerSpec {
    /// The status of the answer.
    #[schemars(extend("x-range" = [200, 599], "x-default" = 503))]
    pub status: Option<Spanned<u64>>,
    /// The media type.
    #[schemars(extend("x-default" = "text/plain; charset=utf-8"))]
    pub content_type: Option<Spanned<String>>,
    /// At most 64 KiB.
    #[schemars(extend("x-default-words" = "empty"))]
    pub body: Option<Spanned<String>>,
}

impl<'de> Deserialize<'de> for WhenDownSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = WhenDownSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`error`, `try_all` or a map with `status` and `body`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WhenDownSpec, E> {
                match text {
                    "error" => Ok(WhenDownSpec::Error),
                    "try_all" => Ok(WhenDownSpec::TryAll),
                    _ => Err(E::invalid_type(Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WhenDownSpec, A::Error> {
                AnswerSpec::deserialize(MapAccessDeserializer::new(map)).map(WhenDownSpec::Answer)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for WhenDownSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WhenDownSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "const": "error", "description": "503." },
            { "type": "string", "const": "try_all", "description": "Every endpoint is tried." },
            generator.subschema_for::<AnswerSpec>(),
        ] })
    }
}
