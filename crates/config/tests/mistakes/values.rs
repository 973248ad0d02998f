//! Mistakes in a key or a value: found through the tree of the file.

use crate::corpus::{File, Place, line_of, references};
use crate::mutation::{Mistake, Mutation, hash};
use std::ops::Range;
use thalweg_config::parse::Kind;

/// Makes mutations of one file.
pub(crate) struct Maker<'a> {
    pub(crate) number: usize,
    pub(crate) file: &'a File,
    pub(crate) made: Vec<Mutation>,
}

impl Maker<'_> {
    /// Replaces a part of the text; the mistake is to be shown on `lines`.
    pub(crate) fn replace(
        &mut self,
        mistake: Mistake,
        (range, by): (Range<usize>, &str),
        lines: &[usize],
        what: String,
    ) {
        if by != &self.file.text[range.clone()] {
            let (lines, by) = (lines.to_vec(), by.to_owned());
            self.made.push(Mutation { mistake, file: self.number, range, by, lines, what });
        }
    }

    fn line(&self, at: usize) -> usize {
        line_of(&self.file.text, at)
    }

    /// A part of the text, one line of it for people.
    fn on_its_line(&mut self, mistake: Mistake, range: Range<usize>, by: &str) {
        let line = self.line(range.start);
        let what = format!("`{}` → `{by}`", self.file.text[range.clone()].lines().next().unwrap_or(""));
        self.replace(mistake, (range, by), &[line], what);
    }

    fn typos(&mut self, mistake: Mistake, range: Range<usize>) {
        for typo in typos(&self.file.text[range.clone()], range.start) {
            self.on_its_line(mistake, range.clone(), &typo);
        }
    }
}

/// A word with two letters swapped, with one left out, with one wrong.
fn typos(word: &str, salt: usize) -> Vec<String> {
    let bytes = word.as_bytes();
    if bytes.len() < 2 || !word.is_ascii() {
        return Vec::new();
    }
    let pick = |n: usize, which: &str| {
        usize::try_from(hash(&[word, which, &salt.to_string()], 0) % n as u64).unwrap_or(0)
    };
    let mut made = Vec::new();
    let at = pick(bytes.len() - 1, "swap");
    if bytes[at].is_ascii_alphanumeric() && bytes[at + 1].is_ascii_alphanumeric() {
        let mut swapped = bytes.to_vec();
        swapped.swap(at, at + 1);
        made.push(String::from_utf8(swapped).unwrap());
    }
    let at = pick(bytes.len(), "drop");
    if bytes[at].is_ascii_alphanumeric() && bytes.len() > 2 {
        made.push(format!("{}{}", &word[..at], &word[at + 1..]));
    }
    let at = pick(bytes.len(), "wrong");
    if bytes[at].is_ascii_alphanumeric() {
        let wrong = if bytes[at] == b'x' { 'y' } else { 'x' };
        made.push(format!("{}{wrong}{}", &word[..at], &word[at + 1..]));
    }
    made.retain(|typo| typo != word);
    made
}

/// Every mistake in a key or a value of the file.
pub(crate) fn make(maker: &mut Maker<'_>) {
    let file = maker.file;
    let places = file.places();
    for place in &places {
        if let (Some(key), true) = (place.key, place.has_known_key()) {
            in_key(maker, place, key.range());
            key_twice(maker, place, key.range());
        }
        if place.is_definition() {
            definition(maker, place);
        }
        in_value(maker, place);
    }
    elsewhere(maker, &places);
    twice(maker, &places);
}

fn in_key(maker: &mut Maker<'_>, place: &Place<'_>, key: Range<usize>) {
    maker.typos(Mistake::KeyTypo, key.clone());
    let name = maker.file.text[key.clone()].to_owned();
    let mut letters = name.chars();
    let capital: String = letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect();
    let camel: String = name
        .split('_')
        .enumerate()
        .map(|(at, part)| {
            let mut letters = part.chars();
            let first = letters.next().map(|c| if at > 0 { c.to_ascii_uppercase() } else { c });
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect();
    let plural = name.strip_suffix('s').map_or(format!("{name}s"), str::to_owned);
    for styled in [capital, camel, name.replace('_', "-"), plural] {
        if styled != name {
            maker.on_its_line(Mistake::KeyStyle, key.clone(), &styled);
        }
    }
    if matches!(place.node.kind, Kind::Map(_) | Kind::Seq(_))
        || place.node.span.start < place.key.unwrap().end
    {
        return;
    }
    let behind = key.end..place.node.span.start as usize;
    let colon = maker.file.text[behind.clone()].find(':').map(|at| behind.start + at);
    if let Some(colon) = colon {
        maker.on_its_line(
            Mistake::ValueMissing,
            key.start..place.node.span.end as usize,
            &format!("{name}:"),
        );
        maker.on_its_line(Mistake::Colon, key.start..colon + 1, &name);
        let space = &maker.file.text[colon + 1..behind.end];
        if !space.contains('\n') {
            maker.on_its_line(Mistake::Colon, key.start..behind.end, &format!("{name}:"));
        }
    }
}

fn key_twice(maker: &mut Maker<'_>, place: &Place<'_>, key: Range<usize>) {
    let text = &maker.file.text;
    let end = (place.node.span.end as usize).max(key.end);
    let entry = text[key.start..end].to_owned();
    let first = maker.line(key.start);
    let start = text[..key.start].rfind('\n').map_or(0, |at| at + 1);
    let (copy, second) = if place.in_flow {
        (format!(", {entry}"), maker.line(end))
    } else {
        let next = text[end..].find('\n').map_or(text.len(), |at| end + at);
        if text[end..next].contains(['}', ']']) {
            return;
        }
        let indent = " ".repeat(key.start - start);
        let copy = format!("\n{indent}{entry}");
        let what = format!("`{}` twice", place.name());
        let second = maker.line(next) + 1;
        return maker.replace(Mistake::KeyTwice, (next..next, &copy), &[first, second], what);
    };
    maker.replace(
        Mistake::KeyTwice,
        (end..end, &copy),
        &[first, second],
        format!("`{}` twice", place.name()),
    );
}

fn definition(maker: &mut Maker<'_>, place: &Place<'_>) {
    let Some(key) = place.key else { return };
    let referred = !references(&maker.file.text, place.name()).is_empty();
    if !referred {
        return;
    }
    maker.typos(Mistake::DefinitionTypo, key.range());
    let text = &maker.file.text;
    let line_start = text[..key.start as usize].rfind('\n').map_or(0, |at| at + 1);
    let own_line = text[line_start..key.start as usize].trim().is_empty();
    let end = place.node.span.end as usize;
    let end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    // What others take over by an alias does not go away with its name.
    let has_anchor = text[line_start..end].contains(": &");
    if own_line && !place.in_flow && !has_anchor {
        let without = format!("{}{}", &text[..line_start], &text[end..]);
        let lines = references(&without, place.name());
        let what = format!("`{}` is not defined", place.name());
        maker.replace(Mistake::DefinitionMissing, (line_start..end, ""), &lines, what);
    }
}

fn in_value(maker: &mut Maker<'_>, place: &Place<'_>) {
    let span = place.node.span.range();
    let written = maker.file.text[span.clone()].to_owned();
    let quote = written.starts_with(['"', '\'']);
    let inner = if quote { span.start + 1..span.end - 1 } else { span.clone() };
    if place.is_reference() {
        maker.typos(Mistake::ReferenceTypo, inner.clone());
    }
    if place.is_word() {
        maker.typos(Mistake::WordTypo, inner);
    }
    if span.is_empty() || written.contains("${") {
        return;
    }
    match &place.node.kind {
        Kind::Map(_) | Kind::Seq(_) if place.has_known_key() && written.starts_with(['{', '[']) => {
            for other in ["true", "12", "text"] {
                // What can be turned off can be turned on, with nothing else to say or with `true`.
                if (written.as_str(), other) != ("{}", "true") {
                    maker.on_its_line(Mistake::WrongType, span.clone(), other);
                }
            }
        }
        Kind::Str(text) => {
            for other in ["{ a: 1 }", "[ [ a ] ]", "12", "true"] {
                // What can be turned off can be turned on.
                if (text.as_str(), other) == ("off", "true") {
                    continue;
                }
                maker.on_its_line(Mistake::WrongType, span.clone(), other);
            }
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
            if digits.len() < text.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                let unit = &text[digits.len()..];
                // `4xx` is no number with a unit.
                if unit != "xx" {
                    maker.on_its_line(Mistake::UnitMissing, span.clone(), digits);
                    maker.on_its_line(Mistake::OutOfRange, span.clone(), &format!("-{text}"));
                    maker.on_its_line(
                        Mistake::OutOfRange,
                        span.clone(),
                        &format!("99999999999999999999{unit}"),
                    );
                }
            }
            if let Some(at) = text.rfind(':').filter(|at| text[at + 1..].parse::<u16>().is_ok()) {
                let wrong = format!("\"{}:70000\"", &text[..at]);
                maker.on_its_line(Mistake::OutOfRange, span, &wrong);
            }
        }
        Kind::Int(_) | Kind::Float(_) => {
            for other in ["-1", "99999999999999999999", "1000000000000000", "0.123"] {
                maker.on_its_line(Mistake::OutOfRange, span.clone(), other);
            }
            for other in ["{ a: 1 }", "[ 1 ]", "many", "true"] {
                maker.on_its_line(Mistake::WrongType, span.clone(), other);
            }
        }
        Kind::Bool(_) => {
            for other in ["{ a: 1 }", "[ true ]", "12", "yes"] {
                maker.on_its_line(Mistake::WrongType, span.clone(), other);
            }
        }
        _ => {}
    }
}

/// Puts an entry of one section into the map of another.
fn elsewhere(maker: &mut Maker<'_>, places: &[Place<'_>]) {
    let text = maker.file.text.clone();
    let maps: Vec<&Place<'_>> = places
        .iter()
        .filter(|place| matches!(place.node.kind, Kind::Map(_)) && !place.path.is_empty())
        .filter(|place| text[place.node.span.range()].starts_with('{'))
        .filter(|place| {
            !matches!(
                place.name(),
                "services"
                    | "listeners"
                    | "headers"
                    | "query"
                    | "set"
                    | "append"
                    | "default"
                    | "rename"
                    | "forward"
            )
        })
        .collect();
    for place in places.iter().filter(|place| place.has_known_key()) {
        let Some(key) = place.key else { continue };
        let entry = &text[key.start as usize..(place.node.span.end as usize).max(key.end as usize)];
        if entry.contains('\n') {
            continue;
        }
        for map in &maps {
            let has_it = map.node.entry(place.name()).is_some();
            let own = place.section();
            let same_section = place.path[..place.path.len() - 1].last() == map.path.last()
                || own[..own.len() - 1] == map.section();
            if has_it || same_section {
                continue;
            }
            let at = map.node.span.start as usize + 1;
            let what = format!("`{entry}` in `{}`", map.path.join("."));
            let lines = [line_of(&text, at)];
            maker.replace(Mistake::KeyElsewhere, (at..at, &format!(" {entry},")), &lines, what);
        }
    }
}

/// Gives a route the name of another, an endpoint the URL of another, a listener the address of another.
fn twice(maker: &mut Maker<'_>, places: &[Place<'_>]) {
    let text = maker.file.text.clone();
    let group = |place: &Place<'_>| match place.path.as_slice() {
        ["routes", "*", "name"] => Some("name".to_owned()),
        ["services", service, "endpoints", "*"] | ["services", service, "endpoints", "*", "url"] => {
            matches!(place.node.kind, Kind::Str(_)).then(|| format!("endpoints of {service}"))
        }
        ["listeners", _, "address"] | ["admin" | "metrics", "address"] => Some("address".to_owned()),
        ["webhooks", "*", "url"] => Some("webhook".to_owned()),
        _ => None,
    };
    for (at, second) in places.iter().enumerate() {
        let Some(name) = group(second) else { continue };
        for first in places[..at].iter().filter(|first| group(first).as_ref() == Some(&name)) {
            let written = &text[first.node.span.range()];
            let lines = [
                line_of(&text, first.node.span.start as usize),
                line_of(&text, second.node.span.start as usize),
            ];
            let what = format!("{name} {written} twice");
            maker.replace(Mistake::Twice, (second.node.span.range(), written), &lines, what);
        }
    }
}
