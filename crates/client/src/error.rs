//! Why there is no response.

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
