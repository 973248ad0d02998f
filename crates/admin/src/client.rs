//! The client of the admin API, for the CLI verbs: one request, one answer.
//!
//! It goes through the shared client (`thalweg-client`) over the unix socket, TCP or TLS. Invariant: it ends
//! within [`CALL_TIME`] of silence and keeps at most [`ANSWER`] bytes, whatever answers.

mod event_stream;

pub use event_stream::StreamEvent;

use std::fmt;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::{Request, StatusCode};
use thalweg_client::{Bounds, ClientError, Destination, HttpClient};
use thalweg_tls::Trust;
use tokio::signal::unix::{SignalKind, signal};

use event_stream::EventParser;

use crate::token::Token;

/// Longest wait for a connection, and for each part of the answer.
pub const CALL_TIME: Duration = Duration::from_secs(10);
/// Longest silence of an event stream, which sends a comment every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// Largest answer, in bytes.
pub const ANSWER: usize = 64 * 1024 * 1024;
/// What a request may take: a large answer may come slowly.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(10 * 60), silence: CALL_TIME, body: ANSWER };
/// The operation that is answered when another process is ready, and how long that may take.
const SLOW: (&str, Duration) = ("/api/v1/upgrade", Duration::from_secs(150));
/// Port of the admin listener when a URL has none.
const DEFAULT_PORT: u16 = 9900;

/// Where the running proxy is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// Its unix socket.
    Socket(PathBuf),
    /// `host:port` of its admin or metrics listener.
    Tcp(String),
    /// `host:port` of its admin listener, which has TLS, and a PEM file of whom to trust; `None`: whom the system
    /// trusts.
    Tls(String, Option<PathBuf>),
}

impl Target {
    /// Reads `http://host[:port]`, `https://host[:port]`, `unix:/path` or `/path`. Of `https` those are trusted whom
    /// the system trusts.
    ///
    /// # Errors
    /// A sentence that says which forms there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").or(text.starts_with('/').then_some(text)) {
            return Ok(Self::Socket(path.into()));
        }
        let (secure, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            (None, None) => {
                return Err(format!(
                    "`{text}` is not an admin address; write `http://host:port`, `https://host:port` or `unix:/path`"
                ));
            }
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if authority.is_empty() || !authority.chars().all(plain) {
            return Err(format!(
                "`{text}` must be a host and port without a path, as in `http://127.0.0.1:9900`"
            ));
        }
        let tail = authority.rsplit(']').next().unwrap_or(authority);
        let authority =
            if tail.contains(':') { authority.into() } else { format!("{authority}:{DEFAULT_PORT}") };
        Ok(if secure { Self::Tls(authority, None) } else { Self::Tcp(authority) })
    }

    /// Where the request goes, and by whose certificates the server is trusted.
    fn destination(&self) -> Result<(Destination, Trust), ClientError> {
        let (authority, tls, trusted) = match self {
            Self::Socket(path) => return Ok((Destination::Unix(path.clone()), Trust::System)),
            Self::Tcp(authority) => (authority, false, None),
            Self::Tls(authority, trusted) => (authority, true, trusted.as_ref()),
        };
        let trust = match trusted {
            None => Trust::System,
            Some(path) => {
                let failed = |error| ClientError::Tls(format!("{}: {error}", path.display()));
                Trust::Only(fs::read(path).map_err(failed)?.into())
            }
        };
        let parts = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts
            .ok_or_else(|| ClientError::Request(format!("`{authority}` has no port from 0 to 65535")))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok((Destination::Tcp { host: host.to_owned(), port, tls }, trust))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Tls(authority, _) => write!(f, "https://{authority}"),
        }
    }
}

/// What came back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// No answer came.
#[derive(Debug)]
pub struct CallError {
    target: Target,
    source: ClientError,
}

impl CallError {
    /// Whether nobody listens there: the proxy does not run, or elsewhere.
    pub fn nobody_there(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(&self.source, ClientError::Connect(_, error) if matches!(error.kind(), NotFound | ConnectionRefused))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, source } = self;
        match self.nobody_there() {
            true => write!(f, "no thalweg answers at {target}: {source}"),
            false => write!(f, "{target}: {source}"),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query; begins with `/`.
    pub path: &'a str,
    /// Further fields of the head; those of the connection, the token and the length are added.
    pub fields: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: &'a [u8],
}

/// Sends one request without a body and waits for its answer. `path` begins with `/`.
///
/// # Errors
/// As for [`call_with`].
pub fn call(target: &Target, token: Option<&Token>, method: &str, path: &str) -> Result<Answer, CallError> {
    call_with(target, token, Call { method, path, fields: &[], body: &[] })
}

/// Sends one request and waits for its answer.
///
/// # Errors
/// Nobody listens, or what came back is not an HTTP answer, is too large, or broke off.
pub fn call_with(target: &Target, token: Option<&Token>, call: Call<'_>) -> Result<Answer, CallError> {
    let failed = |source| CallError { target: target.clone(), source };
    let request = request(token, call).map_err(failed)?;
    let (to, trust) = target.destination().map_err(failed)?;
    let unusable = |error: io::Error| failed(ClientError::Request(error.to_string()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unusable)?;
    let silence = if call.path == SLOW.0 { SLOW.1 } else { BOUNDS.silence };
    let bounds = Bounds { silence, ..BOUNDS };
    let answer = runtime.block_on(HttpClient::new(trust).send(&to, request, bounds)).map_err(failed)?;
    Ok(Answer { status: answer.status().as_u16(), body: answer.into_body().into() })
}

/// How a stream of events came to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StreamEnd {
    /// It was no stream: this was answered.
    Refused(Answer),
    /// The server has ended it, or its listener, or a signal to this process (SIGINT, SIGTERM).
    Ended,
}

/// Sends one request and calls `hear` with each event of the stream that is the answer, until `hear` breaks. The first
/// one is called `open`: the answer has begun.
///
/// # Errors
/// As for [`call_with`].
pub fn stream_with(
    target: &Target,
    token: Option<&Token>,
    call: Call<'_>,
    mut hear: impl FnMut(StreamEvent) -> ControlFlow<()>,
) -> Result<StreamEnd, CallError> {
    let failed = |source| CallError { target: target.clone(), source };
    let request = request(token, call).map_err(failed)?;
    let (to, trust) = target.destination().map_err(failed)?;
    let unusable = |error: io::Error| ClientError::Request(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let streaming = async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
        let (head, mut body) = HttpClient::new(trust).stream(&to, request, SILENCE).await?.into_parts();
        let mut parser = (head.status == StatusCode::OK).then(EventParser::default);
        let mut text = Vec::new();
        if parser.is_some() && hear(StreamEvent { kind: "open".into(), data: String::new() }).is_break() {
            return Ok(StreamEnd::Ended);
        }
        loop {
            let piece = tokio::select! {
                piece = body.next() => piece?,
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
            };
            let Some(piece) = piece else { break };
            let Some(parser) = &mut parser else {
                if text.len() + piece.len() > ANSWER {
                    return Err(ClientError::TooLarge(ANSWER));
                }
                text.extend_from_slice(&piece);
                continue;
            };
            for event in parser.push(&piece).map_err(ClientError::Http)? {
                if hear(event).is_break() {
                    return Ok(StreamEnd::Ended);
                }
            }
        }
        let answer = Answer { status: head.status.as_u16(), body: text };
        Ok(if parser.is_some() { StreamEnd::Ended } else { StreamEnd::Refused(answer) })
    };
    runtime.map_err(|error| failed(unusable(error)))?.block_on(streaming).map_err(failed)
}

fn request(token: Option<&Token>, call: Call<'_>) -> Result<Request<Bytes>, ClientError> {
    let Call { method, path, fields, body } = call;
    let failed = |error: &dyn fmt::Display| ClientError::Request(error.to_string());
    if !path.starts_with('/') {
        return Err(failed(&"the path must begin with `/`"));
    }
    let mut request = Request::builder().method(method).uri(path).header(CONNECTION, "close");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
    }
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Bytes::copy_from_slice(body)).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_targets() {
        for (text, target) in [
            ("http://127.0.0.1:9900", Target::Tcp("127.0.0.1:9900".into())),
            ("http://localhost/", Target::Tcp("localhost:9900".into())),
            ("http://[::1]", Target::Tcp("[::1]:9900".into())),
            ("http://[::1]:80", Target::Tcp("[::1]:80".into())),
            ("https://proxy.example.com", Target::Tls("proxy.example.com:9900".into(), None)),
            ("https://[::1]:443/", Target::Tls("[::1]:443".into(), None)),
            ("unix:/run/a.sock", Target::Socket("/run/a.sock".into())),
            ("/run/a.sock", Target::Socket("/run/a.sock".into())),
        ] {
            assert_eq!(Target::parse(text), Ok(target), "{text}");
        }
        for text in [
            "",
            "ftp://a",
            "http://",
            "https://",
            "https://a/b",
            "http://a/b",
            "http://a b",
            "http://u@a",
            "localhost:9900",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn does_not_send_what_would_be_another_request() {
        let head = |method, path, fields: &[(&str, &str)]| {
            request(None, Call { method, path, fields, body: b"four" })
        };
        assert!(head("GET", "/a b", &[]).is_err());
        assert!(head("GET", "/\r\nX: y", &[]).is_err());
        assert!(head("G T", "/", &[]).is_err() && head("GET", "a", &[]).is_err());
        assert!(
            head("PUT", "/", &[("a", "b\r\nc: d")]).is_err() && head("PUT", "/", &[("a b", "")]).is_err()
        );
        assert_eq!(head("PUT", "/", &[("a", "b c")]).unwrap().headers()["a"], "b c");
    }

    #[test]
    fn targets_say_where_to_go() {
        let tcp = |host: &str, port, tls| Destination::Tcp { host: host.into(), port, tls };
        for (text, to) in [
            ("http://localhost", tcp("localhost", 9900, false)),
            ("https://[::1]:443", tcp("::1", 443, true)),
            ("/run/a.sock", Destination::Unix("/run/a.sock".into())),
        ] {
            assert_eq!(Target::parse(text).unwrap().destination().unwrap().0, to, "{text}");
        }
    }
}
