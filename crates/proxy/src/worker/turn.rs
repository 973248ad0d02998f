//! A turn of a worker: what it is told, whom the reactor calls, who was woken, what is put off.

use super::Worker;
use crate::fleet::Command;
use crate::h2::Work;
use crate::owner::Target;
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use thalweg_core::limits;
use thalweg_net::Owner;

/// How many calls ahead memory is asked for, in two steps.
const SOON: usize = 4;
const NEXT: usize = 2;

/// How often in a turn connections of HTTP/2 that their own streams have woken are called.
const ROUNDS: usize = 4;

/// Lists that keep their memory from turn to turn.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) called: Vec<Owner>,
    pub(super) woken: Vec<Owner>,
    again: Vec<Owner>,
    tunnels: Vec<u32>,
    sessions: Vec<u32>,
    commands: Vec<Command>,
}

impl Worker {
    /// Serves what is ready now; says whether the worker is to end.
    pub(super) fn turn(self: &Rc<Self>, lists: &mut Lists) -> bool {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.unix_ms.set(unix.as_secs() * 1000 + u64::from(unix.subsec_millis()));
        self.unix_us.set(unix.as_secs() * 1_000_000 + u64::from(unix.subsec_micros()));
        self.handshakes.begin_turn();
        self.slices.begin_turn(Instant::now());
        self.udp.begin_turn();
        // Before events: a connection that comes after a plan was told to all workers is served by that plan.
        self.mailbox().take_messages(&mut lists.commands);
        for command in lists.commands.drain(..) {
            if matches!(command, Command::Stop) {
                return true;
            }
            self.obey(command);
        }
        self.reactor.expire(&mut lists.called);
        for i in 0..lists.called.len() {
            lists.called.get(i + SOON).inspect(|owner| self.expect_soon(**owner));
            lists.called.get(i + NEXT).inspect(|owner| self.expect_next(**owner));
            self.call(lists.called[i]);
        }
        lists.called.clear();
        self.serve_line();
        self.tunnels.take_more(&mut lists.tunnels);
        for tunnel in lists.tunnels.drain(..) {
            self.poll_tunnel(tunnel);
        }
        self.udp.take_more(&mut lists.sessions);
        for session in lists.sessions.drain(..) {
            self.call_session(session);
        }
        for seat in self.laggards.take_called_off() {
            self.poll_seat(seat);
        }
        for _ in 0..limits::LAGGARDS_PER_TURN {
            let Some(seat) = self.laggards.next_in_queue() else { break };
            self.poll_seat(seat);
        }
        self.mailbox().take_woken(&mut lists.woken);
        for owner in lists.woken.drain(..) {
            self.call_woken(owner);
        }
        self.serve_sessions(lists);
        self.publish();
        self.watch_budget();
        let last = self.doors.borrow_mut().close_left(self);
        last.into_iter().for_each(|client| self.park_first(client));
        self.doors.borrow_mut().reopen(self);
        false
    }

    /// Lets connections of HTTP/2 say together what their streams have said in this turn. Who else has been woken waits for the
    /// next.
    fn serve_sessions(self: &Rc<Self>, lists: &mut Lists) {
        if self.sessions.is_empty() {
            return;
        }
        self.serve_line();
        for _ in 0..ROUNDS {
            self.mailbox().take_woken(&mut lists.again);
            if lists.again.is_empty() {
                break;
            }
            for owner in lists.again.drain(..) {
                match Target::from(owner) {
                    Target::Session(session) => self.slices.put_off(session, Work::Engine),
                    _ => lists.woken.push(owner),
                }
            }
            self.serve_line();
        }
        self.sessions.send_all(|session| self.slices.has_exchanges(session));
    }

    /// Does what is to be done for connections of HTTP/2, while there is time.
    fn serve_line(self: &Rc<Self>) {
        self.slices.serve(Instant::now, |session, work| match work {
            Work::Exchange(seat) => self.poll_seat(seat),
            Work::Engine => self.poll_session(session),
        });
    }

    /// Does what can be done for an exchange; one on a stream stands in line for that with its connection.
    fn call_seat(&self, seat: u32) {
        match self.seats.session(seat) {
            None => {
                self.slices.note_other();
                self.poll_seat(seat);
            }
            Some(session) => self.slices.put_off(session, Work::Exchange(seat)),
        }
    }

    /// Asks for memory that a call of this owner needs: the first step, a few calls before.
    fn expect_soon(&self, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) => self.seats.expect_soon(seat),
            Target::Parked(place) => self.parked.borrow().expect_soon(place),
            _ => {}
        }
    }

    /// The second step: what the first one leads to.
    fn expect_next(&self, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) => self.seats.expect_next(seat),
            Target::Parked(place) => self.parked.borrow().expect_next(place),
            Target::Tunnel(tunnel) => self.tunnels.expect_next(tunnel),
            _ => {}
        }
    }

    fn call(self: &Rc<Self>, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) if self.chunks.is_crowded() && self.laggards.put_off(seat) => {}
            Target::Seat(seat) => self.call_seat(seat),
            Target::Tunnel(tunnel) => self.poll_tunnel(tunnel),
            Target::Session(session) => self.slices.put_off(session, Work::Engine),
            Target::Parked(place) => self.unpark(place),
            Target::Acceptor(door) => {
                let accepted = self.doors.borrow_mut().accept(self, door);
                accepted.into_iter().for_each(|client| self.park_first(client));
            }
            Target::Pool(slot) => {
                if let Some(service) = self.slots.find(slot) {
                    service.sweep();
                }
            }
            Target::Port(port) => self.call_port(port),
            Target::Datagrams(session) => self.call_session(session),
            Target::Destination(slot, index) => {
                let service = self.slots.find(slot);
                service.and_then(|service| service.destinations()).inspect(|all| all.sweep(index));
            }
            Target::Bell => {}
            Target::Refusal(index) => self.doors.borrow_mut().drain_refusal(self, index),
        }
    }

    /// Something that an owner awaits has happened, and it was no event of the reactor.
    fn call_woken(self: &Rc<Self>, owner: Owner) {
        match Target::from(owner) {
            Target::Seat(seat) => self.call_seat(seat),
            Target::Tunnel(tunnel) => self.poll_tunnel(tunnel),
            Target::Session(session) => self.slices.put_off(session, Work::Engine),
            _ => {}
        }
    }
}
