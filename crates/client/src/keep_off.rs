//! Addresses that no request of this process goes to.
//!
//! A proxy that runs says once which these are ([`keep_off`]): its own admin API and metrics, and link-local addresses
//! that a name has come to stand for (decision 0105). Asked for each address before a connection is made to it, after
//! the name was resolved. Verbs of the command line say nothing, and may go anywhere.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// What an address is, if nothing goes there; `is_named` is whether it was written as it is, and not resolved.
type Judge = Box<dyn Fn(SocketAddr, bool) -> Option<&'static str> + Send + Sync>;

static JUDGE: OnceLock<Judge> = OnceLock::new();

/// From now on nothing goes to addresses for which `bars` says what they are. The first call holds.
pub fn keep_off(bars: impl Fn(SocketAddr, bool) -> Option<&'static str> + Send + Sync + 'static) {
    let _ = JUDGE.set(Box::new(bars));
}

/// What an address is, if nothing goes there; `is_named` is whether it was written as it is, and not resolved.
pub fn barred(address: SocketAddr, is_named: bool) -> Option<&'static str> {
    JUDGE.get().and_then(|bars| bars(address, is_named))
}
