//! What flows move bytes between: a socket, or what stands for one in a simulation.

use super::framed::Framed;
use std::io::{self, IoSlice};
use std::task::Poll;
use thalweg_net::{Pipe, Socket};

/// A stream of bytes in both directions, as flows use it: a socket, or its simulation.
pub(crate) trait Stream {
    /// As [`Socket::poll_recv`].
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    /// As [`Socket::poll_send`].
    fn poll_send(&self, scheduler: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
    /// As [`Socket::poll_send_last`].
    fn poll_send_last(&self, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// As [`Socket::poll_fill`].
    fn poll_fill(&self, pipe: &Pipe, most: usize) -> Poll<io::Result<usize>>;
    /// As [`Socket::poll_drain`].
    fn poll_drain(&self, pipe: &Pipe) -> Poll<io::Result<usize>>;
    /// As [`Socket::look`].
    fn look(&self);
    /// As [`Socket::has_heard_all`].
    fn has_heard_all(&self) -> bool;
    /// Whether its bytes are those of the kernel, so that a pipe can carry them.
    fn is_plain(&self) -> bool;
    /// How messages are told apart, where it does that by itself.
    fn framed(&self) -> Option<&dyn Framed> {
        None
    }
}

impl Stream for Socket {
    #[inline]
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_recv(buffer)
    }

    #[inline]
    fn poll_send(&self, scheduler: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll_send(scheduler)
    }

    fn poll_send_last(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_last(bytes)
    }

    fn poll_fill(&self, pipe: &Pipe, most: usize) -> Poll<io::Result<usize>> {
        self.poll_fill(pipe, most)
    }

    fn poll_drain(&self, pipe: &Pipe) -> Poll<io::Result<usize>> {
        self.poll_drain(pipe)
    }

    fn look(&self) {
        self.look();
    }

    fn has_heard_all(&self) -> bool {
        self.has_heard_all()
    }

    fn is_plain(&self) -> bool {
        self.is_plain()
    }

    #[inline]
    fn framed(&self) -> Option<&dyn Framed> {
        self.substream()?;
        let stream = crate::h2::stream(self).map(|stream| stream as &dyn Framed);
        let call = || crate::h2::call(self).map(|call| call as &dyn Framed);
        stream.or_else(call).or_else(|| super::inner::end(self).map(|end| end as &dyn Framed))
    }
}
