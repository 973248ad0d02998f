//! What the schema says of defaults and ranges is what validation does: tried on the good files, where every key
//! stands in a place in which it has a meaning.

use super::corpus::{SCHEMA, check, document, files, messages};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use thalweg_proxy::Plan;
use thalweg_route::Table;

/// A key as the schema has it, at a place in a file.
struct Place {
    document: Rc<Value>,
    pointer: String,
    property: Value,
}

/// Every key of the schema, by definition, with the places where a good file has it.
#[derive(Default)]
struct Keys(BTreeMap<String, Vec<Place>>);

impl Keys {
    fn of_the_good_files() -> Self {
        let mut keys = Self::default();
        keys.declare(&SCHEMA, "the file");
        for (name, definition) in SCHEMA["$defs"].as_object().unwrap() {
            keys.declare(definition, name);
        }
        for path in files("good") {
            let document = Rc::new(document(&path).unwrap());
            keys.walk(&SCHEMA, "the file", &document, (&document, ""));
        }
        keys
    }

    /// Keys that perhaps no file has.
    fn declare(&mut self, schema: &Value, owner: &str) {
        for key in schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
            self.0.entry(format!("{owner}.{key}")).or_default();
        }
        for form in schema["anyOf"].as_array().into_iter().flatten() {
            self.declare(form, owner);
        }
    }

    fn walk(&mut self, schema: &Value, owner: &str, value: &Value, (document, pointer): (&Rc<Value>, &str)) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/$defs/").unwrap();
            return self.walk(&SCHEMA["$defs"][name], name, value, (document, pointer));
        }
        for form in schema["anyOf"].as_array().into_iter().flatten() {
            self.walk(form, owner, value, (document, pointer));
        }
        if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
            for (at, value) in values.iter().enumerate() {
                self.walk(items, owner, value, (document, &format!("{pointer}/{at}")));
            }
        }
        let Some(entries) = value.as_object() else { return };
        for (key, value) in entries {
            let here = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
            if let Some(property) = schema["properties"].get(key) {
                let (pointer, copy) = (here.clone(), property.clone());
                let place = Place { document: Rc::clone(document), pointer, property: copy };
                self.0.entry(format!("{owner}.{key}")).or_default().push(place);
                self.walk(property, owner, value, (document, &here));
            } else if schema["additionalProperties"].is_object() {
                self.walk(&schema["additionalProperties"], owner, value, (document, &here));
            }
        }
    }

    fn places(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.0.iter().flat_map(|(key, places)| places.iter().map(move |place| (key.as_str(), place)))
    }
}

#[test]
fn every_key_stands_in_a_good_file() {
    let keys = Keys::of_the_good_files();
    assert!(keys.0.len() > 100, "{}", keys.0.len());
    // A secret's file that comes with the sources can be read by everybody, and is warned of. Modules of Wasm need a
    // file beside the configuration and a binary with the feature (tests/scenario/wasm.rs).
    let elsewhere = |key: &str| key == "Secret.file" || key.ends_with(".wasm") || key.starts_with("Wasm.");
    let missing = keys.0.iter().filter(|(key, places)| places.is_empty() && !elsewhere(key));
    let missing: Vec<_> = missing.map(|(key, _)| key).collect();
    assert!(missing.is_empty(), "add to tests/config/good/full.yaml: {missing:?}");
}

/// The document without what this place would inherit instead of what is built in.
fn around(place: &Place) -> Value {
    let mut document = Value::clone(&place.document);
    if !place.pointer.starts_with("/defaults/") {
        document.as_object_mut().unwrap().remove("defaults");
    }
    document
}

fn without(document: &Value, pointer: &str) -> Value {
    let mut document = document.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(&key).unwrap();
    document
}

fn with(document: &Value, pointer: &str, value: Value) -> Value {
    let mut document = document.clone();
    *document.pointer_mut(pointer).unwrap() = value;
    document
}

/// All that follows from a document; what is wrong with it where nothing does.
fn outcome(document: &Value) -> Result<String, Vec<String>> {
    // A table is in no particular order: the same one stands for all, and the matches in words beside it.
    static TABLE: LazyLock<Arc<Table>> = LazyLock::new(|| Arc::new(Table::build(&[]).unwrap()));
    let loaded = check(document).map_err(|report| messages(&report))?;
    let plan = Plan { table: Arc::clone(&TABLE), connections: Arc::clone(&TABLE), ..loaded.plan };
    let shown = format!("{plan:?} {:?}", loaded.settings);
    // The constructor of a balancer, which says no more than its name.
    Ok(regex::Regex::new("0x[0-9a-f]+").unwrap().replace_all(&shown, "…").into_owned())
}

/// Other values that the key may have.
fn others(place: &Place) -> Vec<Value> {
    let written = place.document.pointer(&place.pointer).unwrap();
    let mut others = vec![written.clone(), json!(true), json!(false), json!("off")];
    for form in place.property["anyOf"].as_array().into_iter().flatten().chain([&place.property]) {
        let form = form["$ref"]
            .as_str()
            .map_or(form, |reference| SCHEMA.pointer(reference.strip_prefix('#').unwrap()).unwrap());
        for form in form["anyOf"].as_array().into_iter().flatten().chain([form]) {
            others.extend(form["const"].as_str().map(Value::from));
            others.extend(form["enum"].as_array().into_iter().flatten().cloned());
        }
    }
    if let Some((least, most)) = range(place) {
        others.extend([value(&least), value(&most)]);
    }
    others
}

#[test]
fn a_default_is_what_holds_where_nothing_is_written() {
    let (mut tried, mut effective, mut wrong) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let keys = Keys::of_the_good_files();
    for (key, place) in keys.places() {
        let Some(default) = place.property.get("default") else { continue };
        tried.insert(key);
        let around = around(place);
        let absent = outcome(&without(&around, &place.pointer));
        let written = outcome(&with(&around, &place.pointer, default.clone()));
        if absent.is_err() && written.is_ok() {
            // Here the key is what makes the section mean something. It has to stand elsewhere too.
            continue;
        }
        if absent != written {
            wrong.push(format!("{key} ({}) is not {default}", place.pointer));
        }
        let differs = |other: Value| outcome(&with(&around, &place.pointer, other)) != absent;
        if !effective.contains(key) && others(place).into_iter().any(differs) {
            effective.insert(key);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let idle: Vec<_> = tried.difference(&effective).collect();
    assert!(idle.is_empty(), "no other value makes a difference: {idle:?}");
    assert!(tried.len() > 50, "{tried:?}");
}

/// The range that the description states.
fn range(place: &Place) -> Option<(String, String)> {
    let text = place.property["description"].as_str()?;
    let belongs = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '%';
    let (before, after) = text.split_once('–')?;
    let least = before.rsplit(|c| !belongs(c)).next()?;
    let most = after.split(|c| !belongs(c)).next()?.trim_end_matches('.');
    Some((least.to_owned(), most.to_owned()))
}

/// A value as it would be written: a number or a text.
fn value(text: &str) -> Value {
    text.parse::<u64>()
        .map(Value::from)
        .or_else(|_| text.parse::<f64>().map(Value::from))
        .unwrap_or(json!(text))
}

/// The next value in this direction; `None` below nothing.
fn beyond(text: &str, step: i64) -> Option<Value> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if let Ok(number) = number.parse::<i64>() {
        let next = number + step;
        return (next >= 0).then(|| value(&format!("{next}{unit}")));
    }
    Some(json!(number.parse::<f64>().unwrap() + step as f64 / 10.0))
}

/// Whether a document is refused because something is out of range.
fn out_of_range(document: &Value) -> bool {
    let report = check(document).err();
    report.is_some_and(|report| messages(&report).iter().any(|message| message.contains("must be from")))
}

#[test]
fn a_range_is_what_is_accepted() {
    let (mut tried, mut wrong) = (BTreeSet::new(), Vec::new());
    let keys = Keys::of_the_good_files();
    for (key, place) in keys.places() {
        let Some((least, most)) = range(place) else { continue };
        let refused = |value: Value| out_of_range(&with(&place.document, &place.pointer, value));
        for inside in [value(&least), value(&most)] {
            if refused(inside.clone()) {
                wrong.push(format!("{}: {inside} is refused", place.pointer));
            }
        }
        for outside in [beyond(&least, -1), beyond(&most, 1)].into_iter().flatten() {
            if !refused(outside.clone()) {
                wrong.push(format!("{}: {outside} is accepted", place.pointer));
            }
        }
        tried.insert(key);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried.len() > 30, "{tried:?}");
}
