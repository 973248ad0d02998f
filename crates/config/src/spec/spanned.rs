//! Values that remember where they were written.

use super::de_error::Mistake;
use crate::source::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::U64Deserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The struct name by which [`super::deserializer`] knows that a span is wanted.
pub(super) const NAME: &str = "$thalweg::Spanned";

/// A value and its place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spanned<T> {
    /// Where it was written.
    pub span: Span,
    /// What was written.
    pub value: T,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(span: Span, value: T) -> Self {
        Self { span, value }
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Parts<T> {
            type Value = Spanned<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its place")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Spanned<T>, A::Error> {
                let lost = || A::Error::custom("a value without its place");
                let (place, range) = (parts.next_element()?, parts.next_element()?);
                let (place, range): (u64, u64) = (place.ok_or_else(lost)?, range.ok_or_else(lost)?);
                let value = parts.next_element()?.ok_or_else(lost)?;
                Ok(Spanned { span: unpack(place, range), value })
            }
        }

        deserializer.deserialize_struct(NAME, &[], Parts(PhantomData))
    }
}

/// A span as two numbers, the only things that can pass through serde without allocation.
pub(super) fn pack(span: Span) -> (u64, u64) {
    (u64::from(span.file) << 1 | u64::from(span.filled), u64::from(span.start) << 32 | u64::from(span.end))
}

#[expect(clippy::cast_possible_truncation, reason = "the inverse of `pack`")]
fn unpack(place: u64, range: u64) -> Span {
    let span = Span::new((place >> 1) as u16, (range >> 32) as usize..(range & 0xffff_ffff) as usize);
    Span { filled: place & 1 == 1, ..span }
}

/// What the `Spanned` of a key is read from: two numbers, then the value. That of a node is one of the shapes of
/// [`super::deserializer`].
pub(super) struct Parts<D> {
    numbers: std::array::IntoIter<u64, 2>,
    value: Option<D>,
}

impl<D> Parts<D> {
    pub(super) fn new(span: Span, value: D) -> Self {
        let (place, range) = pack(span);
        Self { numbers: [place, range].into_iter(), value: Some(value) }
    }
}

impl<'de, D: Deserializer<'de, Error = Mistake>> SeqAccess<'de> for Parts<D> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        if let Some(number) = self.numbers.next() {
            let number: U64Deserializer<Mistake> = number.into_deserializer();
            return seed.deserialize(number).map(Some);
        }
        self.value.take().map(|value| seed.deserialize(value)).transpose()
    }
}

/// A map from names that the user chooses to values, in file order.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSpec<T>(pub Vec<(Spanned<String>, T)>);

impl<T> Default for NamedSpec<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NamedSpec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = NamedSpec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to their settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedSpec<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(NamedSpec(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// A list whose elements keep their places, and which knows how many were written: more than
/// `items` holds when some of them were wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct ListSpec<T> {
    /// The elements that could be read.
    pub items: Vec<Spanned<T>>,
    /// How many were written.
    pub written: usize,
}

impl<T> Default for ListSpec<T> {
    fn default() -> Self {
        Self { items: Vec::new(), written: 0 }
    }
}

impl<T> ListSpec<T> {
    /// Reads the elements of a list.
    pub(super) fn read<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error>
    where
        T: Deserialize<'de>,
    {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Self { written: list.size_hint().unwrap_or(0).max(items.len()), items })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ListSpec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = ListSpec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ListSpec<T>, A::Error> {
                ListSpec::read(list)
            }
        }

        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// A value's place is no part of the file.
impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

impl<T: JsonSchema> JsonSchema for NamedSpec<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NamesOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["object", "null"], "additionalProperties": generator.subschema_for::<T>() })
    }
}

impl<T: JsonSchema> JsonSchema for ListSpec<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<T>() })
    }
}
