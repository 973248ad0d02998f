//! `require:` what those who are known must have.

use crate::{Identity, OneOrManySpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Values that each of the three may list.
const VALUES: usize = 1024;

/// What is required; all that is written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `scopes`, `claims` or `users`")]
pub(crate) struct RequireSpec {
    /// Scopes all of which the client must have, one or a list.
    #[schemars(extend("x-default-words" = "none"))]
    scopes: Option<OneOrManySpec<String>>,
    /// Claims by name, and the value or the list of values one of which each must have; a claim that is a list must
    /// contain one.
    #[schemars(extend("x-default-words" = "none"))]
    claims: BTreeMap<String, OneOrManySpec<String>>,
    /// Users one of whom the client must be, one or a list.
    #[schemars(extend("x-default-words" = "all"))]
    users: Option<OneOrManySpec<String>>,
}

type Values = Box<[Box<str>]>;

#[derive(Debug)]
pub(super) struct Require {
    scopes: Values,
    claims: Box<[(Box<str>, Values)]>,
    users: Option<Values>,
}

impl RequireSpec {
    pub(super) fn build(&self) -> Result<Require, String> {
        let list = |what: &str, spec: &OneOrManySpec<String>| {
            let values = spec.as_slice();
            match values.is_empty() || values.len() > VALUES || values.iter().any(String::is_empty) {
                true => {
                    Err(format!("`{what}` of `require` takes from 1 to {VALUES} values that are not empty"))
                }
                false => Ok(values.iter().map(|value| value.as_str().into()).collect::<Values>()),
            }
        };
        let scopes = self.scopes.as_ref().map(|spec| list("scopes", spec)).transpose()?.unwrap_or_default();
        let claims = self.claims.iter().map(|(name, spec)| Ok((name.as_str().into(), list(name, spec)?)));
        let claims = claims.collect::<Result<Box<_>, String>>()?;
        let users = self.users.as_ref().map(|spec| list("users", spec)).transpose()?;
        if scopes.is_empty() && claims.is_empty() && users.is_none() {
            return Err(
                "`require` requires nothing; write `scopes`, `claims` or `users`, or remove it".into()
            );
        }
        Ok(Require { scopes, claims, users })
    }
}

impl Require {
    /// What the client lacks, for the operator.
    pub(super) fn lacking(&self, identity: &Identity) -> Option<String> {
        let has = |scope: &str| identity.scopes.iter().any(|known| known == scope);
        if let Some(scope) = self.scopes.iter().find(|scope| !has(scope)) {
            return Some(format!("the client lacks the scope `{scope}`"));
        }
        for (name, allowed) in &self.claims {
            let is_allowed = |text: &str| allowed.iter().any(|known| **known == *text);
            let fits = match identity.value(name) {
                Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).any(is_allowed),
                _ => identity.claim(name).is_some_and(|text| is_allowed(&text)),
            };
            if !fits {
                return Some(format!("the client lacks the claim `{name}` with a value that is required"));
            }
        }
        match &self.users {
            Some(users) if !users.iter().any(|user| **user == *identity.user) => {
                Some("the client is none of the users that may".into())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Require {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requires")?;
        if !self.scopes.is_empty() {
            write!(f, " scopes {}", self.scopes.join(" "))?;
        }
        for (name, values) in &self.claims {
            write!(f, " {name} of {}", values.join("|"))?;
        }
        match &self.users {
            Some(users) if users.len() > 4 => write!(f, " one of {} users", users.len()),
            Some(users) => write!(f, " user {}", users.join("|")),
            None => Ok(()),
        }
    }
}
