//! TLS as the layer of a socket: where the crates `net` and `tls` meet.

use crate::h2;
use crate::state::load::Loads;
use crate::tls::client_cert_fields::ClientCertFields;
use std::any::Any;
use std::cell::OnceCell;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_net::{Layer, Opened, Sealed, Socket};
use thalweg_tls::{ClientAuth, Facts, Failure, Session};

/// A session that opens and seals for a socket, counted while it lives.
#[derive(Debug)]
pub(crate) struct Secured {
    session: Session,
    /// Made when it is asked for first.
    credentials: OnceCell<Option<Box<ClientCertFields>>>,
    loads: Arc<Loads>,
    worker: usize,
}

impl Secured {
    /// One of a connection of this worker.
    pub(crate) fn counted(session: Session, loads: &Arc<Loads>, worker: usize) -> Self {
        loads.workers[worker].sessions.fetch_add(1, Relaxed);
        Self { session, credentials: OnceCell::new(), loads: loads.clone(), worker }
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.loads.workers[self.worker].sessions.fetch_sub(1, Relaxed);
    }
}

impl Layer for Secured {
    fn open(&mut self, received: &mut [u8], into: &mut [u8]) -> io::Result<Opened> {
        self.session.open(received, into).map_err(io::Error::other)
    }

    fn seal(&mut self, scheduler: &[IoSlice<'_>], out: &mut [u8]) -> io::Result<Sealed> {
        self.session.seal(scheduler, false, out).map_err(io::Error::other)
    }

    fn say(&mut self, out: &mut [u8]) -> usize {
        self.session.say(out)
    }

    fn part(&mut self, out: &mut [u8]) -> usize {
        self.session.part(out)
    }

    fn is_shaking_hands(&self) -> bool {
        self.session.is_shaking_hands()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What was agreed on with the peer; `None`: the socket is plain.
pub(crate) fn facts(socket: &Socket) -> Option<Facts> {
    match h2::stream(socket) {
        Some(stream) => stream.shared().tls().map(|known| known.facts.clone()),
        None => with_secured(socket, |secured| secured.session.facts()),
    }
}

/// What is known of a client, for the streams of its connection.
#[derive(Debug)]
pub(crate) struct Known {
    facts: Facts,
    name: Option<Box<str>>,
    asked: Option<Arc<ClientAuth>>,
    credentials: Option<Box<ClientCertFields>>,
}

impl Known {
    /// Of the client at a socket, once the handshake is over; `None`: it is plain.
    pub(crate) fn of(socket: &Socket) -> Option<Self> {
        with_secured(socket, |Secured { session, .. }| Self {
            facts: session.facts(),
            name: session.name().map(Box::from),
            asked: session.client_auth().cloned(),
            credentials: ClientCertFields::of(session),
        })
    }
}

/// Who a client is, as its handshake has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer<'a> {
    /// The name that it asked for.
    pub(crate) name: Option<&'a str>,
    /// What it was asked for.
    pub(crate) asked: Option<&'a Arc<ClientAuth>>,
    /// What it has shown, where it was asked for anything.
    pub(crate) credentials: Option<&'a ClientCertFields>,
}

/// Asks who the client at a socket is, once the handshake is over; `None`: nobody knows, as of a plain one.
pub(crate) fn with_peer<T>(socket: &Socket, ask: impl FnOnce(Peer<'_>) -> T) -> Option<T> {
    if let Some(stream) = h2::stream(socket) {
        let Known { name, asked, credentials, .. } = stream.shared().tls()?;
        let (name, asked, credentials) = (name.as_deref(), asked.as_ref(), credentials.as_deref());
        return Some(ask(Peer { name, asked, credentials }));
    }
    let peer = |secured: &Secured| {
        let session = &secured.session;
        // ClientCertFields that are made are kept: not before everything is verified.
        if session.is_shaking_hands() {
            return None;
        }
        let credentials = match session.client_auth() {
            Some(_) => secured.credentials.get_or_init(|| ClientCertFields::of(session)).as_deref(),
            None => None,
        };
        Some(ask(Peer { name: session.name(), asked: session.client_auth(), credentials }))
    };
    with_secured(socket, peer).flatten()
}

fn with_secured<T>(socket: &Socket, ask: impl FnOnce(&Secured) -> T) -> Option<T> {
    socket.with_layer(|layer| layer.as_any().downcast_ref().map(ask)).flatten()
}

/// Whether bytes are sealed on their way to the peer.
pub(crate) fn is_secure(socket: &Socket) -> bool {
    socket.is_layered() || h2::stream(socket).is_some_and(|stream| stream.shared().tls().is_some())
}

/// Why a session failed, where it did.
pub(crate) fn failure(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}
