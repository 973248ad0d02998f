//! One HTTP/1 conversation over a blocking socket, from either end: for bodies that are too large to keep, or whose
//! every byte matters. [`crate::Connection`] is for scripts; this is for streams.
//!
//! Every read and write has a limit of its own, so a thread that talks ends whatever the other side does.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use crate::message::Kind;
use crate::{Message, STEP};

/// Longest head that is read.
const HEAD: usize = 64 * 1024;

/// The end of one connection.
#[derive(Debug)]
pub struct Talk {
    reader: BufReader<TcpStream>,
}

impl Talk {
    /// Connects to `address`.
    ///
    /// # Errors
    /// What the kernel says, within [`STEP`].
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        TcpStream::connect_timeout(&address, STEP).map(Self::new)
    }

    /// Takes over a connection.
    pub fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(STEP));
        let _ = stream.set_write_timeout(Some(STEP));
        Self { reader: BufReader::with_capacity(64 * 1024, stream) }
    }

    /// The socket, for options and for a second thread.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// A second handle on the socket, for writing while this one reads.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn writer(&self) -> io::Result<TcpStream> {
        self.stream().try_clone()
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// When the peer does not take them in time, or is gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream().write_all(bytes.as_ref())
    }

    /// Reads the next head; its body stays on the wire.
    ///
    /// # Errors
    /// `UnexpectedEof` when the connection ends before it, `InvalidData` when it is none.
    pub fn head(&mut self) -> io::Result<Message> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.reader.read_until(b'\n', &mut head)? == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended instead of a head"));
            }
            if head.len() > HEAD {
                return Err(Error::new(ErrorKind::InvalidData, "a head without end"));
            }
        }
        let parsed = Message::parse(&head, Kind::ResponseToHead, false);
        let parsed = parsed.map_err(|reason| Error::new(ErrorKind::InvalidData, reason))?;
        parsed.map(|(message, _)| message).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// The body behind `head`, decoded as it comes.
    pub fn body<'a>(&'a mut self, head: &Message) -> Body<'a> {
        let response = head.start.starts_with("HTTP/");
        let chunked = head.value("transfer-encoding").is_some();
        let length = head.value("content-length").and_then(|digits| digits.parse().ok());
        let left = match (chunked, length) {
            (true, _) => Left::Chunk(None),
            (false, Some(length)) => Left::Length(length),
            (false, None) if response => Left::UntilClose,
            (false, None) => Left::Length(0),
        };
        Body { reader: &mut self.reader, left, trailers: Vec::new() }
    }

    /// What comes until the connection ends.
    ///
    /// # Errors
    /// A reset, or silence.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends what the buffers on the way take at once, without waiting for more room.
    pub fn stuff(&self, bytes: &[u8]) {
        let _ = self.stream().set_nonblocking(true);
        let _ = self.stream().write(bytes);
        let _ = self.stream().set_nonblocking(false);
    }

    /// Reads what still comes and waits for the other side to end the connection, orderly or not.
    ///
    /// # Panics
    /// When it stays open; `case` says which.
    pub fn assert_ends(&mut self, case: &str) {
        if let Err(error) = self.rest() {
            let ended = matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
            assert!(ended, "{case}: the other side stays open: {error}");
        }
    }

    /// Ends our side.
    pub fn half_close(&self) {
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// Breaks the connection off when the last handle is closed: the peer gets a reset, what is under way is lost.
    pub fn reset(self) {
        let _ = set_socket_linger(self.stream(), Some(Duration::ZERO));
    }
}

#[derive(Clone, Copy, Debug)]
enum Left {
    /// Bytes of the body.
    Length(u64),
    /// Bytes of the chunk; `None` before its head.
    Chunk(Option<u64>),
    UntilClose,
    Nothing,
}

/// A body as it comes: reading it ends with `Ok(0)` where the body ends, and is an error when the connection ends
/// first.
#[derive(Debug)]
pub struct Body<'a> {
    reader: &'a mut BufReader<TcpStream>,
    left: Left,
    trailers: Vec<String>,
}

impl Body<'_> {
    /// Reads it to its end and gives the number of its bytes; `seen` gets each piece as it comes.
    ///
    /// # Errors
    /// When it is cut short, or nothing comes.
    pub fn each(&mut self, mut seen: impl FnMut(&[u8])) -> io::Result<u64> {
        let (mut bytes, mut sum) = (vec![0; 64 * 1024], 0);
        loop {
            let len = self.read(&mut bytes)?;
            if len == 0 {
                return Ok(sum);
            }
            seen(&bytes[..len]);
            sum += len as u64;
        }
    }

    /// The value of this trailer; `None` before the end of the body.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        let fields = self.trailers.iter().filter_map(|line| line.split_once(':'));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.by_ref().take(256).read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").map(str::to_owned);
        line.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "the body ended within its framing"))
    }

    /// Reads the head of the next chunk; for the last one, what is behind it too.
    fn next_chunk(&mut self) -> io::Result<()> {
        let line = self.line()?;
        let len = u64::from_str_radix(&line, 16)
            .map_err(|_| Error::new(ErrorKind::InvalidData, format!("not a chunk size: {line:?}")))?;
        self.left = Left::Chunk(Some(len));
        if len == 0 {
            loop {
                let line = self.line()?;
                if line.is_empty() {
                    break;
                }
                self.trailers.push(line);
            }
            self.left = Left::Nothing;
        }
        Ok(())
    }

    fn read_at_most(&mut self, bytes: &mut [u8], left: u64) -> io::Result<usize> {
        let most = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let len = self.reader.read(&mut bytes[..most])?;
        if len == 0 && most > 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the body was cut short"));
        }
        Ok(len)
    }
}

impl Read for Body<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunk(None) = self.left {
            self.next_chunk()?;
        }
        match self.left {
            Left::Nothing | Left::Length(0) => Ok(0),
            Left::UntilClose => self.reader.read(bytes),
            Left::Length(left) => {
                let len = self.read_at_most(bytes, left)?;
                self.left = Left::Length(left - len as u64);
                Ok(len)
            }
            Left::Chunk(left) => {
                let left = left.unwrap_or_default();
                let len = self.read_at_most(bytes, left)?;
                self.left = Left::Chunk(Some(left - len as u64));
                if left == len as u64 {
                    let behind = self.line()?;
                    if !behind.is_empty() {
                        return Err(Error::new(
                            ErrorKind::InvalidData,
                            format!("behind a chunk: {behind:?}"),
                        ));
                    }
                    self.left = Left::Chunk(None);
                }
                Ok(len)
            }
        }
    }
}

/// `bytes` as one chunk.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// Waits, without reading anything, until the peer has closed or broken off the connection, or `limit` has passed.
pub fn wait_hang_up(stream: &TcpStream, limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(stream, PollFlags::RDHUP)], Some(&limit));
}
