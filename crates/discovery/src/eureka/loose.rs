//! JSON as XStream writes it: a list of one is an object or a list, a number is a number or a text, and attributes
//! stand beside `$`.

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Texts, numbers and truth values as texts; what is none of these is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Loose {
    pub(super) text: String,
    /// The attribute `enabled`.
    pub(super) is_enabled: bool,
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseShape)
    }
}

struct LooseShape;

impl LooseShape {
    fn text<E>(text: impl ToString) -> Result<Loose, E> {
        Ok(Loose { text: text.to_string(), is_enabled: true })
    }
}

impl<'de> Visitor<'de> for LooseShape {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Loose, E> {
        Self::text(text)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Loose, E> {
        Self::text(truth)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Loose, E> {
        Self::text(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Loose, E> {
        Self::text(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Loose, E> {
        Self::text(number)
    }

    fn visit_unit<E: Error>(self) -> Result<Loose, E> {
        Ok(Loose::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
        let mut loose = Loose { text: String::new(), is_enabled: true };
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value::<Loose>()?;
            match key.as_str() {
                "$" => loose.text = value.text,
                "@enabled" => loose.is_enabled = value.text.eq_ignore_ascii_case("true"),
                _ => {}
            }
        }
        Ok(loose)
    }
}

/// A list, or the only thing that would stand in it.
pub(super) fn one_or_many<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Shape<T>(PhantomData<T>);

    impl<'de, T: DeserializeOwned> Visitor<'de> for Shape<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list or an object")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = list.next_element()? {
                all.push(one);
            }
            Ok(all)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
        }

        fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        /// An element of XML without content.
        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
            if text.is_empty() { Ok(Vec::new()) } else { Err(E::custom("a list or an object is expected")) }
        }
    }

    deserializer.deserialize_any(Shape(PhantomData))
}
