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
    /// or it is not a text, number or truth value. Lists of texts are joined by spaces; elements that contain white
    /// space or control characters are left out, since another list would be joined to the same text.
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

    /// Whether a field can hold a text exactly: see [`is_exact`]. Another claim, or one that is not there, is exact.
    pub(crate) fn is_claim_exact(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::String(text)) => is_exact(text),
            _ => true,
        }
    }

    /// The user that a claim names. Empty: there is no such claim, or it is a list of which another list would be
    /// joined to the same text.
    pub(crate) fn user_of(&self, name: &str) -> String {
        match self.value(name) {
            Some(Value::Array(values)) if !values.iter().filter_map(Value::as_str).all(is_word) => {
                String::new()
            }
            _ => self.claim(name).map(Cow::into_owned).unwrap_or_default(),
        }
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

/// Whether the value of a field can be exactly this text: it has no control character, and no white space at an edge,
/// which every recipient cuts off.
pub(crate) fn is_exact(text: &str) -> bool {
    let is_edge = char::is_whitespace;
    !text.chars().any(char::is_control) && !text.starts_with(is_edge) && !text.ends_with(is_edge)
}

/// Whether a text may stand in a list that is joined by spaces.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|it| it.is_control() || it.is_whitespace())
}

fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
        Value::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
            let words: Vec<&str> = texts?.into_iter().filter(|text| is_word(text)).collect();
            Some(Cow::Owned(words.join(" ")))
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
    fn a_field_can_hold_a_claim_exactly_or_it_cannot() {
        let it = claims(
            r#"{"a": "Ada Lovelace", "b": "ad\nmin", "c": " admin", "d": "admin\t", "e": ["x", "admin"],
                "f": ["x admin"], "g": ["", "x"], "h": {"i": "admin\u007f"}, "j": 7, "k": [1], "l": "ad\u0000min"}"#,
        );
        for name in ["a", "e", "f", "g", "j", "k", "none"] {
            assert!(it.is_claim_exact(name), "{name}");
        }
        for name in ["b", "c", "d", "h.i", "l"] {
            assert!(!it.is_claim_exact(name), "{name}");
        }
        assert_eq!([it.claim("f").unwrap(), it.claim("g").unwrap()], ["", "x"]);
        let users = ["a", "e", "f", "none"].map(|name| it.user_of(name));
        assert_eq!(users, ["Ada Lovelace", "x admin", "", ""]);
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
