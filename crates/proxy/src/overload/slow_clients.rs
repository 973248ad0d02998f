//! Clients for which exchanges wait, and who of them makes room when every place is taken.
//!
//! Who sends a head or a body, or takes a response, byte by byte holds a place for as long as its
//! deadlines allow. That is fine while there are places. When there are none, the slowest of them
//! is called off for each new connection, so that an attacker with any number of slow
//! connections keeps nobody out. Endpoints that are slow cost no client its place.
//!
//! Where slow clients are a crowd, what happens on their connections waits in a queue of its own, of which a few are
//! served per turn: thousands of them that can go on at once would otherwise all stand in front of a small request.

use crate::state::exchange::{Client, Exchange};
use crate::state::listener_sockets::ListenerId;
use crate::state::token::Token;
use crate::state::worker::Worker;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// The exchange waits for its client, which has moved so many bytes by now.
    pub(crate) fn mark_slow(&self, client: &Client, x: &mut Exchange, bytes: u64) {
        self.note_held(x, 0);
        // Calling off a stream makes no room: its connection has the place.
        if let (Token::Task(task), None) = (Token::from(x.owner), client.socket.substream()) {
            x.is_slow = true;
            let who = (client.socket.id(), client.listener().state.id);
            self.slow_clients.note(task, who, self.reactor.now(), bytes);
        }
    }

    /// The exchange does not wait for its client.
    pub(crate) fn clear_slow(&self, x: &mut Exchange) {
        if let (true, Token::Task(task)) = (std::mem::take(&mut x.is_slow), Token::from(x.owner)) {
            self.slow_clients.forget(task);
        }
    }

    /// Whether a client can be called off, of one listener or of all.
    pub(crate) fn has_slow(&self, of: Option<ListenerId>) -> bool {
        self.slow_clients.find_slowest(self.reactor.now(), of).is_some()
    }

    /// Lets the slowest client make room, of one listener or of all: its exchange ends in this turn.
    pub(crate) fn shed_slowest(&self, of: Option<ListenerId>) {
        if let Some((task, slow)) = self.slow_clients.take_slowest(self.reactor.now(), of) {
            self.reactor.expire_now(slow.socket);
            self.slow_clients.called_off.borrow_mut().push(task);
        }
    }

    /// Whether the client of the exchange has been called off, so that others have its place.
    pub(crate) fn is_shed(&self, x: &Exchange) -> bool {
        matches!(Token::from(x.owner), Token::Task(task) if x.is_slow && !self.slow_clients.knows(task))
    }

    /// Whether others need the place of this client soon.
    pub(crate) fn is_short_of_places(&self, client: &Client) -> bool {
        let loads = &self.shared.loads;
        loads.workers[self.id].clients.load(Relaxed) >= loads.places.load(Relaxed)
            || client.listener().is_crowded()
    }
}
