//! Addresses that requests of the control plane never go to.
//!
//! A running proxy sets them once ([`keep_off`]): its own admin API and metrics, and link-local addresses that a host
//! name resolves to (decision 0105). The client checks each address after resolution and before it connects. CLI
//! commands set none, and may connect anywhere.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// What an address is, if nothing goes there; `is_named` is whether it was written as it is, and not resolved.
type Judge = Box<dyn Fn(SocketAddr, bool) -> Option<&'static str> + Send + Sync>;

static JUDGE: OnceLock<Judge> = OnceLock::new();

/// From now on no connection is made to an address for which `bars` gives a reason. Only the first call has an
/// effect.
pub fn keep_off(bars: impl Fn(SocketAddr, bool) -> Option<&'static str> + Send + Sync + 'static) {
    let _ = JUDGE.set(Box::new(bars));
}

/// What an address is, if nothing goes there; `is_named` is whether it was written as it is, and not resolved.
pub fn barred(address: SocketAddr, is_named: bool) -> Option<&'static str> {
    JUDGE.get().and_then(|bars| bars(address, is_named))
}
