//! `redirectScheme` and `redirectRegex`.

use super::ledger::{At, Ledger};
use super::middlewares::{Made, Scope};
use crate::draft::literal;
use crate::yaml::{Map, one};

/// Filters that send clients elsewhere: Traefik's status depends on the method.
pub(super) fn filters(to: &str, permanent: bool) -> Vec<Map> {
    let (get, other) = if permanent { (301_u64, 308_u64) } else { (302, 307) };
    let filter = |status: u64| one("redirect", one("to", to).with("status", status));
    vec![filter(get).with("when", one("method", "GET")), filter(other)]
}

fn is_permanent(at: &At<'_>) -> bool {
    at.get("permanent").is_some_and(|it| it.node.is_true())
}

/// `scheme://host`, with the port where it is not that of the scheme.
pub(super) fn origin(scheme: &str, port: &str) -> String {
    let is_usual =
        port.is_empty() || (scheme == "https" && port == "443") || (scheme == "http" && port == "80");
    if is_usual { format!("{scheme}://{{host}}") } else { format!("{scheme}://{{host}}:{port}") }
}

pub(super) fn scheme(ledger: &mut Ledger, at: &At<'_>, is_tls: bool, made: &mut Made) {
    ledger.exact(at);
    let text = |key: &str| at.get(key).map_or("", |it| it.text());
    let (scheme, port) = (text("scheme"), text("port"));
    if (scheme == "https") == is_tls {
        if !port.is_empty() {
            ledger.near(at, "a request that has the scheme already is not sent to another port");
        }
        return;
    }
    let to = format!("{}{{path}}", origin(scheme, port));
    made.filters.extend(filters(&to, is_permanent(at)));
}

/// `^https?://HOST/(.*)` with a replacement that ends with the group.
pub(super) fn regex(ledger: &mut Ledger, at: &At<'_>, scope: &Scope, made: &mut Made) {
    let text = |key: &str| at.get(key).map_or("", |it| it.text());
    let Some((host, is_slash)) = host_of(text("regex")) else { return refused(ledger, at, made) };
    let replacement = text("replacement");
    let Some(begin) = ["${1}", "$1"].iter().find_map(|group| replacement.strip_suffix(group)) else {
        return refused(ledger, at, made);
    };
    if begin.contains('$') || !begin.contains("://") || begin.ends_with('/') != is_slash {
        return refused(ledger, at, made);
    }
    if scope.hosts.iter().all(|known| *known != host) {
        // No request of this router has that host, or it is not known.
        if scope.hosts.is_empty() || scope.hosts.iter().any(|known| known.contains('*')) {
            return refused(ledger, at, made);
        }
        return ledger.exact(at);
    }
    if scope.hosts.len() > 1 {
        return refused(ledger, at, made);
    }
    ledger.exact(at);
    let to = format!("{}{{path}}", literal(begin.trim_end_matches('/')));
    made.filters.extend(filters(&to, is_permanent(at)));
}

fn refused(ledger: &mut Ledger, at: &At<'_>, made: &mut Made) {
    let why = "of expressions over URLs only `^https?://HOST/(.*)` is taken over; requests are answered 501";
    ledger.lost(at, why);
    made.close(why);
}

/// The host of an expression, and whether a slash stands before its group.
fn host_of(regex: &str) -> Option<(String, bool)> {
    let rest = regex.strip_prefix('^')?;
    let schemes = ["https?://", "http[s]?://", "(http|https)://", "(?:http|https)://", "https://", "http://"];
    let rest =
        schemes.iter().filter(|text| !text.starts_with("(http|")).find_map(|text| rest.strip_prefix(text))?;
    let rest = rest.strip_suffix('$').unwrap_or(rest);
    let rest = rest.strip_suffix("(.*)").or_else(|| rest.strip_suffix("(.+)"))?;
    let (host, is_slash) = rest.strip_suffix('/').map_or((rest, false), |host| (host, true));
    if !is_slash {
        return None;
    }
    let host = host.replace("\\.", "\u{1}");
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.\x01".contains(&byte));
    is_plain.then(|| (host.replace('\u{1}', ".").to_ascii_lowercase(), is_slash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_expressions() {
        for (regex, host) in [
            (r"^https?://www\.shop\.example/(.*)", Some("www.shop.example")),
            ("^https://a.example/(.*)$", Some("a.example")),
            ("^https?://(.+)/old", None),
            ("http://a.example/(.*)", None),
            ("^https?://[ab].example/(.*)", None),
        ] {
            assert_eq!(host_of(regex).map(|(host, _)| host).as_deref(), host, "{regex}");
        }
    }
}
