//! Pages of the proxy's own: the form that a client wants (RFC 9110 §12.5.1), and what stands in each.
//!
//! `proxy` answers with them where it cannot do what was asked, `error_pages` where somebody has written others, and
//! `maintenance`. Whatever a page says is escaped for its form.

use crate::Escape;
use crate::accept::{ELEMENTS, weight};
use std::cmp::Reverse;
use thalweg_core::Fault;
use thalweg_http::h1::encode::reason;
use thalweg_http::octet;

/// The forms of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PageForm {
    /// For people.
    Html,
    /// For programs (RFC 9457).
    Problem,
    /// For programs that ask for any JSON. The proxy's own is a problem.
    Json,
    /// Anything else.
    Text,
}

/// How well a form fits. Compared in this order: the weight, how precisely it is named, whether it is liked, whether
/// it is named itself, and how far in front.
type Rank = (u16, u8, bool, bool, Reverse<usize>);

impl PageForm {
    /// All forms, the one that a client gets which takes any before those that it does not get.
    const ALL: [Self; 4] = [Self::Problem, Self::Html, Self::Json, Self::Text];

    /// The form that the values of `Accept` ask for: that of the largest weight, and of several the one that is named
    /// first. Where all are alike it is a problem, and text where there is no `Accept`.
    pub fn wanted<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::wanted_among(accept, |_| false)
    }

    /// The same; of forms that are alike to the client, one that `is_liked`.
    pub fn wanted_among<'a>(accept: impl Iterator<Item = &'a [u8]>, is_liked: impl Fn(Self) -> bool) -> Self {
        let mut ranks = Self::ALL.map(|form| (0, 0, is_liked(form), false, Reverse(usize::MAX)));
        let mut said_nothing = true;
        for (at, element) in accept.flat_map(octet::list).take(ELEMENTS).enumerate() {
            said_nothing = false;
            let Some((range, weight)) = media_range(element) else { continue };
            for (form, known) in Self::ALL.iter().zip(&mut ranks) {
                let Some((precision, is_named)) = form.matches(&range) else { continue };
                // The most precise range counts, whatever its weight (RFC 9110 §12.5.1).
                if (known.1, known.3) < (precision, is_named) || known.4 == Reverse(usize::MAX) {
                    *known = (weight, precision, known.2, is_named, Reverse(at));
                }
            }
        }
        if said_nothing {
            let liked = Self::ALL.into_iter().find(|form| is_liked(*form));
            return if is_liked(Self::Text) { Self::Text } else { liked.unwrap_or(Self::Text) };
        }
        Self::first_best(&ranks)
    }

    fn first_best(ranks: &[Rank; 4]) -> Self {
        let mut best = 0;
        for at in 1..ranks.len() {
            if ranks[at] > ranks[best] {
                best = at;
            }
        }
        Self::ALL[best]
    }

    /// How precisely a media range in lower case names this form, and whether it is its own name.
    fn matches(self, range: &[u8]) -> Option<(u8, bool)> {
        match (self, range) {
            (_, b"*/*") => Some((0, false)),
            (Self::Html | Self::Text, b"text/*") => Some((1, false)),
            (Self::Problem | Self::Json, b"application/*") => Some((1, false)),
            (Self::Html, b"text/html")
            | (Self::Text, b"text/plain")
            | (Self::Problem, b"application/problem+json")
            | (Self::Json, b"application/json") => Some((2, true)),
            // A problem is JSON, and who reads problems reads JSON.
            (Self::Problem, b"application/json") | (Self::Json, b"application/problem+json") => {
                Some((2, false))
            }
            _ => None,
        }
    }

    /// The value of `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Problem => "application/problem+json",
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    /// How values are written in it.
    pub fn escape(self) -> Escape {
        match self {
            Self::Html => Escape::Html,
            Self::Problem | Self::Json => Escape::Json,
            Self::Text => Escape::Field,
        }
    }
}

/// A media range in lower case without parameters, and its weight; `None`: it cannot be read.
fn media_range(element: &[u8]) -> Option<(Vec<u8>, u16)> {
    let mut parts = element.split(|byte| *byte == b';');
    let range = parts.next()?.trim_ascii().to_ascii_lowercase();
    let mut weights = parts.map(<[u8]>::trim_ascii).filter(|part| matches!(part, [b'q' | b'Q', b'=', ..]));
    Some((range, weights.next().map_or(Some(1000), weight)?))
}

/// An answer of the proxy's own, in every form.
#[derive(Clone, Copy, Debug)]
pub struct OwnPage<'a> {
    /// The status.
    pub status: u16,
    /// Why, where the client may know it.
    pub fault: Option<Fault>,
    /// The id of the request, where the client may know it.
    pub request_id: Option<&'a [u8]>,
}

impl OwnPage<'_> {
    /// The type and the bytes of the page.
    pub fn written(&self, form: PageForm) -> (&'static str, Vec<u8>) {
        let mut out = Vec::with_capacity(256);
        match form {
            PageForm::Html => self.write_html(&mut out),
            PageForm::Problem | PageForm::Json => self.write_problem(&mut out),
            PageForm::Text => self.write_text(&mut out),
        }
        out.push(b'\n');
        let media_type = if form == PageForm::Json { PageForm::Problem } else { form }.media_type();
        (media_type, out)
    }

    fn write_text(&self, out: &mut Vec<u8>) {
        let Self { status, fault, request_id } = self;
        put(out, [&status.to_string(), " ", reason(*status)]);
        if let Some(fault) = fault {
            put(out, [": ", fault.detail, " (", fault.kind.name(), ")"]);
        }
        if let Some(id) = request_id {
            put(out, ["; request "]);
            out.extend_from_slice(id);
        }
    }

    fn write_problem(&self, out: &mut Vec<u8>) {
        let Self { status, fault, request_id } = self;
        put(out, ["{\"type\":\"about:blank\",\"status\":", &status.to_string(), ",\"title\":\""]);
        put(out, [reason(*status), "\""]);
        if let Some(fault) = fault {
            put(out, [",\"fault\":\"", fault.kind.name(), "\",\"detail\":\""]);
            Escape::Json.write(fault.detail.as_bytes(), out);
            put(out, ["\""]);
        }
        if let Some(id) = request_id {
            put(out, [",\"request_id\":\""]);
            Escape::Json.write(id, out);
            put(out, ["\""]);
        }
        put(out, ["}"]);
    }

    fn write_html(&self, out: &mut Vec<u8>) {
        let Self { status, fault, request_id } = self;
        let (code, title) = (status.to_string(), reason(*status));
        put(out, [HEAD, "<title>", &code, " ", title, "</title>", STYLE]);
        put(out, ["<main><p class=\"code\">", &code, "</p><h1>", title, "</h1><p>", advice(*status), "</p>"]);
        if fault.is_some() || request_id.is_some() {
            put(out, ["<dl>"]);
        }
        if let Some(fault) = fault {
            put(out, ["<dt>Cause</dt><dd>"]);
            Escape::Html.write(fault.detail.as_bytes(), out);
            put(out, [" <code>", fault.kind.name(), "</code></dd>"]);
        }
        if let Some(id) = request_id {
            put(out, ["<dt>Request</dt><dd><code>"]);
            Escape::Html.write(id, out);
            put(out, ["</code></dd>"]);
        }
        if fault.is_some() || request_id.is_some() {
            put(out, ["</dl>"]);
        }
        put(out, ["</main></html>"]);
    }
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"robots\" content=\"noindex\">";

/// Everything stands in the page itself: whatever else there is on the site may be what does not work.
const STYLE: &str = "<style>\
:root{color-scheme:light dark}\
body{margin:0;min-height:100vh;display:grid;place-items:center;font:1rem/1.6 system-ui,sans-serif;\
background:#f4f6f8;color:#1d2733}\
main{box-sizing:border-box;width:min(36rem,100% - 2rem);margin:2rem 1rem;padding:2rem 2.25rem;background:#fff;\
border:1px solid #dde3e9;border-top:4px solid #2b7a9b;border-radius:8px}\
h1{margin:0 0 .75rem;font-size:1.6rem;line-height:1.25}\
p{margin:0}\
.code{font-weight:600;letter-spacing:.08em;color:#2b7a9b}\
dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem;margin:1.5rem 0 0;padding-top:1rem;\
border-top:1px solid #dde3e9;font-size:.875rem}\
dt{color:#5b6976}\
dd{margin:0;overflow-wrap:anywhere}\
code{font:.8125rem ui-monospace,monospace;color:#5b6976}\
@media(prefers-color-scheme:dark){body{background:#11161b;color:#dfe6ec}main{background:#1a2128;border-color:#2c363f;\
border-top-color:#5fb3d4}.code{color:#5fb3d4}dl{border-color:#2c363f}dt,code{color:#93a1ad}}\
</style>";

/// What a status means for the person in front of it.
fn advice(status: u16) -> &'static str {
    match status {
        401 => "You have to sign in to see this.",
        403 => "You may not see this.",
        404 | 410 => "There is nothing at this address.",
        408 => "The request took too long to arrive.",
        413 => "What was sent is too large.",
        429 => "There were too many requests. Please wait a moment and try again.",
        500 => "Something went wrong on this side.",
        502..=504 => "The service behind this address does not answer now. Please try again in a moment.",
        400..500 => "The request cannot be answered as it was sent.",
        _ => "The request cannot be answered.",
    }
}

fn put<const N: usize>(out: &mut Vec<u8>, texts: [&str; N]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::FaultKind;

    #[test]
    fn the_form_is_the_one_of_the_largest_weight() {
        let form = |accept: &str| PageForm::wanted([accept.as_bytes()].into_iter());
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", PageForm::Html),
            ("application/json", PageForm::Json),
            ("application/problem+json, application/json;q=0.9", PageForm::Problem),
            ("application/json, text/plain, */*", PageForm::Json),
            ("text/html;q=0.5, application/json", PageForm::Json),
            ("application/json;q=0.4, TEXT/HTML;level=1;q=0.5", PageForm::Html),
            ("text/plain;q=0.5", PageForm::Text),
            ("text/html, application/json", PageForm::Html),
            ("text/*", PageForm::Html),
            ("application/*, text/html;q=0.9", PageForm::Problem),
            ("*/*", PageForm::Problem),
            ("*/*, text/html;q=0", PageForm::Problem),
            ("*/*;q=0.1, application/*;q=0, text/html;q=0", PageForm::Text),
            ("image/avif", PageForm::Problem),
            ("text/html;q=5", PageForm::Problem),
            ("", PageForm::Text),
        ] {
            assert_eq!(form(accept), expected, "{accept}");
        }
        assert_eq!(PageForm::wanted([].into_iter()), PageForm::Text);
        let lines = [&b"text/plain;q=0.1"[..], b"text/html"];
        assert_eq!(PageForm::wanted(lines.into_iter()), PageForm::Html);
        assert_eq!(form(&"a/b,".repeat(100_000)), PageForm::Problem);
    }

    #[test]
    fn a_form_that_is_liked_wins_where_the_client_does_not_mind() {
        let form = |accept: &str, liked| {
            PageForm::wanted_among([accept.as_bytes()].into_iter(), |form| form == liked)
        };
        assert_eq!(form("*/*", PageForm::Html), PageForm::Html);
        assert_eq!(form("", PageForm::Html), PageForm::Html);
        assert_eq!(form("application/json, */*", PageForm::Html), PageForm::Json);
        assert_eq!(form("application/json", PageForm::Problem), PageForm::Problem);
        assert_eq!(form("text/html, application/json", PageForm::Json), PageForm::Json);
        assert_eq!(form("text/html, application/json;q=0.9", PageForm::Json), PageForm::Html);
    }

    #[test]
    fn pages_say_what_they_are_given_and_nothing_else() {
        let fault = Fault::new(FaultKind::ConnectionRefused, "it was <b>\"refused\"</b>");
        for form in PageForm::ALL {
            let written = |fault, request_id| {
                let (kind, bytes) = OwnPage { status: 502, fault, request_id }.written(form);
                (kind, String::from_utf8(bytes).unwrap())
            };
            let (kind, whole) = written(Some(fault), Some(b"id-1\"<".as_slice()));
            assert!(whole.contains("502") && whole.contains("Bad Gateway"), "{whole}");
            assert!(whole.contains("connection_refused") && whole.contains("id-1"), "{whole}");
            match form {
                PageForm::Html => {
                    assert!(
                        whole.contains("it was &lt;b&gt;&quot;refused") && whole.contains("id-1&quot;&lt;")
                    );
                    assert!(!whole.contains("http") && !whole.contains("url("), "no resource from elsewhere");
                }
                PageForm::Text => {}
                _ => {
                    assert_eq!(kind, "application/problem+json");
                    let json: serde_json::Value = serde_json::from_str(&whole).unwrap();
                    assert_eq!(json["detail"], fault.detail);
                    assert_eq!(json["request_id"], "id-1\"<");
                }
            }
            let (_, less) = written(None, None);
            assert!(!less.contains("refused") && !less.contains("Cause") && !less.contains("<dl>"), "{less}");
        }
    }
}
