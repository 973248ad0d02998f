//! 1 listener: sockets, readiness, deadlines, accept, the header before a connection's bytes, and what the machine
//! allows.
//!
//! A worker has one [`Reactor`]. It watches every socket of the worker edge-triggered through one
//! epoll instance, registered once per socket, and keeps the deadlines. What other threads have to
//! say comes through a [`Mailbox`] (why no tokio here: `docs/decisions/0002-own-reactor.md`).
#![deny(unsafe_code)]

pub mod allocator;
pub mod code;
pub mod connect;
pub mod crash;
pub mod datagram;
pub mod inherited;
pub mod interfaces;
mod layer;
mod layered;
pub mod listen;
pub mod machine;
mod mailbox;
mod option;
pub mod path_walk;
mod pipe;
mod prefetch;
pub mod proxy_protocol;
mod reactor;
mod socket;
mod substream;
mod timer_wheel;

pub use layer::Layer;
pub use layered::DetachedSocket;
pub use mailbox::{Mailbox, OwnerWaker};
pub use pipe::Pipe;
pub use prefetch::prefetch;
pub use reactor::{Owner, Reactor};
pub use socket::{Socket, SocketId};
pub use substream::Substream;
pub use thalweg_core::{Opened, Sealed};
