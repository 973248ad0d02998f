//! What a worker is told by the control thread: another plan, a connection that somebody else accepted, that it is to
//! end.

use crate::listener::acceptors::welcome;
use crate::state::active_config::ActiveConfig;
use crate::state::local_listener::LocalListener;
use crate::state::local_plan::{LocalContext, LocalPlan};
use crate::state::shared::Command;
use crate::state::worker::Worker;
use crate::state::worker::is_of_old;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_core::limits::FIRST_WORD_TIME;
use thalweg_upstream::EndpointSet;

impl Worker {
    pub(super) fn handle(self: &Rc<Self>, command: Command) {
        match command {
            Command::Plan(current, endpoint_sets) => self.take_over(current, &endpoint_sets),
            Command::EndpointSet(service, endpoint_set) => {
                let (registry, concurrency_limits) = (&self.shared.registry, &self.shared.concurrency_limits);
                let ground =
                    LocalContext { worker: self.id, registry, concurrency_limits, slots: &self.slots };
                self.view().set_endpoint_set(service, &endpoint_set, &ground);
            }
            Command::Client(arrival, listener, spoken) => {
                let local_listener = self.acceptors.borrow().find(self, &listener, &spoken);
                match local_listener {
                    Some(local_listener) => {
                        let client = welcome(self, arrival, local_listener);
                        client.into_iter().for_each(|client| self.park_first(client));
                    }
                    // The plan that has the listener is on its way.
                    None => self.shared.hand(self.id, Command::Client(arrival, listener, spoken)),
                }
            }
            Command::Recall(question) => self.query_records(&question),
            Command::Tap(tap) => self.taps.add(tap),
            Command::Untap(tap) => self.taps.remove(&tap),
            Command::Evict(eviction) => self.slots.give_way(&eviction),
            Command::Cut => {
                (0..self.tasks.len()).for_each(|task| self.poll_task(task));
                self.tunnels.all().into_iter().for_each(|tunnel| self.poll_tunnel(tunnel));
                self.look_at_sessions();
            }
            Command::Accept => {
                self.is_waiting.set(false);
                self.bind_listeners();
            }
            Command::Leave => {
                self.acceptors.borrow_mut().leave();
                self.draining.set(true);
                self.stop_receiving();
                self.hurry_datagrams();
                self.leave_sessions(|_| true);
            }
            Command::Drain => {
                let last = self.acceptors.borrow_mut().close(self);
                last.into_iter().for_each(|client| self.park_first(client));
                self.draining.set(true);
                self.hurry_datagrams();
                self.leave_parked();
                self.leave_sessions(|_| true);
            }
            Command::Stop => {}
        }
    }

    pub(super) fn bind_listeners(&self) {
        if self.is_waiting.get() {
            return;
        }
        let view = self.view();
        self.acceptors.borrow_mut().take_over(self, &view);
        self.open_ports(&view);
    }

    /// Requests that come from now on follow another plan.
    fn take_over(self: &Rc<Self>, current: Arc<ActiveConfig>, endpoint_sets: &[Arc<EndpointSet>]) {
        let (registry, concurrency_limits) = (&self.shared.registry, &self.shared.concurrency_limits);
        let ground = LocalContext { worker: self.id, registry, concurrency_limits, slots: &self.slots };
        let old = self.view();
        let view = Rc::new(LocalPlan::new((current, endpoint_sets), &ground, Some(&old)));
        self.decisions.adopt(view.plan.requests);
        self.is_untidy.set(true);
        self.view.replace(view.clone());
        if !self.is_waiting.get() {
            let gone = self.acceptors.borrow_mut().take_over(self, &view);
            for local_listener in gone {
                self.leave_parked_of(&local_listener);
            }
            self.open_ports(&view);
        }
        self.leave_sessions(|client| client.listener().is_leaving() || is_of_old(client));
    }

    /// As [`Self::leave_parked`], of a listener that is gone.
    fn leave_parked_of(self: &Rc<Self>, local_listener: &LocalListener) {
        let places = self.idle_connections.borrow().places_of(local_listener.state.id);
        for place in places {
            let mut idle_connections = self.idle_connections.borrow_mut();
            match idle_connections.peek(place) {
                Some(client) if client.requests > 0 && !client.socket.is_readable() => {
                    let silent = idle_connections.remove(place);
                    drop(idle_connections);
                    drop(silent);
                    continue;
                }
                Some(client) => client.socket.set_deadline(Some(FIRST_WORD_TIME)),
                None => {}
            }
            drop(idle_connections);
            self.resume(place);
        }
    }

    /// Closes the silent connections, and serves those that have just spoken. Who has been accepted
    /// and not served gets a moment to speak.
    fn leave_parked(self: &Rc<Self>) {
        let fresh = self.idle_connections.borrow().fresh_places();
        for place in fresh {
            if let Some(client) = self.idle_connections.borrow().peek(place) {
                client.socket.set_deadline(Some(FIRST_WORD_TIME));
            }
            self.resume(place);
        }
        loop {
            let served = self.idle_connections.borrow_mut().remove_served();
            match served {
                Some(client) if client.socket.is_readable() => self.task(client, None),
                Some(_) => {}
                None => break,
            }
        }
    }
}
