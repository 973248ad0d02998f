//! As much of HTTP/1.1 as both ends need: heads, and bodies with a length or in chunks.

use std::io::{self, Read};
use std::net::TcpStream;

use crate::body::{Check, Framing};

/// Bytes received at once, and the most that a head may have.
const BUFFER: usize = 256 * 1024;

/// A connection with what was received but not yet used.
pub(crate) struct Wire<'a> {
    stream: &'a TcpStream,
    buf: Vec<u8>,
    begin: usize,
    end: usize,
}

/// A head: its first line, and how the body after it ends.
pub(crate) struct Head {
    pub(crate) first: String,
    /// The framing, and the length where it is known; none when there is no body.
    pub(crate) body: Option<(Framing, u64)>,
}

impl<'a> Wire<'a> {
    pub(crate) fn new(stream: &'a TcpStream) -> Self {
        Self { stream, buf: vec![0; BUFFER], begin: 0, end: 0 }
    }

    /// Receives more; an error when the other side has ended.
    fn fill(&mut self) -> io::Result<()> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.end == self.buf.len() {
            self.buf.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        match self.stream.read(&mut self.buf[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<String> {
        loop {
            let held = &self.buf[self.begin..self.end];
            if let Some(at) = held.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&held[..at]).trim_end().to_owned();
                self.begin += at + 1;
                return Ok(line);
            }
            self.fill()?;
        }
    }

    /// The next head; `None` when the other side ended before its first byte.
    pub(crate) fn head(&mut self) -> io::Result<Option<Head>> {
        if self.begin == self.end {
            match self.fill() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                other => other?,
            }
        }
        let first = self.line()?;
        let mut body = None;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok(Some(Head { first, body }));
            }
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("transfer-encoding", "chunked")) => body = Some((Framing::Chunked, 0)),
                Some(("content-length", length)) => {
                    body = Some((Framing::Length, length.parse().map_err(io::Error::other)?));
                }
                _ => {}
            }
        }
    }

    /// Reads a whole body through the check.
    pub(crate) fn body(&mut self, framing: Option<(Framing, u64)>, check: &mut Check) -> io::Result<()> {
        match framing {
            None => Ok(()),
            Some((Framing::Length, length)) => self.pass(length, check),
            Some((Framing::Chunked, _)) => loop {
                let line = self.line()?;
                let size = line.split(';').next().unwrap_or_default();
                match u64::from_str_radix(size, 16).map_err(io::Error::other)? {
                    0 => {
                        while !self.line()?.is_empty() {}
                        return Ok(());
                    }
                    size => self.pass(size, check)?,
                }
                if !self.line()?.is_empty() {
                    return Err(io::Error::other("a chunk is longer than it says"));
                }
            },
        }
    }

    fn pass(&mut self, mut length: u64, check: &mut Check) -> io::Result<()> {
        while length > 0 {
            if self.begin == self.end {
                self.fill()?;
            }
            let here = ((self.end - self.begin) as u64).min(length);
            check.feed(&self.buf[self.begin..self.begin + here as usize]);
            self.begin += here as usize;
            length -= here;
        }
        Ok(())
    }
}
