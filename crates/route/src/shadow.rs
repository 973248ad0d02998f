//! Routes that can never take a request, because a better one takes all of theirs.
//!
//! Asked once per configuration, by `check` and before a start; never on a request's path. Sound: a route that is
//! named here is one that no request reaches. Not complete: a route that only several others together
//! hide, or whose regular expression another one covers, is not found.
//!
//! Why it is sound. A route matches a request through one of its host patterns. For each of these patterns there
//! must be a route with *the same* pattern, a path condition that holds wherever the hidden route's holds,
//! further conditions that follow from those of the hidden one, and a better place in the order of
//! precedence. At whatever host level the hidden route comes up, that other one then comes up before it, and takes the
//! request.

use std::collections::HashMap;

use ipnet::IpNet;

use crate::clients::unmapped;
use crate::host::HostPattern;
use crate::path::{PathPattern, Pattern, Segment};
use crate::precedence::Precedence;
use crate::table::RouteMatch;
use crate::value::{FieldMatch, ValueMatch};

/// Most routes with the same host and path that one route is compared with.
const COMPARED: usize = 256;

/// A route that can never take a request, and a better one that takes them instead: positions in the list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shadow {
    /// The route that is never reached.
    pub hidden: usize,
    /// The route before it. Where the hidden one has several hosts, the one that hides it at the first.
    pub by: usize,
}

/// The routes, given in the order of the file, that no request can reach.
pub fn shadows(routes: &[RouteMatch]) -> Vec<Shadow> {
    // Each path of a route by itself.
    let mut entries: Vec<(usize, Option<&PathPattern>, Precedence)> = Vec::new();
    for (at, route) in routes.iter().enumerate() {
        entries.extend(route.paths().map(|path| (at, path, Precedence::of(route, path, at))));
    }
    let mut known: HashMap<(&HostPattern, String), Vec<usize>> = HashMap::new();
    for (entry, (at, path, _)) in entries.iter().enumerate() {
        for host in hosts(&routes[*at]) {
            known.entry((host, key(*path))).or_default().push(entry);
        }
    }
    let hides = |by: usize, hidden: usize| {
        let ((by, by_path, by_place), (hidden, path, place)) = (&entries[by], &entries[hidden]);
        by != hidden
            && by_place < place
            && covers_path(*by_path, *path)
            && covers_conditions(&routes[*by], &routes[*hidden])
    };
    let hider = |hidden: usize, host: &HostPattern| {
        covering_keys(entries[hidden].1).into_iter().find_map(|key| {
            let same = known.get(&(host, key))?;
            same.iter().copied().take(COMPARED).find(|by| hides(*by, hidden)).map(|by| entries[by].0)
        })
    };
    let mut found = Vec::new();
    let mut next = 0;
    for (hidden, route) in routes.iter().enumerate() {
        let own = next..next + 1 + route.more_paths.len();
        next = own.end;
        let all: Option<Vec<usize>> = own
            .flat_map(|entry| hosts(route).iter().map(move |host| (entry, host)))
            .map(|(e, host)| hider(e, host))
            .collect();
        if let Some(&by) = all.as_deref().and_then(<[usize]>::first) {
            found.push(Shadow { hidden, by });
        }
    }
    found
}

fn hosts(route: &RouteMatch) -> &[HostPattern] {
    if route.hosts.is_empty() { &[HostPattern::Any] } else { &route.hosts }
}

/// What two path conditions have in common when one of the same kind can cover the other.
fn key(path: Option<&PathPattern>) -> String {
    match path {
        None => "everything".into(),
        Some(PathPattern::Exact(text)) => format!("exact {text}"),
        Some(PathPattern::Prefix(text)) => match text.trim_end_matches('/') {
            "" => "everything".into(),
            text => format!("prefix {text}"),
        },
        Some(PathPattern::Pattern(pattern)) => {
            // One that covers another and stands before it has its literals at the same places.
            let literals = pattern.segments().iter().enumerate().filter_map(|(at, segment)| match segment {
                Segment::Literal(text) => Some(format!("{at}/{text}/")),
                Segment::One(_) => None,
            });
            format!("pattern {}", literals.collect::<String>())
        }
        Some(PathPattern::Regex(regex)) => format!("regex {}", regex.as_str()),
    }
}

/// The keys of the path conditions that may cover this one and stand before it.
fn covering_keys(path: Option<&PathPattern>) -> Vec<String> {
    let mut keys = vec![key(path)];
    let lead = match path {
        Some(PathPattern::Pattern(pattern)) => literal_lead(pattern),
        Some(PathPattern::Regex(regex)) => regex_lead(regex.as_str()),
        _ => String::new(),
    };
    let ends = lead.match_indices('/').map(|(at, _)| at).skip(1).chain([lead.len()]);
    keys.extend(ends.filter(|end| *end > 1).map(|end| format!("prefix {}", &lead[..end])));
    keys
}

/// `/a/b` for `/a/b/{id}/c`: every path that the pattern matches is this one or below it.
fn literal_lead(pattern: &Pattern) -> String {
    let literals = pattern.segments().iter().map_while(|segment| match segment {
        Segment::Literal(text) => Some(format!("/{text}")),
        Segment::One(_) => None,
    });
    literals.collect()
}

/// `/img` for `/img/[a-z]+`: the whole segments that every match begins with. Empty where that is not plain.
fn regex_lead(text: &str) -> String {
    let text = text.strip_prefix('^').unwrap_or(text);
    if text.contains('|') {
        return String::new();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte);
    let length = text.bytes().take_while(|byte| plain(*byte)).count();
    // A quantifier may take away the last of them.
    let sure = if text[length..].starts_with(['?', '*', '{']) { length.saturating_sub(1) } else { length };
    text[..sure].rfind('/').map_or(String::new(), |end| text[..end].to_owned())
}

/// Whether `wide` holds for every path that `narrow` holds for.
fn covers_path(wide: Option<&PathPattern>, narrow: Option<&PathPattern>) -> bool {
    let (wide, narrow) = match (wide, narrow) {
        (Some(PathPattern::Pattern(wide)), Some(PathPattern::Pattern(narrow))) => {
            return covers_pattern(wide, narrow);
        }
        (wide, narrow) => (key(wide), narrow),
    };
    covering_keys(narrow).contains(&wide)
}

fn covers_pattern(wide: &Pattern, narrow: &Pattern) -> bool {
    let (w, n) = (wide.segments(), narrow.segments());
    let length_fits = match (wide.rest(), narrow.rest()) {
        (None, None) => w.len() == n.len(),
        (None, Some(_)) => false,
        (Some(_), _) => w.len() <= n.len(),
    };
    length_fits
        && w.iter().zip(n).all(|(wide, narrow)| match (wide, narrow) {
            (Segment::Literal(wide), Segment::Literal(narrow)) => wide == narrow,
            (Segment::Literal(_), Segment::One(_)) => false,
            (Segment::One(_), Segment::Literal(narrow)) => !narrow.is_empty(),
            (Segment::One(_), Segment::One(_)) => true,
        })
}

/// Whether the conditions of `wide` beside host and path follow from those of `narrow`.
fn covers_conditions(wide: &RouteMatch, narrow: &RouteMatch) -> bool {
    covers_list(&wide.listeners, &narrow.listeners, |wide, narrow| wide == narrow)
        && covers_list(&wide.methods, &narrow.methods, |wide, narrow| wide == narrow)
        && covers_list(&wide.clients, &narrow.clients, |wide, narrow| covers_network(*wide, *narrow))
        && wide.headers.iter().all(|wide| {
            let same = |narrow: &&FieldMatch| narrow.name.eq_ignore_ascii_case(&wide.name);
            narrow.headers.iter().filter(same).any(|narrow| follows(&wide.value, &narrow.value))
        })
        && wide.query.iter().all(|wide| {
            let same = |narrow: &&FieldMatch| narrow.name == wide.name;
            narrow.query.iter().filter(same).any(|narrow| follows(&wide.value, &narrow.value))
        })
}

/// An empty list asks nothing.
fn covers_list<T>(wide: &[T], narrow: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    wide.is_empty()
        || !narrow.is_empty() && narrow.iter().all(|narrow| wide.iter().any(|wide| covers(wide, narrow)))
}

fn covers_network(wide: IpNet, narrow: IpNet) -> bool {
    unmapped(wide).contains(&unmapped(narrow))
}

/// Whether `wide` holds wherever `narrow` does: one value that passes `narrow` is there, and passes `wide`.
fn follows(wide: &ValueMatch, narrow: &ValueMatch) -> bool {
    match (wide, narrow) {
        (ValueMatch::Absent, ValueMatch::Absent) => true,
        (_, ValueMatch::Absent) | (ValueMatch::Absent, _) => false,
        (ValueMatch::Present, _) => true,
        (wide, ValueMatch::Exact(text)) => wide.matches(text.as_bytes()),
        (ValueMatch::Prefix(wide), ValueMatch::Prefix(narrow)) => narrow.starts_with(wide.as_str()),
        (ValueMatch::Suffix(wide), ValueMatch::Suffix(narrow)) => narrow.ends_with(wide.as_str()),
        (
            ValueMatch::Contains(wide),
            ValueMatch::Prefix(narrow) | ValueMatch::Suffix(narrow) | ValueMatch::Contains(narrow),
        ) => narrow.contains(wide.as_str()),
        (ValueMatch::Regex(wide), ValueMatch::Regex(narrow)) => wide.as_str() == narrow.as_str(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
