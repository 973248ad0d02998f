//! A receiver of syslog (RFC 5424): each line becomes a message, over a unix socket of datagrams, UDP (RFC 5426) or
//! TCP with octet counting (RFC 6587 §3.4.1).
//!
//! Used by the writer's thread only, so it may wait a little. A receiver that is not there costs the lines of that
//! time: they are counted and told, and the receiver is looked for again once a second. What the kernel had taken for
//! a connection that then broke is lost and cannot be counted.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use rustix::net::{RecvFlags, recv};

use crate::meters::LogMeters;
use crate::stamp::Stamp;

/// For a connection, and for each write.
const TIME: Duration = Duration::from_secs(2);
/// How long a batch waits for a receiver that has gone.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks for it.
const PAUSE: Duration = Duration::from_millis(250);
/// The same once it is known to be away.
const AWAY: Duration = Duration::from_secs(1);
/// Largest message in a datagram, in bytes; a longer one is cut.
const DATAGRAM: usize = 60_000;
/// The severity of all messages: informational (RFC 5424 §6.2.1).
const SEVERITY: u8 = 6;

/// Where messages go, and what they say of themselves.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Syslog {
    /// How, and to whom.
    pub to: SyslogReceiver,
    /// The facility, 0–23.
    pub facility: u8,
    /// `APP-NAME`: 1–48 printable characters without spaces.
    pub tag: String,
}

/// A receiver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SyslogReceiver {
    /// A socket of datagrams, such as `/dev/log`.
    Unix(PathBuf),
    /// Host and port.
    Udp(String, u16),
    /// Host and port.
    Tcp(String, u16),
}

impl fmt::Display for SyslogReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Udp(name, port) => write!(f, "udp://{}:{port}", host(name)),
            Self::Tcp(name, port) => write!(f, "tcp://{}:{port}", host(name)),
        }
    }
}

/// A way to the receiver.
#[derive(Debug)]
enum Link {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Link {
    fn open(to: &SyslogReceiver) -> io::Result<Self> {
        match to {
            SyslogReceiver::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_write_timeout(Some(TIME))?;
                socket.connect(path)?;
                Ok(Self::Unix(socket))
            }
            SyslogReceiver::Udp(host, port) => {
                let mut last = io::Error::from(io::ErrorKind::NotFound);
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    let from = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    match UdpSocket::bind(from).and_then(|socket| socket.connect(address).map(|()| socket)) {
                        Ok(socket) => return Ok(Self::Udp(socket)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            SyslogReceiver::Tcp(host, port) => {
                let mut last = io::Error::from(io::ErrorKind::NotFound);
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, TIME) {
                        Ok(stream) => {
                            stream.set_write_timeout(Some(TIME))?;
                            return Ok(Self::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Whether the receiver has ended it: what is written then is lost without a word.
    fn is_over(&self) -> bool {
        let Self::Tcp(stream) = self else { return false };
        let mut byte = [0; 1];
        match recv(stream, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, read)) => read == 0,
            Err(error) => error != rustix::io::Errno::AGAIN,
        }
    }

    /// Sends a message whole.
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let part = message.get(..DATAGRAM).unwrap_or(message);
        match self {
            Self::Unix(socket) => socket.send(part).map(drop),
            Self::Udp(socket) => socket.send(part).map(drop),
            Self::Tcp(stream) => stream.write_all(message),
        }
    }
}

/// The end of the log at a receiver.
#[derive(Debug)]
pub(super) struct SyslogDrain {
    syslog: Syslog,
    link: Option<Link>,
    /// What stands before and behind the time.
    head: (String, String),
    stamp: Stamp,
    /// The message under way.
    message: Vec<u8>,
    meters: Arc<LogMeters>,
    /// It is away: not looked for before.
    not_before: Option<Instant>,
}

impl SyslogDrain {
    pub(super) fn new(syslog: Syslog, meters: Arc<LogMeters>) -> Self {
        let priority = u32::from(syslog.facility) * 8 + u32::from(SEVERITY);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_shown = |c: &char| c.is_ascii_graphic();
        let host: String = host.chars().filter(is_shown).take(255).collect();
        let host = if host.is_empty() { "-".to_owned() } else { host };
        let behind = format!(" {host} {} {} access - ", syslog.tag, std::process::id());
        Self {
            syslog,
            link: None,
            head: (format!("<{priority}>1 "), behind),
            stamp: Stamp::new(TimeZone::UTC),
            message: Vec::new(),
            meters,
            not_before: None,
        }
    }

    /// Another connection, as somebody has asked for it (USR1).
    pub(super) fn reopen(&mut self) {
        (self.link, self.not_before) = (None, None);
    }

    /// Sends each line of a batch. `stop`: nothing is waited for any more.
    pub(super) fn write(&mut self, batch: &[u8], stop: &AtomicBool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.stamp.set(u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
        if self.link.as_ref().is_some_and(Link::is_over) {
            self.link = None;
        }
        let patience = Instant::now() + if self.not_before.is_some() { Duration::ZERO } else { PATIENCE };
        let mut lines = batch.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        while let Some(line) = lines.next() {
            self.compose(line);
            if let Err(error) = self.deliver(patience, stop) {
                let lost = 1 + lines.count() as u64;
                self.meters.lost.add(lost);
                let to = &self.syslog.to;
                self.meters.write_failed(format!("the access log {to} cannot be written: {error}"));
                // Lines that come meanwhile do not put the next look off.
                let now = Instant::now();
                if self.not_before.is_none_or(|time| time <= now) {
                    self.not_before = Some(now + AWAY);
                }
                return;
            }
        }
        self.not_before = None;
        self.meters.written();
    }

    fn compose(&mut self, line: &[u8]) {
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        message.extend_from_slice(self.head.0.as_bytes());
        self.stamp.write_utc(&mut message);
        message.extend_from_slice(self.head.1.as_bytes());
        message.extend_from_slice(line);
        if matches!(self.syslog.to, SyslogReceiver::Tcp(..)) {
            let length = format!("{} ", message.len());
            message.splice(..0, length.into_bytes());
        }
        self.message = message;
    }

    /// Sends the message; where the receiver has gone, looks for it until `patience` is over.
    fn deliver(&mut self, patience: Instant, stop: &AtomicBool) -> io::Result<()> {
        loop {
            let error = match self.attempt() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            self.link = None;
            if stop.load(Ordering::Acquire) || Instant::now() + PAUSE > patience {
                return Err(error);
            }
            thread::sleep(PAUSE);
        }
    }

    fn attempt(&mut self) -> io::Result<()> {
        if let Some(link) = &mut self.link {
            match link.send(&self.message) {
                Ok(()) => return Ok(()),
                // That of a datagram before, and of a connection that stood too long: once more at once.
                Err(_) => self.link = None,
            }
        }
        if self.not_before.is_some_and(|time| Instant::now() < time) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the receiver is away"));
        }
        let mut link = Link::open(&self.syslog.to)?;
        link.send(&self.message)?;
        self.link = Some(link);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
