//! Listening sockets: one per worker with SO_REUSEPORT, or one shared by all for unix sockets.

use crate::connect::{ConnectOptions, set_options, set_user_timeout};
use crate::inherited::spread;
use crate::option::set_int;
use crate::path_walk::open_directory;
use crate::reactor::{Owner, Reactor};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Connections that the kernel keeps for us until they are accepted; it caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// Ports that the kernel may choose before it is an error that others have taken them.
const CHOICES: usize = 16;
/// Flags for the directory of a socket, which is not read.
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How TCP sockets listen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// How many sockets of the address there are.
    pub count: usize,
    /// What accepted connections inherit.
    pub manner: ConnectOptions,
    /// A connection is handed over when its first bytes are here, or after a second without any (decision 0030).
    pub defer: bool,
    /// Sockets of this process may have the port already: it is not asked whether somebody else has it.
    pub beside_ours: bool,
}

/// Binds TCP sockets to one address. Port 0: the kernel chooses, for all of them the same.
/// Returns the address with its real port.
///
/// # Errors
/// `AddrInUse` also when another program of the same user listens there with SO_REUSEPORT:
/// sharing its port would silently split the traffic.
pub fn tcp(
    address: SocketAddr,
    dual_stack: bool,
    options: Options,
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    choosing(address, || tcp_once(address, dual_stack, options))
}

/// Between the socket for which the kernel has chosen a port and those that listen, somebody else may have taken it:
/// then it chooses again. A port that was written is tried once.
pub(crate) fn choosing<T>(address: SocketAddr, mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let again = if address.port() == 0 { CHOICES - 1 } else { 0 };
    for _ in 0..again {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    bind()
}

fn tcp_once(
    address: SocketAddr,
    dual_stack: bool,
    options: Options,
) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let bound = if options.beside_ours {
        address
    } else {
        let probe = tcp_socket(address, dual_stack, false)?;
        rustix::net::bind(&probe, &address)?;
        SocketAddr::try_from(rustix::net::getsockname(&probe)?)?
    };
    let mut sockets = Vec::with_capacity(options.count);
    for _ in 0..options.count {
        let fd = tcp_socket(address, dual_stack, true)?;
        rustix::net::bind(&fd, &bound)?;
        sockets.push(fd);
    }
    // Listening starts when all are bound, so that a failure leaves no half-open door.
    for fd in &sockets {
        set_options(fd, options.manner)?;
        set_defer_accept(fd, options.defer);
        rustix::net::listen(fd, BACKLOG)?;
    }
    Ok((bound, sockets))
}

/// Takes sockets over that listen already, and gives as many as [`tcp`] would, or more. Whether workers have to share
/// one is the last that is said.
///
/// # Errors
/// When descriptors have run out, or the first is no socket of TCP.
pub fn adopt_tcp(
    fds: Vec<OwnedFd>,
    dual_stack: bool,
    options: Options,
) -> io::Result<(SocketAddr, Vec<OwnedFd>, bool)> {
    let first = fds.first().ok_or(io::ErrorKind::InvalidInput)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(first)?)?;
    for fd in &fds {
        set_options(fd, options.manner)?;
        set_defer_accept(fd, options.defer);
    }
    let bind = |count| {
        let options = Options { count, beside_ours: true, ..options };
        tcp(bound, dual_stack, options).map(|(_, fds)| fds)
    };
    let (fds, is_shared) = spread(fds, options.count, bind)?;
    Ok((bound, fds, is_shared))
}

/// Takes a socket over that listens at a path, for `count` workers.
///
/// # Errors
/// When descriptors have run out.
pub fn adopt_unix(fds: Vec<OwnedFd>, count: usize) -> io::Result<Vec<OwnedFd>> {
    spread(fds, count, |_| Err(Errno::ADDRINUSE.into())).map(|(fds, _)| fds)
}

/// Whether [`tcp`] could bind this address now; nothing listens on it meanwhile.
///
/// # Errors
/// What the kernel says against it.
pub fn probe(address: SocketAddr, dual_stack: bool) -> io::Result<()> {
    let fd = tcp_socket(address, dual_stack, false)?;
    Ok(rustix::net::bind(&fd, &address)?)
}

/// Whether the kernel is to hand a connection over only when it has bytes: one wake-up for a connection and its
/// first request instead of two. After a second a silent one is handed over all the same. Where the kernel does
/// not know it, nothing changes.
fn set_defer_accept(fd: &OwnedFd, defer: bool) {
    let _ = set_int(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, defer.into());
}

fn tcp_socket(address: SocketAddr, dual_stack: bool, share: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !dual_stack)?;
    }
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if share {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    Ok(fd)
}

/// Binds a unix stream socket and gives `count` descriptors of it. A socket file that nobody
/// answers on is replaced; one that somebody answers on is `AddrInUse`.
///
/// Root follows no link on the way that another user could have made, and removes a file only in the directory that
/// was checked. That user may still replace a directory of its own between the check and the bind: then the new
/// socket stands elsewhere, and nothing else is changed.
///
/// # Errors
/// What the kernel says of the path; `PermissionDenied` for such a link.
pub fn unix(path: &Path, count: usize) -> io::Result<Vec<OwnedFd>> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Another user gains nothing by its own links.
    let directory = match rustix::process::geteuid().is_root() {
        true => open_directory(parent)?,
        false => openat(CWD, parent, PASS, Mode::empty())?,
    };
    let found = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
    if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket) {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(Errno::ADDRINUSE.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                unlinkat(&directory, name, AtFlags::empty())?;
            }
            Err(error) => return Err(error),
        }
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&fd, BACKLOG)?;
    let mut sockets = Vec::with_capacity(count);
    for _ in 1..count {
        sockets.push(fd.try_clone()?);
    }
    sockets.push(fd);
    Ok(sockets)
}

/// A listening socket on a reactor; accepts while it is resumed.
#[derive(Debug)]
pub struct Acceptor {
    fd: OwnedFd,
    id: Option<u32>,
    owner: Owner,
    /// Other workers wait on the same socket: wake one of them, not all.
    shared: bool,
    reactor: Rc<Reactor>,
}

/// What an accept gave.
#[derive(Debug)]
pub enum Accepted {
    /// A connection and its peer; unix peers have no address.
    Connection(OwnedFd, Option<SocketAddr>),
    /// Nobody waits.
    Empty,
    /// Descriptors or memory have run out: stop accepting for a while.
    Exhausted,
}

impl Acceptor {
    /// Watches a listening socket.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn new(reactor: &Rc<Reactor>, fd: OwnedFd, owner: Owner, shared: bool) -> io::Result<Self> {
        let mut acceptor = Self { fd, id: None, owner, shared, reactor: reactor.clone() };
        acceptor.resume()?;
        Ok(acceptor)
    }

    /// Accepts one connection.
    pub fn accept(&self) -> Accepted {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            return match rustix::net::acceptfrom_with(&self.fd, flags) {
                Ok((fd, peer)) => {
                    Accepted::Connection(fd, peer.and_then(|peer| SocketAddr::try_from(peer).ok()))
                }
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
                Err(_) => Accepted::Empty,
            };
        }
    }

    /// Whether connections wait in the kernel for their first bytes, from now on. Without effect on unix sockets.
    pub fn set_defer(&self, defer: bool) {
        set_defer_accept(&self.fd, defer);
    }

    /// What connections that are accepted from now on have of [`ConnectOptions::silence`] and
    /// [`ConnectOptions::keepalive`]. For TCP.
    pub fn set_silence(&self, silence: Duration, keepalive: bool) {
        let _ = sockopt::set_socket_keepalive(&self.fd, keepalive);
        let _ = set_user_timeout(&self.fd, silence);
    }

    /// Stops watching: new connections wait in the kernel's queue.
    pub fn pause(&mut self) {
        if let Some(id) = self.id.take() {
            self.reactor.remove(id, Some(self.fd.as_fd()));
        }
    }

    /// Watches again.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn resume(&mut self) -> io::Result<()> {
        if self.id.is_none() {
            self.id = Some(self.reactor.add_listener(self.fd.as_fd(), self.owner, self.shared)?);
        }
        Ok(())
    }

    /// Whether new connections are left in the kernel's queue.
    pub fn is_paused(&self) -> bool {
        self.id.is_none()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

    const ANY: ConnectOptions =
        ConnectOptions { silence: Duration::from_secs(60), keepalive: true, narrow: false, buffers: None };

    /// A listening socket with its reactor.
    fn listening(defer: bool) -> (SocketAddr, Acceptor, Rc<Reactor>) {
        let options = Options { count: 1, manner: ANY, defer, beside_ours: false };
        let (address, mut fds) = tcp(SocketAddr::from(([127, 0, 0, 1], 0)), false, options).unwrap();
        let reactor = Rc::new(Reactor::new().unwrap());
        let acceptor = Acceptor::new(&reactor, fds.remove(0), Owner(1), false).unwrap();
        (address, acceptor, reactor)
    }

    /// Waits until somebody is there.
    fn somebody(reactor: &Reactor) {
        assert_eq!(reactor.wait(Some(Duration::from_secs(20)), &mut Vec::new()).unwrap(), 1);
    }

    /// The user of the proxy made a link to a directory of root, and root removed a socket there.
    #[test]
    fn root_binds_and_removes_no_socket_behind_a_link_of_another_user() {
        use std::os::unix::fs::PermissionsExt;
        let base = std::env::temp_dir().join(format!("thalweg-listen-{}", std::process::id()));
        let (open, target) = (base.join("open"), base.join("target"));
        std::fs::create_dir_all(&open).unwrap();
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, open.join("run")).unwrap();
        let path = open.join("run/a.sock");
        // In directories that only root can write, links are followed, and a socket without an owner is replaced.
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        drop(unix(&path, 1).unwrap());
        drop(unix(&path, 2).unwrap());
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        if rustix::process::geteuid().is_root() {
            assert_eq!(unix(&path, 1).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            std::fs::remove_file(target.join("a.sock")).unwrap();
            assert!(unix(&path, 1).is_err() && !target.join("a.sock").exists());
        }
        assert!(unix(&target.join("b.sock"), 1).is_ok());
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_port_that_the_kernel_chose_and_others_took_is_chosen_again() {
        let bind = |port: u16, taken: usize| {
            let mut tries = 0;
            let bound = choosing(SocketAddr::from(([127, 0, 0, 1], port)), || {
                tries += 1;
                if tries > taken { Ok(()) } else { Err(Errno::ADDRINUSE.into()) }
            });
            (bound.map_err(|error| error.kind()), tries)
        };
        assert_eq!(bind(0, 0), (Ok(()), 1));
        assert_eq!(bind(0, 2), (Ok(()), 3));
        assert_eq!(bind(0, 99), (Err(io::ErrorKind::AddrInUse), CHOICES));
        assert_eq!(bind(80, 1), (Err(io::ErrorKind::AddrInUse), 1));
    }

    #[test]
    fn a_deferred_connection_is_there_with_its_first_bytes() {
        let (address, acceptor, reactor) = listening(true);
        let mut client = TcpStream::connect(address).unwrap();
        assert!(matches!(acceptor.accept(), Accepted::Empty), "it has said nothing yet");
        client.write_all(b"G").unwrap();
        somebody(&reactor);
        assert!(matches!(acceptor.accept(), Accepted::Connection(..)));
    }

    #[test]
    fn a_deferred_connection_that_stays_silent_is_there_all_the_same() {
        let (address, acceptor, reactor) = listening(true);
        let _client = TcpStream::connect(address).unwrap();
        somebody(&reactor);
        assert!(matches!(acceptor.accept(), Accepted::Connection(..)));
    }

    #[test]
    fn a_connection_that_is_not_deferred_is_there_at_once() {
        let (address, acceptor, reactor) = listening(false);
        let _client = TcpStream::connect(address).unwrap();
        somebody(&reactor);
        assert!(matches!(acceptor.accept(), Accepted::Connection(..)));
    }
}
