//! A socket with a [`Layer`]: what the calls of [`Socket`] do then, with the same contracts, in bytes of plaintext.
//!
//! Sent bytes count when their records are with the kernel as a whole; until then the call says `Pending`, and whoever
//! calls again offers the same bytes first, as all of this product do. So no sealed rest can be forgotten in a
//! connection that waits.

use crate::layer::Layer;
use crate::reactor::{Reactor, ready};
use crate::socket::Socket;
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Poll, ready};
use thalweg_core::Opened;

/// Plaintext that is sealed at once.
const AT_ONCE: usize = 64 * 1024;
/// What sealing adds to it at most, with what the layer has to say besides.
const ADDED: usize = 4 * 1024;
/// Received at least at once: the largest record.
const RECORD: usize = 16 * 1024 + 2048 + 5;
/// Received at most at once.
const RECEIVED: usize = 64 * 1024 + RECORD;
/// Receives in a row, in one call, that brought no plaintext: what a peer sends to keep this side busy waits for its
/// turn.
const FRUITLESS: usize = 8;
/// What may wait to be sent when the layer has more to say: all that is sealed at once, and words to a peer that does
/// not read.
const UNSAID: usize = 64 * 1024 + AT_ONCE + ADDED;
/// Slices of one send that are looked at.
const SLICES: usize = 16;

/// A layer, and the bytes between it and the kernel.
#[derive(Debug)]
pub(crate) struct Layered {
    layer: Box<dyn Layer>,
    /// Received and not consumed.
    held: Vec<u8>,
    /// Sealed and not with the kernel: from `gone` on.
    unsent: Vec<u8>,
    gone: usize,
    /// Plaintext that was sealed and is not counted as sent yet.
    sealed: usize,
    /// There is plaintext, or a record may be whole, without further input.
    more: bool,
    ended: bool,
    /// A farewell would be a lie, or has been said.
    mute: bool,
    /// Nothing is sent behind what is unsent.
    closing: bool,
    /// An end that was not told of is one too.
    believes_any_end: bool,
    /// Nothing is under way: whatever ends the connection now, what the peer got is whole.
    at_rest: bool,
    /// Bytes of its buffers as last reported to the reactor.
    counted: usize,
}

/// Where records pass through on their way: one place for all sockets of a reactor.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    received: Vec<u8>,
    sealed: Vec<u8>,
}

impl Staging {
    fn received(&mut self) -> &mut [u8] {
        self.received.resize(RECEIVED, 0);
        &mut self.received
    }

    fn sealed(&mut self) -> &mut [u8] {
        self.sealed.resize(AT_ONCE + ADDED, 0);
        &mut self.sealed
    }
}

/// A descriptor off its reactor, with its layer.
#[derive(Debug)]
pub struct DetachedSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) layer: Option<Box<RefCell<Layered>>>,
}

impl Layered {
    /// `received`: what has come for the layer already.
    pub(crate) fn new(layer: Box<dyn Layer>, received: &[u8]) -> Self {
        let more = !received.is_empty();
        let (held, unsent) = (received.to_vec(), Vec::new());
        Self {
            layer,
            held,
            unsent,
            gone: 0,
            sealed: 0,
            more,
            ended: false,
            mute: false,
            closing: false,
            believes_any_end: false,
            at_rest: false,
            counted: 0,
        }
    }

    /// Reports the present size of its buffers to the reactor.
    pub(crate) fn count(&mut self, reactor: &Reactor) {
        let now = self.held.capacity() + self.unsent.capacity();
        reactor.count_layer(std::mem::replace(&mut self.counted, now), now);
    }

    /// Removes its bytes from the reactor's count, when its socket leaves.
    pub(crate) fn uncount(&mut self, reactor: &Reactor) {
        reactor.count_layer(std::mem::take(&mut self.counted), 0);
    }

    pub(crate) fn layer(&self) -> &dyn Layer {
        &*self.layer
    }

    /// Whether a receive gives something without an event.
    pub(crate) fn has_more(&self) -> bool {
        self.more || self.ended
    }

    /// Bytes that are sealed and not with the kernel.
    pub(crate) fn unsent_len(&self) -> usize {
        self.unsent.len() - self.gone
    }

    /// Plaintext that is sealed and not counted as sent.
    pub(crate) fn uncounted(&self) -> usize {
        self.sealed
    }

    /// Whether the beginning of a record has come.
    pub(crate) fn holds_part(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// From now on nothing is said in farewell.
    pub(crate) fn mute(&mut self) {
        self.mute = true;
    }

    pub(crate) fn poll_recv(&mut self, socket: &Socket, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_say(socket)?;
        for _ in 0..FRUITLESS {
            let opened = ready!(self.poll_open(socket, buffer))?;
            self.poll_say(socket)?;
            if opened.written > 0 || self.ended {
                return Poll::Ready(Ok(opened.written));
            }
        }
        // The peer's turn is over; what is left waits for the next call.
        self.more = true;
        Poll::Pending
    }

    /// Opens something: of what is held, or of what can be received.
    fn poll_open(&mut self, socket: &Socket, buffer: &mut [u8]) -> Poll<io::Result<Opened>> {
        if self.ended {
            return Poll::Ready(Ok(Opened::default()));
        }
        let mut staging = socket.reactor().staging().borrow_mut();
        let staging = staging.received();
        let mut filled = self.held.len();
        staging[..filled].copy_from_slice(&self.held);
        let received = match std::mem::take(&mut self.more) {
            true => Poll::Ready(Ok(None)),
            false => {
                let most = filled + buffer.len().clamp(RECORD, RECEIVED - RECORD);
                let most = most.min(staging.len());
                if filled == most {
                    return Poll::Ready(Err(io::Error::other("the peer's handshake is too long")));
                }
                socket.raw_recv(&mut staging[filled..most]).map_ok(Some)
            }
        };
        match ready!(received)? {
            Some(0) if self.believes_any_end => {
                self.ended = true;
                return Poll::Ready(Ok(Opened::default()));
            }
            // The end of the connection, and not of what was said on it.
            Some(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            received => filled += received.unwrap_or(0),
        }
        let opened = self.layer.open(&mut staging[..filled], buffer);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.held = Vec::new();
                drop(self.poll_say(socket));
                self.mute = true;
                return Poll::Ready(Err(error));
            }
        };
        self.keep(&staging[opened.consumed.min(filled)..filled]);
        (self.more, self.ended) = (opened.more, opened.ended);
        Poll::Ready(Ok(opened))
    }

    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            // An idle connection holds nothing.
            self.held = Vec::new();
        } else {
            self.held.clear();
            self.held.extend_from_slice(rest);
        }
    }

    /// Hands the kernel what the layer has to say, and what of it has waited.
    ///
    /// # Errors
    /// When the peer lets too much of it wait.
    fn poll_say(&mut self, socket: &Socket) -> io::Result<()> {
        let mut words = [0; 2048];
        loop {
            let said = self.layer.say(&mut words);
            if said == 0 {
                break;
            }
            if self.unsent_len() > UNSAID {
                return Err(io::Error::other("the peer does not read what it asks for"));
            }
            self.unsent.extend_from_slice(&words[..said]);
        }
        // Where it cannot be sent, what has come is still to be read; the next send meets the error again.
        let _ = self.poll_unsent(socket);
        Ok(())
    }

    fn poll_unsent(&mut self, socket: &Socket) -> Poll<io::Result<()>> {
        while self.gone < self.unsent.len() {
            let slices = [IoSlice::new(&self.unsent[self.gone..])];
            self.gone += ready!(socket.raw_send(&slices, false))?;
        }
        (self.unsent, self.gone) = (Vec::new(), 0);
        if std::mem::take(&mut self.closing) {
            socket.raw_shutdown_write();
        }
        Poll::Ready(Ok(()))
    }

    /// `last`: the farewell follows at once, and the socket is closed after it.
    pub(crate) fn poll_send(
        &mut self,
        socket: &Socket,
        slices: &[IoSlice<'_>],
        last: bool,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(socket))?;
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.sealed > 0 {
            let counted = self.sealed.min(offered);
            self.sealed -= counted;
            return Poll::Ready(Ok(counted));
        }
        if socket.readiness() & ready::WRITE == 0 {
            return Poll::Pending;
        }
        let mut staging = socket.reactor().staging().borrow_mut();
        let out = staging.sealed();
        // Where the records end, and how much of the plaintext is in them.
        let (mut ends, mut count) = ([(0, 0); AT_ONCE / 1024], 0);
        let (mut written, mut taken) = (0, 0);
        let mut left = Slices::new(slices);
        while taken < offered.min(AT_ONCE) && count < ends.len() {
            // A record at a time: where it ends is where its bytes count.
            let room = out.len().min(written + RECORD);
            let sealed = self.layer.seal(left.as_slice(), &mut out[written..room])?;
            if sealed.taken == 0 {
                written += sealed.written;
                break;
            }
            left.advance(sealed.taken);
            (written, taken) = (written + sealed.written, taken + sealed.taken);
            ends[count] = (written, taken);
            count += 1;
        }
        if last && taken == offered {
            written += self.layer.part(&mut out[written..]);
            self.mute = true;
        }
        if written == 0 && offered > 0 {
            // The layer takes nothing any more.
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let sent = match socket.raw_send(&[IoSlice::new(&out[..written])], last) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        };
        if sent == written {
            return Poll::Ready(Ok(taken));
        }
        let whole = ends[..count].iter().rev().find(|(end, _)| *end <= sent).map_or(0, |(_, taken)| *taken);
        self.unsent.extend_from_slice(&out[sent..written]);
        self.sealed = taken - whole;
        if whole > 0 { Poll::Ready(Ok(whole)) } else { Poll::Pending }
    }

    /// Shakes hands.
    pub(crate) fn poll_handshake(&mut self, socket: &Socket) -> Poll<io::Result<()>> {
        loop {
            self.poll_say(socket)?;
            if !self.layer.is_shaking_hands() {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            ready!(self.poll_open(socket, &mut []))?;
        }
    }

    /// Opens records that carry no plaintext, and says whether nothing else has come.
    pub(crate) fn is_quiet(&mut self, socket: &Socket) -> bool {
        for _ in 0..FRUITLESS {
            if self.more || self.ended {
                return false;
            }
            match self.poll_open(socket, &mut []) {
                Poll::Pending => return true,
                Poll::Ready(Ok(_)) if self.poll_say(socket).is_ok() => {}
                Poll::Ready(_) => return false,
            }
        }
        false
    }

    /// Says farewell, where that is true; what the kernel does not take waits for the next call.
    pub(crate) fn part(&mut self, socket: &Socket) {
        if !std::mem::replace(&mut self.mute, true) && self.sealed == 0 {
            let mut words = [0; 256];
            let said = self.layer.part(&mut words);
            self.unsent.extend_from_slice(&words[..said]);
        }
        let _ = self.poll_unsent(socket);
    }

    /// From now on an end that was not told of is one too.
    pub(crate) fn believe_any_end(&mut self) {
        self.believes_any_end = true;
    }

    /// Whether nothing is under way.
    pub(crate) fn rest(&mut self, at_rest: bool) {
        self.at_rest = at_rest;
    }

    /// The connection is closed.
    pub(crate) fn end(&mut self, socket: &Socket) {
        if self.at_rest {
            self.part(socket);
        }
    }

    /// Says farewell, and then that no more bytes will come.
    pub(crate) fn close(&mut self, socket: &Socket) {
        self.closing = true;
        self.part(socket);
    }

    /// Receives what nobody looks at any more.
    pub(crate) fn poll_discard(&mut self, socket: &Socket, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let _ = self.poll_unsent(socket);
        socket.raw_recv(buffer)
    }
}

/// Slices that are used up from the front.
struct Slices<'a> {
    slices: [IoSlice<'a>; SLICES],
    from: usize,
    to: usize,
}

impl<'a> Slices<'a> {
    fn new(slices: &[IoSlice<'a>]) -> Self {
        let mut all = [IoSlice::new(&[]); SLICES];
        let to = slices.len().min(SLICES);
        all[..to].copy_from_slice(&slices[..to]);
        Self { slices: all, from: 0, to }
    }

    fn as_slice(&self) -> &[IoSlice<'a>] {
        &self.slices[self.from..self.to]
    }

    fn advance(&mut self, mut by: usize) {
        while by > 0 && self.from < self.to {
            let slice = &mut self.slices[self.from];
            let step = by.min(slice.len());
            slice.advance(step);
            by -= step;
            self.from += usize::from(slice.is_empty());
        }
    }
}

#[cfg(test)]
mod tests;
