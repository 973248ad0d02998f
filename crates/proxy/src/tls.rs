//! TLS on sockets of clients: the handshake, its share of a worker's time, and the layer below the exchange.

pub(crate) mod client_cert_fields;
pub(crate) mod handshake;
pub(crate) mod layer;
pub(crate) mod misdirected;
