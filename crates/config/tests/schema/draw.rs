//! Documents drawn from a schema: whatever it lets pass may come.

use super::corpus::SCHEMA;
use fastrand::Rng;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value};

/// Texts for where anything may stand, some of which mean something.
const TEXTS: &[&str] = &[
    "",
    "a",
    "app",
    "web",
    "off",
    "auto",
    "GET",
    "/",
    "/a/*",
    "/a/{id}",
    "a.example.com",
    "*.example.com",
    ":8080",
    "127.0.0.1:0",
    "$${PORT}",
    "${",
    "5s",
    "64KiB",
    "20%",
    "503",
    "http://10.0.0.1:8080",
    "unix:/run/a.sock",
    "stdout",
    "keep",
    "[0-9]+",
    "(",
    "\u{e9}\u{4e16}",
    "a b",
    "0123456789abcdef",
];
/// What the environment may fill in, or fail to.
const VARIABLES: &[&str] = &[
    "${PORT}",
    "${UPSTREAM}",
    "${NONE:-5}",
    "${NONE:-off}",
    "${NONE:-true}",
    "${NONE:-1s}",
    "${NONE:-}",
    "${NONE}",
    "$$${PORT}",
];

/// Draws documents; the same seed gives the same ones.
pub(crate) struct Draw {
    pub(crate) rng: Rng,
    runner: TestRunner,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), runner: TestRunner::deterministic() }
    }

    /// A document.
    pub(crate) fn document(&mut self) -> Value {
        self.value(&SCHEMA, 0)
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/$defs/").unwrap();
            if name == "Variable" {
                return self.one_of(VARIABLES).into();
            }
            return self.value(&SCHEMA["$defs"][name], depth);
        }
        // Of an object with properties, the forms say which of these are needed together.
        if let (Some(forms), None) = (schema["anyOf"].as_array(), schema.get("properties")) {
            let form = self.rng.choice(forms).unwrap();
            return self.value(form, depth);
        }
        if let Some(words) = schema["enum"].as_array() {
            return self.rng.choice(words).unwrap().clone();
        }
        if let Some(word) = schema.get("const") {
            return word.clone();
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            one => vec![one.clone()],
        };
        match self.rng.choice(&types).unwrap().as_str().unwrap() {
            "null" if self.rng.u8(..4) == 0 || types.len() == 1 => Value::Null,
            "null" => self.scalar(schema, types[0].as_str().unwrap(), depth),
            name => self.scalar(schema, name, depth),
        }
    }

    fn scalar(&mut self, schema: &Value, name: &str, depth: usize) -> Value {
        match name {
            "object" => self.object(schema, depth),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(0);
                let length = self.rng.u64(least..=least + 2);
                (0..length).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            "boolean" => self.rng.bool().into(),
            "integer" => self.integer(schema).into(),
            "number" => {
                let (least, most) =
                    (schema["minimum"].as_f64().unwrap(), schema["maximum"].as_f64().unwrap());
                let decimals = if self.rng.u8(..4) == 0 { 100.0 } else { 10.0 };
                let number = least + (most - least) * self.rng.f64();
                ((number * decimals).round() / decimals).clamp(least, most).into()
            }
            "string" => self.text(schema).into(),
            other => panic!("the schema has the type `{other}`"),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        let form = schema["anyOf"].as_array().and_then(|forms| self.rng.choice(forms));
        let needed = [Some(schema), form].into_iter().flatten();
        let needed: Vec<&Value> = needed.filter_map(|of| of["required"].as_array()).flatten().collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let required = needed.iter().any(|key| key.as_str() == Some(name));
            if required || self.rng.usize(..depth + 2) == 0 {
                object.insert(name.clone(), self.value(property, depth + 1));
            }
        }
        let least = schema["minProperties"].as_u64().unwrap_or(0) as usize;
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if object.len() < least {
                object.insert(name.clone(), self.value(property, depth + 1));
            }
        }
        if schema["additionalProperties"].is_object() {
            for _ in 0..self.rng.u8(..3) {
                let name = self.one_of(&["web", "app", "X-Name", "\u{e9}", "a b", "10"]);
                object.insert(name.into(), self.value(&schema["additionalProperties"], depth + 1));
            }
        }
        object.into()
    }

    fn integer(&mut self, schema: &Value) -> u64 {
        let least = schema["minimum"].as_u64().unwrap();
        let most = schema["maximum"].as_u64().unwrap_or(i64::MAX as u64);
        match self.rng.u8(..4) {
            0 => least,
            1 => most,
            2 => self.rng.u64(least..=most),
            _ => self.rng.u64(least..=most.min(least + 20)),
        }
    }

    fn text(&mut self, schema: &Value) -> String {
        let Some(pattern) = schema["pattern"].as_str() else { return self.one_of(TEXTS).to_owned() };
        let regex = regex::Regex::new(pattern).unwrap();
        let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
        texts.extend(
            schema["examples"].as_array().into_iter().flatten().map(|text| text.as_str().unwrap().into()),
        );
        texts.extend(self.matching(pattern));
        texts.retain(|text| regex.is_match(text));
        self.rng.choice(texts).unwrap()
    }

    /// A short text that matches a pattern without alternatives at its top.
    fn matching(&mut self, pattern: &str) -> Option<String> {
        let inner = pattern.strip_prefix('^')?.replace('*', "{0,2}").replace('+', "{1,6}");
        let strategy = proptest::string::string_regex(inner.strip_suffix('$').unwrap_or(&inner)).ok()?;
        Some(strategy.new_tree(&mut self.runner).unwrap().current())
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        *self.rng.choice(all).unwrap()
    }
}
