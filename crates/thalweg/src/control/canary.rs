//! What a canary decides: a machine without a clock, a plan or I/O. `canaries` acts on it.

mod judge;
mod machine;

pub(crate) use machine::{Canary, CanarySpec, Counted, Order, PhaseSpec, Turn, weights};

use std::collections::BTreeMap;

/// Those of the plan, by the name of the route.
pub(crate) type Canaries = BTreeMap<String, Canary>;
