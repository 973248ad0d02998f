//! TLS before an upstream that speaks in the clear: rustls' buffered side, on threads. What the upstream says goes to
//! the client as it comes, and the other way round.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use crate::upstream::Listener;

/// How the end of what the upstream says is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// With close_notify.
    Farewell,
    /// Not at all: the connection just ends.
    Cut,
}

/// TLS before an upstream; it and its connections end on drop.
#[derive(Debug)]
pub struct Front {
    listener: Option<Listener>,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    full: AtomicU64,
    resumed: AtomicU64,
    refused: AtomicU64,
    shown: AtomicU64,
    /// In lower case.
    names: Mutex<Vec<Option<String>>>,
    sessions: Mutex<Vec<Arc<Session>>>,
}

impl Front {
    /// Before the upstream at `to`.
    pub fn start(config: ServerConfig, to: SocketAddr) -> Self {
        Self::ending(config, to, Ending::Farewell)
    }

    /// The same, with this end of connections.
    pub fn ending(config: ServerConfig, to: SocketAddr, ending: Ending) -> Self {
        let (accepted, connections) = mpsc::channel();
        let listener = Listener::start(accepted);
        let (address, config) = (listener.address(), Arc::new(config));
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in connections {
                let (config, shared) = (Arc::clone(&config), Arc::clone(&ours));
                thread::spawn(move || serve(stream, config, (to, ending), &shared));
            }
        });
        Self { listener: Some(listener), address, shared }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Its URL by a name that stands for 127.0.0.1.
    pub fn named_url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Handshakes that negotiated keys anew.
    pub fn full(&self) -> u64 {
        self.shared.full.load(Ordering::Acquire)
    }

    /// Handshakes that resumed a session.
    pub fn resumed(&self) -> u64 {
        self.shared.resumed.load(Ordering::Acquire)
    }

    /// Handshakes that failed, here or there.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Acquire)
    }

    /// Handshakes in which the client showed a certificate.
    pub fn shown(&self) -> u64 {
        self.shared.shown.load(Ordering::Acquire)
    }

    /// The names that clients asked for.
    pub fn names(&self) -> Vec<Option<String>> {
        self.shared.names.lock().unwrap().clone()
    }

    /// Sends a record without plaintext (KeyUpdate) on every connection that is open.
    pub fn refresh(&self) {
        for session in self.shared.sessions.lock().unwrap().iter() {
            session.tls.lock().unwrap().refresh_traffic_keys().unwrap();
            session.put(b"").unwrap();
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.listener = None;
        for session in self.shared.sessions.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = session.stream.shutdown(Shutdown::Both);
        }
    }
}

#[derive(Debug)]
struct Session {
    stream: TcpStream,
    tls: Mutex<ServerConnection>,
    /// Held while sealed bytes go out, so that they go in their order.
    out: Mutex<()>,
}

impl Session {
    fn put(&self, plain: &[u8]) -> io::Result<()> {
        let _order = self.out.lock().unwrap();
        let mut sealed = Vec::new();
        {
            let mut tls = self.tls.lock().unwrap();
            tls.set_buffer_limit(None);
            tls.writer().write_all(plain)?;
            while tls.wants_write() {
                tls.write_tls(&mut sealed)?;
            }
        }
        (&self.stream).write_all(&sealed)
    }

    /// The plaintext of these bytes; `true`: nothing follows.
    fn open(&self, mut sealed: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let mut tls = self.tls.lock().unwrap();
        let (mut plain, mut over) = (Vec::new(), false);
        while !sealed.is_empty() {
            tls.read_tls(&mut sealed)?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            over = state.peer_has_closed();
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut plain[before..])?;
        }
        Ok((plain, over))
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, (to, ending): (SocketAddr, Ending), shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let mut tls = ServerConnection::new(config).unwrap();
    while tls.is_handshaking() {
        if tls.complete_io(&mut &stream).is_err() {
            shared.refused.fetch_add(1, Ordering::AcqRel);
            return;
        }
    }
    let counter = match tls.handshake_kind() {
        Some(HandshakeKind::Resumed) => &shared.resumed,
        _ => &shared.full,
    };
    counter.fetch_add(1, Ordering::AcqRel);
    shared.shown.fetch_add(u64::from(tls.peer_certificates().is_some()), Ordering::AcqRel);
    shared.names.lock().unwrap().push(tls.server_name().map(str::to_owned));
    let session = Arc::new(Session { stream, tls: Mutex::new(tls), out: Mutex::default() });
    shared.sessions.lock().unwrap().push(Arc::clone(&session));
    let Ok(plain) = TcpStream::connect(to) else { return };
    let _ = plain.set_nodelay(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = towards_client(&session, &plain, ending);
        });
        let _ = towards_upstream(&session, &plain);
        let _ = plain.shutdown(Shutdown::Write);
    });
    let _ = session.stream.shutdown(Shutdown::Both);
    shared
        .sessions
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|known| !Arc::ptr_eq(known, &session));
}

fn towards_client(session: &Session, mut plain: &TcpStream, ending: Ending) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = plain.read(&mut bytes);
        match read {
            Ok(n) if n > 0 => session.put(&bytes[..n])?,
            _ => {
                if ending == Ending::Farewell {
                    session.tls.lock().unwrap().send_close_notify();
                    session.put(b"")?;
                }
                return session.stream.shutdown(Shutdown::Write);
            }
        }
    }
}

fn towards_upstream(session: &Session, mut plain: &TcpStream) -> io::Result<()> {
    // What came with the end of the handshake.
    let (first, mut over) = {
        let mut tls = session.tls.lock().unwrap();
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        let mut first = vec![0; state.plaintext_bytes_to_read()];
        tls.reader().read_exact(&mut first)?;
        (first, state.peer_has_closed())
    };
    plain.write_all(&first)?;
    let mut bytes = vec![0; 64 * 1024];
    while !over {
        let n = (&session.stream).read(&mut bytes)?;
        if n == 0 {
            break;
        }
        let opened = session.open(&bytes[..n]);
        session.put(b"")?;
        let (content, ended) = opened?;
        plain.write_all(&content)?;
        over = ended;
    }
    Ok(())
}
