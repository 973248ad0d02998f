//! The bodies: bytes that tell where they belong, so that loss, doubling and disorder are seen.
//!
//! A block of random bytes repeats for as long as the body is. Its length is a prime, so that a lost or doubled
//! piece of any usual buffer size shifts what follows against it.

use std::io;
use std::net::TcpStream;
use std::sync::LazyLock;

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};

/// Bytes of the block that repeats.
const BLOCK: usize = 65_521;
/// Blocks kept in memory for sending.
const BLOCKS: usize = 32;
/// Most bytes of a chunk: four make a block.
const CHUNK: usize = BLOCK.div_ceil(4);

/// How a body says where it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Framing {
    Length,
    Chunked,
}

impl Framing {
    /// The word on the command line and in paths.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "length" => Some(Self::Length),
            "chunked" => Some(Self::Chunked),
            _ => None,
        }
    }

    /// The field of a head that announces it.
    pub(crate) fn field(self, length: u64) -> String {
        match self {
            Self::Length => format!("Content-Length: {length}\r\n"),
            Self::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        }
    }
}

/// The block: the same in every process, and there once in each.
fn block() -> &'static [u8] {
    static BLOCK_OF_ALL: LazyLock<Vec<u8>> = LazyLock::new(random_block);
    &BLOCK_OF_ALL
}

fn random_block() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(BLOCK).collect()
}

/// The beginning of a body with the framing of chunks, without the last one.
fn chunks(bytes: &[u8]) -> Vec<u8> {
    let framed = bytes.chunks(CHUNK).map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat());
    framed.flatten().collect()
}

/// Compares a body with what it has to be.
pub(crate) struct Check {
    block: &'static [u8],
    at: usize,
    /// Bytes seen so far.
    pub(crate) bytes: u64,
    /// Whether all were in their place.
    pub(crate) good: bool,
}

impl Check {
    pub(crate) fn new() -> Self {
        Self { block: block(), at: 0, bytes: 0, good: true }
    }

    /// Starts with another body.
    pub(crate) fn restart(&mut self) {
        (self.at, self.bytes, self.good) = (0, 0, true);
    }

    /// The next bytes of the body.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let here = bytes.len().min(BLOCK - self.at);
            self.good &= bytes[..here] == self.block[self.at..self.at + here];
            self.at = (self.at + here) % BLOCK;
            bytes = &bytes[here..];
        }
    }
}

/// Sends bodies from memory of the kernel, so that the ends cost as little as they can.
pub(crate) struct Sender {
    framing: Framing,
    block: &'static [u8],
    /// Repeated blocks, as they go over the wire.
    memory: OwnedFd,
    /// Bytes of one block in it.
    framed: u64,
}

impl Sender {
    pub(crate) fn new(framing: Framing) -> io::Result<Self> {
        let block = block();
        let framed = match framing {
            Framing::Length => block.to_vec(),
            Framing::Chunked => chunks(block),
        };
        let memory = memfd_create("body", MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(memory.try_clone()?);
        io::Write::write_all(&mut file, &framed.repeat(BLOCKS))?;
        Ok(Self { framing, block, memory, framed: framed.len() as u64 })
    }

    /// Sends from byte `at` on of a body of `length` bytes without framing, as much as the socket takes at once.
    pub(crate) fn send_some(&self, to: &TcpStream, at: u64, length: u64) -> io::Result<u64> {
        let all = (BLOCK * BLOCKS) as u64;
        let mut from = at % all;
        let most = (all - from).min(length - at);
        let sent = rustix::fs::sendfile(to, &self.memory, Some(&mut from), most as usize)?;
        Ok(sent as u64)
    }

    /// Sends a whole body of `length` bytes, its end included.
    pub(crate) fn send(&self, mut to: &TcpStream, length: u64) -> io::Result<()> {
        let whole = length / BLOCK as u64 * self.framed;
        let all = self.framed * BLOCKS as u64;
        let mut sent = 0;
        while sent < whole {
            let mut at = sent % all;
            let most = (all - at).min(whole - sent);
            match rustix::fs::sendfile(to, &self.memory, Some(&mut at), most as usize) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let rest = &self.block[..(length % BLOCK as u64) as usize];
        let rest = match self.framing {
            Framing::Length => rest.to_vec(),
            Framing::Chunked => [&chunks(rest)[..], b"0\r\n\r\n"].concat(),
        };
        io::Write::write_all(&mut to, &rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_pieces_is_good_and_a_lost_a_doubled_and_a_changed_byte_are_not() {
        let body = block().repeat(3);
        let good = |pieces: &[&[u8]]| {
            let mut check = Check::new();
            pieces.iter().for_each(|piece| check.feed(piece));
            check.good
        };
        assert!(good(&[&body[..4096], &body[4096..100_000], &body[100_000..]]));
        assert!(!good(&[&body[..4096], &body[4097..]]));
        assert!(!good(&[&body[..4096], &body[..4096], &body[4096..]]));
        let mut changed = body.clone();
        changed[100_000] ^= 1;
        assert!(!good(&[&changed]));
    }

    #[test]
    fn four_chunks_make_a_block() {
        let framed = chunks(block());
        assert_eq!(framed.len(), BLOCK + 4 * "3ffd\r\n\r\n".len());
        assert!(framed.starts_with(b"3ffd\r\n"));
    }
}
