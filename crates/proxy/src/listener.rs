//! From the listening socket to a client connection: accept, limits, PROXY protocol, idle connections.

pub(crate) mod acceptors;
pub(crate) mod client_limits;
pub(crate) mod idle;
pub(crate) mod local;
pub(crate) mod proxy_protocol;
pub(crate) mod sockets;
