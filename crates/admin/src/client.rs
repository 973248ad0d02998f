//! The client of the admin API, for the CLI verbs: one request, one answer, no runtime.
//!
//! Speaks HTTP/1.1 (RFC 9112) over the unix socket, TCP or TLS and closes. Invariant: it ends
//! within [`CALL_TIME`] of silence and keeps at most [`ANSWER`] bytes, whatever answers.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use thalweg_tls::{Connector, Offer, PeerPolicy, PeerTerms, Trust};

use crate::token::Token;

/// Longest wait for a connection, and for each part of the answer.
pub const CALL_TIME: Duration = Duration::from_secs(10);
/// Largest answer, in bytes.
pub const ANSWER: u64 = 64 * 1024 * 1024;
/// Port of the admin listener when a URL has none.
const DEFAULT_PORT: u16 = 9900;

/// Where the running proxy is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// Its unix socket.
    Socket(PathBuf),
    /// `host:port` of its admin or metrics listener.
    Tcp(String),
    /// `host:port` of its admin listener, which has TLS, and a PEM file of whom to trust; `None`: whom the system trusts.
    Tls(String, Option<PathBuf>),
}

impl Target {
    /// Reads `http://host[:port]`, `https://host[:port]`, `unix:/path` or `/path`. Of `https` those are trusted whom the
    /// system trusts.
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
    source: io::Error,
}

impl CallError {
    /// Whether nobody listens there: the proxy does not run, or elsewhere.
    pub fn nobody_there(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, source } = self;
        match self.nobody_there() {
            true => write!(f, "no thalweg answers at {target}: {source}"),
            false => write!(f, "{target} gave no usable answer: {source}"),
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
    let result = match target {
        Target::Socket(socket) => UnixStream::connect(socket).and_then(|stream| {
            stream.set_read_timeout(Some(CALL_TIME))?;
            stream.set_write_timeout(Some(CALL_TIME))?;
            exchange(stream, &head("localhost", token, call)?, call.body)
        }),
        Target::Tcp(authority) => connect(authority).and_then(|stream| {
            stream.set_read_timeout(Some(CALL_TIME))?;
            stream.set_write_timeout(Some(CALL_TIME))?;
            exchange(stream, &head(authority, token, call)?, call.body)
        }),
        Target::Tls(authority, trusted) => secure(authority, trusted.as_deref())
            .and_then(|stream| exchange(stream, &head(authority, token, call)?, call.body)),
    };
    result.map_err(|source| CallError { target: target.clone(), source })
}

/// Connects to the first address of the host that answers.
fn connect(authority: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CALL_TIME) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The same through TLS. The handshake comes with the first bytes.
fn secure(authority: &str, trusted: Option<&Path>) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let trust = match trusted {
        Some(path) => Trust::Only(fs::read(path)?.into()),
        None => Trust::System,
    };
    let policy = PeerPolicy { trust, resumption: false, ..PeerPolicy::default() };
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let server = PeerTerms::new(policy).and_then(|terms| Connector::new(&Arc::new(terms), host));
    let server = server.map_err(io::Error::other)?;
    let session =
        ClientConnection::new(Arc::clone(server.client_config(Offer::Http1)), server.server_name().clone());
    let session = session.map_err(io::Error::other)?;
    let stream = connect(authority)?;
    stream.set_read_timeout(Some(CALL_TIME))?;
    stream.set_write_timeout(Some(CALL_TIME))?;
    Ok(StreamOwned::new(session, stream))
}

fn head(host: &str, token: Option<&Token>, call: Call<'_>) -> io::Result<String> {
    let Call { method, path, fields, body } = call;
    let graphic = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !graphic(method) || !graphic(path) || !path.starts_with('/') {
        return Err(invalid("the request cannot be written as HTTP"));
    }
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    if let Some(token) = token {
        head.push_str(&format!("Authorization: Bearer {}\r\n", token.reveal()));
    }
    for (name, value) in fields {
        if !graphic(name) || value.chars().any(char::is_control) {
            return Err(invalid("a field cannot be written as HTTP"));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !matches!(method, "GET" | "HEAD" | "DELETE") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    Ok(head)
}

fn exchange(mut stream: impl Read + Write, head: &str, body: &[u8]) -> io::Result<Answer> {
    stream.write_all(head.as_bytes())?;
    // Who refuses a body may answer and close before it is there whole.
    let sent = stream.write_all(body);
    let mut bytes = Vec::new();
    let read = stream.take(ANSWER + 1).read_to_end(&mut bytes);
    if bytes.is_empty() {
        sent?;
    }
    read?;
    if bytes.len() as u64 > ANSWER {
        return Err(invalid("the answer is too large"));
    }
    parse(&bytes, head.starts_with("HEAD "))
}

/// Reads a whole response that ended with the connection. Interim responses (1xx) are passed over.
fn parse(bytes: &[u8], without_body: bool) -> io::Result<Answer> {
    let broken = || invalid("it is not an HTTP answer, or it broke off");
    let mut rest = bytes;
    let (status, head) = loop {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(broken)?;
        let head = std::str::from_utf8(&rest[..end]).map_err(|_| broken())?;
        rest = &rest[end + 4..];
        let line = head.split("\r\n").next().filter(|line| line.starts_with("HTTP/1.")).ok_or_else(broken)?;
        let status: Option<u16> = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        match status.ok_or_else(broken)? {
            100..200 => {}
            status => break (status, head),
        }
    };
    let mut body = rest;
    let field = |name: &str| {
        let value = |line: &str| {
            line.split_once(':')
                .filter(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, v)| v.trim().to_owned())
        };
        head.split("\r\n").skip(1).find_map(value)
    };
    if without_body || status == 204 || status == 304 {
        return Ok(Answer { status, body: Vec::new() });
    }
    if field("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Ok(Answer { status, body: unchunked(body).ok_or_else(broken)? });
    }
    if let Some(length) = field("content-length") {
        let length: usize = length.parse().map_err(|_| broken())?;
        body = body.get(..length).ok_or_else(broken)?;
    }
    Ok(Answer { status, body: body.into() })
}

/// The content of a whole chunked body (RFC 9112 §7.1); `None` when it is malformed or not whole.
fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(content);
        }
        let rest = &bytes[end + 2..];
        content.extend_from_slice(rest.get(..size)?);
        bytes = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
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
    fn reads_answers_of_every_framing() {
        let body = |text: &str| parse(text.as_bytes(), false).map(|answer| (answer.status, answer.body)).ok();
        let ok = |body: &str| Some((200, body.as_bytes().to_vec()));
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), ok("hi"));
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\nhi"), ok("hi"));
        assert_eq!(
            body("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x\r\nhi\r\n0\r\n\r\n"),
            ok("hi")
        );
        assert_eq!(body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), ok(""));
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n").map(|(status, _)| status), Some(204));
    }

    #[test]
    fn refuses_what_is_not_a_whole_answer() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhi\r\n",
        ] {
            assert!(parse(text.as_bytes(), false).is_err(), "{text:?}");
        }
    }

    #[test]
    fn does_not_send_what_would_be_another_request() {
        let head = |method, path, fields: &[(&str, &str)]| {
            head("h", None, Call { method, path, fields, body: b"four" })
        };
        assert!(head("GET", "/a b", &[]).is_err());
        assert!(head("GET", "/\r\nX: y", &[]).is_err());
        assert!(head("G T", "/", &[]).is_err() && head("GET", "a", &[]).is_err());
        assert!(
            head("PUT", "/", &[("a", "b\r\nc: d")]).is_err() && head("PUT", "/", &[("a b", "")]).is_err()
        );
        assert!(head("PUT", "/", &[("a", "b c")]).unwrap().contains("\r\na: b c\r\nContent-Length: 4\r\n"));
    }
}
