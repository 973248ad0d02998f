//! The bytes between the engine of HTTP/2 and a client's socket.
//!
//! The engine flushes after every frame, which would be a system call, or a record of TLS, for each. Here all that it writes
//! in a turn is collected, and handed to the kernel once. What it may read at once is bounded, so that one connection cannot
//! hold a turn of the worker.

use crate::exchange::Client;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may wait for a client that does not read.
const OUTBOX: usize = 64 * 1024;
/// Bytes that the engine may read in one turn.
const SHARE: usize = 64 * 1024;

/// A connection as the engine sees it.
#[derive(Clone, Debug)]
pub(super) struct Pipe(Rc<RefCell<Wires>>);

/// What is behind it.
#[derive(Debug)]
pub(super) struct Wires {
    pub(super) client: Client,
    /// Received and not given to the engine, from `taken` on.
    inbox: Vec<u8>,
    taken: usize,
    /// Written by the engine and not with the kernel, from `gone` on.
    outbox: Vec<u8>,
    gone: usize,
    /// What is left of the engine's share of this turn.
    share: usize,
    /// The engine has been told to wait although there is more: the turn is over for it.
    is_cut_short: bool,
    /// It was told to wait because too much is in the outbox.
    is_full: bool,
    /// Nothing can be sent any more.
    is_broken: bool,
}

impl Pipe {
    /// `received`: what has come already.
    pub(super) fn new(client: Client, received: Vec<u8>) -> Self {
        Self(Rc::new(RefCell::new(Wires {
            client,
            inbox: received,
            taken: 0,
            outbox: Vec::new(),
            gone: 0,
            share: SHARE,
            is_cut_short: false,
            is_full: false,
            is_broken: false,
        })))
    }

    /// Asks something about the client.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&Wires) -> T) -> T {
        ask(&self.0.borrow())
    }

    /// A turn begins.
    pub(super) fn open(&self) {
        let mut wires = self.0.borrow_mut();
        wires.share = SHARE;
        wires.is_cut_short = false;
        wires.is_full = false;
    }

    /// Hands the kernel what has been written. `Pending`: some of it is left.
    pub(super) fn poll_send(&self) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send()
    }
}

impl Wires {
    /// Whether the engine is to go on in the next turn, without an event.
    pub(super) fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Whether the client keeps the engine waiting.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    fn poll_send(&mut self) -> Poll<io::Result<()>> {
        while self.gone < self.outbox.len() {
            let slices = [IoSlice::new(&self.outbox[self.gone..])];
            match ready!(self.client.socket.poll_send(&slices)) {
                Ok(n) => self.gone += n,
                Err(error) => {
                    self.is_broken = true;
                    (self.outbox, self.gone) = (Vec::new(), 0);
                    return Poll::Ready(Err(error));
                }
            }
        }
        // An idle connection holds nothing.
        (self.outbox, self.gone) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    fn unsent(&self) -> usize {
        self.outbox.len() - self.gone
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.unsent() >= OUTBOX && self.poll_send()?.is_pending() && self.unsent() >= OUTBOX {
            self.is_full = true;
            return Poll::Pending;
        }
        if self.gone > OUTBOX {
            self.outbox.drain(..self.gone);
            self.gone = 0;
        }
        slices.iter().for_each(|slice| self.outbox.extend_from_slice(slice));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wires = &mut *self.0.borrow_mut();
        if wires.share == 0 {
            wires.is_cut_short = true;
            return Poll::Pending;
        }
        let most = wires.share.min(buffer.remaining());
        let waiting = &wires.inbox[wires.taken..];
        let n = if waiting.is_empty() {
            let room = buffer.initialize_unfilled_to(most);
            let n = ready!(wires.client.socket.poll_recv(room))?;
            buffer.advance(n);
            n
        } else {
            let n = most.min(waiting.len());
            buffer.put_slice(&waiting[..n]);
            wires.taken += n;
            if wires.taken == wires.inbox.len() {
                (wires.inbox, wires.taken) = (Vec::new(), 0);
            }
            n
        };
        wires.share -= n;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(&[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing: what has been written is sent when the turn of the engine is over.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Nothing: who drives the engine closes the connection.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
