//! Addresses that requests of the control plane never go to.
//!
//! A running proxy sets them once ([`keep_off`]): its own admin API and metrics, and link-local addresses that a host
//! name resolves to (decision 0105). The client checks each address after resolution and before it connects. CLI
//! commands set none, and may connect anywhere.

use std::net::SocketAddr;
use std::sync::{PoisonError, RwLock};

/// What an address is, if nothing goes there; `is_named` is whether it was written as it is, and not resolved.
type Judge = Box<dyn Fn(SocketAddr, bool) -> Option<&'static str> + Send + Sync>;

static JUDGE: RwLock<Option<Judge>> = RwLock::new(None);

/// From now on no connection is made to an address for which `bars` gives a reason. Another call replaces
/// the rule.
pub fn keep_off(bars: impl Fn(SocketAddr, bool) -> Option<&'static str> + Send + Sync + 'static) {
    *JUDGE.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(bars));
}

/// What an address is, if nothing goes there; `is_named` is whether it was written as it is, and not resolved.
pub fn barred(address: SocketAddr, is_named: bool) -> Option<&'static str> {
    let judge = JUDGE.read().unwrap_or_else(PoisonError::into_inner);
    judge.as_ref().and_then(|bars| bars(address, is_named))
}
