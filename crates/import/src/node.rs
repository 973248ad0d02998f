//! YAML and TOML as one tree with the lines of the file.

use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::HashMap;
use toml_edit::{Document, Item, TableLike, Value};

/// Most values of a file, after aliases are expanded.
const NODES: usize = 200_000;
/// Deepest nesting.
const DEPTH: usize = 64;

/// A value with its line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// From 1 on.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Kind {
    #[default]
    Null,
    /// Any scalar as it is written, without quotes.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value of a key, whatever its case.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, node)| node)
    }

    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> &str {
        match &self.kind {
            Kind::Text(text) => text,
            _ => "",
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        self.text().eq_ignore_ascii_case("true")
    }

    /// The elements of a list; a text is a list with commas.
    pub(crate) fn items(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::List(items) => items.iter().collect(),
            Kind::Null => Vec::new(),
            _ => vec![self],
        }
    }

    /// The texts of a list, or of a text with commas.
    pub(crate) fn texts(&self) -> Vec<String> {
        match &self.kind {
            Kind::Text(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
            Kind::List(items) => items.iter().map(|item| item.text().to_owned()).collect(),
            _ => Vec::new(),
        }
    }
}

/// Reads a file: TOML where its name says so, else YAML, of which every document counts.
///
/// # Errors
/// The line and what is wrong there.
pub(crate) fn read(name: &str, text: &str) -> Result<Vec<Node>, (usize, String)> {
    if name.to_ascii_lowercase().ends_with(".toml") { toml(text).map(|node| vec![node]) } else { yaml(text) }
}

fn toml(text: &str) -> Result<Node, (usize, String)> {
    let line = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    let document = Document::parse(text).map_err(|error| {
        (line(error.span().map_or(text.len(), |span| span.start)), error.message().trim().to_owned())
    })?;
    table(document.as_table(), 1, &line, 0)
}

type Lines<'a> = &'a dyn Fn(usize) -> usize;
type Made = Result<Node, (usize, String)>;

fn table(table: &dyn TableLike, above: usize, line: Lines<'_>, depth: usize) -> Made {
    let mut entries = Vec::new();
    for (name, item) in table.iter() {
        let at = table.key(name).and_then(toml_edit::Key::span).map_or(above, |span| line(span.start));
        entries.push((name.to_owned(), self::item(item, at, line, depth + 1)?));
    }
    Ok(Node { line: above, kind: Kind::Map(entries) })
}

fn item(item: &Item, at: usize, line: Lines<'_>, depth: usize) -> Made {
    if depth > DEPTH {
        return Err((at, "nested too deeply".to_owned()));
    }
    match item {
        Item::None => Ok(Node { line: at, kind: Kind::Null }),
        Item::Value(inner) => value(inner, at, line, depth),
        Item::Table(inner) => table(inner, inner.span().map_or(at, |span| line(span.start)), line, depth),
        Item::ArrayOfTables(tables) => {
            let made = tables.iter().map(|inner| {
                let at = inner.span().map_or(at, |span| line(span.start));
                table(inner, at, line, depth + 1)
            });
            Ok(Node { line: at, kind: Kind::List(made.collect::<Result<_, _>>()?) })
        }
    }
}

fn value(value: &Value, at: usize, line: Lines<'_>, depth: usize) -> Made {
    if depth > DEPTH {
        return Err((at, "nested too deeply".to_owned()));
    }
    let at = value.span().map_or(at, |span| line(span.start));
    let kind = match value {
        Value::String(text) => Kind::Text(text.value().clone()),
        Value::Integer(number) => Kind::Text(number.value().to_string()),
        Value::Float(number) => Kind::Text(number.value().to_string()),
        Value::Boolean(bool) => Kind::Text(bool.value().to_string()),
        Value::Datetime(time) => Kind::Text(time.value().to_string()),
        Value::Array(items) => {
            let made = items.iter().map(|item| self::value(item, at, line, depth + 1));
            Kind::List(made.collect::<Result<_, _>>()?)
        }
        Value::InlineTable(inner) => return table(inner, at, line, depth),
    };
    Ok(Node { line: at, kind })
}

/// A list or map that is not closed yet.
struct Open {
    node: Node,
    anchor: usize,
    key: Option<String>,
}

/// What is known while events are read.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    roots: Vec<Node>,
    anchors: HashMap<usize, Node>,
    count: usize,
}

fn yaml(text: &str) -> Result<Vec<Node>, (usize, String)> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| (error.marker().line(), error.info().to_owned()))?;
        builder.take(event, span.start.line())?;
    }
    Ok(builder.roots)
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), (usize, String)> {
        let open = |kind, anchor| Open { node: Node { line, kind }, anchor, key: None };
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                let kind = if is_null { Kind::Null } else { Kind::Text(text.into_owned()) };
                return self.place(Node { line, kind }, anchor);
            }
            Event::SequenceStart(anchor, _) => self.open.push(open(Kind::List(Vec::new()), anchor)),
            Event::MappingStart(anchor, _) => self.open.push(open(Kind::Map(Vec::new()), anchor)),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    return self.place(open.node, open.anchor);
                }
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err((line, "an alias of nothing".to_owned()));
                };
                return self.place(node, 0);
            }
            _ => {}
        }
        if self.open.len() > DEPTH {
            return Err((line, "nested too deeply".to_owned()));
        }
        Ok(())
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<(), (usize, String)> {
        self.count += size(&node);
        if self.count > NODES {
            return Err((node.line, format!("more than {NODES} values")));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.roots.push(node);
            return Ok(());
        };
        match &mut open.node.kind {
            Kind::List(items) => items.push(node),
            Kind::Map(entries) => match open.key.take() {
                None => open.key = Some(node.text().to_owned()),
                Some(key) if key == "<<" => merge(entries, &node),
                Some(key) => {
                    entries.retain(|(known, _)| *known != key);
                    entries.push((key, node));
                }
            },
            _ => {}
        }
        Ok(())
    }
}

/// What a merge key (`<<`) brings: entries that are not there yet.
fn merge(entries: &mut Vec<(String, Node)>, node: &Node) {
    for source in node.items() {
        for (key, value) in source.entries() {
            if !entries.iter().any(|(known, _)| known == key) {
                entries.push((key.clone(), value.clone()));
            }
        }
    }
}

fn size(node: &Node) -> usize {
    match &node.kind {
        Kind::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|(_, node)| size(node)).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_toml_become_the_same_tree_with_lines() {
        let yaml = read("a.yml", "http:\n  routers:\n    a: { rule: x, n: 5 }\n").unwrap().remove(0);
        let toml = read("a.toml", "[http]\n[http.routers.a]\nrule = \"x\"\nn = 5\n").unwrap().remove(0);
        for (node, line) in [(yaml, 3), (toml, 3)] {
            let rule =
                node.get("http").and_then(|it| it.get("Routers")?.get("a")?.get("rule")).unwrap().clone();
            assert_eq!((rule.text(), rule.line), ("x", line));
        }
    }

    #[test]
    fn merge_keys_bring_what_is_not_there_and_bombs_are_refused() {
        let node = read("a", "x: &x { a: 1, b: 2 }\ny: { <<: *x, b: 3 }\n").unwrap().remove(0);
        let y = node.get("y").unwrap();
        assert_eq!((y.get("a").unwrap().text(), y.get("b").unwrap().text()), ("1", "3"));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let inner = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb += &format!("a{n}: &a{n} [{inner}]\n");
        }
        assert!(read("a", &bomb).unwrap_err().1.contains("more than"));
        assert_eq!(read("a", "a: [").unwrap_err().0, 1);
    }
}
