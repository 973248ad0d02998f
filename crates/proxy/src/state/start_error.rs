//! Why a listener could not be opened or a plan could not take over.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Why the worker pool could not start, or a plan could not take over.
#[derive(Debug)]
pub struct StartError {
    /// The listener that could not be bound, if it was one.
    pub listener: Option<Arc<str>>,
    /// Its address, as written.
    pub address: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.listener {
            Some(name) => write!(f, "listener `{name}`: cannot listen on {}: {}", self.address, self.source),
            None => self.source.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}
