//! Texts with placeholders, compiled once: `https://{host}{path}`.
//!
//! What a placeholder stands for can never split a message: bytes that a field value may not hold are left out, and
//! where a text becomes part of a URL, HTML or JSON it is escaped for that.

#[cfg(test)]
mod tests;

use crate::identity::is_exact;
use crate::request::Values;
use crate::target::TargetEdit;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::io::Write as _;
use thalweg_core::credentials;
use thalweg_http::h1::encode::{reason, write_decimal, write_ip};
use thalweg_http::octet;

/// Bytes that a template may have as it is written.
const LENGTH: usize = 16 * 1024;
/// Bytes that one in a file of its own may have.
pub(crate) const FILE_LENGTH: usize = 256 * 1024;

/// A text with placeholders, as it is written.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(transparent)]
pub struct TemplateSpec(pub String);

impl TemplateSpec {
    /// Compiles it.
    ///
    /// # Errors
    /// A sentence that names the wrong placeholder and the right ones.
    pub fn build(&self) -> Result<Template, String> {
        Template::parse(&self.0)
    }
}

/// A compiled text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template {
    parts: Box<[Part]>,
    text: Box<str>,
}

/// How placeholders are written where a text is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Escape {
    /// The value of a field.
    Field,
    /// A part of a URL: what may not stand in a path or query is percent-encoded.
    Url,
    /// A part of the path of a URL: the same for what would end the path.
    UrlPath,
    /// A value within the query of a URL: the same for what would end the value.
    UrlValue,
    /// Text of an HTML page.
    Html,
    /// Within a JSON string.
    Json,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Text(Box<str>),
    Placeholder(Placeholder),
}

macro_rules! placeholders {
    ($( $variant:ident $(($argument:ident))? $word:literal $about:literal, )*) => {
        #[derive(Clone, Debug, Eq, PartialEq)]
        enum Placeholder { $( $variant $((placeholders!(@ $argument)))?, )* }

        /// Every placeholder as it is written, and what it stands for.
        pub const PLACEHOLDERS: &[(&str, &str)] = &[ $( ($word, $about), )* ];

        impl Placeholder {
            fn parse(word: &str) -> Option<Self> {
                $( if let Some(found) = placeholders!(? word, $word, $variant $(, $argument)?) { return Some(found); } )*
                None
            }
        }
    };
    (@ name) => { Box<str> };
    (? $given:ident, $word:literal, $variant:ident) => { ($given == $word).then_some(Self::$variant) };
    (? $given:ident, $word:literal, $variant:ident, name) => {
        $given.strip_prefix(named($word)).filter(|name| !name.is_empty()).map(|name| Self::$variant(name.into()))
    };
}

placeholders! {
    ClientIp "client_ip" "the client's address, seen through trusted proxies",
    Method "method" "the method",
    Scheme "scheme" "`http` or `https`",
    Host "host" "the host that the client named, in lower case, without a port",
    Port "port" "the port that the client named, or that of the scheme",
    Path "path" "the path as the client sent it, in normal form",
    PathCapture(name) "path.NAME" "what a parameter of the route's path took, by its name or number: `{path.id}`, `{path.1}`",
    Query "query" "the query as the client sent it, without `?`",
    QueryParameter(name) "query.NAME" "the first value of a query parameter, decoded",
    UpstreamPath "upstream_path" "the path after the filters so far",
    Header(name) "header.NAME" "the first value of a field of the request",
    Cookie(name) "cookie.NAME" "the value of a cookie of the request",
    RequestId "request_id" "the id of the request",
    Listener "listener" "the name of the listener",
    Route "route" "the name of the route",
    Service "service" "the name of the service",
    TlsVersion "tls.version" "the version of TLS, `TLSv1.3`; empty in the clear",
    TlsSni "tls.sni" "the name that the client asked for in its TLS handshake",
    User "user" "who the client is, as a filter has verified it; empty before, and without one",
    Claim(name) "claim.NAME" "what was verified of the client, by its name: `{claim.plan}`, `{claim.address.country}`",
    TlsSubject "tls.client.subject" "the subject of the client's certificate",
    Status "status" "the status of the response; empty before there is one",
    Reason "reason" "the words of the status, `Not Found`",
    Fault "fault" "why the proxy could not do what was asked, [in one word](../reference/faults.md); empty otherwise, and with `error_details: false`",
    FaultDetail "fault.detail" "the same in a sentence",
    Time "time" "the time in UTC, as in RFC 3339",
}

/// The beginning of a placeholder with a name.
fn named(word: &str) -> &str {
    word.strip_suffix("NAME").unwrap_or(word)
}

impl Template {
    /// Compiles a text. `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// A sentence that names the wrong placeholder and the right ones.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH {
            return Err(format!("a text with placeholders has at most {LENGTH} bytes"));
        }
        Self::compile(text)
    }

    /// Compiles the text of a file, which was not written for this alone: braces around anything but letters, digits,
    /// `_`, `.` and `-` stand for themselves, as in a style sheet, and `{{host}}` is the text `{host}`.
    ///
    /// # Errors
    /// A sentence that names the wrong placeholder and the right ones.
    pub fn parse_file(text: &str) -> Result<Self, String> {
        if text.len() > FILE_LENGTH {
            return Err(format!("a file with placeholders has at most {} KiB", FILE_LENGTH / 1024));
        }
        let (mut doubled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find(['{', '}']) {
            doubled.push_str(&rest[..at]);
            let (braced, behind) = match word_in_braces(&rest[at..]) {
                Some(length) => rest[at..].split_at(length),
                None => {
                    doubled.push_str(&rest[at..=at]);
                    rest[at..].split_at(1)
                }
            };
            doubled.push_str(braced);
            rest = behind;
        }
        doubled.push_str(rest);
        Self::compile(&doubled)
    }

    fn compile(text: &str) -> Result<Self, String> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = behind;
                continue;
            }
            if brace == "}" {
                return Err(format!("`{text}` has a `}}` without a `{{`; write `}}}}` for the character"));
            }
            let Some(end) = rest.find('}') else {
                return Err(format!("`{text}` has a `{{` without a `}}`; write `{{{{` for the character"));
            };
            let word = &rest[..end];
            let found = Placeholder::parse(word).ok_or_else(|| unknown(word))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain).into()));
            }
            parts.push(Part::Placeholder(found));
            rest = &rest[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Self { parts: parts.into(), text: text.into() })
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text itself, where it has no placeholders.
    pub fn constant(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The captures of the route's path that it uses, by number or name.
    pub fn captures(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Placeholder(Placeholder::PathCapture(name)) => Some(&**name),
            _ => None,
        })
    }

    /// Whether it uses fields of the request.
    pub fn uses_fields(&self) -> bool {
        let is_one =
            |part: &Part| matches!(part, Part::Placeholder(Placeholder::Header(_) | Placeholder::Cookie(_)));
        self.parts.iter().any(is_one)
    }

    /// A credential of the client that it may show.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.parts.iter().find_map(|part| match part {
            Part::Text(_) => None,
            Part::Placeholder(placeholder) => placeholder.credential(),
        })
    }

    /// The first placeholder for what was verified of the client whose value a field cannot hold exactly as it is, or
    /// cannot hold without two values becoming one text.
    pub(crate) fn inexact(&self, values: &Values<'_>) -> Option<String> {
        let found = self.parts.iter().find_map(|part| match part {
            Part::Placeholder(placeholder) if !placeholder.is_exact(values) => Some(placeholder),
            _ => None,
        })?;
        Some(match found {
            Placeholder::Claim(name) => format!("claim `{name}`"),
            Placeholder::User => "user".to_owned(),
            _ => "subject of the certificate".to_owned(),
        })
    }

    /// Whether it uses the status of the response.
    pub fn uses_status(&self) -> bool {
        self.parts.contains(&Part::Placeholder(Placeholder::Status))
    }

    /// Appends the text with its placeholders filled.
    pub fn render(&self, values: &Values<'_>, escape: Escape, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Placeholder(placeholder) => placeholder.render(values, escape, out),
            }
        }
    }

    /// Appends the text as a URL: each value is escaped for the part of it in which it stands, so that it stays within
    /// that part. A path behind the authority begins the path. False: a value cannot stand in the authority.
    pub(crate) fn render_place(&self, values: &Values<'_>, out: &mut Vec<u8>) -> bool {
        for part in &self.parts {
            let placeholder = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Placeholder(placeholder) => placeholder,
            };
            let (mut at, begin) = (UrlPart::behind(out), out.len());
            let is_path = matches!(placeholder, Placeholder::Path | Placeholder::UpstreamPath);
            if at == UrlPart::Authority && is_path {
                at = UrlPart::Path;
            }
            let escape = match (at, placeholder) {
                // Its own separators are meant.
                (_, Placeholder::Query) | (UrlPart::Begin | UrlPart::Authority, _) => Escape::Url,
                (UrlPart::Path, _) => Escape::UrlPath,
                (UrlPart::Query, _) => Escape::UrlValue,
            };
            placeholder.render(values, escape, out);
            let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(byte);
            // A part of the path behind the authority begins the path, too: `https://en.test{path.1}`.
            let is_rest =
                matches!(placeholder, Placeholder::PathCapture(_)) && out[begin..].starts_with(b"/");
            if at == UrlPart::Authority && !is_rest && !out[begin..].iter().all(is_host) {
                return false;
            }
        }
        true
    }

    /// The value of a field.
    pub fn field(&self, values: &Values<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + 16);
        self.render(values, Escape::Field, &mut out);
        out
    }
}

/// The part of a URL in which a value stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum UrlPart {
    /// Nothing is before it: the value may be a whole URL.
    Begin,
    Authority,
    Path,
    Query,
}

impl UrlPart {
    /// That behind this beginning of a URL.
    fn behind(begin: &[u8]) -> Self {
        let scheme = begin.iter().position(|byte| *byte == b'/').unwrap_or(begin.len());
        let is_absolute = scheme == 0 || begin[..scheme].ends_with(b":");
        match begin[scheme..].strip_prefix(b"//") {
            _ if begin.is_empty() => Self::Begin,
            _ if begin.iter().any(|byte| matches!(byte, b'?' | b'#')) => Self::Query,
            Some(rest) if is_absolute && !rest.contains(&b'/') => Self::Authority,
            _ => Self::Path,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The bytes of a placeholder with its braces at the beginning of a text, or of one with two braces on each side.
fn word_in_braces(text: &str) -> Option<usize> {
    let opened = if text.starts_with("{{") { 2 } else { usize::from(text.starts_with('{')) };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let length = text.bytes().skip(opened).take_while(|byte| is_part(*byte)).count();
    let closed = text.get(opened + length..)?;
    let is_one = opened > 0 && length > 0 && closed.starts_with(if opened == 2 { "}}" } else { "}" });
    is_one.then_some(length + 2 * opened)
}

/// A placeholder that may show a credential.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Credential {
    /// The whole query.
    Query,
    /// This one, as it is written.
    Named(String),
}

fn unknown(word: &str) -> String {
    let known: Vec<String> = PLACEHOLDERS.iter().map(|(word, _)| format!("{{{word}}}")).collect();
    format!("there is no placeholder `{{{word}}}`; there are {}; `{{{{` stands for a brace", known.join(" "))
}

impl Placeholder {
    fn credential(&self) -> Option<Credential> {
        let named = |is_one: bool, word: &str, name: &str| {
            is_one.then(|| Credential::Named(format!("{word}.{name}")))
        };
        match self {
            Self::Query => Some(Credential::Query),
            Self::Header(name) => named(credentials::is_field(name), "header", name),
            Self::Cookie(name) => named(credentials::is_cookie(name), "cookie", name),
            Self::QueryParameter(name) => named(credentials::is_parameter(name), "query", name),
            _ => None,
        }
    }

    /// Whether a field can hold what was verified of the client exactly; what the client says of itself counts as
    /// exact.
    fn is_exact(&self, values: &Values<'_>) -> bool {
        match self {
            Self::User => values.identity.is_none_or(|identity| is_exact(&identity.user)),
            Self::Claim(name) => values.identity.is_none_or(|identity| identity.is_claim_exact(name)),
            Self::TlsSubject => values.facts.connection.client_subject().is_none_or(|text| is_exact(&text)),
            _ => true,
        }
    }

    fn render(&self, values: &Values<'_>, escape: Escape, out: &mut Vec<u8>) {
        let facts = values.facts;
        let put = |value: &[u8], out: &mut Vec<u8>| escape.write(value, out);
        let opt = |value: Option<&[u8]>, out: &mut Vec<u8>| escape.write(value.unwrap_or_default(), out);
        match self {
            Self::ClientIp => write_ip(out, facts.client_ip),
            Self::Method => put(facts.method, out),
            Self::Scheme => put(facts.scheme.as_bytes(), out),
            Self::Host => put(facts.host, out),
            Self::Port => write_decimal(out, facts.port.into()),
            Self::Path => put(facts.path, out),
            Self::PathCapture(name) => {
                // First the client's spelling, then the matched form.
                let of = |path| {
                    let fitting = facts.patterns.iter().filter(move |pattern| pattern.matches(path));
                    fitting.filter_map(move |pattern| pattern.capture(path, name)).next()
                };
                opt(of(facts.path).or_else(|| of(facts.matched_path())), out);
            }
            Self::Query => opt(facts.query, out),
            Self::QueryParameter(name) => {
                put(&parameter(facts.query.unwrap_or_default(), name).unwrap_or_default(), out)
            }
            Self::UpstreamPath => opt(values.target.map(TargetEdit::path), out),
            Self::Header(name) => opt(values.fields.get(name), out),
            Self::Cookie(name) => opt(values.fields.cookie(name), out),
            Self::RequestId => opt(facts.request_id.as_ref().map(|id| id.as_bytes()), out),
            Self::Listener => put(facts.listener.as_bytes(), out),
            Self::Route => put(facts.route.as_bytes(), out),
            Self::Service => put(facts.service.as_bytes(), out),
            Self::TlsVersion => put(facts.connection.tls_version().unwrap_or_default().as_bytes(), out),
            Self::TlsSni => put(facts.connection.tls_server_name().unwrap_or_default().as_bytes(), out),
            Self::TlsSubject => put(facts.connection.client_subject().unwrap_or_default().as_bytes(), out),
            Self::User => put(values.identity.map_or("", |identity| &identity.user).as_bytes(), out),
            Self::Claim(name) => {
                let claim = values.identity.and_then(|identity| identity.claim(name));
                put(claim.unwrap_or_default().as_bytes(), out);
            }
            Self::Status => values.status.into_iter().for_each(|status| write_decimal(out, status.into())),
            Self::Reason => put(values.status.map_or("", reason).as_bytes(), out),
            Self::Fault => put(values.fault.map_or("", |fault| fault.kind.name()).as_bytes(), out),
            Self::FaultDetail => put(values.fault.map_or("", |fault| fault.detail).as_bytes(), out),
            Self::Time => {
                let seconds = i64::try_from(facts.unix_seconds).unwrap_or(i64::MAX);
                drop(write!(out, "{:.0}", Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)));
            }
        }
    }
}

/// The first value of a query parameter, decoded: `+` is a space, escapes are the bytes that they stand for.
pub(crate) fn parameter(query: &[u8], name: &str) -> Option<Vec<u8>> {
    query.split(|byte| *byte == b'&').find_map(|pair| {
        let end = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let value = pair.get(end + 1..).unwrap_or_default();
        (decoded(&pair[..end]) == name.as_bytes()).then(|| decoded(value))
    })
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        let escape = text
            .get(at + 1)
            .copied()
            .and_then(octet::hex_digit)
            .zip(text.get(at + 2).copied().and_then(octet::hex_digit));
        match (byte, escape) {
            (b'%', Some((high, low))) => {
                out.push(high * 16 + low);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    out
}

impl Escape {
    /// Appends a value that comes from outside.
    pub fn write(self, value: &[u8], out: &mut Vec<u8>) {
        // No early end: the compiler looks at many bytes at once.
        let has_controls = value.iter().fold(false, |found, byte| found | matches!(byte, 0..=31 | 127));
        if self == Self::Field && !has_controls {
            out.extend_from_slice(value);
            return;
        }
        for &byte in value {
            match (self, byte) {
                (Self::Html, b'<') => out.extend_from_slice(b"&lt;"),
                (Self::Html, b'>') => out.extend_from_slice(b"&gt;"),
                (Self::Html, b'&') => out.extend_from_slice(b"&amp;"),
                (Self::Html, b'"') => out.extend_from_slice(b"&quot;"),
                (Self::Html, b'\'') => out.extend_from_slice(b"&#39;"),
                (Self::Json, b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
                (Self::Field | Self::Html | Self::Json, 0..=31 | 127) => {}
                (Self::Url | Self::UrlPath | Self::UrlValue, byte) if self.is_escaped(byte) => {
                    drop(write!(out, "%{byte:02X}"))
                }
                _ => out.push(byte),
            }
        }
    }

    /// Whether a byte is percent-encoded in this part of a URL.
    fn is_escaped(self, byte: u8) -> bool {
        let ends = match self {
            Self::UrlPath => &b"?#"[..],
            Self::UrlValue => b"&=+;#",
            _ => b"#",
        };
        !octet::is_target(byte) || ends.contains(&byte)
    }
}
