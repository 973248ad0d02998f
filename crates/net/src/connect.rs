//! Starting connections to endpoints.

use crate::reactor::{Owner, Reactor};
use crate::socket::{LITTLE, Socket};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where the kernel says for how many seconds it waits before it asks.
const KEEPALIVE_TIME: &str = "/proc/sys/net/ipv4/tcp_keepalive_time";
/// What it waits where it does not say so (tcp(7)).
const USUAL_KEEPALIVE_TIME: Duration = Duration::from_secs(7200);

/// What TCP_USER_TIMEOUT has beyond the longest silence that the configuration allows: it also ends
/// a connection whose peer reads nothing for so long, and that is for the idle deadline to judge.
const USER_TIMEOUT_BEYOND: Duration = Duration::from_secs(30);

/// A resolved address of an endpoint.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PeerAddress {
    /// An IP address and a port: of TCP, or of UDP where datagrams are sent.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(Arc<PathBuf>),
}

/// How a TCP socket connects or listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectOptions {
    /// The longest time without a byte that a connection may have to bear.
    pub silence: Duration,
    /// The kernel asks silent peers whether they are still there.
    pub keepalive: bool,
    /// The kernel is to hold little of what has been received and not read. It switches the tuning of the
    /// receive window off for good: the connection is slow.
    pub narrow: bool,
    /// Bytes for SO_SNDBUF and SO_RCVBUF each, of which the kernel makes twice as much; `None`: it sizes
    /// them by itself, from what the link can take. Setting them switches that off for good.
    pub buffers: Option<u32>,
}

/// Where a connection is to lead, and where it is to come from.
#[derive(Clone, Copy, Debug)]
pub struct ConnectTarget<'a> {
    /// Where to.
    pub to: &'a PeerAddress,
    /// An address of this machine, of the same family; `None`: the kernel chooses. It takes a port of that address only
    /// when it knows where the connection leads (`IP_BIND_ADDRESS_NO_PORT`): connections to others may use the same
    /// one.
    pub from: Option<IpAddr>,
}

/// Starts a connect; await [`Socket::poll_connected`] before anything else.
///
/// # Errors
/// What the kernel says at once: no route, no descriptors, no such socket file, no port left towards this address.
pub fn start(
    reactor: &Rc<Reactor>,
    ConnectTarget { to, from }: ConnectTarget<'_>,
    owner: Owner,
    manner: ConnectOptions,
) -> io::Result<Socket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (fd, started) = match to {
        PeerAddress::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            set_options(&fd, manner)?;
            if let Some(from) = from {
                bind_without_port(&fd, from)?;
            }
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

/// Has the socket come from this address, with a port that is chosen at the connect.
#[expect(unsafe_code, reason = "no library in use has a safe form of this option (decision 0060)")]
fn bind_without_port(fd: &OwnedFd, from: IpAddr) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option reads one int at the address, which outlives the call.
    unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            length,
        );
    }
    Ok(rustix::net::bind(fd, &SocketAddr::new(from, 0))?)
}

/// Whether a connection that its owner gives up after such a silence is to have keep-alive: not where that is before
/// the kernel would ask for the first time.
pub fn needs_keepalive(silence: Duration) -> bool {
    silence >= keepalive_time()
}

/// After how long a silence the kernel asks for the first time: what it said when this process first wanted to know.
fn keepalive_time() -> Duration {
    static TIME: OnceLock<Duration> = OnceLock::new();
    *TIME.get_or_init(|| {
        let said = fs::read_to_string(KEEPALIVE_TIME).ok();
        said.and_then(|seconds| seconds.trim().parse().ok()).map_or(USUAL_KEEPALIVE_TIME, Duration::from_secs)
    })
}

/// No delay, keep-alive, user timeout, and buffers where they are bounded: before the connection is
/// there, because the window that a peer is offered follows from them. Accepted connections inherit
/// all of it from their listening socket.
pub(crate) fn set_options(fd: &OwnedFd, manner: ConnectOptions) -> io::Result<()> {
    let ConnectOptions { silence, keepalive, narrow, buffers } = manner;
    sockopt::set_tcp_nodelay(fd, true)?;
    if keepalive {
        sockopt::set_socket_keepalive(fd, true)?;
    }
    set_user_timeout(fd, silence)?;
    if let Some(bytes) = buffers {
        sockopt::set_socket_send_buffer_size(fd, bytes as usize)?;
    }
    if let Some(bytes) = buffers.into_iter().chain(narrow.then_some(LITTLE)).min() {
        sockopt::set_socket_recv_buffer_size(fd, bytes as usize)?;
    }
    Ok(())
}

/// Has the kernel end a connection whose peer takes nothing for longer than [`ConnectOptions::silence`].
pub(crate) fn set_user_timeout(fd: &OwnedFd, silence: Duration) -> io::Result<()> {
    let limit = silence.saturating_add(USER_TIMEOUT_BEYOND).as_millis();
    Ok(sockopt::set_tcp_user_timeout(
        fd,
        u32::try_from(limit).unwrap_or(i32::MAX as u32).min(i32::MAX as u32),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_connection_comes_from_the_address_that_was_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = PeerAddress::Tcp(listener.local_addr().unwrap());
        let reactor = Rc::new(Reactor::new().unwrap());
        let manner = ConnectOptions {
            silence: Duration::from_secs(60),
            keepalive: true,
            narrow: false,
            buffers: None,
        };
        let start = |from| start(&reactor, ConnectTarget { to: &to, from: Some(from) }, Owner(1), manner);
        let _connection = start(Ipv4Addr::new(127, 0, 0, 9).into()).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), Ipv4Addr::new(127, 0, 0, 9));
        assert_eq!(
            start(Ipv4Addr::new(192, 0, 2, 1).into()).unwrap_err().kind(),
            io::ErrorKind::AddrNotAvailable
        );
    }

    #[test]
    fn the_kernel_asks_only_where_it_is_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = PeerAddress::Tcp(listener.local_addr().unwrap());
        let reactor = Rc::new(Reactor::new().unwrap());
        for keepalive in [false, true] {
            let manner =
                ConnectOptions { silence: Duration::from_secs(60), keepalive, narrow: false, buffers: None };
            let connection =
                start(&reactor, ConnectTarget { to: &to, from: None }, Owner(1), manner).unwrap();
            assert_eq!(sockopt::socket_keepalive(&connection).unwrap(), keepalive);
            assert_eq!(sockopt::tcp_user_timeout(&connection).unwrap(), 90_000);
        }
    }
}
