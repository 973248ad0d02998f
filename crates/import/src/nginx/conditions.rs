//! The condition of an `if`, as conditions of routes and of filters.

use crate::draft::Conditions;
use crate::pattern::{escaped, whole};
use crate::yaml::{Map, Value, one};
use std::collections::BTreeMap;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) negated: bool,
    pub(super) test: Test,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Request(Conditions),
    Host(String),
    Scheme(String),
    /// The path, by a regular expression over the whole.
    Path(String),
}

/// What a value must be.
pub(super) enum Wanted<'a> {
    Equal(&'a str),
    Like(&'a str, bool),
    There,
}

impl Condition {
    /// Reads the words between the parentheses.
    ///
    /// # Errors
    /// A sentence: the condition cannot be expressed.
    pub(super) fn parse(words: &[String], set: &BTreeMap<String, String>) -> Result<Self, String> {
        let joined = words.join("\u{1}");
        let inner = joined.strip_prefix('(').unwrap_or(&joined);
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        let parts: Vec<&str> = inner.split('\u{1}').filter(|part| !part.is_empty()).collect();
        let (name, operator, value) = match parts.as_slice() {
            [name] => (*name, "", ""),
            // An empty value has no word of its own here.
            [name, operator] => (*name, *operator, ""),
            [name, operator, value] => (*name, *operator, *value),
            _ => return Err("its condition is not understood".to_owned()),
        };
        let Some(name) = name.strip_prefix('$') else {
            return Err("`if` cannot look at files; write `try_files` of the filter `files`".to_owned());
        };
        let name = match set.get(name).and_then(|value| value.strip_prefix('$')) {
            Some(other) => other,
            None => name,
        };
        let (negated, wanted) = match operator {
            "" => (false, Wanted::There),
            "=" => (false, Wanted::Equal(value)),
            "!=" => (true, Wanted::Equal(value)),
            "~" => (false, Wanted::Like(value, false)),
            "~*" => (false, Wanted::Like(value, true)),
            "!~" => (true, Wanted::Like(value, false)),
            "!~*" => (true, Wanted::Like(value, true)),
            _ => return Err(format!("`{operator}` is no operator that is known")),
        };
        let mut condition = Self { negated, test: test(name, &wanted)? };
        condition.settle();
        Ok(condition)
    }

    /// That a field is not there, said without a negation.
    pub(super) fn settle(&mut self) {
        if let (true, Test::Request(conditions)) = (self.negated, &mut self.test) {
            for fields in [&mut conditions.headers, &mut conditions.query] {
                if let [(name, Value::Map(rule))] = fields.entries()
                    && let Some(Value::Bool(present)) = rule.get("present")
                {
                    let (name, present) = (name.clone(), !present);
                    fields.put(name, one("present", present));
                    self.negated = false;
                }
            }
        }
    }

    /// As `when` of a filter; `None`: it cannot be written there.
    pub(super) fn when(&self) -> Option<Map> {
        if self.negated {
            return None;
        }
        match &self.test {
            Test::Path(regex) => Some(one("path", format!("~{regex}"))),
            Test::Request(conditions) => {
                let mut when = Map::default();
                if !conditions.query.is_empty() {
                    return None;
                }
                if !conditions.methods.is_empty() {
                    when.put("method", conditions.methods.clone());
                }
                if !conditions.client.is_empty() {
                    when.put("client", conditions.client.clone());
                }
                let mut headers = Map::default();
                for (name, value) in conditions.headers.entries() {
                    headers.put(name.as_str(), written(value)?);
                }
                if !headers.is_empty() {
                    when.put("header", headers);
                }
                Some(when)
            }
            Test::Host(_) | Test::Scheme(_) => None,
        }
    }
}

/// A value of a field as `when` writes it.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if text.starts_with('~') || text == "*" => Some(format!("~{}", escaped(text))),
        Value::Text(text) => Some(text.clone()),
        Value::Map(rule) => match (rule.get("regex"), rule.get("present")) {
            (Some(Value::Text(regex)), _) => Some(format!("~{regex}")),
            (_, Some(Value::Bool(true))) => Some("*".to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// A test of a variable.
///
/// # Errors
/// A sentence: it cannot be expressed.
pub(super) fn test(name: &str, wanted: &Wanted<'_>) -> Result<Test, String> {
    let mut conditions = Conditions::default();
    if let Some(field) = name.strip_prefix("http_") {
        conditions.headers.put(field.replace('_', "-"), rule(wanted)?);
        return Ok(Test::Request(conditions));
    }
    if let Some(parameter) = name.strip_prefix("arg_") {
        conditions.query.put(parameter, rule(wanted)?);
        return Ok(Test::Request(conditions));
    }
    if let Some(cookie) = name.strip_prefix("cookie_") {
        conditions.headers.put("cookie", one("regex", self::cookie(cookie, wanted)?));
        return Ok(Test::Request(conditions));
    }
    match (name, wanted) {
        ("request_method", _) => {
            conditions.methods = methods(wanted)?;
            Ok(Test::Request(conditions))
        }
        ("remote_addr", Wanted::Equal(address)) => {
            conditions.client = vec![(*address).to_owned()];
            Ok(Test::Request(conditions))
        }
        ("host" | "http_host", Wanted::Equal(host)) => Ok(Test::Host((*host).to_owned())),
        ("scheme", Wanted::Equal(scheme)) => Ok(Test::Scheme((*scheme).to_owned())),
        ("https", Wanted::Equal("on")) => Ok(Test::Scheme("https".to_owned())),
        ("https", Wanted::Equal("" | "off")) => Ok(Test::Scheme("http".to_owned())),
        ("uri" | "request_uri", Wanted::Equal(path)) if !path.contains('?') => Ok(Test::Path(escaped(path))),
        ("uri" | "request_uri", Wanted::Like(regex, any_case)) => {
            Ok(Test::Path(whole(regex, *any_case)?.text))
        }
        _ => Err(format!("conditions on `${name}` cannot be expressed")),
    }
}

/// A condition on a field or parameter.
fn rule(wanted: &Wanted<'_>) -> Result<Value, String> {
    Ok(match wanted {
        Wanted::There => one("present", true).into(),
        Wanted::Equal("") => one("present", false).into(),
        Wanted::Equal(text) => (*text).into(),
        Wanted::Like(regex, any_case) => one("regex", whole(regex, *any_case)?.text).into(),
    })
}

fn cookie(name: &str, wanted: &Wanted<'_>) -> Result<String, String> {
    let value = match wanted {
        Wanted::There => "[^;]+".to_owned(),
        Wanted::Equal("") => return Err("that a cookie is missing cannot be expressed".to_owned()),
        Wanted::Equal(text) => escaped(text),
        Wanted::Like(..) => return Err("expressions over cookies cannot be expressed".to_owned()),
    };
    Ok(format!("(?:.*;\\s*)?{}={value}(?:\\s*;.*)?", escaped(name)))
}

/// Methods that are named one by one.
fn methods(wanted: &Wanted<'_>) -> Result<Vec<String>, String> {
    let list = match wanted {
        Wanted::Equal(method) => vec![(*method).to_owned()],
        Wanted::Like(text, _) => {
            let inner = text.trim_start_matches('^').trim_end_matches('$');
            let inner = inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(inner);
            inner.split('|').map(str::to_owned).collect()
        }
        Wanted::There => Vec::new(),
    };
    let plain = |method: &String| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    match !list.is_empty() && list.iter().all(plain) {
        true => Ok(list),
        false => Err("methods can be listed, not described by an expression".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Condition, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Condition::parse(&words, &BTreeMap::new())
    }

    #[test]
    fn conditions_are_read() {
        let found = parsed("($request_method !~ ^(GET|HEAD)$)").unwrap();
        assert!(found.negated);
        let Test::Request(conditions) = found.test else { panic!() };
        assert_eq!(conditions.methods, ["GET", "HEAD"]);
        let found = parsed("($http_user_agent ~* (bot|crawl))").unwrap();
        let when = found.when().unwrap();
        assert_eq!(when, one("header", one("user-agent", "~(?i).*?(bot|crawl).*")));
        assert_eq!(parsed("($host = a.example)").unwrap().test, Test::Host("a.example".into()));
        assert!(parsed("(-f $request_filename)").is_err());
        assert!(parsed("($http_x = )").unwrap().when().is_none());
    }
}
