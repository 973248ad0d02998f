//! Who takes part, as reports name them.

use std::path::PathBuf;

/// A program that takes part in a bench.
pub(crate) trait Entrant {
    /// The name in tables.
    fn name(&self) -> &str;
    /// What it says of its version.
    fn version(&self) -> &str;
}

/// What can take part in a bench.
pub(crate) trait Peer: Copy {
    /// The name in tables.
    fn name(self) -> &'static str;
}

/// One of several that can take part, and its program.
pub(crate) struct Program<P> {
    pub(crate) peer: P,
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl<P: Peer> Program<P> {
    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        self.peer.name()
    }
}

impl<P: Peer> Entrant for Program<P> {
    fn name(&self) -> &str {
        self.peer.name()
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[cfg(test)]
impl<P> Program<P> {
    /// One that is only named.
    pub(crate) fn unknown(peer: P) -> Self {
        Self { peer, path: PathBuf::new(), version: String::new() }
    }
}

/// The names, in the order of the columns.
pub(crate) fn names(entrants: &[impl Entrant]) -> Vec<&str> {
    entrants.iter().map(Entrant::name).collect()
}

/// A line for each.
pub(crate) fn versions(entrants: &[impl Entrant]) -> Vec<String> {
    entrants.iter().map(|entrant| format!("{}: {}", entrant.name(), entrant.version())).collect()
}
