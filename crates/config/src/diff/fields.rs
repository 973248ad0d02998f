//! Fields of an object as text: how they are written down, and how two lists of them are compared.

use super::{FieldChange, SHOWN, ShownField};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;
use thalweg_core::Concealed;
use thalweg_core::units::duration_text;
use thalweg_core::written::{HIDDEN, SHOWN as SHOWN_PART};

/// The name of a field, as in the configuration.
type Name = Cow<'static, str>;

/// A field with its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Field {
    name: Name,
    /// The whole value: what is compared.
    value: String,
    shown: Shown,
}

/// What is shown of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Shown {
    Value,
    Text(String),
    Nothing,
}

/// The fields of an object, in the order in which they are told.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) Vec<Field>);

impl Fields {
    /// A value as it would be written.
    pub(super) fn put(&mut self, name: impl Into<Name>, value: impl Display) {
        self.0.push(Field { name: name.into(), value: value.to_string(), shown: Shown::Value });
    }

    /// A value that is not set unless there is one.
    pub(super) fn maybe(&mut self, name: impl Into<Name>, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// A value where `None` is a word of its own, as `auto` is.
    pub(super) fn or(&mut self, name: impl Into<Name>, value: Option<impl Display>, word: &str) {
        match value {
            Some(value) => self.put(name, value),
            None => self.put(name, word),
        }
    }

    /// A duration.
    pub(super) fn time(&mut self, name: impl Into<Name>, value: Duration) {
        self.put(name, duration_text(value));
    }

    /// Every value below this one, by its path.
    pub(super) fn all(&mut self, path: &str, value: &impl Serialize) {
        // It fails for no plan type: their keys are texts.
        self.tree(path.to_owned(), serde_json::to_value(value).unwrap_or_default());
    }

    fn tree(&mut self, path: String, value: Value) {
        match value {
            Value::Null => {}
            Value::Bool(value) => self.put(path, value),
            Value::Number(value) => self.put(path, value),
            Value::String(text) => self.put(path, text),
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                let items = items.into_iter().enumerate();
                items.for_each(|(at, item)| self.tree(format!("{path}[{at}]"), item));
            }
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => self.put(path, list(items.iter().map(scalar))),
            Value::Object(mut object) => {
                let mut text = |key: &str| object.remove(key).map(|value| scalar(&value).into_owned());
                match (text(SHOWN_PART), text(HIDDEN)) {
                    (Some(shown), whole) => self.behind(path, shown, whole.unwrap_or_default()),
                    (None, Some(whole)) => self.secret(path, whole),
                    (None, None) if object.is_empty() => self.put(path, "{}"),
                    (None, None) => {
                        object.into_iter().for_each(|(key, value)| self.tree(join(&path, &key), value))
                    }
                }
            }
        }
    }

    /// What is compared, and what is shown of it.
    pub(super) fn behind(&mut self, name: impl Into<Name>, text: impl Display, value: impl Display) {
        let shown = Shown::Text(text.to_string());
        self.0.push(Field { name: name.into(), value: value.to_string(), shown });
    }

    /// What is compared and never shown.
    pub(super) fn secret(&mut self, name: impl Into<Name>, value: impl Display) {
        self.0.push(Field { name: name.into(), value: value.to_string(), shown: Shown::Nothing });
    }
}

impl Fields {
    /// Each field with what is shown of it.
    pub(super) fn shown(self, concealed: &Concealed) -> Vec<ShownField> {
        self.0.into_iter().map(|field| (field.name.clone(), field.shown(concealed))).collect()
    }
}

/// `timeouts` and `connect` as `timeouts.connect`. A value without a key of its own stands for what holds it.
fn join(path: &str, key: &str) -> String {
    match (path, key) {
        (path, "") => path.to_owned(),
        ("", key) => key.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

/// A value without parts, as text.
fn scalar(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// `[a, b]`
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// What differs, in the order of `after`, then what is no longer set.
pub(super) fn differences(
    mut before: Vec<Field>,
    after: Vec<Field>,
    concealed: &Concealed,
) -> Vec<FieldChange> {
    if before == after {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for field in after {
        let place = before.iter().position(|known| known.name == field.name);
        let was = place.map(|place| before.remove(place));
        if was.as_ref() != Some(&field) {
            changes.push(change(was, Some(field), concealed));
        }
    }
    changes.extend(before.into_iter().map(|field| change(Some(field), None, concealed)));
    changes
}

/// All fields of an object that is added (`after`) or removed.
pub(super) fn all(fields: Vec<Field>, after: bool, concealed: &Concealed) -> Vec<FieldChange> {
    let one = |field| {
        if after { change(None, Some(field), concealed) } else { change(Some(field), None, concealed) }
    };
    fields.into_iter().map(one).collect()
}

fn change(before: Option<Field>, after: Option<Field>, concealed: &Concealed) -> FieldChange {
    let name = before.as_ref().or(after.as_ref()).map(|field| field.name.clone()).unwrap_or_default();
    let shown = |field: Option<Field>| field.and_then(|field| field.shown(concealed));
    let (old, new) = (shown(before), shown(after));
    // A secret, or they differ in what is left out.
    if old == new {
        return FieldChange { field: name, before: None, after: None, hidden: true };
    }
    FieldChange { field: name, before: old, after: new, hidden: false }
}

impl Field {
    /// What is shown of it. Secrets are hidden before a long text is cut.
    fn shown(self, concealed: &Concealed) -> Option<String> {
        let text = match self.shown {
            Shown::Value => self.value,
            Shown::Text(text) => text,
            Shown::Nothing => return None,
        };
        Some(short(concealed.hide(&text).into_owned()))
    }
}

/// On one line, without control characters, not too long.
fn short(value: String) -> String {
    if value.len() <= SHOWN && !value.contains(char::is_control) {
        return value;
    }
    let mut text: String = value.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.len() < value.len() {
        text.push('…');
    }
    text
}

/// How often each text has come up.
#[derive(Debug, Default)]
pub(super) struct Times(HashMap<String, usize>);

impl Times {
    /// How often this one came up before.
    pub(super) fn before(&mut self, text: &str) -> usize {
        let times = self.0.entry(text.to_owned()).or_default();
        *times += 1;
        *times - 1
    }
}
