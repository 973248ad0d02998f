//! The reference of all keys, as Markdown: one row per key, under the path that a user would write.

use super::adapt::VARIABLE;
use super::claims::Claims;
use super::{annotated, forms, has_type, members};
use serde_json::Value;
use std::fmt::Write as _;

/// Deepest path; the schema has no cycles, and this says so.
const DEPTH: usize = 12;

/// The page, without a title.
pub fn keys() -> String {
    let schema = annotated();
    let mut page = Page { schema: &schema, text: String::new() };
    page.section("", &schema, 0);
    page.text
}

struct Page<'a> {
    schema: &'a Value,
    text: String,
}

impl Page<'_> {
    /// The keys of the maps among the forms of a value, then what is inside them.
    fn section(&mut self, path: &str, schema: &Value, depth: usize) {
        if depth > DEPTH {
            return;
        }
        let mut inside = Vec::new();
        for form in self.spread(schema) {
            let properties: Vec<_> = members(&form, "properties").collect();
            for (name, property) in &properties {
                self.row(path, name, property, &form);
                inside.push((join(path, name), property.clone()));
            }
            if let Some(entries) = named(&form) {
                inside.push((join(path, "<name>"), entries.clone()));
            }
            if let Some(items) = form.get("items") {
                inside.push((format!("{path}[]"), items.clone()));
            }
        }
        for (path, property) in inside {
            self.section(&path, &property, depth + 1);
        }
    }

    fn row(&mut self, path: &str, name: &str, property: &Value, owner: &Value) {
        if self.text.is_empty() {
            self.text.push_str("| key | value | default | range | meaning |\n|---|---|---|---|---|\n");
        }
        let required = owner.get("required").and_then(Value::as_array);
        let is_required = required.is_some_and(|keys| keys.iter().any(|key| key == name));
        // One of several keys is described as the form that it makes.
        let is_choice = is_required && property.get("description").is_none();
        let doc = if is_choice { owner } else { property }.get("description");
        let meaning = doc.and_then(Value::as_str).unwrap_or_default().trim_end_matches('.');
        let claims = Claims::of(property);
        let default = match claims.default_text() {
            Some(default) => default,
            None if is_choice => "one of these".to_owned(),
            None if is_required => "required".to_owned(),
            None => String::new(),
        };
        let cells = [
            code(&join(path, name)),
            self.kinds(property),
            default,
            claims.range.unwrap_or_default(),
            meaning.to_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    /// What may stand there, in words.
    fn kinds(&self, schema: &Value) -> String {
        let mut kinds: Vec<String> = Vec::new();
        for form in self.spread(schema) {
            let kind = self.kind(&form);
            if !kind.is_empty() && !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds.join(", ")
    }

    fn kind(&self, form: &Value) -> String {
        if let Some(words) = form.get("enum").and_then(Value::as_array) {
            let words = words.iter().filter_map(Value::as_str).map(code);
            return words.collect::<Vec<_>>().join(", ");
        }
        if let Some(word) = form.get("const").and_then(Value::as_str) {
            return code(word);
        }
        if let Some(name) = form.get("$name").and_then(Value::as_str)
            && form.get("examples").is_some()
        {
            return in_words(name);
        }
        if let Some(items) = form.get("items") {
            return format!("list of: {}", self.kinds(items));
        }
        if named(form).is_some() {
            return "map by name".to_owned();
        }
        let known = [
            ("object", "map"),
            ("boolean", "`true`, `false`"),
            ("integer", "whole number"),
            ("number", "number"),
        ];
        let known = known.iter().find(|(name, _)| has_type(form, name)).map(|(_, words)| *words);
        known.or(has_type(form, "string").then_some("text")).unwrap_or_default().to_owned()
    }

    /// The forms of a value, references followed, without those that every scalar has. What comes from a definition
    /// has its name under `$name`.
    fn spread(&self, schema: &Value) -> Vec<Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.trim_start_matches("#/$defs/");
            if name == VARIABLE {
                return Vec::new();
            }
            let mut forms = self.spread(&self.schema["$defs"][name]);
            for form in forms.iter_mut().filter(|form| form.get("$name").is_none()) {
                form["$name"] = name.into();
            }
            return forms;
        }
        if forms(schema).is_empty() {
            return vec![schema.clone()];
        }
        forms(schema).iter().flat_map(|form| self.spread(form)).collect()
    }
}

/// The values of a map whose keys the user chooses.
fn named(form: &Value) -> Option<&Value> {
    form.get("additionalProperties").filter(|values| values.is_object())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// `ListenAddress` as `listen address`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
