//! Who a client is, once a filter has verified it.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// Who the client is, as filters have verified it. What it claims without proof never gets here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// The user, the subject of a token, or the name of a key. May be empty.
    pub user: String,
    /// The way it was verified: `basic`, `api_key`, `jwt` …
    pub method: &'static str,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Everything that is known of it, by name; of tokens, their claims.
    pub claims: Map<String, Value>,
}

impl Identity {
    /// A user, and how it was verified.
    pub fn new(method: &'static str, user: impl Into<String>) -> Self {
        Self { user: user.into(), method, ..Self::default() }
    }

    /// A claim as text; `a.b` is the member `b` of the claim `a`, unless a claim has that name. `None`: there is none,
    /// or it is not a text, number or truth value. Lists of texts are joined by spaces.
    pub fn claim(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.value(name)?)
    }

    /// A claim as it is.
    pub fn value(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.claims.get(name) {
            return Some(value);
        }
        let (first, rest) = name.split_once('.')?;
        rest.split('.').try_fold(self.claims.get(first)?, |value, name| value.get(name))
    }

    /// Adds what another method has verified: a user only where there is none yet, claims where there are none of that
    /// name.
    pub fn merge(&mut self, other: Self) {
        if self.user.is_empty() {
            (self.user, self.method) = (other.user, other.method);
        }
        for scope in other.scopes {
            if !self.scopes.contains(&scope) {
                self.scopes.push(scope);
            }
        }
        for (name, value) in other.claims {
            self.claims.entry(name).or_insert(value);
        }
    }
}

fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
        Value::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
            Some(Cow::Owned(texts?.join(" ")))
        }
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(json: &str) -> Identity {
        Identity { claims: serde_json::from_str(json).unwrap(), ..Identity::new("jwt", "ada") }
    }

    #[test]
    fn claims_are_found_by_name_and_by_way() {
        let it = claims(
            r#"{"plan": "gold", "a.b": "flat", "a": {"b": "deep", "c": {"d": 7}}, "r": ["x", "y"], "o": [1]}"#,
        );
        assert_eq!(it.claim("plan").unwrap(), "gold");
        assert_eq!(it.claim("a.b").unwrap(), "flat");
        assert_eq!(it.claim("a.c.d").unwrap(), "7");
        assert_eq!(it.claim("r").unwrap(), "x y");
        assert_eq!(it.claim("o"), None);
        assert_eq!(it.claim("a"), None);
        assert_eq!(it.claim("nothing.here"), None);
    }

    #[test]
    fn the_first_method_says_who_it_is() {
        let mut it = claims(r#"{"plan": "gold"}"#);
        let mut other = claims(r#"{"plan": "free", "team": "a"}"#);
        other.user = "bob".into();
        other.scopes = vec!["read".into()];
        it.merge(other);
        assert_eq!(
            (&*it.user, &*it.claim("plan").unwrap(), &*it.claim("team").unwrap()),
            ("ada", "gold", "a")
        );
        assert_eq!(it.scopes, ["read"]);
    }
}
