//! Which CPUs the programs of a run have.

use crate::bench::{LOAD_CPU, PROXY_CPU};

/// Both CPUs.
const BOTH: &str = "0,1";

/// Who runs where.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// Everything on both CPUs, a proxy with a worker for each
    Shared,
    /// The proxy on a CPU of its own; load and backends on the other
    Apart,
}

impl Layout {
    pub(crate) const ALL: [Self; 2] = [Self::Shared, Self::Apart];

    /// The name in the log and the gates.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Apart => "apart",
        }
    }

    /// The words in headings.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Shared => "Everything on both CPUs",
            Self::Apart => "The proxy on a CPU of its own",
        }
    }

    pub(crate) fn proxy_cpus(self) -> &'static str {
        match self {
            Self::Shared => BOTH,
            Self::Apart => PROXY_CPU,
        }
    }

    pub(crate) fn load_cpus(self) -> &'static str {
        match self {
            Self::Shared => BOTH,
            Self::Apart => LOAD_CPU,
        }
    }

    /// Workers of a proxy: one for each of its CPUs.
    pub(crate) fn workers(self) -> usize {
        self.proxy_cpus().split(',').count()
    }
}
