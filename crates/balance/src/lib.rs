//! The balancer: which endpoint of a service takes an exchange?
//!
//! One file per algorithm and one line per algorithm in the list below. The upstream layer calls
//! [`Balance::rebuild`] when the endpoint set or a weight changes, gives each worker a [`Balance::fork`] of
//! the result, and calls [`Balance::pick`] once per attempt, before a connection is taken from the pool.
//!
//! Pure: no socket, no clock, no randomness of its own. What an algorithm needs to know comes in with
//! the call, so that the same calls always give the same picks and every algorithm can be simulated. What
//! changes from moment to moment (requests in flight, latency) is asked of [`Loads`].
//!
//! Invariants, tested for every algorithm of the list: a pick is ready, has weight and was not tried; there
//! is a pick whenever there is such an endpoint; a pick ends after a bounded number of steps and does not
//! allocate; over many picks the load follows the weights. Those that pick by key: the same key goes to the
//! same endpoint on every worker, machine and run, as long as that one may be used.
#![forbid(unsafe_code)]

mod alias;
mod by_weight;
mod hash;
mod keyed;
mod registry;

mod least_requests;
mod maglev;
mod peak_ewma;
mod random;
mod rendezvous;
mod ring;
mod round_robin;

use std::fmt;

pub use hash::{endpoint_id, key_hash};
pub use registry::{Balancer, Needs, Seed, balancer};
pub use rendezvous::RENDEZVOUS_ADVISED;

/// One endpoint as a balancer sees it. Its index in the list is its identity between two rebuilds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// Its share of the load against the others', 1..=1000; 0 takes nothing.
    pub weight: u32,
    /// Whether it may be used now: healthy, not draining, below its bounds.
    pub ready: bool,
    /// Its identity beyond rebuilds, equal on every worker, machine and run: [`endpoint_id`] of its URL or
    /// address. Only the algorithms that pick by key look at it. Endpoints with the same one are told apart by
    /// their order.
    pub id: u64,
}

/// What is known of the endpoints now, asked lazily. Indices are those of [`Pick::candidates`].
pub trait Loads {
    /// Requests at this endpoint now, those of all workers.
    fn in_flight(&self, index: u32) -> u32;

    /// Requests at all endpoints of the service now.
    fn total_in_flight(&self) -> u32;

    /// Smoothed time to the first byte (peak EWMA) in microseconds; `None` while it is not known.
    fn latency(&self, index: u32) -> Option<f32>;
}

/// Nothing in flight, nothing known: for algorithms that need no [`Loads`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLoads;

impl Loads for NoLoads {
    fn in_flight(&self, _index: u32) -> u32 {
        0
    }

    fn total_in_flight(&self) -> u32 {
        0
    }

    fn latency(&self, _index: u32) -> Option<f32> {
        None
    }
}

/// What a pick is made from.
#[derive(Clone, Copy)]
pub struct Pick<'a> {
    /// All endpoints of the service, in the order of the last rebuild.
    pub candidates: &'a [Candidate],
    /// Indices already tried for this exchange. Short: bounded by the attempts of the retry policy.
    pub tried: &'a [u32],
    /// [`key_hash`] of what the service balances on; only the algorithms that pick by key look at it.
    pub hash: u64,
    /// Most that an algorithm that picks by key may give one endpoint, in percent of its fair share of the
    /// requests in flight, from 100; `None`: no bound. The others do not look at it.
    pub bounded_load: Option<u32>,
    /// What is known of the endpoints now.
    pub loads: &'a dyn Loads,
}

impl Pick<'_> {
    /// Whether the endpoint may be picked: known, ready, with weight, not yet tried.
    pub fn may_use(&self, index: u32) -> bool {
        self.candidates.get(index as usize).is_some_and(|candidate| candidate.ready && candidate.weight > 0)
            && !self.tried.contains(&index)
    }
}

impl fmt::Debug for Pick<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pick")
            .field("candidates", &self.candidates)
            .field("tried", &self.tried)
            .field("hash", &self.hash)
            .field("bounded_load", &self.bounded_load)
            .finish_non_exhaustive()
    }
}

/// An algorithm with its state for one service on one worker.
pub trait Balance: Send + Sync + fmt::Debug {
    /// The index of the endpoint to use; `None` when none is ready, has weight and is untried. Does not
    /// allocate.
    fn pick(&mut self, pick: &Pick<'_>) -> Option<u32>;

    /// The endpoint set or its weights changed. May allocate and take its time: called once per change, not
    /// on a worker. Whether an endpoint is ready does not matter here: it is looked at with every pick.
    fn rebuild(&mut self, candidates: &[Candidate]);

    /// A worker's own copy: what a rebuild made is shared, what a pick changes is not. `seed` differs from
    /// worker to worker, so that they do not all begin with the same endpoint.
    fn fork(&self, seed: Seed) -> Box<dyn Balance>;

    /// The name in configuration.
    fn name(&self) -> &'static str;
}

// One line per algorithm: its module, which is its name in configuration and has a `pub(crate) fn new(Seed)`,
// its summary for `list balancers` and the reference page, and what it needs to know (see `Needs`).
registry::balancers! {
    round_robin "each endpoint in turn, as often as its weight says, evenly interleaved" [];
    random "at random, by weight" [];
    least_requests "the one with fewer requests in flight for its weight, of two at random or of all up to four" [load];
    peak_ewma "the one that answers sooner with its load, of two at random by weight" [load, latency];
    ring "by key: the next point on a ring of hashes (ketama); no other key moves when the set changes" [key];
    maglev "by key: a table filled in turn (Maglev); most even, fast, a few other keys move" [key];
    rendezvous "by key: the highest of all hashes of key and endpoint; even, no other key moves; for up to 200" [key];
}
