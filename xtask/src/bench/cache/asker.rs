//! Clients that ask for many objects, each once: a few connections, on which requests are pipelined.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Connections.
const CONNECTIONS: usize = 4;
/// Requests that are under way on each.
const DEPTH: usize = 32;
/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tally {
    /// Answers with 200.
    pub(super) ok: u64,
    /// Answers with 504, as a cache gives them that may not ask the origin.
    pub(super) absent: u64,
    /// Other answers.
    pub(super) other: u64,
}

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Objects are numbers below this.
    pub(super) prefix: &'static str,
    /// The origin is not to be asked (RFC 9111 §5.2.1.7); who does not know that asks it all the same.
    pub(super) only_if_cached: bool,
    /// Nothing is asked for after this.
    pub(super) until: Instant,
}

impl Tally {
    /// Answers in all.
    pub(super) fn all(&self) -> u64 {
        self.ok + self.absent + self.other
    }

    fn add(&mut self, status: u16) {
        match status {
            200 => self.ok += 1,
            504 => self.absent += 1,
            _ => self.other += 1,
        }
    }
}

/// Asks for these objects, in about this order.
pub(super) fn ask(address: SocketAddr, objects: &[u32], how: How) -> Result<Tally> {
    let mut sum = Tally::default();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let one = |number| scope.spawn(move || one(address, objects, number, how));
        let clients: Vec<_> = (0..CONNECTIONS).map(one).collect();
        clients.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for outcome in outcomes {
        let Ok(outcome) = outcome else { bail!("a client has panicked") };
        let tally = outcome?;
        sum.ok += tally.ok;
        sum.absent += tally.absent;
        sum.other += tally.other;
    }
    Ok(sum)
}

/// One of the clients: every fourth batch is its own.
fn one(address: SocketAddr, objects: &[u32], number: usize, how: How) -> io::Result<Tally> {
    let mut stream = open(address)?;
    let mut tally = Tally::default();
    for batch in objects.chunks(DEPTH).skip(number).step_by(CONNECTIONS) {
        if Instant::now() >= how.until {
            break;
        }
        let mut left = batch;
        while !left.is_empty() {
            stream.get_mut().write_all(requests(left, how).as_bytes())?;
            let mut closes = false;
            while let (false, Some((_, rest))) = (closes, left.split_first()) {
                let (status, last) = response(&mut stream)?;
                tally.add(status);
                (left, closes) = (rest, last);
            }
            if closes {
                stream = open(address)?;
            }
        }
    }
    Ok(tally)
}

fn open(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}

fn requests(objects: &[u32], How { prefix, only_if_cached, .. }: How) -> String {
    let field = if only_if_cached { "Cache-Control: only-if-cached\r\n" } else { "" };
    let one = |object: &u32| format!("GET {prefix}{object} HTTP/1.1\r\nHost: bench\r\n{field}\r\n");
    objects.iter().map(one).collect()
}

/// Reads one response with a known length: its status, and whether the connection ends behind it.
fn response(stream: &mut impl BufRead) -> io::Result<(u16, bool)> {
    let mut line = String::new();
    let (mut status, mut length, mut closes) = (None, None, false);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if status.is_none() {
            status = text.get(9..12).and_then(|digits| digits.parse().ok());
        } else if let Some((name, value)) = text.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<u64>().ok();
            }
            closes |= name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close");
        } else {
            break;
        }
    }
    let (Some(status), Some(length)) = (status, length) else {
        return Err(Error::new(ErrorKind::InvalidData, "a response without status or length"));
    };
    let read = io::copy(&mut stream.take(length), &mut io::sink())?;
    if read < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok((status, closes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read_one_by_one() {
        let mut text = &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 504 Gateway Timeout\r\n\
                          connection: close\r\ncontent-length: 0\r\n\r\n"[..];
        assert_eq!(response(&mut text).unwrap(), (200, false));
        assert_eq!(response(&mut text).unwrap(), (504, true));
        assert!(response(&mut text).is_err());
        assert!(response(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"[..]).is_err());
    }

    #[test]
    fn requests_are_pipelined() {
        let how = How { prefix: "/small/", only_if_cached: true, until: Instant::now() };
        let text = requests(&[1, 22], how);
        assert_eq!(text.matches("only-if-cached").count(), 2);
        assert!(text.starts_with("GET /small/1 HTTP/1.1\r\n") && text.contains("GET /small/22 "));
    }
}
