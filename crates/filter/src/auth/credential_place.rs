//! Where a token stands in a request, and how it is taken out of it.

use super::{Finding, authorization};
use crate::{QueryEdit, RequestCx, may_be_changed};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// Parameters whose values no log contains (`thalweg_core::credentials`).
const PARAMETERS: [&str; 4] = ["access_token", "id_token", "jwt", "token"];
/// Longest name of a place, in bytes.
const NAME: usize = 128;

/// Where a token stands.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "a map with `header`, `cookie` or `query`")]
pub(crate) enum TokenPlaceSpec {
    /// In this field, with or without `Bearer ` before it.
    Header(String),
    /// In this cookie.
    Cookie(String),
    /// In this parameter of the query: `access_token`, `id_token`, `jwt` or `token`, which are in no log of the proxy.
    /// Browsers, and what else writes down URLs, write it down.
    Query(String),
}

impl fmt::Display for TokenPlaceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "from the field {name}"),
            Self::Cookie(name) => write!(f, "from the cookie {name}"),
            Self::Query(name) => write!(f, "from the query parameter {name}"),
        }
    }
}

/// The same, checked.
#[derive(Debug)]
pub(super) enum CredentialPlace {
    Bearer,
    Header(Box<str>),
    Cookie(Box<str>),
    Query(Box<str>),
}

impl CredentialPlace {
    pub(super) fn new(spec: Option<&TokenPlaceSpec>) -> Result<Self, String> {
        let Some(spec) = spec else { return Ok(Self::Bearer) };
        let (TokenPlaceSpec::Header(name) | TokenPlaceSpec::Cookie(name) | TokenPlaceSpec::Query(name)) =
            spec;
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME || !name.bytes().all(is_token) {
            return Err(format!(
                "`{name}` is no name of a field, cookie or parameter; write letters, digits, `-`, `_` and `.`"
            ));
        }
        Ok(match spec {
            TokenPlaceSpec::Header(name) if name.eq_ignore_ascii_case("authorization") => Self::Bearer,
            TokenPlaceSpec::Header(name) if !may_be_changed(name) || name.eq_ignore_ascii_case("cookie") => {
                return Err(format!("`{name}` is no field for a token"));
            }
            TokenPlaceSpec::Query(name) if !PARAMETERS.contains(&name.as_str()) => {
                return Err(format!(
                    "the parameter `{name}` would stand in logs; those called {} do not",
                    PARAMETERS.map(|name| format!("`{name}`")).join(", ")
                ));
            }
            TokenPlaceSpec::Header(_) => Self::Header(name.as_str().into()),
            TokenPlaceSpec::Cookie(_) => Self::Cookie(name.as_str().into()),
            TokenPlaceSpec::Query(_) => Self::Query(name.as_str().into()),
        })
    }

    /// The field, if it is one of its own.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            Self::Bearer | Self::Cookie(_) | Self::Query(_) => None,
        }
    }

    /// What stands there.
    ///
    /// # Errors
    /// It stands there twice: which one counts is not to be guessed.
    pub(super) fn find<'a>(&self, cx: &'a RequestCx<'_>) -> Result<Option<&'a [u8]>, Finding> {
        let view = cx.fields.view();
        let found = match self {
            Self::Bearer => authorization::credential(view, "bearer")?,
            Self::Header(name) => {
                let is_it = |(known, value): (&[u8], &'a [u8])| {
                    known.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
                };
                only(view.iter().filter_map(is_it))?.map(|value| match value.get(..7) {
                    Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => value[7..].trim_ascii(),
                    _ => value,
                })
            }
            Self::Cookie(name) => view.cookie(name),
            Self::Query(name) => only(of_query(cx.facts.query.unwrap_or_default(), name))?,
        };
        Ok(found.filter(|token| !token.is_empty()))
    }

    /// It does not go upstream.
    pub(super) fn strip(&self, cx: &mut RequestCx<'_>) {
        match self {
            Self::Bearer => authorization::strip(cx, "bearer"),
            Self::Header(name) => {
                cx.fields.remove(name);
            }
            Self::Cookie(name) => strip_cookies(cx, |known| known == name.as_bytes()),
            Self::Query(name) => {
                let query = match cx.target.query() {
                    QueryEdit::Unchanged => cx.facts.query,
                    QueryEdit::Replaced(query) => Some(query.as_slice()),
                    QueryEdit::Removed => None,
                };
                let Some(query) = query.filter(|query| of_query(query, name).next().is_some()) else {
                    return;
                };
                let kept: Vec<&[u8]> =
                    query.split(|byte| *byte == b'&').filter(|pair| !is_named(pair, name)).collect();
                let left = match kept.is_empty() {
                    true => QueryEdit::Removed,
                    false => QueryEdit::Replaced(kept.join(&b'&')),
                };
                cx.target.set_query(left);
            }
        }
    }
}

/// The only one, where there is one.
fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Result<Option<&'a [u8]>, Finding> {
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Finding::refused(400, "a request with more than one token", "more than one token")),
    }
}

fn is_named(pair: &[u8], name: &str) -> bool {
    pair.split(|byte| *byte == b'=').next() == Some(name.as_bytes())
}

fn of_query<'a>(query: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let pairs = query.split(|byte| *byte == b'&').filter(move |pair| is_named(pair, name));
    pairs.map(|pair| pair.get(name.len() + 1..).unwrap_or_default())
}

/// Removes cookies from what goes upstream.
pub(super) fn strip_cookies(cx: &mut RequestCx<'_>, is_it: impl Fn(&[u8]) -> bool) {
    let name = |pair: &[u8]| {
        let pair = pair.trim_ascii();
        pair.iter().position(|byte| *byte == b'=').is_some_and(|end| is_it(&pair[..end]))
    };
    let mut found = false;
    let mut lines = Vec::new();
    for value in cx.fields.view().values("cookie") {
        let pairs = value.split(|byte| *byte == b';');
        let kept: Vec<&[u8]> = pairs.filter(|pair| !name(pair)).map(<[u8]>::trim_ascii).collect();
        found |= value.split(|byte| *byte == b';').any(name);
        lines.push(kept.join(&b"; "[..]));
    }
    if found {
        cx.fields.remove("cookie");
        lines.iter().filter(|line| !line.is_empty()).for_each(|line| cx.fields.append("Cookie", line));
    }
}
