//! Documents that are almost right.

use super::draw::Draw;
use serde_json::{Map, Value, json};

/// What is put somewhere.
fn stranger(draw: &mut Draw) -> Value {
    let texts = [
        "", "x", "5s", "0s", "64KiB", "20%", "off", "auto", "GET", "/x", ":80", "http://a", "5", "yes", "5xx",
    ];
    match draw.rng.u8(..14) {
        0 => Value::Null,
        1 => draw.rng.bool().into(),
        2 => draw.one_of(&[0, 1, -1, 5, 503, 1001, 100_000, i64::MAX]).into(),
        3 => draw.one_of(&[0.5, 1.0, 1.9, 1.25, -0.1, 1e30]).into(),
        4 => json!([]),
        5 => json!({}),
        6 => json!(["x"]),
        7 => json!({ "x": 1 }),
        8 => draw
            .one_of(&[
                "${PORT}",
                "${NONE:-3}",
                "${NONE:-off}",
                "${NONE}",
                "${NONE:-}",
                "$${PORT}",
                "${",
                "${1}",
            ])
            .into(),
        _ => draw.one_of(&texts).into(),
    }
}

/// Changes one thing in a document.
pub(crate) fn mutate(document: &Value, draw: &mut Draw) -> Value {
    let mut places = Vec::new();
    pointers(document, String::new(), &mut places);
    let place = draw.rng.choice(&places).unwrap().clone();
    let other = document.pointer(draw.rng.choice(&places).unwrap()).unwrap().clone();
    let mut changed = document.clone();
    let here = changed.pointer_mut(&place).unwrap();
    match (draw.rng.u8(..6), &mut *here) {
        (0, Value::Object(entries)) if !entries.is_empty() => {
            let key = nth(entries, draw);
            entries.remove(&key);
        }
        (1, Value::Object(entries)) if !entries.is_empty() => {
            let key = nth(entries, draw);
            let value = entries.remove(&key).unwrap();
            entries.insert(misspelt(&key, draw), value);
        }
        (2, Value::Object(entries)) => {
            let key = draw.one_of(&["timeouts", "limits", "name", "to", "value", "bogus", "tls", "prefix"]);
            entries.insert(key.into(), stranger(draw));
        }
        (0 | 1, Value::Array(items)) if !items.is_empty() => {
            items.remove(draw.rng.usize(..items.len()));
        }
        (2, Value::Array(items)) => items.push(stranger(draw)),
        (3, whole) => *whole = json!([whole.clone()]),
        (4, whole) => *whole = other,
        (_, whole) => *whole = stranger(draw),
    }
    changed
}

fn nth(entries: &Map<String, Value>, draw: &mut Draw) -> String {
    entries.keys().nth(draw.rng.usize(..entries.len())).unwrap().clone()
}

fn misspelt(key: &str, draw: &mut Draw) -> String {
    let mut letters: Vec<char> = key.chars().collect();
    match draw.rng.u8(..3) {
        0 if !letters.is_empty() => drop(letters.remove(draw.rng.usize(..letters.len()))),
        1 => letters.insert(draw.rng.usize(..=letters.len()), 'x'),
        _ => letters.reverse(),
    }
    letters.into_iter().collect()
}

/// The places in a document.
pub(crate) fn pointers(value: &Value, here: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| pointers(item, format!("{here}/{at}"), found));
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, format!("{here}/{key}"), found);
            }
        }
        _ => {}
    }
    found.push(here);
}
