//! The least of HTTP/2 with which a client can ask, one stream after the other (RFC 9113, RFC 7541).

use std::io::{self, Read, Write};

use crate::secure;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const HEADER_LEN: usize = 9;

/// A connection of HTTP/2.
pub(crate) struct Conversation<S> {
    stream: S,
    /// The last stream that was opened; 0: none, and the preface has not been sent.
    last: u32,
}

impl<S: Read + Write> Conversation<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, last: 0 }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    /// Asks for `/` and gives the answer's body.
    pub(crate) fn exchange(&mut self, scheme: &str) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        if self.last == 0 {
            out.extend_from_slice(PREFACE);
            put(&mut out, SETTINGS, 0, 0, &[]);
        }
        self.last = if self.last == 0 { 1 } else { self.last + 2 };
        put(&mut out, HEADERS, END_STREAM | END_HEADERS, self.last, &fields(scheme));
        self.send(&out)?;
        let mut body = Vec::new();
        loop {
            let (kind, flags, id, payload) = self.frame()?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.answer(SETTINGS, &[])?,
                PING if flags & ACK == 0 => self.answer(PING, &payload)?,
                // No padding: nobody here sends it.
                DATA if id == self.last => body.extend_from_slice(&payload),
                _ => {}
            }
            if matches!(kind, DATA | HEADERS) && id == self.last && flags & END_STREAM != 0 {
                return Ok(body);
            }
        }
    }

    fn answer(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let mut out = Vec::new();
        put(&mut out, kind, ACK, 0, payload);
        self.send(&out)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// The next frame: kind, flags, stream, payload.
    fn frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; HEADER_LEN];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok((kind, flags, u32::from_be_bytes(id) & (u32::MAX >> 1), payload))
    }
}

fn put(out: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The fields of a request, of the static table: GET, the scheme, `/`, and the host as a literal that is not
/// remembered.
fn fields(scheme: &str) -> Vec<u8> {
    let scheme = if scheme == "https" { 0x87 } else { 0x86 };
    let mut fields = vec![0x82, scheme, 0x84, 0x01, secure::HOST.len() as u8];
    fields.extend_from_slice(secure::HOST.as_bytes());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads from one side, remembers what was written.
    struct Ends {
        from: io::Cursor<Vec<u8>>,
        sent: Vec<u8>,
    }

    impl Read for Ends {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.from.read(buf)
        }
    }

    impl Write for Ends {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.sent.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_ends_with_its_stream_and_settings_are_acknowledged() {
        let mut from = Vec::new();
        put(&mut from, SETTINGS, 0, 0, &[]);
        put(&mut from, HEADERS, END_HEADERS, 1, &[0x88]);
        put(&mut from, DATA, 0, 1, b"ab");
        put(&mut from, DATA, END_STREAM, 1, b"c");
        put(&mut from, HEADERS, END_HEADERS | END_STREAM, 3, &[0x88]);
        let mut conversation = Conversation::new(Ends { from: io::Cursor::new(from), sent: Vec::new() });
        assert_eq!(conversation.exchange("http").unwrap(), b"abc");
        assert_eq!(conversation.exchange("http").unwrap(), b"");
        let sent = &conversation.stream().sent;
        assert!(sent.starts_with(PREFACE));
        assert_eq!(
            sent.windows(HEADER_LEN).filter(|head| *head == [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]).count(),
            1
        );
        assert!(conversation.exchange("http").is_err());
    }
}
