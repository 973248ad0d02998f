//! JSON objects as heads and claims: what two readers could read in two ways is refused (RFC 7519 §4, RFC 8725 §2.4).

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Objects and lists within each other.
const DEPTH: usize = 16;

const TWICE: &str = "a member twice";
const DEEP: &str = "objects too deep";

/// Reads an object: no member twice at any depth, nothing behind its end.
///
/// # Errors
/// What it has that it may not have.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, &'static str> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict(DEPTH).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("no object where one must be"),
        Err(error) => {
            let error = error.to_string();
            let known = [TWICE, DEEP].into_iter().find(|known| error.starts_with(known));
            Err(known.unwrap_or("JSON that cannot be read"))
        }
    }
}

/// A value with so many levels left.
#[derive(Clone, Copy)]
struct Strict(usize);

impl Strict {
    fn below<E: Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom(DEEP))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(below)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(TWICE));
            }
            let value = members.next_value_seed(below)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_strictly() {
        assert_eq!(object(br#"{"a": [1, -2, 1.5, null, true, {"b": "c"}]}"#).unwrap()["a"][5]["b"], "c");
        for (text, why) in [
            (r#"{"a": 1, "a": 1}"#, TWICE),
            (r#"{"x": {"a": 1, "\u0061": 2}}"#, TWICE),
            ("[1]", "no object where one must be"),
            ("{} {}", "JSON that cannot be read"),
            (r#"{"a": 1"#, "JSON that cannot be read"),
            ("{\"a\": \"\u{0}\"}", "JSON that cannot be read"),
        ] {
            assert_eq!(object(text.as_bytes()), Err(why), "{text}");
        }
        assert_eq!(object(b"{\"a\": \"\xff\"}"), Err("JSON that cannot be read"));
        let deep = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(object(deep(DEPTH - 1).as_bytes()).is_ok());
        assert_eq!(object(deep(DEPTH).as_bytes()), Err(DEEP));
        assert_eq!(object(deep(5000).as_bytes()), Err(DEEP));
    }
}
