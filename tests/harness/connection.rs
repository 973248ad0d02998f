//! One TCP connection of a test: reads with deadlines, writes that never stop the script.
//!
//! Writes go through a thread of their own, so that a script which sends a megabyte to a peer that does not read
//! it goes on to what it expects next.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustls::ClientConfig;

use crate::STEP;
use crate::secure::{Identity, Secure};

/// What a read brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// Bytes were added to what was seen.
    Bytes,
    /// The peer ended its side.
    End,
    /// The peer broke the connection off.
    Reset,
    /// Nothing came before the deadline.
    Late,
}

enum Order {
    Send(Vec<u8>, Duration),
    Farewell,
    HalfClose,
}

/// One connection, from either end.
#[derive(Debug)]
pub struct Connection {
    stream: Arc<TcpStream>,
    secure: Option<Arc<Secure>>,
    orders: Option<Sender<Order>>,
    writer: Option<JoinHandle<()>>,
    seen: Vec<u8>,
    end: Option<Event>,
}

impl Connection {
    /// Connects to `address`.
    ///
    /// # Errors
    /// What the kernel says, within [`STEP`].
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        TcpStream::connect_timeout(&address, STEP).map(Self::new)
    }

    /// Connects to `address` through TLS, as one that trusts `identity` and asks for `name`.
    ///
    /// # Errors
    /// What the kernel says, within [`STEP`], and what the handshake comes to.
    pub fn open_secure(address: SocketAddr, identity: &Identity, name: &str) -> io::Result<Self> {
        Self::open_as(address, Arc::new(identity.client()), name)
    }

    /// Connects to `address` through TLS with this configuration, and asks for `name`.
    ///
    /// # Errors
    /// As [`Self::open_secure`].
    pub fn open_as(address: SocketAddr, config: Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, STEP)?;
        stream.set_read_timeout(Some(STEP))?;
        let secure = Secure::connect(&stream, config, name)?;
        Ok(Self::over(stream, Some(Arc::new(secure))))
    }

    /// Takes over a connection.
    pub fn new(stream: TcpStream) -> Self {
        Self::over(stream, None)
    }

    fn over(stream: TcpStream, secure: Option<Arc<Secure>>) -> Self {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(STEP));
        let stream = Arc::new(stream);
        let (orders, queue) = mpsc::channel();
        let ours = (Arc::clone(&stream), secure.clone());
        let writer = thread::spawn(move || write((&ours.0, ours.1.as_deref()), &queue));
        Self { stream, secure, orders: Some(orders), writer: Some(writer), seen: Vec::new(), end: None }
    }

    /// Queues bytes to be sent at once.
    pub fn send(&self, bytes: impl Into<Vec<u8>>) {
        self.order(Order::Send(bytes.into(), Duration::ZERO));
    }

    /// Queues bytes to be sent one by one, with `pace` between them.
    pub fn trickle(&self, bytes: impl Into<Vec<u8>>, pace: Duration) {
        self.order(Order::Send(bytes.into(), pace));
    }

    /// Ends our side once what is queued has been sent.
    pub fn half_close(&self) {
        self.order(Order::HalfClose);
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }

    /// What was received and not taken yet.
    pub fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// How the connection ended, if it has.
    pub fn end(&self) -> Option<Event> {
        self.end
    }

    /// Takes the first `len` bytes of what was received.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        self.seen.drain(..len).collect()
    }

    /// Waits until `deadline` for something to happen.
    pub fn read(&mut self, deadline: Instant) -> Event {
        if let Some(end) = self.end {
            return end;
        }
        let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        else {
            return Event::Late;
        };
        let _ = self.stream.set_read_timeout(Some(left));
        let mut bytes = [0; 64 * 1024];
        match (&*self.stream).read(&mut bytes) {
            // Through TLS an end that was not told of is none.
            Ok(0) if self.secure.is_some() => *self.end.insert(Event::Reset),
            Ok(0) => *self.end.insert(Event::End),
            Ok(len) => match &self.secure {
                None => {
                    self.seen.extend_from_slice(&bytes[..len]);
                    Event::Bytes
                }
                Some(secure) => match secure.open(&bytes[..len]) {
                    Ok((plain, over)) => {
                        self.seen.extend_from_slice(&plain);
                        self.end = over.then_some(Event::End);
                        self.end.filter(|_| plain.is_empty()).unwrap_or(Event::Bytes)
                    }
                    Err(_) => *self.end.insert(Event::Reset),
                },
            },
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Event::Late,
            Err(error) if error.kind() == ErrorKind::Interrupted => Event::Bytes,
            Err(_) => *self.end.insert(Event::Reset),
        }
    }

    /// Reads until the other side ends the connection; `Late` when it does not.
    pub fn read_to_end(&mut self, deadline: Instant) -> Event {
        loop {
            match self.read(deadline) {
                Event::Bytes => {}
                other => return other,
            }
        }
    }

    /// Sends what is queued, then closes both directions.
    pub fn close(mut self) {
        if self.secure.is_some() {
            self.order(Order::Farewell);
        }
        self.finish_writing();
    }

    /// Breaks the connection off: the peer gets a reset, what is under way is lost.
    pub fn reset(mut self) {
        self.finish_writing();
        let _ = set_socket_linger(&*self.stream, Some(Duration::ZERO));
    }

    fn finish_writing(&mut self) {
        self.orders = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.writer.is_some() {
            // Wakes a writer that waits for a peer which does not read.
            let _ = self.stream.shutdown(Shutdown::Both);
            self.finish_writing();
        }
    }
}

/// Carries out orders; errors are the peer's right (it may refuse and close) and show on the reading side.
fn write((stream, secure): (&TcpStream, Option<&Secure>), queue: &Receiver<Order>) {
    let put = |bytes: &[u8]| (&mut &*stream).write_all(bytes);
    let send = |bytes: &[u8]| secure.map_or_else(|| put(bytes), |secure| put(&secure.seal(bytes)));
    for order in queue {
        match order {
            Order::Send(bytes, Duration::ZERO) => {
                if send(&bytes).is_err() {
                    return;
                }
            }
            Order::Send(bytes, pace) => {
                for byte in bytes {
                    if send(&[byte]).is_err() {
                        return;
                    }
                    thread::sleep(pace);
                }
            }
            Order::Farewell => {
                let _ = secure.map(|secure| put(&secure.farewell()));
            }
            Order::HalfClose => {
                let _ = secure.map(|secure| put(&secure.farewell()));
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    }
}
