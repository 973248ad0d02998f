//! Small values with a notation of their own: durations, sizes, shares, `auto`, one or more.

use super::spanned::{ListSpec, Spanned};
use crate::schema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use thalweg_core::units::{parse_duration, parse_percent, parse_size};

/// A duration such as `250ms`, `5s` or `1h30m`. A bare number is an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DurationSpec(pub Duration);

/// A size in bytes such as `64KiB` or `10MB`. A bare number is an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SizeSpec(pub u64);

/// A share in whole percent such as `20%`. A bare number is an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PercentSpec(pub u32);

/// A share with up to three decimals such as `99.9%`, in millionths. A bare number is an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GoalSpec(pub u32);

/// `99.95%` in millionths.
fn parse_goal(text: &str) -> Result<u32, String> {
    let Some(number) = text.trim().strip_suffix('%').map(str::trim_end) else {
        let example = if text.trim().parse::<f64>().is_ok() { text.trim() } else { "99.9" };
        return Err(format!("`{text}` has no unit; write `{example}%`"));
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) {
        return Err(format!("`{text}` is not a share; write for example `99.9%`"));
    }
    if decimals.len() > 3 {
        return Err(format!("`{text}`: a target has at most three decimals"));
    }
    let parts = format!("{whole}{decimals:0<4}").parse::<u32>().ok();
    match parts {
        Some(parts) if (500_000..=999_990).contains(&parts) => Ok(parts),
        Some(1_000_000) => Err("a target of 100% leaves no budget; write for example `99.99%`".into()),
        _ => Err(format!("`{text}`: a target must be from 50% to 99.999%")),
    }
}

macro_rules! unit {
    ($spec:ident, $schema:ident, $parse:ident, $expecting:literal) => {
        impl JsonSchema for $spec {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($spec).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                generator.subschema_for::<schema::$schema>()
            }
        }

        impl<'de> Deserialize<'de> for $spec {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $spec;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$spec, E> {
                        $parse(text).map($spec).map_err(E::custom)
                    }

                    fn visit_u64<E: Error>(self, number: u64) -> Result<$spec, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_i64<E: Error>(self, number: i64) -> Result<$spec, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: Error>(self, number: f64) -> Result<$spec, E> {
                        self.visit_str(&number.to_string())
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    };
}

unit!(DurationSpec, Duration, parse_duration, "a duration such as `5s`");
unit!(SizeSpec, Size, parse_size, "a size such as `64KiB`");
unit!(GoalSpec, Goal, parse_goal, "a share such as `99.9%`");
unit!(PercentSpec, Share, parse_percent, "a share such as `20%`");

/// A number with at most one decimal, in tenths: `1.9` is 19.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TenthsSpec(pub u32);

impl<'de> Deserialize<'de> for TenthsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = TenthsSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number such as `1.9`")
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<TenthsSpec, E> {
                let tenths = (number * 10.0).round();
                if !(0.0..=1e9).contains(&tenths) || (number * 10.0 - tenths).abs() > 1e-6 {
                    return Err(E::custom(
                        "a number from 0 with at most one decimal is needed, such as `1.9`",
                    ));
                }
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
                Ok(TenthsSpec(tenths as u32))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<TenthsSpec, E> {
                // Far above every bound, where a float is no longer exact.
                self.visit_f64(number.min(1_000_000) as f64)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<TenthsSpec, E> {
                self.visit_f64(number as f64)
            }
        }

        deserializer.deserialize_f64(Number)
    }
}

/// `auto` or a whole number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AutoSpec {
    /// The proxy chooses.
    Auto,
    /// This many.
    Number(u64),
}

impl<'de> Deserialize<'de> for AutoSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl Visitor<'_> for Choice {
            type Value = AutoSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto` or a whole number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AutoSpec, E> {
                match text {
                    "auto" => Ok(AutoSpec::Auto),
                    _ => Err(E::invalid_type(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<AutoSpec, E> {
                Ok(AutoSpec::Number(number))
            }
        }

        deserializer.deserialize_u64(Choice)
    }
}

/// `auto` or a size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AutoSizeSpec {
    /// The proxy chooses.
    Auto,
    /// This many bytes.
    Bytes(u64),
}

impl<'de> Deserialize<'de> for AutoSizeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl Visitor<'_> for Choice {
            type Value = AutoSizeSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto` or a size such as `512MiB`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AutoSizeSpec, E> {
                match text {
                    "auto" => Ok(AutoSizeSpec::Auto),
                    _ => parse_size(text).map(AutoSizeSpec::Bytes).map_err(E::custom),
                }
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<AutoSizeSpec, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<AutoSizeSpec, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<AutoSizeSpec, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_str(Choice)
    }
}

/// A text, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub enum OneOrMoreSpec {
    /// The short form.
    One(String),
    /// The long form.
    More(ListSpec<String>),
}

impl OneOrMoreSpec {
    /// The elements; the short form's place is that of the whole.
    pub fn list(whole: Spanned<Self>) -> ListSpec<String> {
        match whole.value {
            Self::One(text) => ListSpec { items: vec![Spanned::new(whole.span, text)], written: 1 },
            Self::More(list) => list,
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMoreSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = OneOrMoreSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMoreSpec, E> {
                Ok(OneOrMoreSpec::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMoreSpec, A::Error> {
                ListSpec::read(list).map(OneOrMoreSpec::More)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for TenthsSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TenthsSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl JsonSchema for AutoSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AutoSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string", "const": "auto" }, schema::whole()] })
    }
}

impl JsonSchema for AutoSizeSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AutoSizeSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "const": "auto" },
            generator.subschema_for::<schema::Size>(),
        ] })
    }
}

impl JsonSchema for OneOrMoreSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OneOrMoreSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } },
        ] })
    }
}
