//! A raw client of HTTP/2: it writes whatever frames a test wants, lawful or not, and reads those of the proxy.
//!
//! Nothing of the product's own code is used: heads are written as literals of HPACK (RFC 7541 §6.2.2), and of heads
//! that come only the status is read. The client's table is declared empty, so no head refers to another one.

use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::connection::Event;
use crate::{Connection, STEP};

/// What a client says first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// DATA.
pub const DATA: u8 = 0;
/// HEADERS.
pub const HEADERS: u8 = 1;
/// PRIORITY.
pub const PRIORITY: u8 = 2;
/// RST_STREAM.
pub const RST_STREAM: u8 = 3;
/// SETTINGS.
pub const SETTINGS: u8 = 4;
/// PING.
pub const PING: u8 = 6;
/// GOAWAY.
pub const GOAWAY: u8 = 7;
/// WINDOW_UPDATE.
pub const WINDOW_UPDATE: u8 = 8;
/// CONTINUATION.
pub const CONTINUATION: u8 = 9;

/// END_STREAM.
pub const END: u8 = 1;
/// The flag of SETTINGS and PING: an answer to the peer's.
pub const ACK: u8 = 1;
/// END_HEADERS.
pub const END_HEADERS: u8 = 4;
/// PADDED.
pub const PADDED: u8 = 8;

/// NO_ERROR.
pub const NO_ERROR: u32 = 0;
/// PROTOCOL_ERROR.
pub const PROTOCOL_ERROR: u32 = 1;
/// REFUSED_STREAM.
pub const REFUSED_STREAM: u32 = 7;
/// CANCEL.
pub const CANCEL: u32 = 8;
/// ENHANCE_YOUR_CALM.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// One frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(self.payload.get(at..)?.first_chunk().copied()?))
    }

    /// The increment of WINDOW_UPDATE.
    pub fn increment(&self) -> Option<usize> {
        let bytes = self.payload.first_chunk().filter(|_| self.kind == WINDOW_UPDATE)?;
        usize::try_from(u32::from_be_bytes(*bytes)).ok()
    }

    /// The status of HEADERS that begin with one.
    pub fn status(&self) -> Option<u16> {
        let mut block = &self.payload[..];
        // The size of the table (RFC 7541 §6.3).
        while let [0x20..=0x3f, rest @ ..] = block {
            block = rest;
        }
        match block {
            _ if self.kind != HEADERS => None,
            [indexed @ 0x88..=0x8e, ..] => {
                Some([200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)])
            }
            // A literal whose name is in the static table: with and without a place in the other one.
            [0x48 | 0x08 | 0x18, 3, digits @ ..] => std::str::from_utf8(digits.get(..3)?).ok()?.parse().ok(),
            [0x48 | 0x08 | 0x18, len @ (0x82 | 0x83), text @ ..] => {
                digits(text.get(..usize::from(len - 0x80))?)
            }
            _ => None,
        }
    }

    /// Whether it ends its stream's message.
    pub fn ends(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END != 0
    }
}

/// Three digits in the code of RFC 7541 appendix B: five bits for 0 to 2, six for the others.
fn digits(text: &[u8]) -> Option<u16> {
    let bits = text.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let (mut left, mut number) = (8 * text.len(), 0);
    for _ in 0..3 {
        let five = bits >> left.checked_sub(5)? & 31;
        let (digit, len) = match five {
            0..=2 => (five, 5),
            _ => ((bits >> left.checked_sub(6)? & 63).checked_sub(0b01_1001)? + 3, 6),
        };
        left -= len;
        number = number * 10 + u16::try_from(digit).ok()?;
    }
    Some(number)
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field that is written out; name and value are shorter than 16 KiB.
pub fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        length(&mut out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// An integer with a prefix of seven bits (RFC 7541 §5.1).
fn length(out: &mut Vec<u8>, len: usize) {
    if len < 127 {
        return out.push(u8::try_from(len).unwrap());
    }
    out.push(127);
    let mut rest = len - 127;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// The field section of a request with these further fields.
pub fn section(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "a.test"), (":path", path)];
    pseudo.iter().chain(fields).flat_map(|(name, value)| literal(name, value)).collect()
}

/// A request without a body.
pub fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END | END_HEADERS, stream, &section("GET", path, &[]))
}

/// A response's head and its body, which ends the stream.
pub fn response(stream: u32, status: u16, body: &[u8]) -> Vec<u8> {
    let head = literal(":status", &status.to_string());
    [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, END, stream, body)].concat()
}

/// The last stream that is served, and why.
pub fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// The end of a stream before its time.
pub fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// More room, on a stream or (0) the connection.
pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// Settings of the client: numbers and values (RFC 9113 §6.5.2).
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// SETTINGS_HEADER_TABLE_SIZE.
pub const TABLE_SIZE: u16 = 1;
/// SETTINGS_MAX_CONCURRENT_STREAMS.
pub const MAX_STREAMS: u16 = 3;
/// SETTINGS_INITIAL_WINDOW_SIZE.
pub const INITIAL_WINDOW: u16 = 4;

/// A client's end of a connection.
#[derive(Debug)]
pub struct Frames {
    connection: Connection,
}

/// How a connection came to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ending {
    /// The codes of the GOAWAY frames that came first.
    pub goaways: Vec<u32>,
    /// RST_STREAM: streams and codes.
    pub resets: Vec<(u32, u32)>,
    /// The end itself.
    pub event: Event,
}

impl Frames {
    /// Connects and exchanges settings, its own among them.
    ///
    /// # Panics
    /// When the proxy does not do its part.
    pub fn open(address: SocketAddr, own: &[(u16, u32)]) -> Self {
        Self::over(Connection::open(address).unwrap(), own)
    }

    /// As [`Self::open`], on a connection that is there.
    ///
    /// # Panics
    /// As [`Self::open`].
    pub fn over(connection: Connection, own: &[(u16, u32)]) -> Self {
        let mut client = Self { connection };
        let own: Vec<_> = [(TABLE_SIZE, 0)].iter().chain(own).copied().collect();
        client.send([PREFACE, &settings(&own)].concat());
        client.until(|frame| (frame.kind == SETTINGS && frame.flags & ACK == 0).then_some(()));
        client.send(frame(SETTINGS, ACK, 0, &[]));
        client
    }

    /// On a connection that is there: says the preface and its settings, and acknowledges nothing.
    pub fn over_without_a_word(connection: Connection) -> Self {
        let client = Self { connection };
        client.send([PREFACE, &settings(&[(TABLE_SIZE, 0)])].concat());
        client
    }

    /// The server's end of an accepted connection: reads the preface and exchanges settings, its own among them.
    ///
    /// # Panics
    /// When the proxy does not do its part.
    pub fn accept(stream: TcpStream, own: &[(u16, u32)]) -> Self {
        let mut server = Self { connection: Connection::new(stream) };
        let deadline = Instant::now() + STEP;
        while server.connection.seen().len() < PREFACE.len() {
            assert_eq!(server.connection.read(deadline), Event::Bytes, "no preface");
        }
        assert_eq!(server.connection.take(PREFACE.len()), PREFACE);
        let own: Vec<_> = [(TABLE_SIZE, 0)].iter().chain(own).copied().collect();
        server.send(settings(&own));
        server.until(|frame| (frame.kind == SETTINGS && frame.flags & ACK == 0).then_some(()));
        server.send(frame(SETTINGS, ACK, 0, &[]));
        server
    }

    /// The stream of the next request whose head comes.
    ///
    /// # Panics
    /// As [`Self::until`].
    pub fn asked(&mut self) -> u32 {
        self.until(|frame| (frame.kind == HEADERS).then_some(frame.stream))
    }

    /// Sends bytes, of frames or not.
    pub fn send(&self, bytes: impl Into<Vec<u8>>) {
        self.connection.send(bytes);
    }

    /// The next frame.
    ///
    /// # Errors
    /// How the connection ended, or that nothing came.
    pub fn next(&mut self, deadline: Instant) -> Result<Frame, Event> {
        loop {
            let seen = self.connection.seen();
            if let Some(&[a, b, c, kind, flags, s, t, u, v]) = seen.first_chunk::<9>() {
                let len = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap();
                if seen.len() >= 9 + len {
                    let payload = self.connection.take(9 + len).split_off(9);
                    return Ok(Frame { kind, flags, stream: u32::from_be_bytes([s, t, u, v]), payload });
                }
            }
            match self.connection.read(deadline) {
                Event::Bytes => {}
                other => return Err(other),
            }
        }
    }

    /// The next frame that is of none of these kinds.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_but(&mut self, kinds: &[u8], deadline: Instant) -> Result<Frame, Event> {
        loop {
            let frame = self.next(deadline)?;
            if !kinds.contains(&frame.kind) {
                return Ok(frame);
            }
        }
    }

    /// Reads frames until one of them is what is looked for.
    ///
    /// # Panics
    /// When none is, before the connection ends or [`STEP`] is over.
    pub fn until<T>(&mut self, mut find: impl FnMut(&Frame) -> Option<T>) -> T {
        let deadline = Instant::now() + STEP;
        let mut seen = Vec::new();
        loop {
            match self.next(deadline) {
                Ok(frame) => match find(&frame) {
                    Some(found) => return found,
                    None => seen.push((frame.kind, frame.flags, frame.stream, frame.code())),
                },
                Err(event) => panic!("{event:?} after {seen:?}"),
            }
        }
    }

    /// What is answered on a stream: its status, or the code with which it was reset.
    ///
    /// # Panics
    /// As [`Self::until`].
    pub fn answer(&mut self, stream: u32) -> Result<u16, u32> {
        self.until(|frame| match frame.code() {
            _ if frame.stream != stream => None,
            Some(code) => Some(Err(code)),
            None => frame.status().map(Ok),
        })
    }

    /// Reads until the connection ends.
    pub fn ending(&mut self) -> Ending {
        let deadline = Instant::now() + STEP;
        let mut ending = Ending { goaways: Vec::new(), resets: Vec::new(), event: Event::Late };
        loop {
            match self.next(deadline) {
                Ok(frame) => match (frame.kind, frame.code()) {
                    (GOAWAY, Some(code)) => ending.goaways.push(code),
                    (RST_STREAM, Some(code)) => ending.resets.push((frame.stream, code)),
                    _ => {}
                },
                Err(event) => return Ending { event, ..ending },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_all_their_forms() {
        let status =
            |payload: &[u8]| Frame { kind: HEADERS, flags: 0, stream: 1, payload: payload.to_vec() }.status();
        assert_eq!(status(&[0x88]), Some(200));
        assert_eq!(status(&[0x20, 0x8d, 1]), Some(404));
        assert_eq!(status(b"\x48\x03431x"), Some(431));
        assert_eq!(status(&[0x08, 0x82, 0x10, 0x01, 0]), Some(200));
        // RFC 7541 C.6.
        assert_eq!(status(&[0x48, 0x82, 0x64, 0x02]), Some(302));
        assert_eq!(status(&[0x48, 0x83, 0x64, 0x0e, 0xff]), Some(307));
        assert_eq!(status(&[0x48, 0x83, 0x64, 0x0e]), None);
        assert_eq!(status(&[]), None);
    }

    #[test]
    fn literals_have_the_lengths_of_the_rfc() {
        assert_eq!(literal("a", "bc"), [0, 1, b'a', 2, b'b', b'c']);
        let long = literal("a", &"x".repeat(1337));
        assert_eq!(long[3..6], [127, 0xba, 0x09]);
        assert_eq!(long.len(), 6 + 1337);
    }
}
