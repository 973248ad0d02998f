//! The slow client: thousands of downloads, each read at a low rate for as long as wanted, every byte checked.
//!
//! It says `READY connections` once all have begun to get their body, and when its standard input ends `RESULT bytes
//! microseconds connections bad reads dry`: of the reads after that, `dry` found nothing, so that the sender and not
//! the reader was the slow one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use crate::body::Check;

/// What the kernel is asked to receive ahead for a connection, in bytes; it takes twice as much.
const AHEAD: usize = 8 * 1024;
/// Time between two reads of a connection.
const TURN: Duration = Duration::from_secs(1);
/// Turns after which all must have begun to get their body.
const BEGIN: u32 = 60;
/// A sleep that is shorter is not worth it.
const GRAIN: Duration = Duration::from_millis(1);

/// One download.
struct Reader {
    stream: TcpStream,
    /// What has come of the head; `None` behind it.
    head: Option<Vec<u8>>,
    check: Check,
    /// Whether it was refused, broken off, or had a wrong byte.
    bad: bool,
}

/// Downloads so many bytes on each of `connections`, `rate` of them per second, until the standard input ends.
pub(crate) fn run(address: SocketAddr, length: u64, connections: u32, rate: usize) -> io::Result<()> {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
    });
    let begin = Instant::now();
    let readers: io::Result<Vec<_>> = (0..connections).map(|_| Reader::ask(address, length)).collect();
    let (mut readers, mut buffer) = (readers?, vec![0; rate]);
    let (start, mut reads, mut dry, mut ready) = (Instant::now(), 0_u64, 0_u64, false);
    for turn in 0.. {
        for (i, reader) in (0..connections).zip(&mut readers) {
            let due = start + TURN * turn + TURN * i / connections;
            let early = due.saturating_duration_since(Instant::now());
            if early > GRAIN {
                thread::sleep(early);
            }
            let count = reader.read(&mut buffer);
            reads += u64::from(ready);
            dry += u64::from(ready && count == 0);
        }
        if !ready && readers.iter().all(Reader::has_begun) {
            ready = true;
            println!("READY {connections}");
        }
        if stopped.load(Ordering::Relaxed) || (!ready && turn == BEGIN) {
            break;
        }
    }
    let bytes: u64 = readers.iter().map(|reader| reader.check.bytes).sum();
    let bad = readers.iter().filter(|reader| reader.bad || reader.head.is_some()).count();
    println!("RESULT {bytes} {} {connections} {bad} {reads} {dry}", begin.elapsed().as_micros());
    Ok(())
}

impl Reader {
    /// Connects, with a small receive buffer from the start, and sends the request.
    fn ask(address: SocketAddr, length: u64) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
        set_socket_recv_buffer_size(&socket, AHEAD)?;
        set_tcp_nodelay(&socket, true)?;
        rustix::net::connect(&socket, &address)?;
        let stream = TcpStream::from(socket);
        (&stream).write_all(format!("GET /length/{length} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, head: Some(Vec::new()), check: Check::new(), bad: false })
    }

    /// Whether nothing more is to be waited for before the measurement.
    fn has_begun(&self) -> bool {
        self.bad || self.check.bytes > 0
    }

    /// Reads once; how many bytes came.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        if self.bad {
            return 0;
        }
        match (&self.stream).read(buffer) {
            Ok(count @ 1..) => {
                self.take(&buffer[..count]);
                count
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            _ => {
                self.bad = true;
                0
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(mut head) = self.head.take() {
            head.extend_from_slice(bytes);
            match head.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => {
                    self.bad |= !head.starts_with(b"HTTP/1.1 200 ");
                    self.check.feed(&head[at + 4..]);
                }
                None => self.head = Some(head),
            }
        } else {
            self.check.feed(bytes);
        }
        self.bad |= !self.check.good;
    }
}
