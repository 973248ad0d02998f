//! What a worker is told by the control thread: another plan, a connection that somebody else accepted, that it is to end.

use super::Worker;
use crate::current::Current;
use crate::door::Door;
use crate::doors::welcome;
use crate::exchange::Client;
use crate::fleet::Command;
use crate::plan::ListenerProtocol;
use crate::view::{Ground, PlanView};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_core::limits::FIRST_WORD_TIME;

impl Worker {
    pub(super) fn obey(self: &Rc<Self>, command: Command) {
        match command {
            Command::Plan(current) => self.take_over(current),
            Command::Members(current) => {
                let view = self.view();
                // Of another plan: its own message is on the way.
                let same = Arc::ptr_eq(&view.plan, &current.plan);
                let both = view.services.iter().zip(&current.rosters).filter(|_| same);
                both.for_each(|(service, roster)| service.state.update(roster));
            }
            Command::Client(arrival, listener, spoken) => {
                let door = self.doors.borrow().find(self, &listener, &spoken);
                match door {
                    Some(door) => {
                        let client = welcome(self, arrival, door);
                        client.into_iter().for_each(|client| self.park_first(client));
                    }
                    // The plan that has the listener is on its way.
                    None => self.shared.hand(self.id, Command::Client(arrival, listener, spoken)),
                }
            }
            Command::Recall(question) => self.recall(&question),
            Command::Evict(eviction) => self.slots.give_way(&eviction),
            Command::Cut => {
                (0..self.seats.len()).for_each(|seat| self.poll_seat(seat));
                self.tunnels.all().into_iter().for_each(|tunnel| self.poll_tunnel(tunnel));
                self.look_at_sessions();
            }
            Command::Drain => {
                let last = self.doors.borrow_mut().close(self);
                last.into_iter().for_each(|client| self.park_first(client));
                self.draining.set(true);
                self.hurry_datagrams();
                self.leave_parked();
                self.leave_sessions(|_| true);
            }
            Command::Stop => {}
        }
    }

    pub(super) fn open_doors(&self) {
        let view = self.view();
        self.doors.borrow_mut().take_over(self, &view.current, &view);
        self.open_ports(&view.current);
    }

    /// Requests that come from now on follow another plan.
    fn take_over(self: &Rc<Self>, current: Arc<Current>) {
        let (registry, gates) = (&self.shared.registry, &self.shared.gates);
        let ground = Ground { worker: self.id, registry, gates, slots: &self.slots };
        let old = self.view();
        let view = Rc::new(PlanView::new(current, &ground, Some(&old)));
        self.decisions.adopt(view.plan.requests);
        self.is_untidy.set(true);
        self.view.replace(view.clone());
        let gone = self.doors.borrow_mut().take_over(self, &view.current, &old);
        for door in gone {
            self.leave_parked_of(&door);
        }
        self.open_ports(&view.current);
        self.leave_sessions(|client| client.door().is_leaving() || is_of_old(client));
    }

    /// As [`Self::leave_parked`], of a listener that is gone.
    fn leave_parked_of(self: &Rc<Self>, door: &Door) {
        let places = self.parked.borrow().places_of(door.state.id);
        for place in places {
            let mut parked = self.parked.borrow_mut();
            match parked.peek(place) {
                Some(client) if client.requests > 0 && !client.socket.is_readable() => {
                    let silent = parked.remove(place);
                    drop(parked);
                    drop(silent);
                    continue;
                }
                Some(client) => client.socket.set_deadline(Some(FIRST_WORD_TIME)),
                None => {}
            }
            drop(parked);
            self.unpark(place);
        }
    }

    /// Closes the silent connections, and serves those that have just spoken. Who has been accepted
    /// and not served gets a moment to speak.
    fn leave_parked(self: &Rc<Self>) {
        let fresh = self.parked.borrow().fresh_places();
        for place in fresh {
            if let Some(client) = self.parked.borrow().peek(place) {
                client.socket.set_deadline(Some(FIRST_WORD_TIME));
            }
            self.unpark(place);
        }
        loop {
            let served = self.parked.borrow_mut().remove_served();
            match served {
                Some(client) if client.socket.is_readable() => self.seat(client, None),
                Some(_) => {}
                None => break,
            }
        }
    }
}

/// Whether a reload has brought TLS to the client's listener, or taken it away, or there is no HTTP any more.
pub(super) fn is_of_old(client: &Client) -> bool {
    let door = client.door();
    client.socket.is_layered() != door.is_secure() || door.protocol() != ListenerProtocol::Http
}
