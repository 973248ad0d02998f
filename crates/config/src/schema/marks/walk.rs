//! Walks the schema and gives the allowed forms at each place, for the suites that visit all places.

use super::{DEPTH, Marks, SCHEMA, definition};
use crate::schema::forms;
use serde_json::Value;

/// The allowed forms at a place.
pub(crate) struct Choice {
    /// Its leaf forms, each with the name of its definition.
    pub(crate) forms: Vec<(String, &'static Value)>,
    /// The names of the definitions followed.
    pub(crate) types: Vec<String>,
    /// The place's own marks.
    pub(crate) marks: Marks,
}

impl Choice {
    /// A whole file.
    pub(crate) fn file() -> Self {
        Self::of(&SCHEMA, "")
    }

    /// The forms that this schema, in that definition, allows.
    pub(crate) fn of(schema: &'static Value, owner: &str) -> Self {
        let mut choice = Self { forms: Vec::new(), types: Vec::new(), marks: Marks::default() };
        choice.add(schema, owner, 0);
        choice
    }

    fn add(&mut self, schema: &'static Value, owner: &str, depth: usize) {
        assert!(depth < DEPTH, "the schema has no cycles");
        self.marks = self.marks.join(Marks::of(schema));
        if let Some(found) = definition(schema) {
            let name = schema["$ref"].as_str().unwrap_or_default().trim_start_matches("#/$defs/").to_owned();
            self.types.push(name.clone());
            return self.add(found, &name, depth + 1);
        }
        match forms(schema) {
            [] => self.forms.push((owner.to_owned(), schema)),
            forms => forms.iter().for_each(|form| self.add(form, owner, depth + 1)),
        }
    }
}

/// The keys of a form and their allowed forms; `None` stands for a key that the user chooses.
pub(crate) fn entries<'a>(
    owner: &'a str,
    form: &'static Value,
) -> impl Iterator<Item = (Option<&'static str>, Choice)> + 'a {
    let own = form.get("properties").and_then(Value::as_object).into_iter().flatten();
    let own = own.map(move |(key, schema)| (Some(key.as_str()), Choice::of(schema, owner)));
    let chosen = form.get("additionalProperties").filter(|schema| schema.is_object());
    own.chain(chosen.map(move |schema| (None, Choice::of(schema, owner))))
}

/// The allowed forms of a form's elements.
pub(crate) fn elements(owner: &str, form: &'static Value) -> Option<Choice> {
    form.get("items").map(|schema| Choice::of(schema, owner))
}
