//! Predicates: which requests a route takes.

use super::Call;
use crate::branch::Condition;
use crate::networks::network;
use crate::paths::{Atom, Case};
use crate::pattern::{escaped, whole};
use crate::yaml::{Value, one};

/// What a predicate says, and what is told of it.
///
/// # Errors
/// Why it is not taken over.
pub(super) fn condition(call: &Call) -> Result<(Condition, &'static str), String> {
    let mut condition = Condition { case: Case::Counts, ..Condition::default() };
    let mut about = "";
    let text = |name: &str, number: usize| call.arg(name, number).map_or("", |node| node.text()).to_owned();
    match call.name.as_str() {
        "Path" => {
            let mut atoms = Vec::new();
            for pattern in call.list("patterns").iter().filter(|it| it.starts_with('/')) {
                match paths(pattern)? {
                    Some(found) => atoms.extend(found),
                    None => return Ok((condition, about)),
                }
            }
            condition.paths = Some(atoms);
        }
        "Host" => {
            for pattern in call.list("patterns") {
                let (hosts, near) = hosts(&pattern)?;
                condition.rest.hosts.extend(hosts);
                if near {
                    about = "a star takes one label or several";
                }
            }
        }
        "Method" => condition.rest.methods = call.list("methods"),
        "Header" => {
            let test: Value = match text("regexp", 1).as_str() {
                "" => one("present", true).into(),
                regex => one("regex", checked(regex)?).into(),
            };
            condition.rest.headers.put(text("header", 0), test);
        }
        "Cookie" => {
            let regex =
                format!("(?:.*; *)?{}={}(?:;.*)?", escaped(&text("name", 0)), checked(&text("regexp", 1))?);
            condition.rest.headers.put("Cookie", one("regex", regex));
        }
        "Query" => {
            let test: Value = match text("regexp", 1).as_str() {
                "" => one("present", true).into(),
                regex => one("regex", checked(regex)?).into(),
            };
            condition.rest.query.put(text("param", 0), test);
        }
        "RemoteAddr" | "XForwardedRemoteAddr" => {
            for source in call.list("sources") {
                let known = network(&source).ok_or_else(|| format!("`{source}` is not a network"))?;
                condition.rest.client.push(known.to_string());
            }
            about = "clients are seen through `trusted_proxies`";
        }
        name @ ("After" | "Before" | "Between") => return Err(format!("`{name}`: routes know no time")),
        name => return Err(format!("the predicate `{name}` has no counterpart")),
    }
    Ok((condition, about))
}

/// A regular expression over a whole value.
fn checked(text: &str) -> Result<String, String> {
    whole(&format!("^(?:{text})$"), false).map(|_| format!("(?:{text})"))
}

/// Paths of a pattern; `None`: all.
fn paths(pattern: &str) -> Result<Option<Vec<Atom>>, String> {
    if matches!(pattern, "/**" | "/{*path}") {
        return Ok(None);
    }
    let is_plain = |text: &str| !text.contains(['*', '{', '?']);
    if is_plain(pattern) {
        // A slash at the end makes no difference.
        let bare = pattern.trim_end_matches('/');
        let with = Atom::Exact(format!("{bare}/"));
        return Ok(Some(if bare.is_empty() { vec![with] } else { vec![Atom::Exact(bare.to_owned()), with] }));
    }
    if let Some(front) = pattern.strip_suffix("/**").filter(|front| is_plain(front)) {
        return Ok(Some(vec![Atom::Within(front.to_owned())]));
    }
    let mut regex = String::from("^");
    let segments: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            _ if *segment == "**" && is_last => regex.push_str("(?:/.*)?"),
            _ if *segment == "**" => regex.push_str("(?:/[^/]+)*"),
            Some(name) if name.starts_with('*') && is_last => {
                regex.push_str(&format!("(?<{}>(?:/.*)?)", &name[1..]));
            }
            Some(name) => {
                let (name, inner) = name.split_once(':').unwrap_or((name, "[^/]+"));
                regex.push_str(&format!("/(?<{name}>{inner})"));
            }
            None => {
                let parts: Vec<String> = segment.split('*').map(escaped).collect();
                let inner = if parts.len() == 2 && *segment == "*" {
                    "[^/]+".to_owned()
                } else {
                    parts.join("[^/]*")
                };
                regex.push('/');
                regex.push_str(&inner.replace('?', "[^/]"));
            }
        }
    }
    let is_open = segments.last().is_some_and(|last| *last == "**" || last.starts_with("{*"));
    regex.push_str(if is_open { "$" } else { "/?$" });
    Ok(Some(vec![Atom::Regex { whole: whole(&regex, false)?, name: String::new() }]))
}

/// Hosts of a pattern, and whether it takes more than before.
fn hosts(pattern: &str) -> Result<(Vec<String>, bool), String> {
    let lower = pattern.to_ascii_lowercase();
    let bare = lower.split(':').next().unwrap_or_default();
    let is_plain = |text: &str| !text.contains(['*', '{']);
    if is_plain(bare) {
        return Ok((vec![bare.to_owned()], false));
    }
    if let Some(rest) = bare.strip_prefix("**.").filter(|rest| is_plain(rest)) {
        return Ok((vec![rest.to_owned(), format!("*.{rest}")], false));
    }
    let first = bare.split_once('.');
    match first.filter(|(label, rest)| is_plain(rest) && (*label == "*" || label.starts_with('{'))) {
        Some((_, rest)) => Ok((vec![format!("*.{rest}")], true)),
        None => Err(format!("hosts are named or begin with `*.`; `{pattern}` does neither")),
    }
}
