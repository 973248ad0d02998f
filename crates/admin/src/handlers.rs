//! The handlers, one file per part of the API; the table of operations names them.

pub(crate) mod access;
pub(crate) mod api_keys;
pub(crate) mod audit;
pub(crate) mod cache;
pub(crate) mod canary;
pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod sealed;
pub(crate) mod series;
pub(crate) mod services;
pub(crate) mod session;
pub(crate) mod tap;
