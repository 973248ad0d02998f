//! Sockets of datagrams (UDP): those at which clients speak, and one for each client towards its endpoint.
//!
//! Nothing here waits: what the kernel does not take is dropped by the caller, as a router would. Datagrams are
//! received and sent several at once ([`Batch`]).

mod batch;
mod message;

pub use batch::{Batch, Received, Sent};
pub use message::Way;

use crate::inherited::spread;
use crate::listen::choosing;
use crate::option::set_int;
use crate::reactor::{Owner, Reactor, ready};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What the kernel is asked to hold of datagrams that nobody has received yet, in bytes; it gives no more than
/// `net.core.rmem_max`.
const QUEUE: usize = 1024 * 1024;

/// Binds `count` sockets to one address; the kernel keeps a client at one of them. Port 0: it chooses, for all of them
/// the same. Returns the address with its real port. `beside_ours`: as [`crate::listen::Options::beside_ours`].
///
/// # Errors
/// What the kernel says of the address.
pub fn bind(
    address: SocketAddr,
    dual_stack: bool,
    (count, beside_ours): (usize, bool),
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    choosing(address, || bind_once(address, dual_stack, (count, beside_ours)))
}

fn bind_once(
    address: SocketAddr,
    dual_stack: bool,
    (count, beside_ours): (usize, bool),
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let bound = if beside_ours {
        address
    } else {
        let alone = socket(address, dual_stack)?;
        rustix::net::bind(&alone, &address)?;
        SocketAddr::try_from(rustix::net::getsockname(&alone)?)?
    };
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let fd = socket(address, dual_stack)?;
        sockopt::set_socket_reuseport(&fd, true)?;
        // As much as it gives: the default still works.
        let _ = sockopt::set_socket_recv_buffer_size(&fd, QUEUE);
        if address.ip().is_unspecified() {
            tell_destinations(&fd, address)?;
        }
        rustix::net::bind(&fd, &bound)?;
        sockets.push(fd);
    }
    Ok((bound, sockets))
}

/// Takes sockets over that are bound already, and gives as many as [`bind`] would, or more. Whether workers have to
/// share one is the last that is said.
///
/// # Errors
/// When descriptors have run out, or the first is no socket of IP.
pub fn adopt(
    fds: Vec<OwnedFd>,
    dual_stack: bool,
    count: usize,
) -> io::Result<(SocketAddr, Vec<OwnedFd>, bool)> {
    let first = fds.first().ok_or(io::ErrorKind::InvalidInput)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(first)?)?;
    for fd in fds.iter().filter(|_| bound.ip().is_unspecified()) {
        tell_destinations(fd, bound)?;
    }
    let (fds, is_shared) =
        spread(fds, count, |count| bind(bound, dual_stack, (count, true)).map(|(_, fds)| fds))?;
    Ok((bound, fds, is_shared))
}

/// Whether [`bind`] could have this address now.
///
/// # Errors
/// What the kernel says against it.
pub fn probe(address: SocketAddr, dual_stack: bool) -> io::Result<()> {
    Ok(rustix::net::bind(&socket(address, dual_stack)?, &address)?)
}

/// An answer has to leave from the address that its client spoke to: the kernel is to tell which that was.
fn tell_destinations(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => set_int(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        // Also of clients with IPv4 addresses.
        SocketAddr::V6(_) => set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

fn socket(address: SocketAddr, dual_stack: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !dual_stack)?;
    }
    Ok(fd)
}

/// A socket of datagrams on a reactor, with its one deadline. Dropping it closes it.
#[derive(Debug)]
pub struct Datagrams {
    fd: OwnedFd,
    id: u32,
    reactor: Rc<Reactor>,
    /// The kernel has not yet said that it cannot take several datagrams as one.
    joins: Cell<bool>,
}

impl Datagrams {
    /// A bound socket at which anybody speaks: its owner is called as long as something is there.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn bound(reactor: &Rc<Reactor>, fd: OwnedFd, owner: Owner) -> io::Result<Self> {
        let id = reactor.add_listener(fd.as_fd(), owner, false)?;
        Ok(Self::new(fd, id, reactor))
    }

    /// A socket that hears of one peer alone: its owner is called when something has come, and receives until there is
    /// no more.
    ///
    /// # Errors
    /// What the kernel says at once: no route, no descriptors.
    pub fn connect(reactor: &Rc<Reactor>, to: SocketAddr, owner: Owner) -> io::Result<Self> {
        let fd = socket(to, false)?;
        rustix::net::connect(&fd, &to)?;
        let id = reactor.add_datagrams(fd.as_fd(), owner)?;
        Ok(Self::new(fd, id, reactor))
    }

    fn new(fd: OwnedFd, id: u32, reactor: &Rc<Reactor>) -> Self {
        Self { fd, id, reactor: reactor.clone(), joins: Cell::new(true) }
    }

    fn joins(&self) -> bool {
        self.joins.get()
    }

    fn never_join(&self) {
        self.joins.set(false);
    }

    /// Its owner is not called any more for what comes; it sends as before.
    pub fn stop_receiving(&self) {
        self.reactor.unwatch(self.fd.as_fd());
    }

    /// Sends one datagram to the peer.
    ///
    /// # Errors
    /// Why the kernel did not take it, or what has become of one before it.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        batch::send_one(self, bytes)
    }

    /// Has the owner called after this time; `None`: not at all.
    pub fn set_deadline(&self, after: Option<Duration>) {
        self.reactor.set_deadline(self.id, after);
    }

    /// Whether the deadline has passed.
    pub fn expired(&self) -> bool {
        self.reactor.readiness(self.id) & ready::EXPIRED != 0
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.reactor.remove(self.id, Some(self.fd.as_fd()));
    }
}

#[cfg(test)]
mod tests;
