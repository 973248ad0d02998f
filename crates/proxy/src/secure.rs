//! TLS as the layer of a socket: where the crates `net` and `tls` meet.

use crate::h2;
use crate::load::Loads;
use std::any::Any;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_net::{Layer, Opened, Sealed, Socket};
use thalweg_tls::{Facts, Failure, Session};

/// A session that opens and seals for a socket, counted while it lives.
#[derive(Debug)]
pub(crate) struct Secured {
    session: Session,
    loads: Arc<Loads>,
    worker: usize,
}

impl Secured {
    /// One of a connection of this worker.
    pub(crate) fn counted(session: Session, loads: &Arc<Loads>, worker: usize) -> Self {
        loads.workers[worker].sessions.fetch_add(1, Relaxed);
        Self { session, loads: loads.clone(), worker }
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
    if let Some(stream) = h2::stream(socket) {
        return stream.shared().tls().cloned();
    }
    let session = |layer: &dyn Layer| layer.as_any().downcast_ref::<Secured>().map(|it| it.session.facts());
    socket.with_layer(session).flatten()
}

/// Whether bytes are sealed on their way to the peer.
pub(crate) fn is_secure(socket: &Socket) -> bool {
    socket.is_layered() || h2::stream(socket).is_some_and(|stream| stream.shared().tls().is_some())
}

/// Why a session failed, where it did.
pub(crate) fn failure(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}
