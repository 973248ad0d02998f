//! The sockets of a worker at which clients send datagrams: opened and closed as plans say, like
//! `listener/acceptors.rs` for connections.
//!
//! They stay open while the proxy stops: answers go out through them. Datagrams that wait in the kernel when a listener
//! goes are lost.

use crate::plan::{Listener, ListenerProtocol};
use crate::state::listener_sockets::SocketSeat;
use crate::state::local_listener::LocalListener;
use crate::state::local_plan::LocalPlan;
use crate::state::token::Token;
use crate::state::worker::Worker;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_net::datagram::Datagrams;

/// A socket with its listener.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: Datagrams,
    local_listener: RefCell<Rc<LocalListener>>,
    seat: SocketSeat,
    /// Answers to a datagram after which a session ends.
    responses: Cell<Option<u32>>,
}

impl Port {
    /// Where its sessions are counted.
    pub(super) fn listener(&self) -> Rc<LocalListener> {
        self.local_listener.borrow().clone()
    }

    /// Answers to a datagram after which a session ends.
    pub(super) fn responses(&self) -> Option<u32> {
        self.responses.get()
    }

    fn hold(
        &self,
        worker: &Worker,
        (view, position, listener): (&Rc<LocalPlan>, u16, &Listener),
        open: &crate::state::listener_sockets::OpenListener,
    ) {
        let is_another = self.local_listener.borrow().state.id != open.state.id;
        if is_another {
            // Sessions of the old listener keep it until they end.
            self.local_listener.replace(LocalListener::new(&worker.shared.loads, worker.id, &open.state));
        }
        self.local_listener.borrow().hold(view, position, listener);
        self.responses.set(listener.expected_responses);
    }
}

/// The sockets of a worker.
#[derive(Debug, Default)]
pub(super) struct Ports(RefCell<Slab<Rc<Port>>>);

impl Ports {
    /// The socket with a number.
    pub(super) fn get(&self, port: u32) -> Option<Rc<Port>> {
        self.0.borrow().get(port as usize).cloned()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Another process receives what clients send; answers still go out here.
    pub(super) fn stop_receiving(&self) {
        self.0.borrow().iter().for_each(|(_, port)| port.socket.stop_receiving());
    }

    /// Opens the listeners of a plan and closes all others.
    pub(super) fn take_over(&self, worker: &Worker, view: &Rc<LocalPlan>) {
        let current = &view.current;
        let mut ports = self.0.borrow_mut();
        let mut kept = Vec::new();
        for ((listener, position), open) in current.plan.listeners.iter().zip(0..).zip(&*current.listeners) {
            if listener.protocol != ListenerProtocol::Udp {
                continue;
            }
            let is_its = |port: &Port| Arc::ptr_eq(&port.seat.sockets, &open.sockets);
            let mut keys: Vec<_> =
                ports.iter().filter(|(_, port)| is_its(port)).map(|(key, _)| key).collect();
            while let Some(key) = add(&mut ports, worker, open) {
                keys.push(key);
            }
            for key in keys {
                ports[key].hold(worker, (view, position, listener), open);
                kept.push(key);
            }
        }
        ports.retain(|key, _| kept.contains(&key));
    }
}

/// Opens one; `None` when all are open, or the kernel cannot watch it.
fn add(
    ports: &mut Slab<Rc<Port>>,
    worker: &Worker,
    open: &crate::state::listener_sockets::OpenListener,
) -> Option<usize> {
    let (seat, fd) = open.sockets.take(worker.id)?;
    let entry = ports.vacant_entry();
    let (key, owner) = (entry.key(), Token::Port(entry.key() as u32).into());
    match Datagrams::bound(&worker.reactor, fd, owner) {
        Ok(socket) => {
            let local_listener = LocalListener::new(&worker.shared.loads, worker.id, &open.state);
            let (local_listener, responses) = (RefCell::new(local_listener), Cell::new(None));
            entry.insert(Rc::new(Port { socket, local_listener, seat, responses }));
            Some(key)
        }
        Err(error) => {
            let (name, id) = (&open.state.name, worker.id);
            worker.notice(|| format!("listener `{name}`: worker {id} cannot watch it: {error}"));
            None
        }
    }
}
