//! YAML 1.2 and JSON: the parser's events become nodes.
//!
//! Aliases are expanded within the bounds of the tree, so that an alias bomb is an error and not
//! an outage. Refused because they hide what a file means: several documents, tags, merge keys
//! and keys that are not scalars.

mod layout;
mod open;

use super::{DEPTH, Key, Kind, NODES, Node, TEXT, core_schema, duplicate, too_deep};
use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;
use std::collections::HashMap;

/// How the help begins where the cause is not known.
const LOOK: &str = "look at the ";
/// Open brackets and quotes that a syntax error shows.
const MARKS: usize = 2;

/// A list or map that is not closed yet.
struct Open {
    span: Span,
    anchor: usize,
    content: Content,
}

enum Content {
    Seq(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, key: Option<Key>, seen: HashMap<String, Span> },
}

struct Builder<'p> {
    open: Vec<Open>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    text: usize,
    json: bool,
    documents: usize,
    problems: &'p mut Problems,
}

type Step = Result<(), Box<SpecError>>;

pub(super) fn parse(text: &str, file: u16, json: bool, problems: &mut Problems) -> Option<Node> {
    // Tabs indent JSON, but YAML forbids them; spaces in their place change no other byte.
    let text = if json { Cow::Owned(text.replace('\t', " ")) } else { Cow::Borrowed(text) };
    let offsets = Offsets::new(&text);
    let mut builder = Builder {
        open: Vec::new(),
        root: None,
        anchors: HashMap::new(),
        nodes: 0,
        text: 0,
        json,
        documents: 0,
        problems,
    };
    for event in Parser::new_from_str(&text) {
        let step = match event {
            Ok((event, span)) => {
                let (start, end) = (offsets.byte(span.start.index()), offsets.byte(span.end.index()));
                // The parser counts the white space behind a quoted scalar as part of it.
                let end = start + text.get(start..end).map_or(0, |slice| slice.trim_end().len());
                builder.take(event, Span::new(file, start..end))
            }
            Err(error) => {
                let at = offsets.byte(error.marker().index());
                let mut found = located(&text, file, at, error.info());
                if json {
                    found = found
                        .help("look at the commas, the quotes and the brackets here and on the lines above");
                }
                Err(Box::new(found))
            }
        };
        if let Err(error) = step {
            builder.problems.push(*error);
            return None;
        }
    }
    let end = text.len();
    builder.root.or_else(|| Some(Node::new(Span::new(file, end..end), Kind::Null)))
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Step {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let error = SpecError::new(Class::Syntax, span, "a second document begins here")
                        .help("remove the line `---`; a configuration is one document");
                    return Err(Box::new(error));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                let plain = style == ScalarStyle::Plain;
                return self.scalar(text.into_owned(), plain, anchor, span);
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                return self.begin(Content::Seq(Vec::new()), anchor, span);
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.is_some(), span)?;
                let map = Content::Map { entries: Vec::new(), key: None, seen: HashMap::new() };
                return self.begin(map, anchor, span);
            }
            Event::SequenceEnd | Event::MappingEnd => return self.end(span),
            Event::Alias(anchor) => return self.alias(anchor, span),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    /// Pays for nodes and text before they are kept.
    fn charge(&mut self, nodes: usize, text: usize, span: Span) -> Step {
        self.nodes = self.nodes.saturating_add(nodes);
        self.text = self.text.saturating_add(text);
        if self.nodes > NODES || self.text > TEXT {
            let message = "the configuration is too large here";
            return Err(Box::new(SpecError::new(Class::Syntax, span, message).help(format!(
                "at most {NODES} values and {} MiB of text, aliases expanded",
                TEXT / 1024 / 1024
            ))));
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, plain: bool, anchor: usize, span: Span) -> Step {
        self.charge(1, text.len(), span)?;
        if plain && !self.json {
            self.stray_quote(&text, span);
        }
        if let Some(Open { content: Content::Map { key: key @ None, .. }, .. }) = self.open.last_mut() {
            *key = Some(map_key(text, plain, span)?);
            return Ok(());
        }
        let kind = if plain { core_schema(&text) } else { Kind::Str(text) };
        // JSON cannot write `${N}` without quotes.
        let plain = plain || self.json;
        self.place(Node { plain, ..Node::new(span, kind) }, anchor)
    }

    /// A text that ends with a quote which does not begin anywhere: one of the two was left out.
    fn stray_quote(&mut self, text: &str, span: Span) {
        for quote in ['"', '\''] {
            if text.ends_with(quote) && text.matches(quote).count() % 2 == 1 {
                let message = "this text ends with a quote, but does not begin with one";
                let help = "put the whole text in quotes";
                let found = match quote {
                    '"' => SpecError::new(Class::Syntax, span, message),
                    // `the users'` is a text.
                    _ => SpecError::warning("stray_quote", span, message),
                };
                self.problems.push(found.help(help));
            }
        }
    }

    fn begin(&mut self, content: Content, anchor: usize, span: Span) -> Step {
        self.charge(1, 0, span)?;
        if self.open.len() >= DEPTH {
            return Err(Box::new(too_deep(span)));
        }
        if let Some(Open { content: Content::Map { key: None, .. }, .. }) = self.open.last() {
            let error =
                SpecError::new(Class::Syntax, span, "a key must be a plain name, not a list or a map")
                    .help("text with `{`, `[` or `*` in front needs quotes");
            return Err(Box::new(error));
        }
        self.open.push(Open { span, anchor, content });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Step {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let (kind, last) = match open.content {
            Content::Seq(items) => {
                let last = items.last().map(|node| node.span);
                (Kind::Seq(items), last)
            }
            Content::Map { entries, .. } => {
                let last = entries.last().map(|(_, node)| node.span);
                (Kind::Map(entries), last)
            }
        };
        // The end of a block is known only at the next token; its last child's end is nearer.
        let end = if span.end > span.start { span } else { last.unwrap_or(span) };
        self.place(Node::new(open.span.to(end), kind), open.anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Step {
        let Some(node) = self.anchors.get(&anchor) else {
            let message = "this alias stands inside the value it refers to";
            return Err(Box::new(SpecError::new(Class::Syntax, span, message)));
        };
        if self.open.len() + node.depth() > DEPTH {
            return Err(Box::new(too_deep(span)));
        }
        let (nodes, text) = node.weight();
        self.charge(nodes, text, span)?;
        let Some(node) = self.anchors.get(&anchor).cloned() else { return Ok(()) };
        if let Some(Open { content: Content::Map { key: None, .. }, .. }) = self.open.last() {
            let error = SpecError::new(Class::Syntax, span, "an alias cannot be a key")
                .help("text with `*` in front needs quotes");
            return Err(Box::new(error));
        }
        self.place(node, 0)
    }

    /// Puts a finished node into the list or map that is open.
    fn place(&mut self, mut node: Node, anchor: usize) -> Step {
        if anchor != 0 {
            let (nodes, text) = node.weight();
            self.charge(nodes, text, node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::Seq(items)) => items.push(node),
            Some(Content::Map { entries, key, seen }) => {
                let Some(key) = key.take() else { return Ok(()) };
                if node.kind == Kind::Null && node.span.start >= node.span.end {
                    // Nothing was written: the key is the only thing that can be shown.
                    node.span = key.span;
                }
                if let Some(first) = seen.get(&key.name) {
                    self.problems.push(duplicate(&key, *first));
                } else {
                    seen.insert(key.name.clone(), key.span);
                    entries.push((key, node));
                }
            }
        }
        Ok(())
    }
}

fn map_key(name: String, plain: bool, span: Span) -> Result<Key, Box<SpecError>> {
    let wrong = |message: &str, help: &str| {
        Err(Box::new(SpecError::new(Class::Syntax, span, message).help(help.to_owned())))
    };
    if plain && name == "<<" {
        return wrong(
            "merge keys (`<<`) are not part of YAML 1.2",
            "write the entries out, or alias whole values",
        );
    }
    if name.is_empty() {
        return wrong("the key is empty", "write a name before the `:`");
    }
    if name.contains("${") {
        return wrong("`${…}` works in values, not in keys", "write the key out");
    }
    Ok(Key { span, name })
}

fn refuse_tag(tagged: bool, span: Span) -> Step {
    if !tagged {
        return Ok(());
    }
    let message = "tags (`!name`) have no meaning in a configuration";
    Err(Box::new(SpecError::new(Class::Syntax, span, message).help("text that begins with `!` needs quotes")))
}

/// Turns the parser's words into ours, with a hint where the cause is a common one.
fn syntax_error(text: &str, span: Span, info: &str) -> SpecError {
    let rest = text.get(span.start as usize..).unwrap_or("");
    let before = text.get(..span.start as usize).unwrap_or("");
    let line = before.rsplit('\n').next().unwrap_or("");
    let tab =
        rest.starts_with('\t') || line.trim_start_matches(' ').starts_with('\t') || info.contains("tab");
    let help = if tab {
        "indent with spaces, not with tabs"
    } else if (before.ends_with('$') && rest.starts_with('{')) || line.contains("${") {
        "inside `{ }` and `[ ]` a value with `${…}` needs quotes"
    } else if info.contains("anchor") || rest.starts_with('*') {
        "text that begins with `*` or `&` needs quotes, as in `\"*.example.com\"`"
    } else if rest.starts_with(['@', '`', '%']) {
        "text that begins with `@`, a backtick or `%` needs quotes"
    } else if info.contains("mapping values are not allowed") {
        "look at the indentation, and put text that holds `: ` in quotes"
    } else {
        "look at the indentation, the quotes and the brackets here and on the lines above"
    };
    let info = info.trim_end_matches('.');
    let mut letters = info.chars();
    let info = letters.next().map_or(String::new(), |c| c.to_lowercase().chain(letters).collect());
    SpecError::new(Class::Syntax, span, info).help(help)
}

/// A syntax error at the place that it comes from, with the brackets, quotes and lines that it may come from.
fn located(text: &str, file: u16, at: usize, info: &str) -> SpecError {
    if let Some((range, message, help)) = layout::cause(text, at, info) {
        return SpecError::new(Class::Syntax, Span::new(file, range), message).help(help);
    }
    let found = syntax_error(text, Span::new(file, at..at), info);
    // Where the cause is known, further marks would only distract.
    if !found.help.as_deref().is_some_and(|help| help.starts_with(LOOK)) {
        return found;
    }
    let open = open::open_at(text, at).into_iter().take(MARKS).map(|open| (open.range, open.label));
    let marks = open.chain(layout::block_of(text, at, info));
    marks.fold(found, |found, (range, label)| found.related(Span::new(file, range), label))
}

/// From the parser's characters to bytes.
struct Offsets(Option<Vec<u32>>, usize);

impl Offsets {
    fn new(text: &str) -> Self {
        let table = || text.char_indices().map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX)).collect();
        Self((!text.is_ascii()).then(table), text.len())
    }

    fn byte(&self, character: usize) -> usize {
        match &self.0 {
            None => character.min(self.1),
            Some(table) => table.get(character).map_or(self.1, |at| *at as usize),
        }
    }
}

#[cfg(test)]
mod tests;
