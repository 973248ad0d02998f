//! Starting connections to endpoints.

use crate::reactor::{Owner, Reactor};
use crate::socket::{LITTLE, Socket};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What TCP_USER_TIMEOUT has beyond the longest silence that the configuration allows: it also ends
/// a connection whose peer reads nothing for so long, and that is for the idle deadline to judge.
const USER_TIMEOUT_BEYOND: Duration = Duration::from_secs(30);

/// A resolved address of an endpoint.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PeerAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(Arc<PathBuf>),
}

/// How a TCP socket connects or listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Manner {
    /// The longest time without a byte that a connection may have to bear.
    pub silence: Duration,
    /// The kernel is to hold little of what has been received and not read. It switches the tuning of the
    /// receive window off for good: the connection is slow.
    pub narrow: bool,
    /// Bytes for SO_SNDBUF and SO_RCVBUF each, of which the kernel makes twice as much; `None`: it sizes
    /// them by itself, from what the link can take. Setting them switches that off for good.
    pub buffers: Option<u32>,
}

/// Starts a connect; await [`Socket::poll_connected`] before anything else.
///
/// # Errors
/// What the kernel says at once: no route, no descriptors, no such socket file.
pub fn start(reactor: &Rc<Reactor>, to: &PeerAddress, owner: Owner, manner: Manner) -> io::Result<Socket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (fd, started) = match to {
        PeerAddress::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            set_options(&fd, manner)?;
            let started = rustix::net::connect(&fd, address);
            (fd, started)
        }
        PeerAddress::Unix(path) => {
            let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            let started = rustix::net::connect(&fd, &SocketAddrUnix::new(path.as_path())?);
            (fd, started)
        }
    };
    match started {
        Ok(()) => Socket::accepted(reactor, fd, owner),
        Err(Errno::INPROGRESS) => Socket::connecting(reactor, fd, owner),
        Err(error) => Err(error.into()),
    }
}

/// No delay, keep-alive, user timeout, and buffers where they are bounded: before the connection is
/// there, because the window that a peer is offered follows from them. Accepted connections inherit
/// all of it from their listening socket.
pub(crate) fn set_options(fd: &OwnedFd, manner: Manner) -> io::Result<()> {
    let Manner { silence, narrow, buffers } = manner;
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    let limit = silence.saturating_add(USER_TIMEOUT_BEYOND).as_millis();
    sockopt::set_tcp_user_timeout(fd, u32::try_from(limit).unwrap_or(i32::MAX as u32).min(i32::MAX as u32))?;
    if let Some(bytes) = buffers {
        sockopt::set_socket_send_buffer_size(fd, bytes as usize)?;
    }
    if let Some(bytes) = buffers.into_iter().chain(narrow.then_some(LITTLE)).min() {
        sockopt::set_socket_recv_buffer_size(fd, bytes as usize)?;
    }
    Ok(())
}
