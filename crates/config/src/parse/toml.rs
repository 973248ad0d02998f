//! TOML 1.0: the document's items become nodes.

use super::{DEPTH, Key, Kind, NODES, Node, TEXT, duplicate, too_deep};
use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use toml_edit::{Document, Item, Table, TableLike, Value};

type Made = Result<Node, Box<SpecError>>;

pub(super) fn parse(text: &str, file: u16, problems: &mut Problems) -> Option<Node> {
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = Span::new(file, error.span().unwrap_or(text.len()..text.len()));
            problems.push(syntax_error(text, span, error.message()));
            return None;
        }
    };
    let mut reader = Reader { file, nodes: 0, text: 0 };
    match reader.table(document.as_table(), Span::new(file, 0..0), 1) {
        Ok(node) => Some(node),
        Err(error) => {
            problems.push(*error);
            None
        }
    }
}

struct Reader {
    file: u16,
    nodes: usize,
    text: usize,
}

impl Reader {
    fn span(&self, range: Option<std::ops::Range<usize>>, parent: Span) -> Span {
        range.map_or(parent, |range| Span::new(self.file, range))
    }

    /// A table or inline table. `parent` is the nearest place known: tables of dotted keys have none.
    fn table(&mut self, table: &dyn TableLike, parent: Span, depth: usize) -> Made {
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let span = self.span(table.key(name).and_then(toml_edit::Key::span), parent);
            if name.is_empty() {
                let error = SpecError::new(Class::Syntax, span, "the key is empty")
                    .help("write a name before the `=`");
                return Err(Box::new(error));
            }
            self.text = self.text.saturating_add(name.len());
            let node = self.item(item, span, depth + 1)?;
            entries.push((Key { span, name: name.to_owned() }, node));
        }
        Ok(Node::new(parent, Kind::Map(entries)))
    }

    fn item(&mut self, item: &Item, key: Span, depth: usize) -> Made {
        self.pay(key, depth)?;
        match item {
            Item::None => Ok(Node::new(key, Kind::Null)),
            Item::Value(value) => self.value(value, key, depth),
            Item::Table(table) => {
                let span = self.span(table.span(), key);
                self.table(table, span, depth)
            }
            Item::ArrayOfTables(tables) => {
                let mut items = Vec::new();
                for table in tables.iter() {
                    let span = self.span(Table::span(table), key);
                    self.pay(span, depth + 1)?;
                    let node = self.table(table, span, depth + 1)?;
                    // The parser's place of a table is its header.
                    let Kind::Map(entries) = &node.kind else { continue };
                    let span = entries.iter().fold(span, |all, (_, child)| all.to(child.span));
                    items.push(Node { span, ..node });
                }
                Ok(Node::new(self.span(tables.span(), key), Kind::Seq(items)))
            }
        }
    }

    fn value(&mut self, value: &Value, key: Span, depth: usize) -> Made {
        let span = self.span(value.span(), key);
        let kind = match value {
            Value::String(text) => {
                self.text = self.text.saturating_add(text.value().len());
                // TOML cannot write `${N}` without quotes.
                return Ok(Node { plain: true, ..Node::new(span, Kind::Str(text.value().clone())) });
            }
            Value::Integer(n) => Kind::Int(*n.value()),
            Value::Float(n) => Kind::Float(*n.value()),
            Value::Boolean(b) => Kind::Bool(*b.value()),
            Value::Datetime(_) => {
                let error = SpecError::new(Class::Syntax, span, "no key takes a date or a time")
                    .help("put it in quotes if text is meant");
                return Err(Box::new(error));
            }
            Value::Array(items) => {
                let mut nodes = Vec::new();
                for item in items {
                    self.pay(span, depth + 1)?;
                    nodes.push(self.value(item, span, depth + 1)?);
                }
                Kind::Seq(nodes)
            }
            Value::InlineTable(table) => return self.table(table, span, depth),
        };
        Ok(Node::new(span, kind))
    }

    fn pay(&mut self, span: Span, depth: usize) -> Result<(), Box<SpecError>> {
        self.nodes += 1;
        if depth > DEPTH {
            return Err(Box::new(too_deep(span)));
        }
        if self.nodes > NODES || self.text > TEXT {
            let message = format!("the configuration has more than {NODES} values");
            return Err(Box::new(SpecError::new(Class::Syntax, span, message)));
        }
        Ok(())
    }
}

/// Names both places of a duplicate key; other errors keep the parser's words.
fn syntax_error(text: &str, span: Span, message: &str) -> SpecError {
    let message = message.lines().collect::<Vec<_>>().join(", ");
    if !message.starts_with("duplicate key") {
        return SpecError::new(Class::Syntax, span, message);
    }
    let name = text.get(span.range()).unwrap_or("").trim_matches(['"', '\'']).to_owned();
    let key = Key { span, name };
    match first_of(text, span, &key.name) {
        Some(first) => duplicate(&key, first),
        None => SpecError::new(Class::Syntax, span, format!("the key `{}` is written twice", key.name))
            .help("remove one of the two; nothing is merged"),
    }
}

/// Where the key stood before: the last earlier line of the same table that begins with it.
fn first_of(text: &str, span: Span, name: &str) -> Option<Span> {
    let here = text.get(..span.start as usize)?.rfind('\n').map_or(0, |at| at + 1);
    let header = text.get(here..).is_some_and(|line| line.trim_start().starts_with('['));
    let mut end = here;
    while end > 0 {
        let start = text.get(..end - 1)?.rfind('\n').map_or(0, |at| at + 1);
        let line = text.get(start..end)?;
        let open = line.len() - line.trim_start_matches([' ', '\t', '[', '"', '\'']).len();
        let rest = line.get(open..)?;
        if let Some(at) = if header { rest.find(name) } else { rest.starts_with(name).then_some(0) } {
            let after = rest.get(at + name.len()..)?.trim_start_matches(['"', '\'', ' ']);
            if header == line.trim_start().starts_with('[') && after.starts_with(['=', ']', '.']) {
                let start = start + open + at;
                return Some(Span::new(span.file, start..start + name.len()));
            }
        }
        if !header && line.trim_start().starts_with('[') {
            return None;
        }
        end = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Sources;

    fn read(text: &str) -> (Option<Node>, String) {
        let mut sources = Sources::default();
        let file = sources.add("a.toml", text);
        let mut problems = Problems::default();
        let node = parse(text, file, &mut problems);
        (node, problems.into_report(sources).to_string())
    }

    #[test]
    fn makes_the_same_tree_with_spans() {
        let text = "workers = 2\n[listeners.web]\naddress = \":80\"\n[[routes]]\nto = ['a']\n";
        let node = read(text).0.unwrap();
        assert_eq!(node.entry("workers").unwrap().kind, Kind::Int(2));
        let address = node.entry("listeners").and_then(|n| n.entry("web")).and_then(|n| n.entry("address"));
        assert_eq!(&text[address.unwrap().span.range()], "\":80\"");
        assert!(matches!(&node.entry("routes").unwrap().kind, Kind::Seq(items) if items.len() == 1));
    }

    #[test]
    fn names_both_places_of_a_duplicate_key() {
        for text in ["a = 1\nb = 2\na = 3\n", "[x]\na = 1\n[y]\n[x]\nb = 1\n"] {
            let report = read(text).1;
            assert!(report.contains("written twice") && report.contains("first here"), "{report}");
        }
    }

    #[test]
    fn refuses_dates_and_broken_text() {
        assert!(read("a = 2020-01-01").1.contains("date or a time"));
        assert!(read("a = \nb = 1").1.contains("a.toml:1:"));
        assert!(read("= 1").1.contains("a.toml:1:"));
    }
}
