//! What an exchange and a worker are made of: data that every phase reads and writes. Nothing here acts.

pub(crate) mod acceptors;
pub(crate) mod active_config;
pub(crate) mod admission;
pub(crate) mod challenges;
pub(crate) mod client_limits;
pub(crate) mod credits;
pub(crate) mod exchange;
pub(crate) mod filtering;
pub(crate) mod handshake_budget;
pub(crate) mod idle_connections;
pub(crate) mod labels;
pub(crate) mod listener_sockets;
pub(crate) mod load;
pub(crate) mod local_listener;
pub(crate) mod local_plan;
pub(crate) mod rate;
pub(crate) mod refused_labels;
pub(crate) mod scheduler;
pub(crate) mod shared;
pub(crate) mod slow_clients;
pub(crate) mod start_error;
pub(crate) mod subrequests;
pub(crate) mod tasks;
pub(crate) mod token;
pub(crate) mod waiting;
pub(crate) mod worker;
