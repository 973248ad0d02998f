//! `routes[].to:` where a route sends its requests.

use super::sealed::SealedSpec;
use super::service::KeySpec;
use super::spanned::{ListSpec, Spanned};
use crate::schema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Where a route sends its requests.
#[derive(Clone, Debug, PartialEq)]
pub enum ToSpec {
    /// The name of a service.
    Service(String),
    /// URLs of endpoints: a service without a name.
    Urls(ListSpec<String>),
    /// Several services, each with its share.
    Split(SplitSpec),
    /// Wherever the label says that the host begins with.
    Sealed(Box<SealedSpec>),
}

/// `to: { split: […], sticky_by: … }`; the list alone is its short form.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `split`")]
pub struct SplitSpec {
    /// The services.
    #[schemars(extend("minItems" = 1))]
    pub split: ListSpec<ToItemSpec>,
    /// What keeps a client in one part.
    #[schemars(extend("x-default-words" = "each request is drawn anew"))]
    pub sticky_by: Option<KeySpec>,
}

/// The forms of a map, until it is known which one it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map with `split` or `sealed`")]
struct MapSpec {
    split: Option<ListSpec<ToItemSpec>>,
    sticky_by: Option<KeySpec>,
    sealed: Option<Box<SealedSpec>>,
}

/// `to: { sealed: … }`
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it tells the schema what a map may be")]
struct ToSealedSpec {
    /// Destinations that stand, encrypted, in the first label of the host.
    sealed: SealedSpec,
}

/// An element of the list.
#[derive(Clone, Debug, PartialEq)]
pub enum ToItemSpec {
    /// A URL, which may not stand beside services.
    Url(String),
    /// A service.
    Part(PartSpec),
}

/// `{ service: checkout, weight: 95 }`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `service` and `weight`")]
pub struct PartSpec {
    /// Its name.
    #[schemars(extend("x-shown" = true))]
    pub service: Spanned<String>,
    /// Its share.
    #[schemars(extend("x-range" = [0, 1000], "x-default" = 1))]
    pub weight: Option<Spanned<u64>>,
}

impl<'de> Deserialize<'de> for ToItemSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = ToItemSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string (a URL) or a map with `service` and `weight`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ToItemSpec, E> {
                Ok(ToItemSpec::Url(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToItemSpec, A::Error> {
                PartSpec::deserialize(MapAccessDeserializer::new(map)).map(ToItemSpec::Part)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl ToSpec {
    /// A list of URLs only is a service of its own; with anything else it is a split.
    fn of_list(list: ListSpec<ToItemSpec>) -> Self {
        let url = |item: &Spanned<ToItemSpec>| match &item.value {
            ToItemSpec::Url(url) => Some(Spanned::new(item.span, url.clone())),
            ToItemSpec::Part(_) => None,
        };
        match list.items.iter().map(url).collect::<Option<Vec<_>>>() {
            Some(items) => Self::Urls(ListSpec { items, written: list.written }),
            None => Self::Split(SplitSpec { split: list, sticky_by: None }),
        }
    }
}

impl<'de> Deserialize<'de> for ToSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = ToSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a service, a list of URLs or of services with weights, or a map with `split` or `sealed`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ToSpec, E> {
                Ok(ToSpec::Service(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ToSpec, A::Error> {
                ListSpec::read(list).map(ToSpec::of_list)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToSpec, A::Error> {
                match MapSpec::deserialize(MapAccessDeserializer::new(map))? {
                    MapSpec { split: None, sticky_by: None, sealed: Some(sealed) } => {
                        Ok(ToSpec::Sealed(sealed))
                    }
                    MapSpec { sealed: Some(_), .. } => {
                        Err(A::Error::custom("`sealed` stands alone: its labels say where requests go"))
                    }
                    MapSpec { split: Some(split), sticky_by, sealed: None } => {
                        Ok(ToSpec::Split(SplitSpec { split, sticky_by }))
                    }
                    MapSpec { split: None, .. } => Err(A::Error::missing_field("split")),
                }
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for ToItemSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ToItemSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            generator.subschema_for::<schema::EndpointUrl>(),
            generator.subschema_for::<PartSpec>(),
        ] })
    }
}

impl JsonSchema for ToSpec {
    fn schema_name() -> Cow<'static, str> {
        "ToSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "description": "The name of a service." },
            { "type": "array", "items": generator.subschema_for::<ToItemSpec>(), "minItems": 1 },
            generator.subschema_for::<SplitSpec>(),
            generator.subschema_for::<ToSealedSpec>(),
        ] })
    }
}
