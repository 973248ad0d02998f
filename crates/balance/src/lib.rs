//! The balancer: which endpoint of a service takes an exchange?
//!
//! One file per algorithm and one line per algorithm in the list below. The upstream layer keeps one
//! [`Balance`] per service and worker: it calls [`Balance::rebuild`] when the endpoint set or a weight
//! changes, and [`Balance::pick`] once per attempt, before a connection is taken from the pool.
//!
//! Pure: no socket, no clock, no randomness of its own. What an algorithm needs to know comes in with
//! the call, so that the same calls always give the same picks and every algorithm can be simulated. A new
//! fact (requests in flight, latency) is a new field of [`Candidate`].
//!
//! Invariants, tested for every algorithm of the list: a pick is ready, has weight and was not tried; there
//! is a pick whenever there is such an endpoint; a pick ends after a bounded number of steps and does not
//! allocate; over many picks the load follows the weights.
#![forbid(unsafe_code)]

mod registry;
mod round_robin;

pub use registry::{Balancer, Seed, balancer};

/// One endpoint as a balancer sees it. Its index in the list is its identity between two rebuilds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// Its share of the load against the others', 1..=1000; 0 takes nothing.
    pub weight: u32,
    /// Whether it may be used now: healthy, not draining, below its bounds.
    pub ready: bool,
}

/// What a pick is made from.
#[derive(Clone, Copy, Debug)]
pub struct Pick<'a> {
    /// All endpoints of the service, in the order of the last rebuild.
    pub candidates: &'a [Candidate],
    /// Indices already tried for this exchange. Short: bounded by the attempts of the retry policy.
    pub tried: &'a [u32],
    /// The hash of what the service balances on; only the hashing algorithms look at it.
    pub hash: u64,
}

impl Pick<'_> {
    /// Whether the endpoint may be picked: known, ready, with weight, not yet tried.
    pub fn may_use(&self, index: u32) -> bool {
        self.candidates.get(index as usize).is_some_and(|candidate| candidate.ready && candidate.weight > 0)
            && !self.tried.contains(&index)
    }
}

/// An algorithm with its state for one service on one worker.
pub trait Balance {
    /// The index of the endpoint to use; `None` when none is ready, has weight and is untried.
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32>;

    /// The endpoint set or its weights changed. May allocate. Whether an endpoint is ready does not matter
    /// here: it is looked at with every pick.
    fn rebuild(&mut self, candidates: &[Candidate]);

    /// The name in configuration.
    fn name(&self) -> &'static str;
}

// One line per algorithm: its module, which is its name in configuration and has a `pub(crate) fn new(Seed)`,
// and its summary for `list balancers` and the reference page.
registry::balancers! {
    round_robin "each endpoint in turn, as often as its weight says, evenly interleaved";
}

/// The hash of a key.
pub fn key_hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
