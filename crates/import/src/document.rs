//! YAML of the originals, with the line of each value.
//!
//! Keys are texts. Of values a scalar is its text; `null` and nothing are an empty text. Aliases are refused: no
//! configuration that is read here needs them, and they let a small text stand for a large one.

use crate::{ImportError, Place};
use saphyr_parser::{Event, Parser};

/// Values within values that are followed.
pub(crate) const DEPTH: usize = 64;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A value, and where it stands; behind a key, the place of the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) content: Content,
}

impl Node {
    /// The text of a scalar; empty for others.
    pub(crate) fn text(&self) -> &str {
        match &self.content {
            Content::Text(text) => text,
            _ => "",
        }
    }

    /// What a map has; nothing for others.
    pub(crate) fn entries(&self) -> &[(String, Node)] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The members of a list; a scalar with commas is one too.
    pub(crate) fn members(&self) -> Vec<Node> {
        match &self.content {
            Content::List(list) => list.clone(),
            Content::Text(text) if !text.is_empty() => text
                .split(',')
                .map(|part| Node {
                    place: self.place.clone(),
                    content: Content::Text(part.trim().to_owned()),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The value on one line, for the report.
    pub(crate) fn shown(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::List(list) => {
                format!("[{}]", list.iter().map(Node::shown).collect::<Vec<_>>().join(", "))
            }
            Content::Map(_) => "{ … }".to_owned(),
        }
    }
}

/// A list or a map that is not closed yet.
struct Open {
    place: Place,
    content: Content,
    key: Option<(String, Place)>,
}

/// Reads the documents of a text.
///
/// # Errors
/// It is no YAML, or has what is refused.
pub(crate) fn documents(text: &str, file: &str) -> Result<Vec<Node>, ImportError> {
    let mut done: Vec<Node> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let place = Place { file: file.to_owned(), line: error.marker().line() };
            ImportError::new(&place, format!("this is no YAML: {}", error.info()))
        })?;
        let place = Place { file: file.to_owned(), line: span.start.line() };
        let finished = match event {
            Event::Scalar(text, ..) => {
                let text =
                    if matches!(text.as_ref(), "null" | "~") { String::new() } else { text.into_owned() };
                if let Some(Open { content: Content::Map(_), key: key @ None, .. }) = open.last_mut() {
                    *key = Some((text, place));
                    continue;
                }
                Node { place, content: Content::Text(text) }
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() >= DEPTH {
                    return Err(ImportError::new(
                        &place,
                        format!("more than {DEPTH} values within each other"),
                    ));
                }
                let is_list = matches!(event, Event::SequenceStart(..));
                let content = if is_list { Content::List(Vec::new()) } else { Content::Map(Vec::new()) };
                open.push(Open { place, content, key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open { place, content, .. }) => Node { place, content },
                None => continue,
            },
            Event::Alias(_) => return Err(ImportError::new(&place, "aliases are not read")),
            _ => continue,
        };
        match open.last_mut() {
            None => done.push(finished),
            Some(Open { content: Content::List(list), .. }) => list.push(finished),
            Some(Open { content: Content::Map(entries), key, .. }) => {
                let Some((key, place)) = key.take() else {
                    return Err(ImportError::new(&finished.place, "a key is not text"));
                };
                entries.push((key, Node { place, ..finished }));
            }
            Some(Open { content: Content::Text(_), .. }) => {}
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_lines_of_their_keys() {
        let all = documents("a:\n  - b\n  - {c: d, e: null}\nf: g, h\n", "x.yaml").unwrap();
        let [(a, list), (_, last)] = all[0].entries() else { panic!("{all:?}") };
        assert_eq!((a.as_str(), list.place.line, list.members().len()), ("a", 1, 2));
        let members = list.members();
        let (c, d) = &members[1].entries()[0];
        assert_eq!((c.as_str(), d.text(), d.place.line), ("c", "d", 3));
        assert_eq!(last.members()[1].text(), "h");
        assert!(documents("a: [", "x.yaml").is_err());
        assert!(documents("a: &b c\nd: *b", "x.yaml").unwrap_err().message.contains("aliases"));
    }
}
