//! A suite over every place of the schema that may hold a secret by value: the secret is redacted, restored, and
//! quoted in no message.

use super::redacted::{redact, restore};
use super::secrets::{REDACTED, secret_places};
use super::tests::node;
use crate::parse::Format;
use crate::schema::{Choice, elements, entries};

/// The test's secret.
const LITERAL: &str = "hunter2-hunter2";

/// A configuration file with a secret at the tested place.
#[derive(Clone, Default)]
struct Around {
    before: String,
    after: String,
    path: String,
}

impl Around {
    fn key(&self, key: &str) -> Self {
        self.with(&format!("{{ \"{key}\": "), " }", &format!(".{key}"))
    }

    fn item(&self) -> Self {
        self.with("[", "]", "[]")
    }

    fn with(&self, before: &str, after: &str, path: &str) -> Self {
        Self {
            before: format!("{}{before}", self.before),
            after: format!("{after}{}", self.after),
            path: format!("{}{path}", self.path),
        }
    }

    fn text(&self) -> String {
        format!("{}\"{LITERAL}\"{}", self.before, self.after)
    }
}

fn walk(choice: &Choice, is_secret: bool, around: &Around, found: &mut Vec<Around>) {
    for (owner, form) in &choice.forms {
        let is_text = form.get("type").is_none_or(|kind| kind.to_string().contains("\"string\""));
        if is_secret && is_text && form.get("properties").is_none() {
            found.push(around.clone());
        }
        for (key, below) in entries(owner, form) {
            let inherits = is_secret && !below.marks.is_decided();
            walk(&below, below.marks.secret || inherits, &around.key(key.unwrap_or("k1")), found);
            if key.is_none() && choice.marks.named {
                for name in ["Authorization", "proxy-authorization", "Cookie", "set-cookie", "X-Api-Key"] {
                    walk(&below, true, &around.key(name), found);
                }
            }
        }
        if let Some(below) = elements(owner, form) {
            walk(&below, is_secret || below.marks.secret, &around.item(), found);
        }
    }
}

fn places() -> Vec<Around> {
    let mut found = Vec::new();
    walk(&Choice::file(), false, &Around::default(), &mut found);
    found
}

#[test]
fn every_secret_of_the_schema_is_redacted_and_comes_back() {
    let places = places();
    let paths: Vec<&str> = places.iter().map(|place| place.path.as_str()).collect();
    for known in [
        ".admin.token.value",
        ".webhooks[].secret.value",
        ".tracing.headers.k1.value",
        ".services.k1.sticky.secret.value",
        ".services.k1.discover.http.headers.k1.value",
        ".services.k1.health.headers.X-Api-Key",
        ".listeners.k1.tls.acme.eab.hmac.value",
        ".routes[].to.sealed.keys[].secret",
        ".routes[].match.headers.Authorization.prefix",
        ".routes[].match.query.X-Api-Key",
        ".routes[].filters[].when.header.Cookie",
        ".routes[].filters[].access.allow[].header.Cookie",
        ".routes[].filters[].auth.signed_url.secrets.k1.value",
        ".routes[].filters[].auth.any[].signed_url.secrets.k1.value",
        ".routes[].filters[].auth.oidc.old_secrets[].value",
        ".routes[].filters[].auth.oidc.providers.k1.client_secret.value",
        ".routes[].filters[].auth.basic.users.k1",
        ".routes[].filters[].headers.request.set.Authorization",
        ".routes[].filters[].headers.response.append.set-cookie",
        ".routes[].filters[].respond.headers.set-cookie",
        ".chains.k1[].rate_limit.store.redis.password.value",
    ] {
        assert!(paths.contains(&known), "{known} is not among {paths:#?}");
    }
    for place in &places {
        let text = place.text();
        let root = node(&text);
        let shown = redact(&text, Format::Yaml, &root).unwrap_or_else(|| panic!("{text} cannot be shown"));
        assert!(!shown.contains(LITERAL) && shown.contains(REDACTED), "{}: {shown}", place.path);
        let back = restore((&shown, &node(&shown)), (&text, &root));
        assert_eq!(back.as_deref(), Ok(text.as_str()), "{}", place.path);
    }
}

#[test]
fn no_message_quotes_a_secret_of_the_schema() {
    for place in places() {
        let text = place.text();
        let hidden = secret_places(&node(&text), &text);
        let covered = hidden.iter().any(|span| text.get(span.range()).is_some_and(|it| it.contains(LITERAL)));
        assert!(covered, "{}: {text}", place.path);
    }
}
