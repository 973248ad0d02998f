//! What stands behind a [`Socket`](crate::Socket) that shares its connection with others.

use crate::reactor::Owner;
use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice};
use std::task::Poll;

/// One stream of a multiplexed connection (RFC 9113 §5), so that whoever relays bytes need not know whether an end has
/// a connection of its own.
///
/// The calls never block and are cancel-safe: one that says `Pending` has moved no byte, and calls the owner when it
/// may be tried again.
pub trait Substream: fmt::Debug {
    /// Takes payload into `buffer` (not empty); 0 is the end of what the peer sends.
    fn poll_recv(&self, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Takes payload from `slices`, maybe less than all. `last`: where all is taken, nothing follows.
    fn poll_send(&self, slices: &[IoSlice<'_>], last: bool) -> Poll<io::Result<usize>>;
    /// Who is called from now on.
    fn set_owner(&self, owner: Owner);
    /// Whether a receive may give something (bytes, an end or an error).
    fn is_readable(&self) -> bool;
    /// Whether it is over in both directions: reset by the peer, or its connection is gone.
    fn is_gone(&self) -> bool;
    /// Says to the peer that no more bytes will come.
    fn shutdown_write(&self);
    /// Ends it at once, so that the peer sees that what it got is not whole.
    fn reset(&self);
    /// For who knows what it is.
    fn as_any(&self) -> &dyn Any;
}
