//! Fields that a filter writes into a head, prepared when it is built: what is constant is whole lines that are copied
//! together, and templates are written where their lines belong.

use crate::fields::HeadFields;
use crate::names::{FieldName, FieldNames, Sketch};
use crate::{Template, Values};
use thalweg_http::FieldSet;
use thalweg_http::h1::encode::write_field;

/// Whole lines of a head that were made before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub(crate) text: Vec<u8>,
    /// The ids of their names.
    pub(crate) ids: FieldSet,
    pub(crate) sketch: Sketch,
}

/// What is written, in its order.
#[derive(Debug, Default)]
pub(crate) struct FieldWrites(Vec<FieldWrite>);

#[derive(Debug)]
enum FieldWrite {
    /// Whole lines.
    Lines(Lines),
    /// A field whose value depends on the exchange.
    Field(FieldName, Template),
}

impl FieldWrites {
    /// Adds a field behind those that are there. What HTTP does not allow in a line is not written.
    pub(crate) fn push(&mut self, name: &FieldName, value: &Template) {
        match value.constant() {
            Some(value) => self.push_constant(name, value.as_bytes()),
            None => self.0.push(FieldWrite::Field(name.clone(), value.clone())),
        }
    }

    /// The same with a value that is always the same.
    pub(crate) fn push_constant(&mut self, name: &FieldName, value: &[u8]) {
        if !matches!(self.0.last(), Some(FieldWrite::Lines(_))) {
            self.0.push(FieldWrite::Lines(Lines::default()));
        }
        if let Some(FieldWrite::Lines(lines)) = self.0.last_mut()
            && write_field(&mut lines.text, name.as_str().as_bytes(), value)
        {
            lines.ids.insert(name.id());
            lines.sketch.add(Sketch::of(name.as_str().as_bytes()));
        }
    }

    /// One field.
    pub(crate) fn one(name: &FieldName, value: &Template) -> Self {
        let mut writes = Self::default();
        writes.push(name, value);
        writes
    }

    /// The same with what depends on the exchange filled.
    pub(crate) fn filled(&self, values: &Values<'_>) -> Self {
        let mut filled = Self::default();
        for write in &self.0 {
            match write {
                FieldWrite::Lines(lines) => filled.0.push(FieldWrite::Lines(lines.clone())),
                FieldWrite::Field(name, value) => filled.push_constant(name, &value.field(values)),
            }
        }
        filled
    }

    /// Adds them all to a head.
    pub(crate) fn write(&self, fields: &mut HeadFields<'_>, values: &Values<'_>) {
        for write in &self.0 {
            match write {
                FieldWrite::Lines(lines) => fields.append_lines(lines),
                FieldWrite::Field(name, value) => fields.append_template(name, value, values),
            }
        }
    }
}

/// Fields of which each is there once, with the value that is given, and names that are not there at all.
#[derive(Debug, Default)]
pub(crate) struct FieldSets {
    gone: FieldNames,
    writes: FieldWrites,
}

impl FieldSets {
    /// Sets these fields; of several of one name the last one stays.
    pub(crate) fn new(set: &[(FieldName, Template)]) -> Self {
        let mut sets = Self::default();
        for (at, (name, value)) in set.iter().enumerate() {
            sets.gone.insert(name);
            if !set[at + 1..].iter().any(|(later, _)| later.is_same(name)) {
                sets.writes.push(name, value);
            }
        }
        sets
    }

    /// Sets one field, always to the same value.
    pub(crate) fn constant(name: &str, value: &str) -> Self {
        let (mut sets, name) = (Self::default(), FieldName::new(name));
        sets.gone.insert(&name);
        sets.writes.push_constant(&name, value.as_bytes());
        sets
    }

    /// Fields of this name are removed too.
    pub(crate) fn remove(&mut self, name: &FieldName) {
        self.gone.insert(name);
    }

    /// Fields of these names are removed too.
    pub(crate) fn remove_all(&mut self, names: FieldNames) {
        self.gone = std::mem::take(&mut self.gone).union(names);
    }

    /// Names that are removed.
    pub(crate) fn gone(&self) -> &FieldNames {
        &self.gone
    }

    /// What is written then.
    pub(crate) fn writes(&self) -> &FieldWrites {
        &self.writes
    }

    /// Adds fields; others of their names stay.
    pub(crate) fn append(&mut self, name: &FieldName, value: &Template) {
        self.writes.push(name, value);
    }

    /// Removes and writes.
    pub(crate) fn apply(&self, fields: &mut HeadFields<'_>, values: &Values<'_>) {
        fields.remove_all(&self.gone);
        self.writes.write(fields, values);
    }
}
