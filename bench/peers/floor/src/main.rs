//! The floor: the least work with which a small exchange can be forwarded over kept-alive connections.
//!
//! Not part of the product. `cargo xtask bench small` runs it next to the product, to tell how far that
//! is from a raw loop. One thread, one edge-triggered epoll set in which every socket is registered once,
//! one receive buffer for all connections, and a LIFO pool of upstream connections. It parses heads with
//! httparse and writes the header bytes that the product writes. Steady state: recv, send, recv, send.
//!
//! Left out on purpose: routes, logs, timers, limits on what is held back for a partial head, chunked
//! bodies, replay on a dead connection, error answers (a fault closes the client's connection).
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program of the benchmark, run by hand or by xtask")]

mod head;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use head::{RequestHead, ResponseHead};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};

/// Bytes asked for with one receive; a shorter read means that the socket is drained.
const RECEIVE: usize = 64 * 1024;
/// Events taken from the kernel in one turn.
const EVENTS: usize = 512;
/// The mark of the listening socket in the epoll set; no connection has this index.
const LISTENER: u64 = u64::MAX;
/// What every connection is registered for, once.
const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
/// Flags after which a read tells that the other side has ended.
const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// One connection, of either side.
struct Conn {
    stream: TcpStream,
    /// The fields that depend on the client's connection only; empty for an upstream connection.
    forwarded: Vec<u8>,
    upstream: bool,
    /// The other side of the running exchange.
    peer: Option<usize>,
    /// Bytes (or the end) may wait in the socket.
    readable: bool,
    ended: bool,
    /// Close as soon as `unsent` is empty.
    closing: bool,
    /// May serve another exchange after the running one.
    keep: bool,
    /// Upstream only: the running request is HEAD, so that its response has no body.
    bodiless: bool,
    /// Bytes of the running message's body that this side has still to send us.
    body_left: u64,
    /// Upstream only: the final response's head has been passed on.
    answered: bool,
    /// Received, but part of a head that is not complete or of a pipelined request.
    unread: Vec<u8>,
    /// For this socket, but it would not take them.
    unsent: Vec<u8>,
}

#[derive(Default)]
struct Slot {
    conn: Option<Conn>,
    /// Tells events of an earlier connection in this slot from those of the present one.
    generation: u32,
}

struct Floor {
    epoll: OwnedFd,
    listener: TcpListener,
    upstream: SocketAddr,
    slots: Vec<Slot>,
    free: Vec<usize>,
    idle: Vec<usize>,
    /// The head being written.
    out: Vec<u8>,
    ids: head::RequestIds,
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (args.next(), args.next()) else {
        eprintln!("usage: floor LISTEN UPSTREAM, for instance floor 127.0.0.1:8080 127.0.0.1:9001");
        std::process::exit(2);
    };
    let upstream = upstream.parse().map_err(io::Error::other)?;
    let listener = TcpListener::bind(&listen)?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
    let ids = head::RequestIds::seeded(clock_gettime(ClockId::Monotonic).tv_nsec as u64);
    let (slots, free, idle, out) = (Vec::new(), Vec::new(), Vec::new(), Vec::with_capacity(RECEIVE));
    eprintln!("floor: listening on {listen}");
    Floor { epoll, listener, upstream, slots, free, idle, out, ids }.run()
}

impl Floor {
    fn run(mut self) -> io::Result<()> {
        let mut events =
            vec![epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
        let mut buf = vec![0; RECEIVE];
        loop {
            let count = match epoll::wait(&self.epoll, events.as_mut_slice(), None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let now = clock_gettime(ClockId::RealtimeCoarse);
            self.ids.set_time(now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000);
            for event in &events[..count] {
                let (flags, mark) = (event.flags, event.data.u64());
                if mark == LISTENER {
                    self.accept();
                } else {
                    self.on_event(mark, flags, &mut buf);
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, address)) = self.listener.accept() {
            if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
                let forwarded = format!("X-Forwarded-For: {}\r\n", address.ip()).into_bytes();
                let _ = self.insert(stream, forwarded, false);
            }
        }
    }

    fn insert(&mut self, stream: TcpStream, forwarded: Vec<u8>, upstream: bool) -> Option<usize> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let mark = EventData::new_u64(u64::from(slot.generation) << 32 | index as u64);
        if epoll::add(&self.epoll, &stream, mark, INTEREST).is_err() {
            self.free.push(index);
            return None;
        }
        slot.conn = Some(Conn {
            stream,
            forwarded,
            upstream,
            peer: None,
            readable: false,
            ended: false,
            closing: false,
            keep: true,
            bodiless: false,
            body_left: 0,
            answered: false,
            unread: Vec::new(),
            unsent: Vec::new(),
        });
        Some(index)
    }

    fn conn(&mut self, index: usize) -> Option<&mut Conn> {
        self.slots.get_mut(index).and_then(|slot| slot.conn.as_mut())
    }

    fn on_event(&mut self, mark: u64, flags: EventFlags, buf: &mut [u8]) {
        let index = (mark & 0xffff_ffff) as usize;
        let slot = &mut self.slots[index];
        let Some(conn) = slot.conn.as_mut().filter(|_| u64::from(slot.generation) == mark >> 32) else {
            return;
        };
        conn.ended |= flags.intersects(ENDED);
        conn.readable |= flags.intersects(ENDED | EventFlags::IN);
        if flags.contains(EventFlags::OUT) && !conn.unsent.is_empty() {
            let unsent = std::mem::take(&mut conn.unsent);
            let peer = conn.peer;
            self.send(index, &unsent);
            if let Some(peer) = peer {
                self.read(peer, buf);
            }
        }
        self.read(index, buf);
    }

    /// Takes what the socket holds, as long as there is a use for it.
    fn read(&mut self, index: usize, buf: &mut [u8]) {
        while let Some(conn) = self.conn(index) {
            let waits = !conn.upstream && conn.peer.is_some() && conn.body_left == 0;
            if !conn.readable || conn.closing || (waits && !conn.ended) {
                return;
            }
            let peer = conn.peer;
            if peer.and_then(|peer| self.conn(peer)).is_some_and(|peer| !peer.unsent.is_empty()) {
                return;
            }
            let Some(conn) = self.conn(index) else { return };
            let received = match rustix::net::recv(&conn.stream, &mut *buf, RecvFlags::empty()) {
                Ok((0, _)) => return self.end(index),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => {
                    conn.readable = false;
                    return;
                }
                Err(Errno::INTR) => continue,
                Err(_) => return self.end(index),
            };
            // With ET a short read means drained, unless the end has been announced too.
            conn.readable = received == buf.len() || conn.ended;
            let upstream = conn.upstream;
            if conn.unread.is_empty() {
                self.on_bytes(index, upstream, &buf[..received]);
            } else {
                let mut whole = std::mem::take(&mut conn.unread);
                whole.extend_from_slice(&buf[..received]);
                self.on_bytes(index, upstream, &whole);
            }
        }
    }

    fn on_bytes(&mut self, index: usize, upstream: bool, bytes: &[u8]) {
        if upstream { self.on_response_bytes(index, bytes) } else { self.on_request_bytes(index, bytes) }
    }

    fn on_request_bytes(&mut self, index: usize, bytes: &[u8]) {
        let Some(conn) = self.slots[index].conn.as_mut() else { return };
        if let Some(peer) = conn.peer {
            let body = bytes.len().min(usize::try_from(conn.body_left).unwrap_or(usize::MAX));
            conn.body_left -= body as u64;
            conn.unread.extend_from_slice(&bytes[body..]);
            return self.send(peer, &bytes[..body]);
        }
        self.out.clear();
        let request = match RequestHead::rewrite(bytes, &conn.forwarded, &mut self.ids, &mut self.out) {
            Ok(Some(request)) => request,
            Ok(None) => {
                conn.unread.extend_from_slice(bytes);
                return;
            }
            Err(()) => return self.close(index),
        };
        let rest = &bytes[request.length..];
        let body = rest.len().min(usize::try_from(request.body).unwrap_or(usize::MAX));
        conn.body_left = request.body - body as u64;
        conn.keep = request.keep;
        conn.unread.extend_from_slice(&rest[body..]);
        self.out.extend_from_slice(&rest[..body]);
        let Some(upstream) = self.idle.pop().or_else(|| self.connect()) else { return self.close(index) };
        if let Some(conn) = self.conn(index) {
            conn.peer = Some(upstream);
        }
        if let Some(conn) = self.conn(upstream) {
            (conn.peer, conn.answered, conn.bodiless) = (Some(index), false, request.bodiless);
        }
        let out = std::mem::take(&mut self.out);
        self.send(upstream, &out);
        self.out = out;
    }

    fn connect(&mut self) -> Option<usize> {
        let family = if self.upstream.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
        rustix::net::sockopt::set_tcp_nodelay(&socket, true).ok()?;
        match rustix::net::connect(socket.as_fd(), &self.upstream) {
            Ok(()) | Err(Errno::INPROGRESS) => self.insert(TcpStream::from(socket), Vec::new(), true),
            Err(_) => None,
        }
    }

    fn on_response_bytes(&mut self, index: usize, bytes: &[u8]) {
        let Some(conn) = self.conn(index) else { return };
        let Some(client) = conn.peer else { return self.close(index) };
        let mut passed = 0;
        while !conn.answered {
            let response = match ResponseHead::parse(&bytes[passed..], conn.bodiless) {
                Ok(Some(response)) => response,
                Ok(None) => {
                    conn.unread.extend_from_slice(&bytes[passed..]);
                    return self.send(client, &bytes[..passed]);
                }
                Err(()) => return self.close(index),
            };
            passed += response.length;
            conn.answered = !response.interim;
            conn.body_left = response.body;
            conn.keep &= response.keep;
        }
        let rest = &bytes[passed..];
        let body = rest.len().min(usize::try_from(conn.body_left).unwrap_or(usize::MAX));
        conn.body_left -= body as u64;
        let whole = conn.body_left == 0;
        if body < rest.len() {
            return self.close(index);
        }
        self.send(client, bytes);
        if whole {
            self.finish(index, client);
        }
    }

    /// The response is complete: the upstream connection goes back, and the client may go on.
    fn finish(&mut self, upstream: usize, client: usize) {
        if let Some(conn) = self.conn(upstream) {
            conn.peer = None;
            if conn.keep && !conn.ended && conn.unsent.is_empty() {
                self.idle.push(upstream);
            } else {
                self.close(upstream);
            }
        }
        let Some(conn) = self.conn(client) else { return };
        conn.peer = None;
        if !conn.keep || conn.body_left > 0 {
            conn.closing = true;
            if conn.unsent.is_empty() {
                self.close(client);
            }
        } else if !conn.unread.is_empty() {
            let pipelined = std::mem::take(&mut conn.unread);
            self.on_request_bytes(client, &pipelined);
        }
    }

    fn send(&mut self, index: usize, bytes: &[u8]) {
        let Some(conn) = self.conn(index) else { return };
        let mut sent = 0;
        while conn.unsent.is_empty() && sent < bytes.len() {
            match rustix::net::send(&conn.stream, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.close(index),
            }
        }
        conn.unsent.extend_from_slice(&bytes[sent..]);
        if conn.closing && conn.unsent.is_empty() {
            self.close(index);
        }
    }

    /// The other end has closed: what delimits a response without a length, and otherwise breaks the exchange.
    fn end(&mut self, index: usize) {
        let Some(conn) = self.conn(index) else { return };
        let Some(client) = conn.peer.filter(|_| conn.upstream && conn.body_left == head::UNTIL_END) else {
            return self.close(index);
        };
        conn.peer = None;
        self.close(index);
        if let Some(conn) = self.conn(client) {
            (conn.peer, conn.closing) = (None, true);
            if conn.unsent.is_empty() {
                self.close(client);
            }
        }
    }

    /// Closes a connection and, while an exchange runs, the other side's too.
    fn close(&mut self, index: usize) {
        let Some(conn) = self.slots.get_mut(index).and_then(|slot| slot.conn.take()) else { return };
        self.free.push(index);
        if conn.upstream {
            self.idle.retain(|&idle| idle != index);
        }
        if let Some(peer) = conn.peer {
            self.close(peer);
        }
    }
}
