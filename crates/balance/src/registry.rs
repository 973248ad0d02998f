//! The list of algorithms: one line gives a module its name in configuration, its constructor and its
//! place in `list balancers`, the reference page and the property suite.

use crate::Balance;
use crate::hash::{GOLDEN, mix};

/// Where a worker starts, so that all workers together do not begin with the same endpoint. Any number; one
/// per worker and service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seed(pub u64);

impl Seed {
    /// The next number of a well-mixed sequence (SplitMix64, Steele et al. 2014).
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
}

/// What an algorithm looks at beside the candidates. What it does not need has not to be measured for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Needs {
    /// [`Pick::hash`](crate::Pick::hash): it picks by key, and then it keeps
    /// [`Pick::bounded_load`](crate::Pick::bounded_load), for which it needs the requests in flight.
    pub key: bool,
    /// The requests in flight, always.
    pub load: bool,
    /// The latency.
    pub latency: bool,
}

impl Needs {
    /// Nothing but the candidates.
    pub const NOTHING: Self = Self { key: false, load: false, latency: false };
}

/// An entry of the list.
#[derive(Clone, Copy, Debug)]
pub struct Balancer {
    /// The name in configuration.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// What it has to be told.
    pub needs: Needs,
    /// Makes the state for one service; it knows no endpoint until its first rebuild.
    pub new: fn(Seed) -> Box<dyn Balance>,
}

/// The algorithm with this name.
pub fn balancer(name: &str) -> Option<&'static Balancer> {
    crate::BALANCERS.iter().find(|entry| entry.name == name)
}

macro_rules! balancers {
    ($( $name:ident $summary:literal [ $($need:ident),* ]; )*) => {
        /// Every algorithm, in the order of the documentation; the first is the default.
        pub const BALANCERS: &[Balancer] = &[ $( Balancer {
            name: stringify!($name),
            summary: $summary,
            needs: Needs { $($need: true,)* ..Needs::NOTHING },
            new: |seed| Box::new($name::new(seed)),
        }, )* ];
    };
}
pub(crate) use balancers;
