//! Addresses that behave badly on purpose: one that refuses, one that never answers; and one for UDP and TCP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with};

/// A port that is taken, by a socket that does not listen: connecting to it is refused. A program that sets
/// `SO_REUSEPORT` may listen on it for a while.
#[derive(Debug)]
pub struct Refusing {
    socket: OwnedFd,
    address: SocketAddr,
}

impl Refusing {
    /// Takes a port of the kernel's choice.
    pub fn new() -> Self {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        set_socket_reuseport(&socket, true).unwrap();
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        Self { socket, address }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Default for Refusing {
    fn default() -> Self {
        Self::new()
    }
}

/// A port whose queue of connections is full: connecting to it gets no answer at all.
#[derive(Debug)]
pub struct Silent {
    port: Refusing,
    _queued: Vec<TcpStream>,
}

impl Silent {
    /// Takes a port and fills its queue.
    pub fn new() -> Self {
        let port = Refusing::new();
        listen(&port.socket, 0).unwrap();
        // A backlog of 0 holds one connection; those behind it are dropped without an answer. Fill until
        // one is not taken.
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&port.address, Duration::from_millis(100)) {
            queued.push(stream);
            assert!(queued.len() < 16, "the queue of a silent port does not fill");
        }
        Self { port, _queued: queued }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.port.address
    }
}

impl Default for Silent {
    fn default() -> Self {
        Self::new()
    }
}

/// An address of this machine that nobody else has: DNS wants the same port of UDP and of TCP, and the kernel gives
/// ports of one only.
///
/// # Panics
/// Never: it tries until it has one.
pub fn udp_and_tcp() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id().to_be_bytes();
    loop {
        let ip = [127, 64 | (process[2] & 63), process[3], NEXT.fetch_add(1, Ordering::Relaxed)];
        let Ok(socket) = UdpSocket::bind(SocketAddr::from((ip, 0))) else { continue };
        let address = socket.local_addr().unwrap();
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A loopback address of this machine that nobody else has: every port of it is free.
///
/// # Panics
/// Never: it tries until it has one.
pub fn own_address() -> IpAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let process = std::process::id().to_be_bytes();
    loop {
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let ip = [127, 128 | (process[3] & 127), low, process[2] ^ high];
        let address = IpAddr::from(ip);
        if low != 255 && TcpListener::bind((address, 8080)).is_ok() {
            return address;
        }
    }
}
