//! Bodies of requests: read within bounds, then parsed, then checked.
//!
//! Called by the router for operations that take a body, before their handler. The types named
//! `*Spec` are what a client may send; handlers get what came of them.

mod purge;
mod reading;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error as _, IntoDeserializer as _, MapAccess, Unexpected,
    Visitor,
};
use serde_json::error::Category;
use serde_json::json;
use thalweg_core::units::parse_duration;
use tokio::time::timeout;

use crate::control::service::{TIER, WEIGHT};
use crate::control::{EndpointChange, NewAddress, NewApiKey, NewEndpoint, NewLabel, WantedState};
use crate::problem::Problem;
use crate::query::DURATION_FORMAT;

pub(crate) use purge::PurgeSpec;
pub use purge::purge_of;
pub use reading::read_bodies;
pub(crate) use reading::{BodySpec, parse};

/// Time for the whole body of a request.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Refuses a body that says it is something else than one of `types`.
pub(crate) fn check_type(headers: &HeaderMap, types: &[&str]) -> Result<String, Problem> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let value = values.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if values.next().is_none() && types.contains(&essence.as_str()) {
        return Ok(essence);
    }
    let detail = format!("this operation takes a body with `Content-Type: {}`", types.join("` or `"));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// Reads a body to its end. The gate has put the bound around it.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    match timeout(BODY_TIME, body.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if is_too_long(&error) => Err(too_large(limit)),
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
        }
    }
}

/// 413.
pub(crate) fn too_large(limit: usize) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body may have {limit} bytes"))
}

fn is_too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Parses JSON. What is wrong with a member names the member; what is no JSON gets line and column.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut parser);
    let error = match parsed {
        Ok(value) => match parser.end() {
            // A list would be read as an object whose members stand in order.
            Ok(()) if bytes.trim_ascii_start().starts_with(b"{") => return Ok(value),
            Ok(()) => return Err(Problem::new(StatusCode::BAD_REQUEST, "the body must be an object")),
            Err(error) => return Err(broken(&error)),
        },
        Err(error) => error,
    };
    if error.inner().classify() != Category::Data {
        return Err(broken(error.inner()));
    }
    let text = error.inner().to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    // The path of a member that is unknown, missing or there twice is that of the object around it.
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start)?.split('`').next());
    let path = error.path().to_string();
    match named {
        Some(name) => Err(Problem::invalid(name, message)),
        None if path == "." => Err(Problem::new(StatusCode::BAD_REQUEST, message)),
        None => Err(Problem::invalid(&path, format!("`{path}`: {message}"))),
    }
}

fn broken(error: &serde_json::Error) -> Problem {
    Problem::malformed(error.line(), error.column(), format!("the body is not JSON: {error}"))
}

fn check_weight(field: &str, weight: u32) -> Result<u32, Problem> {
    if weight <= WEIGHT {
        return Ok(weight);
    }
    Err(Problem::invalid(field, format!("`{field}`: a weight is a whole number from 0 to {WEIGHT}")))
}

/// The body of `POST /api/v1/services/{service}/endpoints`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "NewEndpoint")]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEndpointSpec {
    /// Its URL, by the rules of the configuration: `http://host:port` or `unix:/path`.
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// Its share among the endpoints of its tier; default 1. 0 gets no traffic.
    #[serde(default = "one", deserialize_with = "whole")]
    #[schemars(range(min = 0, max = 1000))]
    weight: u32,
    /// Its tier; default 0. A tier serves when those with lower numbers cannot.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 0, max = 9))]
    tier: u8,
}

fn one() -> u32 {
    1
}

impl BodySpec for NewEndpointSpec {
    type Checked = NewEndpoint;

    fn validate(self) -> Result<NewEndpoint, Problem> {
        if self.tier > TIER {
            return Err(Problem::invalid(
                "tier",
                format!("`tier`: a tier is a whole number from 0 to {TIER}"),
            ));
        }
        let weight = check_weight("weight", self.weight)?;
        Ok(NewEndpoint { url: self.url, weight, tier: self.tier })
    }
}

/// The body of `POST /api/v1/access/{list}`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "NewAddress", transform = without_defaults)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAddressSpec {
    /// A network such as `192.0.2.0/24`, or an address.
    #[schemars(extend("format" = "thalweg-network"))]
    network: String,
    /// How long, 1s to 10y (`3650d`); default: until it is taken out.
    #[serde(default, rename = "for", deserialize_with = "present")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    time: Option<String>,
    /// Why, in at most 200 characters.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", length(max = 200), extend("pattern" = r"^[^\u0000-\u001f\u007f-\u009f]*$"))]
    reason: Option<String>,
}

/// Most characters of a reason.
const REASON: usize = 200;
/// The longest time of an entry.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

impl BodySpec for NewAddressSpec {
    type Checked = NewAddress;

    fn validate(self) -> Result<NewAddress, Problem> {
        let time = self.time.as_deref().map(parse_duration).transpose();
        let time = time.map_err(|why| Problem::invalid("for", format!("`for`: {why}")))?;
        if time.is_some_and(|time| time < Duration::from_secs(1) || time > LONGEST) {
            return Err(Problem::invalid("for", "`for` must be from 1s to 3650d".to_owned()));
        }
        let reason = self.reason.unwrap_or_default();
        if reason.chars().count() > REASON || reason.chars().any(char::is_control) {
            let detail = format!("`reason` must have at most {REASON} characters, and none that controls");
            return Err(Problem::invalid("reason", detail));
        }
        Ok(NewAddress { network: self.network, time, reason })
    }
}

/// The body of `POST /api/v1/keys/{list}`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "NewApiKey", transform = without_defaults)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewApiKeySpec {
    /// Whose it is: 1 to 256 bytes without spaces, another one for each key of a list.
    #[schemars(length(min = 1, max = 256), extend("pattern" = WORD))]
    name: String,
    /// What it may do: at most 64 words of 1 to 256 bytes without spaces.
    #[serde(default)]
    #[schemars(extend("maxItems" = 64, "items" = word_schema()))]
    scopes: Vec<String>,
    /// What else is known of it, such as `"plan": "gold"`: at most 64 pairs of words.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 64, "propertyNames" = word_schema(), "additionalProperties" = word_schema()))]
    claims: BTreeMap<String, String>,
    /// From then on it is not taken: `2027-01-31`, or a time as in RFC 3339; default: it does not expire.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", extend("format" = "thalweg-expiry"))]
    expires: Option<String>,
}

/// No space and no control character.
const WORD: &str = r"^[^\s\u0000-\u001f\u007f-\u009f]+$";

fn word_schema() -> serde_json::Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 256, "pattern": WORD })
}

impl BodySpec for NewApiKeySpec {
    type Checked = NewApiKey;

    fn validate(self) -> Result<NewApiKey, Problem> {
        let Self { name, scopes, claims, expires } = self;
        Ok(NewApiKey { name, scopes, claims, expires })
    }
}

/// The body of `POST /api/v1/session`.
#[derive(serde::Deserialize, JsonSchema)]
#[schemars(rename = "NewSession")]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionSpec {
    /// `admin.token`, or `admin.read_token` for a session that may only read.
    token: String,
}

impl BodySpec for NewSessionSpec {
    type Checked = String;

    fn validate(self) -> Result<String, Problem> {
        Ok(self.token)
    }
}

/// The body of `POST /api/v1/sealed`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "NewLabel")]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLabelSpec {
    /// Where it is to lead: `10.0.0.7:3000`, `https://10.0.0.7:8443` or `service:checkout`.
    #[schemars(extend("format" = "thalweg-destination"))]
    destination: String,
    /// How long it is to be good for: `30m`, `1h`; at most the route's `max_ttl`.
    #[schemars(extend("format" = DURATION_FORMAT))]
    ttl: String,
    /// The route that is to take it; default: the only one that takes sealed destinations.
    route: Option<String>,
}

impl BodySpec for NewLabelSpec {
    type Checked = NewLabel;

    fn validate(self) -> Result<NewLabel, Problem> {
        let ttl =
            parse_duration(&self.ttl).map_err(|why| Problem::invalid("ttl", format!("`ttl`: {why}")))?;
        Ok(NewLabel { destination: self.destination, ttl, route: self.route })
    }
}

/// The body of `PATCH /api/v1/services/{service}/endpoints/{id}`: what is absent stays.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "EndpointChange", extend("minProperties" = 1), transform = without_defaults)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointChangeSpec {
    /// Its share.
    #[serde(default, deserialize_with = "present_whole")]
    #[schemars(with = "u32", range(min = 0, max = 1000))]
    weight: Option<u32>,
    /// How it shall stand.
    #[serde(default, deserialize_with = "word")]
    #[schemars(with = "WantedStateSpec")]
    state: Option<WantedStateSpec>,
}

/// How an operator wants an endpoint to stand.
#[derive(Clone, Copy, Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "WantedState")]
#[serde(rename_all = "snake_case")]
pub(crate) enum WantedStateSpec {
    /// In rotation; health decides the rest.
    Ready,
    /// Nothing new; what is under way may finish.
    Draining,
    /// Nothing new, whatever health says.
    Maintenance,
}

/// The body of `POST /api/v1/rollback`.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[schemars(rename = "Rollback", transform = without_defaults)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollbackSpec {
    /// Number of an entry of the history; default: the newest one before the present that was not taken back.
    #[serde(default, deserialize_with = "present_whole")]
    #[schemars(with = "u64", range(min = 0, max = 9007199254740991_u64))]
    to: Option<u64>,
}

impl BodySpec for RollbackSpec {
    type Checked = Option<u64>;

    fn validate(self) -> Result<Option<u64>, Problem> {
        Ok(self.to)
    }
}

/// `null` is what serde starts from, but it is no value of these members.
pub(crate) fn without_defaults(schema: &mut Schema) {
    let properties = schema.as_object_mut().and_then(|schema| schema.get_mut("properties")?.as_object_mut());
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        if let Some(property) = property.as_object_mut() {
            property.remove("default");
        }
    }
}

/// A member that may be absent but not `null`: neither of the two has a meaning for `null`.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A whole number as JSON Schema has it: `3.0` is one.
struct Whole<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<T>(PhantomData<T>);

        impl<T: TryFrom<u64>> Visitor<'_> for Number<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 on, and not a larger one than there may be")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
                T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
                // Above this, neighbours of a number are no longer told apart.
                const EXACT: f64 = 9_007_199_254_740_992.0;
                if number.fract() == 0.0 && (0.0..=EXACT).contains(&number) {
                    return self.visit_u64(number as u64);
                }
                Err(E::invalid_value(Unexpected::Float(number), &self))
            }
        }

        deserializer.deserialize_any(Number(PhantomData)).map(Self)
    }
}

fn whole<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

fn present_whole<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    whole(deserializer).map(Some)
}

/// The same for a word: serde_json reports a value of another type in its place as a syntax error.
fn word<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer()).map(Some)
}

impl BodySpec for EndpointChangeSpec {
    type Checked = EndpointChange;

    fn validate(self) -> Result<EndpointChange, Problem> {
        let weight = self.weight.map(|weight| check_weight("weight", weight)).transpose()?;
        let state = self.state.map(|state| match state {
            WantedStateSpec::Ready => WantedState::Ready,
            WantedStateSpec::Draining => WantedState::Draining,
            WantedStateSpec::Maintenance => WantedState::Maintenance,
        });
        if weight.is_none() && state.is_none() {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "nothing to change; write `weight` or `state`",
            ));
        }
        Ok(EndpointChange { weight, state })
    }
}

/// The body of `PATCH /api/v1/routes/{route}/maintenance`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Maintenance")]
pub(crate) struct MaintenanceSpec {
    /// Whether clients get the page.
    on: bool,
}

impl BodySpec for MaintenanceSpec {
    type Checked = bool;

    fn validate(self) -> Result<bool, Problem> {
        Ok(self.on)
    }
}

/// The body of `PATCH /api/v1/routes/{route}/weights`: shares by name of service, in the order written.
#[derive(Debug)]
pub(crate) struct WeightsSpec(Vec<(String, u32)>);

impl BodySpec for WeightsSpec {
    type Checked = Vec<(String, u32)>;

    fn validate(self) -> Result<Vec<(String, u32)>, Problem> {
        if self.0.is_empty() {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "nothing to change; write a service and its share",
            ));
        }
        for (service, weight) in &self.0 {
            check_weight(service, *weight)?;
        }
        Ok(self.0)
    }
}

impl<'de> Deserialize<'de> for WeightsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shares;

        impl<'de> Visitor<'de> for Shares {
            type Value = WeightsSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a share for each service")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightsSpec, A::Error> {
                let (mut seen, mut shares) = (HashSet::new(), Vec::new());
                while let Some(service) = map.next_key::<String>()? {
                    if !seen.insert(service.clone()) {
                        return Err(A::Error::custom(format!("duplicate field `{service}`")));
                    }
                    let Whole(share) = map.next_value()?;
                    shares.push((service, share));
                }
                Ok(WeightsSpec(shares))
            }
        }

        deserializer.deserialize_map(Shares)
    }
}

impl JsonSchema for WeightsSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Weights".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Shares by name of service; services that are not named keep theirs.",
            "minProperties": 1,
            "additionalProperties": { "type": "integer", "minimum": 0, "maximum": WEIGHT },
            "examples": [{ "checkout": 95, "checkout-next": 5 }],
        })
    }
}
