//! The heads of requests and responses, parsed with httparse; called by the loop for every message.
//!
//! A request head is rewritten in as few copies as possible: the client's lines in one piece (two when
//! `Connection` stands among them), then the fields that the product adds.

use std::fmt::Write;

use httparse::{EMPTY_HEADER, Header, Status};

/// The body lasts until the connection ends.
pub(crate) const UNTIL_END: u64 = u64::MAX;
/// Fields of one head; more is an error.
const FIELDS: usize = 64;

/// What the loop needs to know of a request.
pub(crate) struct RequestHead {
    /// Bytes of the head.
    pub(crate) length: usize,
    /// Bytes of the body.
    pub(crate) body: u64,
    /// The client's connection may be used again.
    pub(crate) keep: bool,
    /// The response will have no body, whatever it says (HEAD).
    pub(crate) bodiless: bool,
}

impl RequestHead {
    /// Writes the head for the upstream into `out`; `None` when `bytes` hold no whole head yet.
    pub(crate) fn rewrite(
        bytes: &[u8],
        forwarded: &[u8],
        ids: &mut RequestIds,
        out: &mut Vec<u8>,
    ) -> Result<Option<Self>, ()> {
        let mut fields = [EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(()),
        };
        let (mut body, mut host, mut keep) = (0, &b""[..], request.version == Some(1));
        let mut copied = 0;
        for (i, field) in request.headers.iter().enumerate() {
            match field.name.len() {
                4 if field.name.eq_ignore_ascii_case("host") => host = field.value,
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    keep = keep && !field.value.eq_ignore_ascii_case(b"close");
                    out.extend_from_slice(&bytes[copied..offset(bytes, field)]);
                    copied = request.headers.get(i + 1).map_or(length - 2, |next| offset(bytes, next));
                }
                14 if field.name.eq_ignore_ascii_case("content-length") => body = number(field.value)?,
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => return Err(()),
                _ => {}
            }
        }
        out.extend_from_slice(&bytes[copied..length - 2]);
        out.extend_from_slice(forwarded);
        out.extend_from_slice(b"X-Forwarded-Proto: http\r\nX-Forwarded-Host: ");
        out.extend_from_slice(host);
        out.extend_from_slice(b"\r\nVia: 1.1 thalweg\r\nX-Request-Id: ");
        ids.write(out);
        out.extend_from_slice(b"\r\n\r\n");
        Ok(Some(Self { length, body, keep, bodiless: request.method == Some("HEAD") }))
    }
}

/// What the loop needs to know of a response.
pub(crate) struct ResponseHead {
    /// Bytes of the head.
    pub(crate) length: usize,
    /// Bytes of the body, or [`UNTIL_END`].
    pub(crate) body: u64,
    /// The upstream connection may be used again.
    pub(crate) keep: bool,
    /// Another response follows (1xx).
    pub(crate) interim: bool,
}

impl ResponseHead {
    /// Parses the head at the start of `bytes`; `None` when it is not whole yet.
    pub(crate) fn parse(bytes: &[u8], bodiless: bool) -> Result<Option<Self>, ()> {
        let mut fields = [EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(()),
        };
        let (mut body, mut keep) = (UNTIL_END, response.version == Some(1));
        for field in response.headers.iter() {
            match field.name.len() {
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    keep = keep && !field.value.eq_ignore_ascii_case(b"close");
                }
                14 if field.name.eq_ignore_ascii_case("content-length") => body = number(field.value)?,
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => return Err(()),
                _ => {}
            }
        }
        let code = response.code.unwrap_or(0);
        let interim = code / 100 == 1;
        if interim || bodiless || matches!(code, 204 | 304) {
            body = 0;
        }
        Ok(Some(Self { length, body, keep: keep && body != UNTIL_END, interim }))
    }
}

/// Where the line of a field begins in the bytes it was parsed from.
fn offset(bytes: &[u8], field: &Header<'_>) -> usize {
    field.name.as_ptr().addr() - bytes.as_ptr().addr()
}

fn number(value: &[u8]) -> Result<u64, ()> {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(())
}

/// Makes UUIDs of version 7 (RFC 9562 §5.7) from a coarse clock and a xorshift generator.
pub(crate) struct RequestIds {
    state: u64,
    unix_ms: u64,
    /// The two digits of every byte.
    digits: [[u8; 2]; 256],
}

impl RequestIds {
    /// A generator; `seed` is any number.
    pub(crate) fn seeded(seed: u64) -> Self {
        let mut digits = [[0; 2]; 256];
        for (byte, pair) in digits.iter_mut().enumerate() {
            let mut text = String::new();
            if write!(text, "{byte:02x}").is_ok() {
                pair.copy_from_slice(text.as_bytes());
            }
        }
        Self { state: seed | 1, unix_ms: 0, digits }
    }

    /// Sets the time of the ids to come, in milliseconds since the Unix epoch.
    pub(crate) fn set_time(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        let high = self.unix_ms << 16 | 0x7000 | (self.random() & 0xfff);
        let low = self.random() >> 2 | 1 << 63;
        let mut text = [b'-'; 36];
        let bytes = high.to_be_bytes().into_iter().chain(low.to_be_bytes());
        const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
        for (place, byte) in PLACES.into_iter().zip(bytes) {
            text[place..place + 2].copy_from_slice(&self.digits[usize::from(byte)]);
        }
        out.extend_from_slice(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(request: &str) -> (RequestHead, String) {
        let mut out = Vec::new();
        let mut ids = RequestIds::seeded(7);
        let head = RequestHead::rewrite(request.as_bytes(), b"X-Forwarded-For: ::1\r\n", &mut ids, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head_text, _) = text.split_once("X-Request-Id: ").unwrap();
        (head.unwrap().unwrap(), head_text.to_owned())
    }

    #[test]
    fn adds_the_products_fields_and_drops_connection() {
        let added =
            "X-Forwarded-For: ::1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nVia: 1.1 thalweg\r\n";
        let (head, text) =
            rewritten("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: */*\r\n\r\nrest");
        assert_eq!(text, format!("GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n{added}"));
        assert!(!head.keep);
        assert_eq!(head.length, 59);
        let (head, text) =
            rewritten("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: x\r\n\r\n");
        assert_eq!(text, format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{added}"));
        assert_eq!(head.body, 5);
    }

    #[test]
    fn makes_ids_of_version_seven() {
        let mut ids = RequestIds::seeded(3);
        ids.set_time(0x0192_3456_789a);
        let mut out = Vec::new();
        ids.write(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("01923456-789a-7"), "{text}");
        assert!(matches!(text.as_bytes()[19], b'8'..=b'b'), "{text}");
    }
}
