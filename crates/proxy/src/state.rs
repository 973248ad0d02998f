//! What an exchange and a worker are made of: data that every phase reads and writes. Nothing here acts.

pub(crate) mod active_config;
pub(crate) mod exchange;
pub(crate) mod load;
pub(crate) mod local_plan;
pub(crate) mod token;
