//! What is on, off, or on with settings.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A feature that has settings but needs none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SwitchSpec<T> {
    /// `off` or `false`
    Off,
    /// `true`: with every default.
    On,
    /// A map of settings.
    With(T),
}

impl<T> SwitchSpec<T> {
    /// The settings; `None` when it is off.
    pub fn settings(&self) -> Option<T>
    where
        T: Clone + Default,
    {
        match self {
            Self::Off => None,
            Self::On => Some(T::default()),
            Self::With(settings) => Some(settings.clone()),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SwitchSpec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Shape<T> {
            type Value = SwitchSpec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `off` or a map of settings")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<SwitchSpec<T>, E> {
                Ok(if on { SwitchSpec::On } else { SwitchSpec::Off })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SwitchSpec<T>, E> {
                match text {
                    "off" => Ok(SwitchSpec::Off),
                    _ => Err(E::invalid_type(Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SwitchSpec<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(SwitchSpec::With)
            }
        }

        deserializer.deserialize_any(Shape(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for SwitchSpec<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("SwitchOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "boolean", "description": "`true`: with every default; `false`: off." },
            { "type": "string", "const": "off" },
            generator.subschema_for::<T>(),
        ] })
    }
}
