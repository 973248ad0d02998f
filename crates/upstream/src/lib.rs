//! 8 upstream: services, their members, pools of connections.
//!
//! [`Service`] is what the configuration says; [`ServiceState`] is what one worker knows of it now:
//! the resolved members, who is set aside, and the idle connections. Nothing here is shared
//! between workers, so nothing here locks.
#![forbid(unsafe_code)]

mod members;
mod pool;
mod service;

pub use members::{Member, Names, ServiceState};
pub use pool::{Connection, OpenCount, Pool};
pub use service::{Address, Endpoint, HostRule, PoolPolicy, RetryPolicy, Service};
pub use thalweg_net::connect::PeerAddress;
