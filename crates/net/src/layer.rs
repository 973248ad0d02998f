//! What may stand between a socket and those who use it: TLS.
//!
//! The product joins the two in `proxy`; a leaf does not know another.

use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice};
use thalweg_core::{Opened, Sealed};

/// Opens what is received and seals what is sent. Without I/O: [`crate::Socket`] moves the bytes.
pub trait Layer: fmt::Debug + Send {
    /// Takes received bytes, from the first one that was not consumed the last time on; those that are left are offered
    /// again as this call has left them. Goes on until it needs input or has more plaintext than `into`, which may be
    /// empty, takes.
    ///
    /// # Errors
    /// When the peer breaks the protocol, or this side refuses it. What is to be told to the peer is in [`Self::say`].
    fn open(&mut self, received: &mut [u8], into: &mut [u8]) -> io::Result<Opened>;

    /// Seals from `slices` as much as fits into `out`: at most one record, behind what the layer itself has to say.
    ///
    /// # Errors
    /// When there is no connection (any more) to send it on.
    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut [u8]) -> io::Result<Sealed>;

    /// What is to be sent besides plaintext: the handshake, alerts. 0: nothing.
    fn say(&mut self, out: &mut [u8]) -> usize;

    /// The farewell that tells the peer that what it got is whole; 0 where it cannot be said (any more).
    fn part(&mut self, out: &mut [u8]) -> usize;

    /// Whether the handshake is not over.
    fn is_shaking_hands(&self) -> bool;

    /// The type itself, for those who know it.
    fn as_any(&self) -> &dyn Any;
}
