//! `forwarded: {}`: tells the service in `Forwarded` (RFC 7239) who has asked, beside `X-Forwarded-*` or in their
//! place.
//!
//! What a trusted proxy has sent stays in front; of any other peer it was removed before filters are called.

use crate::{Filter, Hooks, RequestCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_http::octet;

/// The fields that `x_forwarded: false` leaves out.
const X_FORWARDED: [&str; 3] = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"];

/// What the service is told.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `by`, `replace` and `x_forwarded`")]
pub struct ForwardedSpec {
    /// The name of this proxy: `_` with letters, digits and `._-` (an obfuscated identifier, RFC 7239 §6.3).
    #[schemars(extend("x-default-words" = "no `by`", "pattern" = "^_[A-Za-z0-9._-]+$"))]
    by: Option<String>,
    /// Whether what a trusted proxy has sent gives way, so that the service sees one element alone.
    #[schemars(extend("x-default" = false))]
    replace: bool,
    /// Whether `X-Forwarded-For`, `-Proto` and `-Host` are sent too.
    #[schemars(extend("x-default" = true))]
    x_forwarded: Option<bool>,
}

impl ForwardedSpec {
    /// Checks the name.
    ///
    /// # Errors
    /// It is no obfuscated identifier.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        if let Some(by) = &self.by {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if !by.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(fits)) {
                return Err(format!(
                    "`by: {by}` is no obfuscated identifier; write `_` and letters, digits or `._-`, as in `_edge`"
                ));
            }
        }
        let by = self.by.as_deref().map(Into::into);
        Ok(Arc::new(Forwarded { by, replaces: self.replace, is_alone: self.x_forwarded == Some(false) }))
    }
}

#[derive(Debug)]
struct Forwarded {
    by: Option<Box<str>>,
    replaces: bool,
    /// `X-Forwarded-*` are not sent.
    is_alone: bool,
}

impl Filter for Forwarded {
    fn name(&self) -> &'static str {
        "forwarded"
    }

    fn argument(&self) -> String {
        let mut words = vec![if self.replaces { "replaces" } else { "appends" }.to_owned()];
        words.extend(self.by.iter().map(|by| format!("by {by}")));
        words.extend(self.is_alone.then(|| "without X-Forwarded-*".to_owned()));
        words.join(", ")
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let mut value = Vec::new();
        if !self.replaces {
            for told in cx.fields.view().values("Forwarded").filter(|told| !told.is_empty()) {
                value.extend_from_slice(told);
                value.extend_from_slice(b", ");
            }
        }
        let facts = &cx.facts;
        value.extend_from_slice(b"for=");
        match facts.peer {
            IpAddr::V4(ip) => value.extend_from_slice(ip.to_string().as_bytes()),
            IpAddr::V6(ip) => value.extend_from_slice(format!("\"[{ip}]\"").as_bytes()),
        }
        if let Some(by) = &self.by {
            value.extend_from_slice(b";by=");
            value.extend_from_slice(by.as_bytes());
        }
        if !facts.host.is_empty() {
            let own = if facts.scheme == "https" { 443 } else { 80 };
            let mut host = facts.host.to_vec();
            if facts.port != own {
                host.extend_from_slice(format!(":{}", facts.port).as_bytes());
            }
            value.extend_from_slice(b";host=");
            write_value(&host, &mut value);
        }
        value.extend_from_slice(b";proto=");
        value.extend_from_slice(facts.scheme.as_bytes());
        cx.fields.set("Forwarded", &value);
        if self.is_alone {
            X_FORWARDED.iter().for_each(|name| cx.fields.withhold(name));
        }
        Verdict::Continue
    }
}

/// A token as it is, anything else as a quoted string (RFC 7239 §4).
fn write_value(text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() && octet::token_len(text) == text.len() {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn told(json: &str, mut asked: Asked) -> String {
        asked.send(&*built::<ForwardedSpec>(json).build().unwrap());
        asked.request_lines()
    }

    #[test]
    fn the_service_is_told_who_has_asked() {
        let own = "for=192.0.2.1;host=shop.test;proto=https";
        assert_eq!(told("{}", Asked::at("/")), format!("Forwarded: {own}\r\n"));
        let with = || Asked::at("/").with("forwarded", "for=10.0.0.7").with("Forwarded", "for=_a");
        assert_eq!(told("{}", with()), format!("Forwarded: for=10.0.0.7, for=_a, {own}\r\n"));
        let by = r#"{"by": "_edge", "replace": true}"#;
        assert_eq!(told(by, with()), "Forwarded: for=192.0.2.1;by=_edge;host=shop.test;proto=https\r\n");
        let mut asked = Asked::at("/");
        asked.client_ip = "2001:db8::1".parse().unwrap();
        asked.scheme = "http";
        let expected = "Forwarded: for=\"[2001:db8::1]\";host=\"shop.test:443\";proto=http\r\n";
        assert_eq!(told("{}", asked), expected);
    }

    #[test]
    fn a_name_that_says_too_much_or_nothing_is_refused() {
        for by in ["edge", "_", "_a b", "10.0.0.1", ""] {
            let error = built::<ForwardedSpec>(&format!(r#"{{"by": "{by}"}}"#)).build().unwrap_err();
            assert!(error.contains("obfuscated"), "{error}");
        }
    }
}
