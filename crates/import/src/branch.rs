//! Branches: a condition, and what is done with requests that fulfil it. Originals that ask in an order of their own
//! become a list of these, of which the first that holds decides; `arrange` makes routes of the list.

use crate::draft::{Conditions, To};
use crate::paths::{Atom, Case};
use crate::pattern::escaped;
use crate::yaml::{Map, Value};

/// What is done with requests that fulfil a condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) filters: Vec<Map>,
    pub(crate) to: To,
    pub(crate) timeouts: Map,
    pub(crate) limits: Map,
    pub(crate) notes: Vec<String>,
}

/// A way through the directives.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) condition: Condition,
    pub(crate) content: Content,
    /// It keeps out, so that other spellings of its paths must meet it too.
    pub(crate) is_guarded: bool,
}

/// What all must hold together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// One of these paths; `None`: any.
    pub(crate) paths: Option<Vec<Atom>>,
    /// Whether the case of paths counts.
    pub(crate) case: Case,
    pub(crate) rest: Conditions,
    /// TLS, or none.
    pub(crate) secure: Option<bool>,
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        let case = self.case.max(other.case);
        let is_same_path = match (&self.paths, &other.paths) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => {
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(one, two)| one.is_same(two, case))
            }
            _ => false,
        };
        is_same_path && self.rest == other.rest && self.secure == other.secure
    }
}

impl Condition {
    pub(crate) fn of_paths(paths: Vec<Atom>) -> Self {
        Self { paths: Some(paths), ..Self::default() }
    }

    /// Whether everything fulfils it.
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Both together; `Ok(None)`: nothing fulfils both.
    ///
    /// # Errors
    /// It cannot be said.
    pub(crate) fn and(&self, other: &Self) -> Result<Option<Self>, String> {
        let case = self.case.max(other.case);
        let paths = match (&self.paths, &other.paths) {
            (None, paths) | (paths, None) => paths.clone(),
            (Some(mine), Some(theirs)) => {
                let mut both: Vec<Atom> = Vec::new();
                for one in mine {
                    for two in theirs {
                        both.extend(one.and(two, case)?);
                    }
                }
                if both.is_empty() {
                    return Ok(None);
                }
                Some(both)
            }
        };
        let secure = match (self.secure, other.secure) {
            (Some(one), Some(two)) if one != two => return Ok(None),
            (one, two) => one.or(two),
        };
        let is_split = |one: &[String], two: &[String]| {
            !one.is_empty() && !two.is_empty() && !one.iter().any(|it| two.contains(it))
        };
        if is_split(&self.rest.methods, &other.rest.methods) {
            return Ok(None);
        }
        let Some(hosts) = hosts_in_both(&self.rest.hosts, &other.rest.hosts) else { return Ok(None) };
        let mine = Conditions { hosts: hosts.clone(), ..self.rest.clone() };
        let theirs = Conditions { hosts, ..other.rest.clone() };
        match mine.and(&theirs) {
            Some(rest) => Ok(Some(Self { paths, case, rest, secure })),
            None => Err("two conditions speak of the same thing".to_owned()),
        }
    }

    /// Whether both may hold for one request.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        !matches!(self.and(other), Ok(None))
    }

    /// `when` of a filter.
    pub(crate) fn when(&self) -> Option<Map> {
        if self.secure.is_some() || !self.rest.hosts.is_empty() || !self.rest.query.is_empty() {
            return None;
        }
        let mut when = Map::default();
        if let Some(paths) = &self.paths {
            let texts: Vec<String> = paths.iter().map(|atom| format!("~{}", atom.any_case())).collect();
            when.put("path", crate::yaml::one_or_many(texts));
        }
        if !self.rest.methods.is_empty() {
            when.put("method", crate::yaml::one_or_many(self.rest.methods.clone()));
        }
        if !self.rest.headers.is_empty() {
            let mut fields = Map::default();
            for (name, value) in self.rest.headers.entries() {
                fields.put(name.as_str(), when_value(value)?);
            }
            when.put("header", fields);
        }
        if !self.rest.client.is_empty() {
            when.put("client", crate::yaml::one_or_many(self.rest.client.clone()));
        }
        Some(when)
    }
}

/// Hosts that two lists have in common, where an empty one names all; `None`: there are none.
fn hosts_in_both(mine: &[String], theirs: &[String]) -> Option<Vec<String>> {
    if mine.is_empty() || theirs.is_empty() {
        return Some([mine, theirs].concat());
    }
    let mut both: Vec<String> = Vec::new();
    for one in mine {
        let found = theirs.iter().filter_map(|two| host_in_both(one, two));
        both.extend(found.filter(|host| !both.contains(host)).collect::<Vec<_>>());
    }
    (!both.is_empty()).then_some(both)
}

/// The host that two have in common: one of them, where the other one is it or is `*.` of a domain above it.
pub(crate) fn host_in_both(one: &str, two: &str) -> Option<String> {
    let below = |name: &str, domain: &str| domain.strip_prefix('*').is_some_and(|end| name.ends_with(end));
    if one == two || below(one, two) {
        return Some(one.to_owned());
    }
    below(two, one).then(|| two.to_owned())
}

/// The place of hosts in the order in which routes are asked: names, longer wildcards, all; smaller goes first.
pub(crate) fn host_rank(host: Option<&String>) -> (u8, usize) {
    match host {
        None => (2, 0),
        Some(host) if host.starts_with("*.") => (1, usize::MAX - host.len()),
        Some(_) => (0, 0),
    }
}

/// A condition on a field as `when` writes it.
fn when_value(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.starts_with(['~', '*']) => Some(text.clone()),
        Value::Text(text) => Some(format!("~{}", escaped(text))),
        Value::Map(map) => match map.entries().first() {
            Some((key, Value::Text(text))) => match key.as_str() {
                "regex" => Some(format!("~{text}")),
                "prefix" => Some(format!("~{}.*", escaped(text))),
                "suffix" => Some(format!("~.*{}", escaped(text))),
                "contains" => Some(format!("~.*{}.*", escaped(text))),
                _ => None,
            },
            Some((_, Value::Bool(true))) => Some("*".to_owned()),
            _ => None,
        },
        _ => None,
    }
}
