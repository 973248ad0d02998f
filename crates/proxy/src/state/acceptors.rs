//! The listening sockets of a worker, and connections that were refused and drain. `listener/acceptors.rs` accepts.

use crate::state::listener_sockets::{ListenerId, SocketSeat};
use crate::state::local_listener::LocalListener;
use slab::Slab;
use std::rc::Rc;
use std::time::Instant;
use thalweg_core::limits::REFUSALS;
use thalweg_net::Socket;
use thalweg_net::listen::Acceptor;

/// A listening socket with its listener.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) acceptor: Acceptor,
    pub(crate) local_listener: Rc<LocalListener>,
    pub(crate) seat: SocketSeat,
    /// The listener is gone: when the socket closes.
    pub(crate) closes_at: Option<Instant>,
}

/// The listening sockets of a worker.
#[derive(Debug)]
pub(crate) struct Acceptors {
    pub(crate) open: Slab<Open>,
    /// Of listeners that are gone: when nobody is owed their last plan any more.
    pub(crate) left: Vec<(Instant, Rc<LocalListener>)>,
    /// The latest listener that the worker has heard of.
    pub(crate) newest: ListenerId,
    pub(crate) refusals: Slab<Socket>,
    pub(crate) lines: RefusalLines,
    /// Accepting rests until then.
    pub(crate) rest_until: Option<Instant>,
    pub(crate) shut: bool,
    /// These are the last connections: nobody else is asked to take them.
    pub(crate) closing: bool,
}

impl Acceptors {
    /// No socket yet.
    pub(crate) fn new() -> Self {
        Self {
            open: Slab::new(),
            left: Vec::new(),
            newest: ListenerId::default(),
            refusals: Slab::with_capacity(REFUSALS),
            lines: RefusalLines::default(),
            rest_until: None,
            shut: false,
            closing: false,
        }
    }
}

/// The lines of a worker's refused connections.
#[derive(Debug, Default)]
pub(crate) struct RefusalLines {
    /// When the second began in which lines are counted.
    pub(crate) since: Option<Instant>,
    pub(crate) written: u32,
    /// Refused connections since the last line.
    pub(crate) unlogged: u64,
}
