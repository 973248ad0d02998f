//! The origin: answers with large bodies and takes them.
//!
//! `GET /length/N` and `GET /chunked/N` answer with N bytes, and close afterwards when the path ends in `/close`, so
//! that a proxy has no warm connection the next time. A request with a body is answered once the body is complete:
//! 200 when it was what it had to be, 400 when not. Everything else is answered with a small text.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::body::{Check, Framing, Sender};
use crate::wire::Wire;

/// Both kinds of bodies, and the small text.
struct Answers {
    length: Sender,
    chunked: Sender,
    text: String,
}

/// Serves until the process is stopped.
pub(crate) fn serve(listen: &str, text: &str) -> io::Result<()> {
    let (length, chunked) = (Sender::new(Framing::Length)?, Sender::new(Framing::Chunked)?);
    let answers = Arc::new(Answers { length, chunked, text: text.to_owned() });
    for stream in TcpListener::bind(listen)?.incoming() {
        let (stream, answers) = (stream?, answers.clone());
        // A connection that breaks is its client's to report.
        thread::spawn(move || answers.converse(&stream));
    }
    Ok(())
}

impl Answers {
    fn converse(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut wire = Wire::new(stream);
        let mut check = Check::new();
        while let Some(head) = wire.head()? {
            if head.body.is_some_and(|body| body != (Framing::Length, 0)) {
                check.restart();
                wire.body(head.body, &mut check)?;
                let word = if check.good { "200 OK" } else { "400 Bad Request" };
                self.small(stream, word, &check.bytes.to_string())?;
                continue;
            }
            let path = head.first.split_whitespace().nth(1).unwrap_or_default();
            let words: Vec<&str> = path.split('/').skip(1).collect();
            let large = words.first().copied().and_then(Framing::of);
            match (large, words.get(1).and_then(|word| word.parse().ok())) {
                (Some(framing), Some(length)) => {
                    let close = words.get(2) == Some(&"close");
                    self.large(stream, (framing, length), close)?;
                    if close {
                        return Ok(());
                    }
                }
                _ => self.small(stream, "200 OK", &self.text)?,
            }
        }
        Ok(())
    }

    fn large(&self, mut to: &TcpStream, (framing, length): (Framing, u64), close: bool) -> io::Result<()> {
        let close = if close { "Connection: close\r\n" } else { "" };
        let field = framing.field(length);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n{field}{close}\r\n");
        to.write_all(head.as_bytes())?;
        match framing {
            Framing::Length => self.length.send(to, length),
            Framing::Chunked => self.chunked.send(to, length),
        }
    }

    fn small(&self, mut to: &TcpStream, status: &str, text: &str) -> io::Result<()> {
        let length = text.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
        to.write_all((head + text).as_bytes())
    }
}
