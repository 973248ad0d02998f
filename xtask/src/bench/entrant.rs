//! Who takes part, as reports name them.

/// A program that takes part in a bench.
pub(crate) trait Entrant {
    /// The name in tables.
    fn name(&self) -> &str;
    /// What it says of its version.
    fn version(&self) -> &str;
}

/// The names, in the order of the columns.
pub(crate) fn names(entrants: &[impl Entrant]) -> Vec<&str> {
    entrants.iter().map(Entrant::name).collect()
}

/// A line for each.
pub(crate) fn versions(entrants: &[impl Entrant]) -> Vec<String> {
    entrants.iter().map(|entrant| format!("{}: {}", entrant.name(), entrant.version())).collect()
}
