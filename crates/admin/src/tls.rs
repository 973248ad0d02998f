//! TLS on the admin listener: what its clients shake hands on now, and the handshake of a connection.
//!
//! Called by `server` for each connection of a listener that has it. The acceptor is replaced while the listener runs,
//! when the configuration or its files say another one; connections that are open go on.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use thalweg_tls::Acceptor;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Time for a handshake, from the accept.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// What somebody gets who speaks plain HTTP.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
Content-Length: 43\r\nConnection: close\r\n\r\na plain HTTP request came to a port for TLS";

/// What the admin listener shakes hands on. It shows no key.
pub struct AdminTls(RwLock<Arc<Acceptor>>);

impl AdminTls {
    /// With this certificate and policy.
    pub fn new(acceptor: Arc<Acceptor>) -> Self {
        Self(RwLock::new(acceptor))
    }

    /// Another one holds from the next handshake on.
    pub fn replace(&self, acceptor: Arc<Acceptor>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
    }

    /// Whether a certificate is for this host: then no other site can stand behind the name in a browser.
    pub(crate) fn names(&self, host: &str) -> bool {
        self.now().is_for(host)
    }

    /// Shakes hands. `None`: there is no connection; who spoke plain HTTP has been told. Cancel-safe.
    pub(crate) async fn open(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(Arc::clone(self.now().server_config()?));
        timeout(HANDSHAKE_TIME, shake(acceptor, stream)).await.ok()?.ok()?
    }

    fn now(&self) -> Arc<Acceptor> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for AdminTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdminTls").field(&self.now()).finish()
    }
}

async fn shake(acceptor: TlsAcceptor, mut stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        // What it has sent is taken, within the same time: else the kernel's reset would overtake the answer.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        return Ok(None);
    }
    acceptor.accept(stream).await.map(Some)
}
