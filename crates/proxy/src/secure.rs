//! TLS as the layer of a socket: where the crates `net` and `tls` meet.

use std::any::Any;
use std::io::{self, IoSlice};
use thalweg_net::{Layer, Opened, Sealed, Socket};
use thalweg_tls::{Facts, Failure, Session};

/// A session that opens and seals for a socket.
#[derive(Debug)]
pub(crate) struct Secured(pub(crate) Session);

impl Layer for Secured {
    fn open(&mut self, received: &mut [u8], into: &mut [u8]) -> io::Result<Opened> {
        let opened = self.0.open(received, into).map_err(io::Error::other)?;
        let thalweg_tls::Opened { consumed, written, more, ended } = opened;
        Ok(Opened { consumed, written, more, ended })
    }

    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut [u8]) -> io::Result<Sealed> {
        let thalweg_tls::Sealed { taken, written } =
            self.0.seal(slices, false, out).map_err(io::Error::other)?;
        Ok(Sealed { taken, written })
    }

    fn say(&mut self, out: &mut [u8]) -> usize {
        self.0.say(out)
    }

    fn part(&mut self, out: &mut [u8]) -> usize {
        self.0.part(out)
    }

    fn is_shaking_hands(&self) -> bool {
        self.0.is_shaking_hands()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What was agreed on with the peer; `None`: the socket is plain.
pub(crate) fn facts(socket: &Socket) -> Option<Facts> {
    let session = |layer: &dyn Layer| layer.as_any().downcast_ref::<Secured>().map(|it| it.0.facts());
    socket.with_layer(session).flatten()
}

/// Why a session failed, where it did.
pub(crate) fn failure(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}
