//! The bytes between the engine of HTTP/2 and the socket of a client or an endpoint.
//!
//! On the way in every frame goes by the meter, which says how many bytes the engine may have now: not more heads than
//! are taken up, and no more than a share of the turn. On the way out the engine flushes after every frame, which would
//! be a system call, or a record of TLS, for each: here all that it writes in a turn is collected, and handed to the
//! kernel once.

use super::shared::Shared;
use crate::state::exchange::Client;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use thalweg_core::limits::H2_TURN_BYTES;
use thalweg_http::h2::{Allow, Stop};
use thalweg_net::Socket;
use thalweg_upstream::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may wait for a peer that does not read.
const OUTBOX: usize = 64 * 1024;
/// Received at once.
const AT_ONCE: usize = 16 * 1024;
/// Size of a receive after a partial frame head.
const BEHIND_A_PART: usize = 1024;

/// Who has the socket.
pub(super) trait Peer {
    fn socket(&self) -> &Socket;
}

impl Peer for Client {
    fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl Peer for Connection {
    fn socket(&self) -> &Socket {
        &self.socket
    }
}

/// A connection as the engine sees it.
#[derive(Debug)]
pub(super) struct Pipe<P>(Rc<RefCell<Wires<P>>>);

impl<P> Clone for Pipe<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What is behind it.
#[derive(Debug)]
struct Wires<P> {
    peer: P,
    shared: Rc<Shared>,
    full: Full,
    /// Received and not given to the engine, from `taken` on: first what the meter lets pass, then what it drops.
    inbox: Vec<u8>,
    taken: usize,
    pass: usize,
    skip: usize,
    /// Why the engine gets no more for now.
    concurrency: Intake,
    /// The peer sends no more.
    ended: bool,
    /// Written by the engine and not with the kernel, from `gone` on.
    outbox: Vec<u8>,
    gone: usize,
    /// Nothing can be sent any more.
    is_broken: bool,
}

/// What becomes of what the peer sends while it takes nothing itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Full {
    /// It waits: a client must not make the engine answer what it never reads.
    StopsReading,
    /// It is read: an endpoint that reads when it has written is not to wait for ever.
    ReadsOn,
}

/// Why the engine gets no more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Intake {
    Open,
    /// What it had to give out is to be taken up first.
    Heads,
    /// Its turn is over.
    Turn,
    /// The peer has done what the meter does not bear.
    Flooded,
}

impl<P: Peer> Pipe<P> {
    /// `received`: what has come already.
    pub(super) fn new(peer: P, shared: &Rc<Shared>, received: Vec<u8>, full: Full) -> Self {
        Self(Rc::new(RefCell::new(Wires {
            peer,
            shared: shared.clone(),
            full,
            inbox: received,
            taken: 0,
            pass: 0,
            skip: 0,
            concurrency: Intake::Open,
            ended: false,
            outbox: Vec::new(),
            gone: 0,
            is_broken: false,
        })))
    }

    /// Asks something about the peer.
    pub(super) fn with_peer<T>(&self, ask: impl FnOnce(&P) -> T) -> T {
        ask(&self.0.borrow().peer)
    }

    /// A turn begins.
    pub(super) fn begin_turn(&self) {
        let wires = &mut *self.0.borrow_mut();
        wires.shared.meter.borrow_mut().turn(H2_TURN_BYTES);
        if wires.concurrency == Intake::Turn {
            wires.concurrency = Intake::Open;
        }
    }

    /// What the engine had to give out has been taken up. Says why it got no more, or had got no more.
    pub(super) fn open(&self) -> Intake {
        let wires = &mut *self.0.borrow_mut();
        wires.shared.meter.borrow_mut().opened();
        match wires.concurrency {
            Intake::Heads => std::mem::replace(&mut wires.concurrency, Intake::Open),
            concurrency => concurrency,
        }
    }

    /// Bytes that have been written and the kernel has not got.
    pub(super) fn unsent(&self) -> usize {
        let wires = self.0.borrow();
        wires.outbox.len() - wires.gone
    }

    /// Capacity of its buffers beyond the written bytes that are not sent yet.
    pub(super) fn spare(&self) -> usize {
        let wires = self.0.borrow();
        let unsent = wires.outbox.len() - wires.gone;
        wires.inbox.capacity() + wires.outbox.capacity() - unsent
    }

    /// Hands the kernel what has been written. `Pending`: some of it is left.
    pub(super) fn poll_send(&self) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send()
    }
}

impl<P: Peer> Wires<P> {
    fn poll_send(&mut self) -> Poll<io::Result<()>> {
        while self.gone < self.outbox.len() {
            let scheduler = [IoSlice::new(&self.outbox[self.gone..])];
            match ready!(self.peer.socket().poll_send(&scheduler)) {
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

    /// Whether nothing more can be written, also after an attempt to send.
    fn poll_is_full(&mut self) -> io::Result<bool> {
        let is_full = |wires: &Self| wires.outbox.len() - wires.gone >= OUTBOX;
        if !is_full(self) {
            return Ok(false);
        }
        match self.poll_send() {
            Poll::Ready(sent) => sent.map(|()| false),
            Poll::Pending => Ok(is_full(self)),
        }
    }

    fn write(&mut self, scheduler: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.poll_is_full()? {
            return Poll::Pending;
        }
        if self.gone > OUTBOX {
            self.outbox.drain(..self.gone);
            self.gone = 0;
        }
        for slice in scheduler {
            self.outbox.extend_from_slice(slice);
            self.shared.wrote(slice);
        }
        Poll::Ready(Ok(scheduler.iter().map(|slice| slice.len()).sum()))
    }

    /// What the meter says of bytes; a flood is nothing that may pass.
    fn judge(&mut self, bytes: &[u8]) -> Allow {
        let allow = self.shared.inbound(bytes);
        self.concurrency = match allow {
            None => Intake::Flooded,
            Some(Allow { stop: Stop::Heads, .. }) => Intake::Heads,
            Some(Allow { stop: Stop::Turn, .. }) => Intake::Turn,
            Some(_) => Intake::Open,
        };
        allow.unwrap_or(Allow { pass: 0, skip: 0, stop: Stop::Turn })
    }

    /// Gives what has been let pass.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) {
        let n = self.pass.min(buffer.remaining());
        buffer.put_slice(&self.inbox[self.taken..self.taken + n]);
        self.taken += n;
        self.pass -= n;
        if self.pass == 0 {
            self.taken += std::mem::take(&mut self.skip);
        }
        if self.taken == self.inbox.len() {
            (self.inbox, self.taken) = (Vec::new(), 0);
        }
    }

    fn poll_read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.pass == 0 {
            if self.concurrency != Intake::Open || self.full == Full::StopsReading && self.poll_is_full()? {
                return Poll::Pending;
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if self.inbox.is_empty() {
                let room = buffer.initialize_unfilled_to(buffer.remaining().min(AT_ONCE));
                let n = ready!(self.peer.socket().poll_recv(room))?;
                let received = &room[..n];
                let allow = self.judge(received);
                self.inbox.extend_from_slice(&received[allow.pass + allow.skip..]);
                self.end(n);
                if allow.pass > 0 {
                    buffer.advance(allow.pass);
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let inbox = std::mem::take(&mut self.inbox);
            let Allow { pass, skip, stop } = self.judge(&inbox[self.taken..]);
            self.inbox = inbox;
            (self.pass, self.skip) = (pass, skip);
            if pass == 0 && skip > 0 {
                self.give(buffer);
            } else if pass == 0 && stop == Stop::Bytes {
                // Only a partial frame head is left.
                self.forget_taken();
                let mut more = [0; BEHIND_A_PART];
                let n = ready!(self.peer.socket().poll_recv(&mut more))?;
                self.inbox.extend_from_slice(&more[..n]);
                self.end(n);
            }
        }
        self.give(buffer);
        Poll::Ready(Ok(()))
    }

    /// Discards the bytes that the engine has consumed, before more is received after the rest. Otherwise a peer
    /// whose frames never end at the end of a receive would keep them in memory for the life of the connection.
    fn forget_taken(&mut self) {
        self.inbox.drain(..std::mem::take(&mut self.taken));
        self.inbox.shrink_to(2 * BEHIND_A_PART);
    }

    /// So many bytes have been received. The engine gives out no head once it has seen the end, so the heads come
    /// first.
    fn end(&mut self, received: usize) {
        if received == 0 {
            self.ended = true;
            self.concurrency =
                if self.concurrency == Intake::Open { Intake::Heads } else { self.concurrency };
        }
    }
}

impl<P: Peer> AsyncRead for Pipe<P> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(buffer)
    }
}

impl<P: Peer> AsyncWrite for Pipe<P> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(&[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        scheduler: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(scheduler)
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

#[cfg(test)]
mod tests;
