//! TLS as the layer of a socket: where the crates `net` and `tls` meet.

use crate::credentials::Credentials;
use crate::load::Loads;
use std::any::Any;
use std::cell::OnceCell;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_net::{Layer, Opened, Sealed, Socket};
use thalweg_tls::{Facts, Failure, Session};

/// A session that opens and seals for a socket, counted while it lives.
#[derive(Debug)]
pub(crate) struct Secured {
    session: Session,
    /// Made when it is asked for first.
    credentials: OnceCell<Option<Box<Credentials>>>,
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

    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut [u8]) -> io::Result<Sealed> {
        self.session.seal(slices, false, out).map_err(io::Error::other)
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
    with_session(socket, Session::facts)
}

/// Asks the session of a socket; `None`: the socket is plain.
pub(crate) fn with_session<T>(socket: &Socket, ask: impl FnOnce(&Session) -> T) -> Option<T> {
    with_secured(socket, |secured| ask(&secured.session))
}

/// Asks who the client is, once the handshake is over; `None`: it was asked for no certificate.
pub(crate) fn with_credentials<T>(socket: &Socket, ask: impl FnOnce(&Credentials) -> T) -> Option<T> {
    let credentials = |secured: &Secured| {
        // What is made is kept: not before everything is verified.
        if secured.session.is_shaking_hands() {
            return None;
        }
        let made = secured.credentials.get_or_init(|| Credentials::of(&secured.session));
        made.as_deref().map(ask)
    };
    with_secured(socket, credentials).flatten()
}

fn with_secured<T>(socket: &Socket, ask: impl FnOnce(&Secured) -> T) -> Option<T> {
    socket.with_layer(|layer| layer.as_any().downcast_ref().map(ask)).flatten()
}

/// Why a session failed, where it did.
pub(crate) fn failure(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}
