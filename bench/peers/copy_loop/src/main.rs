//! A relay without any thought, and two floors for large bodies.
//!
//! Not part of the product. `cargo xtask bench stream` runs it beside the product: with 4 KiB as the naive loop of
//! published work (one blocking read, then one blocking write), with 64 KiB and 256 KiB as the floor of copying, and
//! with splice(2) through a pipe as the floor of not copying. Two more are those of a published proxy in .NET: `acked`
//! writes on when the write before has been acknowledged, `pooled` reads ahead into a few small buffers while another
//! thread writes. It relays bytes and knows no HTTP. Each direction of a
//! connection is a thread; an end of one side is passed on as an end.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program of the benchmark, run by hand or by xtask")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::thread;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

/// Largest buffer or pipe; a pipe cannot be larger without a privilege.
const MOST: usize = 1 << 20;

/// Buffers of one direction of the published proxy.
const POOL: usize = 40;

/// How bytes get across.
#[derive(Clone, Copy)]
enum Way {
    /// Read into a buffer of this size, write all of it.
    Copy(usize),
    /// Through a pipe of this size, without copying to user memory.
    Splice(usize),
    /// As `Copy`, with no more of it unacknowledged: the kernel's buffer holds one buffer, so that a write waits until
    /// the one before has been acknowledged.
    Acked(usize),
    /// Reading and writing apart, over at most [`POOL`] buffers of this size.
    Pooled(usize),
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((listen, upstream, way)) = parse(&args) else {
        eprintln!("usage: copy_loop LISTEN UPSTREAM copy|splice|acked|pooled BYTES (at most {MOST})");
        std::process::exit(2);
    };
    let listener = TcpListener::bind(listen)?;
    for client in listener.incoming() {
        let client = client?;
        thread::spawn(move || {
            if let Err(error) = relay(&client, upstream, way) {
                eprintln!("copy_loop: {error}");
            }
        });
    }
    Ok(())
}

fn parse(args: &[String]) -> Option<(SocketAddr, SocketAddr, Way)> {
    let [listen, upstream, way, bytes] = args else { return None };
    let bytes = bytes.parse().ok().filter(|bytes| (1..=MOST).contains(bytes))?;
    let way = match way.as_str() {
        "copy" => Way::Copy(bytes),
        "splice" => Way::Splice(bytes),
        "acked" => Way::Acked(bytes),
        "pooled" => Way::Pooled(bytes),
        _ => return None,
    };
    Some((listen.parse().ok()?, upstream.parse().ok()?, way))
}

/// Both directions of one connection, until both have ended.
fn relay(client: &TcpStream, upstream: SocketAddr, way: Way) -> io::Result<()> {
    let upstream = &TcpStream::connect(upstream)?;
    for side in [client, upstream] {
        side.set_nodelay(true)?;
    }
    thread::scope(|scope| {
        let up = scope.spawn(move || direction(client, upstream, way));
        let down = direction(upstream, client, way);
        match up.join() {
            Ok(up) => up.and(down),
            Err(_) => Err(io::Error::other("a direction panicked")),
        }
    })
}

/// One direction: passes the end on, and on a failure ends both sides, so that the other direction ends too.
fn direction(from: &TcpStream, to: &TcpStream, way: Way) -> io::Result<()> {
    let result = match way {
        Way::Copy(bytes) => copied(from, to, bytes),
        Way::Splice(bytes) => spliced(from, to, bytes),
        // The kernel doubles it, for what it keeps beside the bytes.
        Way::Acked(bytes) => set_socket_send_buffer_size(to, bytes / 2)
            .map_err(io::Error::from)
            .and_then(|()| copied(from, to, bytes)),
        Way::Pooled(bytes) => pooled(from, to, bytes),
    };
    match result {
        Ok(()) => to.shutdown(Shutdown::Write),
        Err(_) => from.shutdown(Shutdown::Both).and(to.shutdown(Shutdown::Both)),
    }
    .or_else(|error| if error.kind() == io::ErrorKind::NotConnected { Ok(()) } else { Err(error) })
}

fn copied(mut from: &TcpStream, mut to: &TcpStream, bytes: usize) -> io::Result<()> {
    let mut buf = vec![0; bytes];
    loop {
        let received = from.read(&mut buf)?;
        if received == 0 {
            return Ok(());
        }
        to.write_all(&buf[..received])?;
    }
}

fn pooled(mut from: &TcpStream, mut to: &TcpStream, bytes: usize) -> io::Result<()> {
    let (full, filled) = sync_channel::<(Vec<u8>, usize)>(POOL);
    let (empty, emptied) = sync_channel(POOL);
    for _ in 0..POOL {
        let _ = empty.send(vec![0; bytes]);
    }
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for (buffer, received) in filled {
                to.write_all(&buffer[..received])?;
                let _ = empty.send(buffer);
            }
            Ok(())
        });
        while let Ok(mut buffer) = emptied.recv() {
            let received = from.read(&mut buffer)?;
            if received == 0 || full.send((buffer, received)).is_err() {
                break;
            }
        }
        drop(full);
        writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    })
}

fn spliced(from: &TcpStream, to: &TcpStream, bytes: usize) -> io::Result<()> {
    let (out, into) = pipe()?;
    fcntl_setpipe_size(&into, bytes)?;
    loop {
        let mut held = moved(|| splice(from, None, &into, None, bytes, SpliceFlags::MOVE))?;
        if held == 0 {
            return Ok(());
        }
        while held > 0 {
            held -= moved(|| splice(&out, None, to, None, held, SpliceFlags::MOVE))?;
        }
    }
}

fn moved(mut call: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
