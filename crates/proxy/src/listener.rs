//! From the listening socket to a client connection: accept, access, limits, PROXY protocol, idle connections.

pub(crate) mod acceptors;
pub(crate) mod access;
pub(crate) mod proxy_protocol;
pub(crate) mod refusals;
