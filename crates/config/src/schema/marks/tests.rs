//! Suite: every key whose name or type suggests a mark has one.

use super::walk::{Choice, elements, entries};
use super::*;
use std::collections::BTreeMap;

/// Parts of names of keys that are marked: those of addresses, files, secrets, programs and trust.
const PARTS: &[&str] = &[
    "file",
    "path",
    "url",
    "address",
    "socket",
    "secret",
    "token",
    "key",
    "password",
    "hmac",
    "hash",
    "trust",
    "insecure",
    "verify",
    "issuer",
    "server",
    "cert",
    "directory",
    "root",
    "module",
    "exec",
    "command",
    "script",
    "program",
    "allow",
    "proxy",
    "credential",
    "endpoint",
    "resolver",
    "config",
    "auth",
    "tls",
    "link",
    "hidden",
    "version",
    "suite",
];
/// Whole names of such keys.
const WORDS: &[&str] = &["ca", "crl", "ask", "include", "revoked", "syslog"];
/// Types of values that are addresses or secrets under any key.
const TYPES: &[&str] = &[
    "EndpointUrl",
    "ListenAddress",
    "WebhookUrl",
    "IpAddress",
    "SealDigits",
    "Secret",
    "SecretSpec2",
    "Url",
];

/// Keys with such names that need no mark, by their definition, with the reason.
const REVIEWED: &[(&str, &str)] = &[
    (
        "Access.allow",
        "requirements of a filter are not compared (decision 0078); its files and URLs are marked",
    ),
    ("AddressRules.allow", "as `access` of a filter; a listener that loses it is refused by `protections`"),
    ("Acme.key_type", "the kind of a key, not the key"),
    (
        "Auth.keep_credentials",
        "what a service is sent: the write token may choose the service (decision 0078)",
    ),
    ("CacheQueryNames.include", "names of parameters"),
    ("Concurrency.key", "what requests are counted by"),
    ("Cors.allow_credentials", "a field of responses, which `headers` could set as well"),
    ("Eab.key_id", "the name of an account; its key is a secret"),
    ("Jwt.issuer", "a text that is compared with a claim; nothing is sent there (decision 0078)"),
    ("Kind.path", "paths of requests"),
    ("Limit.key", "what requests are counted by"),
    (
        "Listener.allow_half_close",
        "whether a connection stays open after its client has closed one half; it lets no client in",
    ),
    ("LongRequest.url", "a URL of a request in a test; nothing is sent"),
    ("Maintenance.allow", "who sees no maintenance page: such a switch is there to be operated"),
    ("Match.path", "paths of requests"),
    ("Mtls.issuer", "a text that is compared with a certificate, which `client_auth` has verified"),
    ("Oidc.access_token", "a switch; tokens themselves are never in the configuration"),
    ("OnDemand.allow", "host names; `ask`, which decides about them, is marked"),
    ("RateLimit.key", "what requests are counted by"),
    ("RateLimit.max_keys", "a number of entries"),
    (
        "Route.allow_encoded",
        "what paths may hold on their way to the service, which the write token may choose",
    ),
    (
        "Sealed.allow",
        "where labels may lead: endpoints by another way, held by `own_addresses` and `protections`",
    ),
    ("SecurityHeaders.hide_server", "a field of responses"),
    (
        "Service.endpoints",
        "endpoints are what the write token may change (decision 0078); `own_addresses` holds them",
    ),
    ("Service.send_proxy_protocol", "what an endpoint is told; nothing is believed"),
    ("When.path", "paths of requests"),
    ("ZookeeperSource.path", "the name of a node of ZooKeeper; its servers are marked"),
];

/// The keys seen in one definition.
#[derive(Default)]
struct Seen {
    /// In one place neither the key nor its parents have a mark.
    bare: bool,
}

fn walk(choice: &Choice, above: Marks, seen: &mut BTreeMap<String, Seen>) {
    for (owner, form) in &choice.forms {
        for (key, below) in entries(owner, form) {
            let marks = below.marks;
            let covered = above.restricted || above.whole || above.secret;
            let is_marked = marks.decided || marks.kept || marks.named || marks.sent || covered;
            if let Some(key) = key
                && looks_restricted(key, &below)
            {
                seen.entry(format!("{owner}.{key}")).or_default().bare |= !is_marked;
            }
            walk(&below, inherited(above, marks), seen);
        }
        if let Some(below) = elements(owner, form) {
            walk(&below, inherited(above, below.marks), seen);
        }
    }
}

fn inherited(above: Marks, own: Marks) -> Marks {
    let mut all = own;
    all.restricted |= above.restricted;
    all.whole |= above.whole;
    all.secret |= above.secret && !own.decided;
    all
}

/// Sections and maps are not judged by their names; their entries are.
fn looks_restricted(key: &str, choice: &Choice) -> bool {
    let is_type = choice.types.iter().any(|name| TYPES.contains(&name.as_str()));
    let is_named = WORDS.contains(&key) || PARTS.iter().any(|part| key.contains(part));
    is_type || (is_named && has_scalars(choice))
}

fn has_scalars(choice: &Choice) -> bool {
    choice.forms.iter().any(|(owner, form)| match elements(owner, form) {
        Some(item) => has_scalars(&item),
        None => !has_type(form, "object") && !has_type(form, "null"),
    })
}

#[test]
fn every_key_that_names_an_address_a_file_a_secret_or_trust_is_marked() {
    let mut seen = BTreeMap::new();
    let file = Choice::file();
    walk(&file, file.marks, &mut seen);
    assert!(seen.len() > 100, "{}", seen.len());
    let bare: Vec<&str> = seen.iter().filter(|(_, seen)| seen.bare).map(|(key, _)| key.as_str()).collect();
    let new: Vec<&&str> = bare.iter().filter(|key| REVIEWED.iter().all(|(known, _)| known != *key)).collect();
    assert!(
        new.is_empty(),
        "these keys have no mark `x-api` (see schema/marks.rs), and no reason among `REVIEWED` to have none: {new:#?}"
    );
    let stale: Vec<&&str> = REVIEWED.iter().map(|(key, _)| key).filter(|key| !bare.contains(key)).collect();
    assert!(stale.is_empty(), "these keys have a mark or are gone; take them from `REVIEWED`: {stale:#?}");
    assert!(REVIEWED.iter().all(|(_, why)| why.len() > 10), "every reviewed key has a reason");
}

/// A misspelled mark would have no effect.
#[test]
fn every_mark_is_a_word_that_is_known() {
    fn all(schema: &Value, found: &mut usize) {
        if let Value::Object(object) = schema {
            if let Some(word) = object.get(API) {
                let word = word.as_str().unwrap_or_default();
                *found += 1;
                let known = ["setting", "reference", "trust", "whole", "secret", "destination", "address"];
                assert!(known.contains(&word), "{schema:#}");
            }
            for (keyword, value) in object.iter().filter(|(key, _)| key.starts_with("x-")) {
                assert!(KEYWORDS.contains(&keyword.as_str()), "{keyword}: {value}");
            }
            object.values().for_each(|value| all(value, found));
        } else if let Value::Array(items) = schema {
            items.iter().for_each(|item| all(item, found));
        }
    }
    let mut found = 0;
    all(&SCHEMA, &mut found);
    assert!(found > 80, "{found}");
}

#[test]
fn marks_are_not_published() {
    let published = crate::schema::document();
    assert!(KEYWORDS.iter().all(|keyword| !published.contains(keyword)), "{KEYWORDS:?}");
}
