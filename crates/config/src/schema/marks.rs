//! Marks on the fields of Specs: restrictions for the API and redaction; and [`Place`], the position of a node in the
//! schema.
//!
//! A field of a Spec, a variant or a type has one of
//! `#[schemars(extend("x-api" = "trust"))]`:
//!
//! | mark | meaning |
//! |---|---|
//! | `setting` | a setting of the process: only the file introduces it, with everything below it |
//! | `reference` | names a file, a variable, a program or a socket: only the file introduces it |
//! | `trust` | decides on trust in peers, or on the strictness of a verification: only the file introduces it |
//! | `whole` | reaches an internal resource of the proxy: as a whole the same as in the file, or absent |
//! | `secret` | a secret: its value is redacted, and belongs to its destination |
//! | `destination` | an address that receives a secret beside it or below |
//! | `address` | an address that no secret is sent to |
//!
//! Further marks: `"x-kept" = true` (an object of the file that has the key may not lose it), `"x-named" = true` (a
//! map of fields or parameters, in which names of credentials mark secrets), `"x-sent" = true` (values below it are
//! sent to services, and their secrets may go to no other service) and `"x-shown" = true` (an address, a host or a
//! name, or a list of them: displays show variables in it. Without the mark they are hidden).
//!
//! Marks of a map hold for everything below it. [`Place`] follows a walk through a tree of nodes. The marks are not
//! published.

use super::{annotated, forms, has_type};
use crate::parse::{Kind, Node};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use thalweg_core::credentials::may_be_secret;

const API: &str = "x-api";
const KEPT: &str = "x-kept";
const NAMED: &str = "x-named";
const SENT: &str = "x-sent";
const SHOWN: &str = "x-shown";
/// All keywords of marks.
pub(super) const KEYWORDS: [&str; 5] = [API, KEPT, NAMED, SENT, SHOWN];
/// The keywords of JSON Schema that define the positions of nodes.
const LOOKED_AT: [&str; 8] =
    ["$defs", "$ref", "additionalProperties", "anyOf", "const", "items", "properties", "type"];
/// Longest chain of references and forms; a bound, though the schema has no cycles.
const DEPTH: usize = 16;

/// The schema without its texts, to save memory.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = annotated();
    strip(&mut schema);
    schema
});
/// The names of fields that are destinations of secrets, wherever they stand.
static DESTINATIONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut names = BTreeSet::new();
    let definitions = SCHEMA.get("$defs").and_then(Value::as_object);
    definitions.into_iter().flat_map(|all| all.values()).for_each(|schema| destinations(schema, &mut names));
    names
});

/// The marks of a place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Marks {
    /// Only the file on disk introduces it.
    pub(crate) restricted: bool,
    /// It must be the same as in the file as a whole.
    pub(crate) whole: bool,
    /// Its value is a secret.
    pub(crate) secret: bool,
    /// It receives secrets beside it or below.
    pub(crate) destination: bool,
    /// It is an address, with or without secrets.
    pub(crate) address: bool,
    /// It may not be removed from an object that stays.
    pub(crate) kept: bool,
    /// A map of fields or parameters by name.
    pub(crate) named: bool,
    /// Its value is sent to services.
    pub(crate) sent: bool,
    /// It is an address, a host or a name: displays show variables in it.
    pub(crate) shown: bool,
    /// It has a mark, possibly one without restrictions.
    decided: bool,
}

impl Marks {
    /// The marks of one schema object.
    fn of(schema: &Value) -> Self {
        let is_set = |keyword: &str| schema.get(keyword).and_then(Value::as_bool).unwrap_or(false);
        let word = schema.get(API).and_then(Value::as_str);
        Self {
            restricted: matches!(word, Some("setting" | "reference" | "trust")),
            whole: word == Some("whole"),
            secret: word == Some("secret"),
            destination: word == Some("destination"),
            address: matches!(word, Some("destination" | "address")),
            kept: is_set(KEPT),
            named: is_set(NAMED),
            sent: is_set(SENT),
            shown: is_set(SHOWN),
            decided: word.is_some(),
        }
    }

    /// Whether the field or its type has a mark of its own.
    #[cfg(test)]
    pub(crate) fn is_decided(self) -> bool {
        self.decided
    }

    fn join(self, other: Self) -> Self {
        Self {
            restricted: self.restricted || other.restricted,
            whole: self.whole || other.whole,
            secret: self.secret || other.secret,
            destination: self.destination || other.destination,
            address: self.address || other.address,
            kept: self.kept || other.kept,
            named: self.named || other.named,
            sent: self.sent || other.sent,
            shown: self.shown || other.shown,
            decided: self.decided || other.decided,
        }
    }
}

/// The position of a node in the schema.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The allowed forms; empty: the schema does not know the place.
    forms: Vec<&'static Value>,
    /// Its marks.
    pub(crate) marks: Marks,
}

impl Default for Place {
    /// The place of a whole file.
    fn default() -> Self {
        Self::unknown(Marks::default()).with(&SCHEMA, None, 0)
    }
}

impl Place {
    fn unknown(marks: Marks) -> Self {
        Self { forms: Vec::new(), marks }
    }

    /// Whether the schema has a form for this place.
    pub(crate) fn is_known(&self) -> bool {
        !self.forms.is_empty()
    }

    /// The place of an entry of this map.
    pub(crate) fn key(&self, name: &str, value: &Node) -> Self {
        let mut place = Self::unknown(Marks::default());
        for form in &self.forms {
            let own = form.get("properties").and_then(|properties| properties.get(name));
            let entries = || form.get("additionalProperties").filter(|entries| entries.is_object());
            if let Some(schema) = own.or_else(entries) {
                place = place.with(schema, Some(value), 0);
            }
        }
        // An unknown key with the name of a destination counts as one until the parser refuses it, so that a secret
        // beside it stays with its former destination.
        place.marks.destination |= !place.is_known() && DESTINATIONS.contains(name);
        if self.marks.named && may_be_secret(name) {
            place.marks.secret = true;
        }
        place.inherit(self.marks)
    }

    /// The place of an element of this list.
    pub(crate) fn item(&self, item: &Node) -> Self {
        let mut place = Self::unknown(Marks::default());
        for schema in self.forms.iter().filter_map(|form| form.get("items")) {
            place = place.with(schema, Some(item), 0);
        }
        place.marks.shown |= self.marks.shown;
        place.inherit(self.marks)
    }

    /// Adds the inherited marks of the enclosing map or list. The name of a secret's file has its own mark: it is not
    /// a secret.
    fn inherit(mut self, above: Marks) -> Self {
        let secret = self.marks.secret || (above.secret && !self.marks.decided);
        self.marks =
            self.marks.join(Marks { restricted: above.restricted, sent: above.sent, ..Marks::default() });
        self.marks.secret = secret;
        self
    }

    /// Adds this schema's marks for the node; without a node, all marks that it may have.
    fn with(mut self, schema: &'static Value, node: Option<&Node>, depth: usize) -> Self {
        if depth > DEPTH {
            return self;
        }
        self.marks = self.marks.join(Marks::of(schema));
        if let Some(definition) = definition(schema) {
            return self.with(definition, node, depth + 1);
        }
        if forms(schema).is_empty() {
            if node.is_none_or(|node| fits(schema, node))
                && !self.forms.iter().any(|known| std::ptr::eq(*known, schema))
            {
                self.forms.push(schema);
            }
            return self;
        }
        for form in forms(schema) {
            // The marks of a form for texts do not apply to maps.
            if node.is_none_or(|node| definition(form).is_some() || fits(form, node)) {
                self = self.with(form, node, depth + 1);
            }
        }
        self
    }
}

/// Keeps only the parts that [`Place`] and the suite use.
fn strip(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    object.retain(|key, _| LOOKED_AT.contains(&key.as_str()) || KEYWORDS.contains(&key.as_str()));
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => schemas.values_mut().for_each(strip),
            ("anyOf", Value::Array(schemas)) => schemas.iter_mut().for_each(strip),
            ("items" | "additionalProperties", value) => strip(value),
            _ => {}
        }
    }
}

/// The target of a schema reference.
fn definition(schema: &'static Value) -> Option<&'static Value> {
    let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
    SCHEMA.get("$defs")?.get(name)
}

/// Whether a node is of the kind of a leaf form.
fn fits(form: &Value, node: &Node) -> bool {
    let Some(_) = form.get("type") else { return true };
    match &node.kind {
        Kind::Map(_) => has_type(form, "object"),
        Kind::Seq(_) => has_type(form, "array"),
        // A text may be written as a number, and an empty section counts as a map.
        Kind::Null => true,
        Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Str(_) => {
            ["string", "integer", "number", "boolean"].iter().any(|name| has_type(form, name))
        }
    }
}

/// Collects the names of fields that are destinations.
fn destinations(schema: &Value, names: &mut BTreeSet<String>) {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if Marks::of(property).destination {
            names.insert(name.clone());
        }
        destinations(property, names);
    }
    let inside = ["items", "additionalProperties"].iter().filter_map(|key| schema.get(*key));
    forms(schema).iter().chain(inside).for_each(|schema| destinations(schema, names));
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod walk;
