//! Secrets that stand in a configuration by value: shown as `<redacted>`, and put back.

use super::Breach;
use super::path::{Path, scalar};
use crate::diagnose::{Problems, nearest};
use crate::parse::{Format, Kind, Node, parse};
use crate::source::{Sources, Span};
use thalweg_core::credentials::may_be_secret;

/// What stands in the place of a secret.
pub const REDACTED: &str = "<redacted>";
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

/// The text with every secret by value replaced. References (`{ file: … }`, `{ env: … }`, `${…}`) stay, and
/// so do comments.
/// `None` when a secret is written in a way that cannot be replaced (a block of lines, an alias): such
/// a text is not to be shown.
pub fn redact(text: &str, format: Format, root: &Node) -> Option<String> {
    let mut places = Vec::new();
    walk(root, &Path::default(), &mut |_, node| places.push(node.span.range()));
    let out = replace(text, places.into_iter().map(|range| (range, format!("\"{REDACTED}\""))).collect())?;
    // Read again: what is left must be the same tree with every secret redacted.
    let again = read(&out, format)?;
    let (mut before, mut after, mut clean) = (0usize, 0usize, true);
    every(root, &Path::default(), &mut |path, node| {
        before += usize::from(is_secret(path, node) || is_redacted(node));
    });
    every(&again, &Path::default(), &mut |path, node| {
        after += usize::from(is_redacted(node));
        clean &= is_redacted(node) || !is_secret(path, node);
    });
    (clean && before == after).then_some(out)
}

/// The opposite: each `<redacted>` of the text that arrived becomes what the text on disk has there.
///
/// # Errors
/// Places where the text on disk has no secret.
pub fn restore(arrived: (&str, &Node), on_disk: (&str, &Node)) -> Result<String, Vec<Breach>> {
    let mut kept = Vec::new();
    walk(on_disk.1, &Path::default(), &mut |path, node| kept.push((path.clone(), node)));
    let (mut places, mut breaches) = (Vec::new(), Vec::new());
    every(arrived.1, &Path::default(), &mut |path, node| {
        if !is_redacted(node) {
            return;
        }
        let known = kept.iter().find(|(known, _)| known == path);
        // Written as YAML and JSON both read it, whatever it looked like on disk.
        match known.and_then(|(_, node)| quoted(node)) {
            Some(value) => places.push((node.span.range(), value)),
            None => breaches.push(Breach { key: path.to_string(), span: node.span }),
        }
    });
    if !breaches.is_empty() {
        return Err(breaches);
    }
    replace(arrived.0, places).ok_or_else(Vec::new)
}

/// A scalar in double quotes, with the escapes that YAML, JSON and TOML share.
fn quoted(node: &Node) -> Option<String> {
    let Kind::Str(text) = &node.kind else { return scalar(node)?.split_once(' ').map(|(_, v)| v.to_owned()) };
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    Some(out)
}

fn replace(text: &str, mut places: Vec<(std::ops::Range<usize>, String)>) -> Option<String> {
    places.sort_by_key(|(range, _)| range.start);
    // An alias of YAML leads to one place from two.
    places.dedup();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, value) in places {
        out.push_str(text.get(at..range.start)?);
        out.push_str(&value);
        at = range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

fn read(text: &str, format: Format) -> Option<Node> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add("arrived", text);
    parse(file, format, &sources, &mut problems)
}

fn is_redacted(node: &Node) -> bool {
    matches!(&node.kind, Kind::Str(text) if text == REDACTED)
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
fn walk<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
    every(node, path, &mut |path, node| {
        if is_secret(path, node) {
            found(path, node);
        }
    });
}

pub(super) fn is_secret(path: &Path, node: &Node) -> bool {
    // `Authorization: "Bearer ${TOKEN}"` and `X-Auth-User: "{user}"` name the source of a value, not the value.
    let is_filled_in = path.marks().sent && matches!(&node.kind, Kind::Str(text) if is_filled_in(text));
    if is_filled_in {
        return holds_secret(false, node);
    }
    let is_value = path.ends_with(&["value"]);
    let by_name = || path.last_key_is(SECRETS) || (is_value && path.is_at_or_below(SECRETS));
    holds_secret(path.marks().secret || by_name(), node)
}

fn holds_secret(by_key: bool, node: &Node) -> bool {
    match &node.kind {
        // A switch, as in `access_token: true` and `{ present: true }`.
        Kind::Null | Kind::Bool(_) => false,
        // In a condition: any value.
        Kind::Str(text) if is_variable(text) || text == "*" => false,
        Kind::Str(text) => {
            by_key
                || has_credentials(text)
                || has_secret_query(text)
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
        let Some(end) = rest.find('}') else { return false };
        let (group, behind) = rest.split_at(end + 1);
        let placeholder = group.trim_matches(['{', '}']).split('.').next().unwrap_or_default();
        if !(is_variable(group) || (first == '{' && is_word(placeholder))) {
            return false;
        }
        (rest, is_any) = (behind, true);
    }
    is_any
}

/// `scheme://user:password@host`
fn has_credentials(text: &str) -> bool {
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}

/// `scheme://host/path?key=…`, or `/path?key=…`
fn has_secret_query(text: &str) -> bool {
    let place = text.split_once("://").map(|(_, rest)| rest).or_else(|| text.strip_prefix('/'));
    let query = place.and_then(|rest| rest.split_once('?'));
    let mut names =
        query.iter().flat_map(|(_, query)| query.split('&')).filter_map(|pair| pair.split('=').next());
    !text.contains(' ') && names.any(may_be_secret)
}

/// A PEM block with a private key (RFC 7468 §10 and its older forms), in whose place a path belongs.
/// A hash of a password, as bcrypt and argon2 are written, alone or behind a user's name.
fn holds_password_hash(text: &str) -> bool {
    ["$2a$", "$2b$", "$2y$", "$argon2"].iter().any(|start| text.contains(start))
}

fn holds_private_key(text: &str) -> bool {
    text.split("-----BEGIN ").skip(1).any(|rest| {
        let label = rest.split("-----").next().unwrap_or(rest);
        label.ends_with("PRIVATE KEY")
    })
}

/// Every scalar.
fn every<'a>(node: &'a Node, path: &Path, found: &mut dyn FnMut(&Path, &'a Node)) {
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
    use super::*;

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
