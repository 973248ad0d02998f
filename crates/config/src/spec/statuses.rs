//! Statuses, alone and in ranges.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

/// `503`, `500-599` or `5xx`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StatusSpec(pub RangeInclusive<u16>);

/// The statuses that there are (RFC 9110 §15).
const ALL: RangeInclusive<u16> = 100..=599;

impl StatusSpec {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a status; write for example `503`, `500-599` or `5xx`");
        let number = |text: &str| match text.len() {
            3 => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten(),
            _ => None,
        };
        let range = if let Some(class) = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
            let class = match class {
                "1" => 1,
                "2" => 2,
                "3" => 3,
                "4" => 4,
                "5" => 5,
                _ => return Err(wrong()),
            };
            class * 100..=class * 100 + 99
        } else {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let first = number(first.trim()).ok_or_else(wrong)?;
            first..=number(last.trim()).ok_or_else(wrong)?
        };
        if !ALL.contains(range.start()) || !ALL.contains(range.end()) {
            return Err("a status is a number from 100 to 599".into());
        }
        if range.is_empty() {
            return Err(format!("the range is empty; write `{}-{}`", range.end(), range.start()));
        }
        Ok(Self(range))
    }
}

impl<'de> Deserialize<'de> for StatusSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = StatusSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status such as `503`, `500-599` or `5xx`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<StatusSpec, E> {
                StatusSpec::read(text).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<StatusSpec, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for StatusSpec {
    fn schema_name() -> Cow<'static, str> {
        "StatusSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": ALL.start(), "maximum": ALL.end() },
            {
                "type": "string",
                "pattern": r"^[\s\u0085]*[1-5][0-9]{2}[\s\u0085]*(-[\s\u0085]*[1-5][0-9]{2}[\s\u0085]*)?$|^[1-5](xx|XX)$",
                "examples": ["500-599", "5xx"],
            },
        ] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_single_ones_ranges_and_classes() {
        for (text, range) in
            [("503", 503..=503), ("200-299", 200..=299), ("200 - 204", 200..=204), ("5xx", 500..=599)]
        {
            assert_eq!(StatusSpec::read(text).unwrap().0, range, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_status() {
        for text in [
            "", "-", "5", "5x", "xx", "0xx", "6xx", "+5xx", "99", "600", "299-200", "200-", "200-20", "2-4xx",
        ] {
            assert!(StatusSpec::read(text).is_err(), "{text}");
        }
    }
}
