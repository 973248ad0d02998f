//! Fields of an object as text: how they are written down, and how two lists of them are compared.

use super::{FieldChange, SHOWN};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;
use thalweg_core::units::{duration_text, size_text};

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

    /// A duration that is not set unless there is one.
    pub(super) fn maybe_time(&mut self, name: impl Into<Name>, value: Option<Duration>) {
        self.maybe(name, value.map(duration_text));
    }

    /// A number of bytes.
    pub(super) fn size(&mut self, name: impl Into<Name>, value: u64) {
        self.put(name, size_text(value));
    }

    /// A share in percent.
    pub(super) fn percent(&mut self, name: impl Into<Name>, value: u32) {
        self.put(name, format_args!("{value}%"));
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

/// `[a, b]`
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// What differs, in the order of `after`, then what is no longer set.
pub(super) fn differences(mut before: Vec<Field>, after: Vec<Field>) -> Vec<FieldChange> {
    if before == after {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for field in after {
        let place = before.iter().position(|known| known.name == field.name);
        let was = place.map(|place| before.remove(place));
        if was.as_ref() != Some(&field) {
            changes.push(change(was, Some(field)));
        }
    }
    changes.extend(before.into_iter().map(|field| change(Some(field), None)));
    changes
}

/// All fields of an object that is added (`after`) or removed.
pub(super) fn all(fields: Vec<Field>, after: bool) -> Vec<FieldChange> {
    let one = |field| if after { change(None, Some(field)) } else { change(Some(field), None) };
    fields.into_iter().map(one).collect()
}

fn change(before: Option<Field>, after: Option<Field>) -> FieldChange {
    let name = before.as_ref().or(after.as_ref()).map(|field| field.name.clone()).unwrap_or_default();
    let shown = |field: Option<Field>| field.and_then(Field::shown).map(short);
    let (old, new) = (shown(before), shown(after));
    // A secret, or they differ in what is left out.
    if old == new {
        return FieldChange { field: name, before: None, after: None, hidden: true };
    }
    FieldChange { field: name, before: old, after: new, hidden: false }
}

impl Field {
    fn shown(self) -> Option<String> {
        match self.shown {
            Shown::Value => Some(self.value),
            Shown::Text(text) => Some(text),
            Shown::Nothing => None,
        }
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
