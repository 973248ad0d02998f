//! Values that no display of a plan shows: `${…}` in places that may hold a secret, and secrets by value.
//!
//! Called by `load` with the tree of all files and documents, after `${…}` is filled in. Positions in the schema are
//! determined for the few scalars that are candidates, not for the whole tree. Addresses, host names, names of
//! objects and files are shown, also where a variable holds them: operators need them to read a plan. The schema marks
//! these places (`x-shown`, and `x-api` for files); the name of a key decides nothing. Of a URL, only scheme, host and
//! port are shown, wherever the URL stands.

use super::secrets::{Keys, credentials_of, is_secret_at, secret_parameters};
use crate::interpolate::Filled;
use crate::parse::{Kind, Node};
use crate::schema::{Marks, Place};
use crate::source::Span;
use thalweg_core::{Concealed, ConcealedValue};

/// Authentication schemes. They stand before a credential and are not secret.
const SCHEMES: &[&str] = &["Bearer ", "Basic ", "Token "];

/// The values to hide. `secrets`: where secrets may stand by value.
pub(crate) fn concealed(root: &Node, filled: &Filled, secrets: &[Span]) -> Concealed {
    let mut places: Vec<(u16, u32)> = secrets.iter().map(|span| (span.file, span.start)).collect();
    places.sort_unstable();
    let is_candidate = |node: &Node| {
        let next = places.partition_point(|place| *place < (node.span.file, node.span.start));
        let holds = |(file, at): &(u16, u32)| *file == node.span.file && *at < node.span.end.max(1);
        node.span.filled || places.get(next).is_some_and(holds)
    };
    let mut values = Vec::new();
    leaves(root, &mut Vec::new(), &is_candidate, &mut |steps, node| {
        let place = steps.iter().fold(Place::default(), |place, step| match step.key {
            Some(key) => place.key(key, step.node),
            None => place.item(step.node),
        });
        let keys = Keys::new(steps.iter().map(|step| step.key));
        of_scalar(node, (place.marks, keys), filled.held_at(node.span), &mut values);
    });
    Concealed::new(values)
}

/// A node on the way to a scalar; without a key it is an element of a list.
struct Step<'a> {
    key: Option<&'a str>,
    node: &'a Node,
}

fn leaves<'a>(
    node: &'a Node,
    steps: &mut Vec<Step<'a>>,
    is_candidate: &dyn Fn(&Node) -> bool,
    found: &mut dyn FnMut(&[Step<'a>], &'a Node),
) {
    let mut below = |key, node, steps: &mut Vec<Step<'a>>| {
        steps.push(Step { key, node });
        leaves(node, steps, is_candidate, found);
        steps.pop();
    };
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().for_each(|(key, child)| below(Some(key.name.as_str()), child, steps));
        }
        Kind::Seq(items) => items.iter().for_each(|item| below(None, item, steps)),
        _ if is_candidate(node) => found(steps, node),
        _ => {}
    }
}

fn of_scalar(
    node: &Node,
    (marks, keys): (Marks, Keys<'_>),
    held: &[String],
    values: &mut Vec<ConcealedValue>,
) {
    let number;
    let text = match (&node.filled, &node.kind) {
        (Some(text), _) | (None, Kind::Str(text)) => text,
        (None, Kind::Int(value)) => {
            number = value.to_string();
            &number
        }
        _ => return,
    };
    let mut add = |text: &str, is_secret| values.push(ConcealedValue { text: text.to_owned(), is_secret });
    if is_secret_at(marks, keys, node) {
        let credentials = credentials_of(text);
        let password = credentials.and_then(|all| all.split_once(':')).map(|(_, password)| password);
        let credentials = credentials.into_iter().chain(password);
        let parts: Vec<&str> = credentials.chain(secret_parameters(text)).collect();
        match parts[..] {
            // Every literal part between placeholders counts.
            [] => written(text).for_each(|part| add(part, true)),
            _ => parts.into_iter().for_each(|part| add(part, true)),
        }
    }
    let is_secret = marks.sent || marks.secret;
    for value in held {
        if is_secret {
            add(value, true);
        } else if !is_shown(marks, (text, value)) {
            add(behind_authority(value), false);
        }
    }
}

/// A text without the scheme of its authentication, and the parts of it that are not placeholders.
fn written(text: &str) -> impl Iterator<Item = &str> {
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let parts = rest.split('{').enumerate().map(|(at, part)| match part.split_once('}') {
        Some((_, behind)) if at > 0 => behind,
        _ => part,
    });
    std::iter::once(rest).chain(parts)
}

/// Whether a variable's value is displayed where it stands.
fn is_shown(marks: Marks, (text, value): (&str, &str)) -> bool {
    let is_alone = text == value;
    let is_quantity = || {
        let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        unit.len() < value.len()
            && unit.len() <= 5
            && unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%')
    };
    if is_alone && is_quantity() {
        return true;
    }
    let Some((scheme, authority)) = authority(text) else { return marks.restricted || marks.shown };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_in_authority = host.contains(value) && text.matches(value).count() == host.matches(value).count();
    !scheme.is_empty() && (scheme == value || is_in_authority)
}

/// `(scheme, authority)` of a URL.
fn authority(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    Some((scheme, rest.split(['/', '?', '#']).next().unwrap_or(rest)))
}

/// The part of a URL that is hidden: path, query and fragment. Other values are hidden whole.
fn behind_authority(value: &str) -> &str {
    match authority(value) {
        Some((scheme, authority)) if !authority.contains('@') => {
            value.get(scheme.len() + 3 + authority.len()..).unwrap_or(value)
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests;
