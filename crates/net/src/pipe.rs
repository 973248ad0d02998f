//! A pipe through which bytes get from one socket to another without passing through user memory.
//!
//! [`Socket::poll_fill`](crate::Socket::poll_fill) moves what a socket has received into the pipe, and
//! [`Socket::poll_drain`](crate::Socket::poll_drain) what is in the pipe to a socket: the kernel passes
//! pages on and copies nothing. Invariant: [`Pipe::held`] is what is in the pipe, as it has one user only.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::Cell;
use std::io;

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// A non-blocking pipe. Dropping it closes both ends, and forgets what is in it.
#[derive(Debug)]
pub struct Pipe {
    into: OwnedFd,
    out: OwnedFd,
    held: Cell<usize>,
}

impl Pipe {
    /// A pipe with slots for so many bytes in whole pages. A slot takes what was received in one piece: less
    /// than a page from a network card, more on loopback.
    ///
    /// # Errors
    /// When there is no descriptor left, or the user's pipes hold as much as they may (`pipe(7)`).
    pub fn new(bytes: usize) -> io::Result<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        fcntl_setpipe_size(&into, bytes)?;
        Ok(Self { into, out, held: Cell::new(0) })
    }

    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Takes bytes out into user memory; 0 when it holds none.
    ///
    /// # Errors
    /// None that the kernel is known for.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.held() == 0 {
            return Ok(0);
        }
        let n = rustix::io::retry_on_intr(|| rustix::io::read(&self.out, &mut *buffer))?;
        self.held.set(self.held() - n);
        Ok(n)
    }

    /// Puts bytes in from user memory, as many as it takes; for streams that are simulated.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when it is full.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let n = rustix::io::retry_on_intr(|| rustix::io::write(&self.into, bytes))?;
        self.held.set(self.held() + n);
        Ok(n)
    }

    /// Moves up to `most` bytes from a socket into it.
    pub(crate) fn fill(&self, from: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        let n = splice(from, None, &self.into, None, most, FLAGS)?;
        self.held.set(self.held() + n);
        Ok(n)
    }

    /// Moves what is in it to a socket, as much as that takes.
    pub(crate) fn drain(&self, to: BorrowedFd<'_>) -> Result<usize, Errno> {
        let n = splice(&self.out, None, to, None, self.held(), FLAGS)?;
        self.held.set(self.held() - n);
        Ok(n)
    }
}

/// The error of a splice: [`io::ErrorKind::Unsupported`] where the kernel, or what stands in its place or
/// between it and us, does not do this with these sockets.
pub(crate) fn error_of(error: Errno) -> io::Error {
    match error {
        Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP => io::ErrorKind::Unsupported.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests;
