//! `cors: { origins: [https://app.example.com] }`: lets pages of other origins read responses (Fetch standard, "CORS
//! protocol").
//!
//! Preflights are answered here and go to no endpoint. A request of an origin that is not listed is served as any
//! other, without the fields that let its page read the response. What the service itself says of CORS is removed.

use crate::names::FieldNames;
use crate::{Filter, HeadFields, Hooks, OneOrManySpec, Reply, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::units::parse_duration;
use thalweg_http::octet;

/// Fields of responses that are this filter's own.
const OWN: [&str; 4] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Expose-Headers",
    "Access-Control-Allow-Private-Network",
];

/// Who may read responses, and how.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `origins`")]
pub struct CorsSpec {
    /// Origins such as `https://app.example.com`, `https://*.example.com` for all hosts below one, or `*` for all; one
    /// or a list.
    origins: OneOrManySpec<String>,
    /// Methods that preflights allow, one or a list.
    #[schemars(extend("x-default-words" = "GET, HEAD, POST, PUT, PATCH, DELETE"))]
    methods: Option<OneOrManySpec<String>>,
    /// Fields that requests may have, one or a list.
    #[schemars(extend("x-default-words" = "those that a preflight asks for"))]
    headers: Option<OneOrManySpec<String>>,
    /// Fields of responses that pages may read beside the usual ones, one or a list.
    #[schemars(extend("x-default-words" = "none"))]
    expose_headers: Option<OneOrManySpec<String>>,
    /// Whether cookies and credentials may be sent; not with `origins: "*"`.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    allow_credentials: bool,
    /// How long a browser remembers a preflight, whole seconds.
    #[schemars(extend("x-range" = ["0s", "1d"], "x-default" = "1h"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["10m", "1h"]))]
    max_age: Option<String>,
    /// Whether pages from public addresses may ask (Private Network Access).
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    private_network: bool,
}

impl CorsSpec {
    /// Checks what belongs together.
    ///
    /// # Errors
    /// An origin that is none, `*` with credentials, or a time out of its range.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let origins = self.origins.as_slice().iter().map(|origin| Origin::parse(origin));
        let origins = origins.collect::<Result<Vec<_>, _>>()?;
        if origins.is_empty() {
            return Err("`origins` is empty; name at least one, such as `https://app.example.com`".into());
        }
        if self.allow_credentials && origins.contains(&Origin::Any) {
            return Err(
                "`allow_credentials` with `origins: \"*\"` would let every site act as the user; list the origins"
                    .into(),
            );
        }
        let max_age = self.max_age.as_deref().map_or(Ok(Duration::from_secs(3600)), parse_duration)?;
        if max_age > Duration::from_secs(86_400) || max_age.subsec_nanos() != 0 {
            return Err("`max_age` must be from 0s to 1d, in whole seconds".into());
        }
        let methods = match &self.methods {
            None => "GET, HEAD, POST, PUT, PATCH, DELETE".to_owned(),
            Some(methods) => tokens("method", methods.as_slice())?,
        };
        let headers =
            self.headers.as_ref().map(|names| tokens("name of a field", names.as_slice())).transpose()?;
        let exposed = self
            .expose_headers
            .as_ref()
            .map(|names| tokens("name of a field", names.as_slice()))
            .transpose()?;
        let max_age = max_age.as_secs().to_string();
        let (credentials, private_network) = (self.allow_credentials, self.private_network);
        let own = OWN.into_iter().collect();
        Ok(Arc::new(Cors { origins, methods, headers, exposed, credentials, max_age, private_network, own }))
    }
}

fn tokens(what: &str, list: &[String]) -> Result<String, String> {
    match list.iter().find(|text| text.is_empty() || octet::token_len(text.as_bytes()) != text.len()) {
        Some(bad) => Err(format!("`{bad}` is no {what}")),
        None => Ok(list.join(", ")),
    }
}

#[derive(Debug, Eq, PartialEq)]
enum Origin {
    Any,
    Exact(Box<str>),
    /// `https://*.example.com:8443`: what stands before the star, and behind it.
    Below(Box<str>, Box<str>),
}

impl Origin {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let is_host = |host: &str| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        };
        let lower = text.to_ascii_lowercase();
        match rest.map(|rest| (rest, rest.strip_prefix("*."))) {
            Some((_, Some(below))) if is_host(below) => {
                let star = lower.find('*').unwrap_or_default();
                Ok(Self::Below(lower[..star].into(), lower[star + 1..].into()))
            }
            Some((host, None)) if is_host(host) => Ok(Self::Exact(lower.into())),
            _ if text == "null" => {
                Err("`null` stands for every page without an origin, sandboxed ones of strangers included"
                    .into())
            }
            _ => Err(format!(
                "`{text}` is no origin; write a scheme and a host, such as `https://app.example.com`, without a path"
            )),
        }
    }

    fn fits(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => origin.eq_ignore_ascii_case(text.as_bytes()),
            Self::Below(begin, end) => {
                let Some(split) = origin.len().checked_sub(end.len()) else { return false };
                let (head, tail) = origin.split_at(split);
                let label = head.get(begin.len()..).unwrap_or_default();
                head.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin.as_bytes()))
                    && tail.eq_ignore_ascii_case(end.as_bytes())
                    && !label.is_empty()
                    && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
            }
        }
    }
}

#[derive(Debug)]
struct Cors {
    origins: Vec<Origin>,
    methods: String,
    headers: Option<String>,
    exposed: Option<String>,
    credentials: bool,
    max_age: String,
    private_network: bool,
    /// What services say of it themselves is removed.
    own: FieldNames,
}

impl Cors {
    /// The value of `Access-Control-Allow-Origin`; `None`: the origin is not listed.
    fn allowed<'a>(&self, origin: &'a [u8]) -> Option<&'a [u8]> {
        if self.origins.contains(&Origin::Any) {
            return Some(b"*");
        }
        self.origins.iter().any(|known| known.fits(origin)).then_some(origin)
    }

    /// Whether the answer depends on the origin.
    fn varies(&self) -> bool {
        !self.origins.contains(&Origin::Any)
    }

    fn preflight(&self, origin: &[u8], cx: &RequestCx<'_>) -> Reply {
        let mut reply = Reply::new(204)
            .field("Vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
        let Some(allowed) = self.allowed(origin) else { return reply };
        reply = reply
            .field("Access-Control-Allow-Origin", allowed)
            .field("Access-Control-Allow-Methods", self.methods.as_bytes())
            .field("Access-Control-Max-Age", self.max_age.as_bytes());
        let asked = cx.fields.get("Access-Control-Request-Headers");
        if let Some(headers) =
            self.headers.as_deref().map(str::as_bytes).or(asked).filter(|list| !list.is_empty())
        {
            reply = reply.field("Access-Control-Allow-Headers", headers);
        }
        if self.credentials {
            reply = reply.field("Access-Control-Allow-Credentials", b"true");
        }
        if self.private_network && cx.fields.get("Access-Control-Request-Private-Network") == Some(b"true") {
            reply = reply.field("Access-Control-Allow-Private-Network", b"true");
        }
        reply
    }
}

/// Adds a name to `Vary`, unless it is there.
pub(crate) fn vary(fields: &mut HeadFields<'_>, name: &str) {
    let is_there = fields
        .view()
        .values("Vary")
        .flat_map(octet::list)
        .any(|known| known == b"*" || known.eq_ignore_ascii_case(name.as_bytes()));
    if !is_there {
        fields.append("Vary", name.as_bytes());
    }
}

impl Filter for Cors {
    fn name(&self) -> &'static str {
        "cors"
    }

    fn argument(&self) -> String {
        let origins = self.origins.iter().map(|origin| match origin {
            Origin::Any => "*".to_owned(),
            Origin::Exact(text) => text.to_string(),
            Origin::Below(begin, end) => format!("{begin}*{end}"),
        });
        let credentials = if self.credentials { " with credentials" } else { "" };
        format!("{}{credentials}", origins.collect::<Vec<_>>().join(" "))
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::BOTH
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if cx.facts.method != b"OPTIONS" || !cx.fields.contains("Access-Control-Request-Method") {
            return Verdict::Continue;
        }
        match cx.fields.get("Origin") {
            Some(origin) => Verdict::Reply(Box::new(self.preflight(origin, cx))),
            None => Verdict::Continue,
        }
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        cx.fields.remove_all(&self.own);
        if self.varies() {
            vary(&mut cx.fields, "Origin");
        }
        let Some(allowed) = cx.request.get("Origin").and_then(|origin| self.allowed(origin)) else { return };
        cx.fields.set("Access-Control-Allow-Origin", allowed);
        if self.credentials {
            cx.fields.set("Access-Control-Allow-Credentials", b"true");
        }
        if let Some(exposed) = &self.exposed {
            cx.fields.set("Access-Control-Expose-Headers", exposed.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    const SHOP: &str = r#"{"origins": ["https://shop.test", "https://*.shop.test:8443"], "allow_credentials": true,
        "expose_headers": "X-Total", "max_age": "10m"}"#;

    fn preflight(json: &str, origin: &str) -> String {
        let mut asked = Asked::at("/").with("Origin", origin).with("Access-Control-Request-Method", "PUT");
        asked = asked.with("Access-Control-Request-Headers", "x-a,x-b");
        asked.method = "OPTIONS";
        match asked.send(&*built::<CorsSpec>(json).build().unwrap()) {
            Verdict::Reply(reply) => format!("{} {}", reply.status, String::from_utf8(reply.fields).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn preflights_of_known_origins_are_allowed() {
        let said = preflight(SHOP, "https://shop.test");
        for line in [
            "204 Vary: Origin, ",
            "Access-Control-Allow-Origin: https://shop.test\r\n",
            "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE\r\n",
            "Access-Control-Max-Age: 600\r\n",
            "Access-Control-Allow-Headers: x-a,x-b\r\n",
            "Access-Control-Allow-Credentials: true\r\n",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert!(!said.contains("Private"));
        assert!(preflight(r#"{"origins": "*"}"#, "https://any.test").contains("Allow-Origin: *\r\n"));
    }

    #[test]
    fn strangers_are_told_nothing() {
        for origin in [
            "https://evil.test",
            "http://shop.test",
            "https://shop.test.evil.test",
            "https://evilshop.test",
            "https://a.shop.test",
            "https://.shop.test:8443",
            "https://evil.test/.shop.test:8443",
            "null",
        ] {
            assert!(!preflight(SHOP, origin).contains("Allow-Origin"), "{origin}");
        }
        assert!(
            preflight(SHOP, "https://a.b.shop.test:8443")
                .contains("Allow-Origin: https://a.b.shop.test:8443")
        );
    }

    #[test]
    fn responses_say_who_may_read_them() {
        let filter = built::<CorsSpec>(SHOP).build().unwrap();
        let answered = |origin: Option<&str>| {
            let mut asked =
                origin.into_iter().fold(Asked::at("/"), |asked, origin| asked.with("Origin", origin));
            asked.response = b"Access-Control-Allow-Origin: *\r\nVary: Accept\r\n".to_vec();
            assert!(matches!(asked.send(&*filter), Verdict::Continue));
            asked.answer(&*filter);
            asked.response_lines()
        };
        assert_eq!(
            answered(Some("https://shop.test")),
            "Vary: Accept\r\nVary: Origin\r\nAccess-Control-Allow-Origin: https://shop.test\r\n\
             Access-Control-Allow-Credentials: true\r\nAccess-Control-Expose-Headers: X-Total\r\n"
        );
        assert_eq!(answered(Some("https://evil.test")), "Vary: Accept\r\nVary: Origin\r\n");
        assert_eq!(answered(None), "Vary: Accept\r\nVary: Origin\r\n");
    }

    #[test]
    fn dangerous_and_wrong_words_are_refused() {
        for (json, part) in [
            (r#"{"origins": "*", "allow_credentials": true}"#, "act as the user"),
            (r#"{"origins": "shop.test"}"#, "no origin"),
            (r#"{"origins": "https://shop.test/"}"#, "without a path"),
            (r#"{"origins": "null"}"#, "sandboxed"),
            (r#"{"origins": []}"#, "empty"),
            (r#"{"origins": "*", "max_age": "2d"}"#, "0s to 1d"),
            (r#"{"origins": "*", "methods": "GET,PUT"}"#, "no method"),
        ] {
            let error = built::<CorsSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
