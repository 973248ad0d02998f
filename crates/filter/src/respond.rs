//! `respond: 404`, `respond: "hello"` or a map: answers itself, and the request goes nowhere.

use crate::headers::{checked_name, checked_value};
use crate::{Escape, Filter, Hooks, Reply, RequestCx, Template, TemplateSpec, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is answered: a status, a text, or a map with more.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a status such as `404`, a text, or a map with `status` and `body`")]
pub enum RespondSpec {
    /// A status without a body.
    Status(u16),
    /// A text with status 200.
    Text(TemplateSpec),
    /// With more.
    Long(RespondMapSpec),
}

/// What is answered.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields, default, expecting = "a map with `status`, `body`, `content_type`, `headers`")]
pub struct RespondMapSpec {
    /// 200 to 599.
    #[schemars(extend("x-default" = 200))]
    status: Option<u16>,
    /// The body, with placeholders.
    #[schemars(extend("x-default-words" = "none"))]
    body: Option<TemplateSpec>,
    /// The type of the body.
    #[schemars(extend("x-default-words" = "`application/json` or `text/html` where the body looks like it, else `text/plain`"))]
    content_type: Option<String>,
    /// Fields of the answer, with placeholders.
    #[schemars(extend("x-default-words" = "none"))]
    headers: BTreeMap<String, TemplateSpec>,
}

impl RespondSpec {
    /// Checks what is answered.
    ///
    /// # Errors
    /// The status is none, a text or name is wrong, or the status has no body and one is written.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let long = match self {
            Self::Status(status) => RespondMapSpec { status: Some(*status), ..RespondMapSpec::default() },
            Self::Text(body) => RespondMapSpec { body: Some(body.clone()), ..RespondMapSpec::default() },
            Self::Long(long) => long.clone(),
        };
        if long.status.is_none() && long.body.is_none() && long.headers.is_empty() {
            return Err("`respond` says nothing; write `status` or `body`".into());
        }
        let status = long.status.unwrap_or(200);
        if !(200..600).contains(&status) {
            return Err(format!("`{status}` is no status of an answer; write a number from 200 to 599"));
        }
        let body = long.body.as_ref().map(TemplateSpec::build).transpose()?;
        if matches!(status, 204 | 205 | 304) && body.is_some() {
            return Err(format!("an answer with status {status} has no body (RFC 9110 §15)"));
        }
        let content_type = long.content_type.clone().unwrap_or_else(|| content_type(body.as_ref()).into());
        let escape = match () {
            () if content_type.contains("html") || content_type.contains("xml") => Escape::Html,
            () if content_type.contains("json") => Escape::Json,
            () => Escape::Field,
        };
        let fields =
            long.headers.iter().map(|(name, value)| Ok((checked_name(name)?, checked_value(value)?)));
        let fields = fields.collect::<Result<Vec<_>, String>>()?;
        Ok(Arc::new(Respond { status, body, content_type, escape, fields }))
    }
}

/// The type that a body looks like.
fn content_type(body: Option<&Template>) -> &'static str {
    let text = body.map(Template::as_str).unwrap_or_default().trim_start();
    match () {
        () if text.starts_with("<!") || text.starts_with("<html") => "text/html; charset=utf-8",
        () if text.starts_with("{{\"") || text.starts_with("[{{") => "application/json",
        () => "text/plain; charset=utf-8",
    }
}

#[derive(Debug)]
struct Respond {
    status: u16,
    body: Option<Template>,
    content_type: String,
    /// For placeholders in the body.
    escape: Escape,
    fields: Vec<(Box<str>, Template)>,
}

impl Filter for Respond {
    fn name(&self) -> &'static str {
        "respond"
    }

    fn argument(&self) -> String {
        match &self.body {
            None => self.status.to_string(),
            Some(text) => format!("{} with {} bytes", self.status, text.as_str().len()),
        }
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn captures(&self) -> Vec<String> {
        let all = self.fields.iter().map(|(_, template)| template).chain(&self.body);
        all.flat_map(Template::captures).map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let mut values = cx.values();
        values.status = Some(self.status);
        let reply = Reply::new(self.status);
        let reply = match &self.body {
            None => reply,
            Some(text) => {
                let mut out = Vec::new();
                text.render(&values, self.escape, &mut out);
                reply.body(&self.content_type, out)
            }
        };
        let fields = self.fields.iter();
        Verdict::Reply(Box::new(
            fields.fold(reply, |reply, (name, value)| reply.field(name, &value.field(&values))),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplyBody;
    use crate::tests::{Asked, built};

    fn answer(json: &str) -> (u16, String, String) {
        let mut asked = Asked::at("/a").with("X-Name", "<b>\"x\"");
        let Verdict::Reply(reply) = asked.send(&*built::<RespondSpec>(json).build().unwrap()) else {
            panic!("no reply")
        };
        let body = match &reply.body {
            ReplyBody::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => String::new(),
        };
        (reply.status, String::from_utf8(reply.fields).unwrap(), body)
    }

    #[test]
    fn answers_have_status_type_fields_and_body() {
        for (json, status, lines, body) in [
            ("404", 404, "", ""),
            (r#""hello {path}""#, 200, "Content-Type: text/plain; charset=utf-8\r\n", "hello /a"),
            (
                r#"{"body": "<!doctype html>{header.x-name}", "status": 418}"#,
                418,
                "Content-Type: text/html; charset=utf-8\r\n",
                "<!doctype html>&lt;b&gt;&quot;x&quot;",
            ),
            (
                r#"{"body": "{{\"name\": \"{header.x-name}\"}}"}"#,
                200,
                "Content-Type: application/json\r\n",
                "{\"name\": \"<b>\\\"x\\\"\"}",
            ),
            (
                r#"{"status": 503, "headers": {"Retry-After": "5", "X-S": "{status}"}}"#,
                503,
                "Retry-After: 5\r\nX-S: 503\r\n",
                "",
            ),
        ] {
            assert_eq!(answer(json), (status, lines.to_owned(), body.to_owned()), "{json}");
        }
    }

    #[test]
    fn wrong_answers_are_refused() {
        for (json, part) in [
            ("99", "200 to 599"),
            ("101", "200 to 599"),
            (r#"{"status": 304, "body": "x"}"#, "has no body"),
            (r#"{"content_type": "text/html"}"#, "says nothing"),
            (r#"{"headers": {"Content-Length": "1"}}"#, "the proxy's own"),
        ] {
            let error = built::<RespondSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
