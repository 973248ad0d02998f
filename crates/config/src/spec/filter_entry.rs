//! `routes[].filters[]` and `chains.<name>[]`: a filter, or a chain of them by its name, and perhaps `when`.

use super::spanned::Spanned;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;
use thalweg_filter::{FilterSpec, WhenSpec};

/// The key that names a chain.
const CHAIN: &str = "chain";
/// Every key that may stand here.
static KEYS: LazyLock<Vec<&str>> =
    LazyLock::new(|| thalweg_filter::ALL.iter().map(|filter| filter.name).chain([CHAIN]).collect());

/// The struct name by which [`super::deserializer`] knows that an entry is wanted: its choice, then what stands at
/// [`WHEN`].
pub(super) const NAME: &str = "$thalweg::Step";
/// The key that may stand beside the choice.
pub(super) const WHEN: &str = "when";

/// One entry of a list of filters.
#[derive(Clone, Debug)]
pub struct StepSpec {
    /// What is called.
    pub choice: StepChoice,
    /// `when`: the requests and responses that it is for; absent: all.
    pub when: Option<Spanned<WhenSpec>>,
}

/// What an entry of a list of filters names.
#[derive(Clone, Debug)]
pub enum StepChoice {
    /// A filter.
    Filter(Box<FilterSpec>),
    /// `{ chain: name }`: the filters of that chain, in its order.
    Chain(Spanned<String>),
}

impl<'de> Deserialize<'de> for StepSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = StepSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map with the name of a filter or `chain`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<StepSpec, A::Error> {
                let lost = || A::Error::custom("an entry without its choice");
                let choice = parts.next_element()?.ok_or_else(lost)?;
                Ok(StepSpec { choice, when: parts.next_element()? })
            }
        }

        deserializer.deserialize_struct(NAME, &[], Parts)
    }
}

impl<'de> Deserialize<'de> for StepChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = StepChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map with the name of a filter or `chain`")
            }

            fn visit_enum<A: EnumAccess<'de>>(self, choice: A) -> Result<StepChoice, A::Error> {
                let (key, rest) = choice.variant_seed(Name)?;
                if key == CHAIN {
                    return rest.newtype_variant().map(StepChoice::Chain);
                }
                let filter = Known { key, rest, error: PhantomData };
                FilterSpec::deserialize(filter).map(|filter| StepChoice::Filter(Box::new(filter)))
            }
        }

        deserializer.deserialize_enum("StepChoice", &KEYS, Shape)
    }
}

/// Reads the key; what it says is one of [`KEYS`].
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = &'static str;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a filter or `chain`")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<&'static str, E> {
                let known: &'static [&'static str] = &KEYS;
                known.iter().find(|key| **key == word).copied().ok_or_else(|| E::unknown_variant(word, known))
            }
        }

        deserializer.deserialize_identifier(Word)
    }
}

/// A choice whose key has been read: what a [`FilterSpec`] is read from.
struct Known<R, E> {
    key: &'static str,
    rest: R,
    error: PhantomData<E>,
}

impl<'de, R: VariantAccess<'de, Error = E>, E: Error> EnumAccess<'de> for Known<R, E> {
    type Error = E;
    type Variant = R;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, R), E> {
        Ok((seed.deserialize(StrDeserializer::<E>::new(self.key))?, self.rest))
    }
}

impl<'de, R: VariantAccess<'de, Error = E>, E: Error> Deserializer<'de> for Known<R, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl JsonSchema for StepSpec {
    fn schema_name() -> Cow<'static, str> {
        "StepSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let when = generator.subschema_for::<WhenSpec>();
        json_schema!({ "anyOf": [
            generator.subschema_for::<FilterSpec>(),
            {
                "type": "object",
                "description": "The filters of a chain, in its order.",
                "properties": {
                    "chain": { "type": "string", "description": "The name of the chain." },
                    "when": when,
                },
                "required": ["chain"],
                "additionalProperties": false,
            },
        ] })
    }
}
