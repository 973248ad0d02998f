//! The layer-4 path: whole TCP connections, tunnels after a switch of protocols, and datagrams.

pub(crate) mod tcp;
pub(crate) mod tunnel;
pub(crate) mod tunnels;
pub(crate) mod udp;
