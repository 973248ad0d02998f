//! YAML as this importer writes it: maps in the order in which they were made, comments above entries, one line where
//! it is short.

use std::fmt::Write as _;

/// Columns up to which a value stands on one line.
const WIDTH: usize = 110;

/// A value that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Value>),
    Map(Map),
    /// A value with lines of comment above it.
    Noted(Vec<String>, Box<Value>),
}

/// A map in the order of its making.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map(Vec<(String, Value)>);

impl Map {
    /// Adds an entry, or replaces the one of that key.
    pub(crate) fn put(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// The same map with one more entry.
    pub(crate) fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.put(key, value);
        self
    }

    /// The same map with all entries of another one.
    pub(crate) fn with_all(mut self, other: &Self) -> Self {
        for (key, value) in &other.0 {
            self.put(key.as_str(), value.clone());
        }
        self
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn entries(&self) -> &[(String, Value)] {
        &self.0
    }
}

/// What stands around a variable within a text: letters of private use, which no configuration has.
const VARIABLE: [char; 2] = ['\u{e000}', '\u{e001}'];

/// A variable within a text, read when Thalweg starts; where it is not set, its default, which may be empty.
pub(crate) fn variable(name: &str, default: &str) -> String {
    let [begin, end] = VARIABLE;
    format!("{begin}{name}:-{default}{end}")
}

/// A text as a person reads it, with variables as the original has them.
pub(crate) fn shown(text: &str) -> String {
    text.replace(VARIABLE[0], "{$").replace(VARIABLE[1], "}").replace(":-}", "}").replace(":-", ":")
}

/// A map of one entry.
pub(crate) fn one(key: &str, value: impl Into<Value>) -> Map {
    Map::default().with(key, value)
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value)
    }
}

impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Self::Number(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Map> for Value {
    fn from(value: Map) -> Self {
        Self::Map(value)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(value: Vec<T>) -> Self {
        Self::List(value.into_iter().map(Into::into).collect())
    }
}

/// One value, or a list of several.
pub(crate) fn one_or_many<T: Into<Value>>(mut values: Vec<T>) -> Value {
    match values.len() {
        1 => values.remove(0).into(),
        _ => values.into(),
    }
}

/// Writes a document.
pub(crate) fn document(map: &Map) -> String {
    let mut out = String::new();
    block_map(map, 0, &mut out);
    out
}

fn block_map(map: &Map, indent: usize, out: &mut String) {
    for (key, value) in map.entries() {
        let (notes, value) = notes(value);
        for note in notes {
            comment(note, indent, out);
        }
        let _ = write!(out, "{:indent$}{}:", "", scalar(key));
        entry(value, indent, indent + scalar(key).len() + 2, out);
    }
}

/// What stands behind a key.
fn entry(value: &Value, indent: usize, column: usize, out: &mut String) {
    let line = flow(value);
    let is_top = indent == 0 && matches!(value, Value::Map(_) | Value::List(_));
    match (value, line) {
        (_, Some(line)) if column + line.len() <= WIDTH && (!is_top || line.len() < 60) => {
            let _ = writeln!(out, " {line}");
        }
        (Value::Map(map), _) => {
            out.push('\n');
            block_map(map, indent + 2, out);
        }
        (Value::List(list), _) => {
            out.push('\n');
            block_list(list, indent + 2, out);
        }
        (_, line) => {
            let _ = writeln!(out, " {}", line.unwrap_or_default());
        }
    }
}

fn block_list(list: &[Value], indent: usize, out: &mut String) {
    for value in list {
        let (notes, value) = notes(value);
        for note in notes {
            comment(note, indent, out);
        }
        let line = flow(value).filter(|line| indent + 2 + line.len() <= WIDTH);
        match (value, line) {
            (Value::Map(map), None) if !map.is_empty() => {
                let mut inner = String::new();
                block_map(map, indent + 2, &mut inner);
                let _ = writeln!(out, "{:indent$}- {}", "", inner.trim_start().trim_end());
            }
            (_, Some(line)) => {
                let _ = writeln!(out, "{:indent$}- {line}", "");
            }
            (value, None) => {
                let _ = writeln!(out, "{:indent$}- {}", "", flow(value).unwrap_or_default());
            }
        }
    }
}

fn notes(value: &Value) -> (&[String], &Value) {
    match value {
        Value::Noted(notes, value) => (notes, value),
        value => (&[], value),
    }
}

/// A line of comment, broken where it is long.
fn comment(text: &str, indent: usize, out: &mut String) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + 3 + line.len() + word.len() > WIDTH {
            let _ = writeln!(out, "{:indent$}# {line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{:indent$}# {line}", "");
}

/// A value on one line; `None` where a comment stands in it.
fn flow(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Text(text) => scalar(text),
        Value::List(list) if list.is_empty() => "[]".into(),
        Value::List(list) => {
            format!("[ {} ]", list.iter().map(flow).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Map(map) if map.is_empty() => "{}".into(),
        Value::Map(map) => {
            let entries =
                map.entries().iter().map(|(key, value)| Some(format!("{}: {}", scalar(key), flow(value)?)));
            format!("{{ {} }}", entries.collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Noted(..) => return None,
    })
}

/// A text, in quotes unless it is plainly a text. `$` that would begin a variable is doubled.
fn scalar(text: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let begins =
        text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'/');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    if begins && text.bytes().all(is_word) && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    if is_plain_value(text) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter == VARIABLE[0] => out.push_str("${"),
            letter if letter == VARIABLE[1] => out.push('}'),
            '$' if matches!(letters.peek(), Some('$' | '{')) => out.push_str("$$"),
            letter if u32::from(letter) < 0x20 || letter == '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Durations, sizes and shares: a number and a unit.
fn is_plain_value(text: &str) -> bool {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    !number.is_empty()
        && number.len() < 15
        && matches!(
            unit,
            "ms" | "s" | "m" | "h" | "d" | "B" | "KiB" | "MiB" | "GiB" | "KB" | "MB" | "GB" | "%" | "xx"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_stand_on_a_line_and_long_ones_do_not() {
        let mut map = Map::default();
        map.put("workers", 2_u64);
        map.put("limits", one("max_body", "1MiB").with("names", vec!["a", "b"]));
        let long: Vec<String> = (0..12).map(|n| format!("https://host-{n}.example.com")).collect();
        map.put("routes", vec![Value::Noted(vec!["why".into()], Box::new(one("to", long).into()))]);
        let text = document(&map);
        assert!(text.contains("limits: { max_body: 1MiB, names: [ a, b ] }\n"), "{text}");
        assert!(text.contains("routes:\n  # why\n  - to:\n      - \"https://host-0"), "{text}");
    }

    #[test]
    fn texts_are_quoted_where_yaml_or_variables_would_take_them_for_something_else() {
        for (text, written) in [
            ("plain/path.html", "plain/path.html"),
            ("off", "\"off\""),
            ("10", "\"10\""),
            ("10s", "10s"),
            ("a: b", "\"a: b\""),
            ("${x}", "\"$${x}\""),
            ("$1-$$", "\"$1-$$$\""),
            ("", "\"\""),
            ("a\"b\\", "\"a\\\"b\\\\\""),
        ] {
            assert_eq!(scalar(text), written);
        }
    }
}
