//! The upstream side of an exchange: pick an endpoint, connect, send the request, await the response; retries and
//! hedges.

pub(crate) mod await_response;
pub(crate) mod await_stream;
pub(crate) mod check_own;
pub(crate) mod circuit_breaker;
pub(crate) mod connect;
pub(crate) mod connection_permit;
pub(crate) mod forward;
pub(crate) mod hedge;
pub(crate) mod pick;
pub(crate) mod request_head;
pub(crate) mod tls;
pub(crate) mod wait_for_permit;
