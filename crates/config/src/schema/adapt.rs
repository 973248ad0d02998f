//! From what `schemars` derives to what files may hold.
//!
//! In this order: one name for each definition; sections that may be empty; ranges and defaults from the attributes
//! of fields; `${NAME}` wherever a scalar stands. No step looks outside the schema.

use super::claims::{Claims, RANGE};
use super::{forms, has_type};
use serde_json::{Map, Value, json};

/// The definition of a scalar that the environment fills in.
pub(super) const VARIABLE: &str = "Variable";
/// What such a scalar holds. `$$` is a `$` that begins no variable.
const FILLED: &str = r"(^|[^$])(\$\$)*\$\{[A-Za-z_][0-9A-Za-z_]*(:-[^}]*)?\}";
/// Keywords that bound a scalar.
const SCALAR: &[&str] = &["type", "const", "enum", "minimum", "maximum", "pattern", "examples"];

/// Adapts the whole schema.
pub(super) fn adapt(schema: &mut Value) {
    rename(schema);
    each(schema, &mut |schema| {
        derived(schema);
        empty_section(schema);
        claimed(schema);
    });
    admit(schema);
    schema["$defs"][VARIABLE] = json!({
        "type": "string",
        "pattern": FILLED,
        "description": "`${NAME}` or `${NAME:-default}`: the environment says what stands here.",
        "examples": ["${NAME}", "${NAME:-default}"],
    });
}

/// Definitions are known to users without the ending that types have in the code.
fn rename(schema: &mut Value) {
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        *definitions = std::mem::take(definitions)
            .into_iter()
            .map(|(name, schema)| (name.strip_suffix("Spec").unwrap_or(&name).to_owned(), schema))
            .collect();
    }
    each(schema, &mut |schema| {
        if let Some(Value::String(reference)) = schema.get_mut("$ref")
            && let Some(name) = reference.strip_suffix("Spec")
        {
            *reference = name.to_owned();
        }
    });
}

/// Calls for every schema in this one, the innermost first.
fn each(schema: &mut Value, call: &mut dyn FnMut(&mut Value)) {
    let Value::Object(object) = schema else { return };
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            ("items" | "additionalProperties", value) => each(value, call),
            ("properties" | "$defs", Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| each(schema, call));
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| each(schema, call));
            }
            _ => {}
        }
    }
    call(schema);
}

/// Takes out what says more of the code than of the file. Forms are told apart by their type: that only one of them
/// fits need not be said, and would not hold beside [`VARIABLE`].
fn derived(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    object.remove("format");
    object.remove("default");
    if let Some(several) = object.remove("oneOf") {
        object.insert("anyOf".into(), several);
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// A section that needs no key may be empty: `limits:` with nothing behind it.
fn empty_section(schema: &mut Value) {
    let has_keys = schema.get("properties").is_some() || schema["additionalProperties"] == false;
    let is_section = has_keys && schema.get("required").is_none() && schema.get("minProperties").is_none();
    if is_section && schema["type"] == "object" {
        schema["type"] = json!(["object", "null"]);
    }
}

/// Ranges of numbers as a validator knows them.
fn claimed(schema: &mut Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut() {
        if let Some([least, most]) = property.get(RANGE).and_then(Value::as_array).cloned().as_deref()
            && least.is_number()
        {
            bound(property, least, most);
        }
    }
}

/// Says ranges and defaults in the words and keywords of the published schema.
pub(super) fn publish(schema: &mut Value) {
    each(schema, &mut |schema| {
        let claims = Claims::of(schema);
        let told = claims.sentence(schema["description"].as_str().unwrap_or_default());
        let Value::Object(object) = schema else { return };
        if let Some(told) = told {
            object.insert("description".into(), told.into());
        }
        object.extend(claims.default.map(|value| ("default".to_owned(), value)));
        let keywords = super::claims::KEYWORDS.iter().chain(&super::marks::KEYWORDS);
        keywords.for_each(|keyword| drop(object.remove(*keyword)));
    });
}

/// Bounds the numbers among the forms of a value.
fn bound(schema: &mut Value, least: &Value, most: &Value) {
    if has_type(schema, "integer") || has_type(schema, "number") {
        schema["minimum"] = least.clone();
        schema["maximum"] = most.clone();
    }
    if let Some(Value::Array(forms)) = schema.get_mut("anyOf") {
        forms.iter_mut().for_each(|form| bound(form, least, most));
    }
}

/// Whether it is a scalar that is not free text: that of a variable would not fit.
fn is_bound_scalar(schema: &Value) -> bool {
    let is_number = ["integer", "number", "boolean"].iter().any(|name| has_type(schema, name));
    is_number || ["const", "enum", "pattern"].iter().any(|keyword| schema.get(keyword).is_some())
}

/// Admits `${…}` wherever a scalar stands. Keys are not filled in.
fn admit(schema: &mut Value) {
    if let Value::Object(object) = schema {
        for (key, value) in object.iter_mut() {
            match (key.as_str(), value) {
                ("items" | "additionalProperties", value) => admit(value),
                ("properties" | "$defs", Value::Object(schemas)) => schemas.values_mut().for_each(admit),
                ("anyOf", Value::Array(forms)) => {
                    forms.iter_mut().filter(|form| !is_bound_scalar(form)).for_each(admit);
                }
                _ => {}
            }
        }
    }
    let variable = json!({ "$ref": format!("#/$defs/{VARIABLE}") });
    let free = |form: &Value| has_type(form, "string") && !is_bound_scalar(form);
    if forms(schema).iter().any(is_bound_scalar) && !forms(schema).iter().any(free) {
        if let Some(Value::Array(forms)) = schema.get_mut("anyOf") {
            forms.push(variable);
        }
    } else if is_bound_scalar(schema)
        && let Value::Object(object) = schema
    {
        let mut scalar = Map::new();
        for key in SCALAR {
            scalar.extend(object.remove(*key).map(|value| ((*key).to_owned(), value)));
        }
        object.insert("anyOf".into(), json!([scalar, variable]));
    }
}
