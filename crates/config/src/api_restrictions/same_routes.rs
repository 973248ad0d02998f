//! Which route of an arriving configuration is which route of the file: a route may be renamed, and an unnamed route
//! may stand at another position.
//!
//! Called before two trees are compared by [`super::path::Path`], in which the name of a route is its identity. A
//! route keeps the secrets of the file only with its name, or with its match and its listeners: with another match,
//! other requests would get them.

use super::holds_variable;
use super::secrets::REDACTED;
use crate::parse::{Key, Kind, Node};
use crate::source::Span;

const ROUTES: &str = "routes";
const NAME: &str = "name";

/// Both trees with names of routes that are equal where the routes are the same.
pub(super) fn paired(on_disk: &Node, arrived: &Node) -> (Node, Node) {
    let (mut on_disk, mut arrived) = (on_disk.clone(), arrived.clone());
    let pairs = pairs(routes(&on_disk), routes(&arrived));
    for (at, route) in routes_mut(&mut on_disk).iter_mut().enumerate() {
        rename(route, format!("file {at}"));
    }
    for (at, route) in routes_mut(&mut arrived).iter_mut().enumerate() {
        let same = pairs.iter().find(|(_, new)| *new == at);
        rename(route, same.map_or_else(|| format!("new {at}"), |(known, _)| format!("file {known}")));
    }
    (on_disk, arrived)
}

/// Whether a known route and a new one are the same, each with its position.
type IsSame<'a> = dyn Fn((usize, &Node), (usize, &Node)) -> bool + 'a;

/// Positions of routes that are the same: first those of one name, then those with one match and the same listeners,
/// in their order, then unnamed routes by position.
fn pairs(known: &[Node], new: &[Node]) -> Vec<(usize, usize)> {
    let is_name = |a: &Node, b: &Node| name_of(a).is_some() && name_of(a) == name_of(b);
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut add = |is_same: &IsSame<'_>| {
        for (at, route) in new.iter().enumerate() {
            let is_free =
                |found: &usize, pairs: &[(usize, usize)]| pairs.iter().all(|(known, _)| known != found);
            if pairs.iter().any(|(_, new)| *new == at) {
                continue;
            }
            let mut found = known.iter().enumerate().filter(|(found, _)| is_free(found, &pairs));
            if let Some((found, _)) = found.find(|known| is_same(*known, (at, route))) {
                pairs.push((found, at));
            }
        }
    };
    add(&|(_, a), (_, b)| is_name(a, b));
    add(&|(_, a), (_, b)| is_match(a, b));
    add(&|(at, a), (to, b)| at == to && name_of(a).is_none() && name_of(b).is_none());
    pairs
}

/// Whether two routes have one match and the same listeners, as far as these are not redacted.
fn is_match(known: &Node, new: &Node) -> bool {
    ["match", "listeners"].iter().all(|key| match (known.entry(key), new.entry(key)) {
        (None, None) => true,
        (Some(known), Some(new)) => resembles(known, new),
        _ => false,
    })
}

fn resembles(known: &Node, new: &Node) -> bool {
    match (&known.kind, &new.kind) {
        (Kind::Map(entries), Kind::Map(others)) => {
            let is_there =
                |(key, value): &(Key, Node)| new.entry(&key.name).is_some_and(|new| resembles(value, new));
            entries.len() == others.len() && entries.iter().all(is_there)
        }
        (Kind::Seq(items), Kind::Seq(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(a, b)| resembles(a, b))
        }
        (Kind::Map(_) | Kind::Seq(_), _) | (_, Kind::Map(_) | Kind::Seq(_)) => false,
        (_, Kind::Str(text)) if text == REDACTED => true,
        (known, new) => known == new,
    }
}

fn name_of(route: &Node) -> Option<&str> {
    match route.entry(NAME).map(|name| &name.kind) {
        Some(Kind::Str(name)) => Some(name),
        _ => None,
    }
}

fn routes(root: &Node) -> &[Node] {
    match root.entry(ROUTES).map(|routes| &routes.kind) {
        Some(Kind::Seq(routes)) => routes,
        _ => &[],
    }
}

fn routes_mut(root: &mut Node) -> &mut [Node] {
    let Kind::Map(entries) = &mut root.kind else { return &mut [] };
    match entries.iter_mut().find(|(key, _)| key.name == ROUTES).map(|(_, routes)| &mut routes.kind) {
        Some(Kind::Seq(routes)) => routes,
        _ => &mut [],
    }
}

/// Gives a route a name. A name that is itself compared, as one with a variable, stays.
fn rename(route: &mut Node, new: String) {
    let span = route.span;
    let Kind::Map(entries) = &mut route.kind else { return };
    match entries.iter_mut().find(|(key, _)| key.name == NAME) {
        Some((_, Node { kind: Kind::Str(name), .. })) if !holds_variable(name) && name != REDACTED => {
            *name = new
        }
        Some(_) => {}
        None => {
            let key = Key { span: Span { end: span.start, ..span }, name: NAME.into() };
            entries.push((key, Node::new(Span { end: span.start, ..span }, Kind::Str(new))));
        }
    }
}
