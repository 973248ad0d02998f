//! 1 listener: sockets, readiness, deadlines, accept, and what the machine allows.
//!
//! A worker has one [`Reactor`]. It watches every socket of the worker edge-triggered through one
//! epoll instance of its own, registered once per socket, and keeps the deadlines. The reactor in
//! turn is watched by the worker's tokio runtime, so that sockets of both kinds live on one thread
//! (why: `docs/decisions/0002-own-reactor-under-tokio.md`).
//!
//! The only unsafe block of the product is [`Reactor::watch`].
#![deny(unsafe_code)]

pub mod connect;
pub mod listen;
pub mod machine;
mod reactor;
mod socket;
mod wake;
mod wheel;

pub use reactor::{Owner, Reactor};
pub use socket::Socket;
pub use wake::{SeatWaker, WakeQueue};
