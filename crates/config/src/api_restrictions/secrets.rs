//! Recognises secrets that stand in a configuration by value.

use super::path::Path;
use crate::diagnose::nearest;
use crate::parse::{Kind, Node};
use crate::schema::Marks;
use crate::source::Span;
use thalweg_core::credentials::may_be_secret;

pub use thalweg_core::concealed::REDACTED;

/// Keys whose value, or whose `value:`, is a secret, where the schema does not know them. Known secret keys have a
/// mark.
const SECRETS: &[&str] = &[
    "access_token",
    "token",
    "read_token",
    "secret",
    "password",
    "passphrase",
    "private_key",
    "api_key",
    "client_secret",
    "hmac",
    "secrets",
    "old_secrets",
];

/// Keys below a secret whose values are no secrets: they say where it is.
const REFERENCES: &[&str] = &["file", "env", "id", "key_id"];
/// Maps of fields and parameters by name. Some names mark their values as secrets.
const FIELDS: &[&str] =
    &["append", "default", "forward", "header", "headers", "metadata", "parameters", "query", "set"];
/// Maps whose keys are names that the user chose.
const NAMES: &[&str] =
    &["listeners", "services", "providers", "chains", "sni", "upstreams", "backends", "clusters", "routers"];

pub(super) fn is_redacted(node: &Node) -> bool {
    matches!(&node.kind, Kind::Str(text) if is_redacted_text(text))
}

/// `<redacted>`, or a URL of which only scheme and host are shown.
pub(super) fn is_redacted_text(text: &str) -> bool {
    let is_url = || text.strip_suffix(REDACTED).is_some_and(|url| url.contains("://") && url.ends_with('/'));
    text == REDACTED || is_url()
}

/// Paths of the URLs of webhooks are often their secrets.
pub(super) fn is_webhook(keys: Keys<'_>) -> bool {
    keys.last == [Some("url"), Some("webhooks")]
}

/// A URL with `<redacted>` in the place of its path and query; `None`: it has none, or one of variables.
pub(super) fn without_path(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1;
    let at = url.len() - rest.len() + rest.find(['/', '?', '#'])?;
    let (site, path) = url.split_at_checked(at)?;
    // Names of variables say nothing.
    let behind = path.split("${").enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.split_once('}').map_or(part, |(_, behind)| behind),
    });
    let is_shown = !behind.collect::<String>().contains(char::is_alphanumeric);
    (!is_shown && !site.contains(['@', '"', '\\'])).then(|| format!("{site}/{REDACTED}"))
}

/// Where secrets stand by value in one file, as it was parsed: what no message may quote. It costs little: every file
/// is looked through.
///
/// More is taken for a secret here than [`redact`] takes out: all values below a key that names a secret, references
/// aside, also where that key is misspelt, unknown here or of another proxy, and what URLs carry behind their `?`.
pub(crate) fn secret_places(root: &Node, text: &str) -> Vec<Span> {
    fn look(node: &Node, (below, above): (bool, Option<&str>), text: &str, places: &mut Vec<Span>) {
        match &node.kind {
            Kind::Map(entries) => {
                // Names that the user chose say nothing about what they name.
                let is_named = above.is_some_and(|key| NAMES.contains(&key));
                for (key, child) in entries {
                    let refers = REFERENCES.contains(&&*key.name);
                    // The filter `auth` is a map; a text under that word is what another proxy takes. What
                    // stands in `users` for the hash of a password may be the password.
                    let is_map = matches!(child.kind, Kind::Map(_));
                    let is_auth = key.name == "auth" && !is_map || key.name == "users" && is_map;
                    // `{ value: … }` is the form of a secret under any key.
                    let is_value = key.name == "value" && entries.len() == 1;
                    let is_field = above.is_some_and(|key| FIELDS.contains(&key)) && may_be_secret(&key.name);
                    let is_hash = key.name == "hash" && !is_map;
                    let is_secret = is_auth || is_value || is_hash || is_field || names_secret(&key.name);
                    let below = below && !refers || !is_named && is_secret;
                    look(child, (below, Some(&key.name)), text, places);
                }
            }
            Kind::Seq(items) => items.iter().for_each(|item| look(item, (below, None), text, places)),
            Kind::Bool(_) => {}
            _ if holds_secret(below, node) => places.push(node.span),
            Kind::Str(value) if value.contains("://") && !value.contains(' ') => {
                places.extend(query(node.span, text))
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    look(root, (false, None), text, &mut places);
    places
}

/// What stands behind the `?` of a URL.
fn query(url: Span, text: &str) -> Option<Span> {
    let written = text.get(url.range())?;
    let at = written.find('?')?;
    // `${NAME:?…}` is no query.
    if written.get(..at)?.rfind("${") > written.get(..at)?.rfind('}') {
        return None;
    }
    Some(Span { start: url.start.saturating_add(u32::try_from(at + 1).ok()?), ..url })
}

/// Where secrets may stand in a text that cannot be parsed: what follows a key that names one, to the end of its line.
pub(crate) fn secret_places_in(file: u16, text: &str) -> Vec<Span> {
    let mut places = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mut from = 0;
        while let Some(colon) =
            line.get(from..).and_then(|rest| rest.find([':', '='])).map(|found| from + found)
        {
            from = colon + 1;
            let before = line.get(..colon).unwrap_or_default().trim_end_matches([' ', '"', '\'']);
            let word = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').next();
            let end = line.trim_end().len();
            if word.is_some_and(|word| word == "auth" || names_secret(word)) && from < end {
                places.push(Span::new(file, at + from..at + end));
                break;
            }
        }
        at += line.len();
    }
    places
}

/// Whether a key says that a secret follows: one of [`SECRETS`], a word that holds one, or a misspelt one.
fn names_secret(key: &str) -> bool {
    const PARTS: &[&str] = &[
        "secret",
        "passw",
        "passphrase",
        "token",
        "private_key",
        "api_key",
        "apikey",
        "hmac",
        "credential",
        "auth",
        "jwt",
    ];
    const NONE: &[&str] = &[
        "auth",
        "client_auth",
        "authority",
        "secure",
        "allow_credentials",
        "keep_credentials",
        "forward_auth",
        "jwt",
        "socket",
    ];
    if key.len() > 64 {
        return false;
    }
    let plain = key.to_ascii_lowercase().replace('-', "_");
    if NONE.contains(&plain.as_str()) {
        return false;
    }
    PARTS.iter().any(|part| plain.contains(part)) || nearest(&plain, SECRETS.iter().copied()).is_some()
}

/// Finds every secret by value.
pub(super) fn walk<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    every(node, path, &mut |path, node| {
        if is_secret(path, node) {
            found(path, node);
        }
    });
}

pub(super) fn is_secret(path: &Path, node: &Node) -> bool {
    is_secret_at(path.marks(), path.keys(), node)
}

/// The end of the way to a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys<'a> {
    /// The last two keys, elements of lists aside, the last one first.
    last: [Option<&'a str>; 2],
    /// The node itself is an element of a list.
    is_item: bool,
}

impl<'a> Keys<'a> {
    /// Of the whole way; `None` is an element of a list.
    pub(super) fn new(steps: impl DoubleEndedIterator<Item = Option<&'a str>> + Clone) -> Self {
        let mut keys = steps.clone().rev().flatten();
        let last = [keys.next(), keys.next()];
        Self { last, is_item: steps.clone().next_back().is_some_and(|step| step.is_none()) }
    }
}

/// Whether the value at a place with these marks, at the end of these keys, is a secret.
pub(super) fn is_secret_at(marks: Marks, keys: Keys<'_>, node: &Node) -> bool {
    // `Authorization: "Bearer ${TOKEN}"` and `X-Auth-User: "{user}"` name the source of a value, not the value.
    if marks.sent && matches!(&node.kind, Kind::Str(text) if is_filled_in(text)) {
        return holds_secret(false, node);
    }
    if is_webhook(keys) && matches!(&node.kind, Kind::Str(text) if without_path(text).is_some()) {
        return true;
    }
    let names_one = |key: Option<&str>| key.is_some_and(|key| SECRETS.contains(&key));
    let is_value = !keys.is_item && keys.last[0] == Some("value");
    let by_name = names_one(keys.last[0]) || (is_value && keys.last.into_iter().any(names_one));
    holds_secret(marks.secret || by_name, node)
}

fn holds_secret(by_key: bool, node: &Node) -> bool {
    match &node.kind {
        // A switch, as in `access_token: true` and `{ present: true }`.
        Kind::Null | Kind::Bool(_) => false,
        // In a condition: any value.
        Kind::Str(text) if is_variable(text) || text == "*" => false,
        Kind::Str(text) => {
            by_key
                || credentials_of(text).is_some()
                || !secret_parameters(text).is_empty()
                || holds_private_key(text)
                || holds_password_hash(text)
        }
        _ => by_key,
    }
}

/// `${NAME}` and nothing else: the name says nothing of the value. A default does.
fn is_variable(text: &str) -> bool {
    let inside = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|inside| {
        !inside.contains('}') && inside.split_once(":-").is_none_or(|(_, default)| default.is_empty())
    })
}

/// Whether a text consists only of references and placeholders, perhaps after an authentication scheme.
fn is_filled_in(text: &str) -> bool {
    let schemes = ["Bearer ", "Basic ", "Token "];
    let mut rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut is_any = false;
    while let Some(first) = rest.chars().next() {
        if first != '{' && !rest.starts_with("${") {
            if first.is_alphanumeric() {
                return false;
            }
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        // `{{` is a brace of the text itself.
        let Some(end) = rest.find('}').filter(|_| !rest.starts_with("{{")) else { return false };
        let (group, behind) = rest.split_at(end + 1);
        let placeholder = group.trim_matches(['{', '}']).split('.').next().unwrap_or_default();
        if !(is_variable(group) || (first == '{' && is_word(placeholder))) {
            return false;
        }
        (rest, is_any) = (behind, true);
    }
    is_any
}

/// The user and the password of `scheme://user:password@host`.
pub(super) fn credentials_of(text: &str) -> Option<&str> {
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority?.rsplit_once('@').map(|(credentials, _)| credentials)
}

/// Values of parameters that may be secrets in `scheme://host/path?key=…` and `/path?key=…`.
pub(super) fn secret_parameters(text: &str) -> Vec<&str> {
    let place = text.split_once("://").map(|(_, rest)| rest).or_else(|| text.strip_prefix('/'));
    let query = place.filter(|_| !text.contains(' ')).and_then(|rest| rest.split_once('?'));
    let pairs = query.into_iter().flat_map(|(_, query)| query.split('&'));
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(|(name, _)| may_be_secret(name)).map(|(_, value)| value).collect()
}

/// A hash of a password, as bcrypt and argon2 are written, alone or behind a user's name.
fn holds_password_hash(text: &str) -> bool {
    ["$2a$", "$2b$", "$2y$", "$argon2"].iter().any(|start| text.contains(start))
}

/// A PEM block with a private key (RFC 7468 §10 and its older forms), in whose place a path belongs.
fn holds_private_key(text: &str) -> bool {
    text.split("-----BEGIN ").skip(1).any(|rest| {
        let label = rest.split("-----").next().unwrap_or(rest);
        label.ends_with("PRIVATE KEY")
    })
}

/// Every scalar.
pub(super) fn every<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().for_each(|(key, child)| every(child, &path.key(&key.name, child), found))
        }
        Kind::Seq(items) => {
            items.iter().enumerate().for_each(|(at, item)| every(item, &path.item(at, item), found));
        }
        _ => found(path, node),
    }
}

#[cfg(test)]
mod tests {
    use super::super::redacted::{read, redact, restore};
    use super::*;
    use crate::parse::Format;

    #[test]
    fn hashes_of_passwords_are_not_shown() {
        for text in [
            "auth: { basic: { users: { ada: \"$2y$05$CCCCCCCCCCCCCCCCCCCCC.hunter2\" } } }",
            "any: [ { basic: { users: { ada: \"$argon2id$v=19$m=256,t=2,p=1$c29t$hunter2\" } } } ]",
        ] {
            let root = read(text, Format::Yaml).unwrap();
            let shown = redact(text, Format::Yaml, &root).unwrap();
            assert!(shown.contains(REDACTED) && !shown.contains("hunter2"), "{shown}");
            let back = restore((&shown, &read(&shown, Format::Yaml).unwrap()), (text, &root)).unwrap();
            assert_eq!(back, text);
            assert_eq!(secret_places(&root, text).len(), 1);
        }
        let plain = "auth: { basic: { users: { ada: hunter2 } }, require: { users: [ ada ] } }";
        assert_eq!(secret_places(&read(plain, Format::Yaml).unwrap(), plain).len(), 1);
    }

    /// A key of the configuration is not taken for a misspelt secret.
    #[test]
    fn only_keys_of_secrets_name_one() {
        let keys = crate::schema::keys();
        let keys = keys.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let named: Vec<&str> =
            keys.filter_map(|key| key.rsplit('.').next()).filter(|key| names_secret(key)).collect();
        for key in named {
            assert!(SECRETS.contains(&key.trim_end_matches("[]")), "`{key}`");
        }
    }
}
