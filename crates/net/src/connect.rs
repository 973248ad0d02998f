//! Starting connections to endpoints.

use crate::reactor::{Owner, Reactor};
use crate::socket::Socket;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Unacknowledged data or keep-alive probes for this long end a connection (TCP_USER_TIMEOUT).
const USER_TIMEOUT_MS: u32 = 30_000;

/// A resolved address of an endpoint.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PeerAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(Arc<PathBuf>),
}

/// Starts a connect; await [`Socket::poll_connected`] before anything else.
///
/// # Errors
/// What the kernel says at once: no route, no descriptors, no such socket file.
pub fn start(reactor: &Rc<Reactor>, to: &PeerAddress, owner: Owner) -> io::Result<Socket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (fd, started) = match to {
        PeerAddress::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            sockopt::set_tcp_nodelay(&fd, true)?;
            sockopt::set_socket_keepalive(&fd, true)?;
            sockopt::set_tcp_user_timeout(&fd, USER_TIMEOUT_MS)?;
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

/// Sets on a listening socket what accepted connections inherit: no delay, keep-alive, user timeout.
pub(crate) fn set_client_options(fd: &rustix::fd::OwnedFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_user_timeout(fd, USER_TIMEOUT_MS)?;
    Ok(())
}
