//! A whole HTTP/1 message as the tests read it: simple, strict, and independent of the product's parser.

use std::net::SocketAddr;
use std::time::Instant;

use crate::connection::Event;
use crate::{Connection, STEP};

/// What a response's body depends on besides its own head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A request.
    Request,
    /// A response to any method but HEAD.
    Response,
    /// A response to HEAD: no body whatever the fields say.
    ResponseToHead,
}

/// A complete message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The first line.
    pub start: String,
    /// The fields in order, as sent.
    pub fields: Vec<(String, String)>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
}

impl Message {
    /// The values of `name`, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields
            .iter()
            .filter(move |(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }

    /// The first value of `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.start.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// The target of a request.
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Reads the next message of a connection, interim responses not skipped.
    ///
    /// # Errors
    /// What is wrong with it, or how the connection ended before it was complete.
    pub fn read(connection: &mut Connection, kind: Kind, deadline: Instant) -> Result<Self, String> {
        loop {
            let ended = connection.end() == Some(Event::End);
            if let Some((message, len)) = Self::parse(connection.seen(), kind, ended)? {
                connection.take(len);
                return Ok(message);
            }
            match connection.read(deadline) {
                Event::Bytes => {}
                // A body that ends with its connection is complete now: look once more.
                Event::End if !ended => {}
                other => {
                    let seen = connection.seen().escape_ascii();
                    return Err(format!("{other:?} before the message was complete; seen: {seen}"));
                }
            }
        }
    }

    /// Parses a message at the start of `bytes` and tells its length; `None` when more bytes are needed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8], kind: Kind, ended: bool) -> Result<Option<(Self, usize)>, String> {
        let Some(head) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("not a field: {line:?}"))?;
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut message = Self { start, fields, body: Vec::new() };
        let rest = &bytes[head + 4..];
        Ok(message.take_body(rest, kind, ended)?.map(|len| (message, head + 4 + len)))
    }

    /// Reads the body from `rest` and returns its length on the wire; `None` when it is not complete.
    fn take_body(&mut self, rest: &[u8], kind: Kind, ended: bool) -> Result<Option<usize>, String> {
        let status = self.status();
        let bodiless =
            kind == Kind::ResponseToHead || kind == Kind::Response && matches!(status, 100..=199 | 204 | 304);
        if bodiless {
            return Ok(Some(0));
        }
        if self.value("transfer-encoding").is_some() {
            return self.take_chunks(rest);
        }
        let len = match self.value("content-length") {
            Some(digits) => digits.parse().map_err(|_| format!("content-length: {digits:?}"))?,
            None if kind == Kind::Request => 0,
            None if ended => rest.len(),
            None => return Ok(None),
        };
        self.body = rest.get(..len).map(<[u8]>::to_vec).unwrap_or_default();
        Ok((rest.len() >= len).then_some(len))
    }

    fn take_chunks(&mut self, rest: &[u8]) -> Result<Option<usize>, String> {
        let mut at = 0;
        loop {
            let Some(line) = find(&rest[at..], b"\r\n") else { return Ok(None) };
            let digits = String::from_utf8_lossy(&rest[at..at + line]).into_owned();
            let len = usize::from_str_radix(&digits, 16).map_err(|_| format!("chunk size: {digits:?}"))?;
            at += line + 2;
            if len == 0 {
                // Trailers, if any, end like a head; without any the blank line stands alone.
                let end = if rest[at..].starts_with(b"\r\n") {
                    Some(2)
                } else {
                    find(&rest[at..], b"\r\n\r\n").map(|end| end + 4)
                };
                return Ok(end.map(|end| at + end));
            }
            let Some(data) = rest.get(at..at + len + 2) else { return Ok(None) };
            if !data.ends_with(b"\r\n") {
                return Err("chunk data without CRLF behind it".to_owned());
            }
            self.body.extend_from_slice(&data[..len]);
            at += len + 2;
        }
    }
}

/// Makes one request on a connection of its own and reads the answer.
///
/// # Errors
/// Why there is none.
pub fn fetch(address: SocketAddr, request: &str) -> Result<Message, String> {
    let mut connection = Connection::open(address).map_err(|error| error.to_string())?;
    connection.send(request);
    let kind = if request.starts_with("HEAD ") { Kind::ResponseToHead } else { Kind::Response };
    Message::read(&mut connection, kind, Instant::now() + STEP)
}

/// [`fetch`] of a path with GET, without keep-alive.
///
/// # Errors
/// Why there is no answer.
pub fn get(address: SocketAddr, path: &str) -> Result<Message, String> {
    fetch(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// Where `needle` begins in `bytes`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
