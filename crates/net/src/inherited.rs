//! Listening sockets that another process has opened: the one before this, a supervisor, or systemd.
//!
//! Whoever binds an address asks here first ([`Inherited::take`]). A socket that is taken over has the same queue of
//! connections as before: nobody who waits in it is lost.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, getsockname, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A listening socket of another process.
#[derive(Debug)]
pub struct InheritedSocket {
    /// Of its listener, or what systemd calls it.
    pub name: String,
    /// Its address as it is written in the configuration; empty: not known.
    pub written: String,
    /// The socket.
    pub fd: OwnedFd,
}

/// Where a socket is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Local {
    /// Connections are accepted here; those of IPv4 too at an address of IPv6?
    Tcp(SocketAddr, bool),
    /// Datagrams are received here, likewise.
    Udp(SocketAddr, bool),
    /// Connections are accepted at this path.
    Unix(PathBuf),
}

/// Sockets of other processes, until they are taken.
#[derive(Debug, Default)]
pub struct Inherited(Mutex<Vec<InheritedSocket>>);

impl Inherited {
    /// These.
    pub fn new(sockets: Vec<InheritedSocket>) -> Self {
        Self(Mutex::new(sockets))
    }

    /// Whether there is none left.
    pub fn is_empty(&self) -> bool {
        self.sockets().is_empty()
    }

    /// Takes the sockets of a listener with this name and written address; where there are none, those that are at the
    /// place, whatever they are called. They neither block nor survive `exec`.
    pub fn take(&self, name: &str, written: &str, is_place: impl Fn(&Local) -> bool) -> Vec<OwnedFd> {
        let mut sockets = self.sockets();
        let is_same = |socket: &InheritedSocket| socket.name == name && socket.written == written;
        let is_here = |socket: &InheritedSocket| {
            !is_of_one_listener(&socket.written) && local(&socket.fd).is_some_and(|local| is_place(&local))
        };
        let mut taken: Vec<_> = sockets.extract_if(.., |socket| is_same(socket)).collect();
        if taken.is_empty() {
            taken = sockets.extract_if(.., |socket| is_here(socket)).collect();
        }
        taken.into_iter().map(|socket| socket.fd).filter(|fd| prepare(fd).is_ok()).collect()
    }

    /// Takes what is left.
    pub fn rest(&self) -> Vec<InheritedSocket> {
        std::mem::take(&mut *self.sockets())
    }

    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<InheritedSocket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a written address leaves the port to the kernel: such sockets belong to one listener alone.
fn is_of_one_listener(written: &str) -> bool {
    written.ends_with(":0")
}

fn prepare(fd: &OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(fd, true)?;
    Ok(fcntl_setfd(fd, FdFlags::CLOEXEC)?)
}

/// Where a socket listens or receives; `None`: it does neither.
pub fn local(fd: impl AsFd) -> Option<Local> {
    let fd = fd.as_fd();
    let (kind, address) = (sockopt::socket_type(fd).ok()?, getsockname(fd).ok()?);
    let is_listening = kind == SocketType::DGRAM || sockopt::socket_acceptconn(fd).ok()?;
    if !is_listening {
        return None;
    }
    match (kind, address.address_family()) {
        (SocketType::STREAM, AddressFamily::UNIX) => unix_path(&address).map(Local::Unix),
        (SocketType::STREAM, _) => {
            SocketAddr::try_from(address).ok().map(|address| Local::Tcp(address, takes_both(fd)))
        }
        (SocketType::DGRAM, AddressFamily::INET | AddressFamily::INET6) => {
            SocketAddr::try_from(address).ok().map(|address| Local::Udp(address, takes_both(fd)))
        }
        _ => None,
    }
}

fn unix_path(address: &SocketAddrAny) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(address.clone()).ok()?;
    address.path().map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

/// Whether several sockets may be bound to the address of this one.
fn shares_its_port(fd: &OwnedFd) -> bool {
    sockopt::socket_reuseport(fd).unwrap_or(false)
}

/// Whether a socket of IPv6 takes connections of IPv4 too.
fn takes_both(fd: impl AsFd) -> bool {
    sockopt::ipv6_v6only(fd).is_ok_and(|is_only| !is_only)
}

impl Local {
    /// Whether a listener of connections at this address would be bound here.
    pub fn is_tcp(&self, address: SocketAddr, dual_stack: bool) -> bool {
        matches!(self, Self::Tcp(at, both) if is_at((*at, *both), (address, dual_stack)))
    }

    /// Whether a listener of datagrams at this address would be bound here.
    pub fn is_udp(&self, address: SocketAddr, dual_stack: bool) -> bool {
        matches!(self, Self::Udp(at, both) if is_at((*at, *both), (address, dual_stack)))
    }
}

/// Whether a socket at an address is what a listener wants. Where the kernel has no IPv6, every address of both is
/// every one of IPv4.
fn is_at((at, both): (SocketAddr, bool), (wanted, dual_stack): (SocketAddr, bool)) -> bool {
    let is_every = |address: SocketAddr| address.ip().is_unspecified();
    let is_fallback = dual_stack && at.is_ipv4() && is_every(at) && is_every(wanted);
    wanted.port() != 0
        && at.port() == wanted.port()
        && (is_fallback || at.ip() == wanted.ip() && (at.is_ipv4() || both == dual_stack))
}

/// As many sockets as there are to be: those that were taken over, then others of the same port where it is shared,
/// else the same ones again. Says whether one of them is there several times.
///
/// # Errors
/// The kernel has no descriptors left.
pub(crate) fn spread(
    mut fds: Vec<OwnedFd>,
    count: usize,
    bind: impl FnOnce(usize) -> io::Result<Vec<OwnedFd>>,
) -> io::Result<(Vec<OwnedFd>, bool)> {
    let (had, missing) = (fds.len(), count.saturating_sub(fds.len()));
    if missing == 0 {
        return Ok((fds, false));
    }
    if fds.first().is_some_and(shares_its_port)
        && let Ok(more) = bind(missing)
    {
        fds.extend(more);
        return Ok((fds, false));
    }
    for at in 0..missing {
        fds.push(fds[at % had].try_clone()?);
    }
    Ok((fds, true))
}

/// Sockets that systemd has opened for this process, or keeps for it (`LISTEN_PID`, `LISTEN_FDS`, `LISTEN_FDNAMES`:
/// sd_listen_fds(3)). To be called once, before there are threads; children do not hear of them, as their number is not
/// the one in `LISTEN_PID`.
pub fn of_systemd() -> Vec<InheritedSocket> {
    let variable = |name: &str| std::env::var(name).ok();
    let is_ours = variable("LISTEN_PID").is_some_and(|pid| pid.parse() == Ok(std::process::id()));
    let count = variable("LISTEN_FDS").and_then(|count| count.parse::<i32>().ok()).filter(|_| is_ours);
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<_> = names.split(':').collect();
    let socket = |at: i32| {
        let name = names.get(at as usize).copied().unwrap_or_default().to_owned();
        given(FIRST_OF_SYSTEMD + at).map(|fd| InheritedSocket { name, written: String::new(), fd })
    };
    (0..count.unwrap_or(0).clamp(0, MOST_OF_SYSTEMD)).filter_map(socket).collect()
}

/// `SD_LISTEN_FDS_START`.
const FIRST_OF_SYSTEMD: i32 = 3;
/// More than this is a mistake.
const MOST_OF_SYSTEMD: i32 = 4096;

/// A descriptor that this process was started with, and that nobody else here owns.
#[allow(unsafe_code)]
fn given(fd: i32) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: only asks whether the descriptor is open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by sd_listen_fds(3) it is this process's to close; it is asked for once, before
    // anything else was opened.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

    fn socket(name: &str, written: &str, fd: impl Into<OwnedFd>) -> InheritedSocket {
        InheritedSocket { name: name.into(), written: written.into(), fd: fd.into() }
    }

    #[test]
    fn sockets_are_found_by_their_listener_and_else_by_their_place() {
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, second, datagrams) = (listener(), listener(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let at = second.local_addr().unwrap();
        let inherited = Inherited::new(vec![
            socket("web", "127.0.0.1:0", first),
            socket("unknown", "", second),
            socket("unknown", "", datagrams),
        ]);
        let taken = inherited.take("other", &at.to_string(), |place| place.is_tcp(at, false));
        assert_eq!(getsockname(&taken[0]).unwrap(), at.into());
        assert_eq!(taken.len(), 1);
        assert!(
            inherited.take("other", "127.0.0.1:0", |place| !place.is_udp(at, false)).len() == 1,
            "datagrams"
        );
        // The port that the kernel has chosen is for one listener alone.
        assert_eq!(inherited.take("web", "127.0.0.1:0", |_| false).len(), 1);
        assert!(inherited.is_empty());
    }

    #[test]
    fn a_place_is_an_address_and_what_is_received_there() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = tcp.local_addr().unwrap();
        let place = local(&tcp).unwrap();
        assert!(place.is_tcp(at, false) && !place.is_udp(at, false));
        assert!(!place.is_tcp(SocketAddr::from(([127, 0, 0, 2], at.port())), false));
        assert!(local(std::net::TcpStream::connect(at).unwrap()).is_none(), "it does not listen");
    }

    #[test]
    fn every_address_of_both_kinds_may_be_every_one_of_ipv4() {
        let (v4, v6) =
            (SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80)));
        assert!(is_at((v4, false), (v6, true)) && is_at((v6, true), (v6, true)));
        assert!(!is_at((v4, false), (v6, false)) && !is_at((v6, true), (v6, false)));
    }

    #[test]
    fn sockets_that_are_missing_are_bound_or_shared() {
        let alone = TcpListener::bind("127.0.0.1:0").unwrap();
        let (fds, is_shared) =
            spread(vec![alone.into()], 3, |_| unreachable!("its port is not shared")).unwrap();
        assert!(fds.len() == 3 && is_shared);
    }
}
