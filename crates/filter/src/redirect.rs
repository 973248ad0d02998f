//! `redirect: https://www.example.com{path}`: sends clients to another place.
//!
//! The default status is 302: browsers keep a permanent redirect, and with it a mistake. The query of the request goes
//! along unless `keep_query: false`.

use crate::{Filter, Hooks, Reply, RequestCx, Template, TemplateSpec, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_core::{Fault, FaultKind};

/// Where clients are sent: a text, or a map with more.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum RedirectSpec {
    /// The place alone.
    Short(TemplateSpec),
    /// With more.
    Long(RedirectMapSpec),
}

crate::shape::by_shape!(RedirectSpec, "a place such as `https://www.example.com{path}`, or a map with `to`", { text => Short, map => Long });

/// Where clients are sent, and how.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `to`")]
pub struct RedirectMapSpec {
    /// A URL, or a path that begins with `/`; with placeholders. A value stays in its part of the URL: `?` in a path
    /// and `&`, `=`, `+` in a query are escaped, and a value that cannot be part of a host is answered with 400.
    to: TemplateSpec,
    /// 301, 302, 303, 307 or 308 (RFC 9110 §15.4): with 307 and 308 method and body stay; 301 and 308 are kept by
    /// clients.
    #[schemars(extend("x-default" = 302))]
    status: Option<u16>,
    /// Whether the query of the request is added.
    #[schemars(extend("x-default" = true))]
    keep_query: Option<bool>,
}

impl RedirectSpec {
    /// Checks place and status.
    ///
    /// # Errors
    /// The place is none or plainly the same, or the status is no redirect.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let (to, status, keep_query) = match self {
            Self::Short(to) => (to, None, None),
            Self::Long(RedirectMapSpec { to, status, keep_query }) => (to, *status, *keep_query),
        };
        let status = status.unwrap_or(302);
        if !matches!(status, 301 | 302 | 303 | 307 | 308) {
            return Err(format!("`status: {status}` is no redirect; write 301, 302, 303, 307 or 308"));
        }
        let to = to.build()?;
        let text = to.as_str();
        let begins = ["http://", "https://", "/", "{scheme}://", "{path", "{header.", "{query."];
        if !begins.iter().any(|begin| text.starts_with(begin)) {
            return Err(format!(
                "`{text}` is no place; write a URL such as `https://{text}`, or a path that begins with `/`"
            ));
        }
        if matches!(text, "{path}" | "{scheme}://{host}{path}" | "{scheme}://{host}:{port}{path}") {
            return Err(format!("`{text}` is where the request comes from: clients would go in circles"));
        }
        if text.contains(|letter: char| letter.is_control() || letter == ' ') {
            return Err(format!("`{}` has a space or control character", text.escape_debug()));
        }
        Ok(Arc::new(Redirect { to, status, keeps_query: keep_query.unwrap_or(true) }))
    }
}

#[derive(Debug)]
struct Redirect {
    to: Template,
    status: u16,
    keeps_query: bool,
}

impl Filter for Redirect {
    fn name(&self) -> &'static str {
        "redirect"
    }

    fn argument(&self) -> String {
        let query = if self.keeps_query { "" } else { ", without the query" };
        format!("{} {}{query}", self.status, self.to)
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn answers(&self) -> bool {
        true
    }

    fn captures(&self) -> Vec<String> {
        self.to.captures().map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let mut place = Vec::new();
        if !self.to.render_place(&cx.values(), &mut place) {
            return Verdict::Fault(Fault::request(
                400,
                "a value of the request cannot be part of the host of a redirect",
            ));
        }
        if place.starts_with(b"//") && !self.to.as_str().starts_with("//") {
            // What came from the request may not name a host.
            let slashes = place.iter().take_while(|byte| **byte == b'/').count();
            place.drain(..slashes - 1);
        }
        if let (true, Some(query)) = (self.keeps_query, cx.facts.query.filter(|query| !query.is_empty())) {
            place.push(if place.contains(&b'?') { b'&' } else { b'?' });
            place.extend_from_slice(query);
        }
        if is_here(cx, &place) {
            let detail = "a redirect leads to where the request comes from";
            return Verdict::Fault(Fault::new(FaultKind::ProxyLoopDetected, detail));
        }
        Verdict::Reply(Box::new(Reply::new(self.status).field("Location", &place)))
    }
}

/// Whether a place is that of the request.
fn is_here(cx: &RequestCx<'_>, place: &[u8]) -> bool {
    let facts = &cx.facts;
    let rest = match place.strip_prefix(facts.scheme.as_bytes()).and_then(|rest| rest.strip_prefix(b"://")) {
        None => place,
        Some(rest) => {
            let Some(rest) = rest.strip_prefix(facts.host) else { return false };
            let port = format!(":{}", facts.port);
            rest.strip_prefix(port.as_bytes()).unwrap_or(rest)
        }
    };
    let rest = rest.strip_prefix(facts.path);
    rest.is_some_and(|rest| match facts.query.filter(|query| !query.is_empty()) {
        None => rest.is_empty(),
        Some(query) => rest.strip_prefix(b"?").is_some_and(|rest| rest == query),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn location(json: &str, path: &str, query: Option<&str>) -> Result<(u16, String), Fault> {
        let mut asked = Asked::at(path);
        asked.query = query.map(str::to_owned);
        match asked.send(&*built::<RedirectSpec>(json).build().unwrap()) {
            Verdict::Reply(reply) => {
                let lines = String::from_utf8(reply.fields).unwrap();
                Ok((reply.status, lines.strip_prefix("Location: ").unwrap().trim_end().to_owned()))
            }
            Verdict::Fault(fault) => Err(fault),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clients_are_sent_to_the_place_with_their_query() {
        for (json, path, query, expected) in [
            (r#""https://www.test{path}""#, "/a/b", Some("c=d"), (302, "https://www.test/a/b?c=d")),
            (r#"{"to": "/new?x=1", "status": 308}"#, "/a", Some("c=d"), (308, "/new?x=1&c=d")),
            (r#"{"to": "/new", "keep_query": false, "status": 301}"#, "/a", Some("c=d"), (301, "/new")),
            (r#""{scheme}://{host}/x""#, "/a", None, (302, "https://shop.test/x")),
            (r#""{path}/""#, "/a", None, (302, "/a/")),
            (r#""/b?to={query.q}""#, "/a", Some("q=x%0d%0ay"), (302, "/b?to=x%0D%0Ay&q=x%0d%0ay")),
        ] {
            assert_eq!(location(json, path, query).unwrap(), (expected.0, expected.1.to_owned()), "{json}");
        }
    }

    /// A value of the request could end the host, the path or the value of the query in which it stood.
    #[test]
    fn a_value_stays_in_its_part_of_the_place() {
        let to = |to: &str, query: &str| {
            location(&format!(r#"{{"to": "{to}", "keep_query": false}}"#), "/a", Some(query)).map(|it| it.1)
        };
        for host in
            ["evil.test/", "evil.test%23", "evil.test%3f", "a%40evil.test", "evil.test%5c", "a%20b", "%00"]
        {
            for place in
                ["https://{query.t}.shop.test/", "{scheme}://{query.t}.shop.test/", "//{query.t}.shop.test/"]
            {
                assert!(
                    to(place, &format!("t={host}")).is_err_and(|fault| fault.status == 400),
                    "{place} {host}"
                );
            }
        }
        for (place, query, expected) in [
            ("https://{query.t}.shop.test/", "t=eu-1", "https://eu-1.shop.test/"),
            ("https://{host}:{port}/x", "", "https://shop.test:443/x"),
            ("/x?to={query.t}&y=1", "t=a%26admin%3d1%2b%23", "/x?to=a%26admin%3D1%2B%23&y=1"),
            ("/x/{query.t}/y", "t=a%3fb%23c%26d", "/x/a%3Fb%23c&d/y"),
            ("/x?{query}", "a=1&b=2", "/x?a=1&b=2"),
            ("{query.t}", "t=https%3a%2f%2fb.test%2fc%3fd=e", "https://b.test/c?d=e"),
        ] {
            assert_eq!(to(place, query).unwrap(), expected, "{place}");
        }
    }

    #[test]
    fn a_path_with_two_slashes_names_no_host() {
        assert_eq!(location(r#""{path}/""#, "//evil.test", None).unwrap().1, "/evil.test/");
    }

    #[test]
    fn nobody_goes_in_circles() {
        assert!(location(r#""https://shop.test{path}""#, "/a", None).is_err());
        assert!(location(r#""https://shop.test:443/a""#, "/a", Some("x=1")).is_err());
        assert!(location(r#""http://shop.test{path}""#, "/a", None).is_ok());
        for (json, part) in [
            (r#""{path}""#, "in circles"),
            (r#""www.example.com""#, "write a URL such as `https://www.example.com`"),
            (r#"{"to": "/a", "status": 200}"#, "no redirect"),
            (r#""/a b""#, "space"),
        ] {
            let error = built::<RedirectSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
