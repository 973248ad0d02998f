//! A client on the test's own thread: one connection, one request after the other, every answer read whole.
//!
//! Not [`thalweg_tests::Connection`], which has a thread per connection: here are thousands of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use thalweg_tests::message::Kind;
use thalweg_tests::{Message, STEP};

/// A keep-alive connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Client {
    /// Connects.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        Self { stream, seen: Vec::new() }
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).unwrap();
    }

    /// Reads the next answer; `None` when the connection ends before its first byte.
    ///
    /// # Panics
    /// When it is not whole, or does not come within [`STEP`].
    pub(crate) fn read(&mut self) -> Option<Message> {
        let mut bytes = [0; 4096];
        loop {
            if let Some((message, len)) = Message::parse(&self.seen, Kind::Response, false).unwrap() {
                self.seen.drain(..len);
                return Some(message);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) if self.seen.is_empty() => return None,
                Ok(0) => panic!("an answer breaks off: {}", self.seen.escape_ascii()),
                Ok(len) => self.seen.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset && self.seen.is_empty() => {
                    return None;
                }
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// Reads the head of the next answer, which has no body; what came behind it is still to be read.
    ///
    /// # Panics
    /// When it is not whole, or does not come within [`STEP`].
    pub(crate) fn read_head(&mut self) -> (String, &[u8]) {
        let mut bytes = [0; 4096];
        let end = loop {
            if let Some(at) = thalweg_tests::message::find(&self.seen, b"\r\n\r\n") {
                break at + 4;
            }
            let len = self.stream.read(&mut bytes).unwrap();
            assert!(len > 0, "the head breaks off");
            self.seen.extend_from_slice(&bytes[..len]);
        };
        let head = self.seen.drain(..end).collect();
        (String::from_utf8(head).unwrap(), &self.seen)
    }

    /// Sends a request and reads its answer, which must be 200.
    pub(crate) fn ask(&mut self, request: &str) {
        self.send(request);
        let answer = self.read().expect("the connection was closed");
        assert_eq!(answer.status(), 200, "{answer:?}");
    }
}

/// A GET of `path`, without a body.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nUser-Agent: steady/1\r\nAccept: */*\r\n\r\n")
}
