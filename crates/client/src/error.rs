//! Why there is no response.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why there is no response.
#[derive(Debug)]
pub enum ClientError {
    /// The time was up.
    Time(Duration),
    /// The host name has no address.
    Name(String),
    /// The server accepted no connection: its address or socket, and why.
    Connect(String, io::Error),
    /// A forbidden address, and the reason.
    Barred(String, &'static str),
    /// The TLS handshake failed, or there are no roots to trust.
    Tls(String),
    /// The request cannot be written as HTTP.
    Request(String),
    /// The server sent no response, or something else.
    Http(String),
    /// The body of the response is larger than this, in bytes.
    TooLarge(usize),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "no answer within {time:?}"),
            Self::Name(why) => write!(f, "the host name cannot be resolved: {why}"),
            Self::Connect(to, error) => write!(f, "cannot connect to {to}: {error}"),
            Self::Barred(to, what) => {
                write!(f, "nothing is sent to {to}: it is {what}; name another address")
            }
            Self::Tls(why) => write!(f, "TLS: {why}"),
            Self::Request(why) => write!(f, "the request cannot be sent: {why}"),
            Self::Http(why) => write!(f, "no usable answer: {why}"),
            Self::TooLarge(most) => write!(f, "the answer is larger than {most} bytes"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(_, error) => Some(error),
            _ => None,
        }
    }
}

/// An error of the kernel in words for operators.
pub fn words(error: &io::Error) -> String {
    let known = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED) => "connection refused",
        Some(Errno::CONNRESET | Errno::PIPE) => "connection reset",
        Some(Errno::HOSTUNREACH) => "no route to the host",
        Some(Errno::NETUNREACH) => "network unreachable",
        Some(Errno::TIMEDOUT) => "the kernel gave up connecting",
        Some(Errno::NOENT) => "no such socket file",
        Some(Errno::ACCESS | Errno::PERM) => "not allowed to connect",
        Some(Errno::AGAIN) => "its queue of connections is full",
        Some(Errno::MFILE | Errno::NFILE) => "no descriptors left",
        Some(Errno::NOBUFS | Errno::NOMEM) => "no memory for sockets",
        Some(Errno::ADDRNOTAVAIL) => "no local address or port",
        _ => return error.to_string(),
    };
    known.to_owned()
}
