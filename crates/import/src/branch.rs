//! Branches: a condition, and what is done with requests that fulfil it. Originals that ask in an order of their own
//! become a list of these, of which the first that holds decides; `arrange` makes routes of the list.

use crate::draft::{Conditions, To};
use crate::paths::Atom;
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
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Condition {
    /// One of these paths; `None`: any.
    pub(crate) paths: Option<Vec<Atom>>,
    pub(crate) rest: Conditions,
    /// TLS, or none.
    pub(crate) secure: Option<bool>,
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
        let paths = match (&self.paths, &other.paths) {
            (None, paths) | (paths, None) => paths.clone(),
            (Some(mine), Some(theirs)) => {
                let mut both: Vec<Atom> = Vec::new();
                for one in mine {
                    for two in theirs {
                        both.extend(one.and(two)?);
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
        if is_split(&self.rest.methods, &other.rest.methods) || is_split(&self.rest.hosts, &other.rest.hosts)
        {
            return Ok(None);
        }
        match self.rest.and(&other.rest) {
            Some(rest) => Ok(Some(Self { paths, rest, secure })),
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
