//! `error_pages: { pages: { 404: { html: … } } }`: answers errors with pages of its own.
//!
//! Which answers: those that the proxy gives because of a fault, those of filters that have no body, and with
//! `upstream: true` those of endpoints. The status stays, and so do fields that are not about the body. gRPC has errors
//! of its own, which stay as they are.

use crate::cors::vary;
use crate::template::FILE_LENGTH;
use crate::{
    ConfigFiles, FieldView, Filter, Hooks, OwnPage, PageForm, Reply, ResponseCx, StatusSpec, Template,
    TemplateSpec, may_be_changed,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages by status, and whose errors are answered with them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `pages` and `upstream`")]
pub struct ErrorPagesSpec {
    /// Pages by status, `404`, or class, `5xx`; the status wins.
    #[schemars(extend("x-default-words" = "the proxy's own, for all errors"))]
    pages: BTreeMap<String, ErrorPageSpec>,
    /// Whether errors of endpoints are answered too.
    #[schemars(extend("x-default" = false))]
    upstream: bool,
}

/// A page in the forms that clients ask for. Another form, and one of which nothing is written, is the proxy's own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `html`, `json`, `problem` and `text`")]
pub(crate) struct ErrorPageSpec {
    /// For people.
    #[schemars(extend("x-default-words" = "the proxy's own"))]
    html: Option<PageTextSpec>,
    /// `application/json`.
    #[schemars(extend("x-default-words" = "`problem`"))]
    json: Option<PageTextSpec>,
    /// `application/problem+json` (RFC 9457).
    #[schemars(extend("x-default-words" = "the proxy's own"))]
    problem: Option<PageTextSpec>,
    /// `text/plain`.
    #[schemars(extend("x-default-words" = "the proxy's own"))]
    text: Option<PageTextSpec>,
}

/// A text with placeholders, or a file that has it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, or a map with `file`")]
pub(crate) enum PageTextSpec {
    /// The text.
    Text(TemplateSpec),
    /// A file.
    File(PageFileSpec),
}

/// A file with a text.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `file`")]
pub(crate) struct PageFileSpec {
    /// The file. A relative path begins at the directory of the file in which it is written. Braces that hold no
    /// placeholder stand for themselves.
    #[schemars(extend("x-api" = "reference"))]
    file: String,
}

impl PageTextSpec {
    fn build(&self, files: &dyn ConfigFiles) -> Result<Template, String> {
        match self {
            Self::Text(text) => text.build(),
            Self::File(PageFileSpec { file }) => template_of(file, files),
        }
    }
}

/// The text of a file, with placeholders.
pub(crate) fn template_of(file: &str, files: &dyn ConfigFiles) -> Result<Template, String> {
    let bytes = files.read(file, FILE_LENGTH)?;
    let text = str::from_utf8(&bytes).map_err(|_| format!("the file `{file}` is not text in UTF-8"))?;
    Template::parse_file(text).map_err(|error| format!("the file `{file}`: {error}"))
}

impl ErrorPagesSpec {
    /// Checks statuses, reads files and compiles the texts.
    ///
    /// # Errors
    /// A status is none of an error, a file cannot be read, or a text is wrong.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        let mut pages = Vec::new();
        for (status, page) in &self.pages {
            let (from, to) = StatusSpec::Text(status.clone()).build()?;
            if from < 400 || status.starts_with('0') {
                return Err(format!(
                    "`{status}` is no error; write a status from 400 to 599, or `4xx` or `5xx`"
                ));
            }
            let mut texts = Vec::new();
            for (form, text) in page.texts() {
                texts.push((form, text.build(files)?));
            }
            pages.push(Page { from, to, texts });
        }
        // A single status stands before its class.
        pages.sort_by_key(|page| page.to - page.from);
        if pages.is_empty() {
            pages.push(Page { from: 400, to: 599, texts: Vec::new() });
        }
        Ok(Arc::new(ErrorPages { pages, of_upstream: self.upstream }))
    }
}

impl ErrorPageSpec {
    fn texts(&self) -> impl Iterator<Item = (PageForm, &PageTextSpec)> {
        let Self { html, json, problem, text } = self;
        let forms = [PageForm::Html, PageForm::Json, PageForm::Problem, PageForm::Text];
        let texts = [html, json, problem, text].into_iter().map(Option::as_ref);
        forms.into_iter().zip(texts).filter_map(|(form, text)| Some((form, text?)))
    }
}

#[derive(Debug)]
struct Page {
    /// Statuses, the last one among them.
    from: u16,
    to: u16,
    /// What is written; where that is nothing, the proxy's own page stands in every form.
    texts: Vec<(PageForm, Template)>,
}

impl Page {
    fn text(&self, form: PageForm) -> Option<&Template> {
        self.texts.iter().find(|(known, _)| *known == form).map(|(_, text)| text)
    }
}

#[derive(Debug)]
struct ErrorPages {
    pages: Vec<Page>,
    of_upstream: bool,
}

impl ErrorPages {
    /// The page in place of a response, if there is to be one.
    fn page(&self, cx: &ResponseCx<'_>) -> Option<&Page> {
        let is_taken = match cx.is_upstream {
            true => self.of_upstream,
            // An answer of a filter that has a body is what somebody has written.
            false => cx.fault.is_some() || cx.content_length == Some(0),
        };
        let is_grpc = cx.request.get("Content-Type").is_some_and(|kind| {
            kind.get(..16).is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/grpc"))
        });
        let mut fitting = self.pages.iter().filter(|page| (page.from..=page.to).contains(&cx.status));
        fitting.next().filter(|_| is_taken && !is_grpc)
    }
}

/// Whether a field is not about the body: it is true of a page in the place of the body too.
fn stays(name: &[u8]) -> bool {
    const GO: &[&str] =
        &["Date", "Age", "ETag", "Last-Modified", "Accept-Ranges", "Digest", "Repr-Digest", "X-Request-Id"];
    let Ok(name) = str::from_utf8(name) else { return false };
    let begins = |with: &str| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    let is_of_body = begins("Content-") && !begins("Content-Security-Policy");
    may_be_changed(name) && !is_of_body && !GO.iter().any(|gone| gone.eq_ignore_ascii_case(name))
}

/// The lines of the fields that stay.
fn kept(fields: FieldView<'_>, reply: Reply) -> Reply {
    let staying = fields.iter().filter(|(name, _)| stays(name));
    staying.fold(reply, |reply, (name, value)| match str::from_utf8(name) {
        Ok(name) => reply.field(name, value),
        Err(_) => reply,
    })
}

impl Filter for ErrorPages {
    fn name(&self) -> &'static str {
        "error_pages"
    }

    fn argument(&self) -> String {
        let pages = self.pages.iter().map(|page| {
            let status = match page.to - page.from {
                0 => page.from.to_string(),
                99 => format!("{}xx", page.from / 100),
                _ => "all errors".to_owned(),
            };
            let bytes: usize = page.texts.iter().map(|(_, text)| text.as_str().len()).sum();
            if bytes == 0 { status } else { format!("{status} with {bytes} bytes") }
        });
        let pages = pages.collect::<Vec<_>>().join(", ");
        if self.of_upstream { format!("{pages}, also of endpoints") } else { pages }
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESPONSE
    }

    fn captures(&self) -> Vec<String> {
        let texts = self.pages.iter().flat_map(|page| &page.texts);
        texts.flat_map(|(_, text)| text.captures()).map(str::to_owned).collect()
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Some(page) = self.page(cx) else { return };
        let is_own = page.texts.is_empty();
        let accept = cx.request.as_sent("Accept");
        let form = PageForm::wanted_among(accept, |form| page.text(form).is_some());
        let (media_type, body) = match page.text(form) {
            Some(text) => {
                let mut out = Vec::new();
                text.render(&cx.values(), form.escape(), &mut out);
                (form.media_type(), out)
            }
            // What an endpoint says in this form is better than what the proxy could.
            None if cx.is_upstream && !is_own => return,
            None => {
                let (fault, id) = (cx.values().fault, cx.facts.request_id);
                let request_id = id.as_ref().map(|id| id.as_bytes());
                OwnPage { status: cx.status, fault, request_id }.written(form)
            }
        };
        vary(&mut cx.fields, "Accept");
        let reply = kept(cx.fields.view(), Reply::new(cx.status));
        cx.replace(reply.body(media_type, body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplyBody;
    use crate::tests::{Asked, Beside, built};
    use thalweg_core::{Fault, FaultKind};

    const PAGES: &str = r#"{"pages": {"404": {"html": "<!doctype html><h1>{status} {reason} {path} {header.x}"},
        "5xx": {"html": "<p>{fault.detail}", "json": "{{\"why\": \"{fault.detail}\", \"x\": \"{header.x}\"}}"}}"#;

    struct Answer {
        lines: String,
        body: String,
    }

    fn asked(accept: &str, status: u16) -> Asked {
        let mut asked = Asked::at("/<a>").with("Accept", accept).with("X", "\"<i>");
        asked.response =
            b"Retry-After: 5\r\nContent-Type: text/plain\r\nETag: \"x\"\r\nX-Request-Id: 1\r\n".to_vec();
        (asked.status, asked.is_upstream, asked.response_length) = (status, false, Some(9));
        asked
    }

    fn answer(json: &str, asked: &mut Asked) -> Option<Answer> {
        let filter = built::<ErrorPagesSpec>(json).build(&Beside("/".into())).unwrap();
        let reply = asked.answer(&*filter).replaced?;
        assert_eq!(reply.status, asked.status);
        let ReplyBody::Bytes(body) = &reply.body else { panic!("no body") };
        let body = String::from_utf8(body.to_vec()).unwrap();
        Some(Answer { lines: String::from_utf8(reply.fields).unwrap(), body })
    }

    fn fault() -> Option<Fault> {
        Some(Fault::new(FaultKind::ConnectionRefused, "it \"refused\""))
    }

    #[test]
    fn the_page_of_the_status_comes_in_the_form_that_is_asked_for() {
        let json = &format!("{PAGES}}}");
        let mut none = asked("text/html", 404);
        none.fault = fault();
        let page = answer(json, &mut none).unwrap();
        assert_eq!(page.body, "<!doctype html><h1>404 Not Found /&lt;a&gt; &quot;&lt;i&gt;");
        assert_eq!(
            page.lines,
            "Retry-After: 5\r\nVary: Accept\r\nContent-Type: text/html; charset=utf-8\r\n"
        );
        for (accept, part, media_type) in [
            ("text/html", "<p>it &quot;refused&quot;", "text/html"),
            ("application/json", "{\"why\": \"it \\\"refused\\\"\", \"x\": \"\\\"<i>\"}", "application/json"),
            ("application/problem+json", "{\"why\"", "application/json"),
            ("*/*", "<p>it", "text/html"),
            ("text/plain", "503 Service Unavailable: it", "text/plain"),
        ] {
            let mut asked = asked(accept, 503);
            asked.fault = fault();
            let page = answer(json, &mut asked).unwrap();
            assert!(page.body.starts_with(part), "{accept}: {}", page.body);
            assert!(page.lines.contains(&format!("Content-Type: {media_type}")), "{}", page.lines);
            asked.tells_details = false;
            assert!(!answer(json, &mut asked).unwrap().body.contains("refused"), "{accept}");
        }
    }

    #[test]
    fn answers_that_somebody_has_written_stay() {
        let (own, of_endpoints) = (format!("{PAGES}}}"), format!("{PAGES}, \"upstream\": true}}"));
        let mut with_body = asked("text/html", 404);
        assert!(answer(&own, &mut with_body).is_none());
        with_body.response_length = Some(0);
        assert!(answer(&own, &mut with_body).is_some());
        for (status, accept, is_replaced) in
            [(404, "text/html", true), (404, "application/json", false), (403, "text/html", false)]
        {
            let mut of_endpoint = asked(accept, status);
            of_endpoint.is_upstream = true;
            assert!(answer(&own, &mut of_endpoint).is_none());
            assert_eq!(answer(&of_endpoints, &mut of_endpoint).is_some(), is_replaced, "{status} {accept}");
        }
        let mut call = asked("text/html", 404).with("Content-Type", "application/grpc+proto");
        call.fault = fault();
        assert!(answer(&own, &mut call).is_none());
    }

    #[test]
    fn without_pages_all_errors_get_the_proxys_own() {
        for (status, is_replaced) in [(200, false), (302, false), (418, true), (599, true)] {
            let mut asked = asked("application/json", status);
            asked.is_upstream = true;
            let answer = answer(r#"{"upstream": true}"#, &mut asked);
            assert_eq!(answer.is_some(), is_replaced, "{status}");
            if let Some(answer) = answer {
                assert!(answer.lines.contains("Content-Type: application/problem+json"));
                assert!(answer.body.contains("\"request_id\":\"id-1\""), "{}", answer.body);
            }
        }
    }

    #[test]
    fn fields_of_the_body_go_and_others_stay() {
        for name in
            ["Retry-After", "WWW-Authenticate", "Allow", "Set-Cookie", "Content-Security-Policy", "Vary"]
        {
            assert!(stays(name.as_bytes()), "{name}");
        }
        for name in
            ["content-type", "Content-Encoding", "ETAG", "Content-Length", "Connection", "Date", "Age"]
        {
            assert!(!stays(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn pages_may_stand_in_files_and_wrong_ones_are_refused() {
        let dir = std::env::temp_dir().join(format!("thalweg-error-pages-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("good.html"), "<style>p{color:red}</style><p>{status}").unwrap();
        std::fs::write(dir.join("bad.html"), "<p>{stauts}").unwrap();
        let build = |json: &str| built::<ErrorPagesSpec>(json).build(&Beside(dir.clone()));
        let filter = build(r#"{"pages": {"404": {"html": {"file": "good.html"}}}}"#).unwrap();
        let mut none = asked("text/html", 404);
        none.fault = fault();
        let reply = none.answer(&*filter).replaced.unwrap();
        let ReplyBody::Bytes(body) = &reply.body else { panic!("no body") };
        assert_eq!(&body[..], b"<style>p{color:red}</style><p>404");
        for (json, part) in [
            (r#"{"pages": {"404": {"html": {"file": "bad.html"}}}}"#, "bad.html`: there is no placeholder"),
            (r#"{"pages": {"404": {"html": {"file": "none.html"}}}}"#, "No such file"),
            (r#"{"pages": {"200": {}}}"#, "no error"),
            (r#"{"pages": {"3xx": {}}}"#, "no error"),
            (r#"{"pages": {"4x": {}}}"#, "no status"),
            (r#"{"pages": {"404": {"text": "{x}"}}}"#, "no placeholder"),
        ] {
            let error = build(json).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
