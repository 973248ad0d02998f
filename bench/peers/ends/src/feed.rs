//! The origin of slow downloads: thousands of connections on one thread, little held for each in the kernel.
//!
//! `GET /length/N` is answered with N bytes, whatever pace they are taken at, everything else with a small text. With
//! the origin on the machine of the proxy, what it has in its send buffers would be taken for what the proxy makes the
//! kernel hold, so these are small.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::body::{Framing, Sender};

/// What is asked of the kernel to hold for a connection, in bytes; it takes twice as much.
const HELD: usize = 8 * 1024;
/// Most bytes of a request's head.
const HEAD: usize = 8 * 1024;
/// Events taken at once.
const EVENTS: usize = 256;
/// Connections that wait to be accepted: a proxy that finds no place among them would take us for dead.
const BACKLOG: i32 = 4096;
/// The listening socket's name among the events.
const LISTENER: u64 = u64::MAX;

/// A connection: what it has sent of its request, then the answer and how much of it has gone.
struct Flow {
    stream: TcpStream,
    head: Vec<u8>,
    answer: Option<(u64, u64)>,
}

/// Serves until the process is stopped.
pub(crate) fn serve(listen: &str, text: &str) -> io::Result<()> {
    let sender = Sender::new(Framing::Length)?;
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    // Accepted connections inherit it.
    set_socket_send_buffer_size(&listener, HELD)?;
    rustix::net::listen(&listener, BACKLOG)?;
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poller, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut flows: Vec<Option<Flow>> = Vec::new();
    let mut free = Vec::new();
    let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
    loop {
        let (events, _) = match epoll::wait(&poller, &mut events, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in events {
            if event.data.u64() == LISTENER {
                accept(&listener, &poller, &mut flows, &mut free)?;
                continue;
            }
            let at = event.data.u64() as usize;
            let Some(flow) = flows.get_mut(at).and_then(Option::as_mut) else { continue };
            // A connection that breaks is its client's to report; closing it takes it out of the poller.
            match flow.go_on(&sender, text) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => {
                    flows[at] = None;
                    free.push(at);
                }
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    poller: &OwnedFd,
    flows: &mut Vec<Option<Flow>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let at = free.pop().unwrap_or(flows.len());
        if at == flows.len() {
            flows.push(None);
        }
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(poller, &stream, epoll::EventData::new_u64(at as u64), flags)?;
        flows[at] = Some(Flow { stream, head: Vec::new(), answer: None });
    }
}

impl Flow {
    /// Receives and sends until the connection has ended, or would block, which is an error.
    fn go_on(&mut self, sender: &Sender, text: &str) -> io::Result<()> {
        loop {
            let Some((sent, length)) = self.answer else {
                if !self.receive(text)? {
                    return Ok(());
                }
                continue;
            };
            if sent < length {
                let more = sender.send_some(&self.stream, sent, length)?;
                if more == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                self.answer = Some((sent + more, length));
            } else {
                self.answer = None;
            }
        }
    }

    /// Receives more of a request, and begins the answer once its head is complete; whether the client goes on.
    fn receive(&mut self, text: &str) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        let count = (&self.stream).read(&mut bytes)?;
        self.head.extend_from_slice(&bytes[..count]);
        if !self.head.ends_with(b"\r\n\r\n") {
            return Ok(count > 0 && self.head.len() < HEAD);
        }
        let head = String::from_utf8_lossy(&self.head).into_owned();
        self.head = Vec::new();
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        let length = path.strip_prefix("/length/").and_then(|word| word.parse().ok());
        let field = Framing::Length.field(length.unwrap_or(text.len() as u64));
        let rest = if length.is_none() { text } else { "" };
        // An empty send buffer takes so little whole.
        (&self.stream).write_all(format!("HTTP/1.1 200 OK\r\n{field}\r\n{rest}").as_bytes())?;
        self.answer = length.map(|length| (0, length));
        Ok(true)
    }
}
