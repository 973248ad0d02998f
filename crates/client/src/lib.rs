//! The HTTP client of the control plane: webhooks, certificate authorities, DNS hooks, and the verbs of the CLI; and
//! one for Redis ([`redis`]).
//!
//! One request, one response, on a connection of its own: HTTP/1.1 over TCP, TLS or a unix socket. These requests are
//! rare, so nothing is pooled, and no redirect or proxy variable is followed: a request goes where the caller says.
//! Health checks have a client of their own, because they test the connection as well as the response.
//!
//! Invariant: a request ends within its [`Bounds`] and keeps no more bytes than they allow, whatever the server does.
#![forbid(unsafe_code)]

mod destination;
mod keep_off;
mod resolve;

mod error;
mod half_closed;

mod client;
pub mod h2;
pub mod redis;
mod signature;

pub use client::{BodyStream, Bounds, ByteStream, HttpClient};
pub use destination::Destination;
pub use error::{ClientError, words};
pub use keep_off::{barred, keep_off};
pub use signature::signature;

/// What requests and responses are made of.
pub use hyper::http::request::Builder as RequestBuilder;
pub use hyper::{Request, Response, body::Bytes};
