//! One session: a greeting, then messages to and fro, one at a time, each echo verified byte for byte.
//!
//! What is sent and what is to come back follows from the numbers of the session and of the message ([`Script`]), so a
//! session holds no message. [`Session::go_on`] is called whenever its socket is ready.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::greeting::{Answer, greeting, judge};
use crate::{Mode, websocket};

/// What all sessions say.
pub(crate) struct Script {
    pub(crate) mode: Mode,
    /// The host names of the servers; sessions take them in turn.
    pub(crate) hosts: Vec<String>,
    /// Messages of a session, and bytes of each.
    pub(crate) messages: u32,
    pub(crate) bytes: usize,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Connecting, or waiting for the answer to the greeting.
    Greeting,
    /// It stands, and nothing has been sent yet.
    Ready,
    Talking,
    /// Every message came back.
    Done,
    /// Refused before it stood.
    Refused,
    /// Closed while messages were under way.
    Lost,
    /// Wrong bytes came.
    Broken,
}

/// One session.
pub(crate) struct Session {
    number: u32,
    stream: TcpStream,
    stage: Stage,
    /// The message under way.
    message: u32,
    /// Whether there is something of it, or of the greeting, to be sent.
    unsent: bool,
    /// Bytes that went out, and those of the echo that came back.
    sent: usize,
    received: usize,
    /// What has come of the answer to the greeting.
    answer: Vec<u8>,
}

/// Room for what is sent and received, shared by all sessions.
pub(crate) struct Buffers {
    out: Vec<u8>,
    read: Vec<u8>,
}

impl Script {
    fn host(&self, session: u32) -> &str {
        &self.hosts[session as usize % self.hosts.len()]
    }

    /// Writes a message as it goes out.
    fn message(&self, session: u32, message: u32, out: &mut Vec<u8>) {
        out.clear();
        if self.mode == Mode::WebSocket {
            let mask = (session.wrapping_mul(0x9e37_79b9) ^ message.wrapping_mul(0x85eb_ca6b)).to_be_bytes();
            websocket::write_head(out, websocket::BINARY, self.bytes, Some(mask));
            let begin = out.len();
            self.content(session, message, out);
            websocket::apply(mask, &mut out[begin..]);
        } else {
            self.content(session, message, out);
        }
    }

    /// Writes it as it has to come back: a server does not mask.
    fn echo(&self, session: u32, message: u32, out: &mut Vec<u8>) {
        out.clear();
        if self.mode == Mode::WebSocket {
            websocket::write_head(out, websocket::BINARY, self.bytes, None);
        }
        self.content(session, message, out);
    }

    /// Both numbers over and over, and a place that tells the repetitions from each other.
    fn content(&self, session: u32, message: u32, out: &mut Vec<u8>) {
        let [begin, numbers] = [out.len(), (session as usize) << 32 | message as usize];
        let blocks = self.bytes.div_ceil(8);
        out.extend((0..blocks).flat_map(|i| (numbers ^ i.wrapping_mul(0x0101_0000_0101)).to_be_bytes()));
        out.truncate(begin + self.bytes);
    }
}

impl Buffers {
    pub(crate) fn new(script: &Script) -> Self {
        // More than an echo, so that one read takes it whole and finds the socket drained.
        Self { out: Vec::new(), read: vec![0; script.bytes + 16 * 1024] }
    }
}

impl Session {
    /// Begins to connect.
    pub(crate) fn open(number: u32, proxy: SocketAddr) -> io::Result<Self> {
        let family = if proxy.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        set_tcp_nodelay(&socket, true)?;
        // A reset at the end: thousands of ports would have to rest for a minute otherwise.
        set_socket_linger(&socket, Some(Duration::ZERO))?;
        let stage = match rustix::net::connect(&socket, &proxy) {
            Ok(()) | Err(Errno::INPROGRESS) => Stage::Greeting,
            Err(Errno::CONNREFUSED | Errno::CONNRESET) => Stage::Refused,
            Err(other) => return Err(other.into()),
        };
        let stream = TcpStream::from(socket);
        Ok(Self { number, stream, stage, message: 0, unsent: true, sent: 0, received: 0, answer: Vec::new() })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Messages that came back.
    pub(crate) fn echoed(&self) -> u32 {
        self.message
    }

    /// Sends the first message of a session that is ready.
    pub(crate) fn begin(&mut self, script: &Script, buffers: &mut Buffers) {
        debug_assert_eq!(self.stage, Stage::Ready);
        if script.messages == 0 {
            self.stage = Stage::Done;
            return;
        }
        (self.stage, self.unsent, self.sent) = (Stage::Talking, true, 0);
        if self.send(script, buffers).is_err() {
            self.stage = Stage::Lost;
        }
    }

    /// Does what can be done now that its socket is ready.
    pub(crate) fn go_on(&mut self, ended: bool, script: &Script, buffers: &mut Buffers) {
        while matches!(self.stage, Stage::Greeting | Stage::Ready | Stage::Talking) {
            let step = self.send(script, buffers).and_then(|()| self.receive(script, buffers));
            match step {
                // The socket is drained, unless its end is still to be read.
                Ok(whole) if !whole || ended => {}
                Ok(_) => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.stage = if self.stage == Stage::Greeting { Stage::Refused } else { Stage::Lost }
                }
            }
        }
    }

    /// Sends what is left of the greeting or of the message under way, as far as the socket takes it.
    fn send(&mut self, script: &Script, buffers: &mut Buffers) -> io::Result<()> {
        if !self.unsent {
            return Ok(());
        }
        match self.stage {
            Stage::Greeting => buffers.out = greeting(script.mode, script.host(self.number), self.number),
            _ => script.message(self.number, self.message, &mut buffers.out),
        }
        while self.sent < buffers.out.len() {
            match self.stream.write(&buffers.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.unsent = false;
        Ok(())
    }

    /// Reads once. Whether the socket had no more.
    fn receive(&mut self, script: &Script, buffers: &mut Buffers) -> io::Result<bool> {
        let count = self.stream.read(&mut buffers.read)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let Buffers { out, read } = buffers;
        let bytes = &read[..count];
        match self.stage {
            Stage::Greeting => self.answered(script, bytes),
            Stage::Talking => {
                script.echo(self.number, self.message, out);
                self.echoed_with(out, script, bytes);
            }
            // Nothing was asked.
            _ => self.stage = Stage::Broken,
        }
        let drained = count < buffers.read.len();
        if self.stage == Stage::Talking {
            self.send(script, buffers)?;
        }
        Ok(drained)
    }

    fn answered(&mut self, script: &Script, bytes: &[u8]) {
        self.answer.extend_from_slice(bytes);
        self.stage = match judge(script.mode, script.host(self.number), self.number, &self.answer) {
            Answer::Partial => Stage::Greeting,
            Answer::Good => Stage::Ready,
            Answer::Refused => Stage::Refused,
            Answer::Broken => Stage::Broken,
        };
        if self.stage != Stage::Greeting {
            self.answer = Vec::new();
        }
    }

    /// Compares what came with what is left of the echo.
    fn echoed_with(&mut self, echo: &[u8], script: &Script, bytes: &[u8]) {
        match echo[self.received..].strip_prefix(bytes) {
            None => self.stage = Stage::Broken,
            Some([]) => {
                (self.message, self.sent, self.received) = (self.message + 1, 0, 0);
                self.unsent = self.message < script.messages;
                if self.message == script.messages {
                    self.stage = Stage::Done;
                }
            }
            Some(_) => self.received += bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::poller::Poller;

    fn script(mode: Mode, bytes: usize) -> Script {
        Script { mode, hosts: vec!["a".to_owned(), "b".to_owned()], messages: 2, bytes }
    }

    #[test]
    fn messages_differ_and_come_back_unmasked() {
        for bytes in [1, 20, 1024] {
            let script = script(Mode::WebSocket, bytes);
            let [mut sent, mut echo] = [Vec::new(), Vec::new()];
            script.message(1, 2, &mut sent);
            script.echo(1, 2, &mut echo);
            let head = websocket::Head::read(&sent).unwrap();
            assert_eq!((head.length, head.head + bytes), (bytes, sent.len()));
            websocket::apply(head.mask.unwrap(), &mut sent[head.head..]);
            assert_eq!(sent[head.head..], echo[echo.len() - bytes..]);
        }
        let script = script(Mode::Raw, 20);
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        script.message(1, 2, &mut one);
        for (session, message) in [(1, 3), (2, 2), (2, 1)] {
            script.message(session, message, &mut other);
            assert!(one != other && other.len() == 20, "{session} {message}");
        }
        assert_ne!(one[..8], one[8..16]);
        assert_eq!((script.host(0), script.host(3)), ("a", "b"));
    }

    /// Where a session of raw bytes ends with such a server, and how many messages came back.
    fn end(serve: impl FnOnce(TcpStream) + Send + 'static) -> (Stage, u32) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0));
        let (script, mut poller, mut ready) = (script(Mode::Raw, 20), Poller::new().unwrap(), Vec::new());
        let mut buffers = Buffers::new(&script);
        let mut session = Session::open(0, address).unwrap();
        poller.add(session.stream(), 0).unwrap();
        while matches!(session.stage(), Stage::Greeting | Stage::Ready | Stage::Talking) {
            poller.wait(None, &mut ready).unwrap();
            for one in &ready {
                session.go_on(one.ended, &script, &mut buffers);
            }
            if session.stage() == Stage::Ready {
                session.begin(&script, &mut buffers);
            }
        }
        let end = (session.stage(), session.echoed());
        drop(session);
        server.join().unwrap();
        end
    }

    /// Echoes the greeting.
    fn greet(stream: &mut TcpStream) {
        let mut hello = vec![0; greeting(Mode::Raw, "a", 0).len()];
        stream.read_exact(&mut hello).unwrap();
        stream.write_all(&hello).unwrap();
    }

    #[test]
    fn a_session_ends_as_its_server_lets_it() {
        let echo = |stream: &mut TcpStream, change: u8| {
            let mut message = [0; 20];
            stream.read_exact(&mut message).unwrap();
            message[19] ^= change;
            // In two pieces.
            stream.write_all(&message[..7]).unwrap();
            stream.write_all(&message[7..]).unwrap();
        };
        let all = end(move |mut stream| {
            greet(&mut stream);
            echo(&mut stream, 0);
            echo(&mut stream, 0);
        });
        assert_eq!(all, (Stage::Done, 2));
        let wrong = end(move |mut stream| {
            greet(&mut stream);
            echo(&mut stream, 0);
            echo(&mut stream, 1);
        });
        assert_eq!(wrong, (Stage::Broken, 1));
        let closed = end(move |mut stream| {
            greet(&mut stream);
            echo(&mut stream, 0);
        });
        assert_eq!(closed, (Stage::Lost, 1));
        assert_eq!(end(drop), (Stage::Refused, 0));
    }
}
