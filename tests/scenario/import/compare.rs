//! What the original and Thalweg must do alike.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thalweg_tests::Message;

use super::case::Request;

/// Fields of responses that are a proxy's own: of its framing, its name and its clock, and tags of files.
pub(super) const OWN: &[&str] = &[
    "accept-ranges",
    "connection",
    "content-length",
    "date",
    "etag",
    "keep-alive",
    "proxy-status",
    "server",
    "transfer-encoding",
    "vary",
    "via",
    "x-request-id",
];

/// Fields of requests that Thalweg sends by itself, and those of the connection; compared where the original sends
/// them.
const ADDED: &[&str] =
    &["via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id", "traceparent"];
/// Fields of a program's own pages of errors.
const OF_PAGE: &[&str] = &["cache-control", "x-content-type-options"];
const OF_CONNECTION: &[&str] = &["connection", "keep-alive", "te", "via", "x-answer"];

/// What is not alike; empty: nothing. `theirs` is `None` where they need not be alike.
pub(super) fn told(
    request: &Request,
    theirs: Option<Result<Message, String>>,
    ours: Result<Message, String>,
    is_own_page: fn(&Message) -> bool,
    directories: &[String; 2],
) -> String {
    if let Some(expected) = request.differs {
        let status = ours.as_ref().map_or(0, Message::status);
        if status != expected {
            return format!("  Thalweg: {status}, not {expected}\n");
        }
    }
    if !request.texts.is_empty() {
        let seen = ours.as_ref().map_or_else(Clone::clone, whole);
        let missing: Vec<&String> =
            request.texts.iter().filter(|text| !seen.contains(text.as_str())).collect();
        if !missing.is_empty() {
            return format!("  no {missing:?} in:\n{seen}\n");
        }
    }
    let Some(theirs) = theirs else { return String::new() };
    let (theirs, ours) = match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        // Closed without an answer.
        (Err(theirs), Err(ours)) if theirs.ends_with("seen: ") && ours.ends_with("seen: ") => {
            return String::new();
        }
        (theirs, ours) => return format!("  original: {:.300?}\n  Thalweg: {:.300?}\n", theirs, ours),
    };
    let mut out = String::new();
    let mut line = |name: &str, theirs: &str, ours: &str| {
        if theirs != ours {
            let _ = writeln!(out, "  {name}\n    original: {theirs}\n    Thalweg:  {ours}");
        }
    };
    line("status", &theirs.status().to_string(), &ours.status().to_string());
    let is_own = is_own_page(&theirs);
    line("fields", &fields(&theirs, request, is_own), &fields(&ours, request, is_own));
    match (Seen::read(&theirs), Seen::read(&ours)) {
        (Some(theirs), Some(ours)) => {
            line("request", &theirs.start, &ours.start);
            line("its fields", &theirs.shown(&theirs, request), &ours.shown(&theirs, request));
            line("its body", &theirs.body, &ours.body);
        }
        (theirs_seen, ours_seen) => {
            let is_alike = theirs_seen.is_none() && ours_seen.is_none();
            if !is_alike || !is_own {
                let [theirs_root, ours_root] = directories;
                line("body", &theirs.text().replace(theirs_root, "/"), &ours.text().replace(ours_root, "/"));
            }
        }
    }
    out
}

/// A response as text: its status, its fields with small names, a line each, and its body.
fn whole(message: &Message) -> String {
    let lines =
        message.fields.iter().map(|(name, value)| format!("{}: {value}\n", name.to_ascii_lowercase()));
    format!("status {}\n{}\n{}", message.status(), lines.collect::<String>(), message.text())
}

fn fields(message: &Message, request: &Request, is_own_page: bool) -> String {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &message.fields {
        let name = name.to_ascii_lowercase();
        // Nothing has no type.
        let is_idle = name == "content-type" && message.body.is_empty() && request.method != "HEAD";
        let is_of_page = is_own_page && (name.starts_with("content-") || OF_PAGE.contains(&name.as_str()));
        if is_idle || is_of_page || OWN.contains(&name.as_str()) {
            continue;
        }
        let value = match name.as_str() {
            "location" => place(value, request),
            // The report says of every configuration that challenges name it.
            "www-authenticate" => value.replace(", charset=\"UTF-8\"", ""),
            _ => value.clone(),
        };
        all.entry(name).or_default().push(value);
    }
    all.iter().fold(String::new(), |mut out, (name, values)| {
        let _ = write!(out, "{name}={} ", values.join(", "));
        out
    })
}

/// A place relative to the request's own host and port.
fn place(text: &str, request: &Request) -> String {
    let scheme = if request.is_secure { "https" } else { "http" };
    let host = request.authority.rsplit_once(':').map_or(&*request.authority, |(host, _)| host);
    let port = super::side::free_port(request.port);
    let forms = [format!("{scheme}://{host}:{port}/"), format!("{scheme}://{}/", request.authority)];
    match forms.iter().find_map(|form| text.strip_prefix(form.as_str())) {
        Some(rest) => format!("/{rest}"),
        None => text.to_owned(),
    }
}

/// The request as the service has seen it.
struct Seen {
    /// The service, method and target.
    start: String,
    fields: BTreeMap<String, Vec<String>>,
    body: String,
}

impl Seen {
    fn read(message: &Message) -> Option<Self> {
        let text = message.text();
        let (head, body) = text.split_once("\n\n")?;
        let mut lines = head.lines();
        let service = lines.next().filter(|line| line.starts_with("service "))?;
        let request = lines.next()?.trim_end_matches(" HTTP/1.1").trim_end_matches(" HTTP/1.0");
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ").or(line.split_once(':'))) {
            if !OF_CONNECTION.contains(&name) {
                fields.entry(name.to_owned()).or_default().push(value.to_owned());
            }
        }
        Some(Self { start: format!("{service}: {request}"), fields, body: body.to_owned() })
    }

    /// The fields, but for those that Thalweg writes by itself where the original sends what the client has said.
    fn shown(&self, original: &Self, request: &Request) -> String {
        let mut out = String::new();
        for (name, values) in &self.fields {
            let said = request.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
            let said: Vec<String> = said.map(|(_, value)| value.clone()).collect();
            let is_own = original.fields.get(name).is_some_and(|values| *values != said);
            // Caddy asks for gzip where the client has not, and decodes it.
            if name == "accept-encoding" && said.is_empty() {
                continue;
            }
            if !ADDED.contains(&name.as_str()) || is_own {
                let _ = write!(out, "{name}={} ", values.join(", "));
            }
        }
        out
    }
}
