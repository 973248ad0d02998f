//! Which CPUs the programs of a run have.

use crate::bench::{LOAD_CPU, PROXY_CPU};

/// Both CPUs.
const BOTH: &str = "0,1";

/// Who runs where.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// Everything on both CPUs, a proxy with a worker for each: as in the published table
    Shared,
    /// The proxy on a CPU of its own; ab and the backends on the other
    Apart,
}

impl Layout {
    pub(super) const ALL: [Self; 2] = [Self::Shared, Self::Apart];

    /// The name in the log and the gates.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Apart => "apart",
        }
    }

    /// The words in headings.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Shared => "Everything on both CPUs, as published",
            Self::Apart => "The proxy on a CPU of its own",
        }
    }

    pub(super) fn proxy_cpus(self) -> &'static str {
        match self {
            Self::Shared => BOTH,
            Self::Apart => PROXY_CPU,
        }
    }

    pub(super) fn load_cpus(self) -> &'static str {
        match self {
            Self::Shared => BOTH,
            Self::Apart => LOAD_CPU,
        }
    }

    /// Workers of a proxy: one for each of its CPUs.
    pub(super) fn workers(self) -> usize {
        self.proxy_cpus().split(',').count()
    }
}
