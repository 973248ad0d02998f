//! The middleware `headers`: fields of its own, CORS, and fields for browsers.

use super::ledger::{At, Ledger};
use super::middlewares::Made;
use crate::draft::{duration, literal};
use crate::yaml::{Map, Value, one};

/// Keys of which the value is a field of the response.
const TEXTS: &[(&str, &str)] = &[
    ("customFrameOptionsValue", "X-Frame-Options"),
    ("customBrowserXSSValue", "X-XSS-Protection"),
    ("contentSecurityPolicy", "Content-Security-Policy"),
    ("contentSecurityPolicyReportOnly", "Content-Security-Policy-Report-Only"),
    ("referrerPolicy", "Referrer-Policy"),
    ("permissionsPolicy", "Permissions-Policy"),
    ("featurePolicy", "Feature-Policy"),
    ("publicKey", "Public-Key-Pins"),
];

pub(super) fn make(ledger: &mut Ledger, at: &At<'_>, is_tls: bool, made: &mut Made) {
    if at.entries().iter().any(|(key, _)| key.to_ascii_lowercase().starts_with("accesscontrol")) {
        cors(ledger, at, made);
    }
    custom(ledger, at, "customRequestHeaders", "request", made);
    let mut set = Map::default();
    let flag = |key: &str| at.get(key).filter(|it| it.node.is_true());
    for (key, name, value) in [
        ("frameDeny", "X-Frame-Options", "DENY"),
        ("contentTypeNosniff", "X-Content-Type-Options", "nosniff"),
        ("browserXssFilter", "X-XSS-Protection", "1; mode=block"),
    ] {
        ledger.exact_keys(at, &[key]);
        if flag(key).is_some() {
            set.put(name, value);
        }
    }
    for (key, name) in TEXTS {
        if let Some(text) = at.get(key) {
            ledger.exact(&text);
            set.put(*name, literal(text.text()));
        }
    }
    hsts(ledger, at, is_tls, &mut set);
    if !set.is_empty() {
        made.filters.push(one("headers", one("response", one("set", set))));
    }
    custom(ledger, at, "customResponseHeaders", "response", made);
    for key in ["allowedHosts", "sslRedirect", "sslForceHost"] {
        let Some(inner) = at.get(key) else { continue };
        if key == "sslRedirect" && (is_tls || !inner.node.is_true()) {
            ledger.exact(&inner);
            continue;
        }
        let why = format!("`{key}` keeps requests out and has no counterpart; requests are answered 501");
        ledger.lost(&inner, why.clone());
        made.close(why);
    }
    if let Some(inner) = at.get("isDevelopment") {
        match inner.node.is_true() {
            true => ledger.lost(&inner, "fields for browsers are sent all the same"),
            false => ledger.exact(&inner),
        }
    }
}

fn hsts(ledger: &mut Ledger, at: &At<'_>, is_tls: bool, set: &mut Map) {
    ledger.exact_keys(at, &["stsSeconds", "stsIncludeSubdomains", "stsPreload", "forceSTSHeader"]);
    let is_set = |key: &str| at.get(key).is_some_and(|it| it.node.is_true());
    let Some(seconds) = at.get("stsSeconds").filter(|it| it.text() != "0") else { return };
    if is_tls || is_set("forceSTSHeader") {
        let mut value = format!("max-age={}", seconds.text());
        for (key, text) in [("stsIncludeSubdomains", "; includeSubDomains"), ("stsPreload", "; preload")] {
            if is_set(key) {
                value.push_str(text);
            }
        }
        set.put("Strict-Transport-Security", value);
    }
}

/// Fields of its own; an empty value removes one.
fn custom(ledger: &mut Ledger, at: &At<'_>, key: &str, side: &str, made: &mut Made) {
    let Some(fields) = at.get(key) else { return };
    ledger.exact(&fields);
    let (mut set, mut remove) = (Map::default(), Vec::new());
    for (name, value) in fields.entries() {
        let is_framing = ["connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer"]
            .contains(&name.to_ascii_lowercase().as_str());
        if is_framing {
            ledger.lost(&value, "fields of the connection and of framing are the proxy's own");
        } else if name.eq_ignore_ascii_case("host") && side == "request" {
            made.filters.push(one("rewrite", one("host", literal(value.text()))));
            made.is_moved = true;
        } else if value.text().is_empty() {
            remove.push(name.to_owned());
        } else {
            set.put(name, literal(value.text()));
        }
    }
    let mut changes = Map::default();
    if !remove.is_empty() {
        changes.put("remove", remove);
    }
    if !set.is_empty() {
        changes.put("set", set);
    }
    if !changes.is_empty() {
        made.filters.push(one("headers", one(side, changes)));
    }
}

fn cors(ledger: &mut Ledger, at: &At<'_>, made: &mut Made) {
    let list = |key: &str| at.get(key).map(|it| it.texts());
    if let Some(regex) = at.get("accessControlAllowOriginListRegex") {
        ledger.lost(&regex, "origins are texts, or `https://*.example.com`; these may not read responses");
    }
    let Some(origins) = at.get("accessControlAllowOriginList") else {
        for (key, inner) in at.entries() {
            if key.to_ascii_lowercase().starts_with("accesscontrol") {
                ledger.lost(&inner, "without origins there is no filter `cors`");
            }
        }
        return;
    };
    let mut cors = one("origins", crate::yaml::one_or_many(origins.texts()));
    for (key, ours) in [
        ("accessControlAllowMethods", "methods"),
        ("accessControlAllowHeaders", "headers"),
        ("accessControlExposeHeaders", "expose_headers"),
    ] {
        if let Some(texts) = list(key) {
            cors.put(ours, texts);
        }
    }
    if let Some(inner) = at.get("accessControlAllowCredentials").filter(|it| it.node.is_true()) {
        if origins.texts().iter().any(|origin| origin == "*") {
            ledger.lost(&inner, "credentials are not allowed for every origin; name the origins");
        } else {
            cors.put("allow_credentials", true);
        }
    }
    let age = at.get("accessControlMaxAge").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(0);
    cors.put("max_age", if age == 0 { Value::from("0s") } else { duration(age.min(86_400) * 1000).into() });
    let about = "an origin that is not listed is told nothing, and preflights are answered 204";
    for (key, inner) in at.entries() {
        let key = key.to_ascii_lowercase();
        if key.starts_with("accesscontrol") || key == "addvaryheader" {
            ledger.near(&inner, about);
        }
    }
    made.filters.push(one("cors", cors));
}
