//! TOML of the originals as the tree that YAML becomes, with the line of each value.

use crate::document::{Content, DEPTH, Node};
use crate::{ImportError, Place};
use toml_edit::{Document, Item, Key, TableLike, Value};

/// A text that is read, to find lines in it.
struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

/// Reads a text.
///
/// # Errors
/// It is no TOML, or is nested too deeply.
pub(crate) fn document(text: &str, file: &str) -> Result<Node, ImportError> {
    let reader = Reader { text, file };
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        ImportError::new(&reader.place(at), format!("this is no TOML: {}", error.message().trim()))
    })?;
    reader.table(document.as_table(), &reader.place(0), 0)
}

impl Reader<'_> {
    fn place(&self, at: usize) -> Place {
        let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        Place { file: self.file.to_owned(), line }
    }

    fn table(&self, table: &dyn TableLike, place: &Place, depth: usize) -> Result<Node, ImportError> {
        if depth >= DEPTH {
            return Err(ImportError::new(place, format!("more than {DEPTH} values within each other")));
        }
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let key = table.key(name).and_then(Key::span);
            let place = key.map_or_else(|| place.clone(), |span| self.place(span.start));
            entries.push((name.to_owned(), self.item(item, &place, depth + 1)?));
        }
        Ok(Node { place: place.clone(), content: Content::Map(entries) })
    }

    fn item(&self, item: &Item, place: &Place, depth: usize) -> Result<Node, ImportError> {
        match item {
            Item::None => Ok(Node { place: place.clone(), content: Content::Text(String::new()) }),
            Item::Value(value) => self.value(value, place, depth),
            Item::Table(table) => self.table(table, place, depth),
            Item::ArrayOfTables(tables) => {
                let made = tables.iter().map(|table| {
                    let place = table.span().map_or_else(|| place.clone(), |span| self.place(span.start));
                    self.table(table, &place, depth + 1)
                });
                let list = made.collect::<Result<_, _>>()?;
                Ok(Node { place: place.clone(), content: Content::List(list) })
            }
        }
    }

    fn value(&self, value: &Value, place: &Place, depth: usize) -> Result<Node, ImportError> {
        let text = match value {
            Value::String(text) => text.value().clone(),
            Value::Integer(number) => number.value().to_string(),
            Value::Float(number) => number.value().to_string(),
            Value::Boolean(value) => value.value().to_string(),
            Value::Datetime(time) => time.value().to_string(),
            Value::InlineTable(table) => return self.table(table, place, depth),
            Value::Array(_) if depth >= DEPTH => {
                return Err(ImportError::new(place, format!("more than {DEPTH} values within each other")));
            }
            Value::Array(values) => {
                let made = values.iter().map(|value| {
                    let place = value.span().map_or_else(|| place.clone(), |span| self.place(span.start));
                    self.value(value, &place, depth + 1)
                });
                let list = made.collect::<Result<_, _>>()?;
                return Ok(Node { place: place.clone(), content: Content::List(list) });
            }
        };
        Ok(Node { place: place.clone(), content: Content::Text(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_lines_of_their_keys() {
        let text = "[http]\n[http.routers.a]\nrule = \"x\"\nn = 5\n[[http.list]]\nurl = \"y\"\n[[http.list]]\nb = [\"c\"]\n";
        let root = document(text, "x.toml").unwrap();
        let (_, http) = &root.entries()[0];
        let (_, router) = &http.entries()[0].1.entries()[0];
        let (name, rule) = &router.entries()[0];
        assert_eq!((name.as_str(), rule.text(), rule.place.line), ("rule", "x", 3));
        assert_eq!(router.entries()[1].1.text(), "5");
        let list = http.entries()[1].1.members();
        assert_eq!((list.len(), list[1].entries()[0].1.members()[0].text()), (2, "c"));
        assert_eq!(list[1].entries()[0].1.place.line, 8);
    }

    #[test]
    fn what_is_no_toml_has_its_line() {
        let error = document("a = 1\nb = [\n", "x.toml").unwrap_err();
        assert!(error.place.line >= 2 && error.message.contains("no TOML"), "{error}");
        let deep = format!("a = {}1{}", "[".repeat(100), "]".repeat(100));
        assert!(document(&deep, "x.toml").is_err());
    }
}
