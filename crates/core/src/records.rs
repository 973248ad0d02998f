//! What opening and sealing records comes to: between those who know the protocol and those who own the socket.

/// What opening received bytes came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Opened {
    /// Received bytes that are not needed again.
    pub consumed: usize,
    /// Plaintext bytes that were put into the buffer.
    pub written: usize,
    /// There is more plaintext than the buffer took: it comes without further input.
    pub more: bool,
    /// The peer has said that it sends no more.
    pub ended: bool,
}

/// What sealing plaintext came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sealed {
    /// Plaintext bytes that were taken.
    pub taken: usize,
    /// Bytes that were put into the buffer.
    pub written: usize,
}
