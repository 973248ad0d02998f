//! Short forms: one value where a map or a list may stand.
//!
//! Read by the shape of what is written; the place of the short form is that of the whole.

use super::spanned::{ListSpec, Spanned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// A map that a text may stand for.
pub trait Short: Sized {
    /// What may stand there, for messages.
    const EXPECTED: &'static str;

    /// The map that the text stands for.
    fn of_text(text: Spanned<String>) -> Self;

    /// The schema of the text.
    fn text_schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A map, or the text that stands for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShortSpec<T>(pub T);

impl<T> Deref for ShortSpec<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Short + Deserialize<'de>> Deserialize<'de> for ShortSpec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        enum Form<T> {
            Text(String),
            Map(T),
        }

        struct Shape<T>(PhantomData<T>);

        impl<'de, T: Short + Deserialize<'de>> Visitor<'de> for Shape<T> {
            type Value = Form<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Form<T>, E> {
                Ok(Form::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Form<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Form::Map)
            }
        }

        impl<'de, T: Short + Deserialize<'de>> Deserialize<'de> for Form<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Shape(PhantomData))
            }
        }

        let Spanned { span, value } = Spanned::<Form<T>>::deserialize(deserializer)?;
        Ok(Self(match value {
            Form::Text(text) => T::of_text(Spanned::new(span, text)),
            Form::Map(map) => map,
        }))
    }
}

impl<T: Short + JsonSchema> JsonSchema for ShortSpec<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ShortOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [T::text_schema(generator), generator.subschema_for::<T>()] })
    }
}

/// A list, or the one element that it would have.
#[derive(Clone, Debug, PartialEq)]
pub struct SomeSpec<T>(pub ListSpec<T>);

impl<T> Default for SomeSpec<T> {
    fn default() -> Self {
        Self(ListSpec::default())
    }
}

impl<T> Deref for SomeSpec<T> {
    type Target = ListSpec<T>;

    fn deref(&self) -> &ListSpec<T> {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SomeSpec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        enum Form<T> {
            One(T),
            List(ListSpec<T>),
        }

        struct Shape<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Shape<T> {
            type Value = Form<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Form<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(Form::One)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Form<T>, E> {
                T::deserialize(number.into_deserializer()).map(Form::One)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Form<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Form::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Form<T>, A::Error> {
                ListSpec::read(list).map(Form::List)
            }
        }

        impl<'de, T: Deserialize<'de>> Deserialize<'de> for Form<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Shape(PhantomData))
            }
        }

        let Spanned { span, value } = Spanned::<Form<T>>::deserialize(deserializer)?;
        Ok(Self(match value {
            Form::One(one) => ListSpec { items: vec![Spanned::new(span, one)], written: 1 },
            Form::List(list) => list,
        }))
    }
}

impl<T: JsonSchema> JsonSchema for SomeSpec<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("SomeOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}
