//! Upstreams of the tests: a bare listener for transcripts, and a service with answers for scenarios.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Event;
use crate::message::{Kind, find};
use crate::{Connection, Message};

/// How long a connection of a service may be silent.
const IDLE: Duration = Duration::from_secs(30);

/// A listener whose connections wait to be taken by the test.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Listener {
    /// Listens on a port of the kernel's choice and passes every connection to `accepted`.
    pub fn start(accepted: Sender<TcpStream>) -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), accepted)
    }

    /// Listens on `address`, which may have been in use until now.
    pub fn start_at(address: SocketAddr, accepted: Sender<TcpStream>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        thread::spawn(move || {
            loop {
                let stream = match listener.accept() {
                    Ok((stream, _)) => stream,
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                    Err(_) => return,
                };
                if flag.load(Ordering::Acquire) || accepted.send(stream).is_err() {
                    return;
                }
            }
        });
        Self { address, stopped }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread in accept, which then closes the socket.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

/// Takes the next connection of a listener, or `None` at the deadline.
pub fn accept(accepted: &Receiver<TcpStream>, deadline: Instant) -> Option<Connection> {
    let left = deadline.saturating_duration_since(Instant::now());
    match accepted.recv_timeout(left) {
        Ok(stream) => Some(Connection::new(stream)),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
    }
}

/// What a service does with one request: the bytes of the answer, `None` to close without one.
pub type Answer = dyn Fn(&Message) -> Option<Vec<u8>> + Send + Sync;

/// A keep-alive HTTP/1.1 service on threads; it and its connections end on drop.
#[derive(Debug)]
pub struct Upstream {
    listener: Option<Listener>,
    address: SocketAddr,
    open: Arc<Mutex<HashMap<SocketAddr, TcpStream>>>,
    served: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

impl Upstream {
    /// Starts a service that answers every request with `answer`.
    pub fn start(answer: impl Fn(&Message) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), answer)
    }

    /// Starts a service that answers every request with 200 and `body`.
    pub fn saying(body: &'static str) -> Self {
        Self::start(move |_| Some(ok(body)))
    }

    /// Like [`Upstream::start`], on an address that is known.
    pub fn start_at(
        address: SocketAddr,
        answer: impl Fn(&Message) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let (accepted, connections) = mpsc::channel();
        let listener = Listener::start_at(address, accepted);
        let upstream = Self {
            address: listener.address(),
            listener: Some(listener),
            open: Arc::default(),
            served: Arc::default(),
            connections: Arc::default(),
        };
        let (open, served, count) =
            (Arc::clone(&upstream.open), Arc::clone(&upstream.served), Arc::clone(&upstream.connections));
        let answer: Arc<Answer> = Arc::new(answer);
        thread::spawn(move || {
            for stream in connections {
                count.fetch_add(1, Ordering::Relaxed);
                let (Ok(copy), Ok(peer)) = (stream.try_clone(), stream.peer_addr()) else { continue };
                open.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, copy);
                let (answer, served, open) = (Arc::clone(&answer), Arc::clone(&served), Arc::clone(&open));
                thread::spawn(move || {
                    serve(stream, &*answer, &served);
                    // The copy would keep the descriptor.
                    open.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
                });
            }
        });
        upstream
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests it has answered.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// How many connections it has accepted.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.listener = None;
        for (_, stream) in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn serve(stream: TcpStream, answer: &Answer, served: &AtomicU64) {
    let mut connection = Connection::new(stream);
    while let Some(request) = next_request(&mut connection) {
        let Some(bytes) = answer(&request) else { return };
        served.fetch_add(1, Ordering::Relaxed);
        connection.send(bytes);
    }
}

/// Reads a request; says 100 (Continue) to a client that waits for it.
fn next_request(connection: &mut Connection) -> Option<Message> {
    let (deadline, mut continued) = (Instant::now() + IDLE, false);
    loop {
        if let Some((request, len)) = Message::parse(connection.seen(), Kind::Request, false).ok()? {
            connection.take(len);
            return Some(request);
        }
        let waits =
            |head: &[u8]| String::from_utf8_lossy(head).to_ascii_lowercase().contains("\r\nexpect: 100-");
        if !continued
            && find(connection.seen(), b"\r\n\r\n").is_some_and(|end| waits(&connection.seen()[..end]))
        {
            connection.send("HTTP/1.1 100 Continue\r\n\r\n");
            continued = true;
        }
        if connection.read(deadline) != Event::Bytes {
            return None;
        }
    }
}

/// A plain 200 answer with `body`.
pub fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
