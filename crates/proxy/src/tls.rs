//! TLS on sockets of clients: the handshake, its share of a worker's time, and the layer below the exchange.

pub(crate) mod handshake;
pub(crate) mod handshake_budget;
pub(crate) mod layer;
