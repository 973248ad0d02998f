//! `respond: 404`, `respond: "hello"` or a map: answers itself, and the request goes nowhere.

use crate::error_pages::template_of;
use crate::files::media_type::media_type;
use crate::headers::{checked_name, checked_value};
use crate::{ConfigFiles, Escape, Filter, Hooks, Reply, RequestCx, Template, TemplateSpec, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a file that may be the body.
const FILE: usize = 1024 * 1024;

/// What is answered: a status, a text, or a map with more.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum RespondSpec {
    /// A status without a body.
    Status(u16),
    /// A text with status 200.
    Text(TemplateSpec),
    /// With more.
    Long(RespondMapSpec),
}

crate::shape::by_shape!(RespondSpec, "a status such as `404`, a text, or a map with `status` and `body`", { number => Status, text => Text, map => Long });

/// What is answered.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a map with `status`, `body` or `file`, `content_type`, `headers`"
)]
pub struct RespondMapSpec {
    /// 200 to 599.
    #[schemars(extend("x-default" = 200))]
    status: Option<u16>,
    /// The body, with placeholders.
    #[schemars(extend("x-default-words" = "none"))]
    body: Option<TemplateSpec>,
    /// A file whose bytes are the body, up to 1 MiB; `files` serves more. It is read with the configuration. A relative
    /// path begins at the directory of the file in which it is written.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    file: Option<String>,
    /// Whether placeholders are filled in the file, a text of up to 256 KiB; braces that hold none stand for
    /// themselves.
    #[schemars(extend("x-default" = false))]
    template: bool,
    /// The type of the body.
    #[schemars(extend("x-default-words" = "that of the file's name; `application/json` or `text/html` where a body looks like it, else `text/plain`"))]
    content_type: Option<String>,
    /// Fields of the answer, with placeholders.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-named" = true))]
    headers: BTreeMap<String, TemplateSpec>,
}

impl RespondSpec {
    /// Checks what is answered.
    ///
    /// # Errors
    /// The status is none, a text or name is wrong, or the status has no body and one is written.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        let long = match self {
            Self::Status(status) => RespondMapSpec { status: Some(*status), ..RespondMapSpec::default() },
            Self::Text(body) => RespondMapSpec { body: Some(body.clone()), ..RespondMapSpec::default() },
            Self::Long(long) => long.clone(),
        };
        let has_body = long.body.is_some() || long.file.is_some();
        if long.status.is_none() && !has_body && long.headers.is_empty() {
            return Err("`respond` says nothing; write `status`, `body` or `file`".into());
        }
        let status = long.status.unwrap_or(200);
        if !(200..600).contains(&status) {
            return Err(format!("`{status}` is no status of an answer; write a number from 200 to 599"));
        }
        if matches!(status, 204 | 205 | 304) && has_body {
            return Err(format!("an answer with status {status} has no body (RFC 9110 §15)"));
        }
        let body = long.content(files)?;
        let content_type = match (&long.content_type, &long.file) {
            (Some(written), _) => written.clone(),
            (None, Some(file)) => media_type(file.as_bytes(), "utf-8"),
            (None, None) => content_type(&body).into(),
        };
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

impl RespondMapSpec {
    /// What is answered, from the text or the file.
    fn content(&self, files: &dyn ConfigFiles) -> Result<Content, String> {
        match (&self.body, &self.file) {
            (Some(_), Some(_)) => Err("`respond` has `body` and `file`; write one of them".into()),
            (None, None) | (Some(_), None) if self.template => {
                Err("`template` is for `file`; a `body` has placeholders anyway".into())
            }
            (None, None) => Ok(Content::None),
            (Some(body), None) => Ok(Content::Text(body.build()?)),
            (None, Some(file)) if self.template => Ok(Content::Text(template_of(file, files)?)),
            (None, Some(file)) => Ok(Content::Bytes(files.read(file, FILE)?.into())),
        }
    }
}

/// The type that a body looks like.
fn content_type(body: &Content) -> &'static str {
    let Content::Text(text) = body else { return "text/plain; charset=utf-8" };
    let text = text.as_str().trim_start();
    match () {
        () if text.starts_with("<!") || text.starts_with("<html") => "text/html; charset=utf-8",
        () if text.starts_with("{{\"") || text.starts_with("[{{") => "application/json",
        () => "text/plain; charset=utf-8",
    }
}

/// What is in the body.
#[derive(Debug)]
enum Content {
    None,
    Text(Template),
    Bytes(Arc<[u8]>),
}

#[derive(Debug)]
struct Respond {
    status: u16,
    body: Content,
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
            Content::None => self.status.to_string(),
            Content::Text(text) => format!("{} with {} bytes", self.status, text.as_str().len()),
            Content::Bytes(bytes) => format!("{} with {} bytes of a file", self.status, bytes.len()),
        }
    }

    /// A response with an error status refuses requests.
    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn answers(&self) -> bool {
        true
    }

    fn captures(&self) -> Vec<String> {
        let body = if let Content::Text(text) = &self.body { Some(text) } else { None };
        let all = self.fields.iter().map(|(_, template)| template).chain(body);
        all.flat_map(Template::captures).map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let mut values = cx.values();
        values.status = Some(self.status);
        let reply = Reply::new(self.status);
        let reply = match &self.body {
            Content::None => reply,
            Content::Bytes(bytes) => reply.body(&self.content_type, bytes.clone()),
            Content::Text(text) => {
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
    use crate::tests::{Asked, Beside, built};

    fn answer(json: &str) -> (u16, String, String) {
        let mut asked = Asked::at("/a").with("X-Name", "<b>\"x\"");
        let Verdict::Reply(reply) =
            asked.send(&*built::<RespondSpec>(json).build(&Beside(std::env::temp_dir())).unwrap())
        else {
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
    fn files_are_sent_as_they_are_or_as_texts_with_placeholders() {
        let dir = std::env::temp_dir().join(format!("thalweg-respond-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("a.html"), "<p>{path} {x y}").unwrap();
        std::fs::write(dir.join("b.json"), b"{\"a\": 1, \"b\": \"{status}\"}").unwrap();
        std::fs::write(dir.join("bad.txt"), "{stauts}").unwrap();
        std::fs::write(dir.join("large"), vec![0; FILE + 1]).unwrap();
        let build = |json: &str| built::<RespondSpec>(json).build(&Beside(dir.clone()));
        for (json, lines, expected) in [
            (r#"{"file": "a.html"}"#, "Content-Type: text/html; charset=utf-8\r\n", "<p>{path} {x y}"),
            (
                r#"{"file": "a.html", "template": true, "content_type": "text/html"}"#,
                "Content-Type: text/html\r\n",
                "<p>/a {x y}",
            ),
            (
                r#"{"file": "b.json", "template": true}"#,
                "Content-Type: application/json\r\n",
                "{\"a\": 1, \"b\": \"200\"}",
            ),
        ] {
            let Verdict::Reply(reply) = Asked::at("/a").send(&*build(json).unwrap()) else {
                panic!("no reply")
            };
            let ReplyBody::Bytes(bytes) = &reply.body else { panic!("no body") };
            assert_eq!(std::str::from_utf8(bytes).unwrap(), expected, "{json}");
            assert_eq!(std::str::from_utf8(&reply.fields).unwrap(), lines, "{json}");
        }
        for (json, part) in [
            (r#"{"file": "none"}"#, "No such file"),
            (r#"{"file": "large"}"#, "too large"),
            (r#"{"file": "bad.txt", "template": true}"#, "bad.txt`: there is no placeholder `{stauts}`"),
            (r#"{"file": "a.html", "body": "x"}"#, "write one of them"),
            (r#"{"status": 404, "template": true}"#, "is for `file`"),
            (r#"{"file": "a.html", "status": 304}"#, "has no body"),
        ] {
            let error = build(json).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
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
            let error = built::<RespondSpec>(json).build(&Beside(std::env::temp_dir())).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
