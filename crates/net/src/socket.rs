//! A connected stream socket on a reactor, or one stream of a connection that several share ([`Substream`]).
//!
//! The calls never block and register nothing: when they return `Pending`, the owner of the socket
//! is called again on the next event of the socket, which is the whole wake-up protocol. They are
//! cancel-safe: a call that returns `Pending` has moved no byte.

use crate::layer::Layer;
use crate::layered::{DetachedSocket, Layered};
use crate::pipe::{Pipe, error_of};
use crate::reactor::{Owner, Reactor, ready};
use crate::substream::Substream;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode};
use socket2::SockRef;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// What the kernel is told to hold where it is to hold little, in bytes.
pub(crate) const LITTLE: u32 = 16 * 1024;
/// What it is told to hold for a peer that may turn out to be one of many slow ones, in bytes.
const SOME: u32 = 64 * 1024;

/// What asks how much is in the send queue: the number of x86, ARM and RISC-V (asm-generic/ioctls.h).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const SIOCOUTQ: Opcode = 0x5411;

const OPEN: &str = "a socket that lives has its descriptor";

/// A socket's number on its reactor, good as long as it is open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SocketId(pub(crate) u32);

/// A non-blocking stream socket with its readiness and its one deadline. Dropping it closes it.
#[derive(Debug)]
pub struct Socket {
    /// Here until it is dropped or taken off the reactor.
    fd: Option<OwnedFd>,
    id: u32,
    reactor: Rc<Reactor>,
    /// `None`: its bytes are those of the kernel.
    under: Option<Box<Under>>,
}

/// What bytes pass through on their way to the kernel.
#[derive(Debug)]
enum Under {
    Layer(RefCell<Layered>),
    /// There is no descriptor.
    Stream(Box<dyn Substream>),
}

impl Socket {
    /// Takes a connected socket; it is taken to be writable.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn accepted(reactor: &Rc<Reactor>, fd: OwnedFd, owner: Owner) -> io::Result<Self> {
        let id = reactor.add(fd.as_fd(), owner, ready::WRITE)?;
        Ok(Self { fd: Some(fd), id, reactor: reactor.clone(), under: None })
    }

    /// Takes a socket whose connect is under way.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn connecting(reactor: &Rc<Reactor>, fd: OwnedFd, owner: Owner) -> io::Result<Self> {
        let id = reactor.add(fd.as_fd(), owner, 0)?;
        Ok(Self { fd: Some(fd), id, reactor: reactor.clone(), under: None })
    }

    /// Takes one that came off another reactor; it is taken to be writable.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn watched(reactor: &Rc<Reactor>, loose: DetachedSocket, owner: Owner) -> io::Result<Self> {
        let mut socket = Self::accepted(reactor, loose.fd, owner)?;
        socket.under = loose.layer.map(|layer| {
            layer.borrow_mut().count(reactor);
            Box::new(Under::Layer(*layer))
        });
        socket.rest(false);
        Ok(socket)
    }

    /// Takes a stream of a connection that several share: it has a deadline of its own, and no descriptor.
    pub fn of_stream(reactor: &Rc<Reactor>, stream: Box<dyn Substream>, owner: Owner) -> Self {
        let id = reactor.add_timer(owner);
        stream.set_owner(owner);
        Self { fd: None, id, reactor: reactor.clone(), under: Some(Box::new(Under::Stream(stream))) }
    }

    /// The stream that it is, when it has no connection of its own.
    #[inline]
    pub fn substream(&self) -> Option<&dyn Substream> {
        match self.under.as_deref() {
            Some(Under::Stream(stream)) => Some(&**stream),
            _ => None,
        }
    }

    fn layer(&self) -> Option<&RefCell<Layered>> {
        match self.under.as_deref() {
            Some(Under::Layer(layer)) => Some(layer),
            _ => None,
        }
    }

    /// Calls the layer, then updates the count of its buffers.
    fn through<T>(&self, layer: &RefCell<Layered>, call: impl FnOnce(&mut Layered) -> T) -> T {
        let mut layer = layer.borrow_mut();
        let done = call(&mut layer);
        layer.count(&self.reactor);
        done
    }

    /// Puts a layer between this socket and those who use it: from now on all bytes are plaintext. `received`: what has
    /// come for the layer already. It shakes hands with [`Self::poll_handshake`].
    pub fn push_layer(&mut self, layer: Box<dyn Layer>, received: &[u8]) {
        let mut layer = Layered::new(layer, received);
        layer.count(&self.reactor);
        self.under = Some(Box::new(Under::Layer(RefCell::new(layer))));
    }

    /// Whether bytes pass through a layer.
    pub fn is_layered(&self) -> bool {
        self.layer().is_some()
    }

    /// Whether its bytes are those of the kernel.
    pub fn is_plain(&self) -> bool {
        self.under.is_none()
    }

    /// Asks the layer something.
    pub fn with_layer<T>(&self, ask: impl FnOnce(&dyn Layer) -> T) -> Option<T> {
        self.layer().map(|layer| ask(layer.borrow().layer()))
    }

    /// Whether the layer, if there is one, has shaken hands; an error when it could not.
    pub fn poll_handshake(&self) -> Poll<io::Result<()>> {
        match self.layer() {
            None => Poll::Ready(Ok(())),
            Some(layer) => self.through(layer, |layer| layer.poll_handshake(self)),
        }
    }

    /// Who is called from now on.
    pub fn set_owner(&self, owner: Owner) {
        self.reactor.set_owner(self.id, owner);
        if let Some(stream) = self.substream() {
            stream.set_owner(owner);
        }
    }

    /// Whether the connect has ended; an error when it failed.
    pub fn poll_connected(&self) -> Poll<io::Result<()>> {
        if self.readiness() & ready::WRITE == 0 {
            return Poll::Pending;
        }
        // An event that tells of a failure says that too.
        if self.readiness() & ready::GONE == 0 {
            return Poll::Ready(Ok(()));
        }
        match rustix::net::sockopt::socket_error(self.as_fd()) {
            Ok(Ok(())) => Poll::Ready(Ok(())),
            Ok(Err(error)) | Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Receives into `buffer` (not empty); 0 is the end of what the peer sends.
    ///
    /// # Errors
    /// What the kernel says; with a layer also what breaks its protocol, and [`io::ErrorKind::UnexpectedEof`] for an
    /// end that the peer did not tell of.
    #[inline]
    pub fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match &self.under {
            None => self.raw_recv(buffer),
            Some(under) => recv_through(self, under, buffer),
        }
    }

    /// Receives what is not looked at any more into `buffer`; no layer opens it. As [`Self::poll_recv`] otherwise.
    pub fn poll_discard(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.under.as_deref() {
            None => self.raw_recv(buffer),
            Some(Under::Layer(layer)) => self.through(layer, |layer| layer.poll_discard(self, buffer)),
            Some(Under::Stream(stream)) => stream.poll_recv(buffer),
        }
    }

    pub(crate) fn raw_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let readiness = self.readiness();
            if readiness & ready::READ == 0 {
                return Poll::Pending;
            }
            match rustix::net::recv(self.as_fd(), &mut *buffer, rustix::net::RecvFlags::empty()) {
                Ok((n, _)) => {
                    // A short read has emptied the queue, unless an end, an error or urgent data
                    // stands behind it.
                    if n < buffer.len() && readiness & (ready::PEER_CLOSED | ready::URGENT) == 0 {
                        self.clear(ready::READ);
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.clear(ready::READ),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// As [`Self::poll_send`], from one slice, where nothing follows and the socket is closed at once: the kernel
    /// keeps the end back for the segment that says so (`MSG_MORE`).
    pub fn poll_send_last(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_with(&[IoSlice::new(bytes)], true)
    }

    /// Sends from `slices`; may take less than all.
    #[inline]
    pub fn poll_send(&self, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll_send_with(slices, false)
    }

    #[inline]
    fn poll_send_with(&self, slices: &[IoSlice<'_>], last: bool) -> Poll<io::Result<usize>> {
        match &self.under {
            None => self.raw_send(slices, last),
            Some(under) => send_through(self, under, slices, last),
        }
    }

    #[inline]
    pub(crate) fn raw_send(&self, slices: &[IoSlice<'_>], last: bool) -> Poll<io::Result<usize>> {
        use rustix::net::SendFlags;
        let flags = if last { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        loop {
            if self.readiness() & ready::WRITE == 0 {
                return Poll::Pending;
            }
            let sent = match slices {
                [one] => rustix::net::send(self.as_fd(), one, flags),
                many => rustix::io::writev(self.as_fd(), many),
            };
            match sent {
                Ok(n) => {
                    if n < slices.iter().map(|slice| slice.len()).sum() {
                        self.clear(ready::WRITE);
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.clear(ready::WRITE),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Moves up to `most` received bytes into `pipe`, `most` above 0; 0 is the end of what the peer sends.
    /// `Pending` may also mean that the pipe takes no more: who drains it calls again.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where only [`Self::poll_recv`] can do it.
    pub fn poll_fill(&self, pipe: &Pipe, most: usize) -> Poll<io::Result<usize>> {
        if !self.is_plain() {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        loop {
            let readiness = self.readiness();
            if readiness & ready::READ == 0 {
                return Poll::Pending;
            }
            if readiness & ready::URGENT != 0 {
                // A splice never gets beyond the mark of urgent data.
                return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
            }
            match pipe.fill(self.as_fd(), most) {
                // A short one tells nothing: the pipe may have had no more slots.
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if pipe.held() == 0 => self.clear(ready::READ),
                // It may be the pipe that is full: the socket stays readable.
                Err(Errno::AGAIN) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error_of(error))),
            }
        }
    }

    /// Sends from `pipe`, which holds something; may take less than all.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where only [`Self::poll_send`] can do it.
    pub fn poll_drain(&self, pipe: &Pipe) -> Poll<io::Result<usize>> {
        if !self.is_plain() {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        loop {
            if self.readiness() & ready::WRITE == 0 {
                return Poll::Pending;
            }
            match pipe.drain(self.as_fd()) {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.clear(ready::WRITE),
                Err(error) => return Poll::Ready(Err(error_of(error))),
            }
        }
    }

    /// Sends up to `most` bytes of a regular file, from the offset `from` on, without a copy through memory of ours;
    /// may send less. 0: the file has nothing there. A page that is not in the kernel's memory is waited for.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where only [`Self::poll_send`] can do it.
    pub fn poll_send_file(&self, file: impl AsFd, from: u64, most: usize) -> Poll<io::Result<usize>> {
        if !self.is_plain() {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        loop {
            if self.readiness() & ready::WRITE == 0 {
                return Poll::Pending;
            }
            let mut offset = from;
            match rustix::fs::sendfile(self.as_fd(), &file, Some(&mut offset), most) {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.clear(ready::WRITE),
                Err(error) => return Poll::Ready(Err(error_of(error))),
            }
        }
    }

    /// Whether a receive may give something (bytes, an end or an error).
    pub fn is_readable(&self) -> bool {
        self.readiness() & ready::READ != 0
            || match self.under.as_deref() {
                None => false,
                Some(Under::Layer(layer)) => layer.borrow().has_more(),
                Some(Under::Stream(stream)) => stream.is_readable(),
            }
    }

    /// Whether a layer holds the beginning of a record.
    pub fn holds_part(&self) -> bool {
        self.layer().is_some_and(|layer| layer.borrow().holds_part())
    }

    /// Whether nothing has come, as far as events have told: no byte, no end, no error. What only concerns the layer is
    /// taken in.
    pub fn is_silent(&self) -> bool {
        match self.layer() {
            None => !self.is_readable(),
            Some(layer) => self.through(layer, |layer| layer.is_quiet(self)),
        }
    }

    /// Asks the kernel, beyond what events have told so far, whether nothing has come: no byte, no end,
    /// no error. One system call.
    pub fn is_quiet(&self) -> bool {
        match self.under.as_deref() {
            None => {}
            Some(Under::Layer(layer)) => {
                self.reactor.set(self.id, ready::READ);
                return self.through(layer, |layer| layer.is_quiet(self));
            }
            Some(Under::Stream(stream)) => return !stream.is_readable(),
        }
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(self.as_fd(), &mut [0; 1], flags), Err(Errno::AGAIN))
    }

    /// Looks whether there is more to receive, where a [`Self::poll_fill`] left that open: afterwards
    /// [`Self::is_readable`] is true of the socket again. One system call.
    pub fn look(&self) {
        if self.is_plain() && self.is_quiet() {
            self.clear(ready::READ);
        }
    }

    /// Whether the peer has said that it sends no more on this connection, or is gone. Bytes may still wait to be read.
    /// The end of a message is not that of a stream: it is as good as its connection.
    pub fn peer_closed(&self) -> bool {
        self.readiness() & ready::PEER_CLOSED != 0
            || match self.under.as_deref() {
                None => false,
                Some(Under::Layer(layer)) => layer.borrow().has_ended(),
                Some(Under::Stream(stream)) => stream.is_gone(),
            }
    }

    /// Whether the peer's end stands behind what can be received now, as far as events have told: then a read that is
    /// short has left nothing but the end. Never with a layer, which has an end of its own.
    pub fn has_heard_all(&self) -> bool {
        let told = self.readiness() & (ready::PEER_CLOSED | ready::GONE | ready::URGENT);
        self.is_plain() && told == ready::PEER_CLOSED
    }

    /// The address at which the peer reached it; `None` for a stream and for a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.substream()
            .is_none()
            .then(|| rustix::net::getsockname(self.as_fd()).ok()?.try_into().ok())
            .flatten()
    }

    /// Whether the connection is gone in both directions (reset, or closed by both sides).
    pub fn is_gone(&self) -> bool {
        self.readiness() & ready::GONE != 0 || self.substream().is_some_and(Substream::is_gone)
    }

    /// Sets (or with `None` takes away) the deadline, from now on; its owner is called when it passes.
    pub fn set_deadline(&self, after: Option<Duration>) {
        self.reactor.set_deadline(self.id, after);
    }

    /// The same, met up to a millisecond late and not up to two coarse ticks.
    pub fn set_exact_deadline(&self, after: Duration) {
        self.reactor.set_exact_deadline(self.id, after);
    }

    /// Takes it off the reactor: only the descriptor and the layer are left, for another reactor.
    pub fn unwatch(mut self) -> DetachedSocket {
        self.reactor.unwatch(self.as_fd());
        let layer = match self.under.take().map(|under| *under) {
            Some(Under::Layer(layer)) => {
                layer.borrow_mut().uncount(&self.reactor);
                Some(Box::new(layer))
            }
            _ => None,
        };
        DetachedSocket { fd: self.fd.take().expect(OPEN), layer }
    }

    /// Its number.
    pub fn id(&self) -> SocketId {
        SocketId(self.id)
    }

    /// Whether the deadline set last has passed.
    pub fn expired(&self) -> bool {
        self.readiness() & ready::EXPIRED != 0
    }

    /// Lets the kernel hold no more than some KiB that are not on their way yet: its send buffer follows from what
    /// the link could carry, on a fast one megabytes from the start, whether the peer reads or not.
    pub fn hold_some_unsent(&self) {
        self.hold_unsent(SOME);
    }

    /// Lets the kernel hold little that is not on its way yet: for a peer that reads slowly, where many
    /// do. What is on its way is not bounded by this.
    pub fn hold_little_unsent(&self) {
        self.hold_unsent(LITTLE);
    }

    fn hold_unsent(&self, bytes: u32) {
        if self.fd.is_some() {
            let _ = SockRef::from(self).set_tcp_notsent_lowat(bytes);
        }
    }

    /// Bytes handed to the kernel that the peer has not acknowledged; 0 where the kernel does not tell. One
    /// system call.
    #[expect(unsafe_code, reason = "no library in use has a safe form of this request (decision 0018)")]
    pub fn unacknowledged(&self) -> u64 {
        if self.fd.is_none() {
            return 0;
        }
        // SAFETY: the request writes one int and reads nothing, on every architecture that has this number for it.
        let left = unsafe { rustix::ioctl::ioctl(self, Getter::<SIOCOUTQ, i32>::new()) };
        let left = left.map_or(0, |left| u64::try_from(left).unwrap_or(0));
        left + self.layer().map_or(0, |layer| layer.borrow().unsent_len() as u64)
    }

    /// Plaintext that a layer has sealed and that no call has counted as sent yet.
    pub fn uncounted(&self) -> u64 {
        self.layer().map_or(0, |layer| layer.borrow().uncounted() as u64)
    }

    /// Says to the peer that no more bytes will come. Where a layer says farewell first and the kernel does not take
    /// that now, it follows with the next call of the socket.
    pub fn shutdown_write(&self) {
        match self.under.as_deref() {
            None => self.raw_shutdown_write(),
            Some(Under::Layer(layer)) => self.through(layer, |layer| layer.close(self)),
            Some(Under::Stream(stream)) => stream.shutdown_write(),
        }
    }

    pub(crate) fn raw_shutdown_write(&self) {
        let _ = rustix::net::shutdown(self.as_fd(), rustix::net::Shutdown::Write);
    }

    /// Says through the layer, if there is one, that no more bytes will come and that what came was whole.
    pub fn part(&self) {
        if let Some(layer) = self.layer() {
            self.through(layer, |layer| layer.part(self));
        }
    }

    /// From now on it also ends where a layer was not told of the end: for a protocol that knows by itself whether what
    /// came is whole.
    pub fn believe_any_end(&self) {
        if let Some(layer) = self.layer() {
            layer.borrow_mut().believe_any_end();
        }
    }

    /// Says whether nothing is under way on it: closed then, a layer says that what the peer got is whole.
    pub fn rest(&self, at_rest: bool) {
        if let Some(layer) = self.layer() {
            layer.borrow_mut().rest(at_rest);
        }
    }

    /// Makes the close a reset, so that the peer sees that what it got is not whole.
    pub fn reset_on_close(&self) {
        if let Some(stream) = self.substream() {
            return stream.reset();
        }
        if let Some(layer) = self.layer() {
            layer.borrow_mut().mute();
        }
        let _ = rustix::net::sockopt::set_socket_linger(self.as_fd(), Some(Duration::ZERO));
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    pub(crate) fn readiness(&self) -> u8 {
        self.reactor.readiness(self.id)
    }

    fn clear(&self, bits: u8) {
        self.reactor.clear(self.id, bits);
    }
}

impl AsFd for Socket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect(OPEN).as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let (Some(Under::Layer(layer)), Some(_)) = (self.under.take().as_deref(), &self.fd) {
            let mut layer = layer.borrow_mut();
            layer.end(self);
            layer.uncount(&self.reactor);
        }
        // Closing the only descriptor takes it out of the epoll set.
        self.reactor.remove(self.id, None);
    }
}

#[cold]
#[inline(never)]
fn recv_through(socket: &Socket, under: &Under, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    match under {
        Under::Layer(layer) => socket.through(layer, |layer| layer.poll_recv(socket, buffer)),
        Under::Stream(stream) => stream.poll_recv(buffer),
    }
}

#[cold]
#[inline(never)]
fn send_through(
    socket: &Socket,
    under: &Under,
    slices: &[IoSlice<'_>],
    last: bool,
) -> Poll<io::Result<usize>> {
    match under {
        Under::Layer(layer) => socket.through(layer, |layer| layer.poll_send(socket, slices, last)),
        Under::Stream(stream) => stream.poll_send(slices, last),
    }
}
