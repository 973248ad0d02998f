//! The list of algorithms: one line gives a module its name in configuration, its constructor and its
//! place in `list balancers`, the reference page and the property suite.

use crate::Balance;

/// Where a worker starts, so that all workers together do not begin with the same endpoint. Any number; one
/// per worker and service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seed(pub u64);

impl Seed {
    /// The next number of a well-mixed sequence (SplitMix64, Steele et al. 2014).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An entry of the list.
#[derive(Clone, Copy, Debug)]
pub struct Balancer {
    /// The name in configuration.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Makes the state for one service on one worker; it knows no endpoint until its first rebuild.
    pub new: fn(Seed) -> Box<dyn Balance>,
}

/// The algorithm with this name.
pub fn balancer(name: &str) -> Option<&'static Balancer> {
    crate::BALANCERS.iter().find(|entry| entry.name == name)
}

macro_rules! balancers {
    ($( $name:ident $summary:literal; )*) => {
        /// Every algorithm, in the order of the documentation; the first is the default.
        pub const BALANCERS: &[Balancer] = &[ $( Balancer {
            name: stringify!($name),
            summary: $summary,
            new: |seed| Box::new($name::new(seed)),
        }, )* ];
    };
}
pub(crate) use balancers;
