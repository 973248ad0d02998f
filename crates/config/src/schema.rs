//! The JSON Schema of the configuration (draft 2020-12), and the reference of its keys.
//!
//! Both are made from the `*Spec` types that the parser reads: [`document`] is what `thalweg schema` prints and
//! `docs/reference/schema.json` holds, [`keys`] is `docs/reference/configuration-keys.md`. Ranges and defaults stand
//! in one place, attributes of the field (`claims`); the suites in `tests/schema*`
//! hold them against what validation does.
//!
//! Invariant: what the schema refuses, the parser refuses. The reverse cannot hold: a schema knows neither names nor
//! bounds across keys.

mod adapt;
mod claims;
mod keys;
mod marks;
mod texts;

pub use keys::keys;
#[cfg(test)]
pub(crate) use marks::walk::{Choice, elements, entries};
pub(crate) use marks::{Marks, Place};
pub(crate) use texts::{
    BalancerName, Duration, EndpointUrl, EventName, Goal, GroupName, IpAddress, KeyedBalancerName,
    ListenAddress, Method, Network, NetworkWithPorts, Path, SealDigits, Share, Size, SuiteName, UserName,
    WebhookUrl, whole,
};

use crate::parse::{Kind, Node};
use crate::spec::FileSpec;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Number, Value};

/// The schema as text with a line feed at its end. The same on every call of one build.
pub fn document() -> String {
    format!("{:#}\n", value())
}

/// The schema.
pub fn value() -> Value {
    let mut schema = annotated();
    adapt::publish(&mut schema);
    schema
}

/// The schema with the claims of its keys in keywords of their own.
fn annotated() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<FileSpec>().to_value();
    adapt::adapt(&mut schema);
    schema["title"] = "Thalweg configuration".into();
    schema.sort_all_objects();
    schema
}

/// What a validator sees of a parsed file: the tree before `${…}` is filled in, without places.
pub fn instance(node: &Node) -> Value {
    match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Int(value) => Value::from(*value),
        // JSON has no infinity. No key takes a number of that size.
        Kind::Float(value) => Number::from_f64(*value).map_or(Value::from(f64::MAX), Value::Number),
        Kind::Str(text) => Value::String(text.clone()),
        Kind::Seq(items) => items.iter().map(instance).collect(),
        Kind::Map(entries) => {
            Value::Object(entries.iter().map(|(key, node)| (key.name.clone(), instance(node))).collect())
        }
    }
}

/// The members of an object.
fn members(schema: &Value, key: &str) -> impl Iterator<Item = (String, Value)> {
    schema.get(key).and_then(Value::as_object).cloned().unwrap_or_else(Map::new).into_iter()
}

/// The forms that a value may have.
fn forms(schema: &Value) -> &[Value] {
    schema.get("anyOf").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether the value may be of this JSON type.
fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
