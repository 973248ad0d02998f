//! How one endpoint is chosen.

use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_balance::{BALANCERS, Balancer};
use thalweg_core::written;

/// `services.<name>.balance`, `slow_start` and `panic_threshold`.
#[derive(Clone, Debug, Serialize)]
pub struct BalancePolicy {
    /// The algorithm; default `round_robin`.
    #[serde(rename = "balance", serialize_with = "algorithm")]
    pub algorithm: &'static Balancer,
    /// What is hashed, for a keyed algorithm (`balance: { hash: { on: … } }`).
    #[serde(rename = "balance.on")]
    pub key: Option<HashKey>,
    /// Most that a keyed algorithm gives one endpoint, in percent of its fair share, 101–1000; default no bound.
    #[serde(rename = "balance.bounded_load", serialize_with = "written::percent")]
    pub bounded_load: Option<u32>,
    /// An endpoint that becomes ready gets its full share only after this time, 100 ms–1 h; default none. Not for
    /// keyed algorithms, where it would move keys.
    #[serde(serialize_with = "written::duration")]
    pub slow_start: Option<Duration>,
    /// Where less than this share of the endpoints, in percent, is well, all of them serve rather than few;
    /// 0–100, default 0: never.
    #[serde(serialize_with = "written::percent")]
    pub panic_threshold: u32,
}

fn algorithm<S: Serializer>(algorithm: &Balancer, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(algorithm.name)
}

impl Default for BalancePolicy {
    fn default() -> Self {
        Self { algorithm: &BALANCERS[0], key: None, bounded_load: None, slow_start: None, panic_threshold: 0 }
    }
}

impl PartialEq for BalancePolicy {
    fn eq(&self, other: &Self) -> bool {
        let Self { algorithm, key, bounded_load, slow_start, panic_threshold } = self;
        algorithm.name == other.algorithm.name
            && *key == other.key
            && *bounded_load == other.bounded_load
            && *slow_start == other.slow_start
            && *panic_threshold == other.panic_threshold
    }
}

/// What of a request decides where it goes. A request that has none of it goes anywhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HashKey {
    /// `client_ip`: the client's address, seen through trusted proxies.
    ClientIp,
    /// `path`: the path in normal form, without the query.
    Path,
    /// `{ header: NAME }`: the first field of this name, in lower case here.
    Header(Arc<str>),
    /// `{ cookie: NAME }`: the first cookie of this name.
    Cookie(Arc<str>),
    /// `{ query: NAME }`: the first parameter of this name.
    Query(Arc<str>),
}

/// `client_ip`, `header X-Tenant`
impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientIp => f.write_str("client_ip"),
            Self::Path => f.write_str("path"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
            Self::Query(name) => write!(f, "query {name}"),
        }
    }
}

impl Serialize for HashKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
