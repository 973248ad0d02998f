//! How a module is run.

/// What one run of a module may use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Fuel of one call: about one unit for an instruction, and one for a byte that is copied.
    pub fuel: u64,
    /// Bytes of memory of one instance.
    pub memory: usize,
}

/// A module's place in the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setup {
    /// By which name the operator knows it.
    pub name: String,
    /// The id of the root context, for modules that have several.
    pub root_id: String,
    /// Handed to the module as it starts.
    pub config: Vec<u8>,
    /// Services that it may call, by name.
    pub services: Vec<String>,
    /// Bytes of a body that it may make of another one.
    pub max_body: usize,
    /// Its bounds.
    pub limits: Limits,
}
