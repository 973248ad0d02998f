//! Arguments of several forms, read by the shape of what is written: a text, a number, a map.
//!
//! serde's `untagged` reads everything into a value of its own first and tries the forms one after the other: a mistake
//! within a map would be one of the whole, and its place and the right words would be lost.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Error as _, MapAccess};

/// Makes a type with these forms readable: what has the shape becomes the variant. Shapes: `text`, `number`, `switch`,
/// `map`.
macro_rules! by_shape {
    ($name:ident, $expected:literal, { $( $shape:ident => $variant:ident ),+ $(,)? }) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Shape;

                impl<'de> serde::de::Visitor<'de> for Shape {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    $( crate::shape::by_shape!(@ $shape $name $variant); )+
                }

                deserializer.deserialize_any(Shape)
            }
        }
    };
    (@ text $name:ident $variant:ident) => {
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
            let text = serde::de::value::StrDeserializer::new(text);
            serde::Deserialize::deserialize(text).map($name::$variant)
        }
    };
    (@ number $name:ident $variant:ident) => {
        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
            let unexpected = || E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
            number.try_into().map($name::$variant).map_err(|_| unexpected())
        }
    };
    (@ switch $name:ident $variant:ident) => {
        fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<$name, E> {
            Ok($name::$variant(on))
        }
    };
    (@ map $name:ident $variant:ident) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
            let map = serde::de::value::MapAccessDeserializer::new(map);
            serde::Deserialize::deserialize(map).map($name::$variant)
        }
    };
}

pub(crate) use by_shape;

/// An enumeration of which a map with one key is written. What serde reads of such a map is its first key only: another
/// one would be ignored without a word.
///
/// # Errors
/// It is no variant, or there is another key.
pub(crate) fn one_key<'de, T: Deserialize<'de>, A: MapAccess<'de>>(mut map: A) -> Result<T, A::Error> {
    let value = T::deserialize(MapAccessDeserializer::new(&mut map))?;
    match map.next_key::<String>()? {
        None => Ok(value),
        Some(other) => Err(A::Error::custom(format!(
            "`{other}` is one key too many; several stand in a list, each as a map of its own"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::redirect::RedirectSpec;
    use crate::respond::RespondSpec;
    use crate::when::WhenSpec;

    fn error<T: serde::de::DeserializeOwned>(json: &str) -> String {
        serde_json::from_str::<T>(json).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_those_of_the_form_that_is_written() {
        assert!(error::<RedirectSpec>(r#"{"to": "/a", "statsu": 301}"#).contains("unknown field `statsu`"));
        assert!(error::<RedirectSpec>("[]").contains("expected a place such as"));
        assert!(error::<RedirectSpec>(r#"{"status": 301}"#).contains("missing field `to`"));
        assert!(error::<RespondSpec>("70000").contains("expected a status such as `404`"));
        assert!(error::<RespondSpec>(r#"{"status": "x"}"#).contains("expected u16"));
        assert!(error::<WhenSpec>(r#"{"path": {"a": 1}}"#).contains("expected a string"));
        assert!(error::<WhenSpec>(r#"{"status": ["5xx", []]}"#).contains("expected a status"));
    }
}
