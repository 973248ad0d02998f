//! What is asked, and the bytes that a client would send for it.

use crate::plan::{Listener, ListenerProtocol, Plan};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use thalweg_route::{HostPattern, RouteId};

/// One request to one listener.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Question {
    /// The method, case-sensitive.
    pub method: String,
    /// `http://host[:port]/path?query`, the same with `https`, without a scheme, or a path alone.
    pub url: String,
    /// Further fields in order; a `Host` takes the place of the URL's.
    pub headers: Vec<(String, String)>,
    /// The address that the request comes from; default 127.0.0.1.
    pub from: Option<IpAddr>,
    /// The name of a listener; default: of those that take requests, one with TLS for `https` and in the clear for
    /// `http`, with the port of the URL if there is one; else the first.
    pub listener: Option<String>,
}

/// Why a question cannot be asked: no client could send such a request to this plan.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unaskable {
    /// The part at fault: `method`, `url`, `header` or `listener`.
    pub part: &'static str,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl fmt::Display for Unaskable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Unaskable {}

impl Unaskable {
    fn new(part: &'static str, message: impl Into<String>, help: Option<&str>) -> Self {
        Self { part, message: message.into(), help: help.map(str::to_owned) }
    }
}

/// A question as the proxy meets it.
#[derive(Debug)]
pub(super) struct Asked {
    /// A request head.
    pub(super) bytes: Vec<u8>,
    pub(super) peer: IpAddr,
    /// Whether it comes through TLS.
    pub(super) is_secure: bool,
    /// The position of the listener.
    pub(super) listener: u16,
}

/// A URL in its parts.
struct Url<'a> {
    /// Whether the scheme is `https`; `None` where none is written.
    https: Option<bool>,
    /// Without the port of the scheme; empty for a path alone.
    authority: &'a str,
    /// Where it is written, or the scheme's.
    port: Option<u16>,
    target: String,
}

impl Question {
    /// Reads `GET https://host/path`.
    ///
    /// # Errors
    /// When it is not a method and a URL.
    pub fn from_line(text: &str) -> Result<Self, Unaskable> {
        let mut words = text.split_whitespace();
        let (Some(method), Some(url), None) = (words.next(), words.next(), words.next()) else {
            let help = "write a method and a URL, as in `GET https://shop.example.com/products/42`";
            return Err(Unaskable::new("url", "this is not a request", Some(help)));
        };
        Ok(Self { method: method.to_owned(), url: url.to_owned(), ..Self::default() })
    }

    /// Reads a field, `name: value`.
    ///
    /// # Errors
    /// When there is no colon.
    pub fn field(text: &str) -> Result<(String, String), Unaskable> {
        match text.split_once(':') {
            Some((name, value)) => Ok((name.trim_end().to_owned(), value.trim().to_owned())),
            None => {
                let message = format!("`{text}` is not a header");
                Err(Unaskable::new("header", message, Some("write `name: value`")))
            }
        }
    }

    /// The head that a client would send, and where.
    pub(super) fn write_request(&self, plan: &Plan) -> Result<Asked, Unaskable> {
        if self.method.is_empty() || self.method.chars().any(|c| c.is_control() || c == ' ') {
            return Err(Unaskable::new("method", "this is not a method", Some("write for example `GET`")));
        }
        let url = Url::parse(&self.url)?;
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, url.target).into_bytes();
        let is_host = |name: &str| name.eq_ignore_ascii_case("host");
        if !self.headers.iter().any(|(name, _)| is_host(name)) {
            let authority = if url.authority.is_empty() { usual_host(plan) } else { url.authority.into() };
            bytes.extend_from_slice(format!("Host: {authority}\r\n").as_bytes());
        }
        for (name, value) in &self.headers {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Unaskable::new("header", format!("`{name}` is not the name of a header"), None));
            }
            if value.chars().any(|c| c.is_control() && c != '\t') {
                let message = format!("the value of `{name}` holds a control character");
                return Err(Unaskable::new("header", message, None));
            }
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        let peer = self.from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_canonical();
        let listener = self.listener(plan, &url)?;
        let has_tls =
            plan.listeners.get(usize::from(listener)).is_some_and(|listener| listener.tls.is_some());
        let is_secure = url.https.unwrap_or(has_tls && url.authority.is_empty());
        Ok(Asked { bytes, peer, is_secure, listener })
    }

    fn listener(&self, plan: &Plan, url: &Url<'_>) -> Result<u16, Unaskable> {
        let takes_requests = |listener: &Listener| listener.protocol == ListenerProtocol::Http;
        let position = |is_it: &dyn Fn(&Listener) -> bool| plan.listeners.iter().position(is_it);
        let found = match &self.listener {
            Some(name) => position(&|listener| *listener.name == **name),
            None => {
                let has_port = |listener: &Listener| listener.address.port() == url.port;
                let fits = |listener: &Listener| match url.https {
                    Some(https) => listener.tls.is_some() == https,
                    // A path alone is meant for a listener that does more than to send clients elsewhere.
                    None => !listener.redirect_https || !url.authority.is_empty(),
                };
                position(&|it| takes_requests(it) && fits(it) && has_port(it))
                    .or_else(|| position(&|it| takes_requests(it) && url.https == Some(true) && fits(it)))
                    .or_else(|| position(&|it| takes_requests(it) && has_port(it)))
                    .or_else(|| position(&|it| takes_requests(it) && fits(it)))
                    .or_else(|| position(&takes_requests))
            }
        };
        let asked = self.listener.as_deref();
        if let Some(listener) = found.and_then(|at| plan.listeners.get(at)).filter(|it| !takes_requests(it)) {
            let message = format!("the listener `{}` takes connections, and no requests", listener.name);
            return Err(Unaskable::new(
                "listener",
                message,
                Some("where they go is written at the listener"),
            ));
        }
        found.and_then(|at| u16::try_from(at).ok()).ok_or_else(|| {
            let known: Vec<_> =
                plan.listeners.iter().map(|listener| format!("`{}`", listener.name)).collect();
            let none = || "no listener takes requests".to_owned();
            let message = asked.map_or_else(none, |name| format!("no listener `{name}`"));
            let help = format!("the listeners are {}", known.join(", "));
            Unaskable::new("listener", message, Some(&help))
        })
    }
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Result<Self, Unaskable> {
        let wrong = |message: &str, help| Err(Unaskable::new("url", message, Some(help)));
        if text.is_empty() {
            return wrong("the URL is empty", "write for example `https://shop.example.com/products/42`");
        }
        if text.chars().any(|c| c.is_control() || c == ' ') {
            return wrong("a URL holds no spaces", "write `%20` for a space");
        }
        // Clients do not send what stands behind it.
        let text = text.split('#').next().unwrap_or_default();
        if text.starts_with('/') || text == "*" {
            return Ok(Self { https: None, authority: "", port: None, target: text.to_owned() });
        }
        let (https, rest) = match text.split_once("://") {
            None => (None, text),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Some(false), rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Some(true), rest),
            Some(_) => return wrong("a URL begins with `http://` or `https://` here", "write one of these"),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.is_empty() {
            return wrong("the URL has no host", "write for example `http://localhost/`");
        }
        if authority.contains('@') {
            return wrong("credentials in a URL are not sent", "write them as a header, `Authorization: …`");
        }
        let target = if tail.starts_with('/') { tail.to_owned() } else { format!("/{tail}") };
        let mut url = Self { https, authority, port: None, target };
        url.read_port();
        Ok(url)
    }

    /// Clients leave the port of the scheme out.
    fn read_port(&mut self) {
        let own = if self.https == Some(true) { 443 } else { 80 };
        let behind = self.authority.rsplit(']').next().unwrap_or_default();
        let written = behind.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        self.port = Some(written.unwrap_or(own));
        if written == Some(own) {
            self.authority = self.authority.rsplit_once(':').map_or(self.authority, |(host, _)| host);
        }
    }
}

/// The host of a request that names none: the first one that routes ask for, or `localhost` where a route takes every
/// host.
fn usual_host(plan: &Plan) -> String {
    let routes = (0..).map_while(|at| plan.table.written(RouteId(at)));
    let mut named = None;
    for route in routes.take(plan.table.len()) {
        match route.hosts.first() {
            None | Some(HostPattern::Any) => return "localhost".into(),
            Some(HostPattern::Exact(host)) => named = named.or(Some(host.clone())),
            Some(HostPattern::Wildcard(suffix)) => {
                named = named.or_else(|| Some(format!("any.{suffix}")));
            }
        }
    }
    named.unwrap_or_else(|| "localhost".into())
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
