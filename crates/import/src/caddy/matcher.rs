//! Matchers: which requests a directive is for, as a list of conditions of which the first that holds decides.

use super::syntax::Directive;
use crate::branch::Condition;
use crate::networks::network;
use crate::paths::Atom;
use crate::pattern::whole;
use crate::yaml::{Value, one};
use std::collections::BTreeMap;

/// Networks of `private_ranges`.
pub(super) const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"];

/// Conditions of which the first that holds decides; the last one holds always.
pub(super) type Decisions = Vec<(Condition, bool)>;

/// Every request.
pub(super) fn everything() -> Decisions {
    vec![(Condition::default(), true)]
}

/// What a matcher says.
///
/// # Errors
/// A sentence: it cannot be taken over.
pub(super) fn decisions(lines: &[Directive]) -> Result<Decisions, String> {
    let mut wanted = Condition::default();
    let mut unwanted: Decisions = Vec::new();
    let mut merged: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in lines {
        match line.name.as_str() {
            "not" => {
                let inner = match &line.block {
                    Some(block) => block.clone(),
                    None => vec![negated(line)],
                };
                let condition = match decisions(&inner)?.as_slice() {
                    [(condition, true)] => condition.clone(),
                    [(condition, true), (_, false)] => condition.clone(),
                    _ => return Err("`not` within `not` is not taken over".to_owned()),
                };
                unwanted.push((condition, false));
            }
            // Of several lines one value must hold.
            name @ ("path" | "method" | "host" | "remote_ip" | "client_ip") => {
                merged.entry(name).or_default().extend(line.args.iter().cloned());
            }
            _ => {
                wanted = wanted
                    .and(&single(line)?)?
                    .ok_or_else(|| "its conditions contradict each other".to_owned())?;
            }
        }
    }
    for (name, args) in merged {
        let line = Directive { name: name.to_owned(), args, ..Directive::default() };
        wanted =
            wanted.and(&single(&line)?)?.ok_or_else(|| "its conditions contradict each other".to_owned())?;
    }
    unwanted.push((wanted.clone(), true));
    if !wanted.is_all() {
        unwanted.push((Condition::default(), false));
    }
    Ok(unwanted)
}

/// `not path /a` as `path /a`.
fn negated(line: &Directive) -> Directive {
    let (name, args) = line
        .args
        .split_first()
        .map_or((String::new(), Vec::new()), |(name, args)| (name.clone(), args.to_vec()));
    Directive { name, args, block: None, place: line.place.clone() }
}

/// One line of a matcher.
fn single(line: &Directive) -> Result<Condition, String> {
    let mut condition = Condition::default();
    let args = &line.args;
    if args.iter().any(|arg| arg.starts_with('{') && arg.ends_with('}')) {
        return Err("placeholders in matchers are not taken over".to_owned());
    }
    match line.name.as_str() {
        "path" => {
            let all: Result<Vec<Option<Atom>>, String> = args.iter().map(|arg| Atom::parse(arg)).collect();
            // One that takes every path makes the others idle.
            condition.paths = all?.into_iter().collect();
        }
        "path_regexp" => {
            let (name, text) = named(args)?;
            condition.paths = Some(vec![Atom::Regex { whole: whole(&text, false)?, name }]);
        }
        "method" => condition.rest.methods = args.iter().map(|arg| arg.to_ascii_uppercase()).collect(),
        "host" => condition.rest.hosts = args.iter().map(|arg| arg.to_ascii_lowercase()).collect(),
        "header" => {
            let (name, test) = field(args)?;
            condition.rest.headers.put(name, test);
        }
        "header_regexp" => {
            let [.., name, text] = args.as_slice() else {
                return Err("`header_regexp` needs a field and an expression".to_owned());
            };
            condition.rest.headers.put(name.as_str(), one("regex", whole(text, false)?.text));
        }
        "query" => {
            for arg in args {
                let (name, value) = arg.split_once('=').ok_or("a condition on the query has no `=`")?;
                let test: Value = match value {
                    "*" => one("present", true).into(),
                    text => text.into(),
                };
                condition.rest.query.put(name, test);
            }
        }
        "remote_ip" | "client_ip" => {
            for arg in args {
                match arg.as_str() {
                    "private_ranges" => condition.rest.client.extend(PRIVATE.map(str::to_owned)),
                    "forwarded" => return Err("`forwarded` believes what clients write".to_owned()),
                    arg => condition
                        .rest
                        .client
                        .push(network(arg).ok_or_else(|| format!("`{arg}` is not a network"))?.to_string()),
                }
            }
        }
        "protocol" => match line.arg() {
            "https" => condition.secure = Some(true),
            "http" => condition.secure = Some(false),
            other => return Err(format!("`protocol {other}` is not taken over")),
        },
        other => return Err(format!("the matcher `{other}` is not taken over")),
    }
    Ok(condition)
}

/// Name and expression of `path_regexp`.
fn named(args: &[String]) -> Result<(String, String), String> {
    match args {
        [text] => Ok((String::new(), text.clone())),
        [name, text] => Ok((name.clone(), text.clone())),
        _ => Err("`path_regexp` needs an expression".to_owned()),
    }
}

/// A condition of `header`.
fn field(args: &[String]) -> Result<(String, Value), String> {
    let (name, value) = match args {
        [name] => (name.as_str(), "*"),
        [name, value] => (name.as_str(), value.as_str()),
        _ => return Err("`header` needs a field and a value".to_owned()),
    };
    if let Some(name) = name.strip_prefix('!') {
        return Ok((name.to_owned(), one("present", false).into()));
    }
    let inner = value.trim_matches('*');
    if inner.contains('*') {
        return Err("a star within a value is not taken over".to_owned());
    }
    let test: Value = match (value.starts_with('*'), value.ends_with('*')) {
        _ if inner.is_empty() => one("present", true).into(),
        (true, true) => one("contains", inner).into(),
        (true, false) => one("suffix", inner).into(),
        (false, true) => one("prefix", inner).into(),
        (false, false) => inner.into(),
    };
    Ok((name.to_owned(), test))
}

/// `@name path /a` as the line `path /a`.
pub(super) fn inline(directive: &Directive) -> Directive {
    negated(directive)
}
