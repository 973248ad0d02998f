//! One connection's records.

use std::io::IoSlice;
use std::sync::Arc;

use crate::acceptor::Acceptor;
use crate::connector::Connector;
use crate::failure::Failure;
use crate::policy::Version;

/// Most bytes that sealing adds to a plaintext of up to 16 KiB: header, explicit nonce (1.2), type (1.3) and tag.
pub const RECORD_OVERHEAD: usize = 29;
/// The largest record that may be received, in bytes.
pub const RECORD_MAX: usize = 16 * 1024 + 2048 + 5;

/// What became of received bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Opened {
    /// Bytes of `received` that are done with.
    pub consumed: usize,
    /// Bytes of plaintext in `into`.
    pub written: usize,
    /// There is more to take without new input.
    pub more: bool,
    /// The peer has said that nothing follows (close_notify), and all before it was taken.
    pub ended: bool,
}

/// What became of bytes to be sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sealed {
    /// Bytes of plaintext that were sealed.
    pub taken: usize,
    /// Bytes in `out`.
    pub written: usize,
}

/// What was agreed on, as far as it is known yet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// The version.
    pub version: Option<Version>,
    /// The cipher suite's name; empty while not known.
    pub suite: &'static str,
    /// The group of the key exchange; empty where there was none, or while not known.
    pub group: &'static str,
    /// The application protocol.
    pub alpn: Option<Vec<u8>>,
    /// The name that the client asked for, in lower case.
    pub name: Option<String>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

/// One connection's records. No I/O, `Send`.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// The server's side.
    pub fn accept(_acceptor: &Arc<Acceptor>) -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// The client's side.
    pub fn connect(_connector: &Arc<Connector>) -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// Takes received bytes, from the first one not consumed last time, and puts plaintext into `into`. What stays must be
    /// offered again unchanged as left: records are opened in place.
    pub fn open(&mut self, _received: &mut [u8], _into: &mut [u8]) -> Result<Opened, Failure> {
        Ok(Opened::default())
    }

    /// Seals from `slices` behind what the session itself has to say, both as much as fits into `out`. `last`:
    /// close_notify follows at once.
    pub fn seal(&mut self, _slices: &[IoSlice<'_>], _last: bool, _out: &mut [u8]) -> Result<Sealed, Failure> {
        Ok(Sealed::default())
    }

    /// Handshake flights, alerts, key updates and tickets that wait to be sent: the bytes put into `out`; 0: none.
    pub fn say(&mut self, _out: &mut [u8]) -> usize {
        0
    }

    /// Whether [`Session::say`] has something.
    pub fn has_to_say(&self) -> bool {
        false
    }

    /// Says close_notify, behind what else waits, if it may still be said: the bytes put into `out`.
    pub fn part(&mut self, _out: &mut [u8]) -> usize {
        0
    }

    /// Whether the handshake is not over yet.
    pub fn is_shaking_hands(&self) -> bool {
        true
    }

    /// What was agreed on.
    pub fn facts(&self) -> Facts {
        Facts::default()
    }
}
