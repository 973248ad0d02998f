//! The phases of an exchange, in the order of `serve.rs`: read the request, find its route, filter, take permits,
//! forward, respond, record.

pub(crate) mod upstream;

pub(crate) mod acme_http01;
pub(crate) mod bans;
pub(crate) mod blocked;
pub(crate) mod buffer_body;
pub(crate) mod cache;
pub(crate) mod drain;
pub(crate) mod filter_facts;
pub(crate) mod filter_request;
pub(crate) mod filter_response;
pub(crate) mod find_route;
pub(crate) mod grpc;
pub(crate) mod hash_key;
pub(crate) mod local_reply;
pub(crate) mod other_readings;
pub(crate) mod outcome;
pub(crate) mod pace;
pub(crate) mod permits;
pub(crate) mod read_request;
pub(crate) mod record;
pub(crate) mod redirect_https;
pub(crate) mod respond;
pub(crate) mod send_reply;
pub(crate) mod sticky;
pub(crate) mod subrequest;
pub(crate) mod trace;
pub(crate) mod unseal;
