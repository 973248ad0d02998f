//! From the listening socket to a client connection: accept, limits, PROXY protocol, idle connections.

pub(crate) mod acceptors;
pub(crate) mod proxy_protocol;
pub(crate) mod refusals;
