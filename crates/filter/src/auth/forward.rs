//! `forward:` fields that tell the service what was verified.

use crate::headers::{checked_name, checked_value};
use crate::identity::is_exact;
use crate::{RequestCx, Template, TemplateSpec};
use std::collections::BTreeMap;

/// Fields that may be named.
const FIELDS: usize = 32;

/// Names of fields, and what they say.
#[derive(Debug)]
pub(super) struct Forward(Box<[(Box<str>, Template)]>);

impl Forward {
    pub(super) fn new(written: &BTreeMap<String, TemplateSpec>) -> Result<Self, String> {
        if written.len() > FIELDS {
            return Err(format!("`forward` takes at most {FIELDS} fields"));
        }
        let mut fields: Vec<(Box<str>, Template)> = Vec::new();
        for (name, value) in written {
            if let Some((known, _)) =
                fields.iter().find(|(known, _)| is_same(known.as_bytes(), name.as_bytes()))
            {
                return Err(format!(
                    "`{known}` and `{name}` of `forward` are the same field to many servers"
                ));
            }
            fields.push((checked_name(name)?, checked_value(value)?));
        }
        Ok(Self(fields.into()))
    }

    /// Removes what a client has sent in them.
    pub(super) fn remove_all(&self, cx: &mut RequestCx<'_>) {
        if !self.0.is_empty() {
            remove_like(cx, self.0.iter().map(|(name, _)| &**name));
        }
    }

    /// Why the service cannot be told exactly who the client is: its name, or something else that was verified, has
    /// a character that a field would lose.
    pub(super) fn inexact(&self, cx: &RequestCx<'_>) -> Option<String> {
        let user = cx.identity().is_some_and(|identity| !is_exact(&identity.user)).then(|| "user".to_owned());
        let found =
            user.or_else(|| self.0.iter().find_map(|(_, template)| template.inexact(&cx.values())))?;
        Some(format!(
            "no field can hold the {found} exactly: a control character, a space at an edge, or one within an element \
             of a list"
        ))
    }

    /// Tells what was verified.
    pub(super) fn set(&self, cx: &mut RequestCx<'_>) {
        for (name, template) in &self.0 {
            let value = template.field(&cx.values());
            if !value.is_empty() {
                cx.fields.set(name, &value);
            }
        }
    }

    pub(super) fn captures(&self) -> Vec<String> {
        self.0.iter().flat_map(|(_, template)| template.captures()).map(str::to_owned).collect()
    }

    /// The names of the fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// For people.
    pub(super) fn words(&self) -> Option<String> {
        let fields: Vec<_> = self.0.iter().map(|(name, template)| format!("{name}: {template}")).collect();
        (!fields.is_empty()).then(|| format!("forwards {}", fields.join(", ")))
    }
}

/// Removes the fields of these names, and those that servers may take for them.
pub(super) fn remove_like<'n>(cx: &mut RequestCx<'_>, names: impl Iterator<Item = &'n str> + Clone) {
    let forged = |name: &[u8]| names.clone().any(|known| is_same(known.as_bytes(), name));
    loop {
        let found = cx.fields.view().iter().find(|(name, _)| forged(name)).map(|(name, _)| name.to_vec());
        let Some(name) = found else { return };
        let removed = str::from_utf8(&name).is_ok_and(|name| cx.fields.remove(name));
        debug_assert!(removed, "a name of a field is ASCII");
        if !removed {
            return;
        }
    }
}

/// Whether servers may take one name for the other: CGI and what descends from it folds case, and what is neither a
/// letter nor a digit.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let folded = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    one.len() == other.len() && one.iter().map(folded).eq(other.iter().map(folded))
}
