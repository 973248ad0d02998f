//! One exchange on a connection that may stay, and what was agreed on in its handshake.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use crate::{frames, secure};

/// Silence after which an exchange has failed.
const SILENCE: Duration = Duration::from_secs(10);

/// What a client speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Language {
    /// HTTP/1.1 through TLS
    H1,
    /// HTTP/2 through TLS
    H2,
    /// HTTP/2 in the clear, from the first byte on
    H2c,
}

impl Language {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "h1" => Some(Self::H1),
            "h2" => Some(Self::H2),
            "h2c" => Some(Self::H2c),
            _ => None,
        }
    }
}

/// A connection that is kept from exchange to exchange.
pub(crate) enum Connection {
    H1(Secure),
    H2(frames::Conversation<Secure>),
    H2c(frames::Conversation<TcpStream>),
}

/// A socket with TLS.
pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

impl Connection {
    /// Connects; with TLS the handshake comes with the first exchange.
    pub(crate) fn open(address: SocketAddr, language: Language) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let secure = |protocol| {
            let config = secure::config(protocol, false).map_err(io::Error::other)?;
            let session = ClientConnection::new(config, secure::host()).map_err(io::Error::other)?;
            Ok::<_, io::Error>(StreamOwned::new(session, stream.try_clone()?))
        };
        Ok(match language {
            Language::H1 => Self::H1(secure("http/1.1")?),
            Language::H2 => Self::H2(frames::Conversation::new(secure("h2")?)),
            Language::H2c => Self::H2c(frames::Conversation::new(stream)),
        })
    }

    /// One exchange, whose answer has to have this body.
    pub(crate) fn exchange(&mut self, text: &str) -> io::Result<()> {
        let body = match self {
            Self::H1(stream) => exchange(stream, text)?,
            Self::H2(conversation) => conversation.exchange("https")?,
            Self::H2c(conversation) => conversation.exchange("http")?,
        };
        match body == text.as_bytes() {
            true => Ok(()),
            false => Err(io::Error::other(format!("the answer is {:?}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Version, suite, group and protocol of its handshake.
    fn agreed(&self) -> String {
        let session = match self {
            Self::H1(stream) => &stream.conn,
            Self::H2(conversation) => &conversation.stream().conn,
            Self::H2c(_) => return "in the clear".to_owned(),
        };
        let version = session.protocol_version().map(|version| format!("{version:?}"));
        let suite = session.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
        let group = session.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()));
        let protocol = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        let words = [version, suite, group, protocol];
        words.map(|word| word.unwrap_or_else(|| "nothing".to_owned())).join(" ")
    }
}

/// Does one exchange and says what was agreed on.
pub(crate) fn run(address: SocketAddr, language: Language, text: &str) -> io::Result<()> {
    let mut connection = Connection::open(address, language)?;
    connection.exchange(text)?;
    println!("{}", connection.agreed());
    Ok(())
}

/// An exchange of HTTP/1.1; the answer's body, which ends with as many bytes as `text` has.
fn exchange(stream: &mut (impl Read + Write), text: &str) -> io::Result<Vec<u8>> {
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", secure::HOST).as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let head = answer.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4);
        if let Some(head) = head.filter(|head| answer.len() >= head + text.len()) {
            return Ok(answer.split_off(head));
        }
        match stream.read(&mut buf)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            received => answer.extend_from_slice(&buf[..received]),
        }
    }
}
