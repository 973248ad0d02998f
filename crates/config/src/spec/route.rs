//! `routes[]`: which requests, what is done to them, where they go.

use super::canary::CanarySpec;
use super::filter_entry::StepSpec;
use super::limits::RouteLimitsSpec;
use super::service::TimeoutsSpec;
use super::short::SomeSpec;
use super::spanned::{ListSpec, NamedSpec, Spanned};
use super::target::ToSpec;
use super::values::OneOrMoreSpec;
use crate::schema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// One route.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `to`")]
pub struct RouteSpec {
    /// Unique.
    #[schemars(extend("x-default-words" = "made from the route's position"))]
    #[schemars(extend("x-shown" = true))]
    pub name: Option<Spanned<String>>,
    /// Names of listeners.
    #[schemars(extend("x-default-words" = "every HTTP listener"))]
    #[serde(default)]
    #[schemars(extend("x-shown" = true))]
    pub listeners: SomeSpec<String>,
    /// Which requests.
    #[schemars(extend("x-default-words" = "all"))]
    #[serde(default)]
    pub r#match: MatchSpec,
    /// What is done to the request, in order: filters, and `{ chain: name }`.
    #[schemars(extend("x-default-words" = "nothing"))]
    #[serde(default)]
    pub filters: ListSpec<StepSpec>,
    /// Whether filters of the listener and of `defaults` come before its own.
    #[schemars(extend("x-default" = true))]
    pub inherit: Option<bool>,
    /// Where it goes. To be left out where a filter of the route answers every request: `redirect`, `respond`, or
    /// `files` without `fall_through`.
    #[schemars(extend("x-default-words" = "nowhere; needed where no filter answers"))]
    #[schemars(extend("x-shown" = true))]
    pub to: Option<Spanned<ToSpec>>,
    /// How its requests move to a newcomer among the services of `to`, step by step, and back when that does harm.
    #[schemars(extend("x-default-words" = "not by themselves"))]
    #[serde(default)]
    pub canary: Option<Spanned<CanarySpec>>,
    /// Deadlines of this route.
    #[serde(default)]
    pub timeouts: TimeoutsSpec,
    /// Bounds on its exchanges.
    #[serde(default)]
    pub limits: RouteLimitsSpec,
    /// What paths of its requests may have that is refused otherwise. Percent-encoded: `slash` at the edge of a
    /// segment, `control`, `backslash`. As it is, where another reading of the path belongs to a guarded route:
    /// `double_slash`, `semicolon`.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    pub allow_encoded: ListSpec<EncodedSpec>,
}

/// What a path may have.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(
    rename_all = "snake_case",
    expecting = "`slash`, `control`, `backslash`, `double_slash` or `semicolon`"
)]
pub enum EncodedSpec {
    /// `%2F` at the edge of a segment or beside another one, where decoding it makes an empty segment; and everywhere,
    /// `%2F` and `%5C` are no slashes to the service, whatever guarded route the path would belong to if they were.
    Slash,
    /// `%01` to `%1F` and `%7F`. `%00` is always refused.
    Control,
    /// `%5C`.
    Backslash,
    /// `//`: the service reads it as `/`, or has nothing protected below a path with an empty segment.
    DoubleSlash,
    /// `;`: the service reads it as any other character and cuts no parameters.
    Semicolon,
}

/// `routes[].match:` every condition that is written must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map of conditions")]
pub struct MatchSpec {
    /// `a.example.com` or `*.example.com`, or a list of them.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(extend("x-shown" = true))]
    pub host: Option<Spanned<OneOrMoreSpec>>,
    /// `/a` exactly, `/a/*` and below, `/users/{id}`, or a list of them.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(with = "Option<SomeSpec<schema::Path>>")]
    pub path: Option<Spanned<SomeSpec<String>>>,
    /// A regular expression for the whole path, instead of `path`.
    #[schemars(extend("x-default-words" = "any"))]
    pub path_regex: Option<Spanned<String>>,
    /// Upper case, as in `GET` or `[GET, HEAD]`. `GET` does not stand for `HEAD`. For a service that obeys
    /// `X-HTTP-Method-Override`, `X-HTTP-Method` or `X-Method-Override`, remove these fields with
    /// `headers: { request: { remove: … } }` on each route to it.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(with = "SomeSpec<schema::Method>")]
    pub methods: SomeSpec<String>,
    /// Fields of the request by name.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(extend("x-named" = true))]
    pub headers: NamedSpec<Spanned<FieldSpec>>,
    /// Parameters of the query by name.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(extend("x-named" = true))]
    pub query: NamedSpec<Spanned<FieldSpec>>,
    /// Addresses and networks of clients.
    #[schemars(extend("x-default-words" = "any"))]
    #[schemars(with = "SomeSpec<schema::Network>")]
    pub client: SomeSpec<String>,
}

/// What a field or parameter must hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FieldSpec {
    /// Written as a string: exactly this.
    Exact(String),
    /// `{ prefix: … }`
    Prefix(Spanned<String>),
    /// `{ suffix: … }`
    Suffix(Spanned<String>),
    /// `{ contains: … }`
    Contains(Spanned<String>),
    /// `{ regex: … }`, for the whole value.
    Regex(Spanned<String>),
    /// `{ present: true }`, or that it is absent: `{ present: false }`.
    Present(bool),
}

/// The long forms of [`FieldSpec`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "`prefix`, `suffix`, `contains`, `regex` or `present`")]
enum RuleSpec {
    Prefix,
    Suffix,
    Contains,
    Regex,
    Present,
}

impl FieldSpec {
    /// Whether a value in it came from the environment. That of the short form has its place outside.
    pub fn is_filled(&self) -> bool {
        match self {
            Self::Prefix(text) | Self::Suffix(text) | Self::Contains(text) | Self::Regex(text) => {
                text.span.filled
            }
            Self::Exact(_) | Self::Present(_) => false,
        }
    }
}

impl<'de> Deserialize<'de> for FieldSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape;

        impl<'de> Visitor<'de> for Shape {
            type Value = FieldSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a map with `prefix`, `suffix`, `contains`, `regex` or `present`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<FieldSpec, E> {
                Ok(FieldSpec::Exact(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldSpec, A::Error> {
                const ONE: &str = "write one of `prefix`, `suffix`, `contains`, `regex` and `present`";
                let Some(rule) = map.next_key()? else { return Err(A::Error::custom(ONE)) };
                let spec = match rule {
                    RuleSpec::Prefix => FieldSpec::Prefix(map.next_value()?),
                    RuleSpec::Suffix => FieldSpec::Suffix(map.next_value()?),
                    RuleSpec::Contains => FieldSpec::Contains(map.next_value()?),
                    RuleSpec::Regex => FieldSpec::Regex(map.next_value()?),
                    RuleSpec::Present => FieldSpec::Present(map.next_value()?),
                };
                if map.next_key::<RuleSpec>()?.is_some() {
                    return Err(A::Error::custom(ONE));
                }
                Ok(spec)
            }
        }

        deserializer.deserialize_any(Shape)
    }
}

impl JsonSchema for FieldSpec {
    fn schema_name() -> Cow<'static, str> {
        "FieldSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = generator.subschema_for::<String>();
        let rule = |name: &str, value: &Schema, about: &str| {
            json_schema!({
                "type": "object",
                "properties": { name: value },
                "required": [name],
                "additionalProperties": false,
                "description": about,
            })
        };
        json_schema!({ "anyOf": [
            { "type": "string", "description": "Exactly this." },
            rule("prefix", &text, "It begins with this."),
            rule("suffix", &text, "It ends with this."),
            rule("contains", &text, "It holds this."),
            rule("regex", &text, "The whole value matches this regular expression."),
            rule("present", &generator.subschema_for::<bool>(), "Whether it is there at all."),
        ] })
    }
}
