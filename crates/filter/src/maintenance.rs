//! `maintenance: { on: true }`: while it is on, clients get 503 with a page and the time to come back.
//!
//! It is turned on and off in the configuration or through the admin API (`PATCH
//! /api/v1/routes/{route}/maintenance`), which replaces the filter in the plan: nothing here changes while it runs.

use crate::{
    Escape, Filter, Hooks, OneOrManySpec, PageForm, Reply, RequestCx, Template, TemplateSpec, Verdict,
};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::units::{duration_text, parse_duration};

/// When clients may come back, where nothing is written.
const RETRY_AFTER: Duration = Duration::from_secs(300);
/// The longest such time.
const LATEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The page, where nothing is written.
const PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Maintenance</title>\
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;margin:20vh auto;max-width:34rem;padding:0 1rem;color:#222}}\
@media(prefers-color-scheme:dark){{body{{background:#111;color:#ddd}}}}</style>\
<h1>Down for maintenance</h1><p>We are working on {host} and will be back soon.</p></html>\n";

/// What programs get.
const PROBLEM: &[u8] = b"{\"type\":\"about:blank\",\"status\":503,\"title\":\"Service Unavailable\",\
\"detail\":\"down for maintenance\"}\n";

/// Who gets the page, and what it says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `on`, `allow`, `retry_after` and `body`")]
pub struct MaintenanceSpec {
    /// Whether it is on; what was set through the admin API wins.
    #[schemars(extend("x-default" = false))]
    on: bool,
    /// Networks of clients that pass, `10.0.0.0/8`, one or a list.
    #[schemars(extend("x-default-words" = "none"))]
    allow: Option<OneOrManySpec<String>>,
    /// When clients may come back (`Retry-After`), whole seconds.
    #[schemars(extend("x-range" = ["1s", "30d"], "x-default" = "5m"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5m", "1h"]))]
    retry_after: Option<String>,
    /// The page for browsers, HTML, with placeholders. Other clients get a problem document (RFC 9457) or text, as
    /// their `Accept` says.
    #[schemars(extend("x-default-words" = "a small page"))]
    body: Option<TemplateSpec>,
}

impl MaintenanceSpec {
    /// Checks networks, time and page.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let allow = self.allow.as_ref().map(OneOrManySpec::as_slice).unwrap_or_default();
        let allow = allow.iter().map(|text| network(text)).collect::<Result<Vec<_>, _>>()?;
        let retry_after = self.retry_after.as_deref().map_or(Ok(RETRY_AFTER), parse_duration)?;
        if retry_after < Duration::from_secs(1) || retry_after > LATEST || retry_after.subsec_nanos() != 0 {
            return Err("`retry_after` must be from 1s to 30d, in whole seconds".into());
        }
        let page = self.body.as_ref().map_or_else(|| Template::parse(PAGE), TemplateSpec::build)?;
        let terms = Terms { allow, retry_after, page };
        Ok(Arc::new(Maintenance { is_on: self.on, terms: Arc::new(terms) }))
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or(address).map_err(|_| {
        format!(
            "`{text}` is not a network; write an address with the length of its prefix, such as `10.0.0.0/8`"
        )
    })
}

#[derive(Debug)]
struct Terms {
    allow: Vec<IpNet>,
    retry_after: Duration,
    page: Template,
}

#[derive(Debug)]
struct Maintenance {
    is_on: bool,
    terms: Arc<Terms>,
}

impl Filter for Maintenance {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn argument(&self) -> String {
        let Terms { allow, retry_after, page } = &*self.terms;
        let mut words = vec![if self.is_on { "on" } else { "off" }.to_owned()];
        words.push(format!("retry after {}", duration_text(*retry_after)));
        if !allow.is_empty() {
            let networks: Vec<String> = allow.iter().map(IpNet::to_string).collect();
            words.push(format!("not for {}", networks.join(" ")));
        }
        if page.as_str() != PAGE {
            words.push(format!("page of {} bytes", page.as_str().len()));
        }
        words.join(", ")
    }

    fn restricts(&self) -> bool {
        self.is_on
    }

    fn hooks(&self) -> Hooks {
        if self.is_on { Hooks::REQUEST } else { Hooks::NONE }
    }

    fn captures(&self) -> Vec<String> {
        self.terms.page.captures().map(str::to_owned).collect()
    }

    fn is_on(&self) -> Option<bool> {
        Some(self.is_on)
    }

    fn switched(&self, on: bool) -> Option<Arc<dyn Filter>> {
        Some(Arc::new(Self { is_on: on, terms: self.terms.clone() }))
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let Terms { allow, retry_after, page } = &*self.terms;
        if allow.iter().any(|network| network.contains(&cx.facts.client_ip)) {
            return Verdict::Continue;
        }
        let seconds = retry_after.as_secs();
        let reply = Reply::new(503)
            .field("Retry-After", seconds.to_string().as_bytes())
            .field("Cache-Control", b"no-store")
            .field("Vary", b"Accept");
        let reply = match PageForm::wanted(cx.fields.view().values("Accept")) {
            PageForm::Html => {
                let mut values = cx.values();
                values.status = Some(503);
                let mut body = Vec::new();
                page.render(&values, Escape::Html, &mut body);
                reply.body("text/html; charset=utf-8", body)
            }
            PageForm::Problem | PageForm::Json => reply.body("application/problem+json", PROBLEM),
            PageForm::Text => reply.body("text/plain; charset=utf-8", &b"Down for maintenance\n"[..]),
        };
        Verdict::Reply(Box::new(reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};
    use crate::{Chain, ReplyBody, Step};

    fn answer(json: &str, accept: &str) -> Option<(String, String)> {
        let mut asked = Asked::at("/").with("Accept", accept);
        match asked.send(&*built::<MaintenanceSpec>(json).build().unwrap()) {
            Verdict::Reply(reply) => {
                let ReplyBody::Bytes(body) = &reply.body else { panic!("no body") };
                assert_eq!(reply.status, 503);
                let lines = String::from_utf8(reply.fields).unwrap();
                Some((lines, String::from_utf8(body.to_vec()).unwrap()))
            }
            _ => None,
        }
    }

    #[test]
    fn the_page_has_the_form_that_is_asked_for() {
        for (accept, kind, part) in [
            ("text/html,*/*;q=0.8", "text/html; charset=utf-8", "We are working on shop.test"),
            ("application/json", "application/problem+json", "\"status\":503"),
            ("text/plain", "text/plain; charset=utf-8", "Down for maintenance"),
        ] {
            let (lines, body) = answer(r#"{"on": true, "retry_after": "1h"}"#, accept).unwrap();
            let common = "Retry-After: 3600\r\nCache-Control: no-store\r\nVary: Accept\r\n";
            assert_eq!(lines, format!("{common}Content-Type: {kind}\r\n"), "{accept}");
            assert!(body.contains(part), "{body}");
        }
        let (_, body) = answer(r#"{"on": true, "body": "<p>{header.accept}"}"#, "text/html, <b>").unwrap();
        assert_eq!(body, "<p>text/html, &lt;b&gt;");
    }

    #[test]
    fn networks_that_are_listed_pass() {
        assert!(answer(r#"{"on": true, "allow": "192.0.2.0/24"}"#, "*/*").is_none());
        assert!(answer(r#"{"on": true, "allow": ["10.0.0.0/8", "192.0.2.2"]}"#, "*/*").is_some());
    }

    #[test]
    fn it_is_turned_on_and_off_and_says_so() {
        let off = built::<MaintenanceSpec>(r#"{"allow": "10.0.0.0/8"}"#).build().unwrap();
        let chain = Chain::new(vec![Step::always(off)]);
        assert!(!chain.has(Hooks::REQUEST) && chain.is_on() == Some(false));
        let on = chain.switched(true);
        assert!(on.has(Hooks::REQUEST) && on.is_on() == Some(true));
        assert_eq!(on.steps()[0].argument(), "on, retry after 5m, not for 10.0.0.0/8");
        assert_eq!(on.switched(false).is_on(), Some(false));
        assert_eq!(Chain::default().is_on(), None);
    }

    #[test]
    fn wrong_terms_are_refused() {
        for (json, part) in [
            (r#"{"allow": "10.0.0.0/99"}"#, "not a network"),
            (r#"{"retry_after": "0s"}"#, "1s to 30d"),
            (r#"{"retry_after": "1500ms"}"#, "whole seconds"),
            (r#"{"body": "{nothing}"}"#, "no placeholder"),
        ] {
            let error = built::<MaintenanceSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
