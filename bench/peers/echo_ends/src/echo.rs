//! The echo servers: many listeners and thousands of connections on one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use crate::poller::{Poller, Ready};
use crate::{Mode, websocket};

/// Connections that wait to be accepted, of each listener.
const BACKLOG: i32 = 4096;
/// Bytes read at once.
const READ: usize = 64 * 1024;
/// Most bytes held of a head or a frame that has not come whole.
const HELD: usize = 1 << 20;
/// The answer to what asks for no WebSocket.
const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\necho";

/// What a descriptor is.
enum Socket {
    Listener(TcpListener),
    Flow(Flow),
}

/// A connection.
struct Flow {
    stream: TcpStream,
    /// Whether frames travel: after the upgrade.
    upgraded: bool,
    /// What has come of a head or a frame that is not whole.
    held: Vec<u8>,
    /// What the socket would not take yet.
    unsent: Vec<u8>,
}

/// The other side has ended, or does what is not understood.
struct Over;

/// Serves on so many ports of 127.0.0.1.
pub(crate) fn each(mode: Mode, count: usize) -> io::Result<()> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    serve(mode, (0..count).map(listen).collect::<io::Result<_>>()?)
}

/// Serves on one port of every address of this machine.
pub(crate) fn everywhere(mode: Mode) -> io::Result<()> {
    serve(mode, vec![TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?])
}

/// Says the ports, and serves until the process is stopped.
fn serve(mode: Mode, listeners: Vec<TcpListener>) -> io::Result<()> {
    let mut poller = Poller::new()?;
    let (mut sockets, mut ports) = (Vec::new(), String::from("PORTS"));
    for listener in listeners {
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        ports += &format!(" {}", listener.local_addr()?.port());
        let place = listener.as_raw_fd() as usize;
        poller.add(&listener, place as u64)?;
        put(&mut sockets, place, Socket::Listener(listener));
    }
    println!("{ports}");
    let (mut ready, mut buffer) = (Vec::new(), vec![0; READ]);
    loop {
        poller.wait(None, &mut ready)?;
        for &Ready { mark, ended } in &ready {
            let place = mark as usize;
            match sockets.get_mut(place).and_then(Option::as_mut) {
                Some(Socket::Flow(flow)) => {
                    let over = flow.go_on(mode, ended, &mut buffer).is_err();
                    if over {
                        sockets[place] = None;
                    }
                }
                Some(Socket::Listener(listener)) => {
                    for flow in accepted(listener, mode) {
                        let place = flow.stream.as_raw_fd() as usize;
                        poller.add(&flow.stream, place as u64)?;
                        put(&mut sockets, place, Socket::Flow(flow));
                    }
                }
                None => {}
            }
        }
    }
}

/// Puts a socket at the place of its descriptor.
fn put(sockets: &mut Vec<Option<Socket>>, place: usize, socket: Socket) {
    if sockets.len() <= place {
        sockets.resize_with(place + 1, || None);
    }
    sockets[place] = Some(socket);
}

/// Everybody who waits.
fn accepted(listener: &TcpListener, mode: Mode) -> Vec<Flow> {
    let mut flows = Vec::new();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
                    let upgraded = mode == Mode::Raw;
                    flows.push(Flow { stream, upgraded, held: Vec::new(), unsent: Vec::new() });
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return flows,
            Err(error) => {
                eprintln!("echo_ends: cannot accept: {error}");
                return flows;
            }
        }
    }
}

impl Flow {
    /// Reads and echoes until the socket is drained, or takes no more.
    fn go_on(&mut self, mode: Mode, ended: bool, buffer: &mut [u8]) -> Result<(), Over> {
        let unsent = std::mem::take(&mut self.unsent);
        self.send(&unsent)?;
        while self.unsent.is_empty() {
            match self.stream.read(buffer) {
                Ok(0) => return Err(Over),
                Ok(count) => {
                    match mode {
                        Mode::Raw => self.send(&buffer[..count])?,
                        Mode::WebSocket => self.take(&mut buffer[..count])?,
                    }
                    if count < buffer.len() && !ended {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Over),
            }
        }
        Ok(())
    }

    /// Takes what has come of heads and frames.
    fn take(&mut self, bytes: &mut [u8]) -> Result<(), Over> {
        if self.held.is_empty() && self.upgraded {
            let used = self.frames(bytes)?;
            self.held.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let head = if self.upgraded { 0 } else { self.upgrade(&held)? };
        let used = if self.upgraded { head + self.frames(&mut held[head..])? } else { head };
        held.drain(..used);
        if held.len() > HELD {
            return Err(Over);
        }
        self.held = held;
        Ok(())
    }

    /// Answers the head of a request when it is whole; its length.
    fn upgrade(&mut self, bytes: &[u8]) -> Result<usize, Over> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(0) };
        let Some(key) = key(&bytes[..end]) else {
            self.send(PLAIN)?;
            return Err(Over);
        };
        let accept = websocket::accept(key);
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        self.upgraded = true;
        self.send(answer.as_bytes())?;
        Ok(end + 4)
    }

    /// Echoes all whole frames; how many bytes they were. The answer takes the place of the frame: its head is shorter
    /// by the mask, and stands right before the content.
    fn frames(&mut self, bytes: &mut [u8]) -> Result<usize, Over> {
        let mut used = 0;
        while let Some(frame) = websocket::Head::read(&bytes[used..]) {
            let (begin, end) = (used + frame.head, used + frame.head + frame.length);
            // A client has to mask (RFC 6455 §5.1).
            let mask = frame.mask.filter(|_| frame.length <= HELD).ok_or(Over)?;
            let Some(content) = bytes.get_mut(begin..end) else { break };
            websocket::apply(mask, content);
            let opcode = if frame.opcode == websocket::PING { websocket::PONG } else { frame.opcode };
            let (head, length) = websocket::head(opcode, frame.length, false);
            bytes[begin - length..begin].copy_from_slice(&head[..length]);
            self.send(&bytes[begin - length..end])?;
            if opcode == websocket::CLOSE {
                return Err(Over);
            }
            used = end;
        }
        Ok(used)
    }

    /// Sends, and keeps what the socket does not take.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let mut sent = 0;
        while self.unsent.is_empty() && sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Over),
            }
        }
        self.unsent.extend_from_slice(&bytes[sent..]);
        Ok(())
    }
}

/// The key of a request for WebSocket.
fn key(head: &[u8]) -> Option<&[u8]> {
    let text = std::str::from_utf8(head).ok()?;
    let named = |line: &&str| {
        line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))
    };
    let line = text.split("\r\n").find(named)?;
    Some(line.split_once(':')?.1.trim().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server answers to bytes that come in pieces of `size`.
    fn answer(bytes: &[u8], size: usize) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut flow = Flow { stream, upgraded: false, held: Vec::new(), unsent: Vec::new() };
        for piece in bytes.chunks(size) {
            if flow.take(&mut piece.to_vec()).is_err() {
                break;
            }
        }
        drop(flow);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        answer
    }

    #[test]
    fn frames_come_back_unmasked_in_whatever_pieces_they_come() {
        let mut bytes = b"GET / HTTP/1.1\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".to_vec();
        for (opcode, length) in [(websocket::BINARY, 20), (websocket::PING, 1024), (websocket::CLOSE, 2)] {
            websocket::write_head(&mut bytes, opcode, length, Some([1, 2, 3, 4]));
            let begin = bytes.len();
            bytes.extend((0..length).map(|i| i as u8));
            websocket::apply([1, 2, 3, 4], &mut bytes[begin..]);
        }
        let whole = answer(&bytes, bytes.len());
        let head = String::from_utf8_lossy(&whole);
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        let mut expected = Vec::new();
        for (opcode, length) in [(websocket::BINARY, 20), (websocket::PONG, 1024), (websocket::CLOSE, 2)] {
            websocket::write_head(&mut expected, opcode, length, None);
            expected.extend((0..length).map(|i| i as u8));
        }
        assert!(whole.ends_with(&expected));
        for size in [1, 7, 100] {
            assert_eq!(answer(&bytes, size), whole, "{size}");
        }
    }

    #[test]
    fn what_asks_for_no_websocket_gets_a_plain_answer_and_an_unmasked_frame_none() {
        assert_eq!(answer(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 100), PLAIN);
        let head = b"GET / HTTP/1.1\r\nSec-WebSocket-Key: a\r\n\r\n";
        let unmasked = [head.as_slice(), &[0x82, 1, 0]].concat();
        assert_eq!(answer(&unmasked, 100), answer(head, 100));
    }
}
