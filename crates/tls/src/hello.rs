//! Reads the beginning of a ClientHello, without I/O.

use crate::failure::Refused;

/// What was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Read {
    /// Call again with more bytes, all from the start.
    Incomplete,
    /// All of it is there.
    Hello(Hello),
    /// It will never be one.
    Refused(Refused),
}

/// What a client says first, as far as the choice of certificates and protocols needs it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hello {
    /// The name that it asks for (SNI), in lower case.
    pub name: Option<String>,
    /// The application protocols that it offers.
    pub alpn: Vec<Vec<u8>>,
}

/// Reads what was received so far.
pub fn read(_bytes: &[u8]) -> Read {
    Read::Incomplete
}
