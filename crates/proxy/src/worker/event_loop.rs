//! A turn of a worker: what it is told, whom the reactor calls, who was woken, what is put off.

use crate::state::scheduler::Work;
use crate::state::shared::Command;
use crate::state::token::Token;
use crate::state::worker::Worker;
use std::collections::VecDeque;
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
    told: Vec<Command>,
    commands: VecDeque<Command>,
}

impl Lists {
    /// Whether control has said what has not been heard yet.
    pub(super) fn have_commands(&self) -> bool {
        !self.commands.is_empty()
    }
}

impl Worker {
    /// Serves what is ready now; says whether the worker is to end.
    pub(super) fn turn(self: &Rc<Self>, lists: &mut Lists) -> bool {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.unix_ms.set(unix.as_secs() * 1000 + u64::from(unix.subsec_millis()));
        self.unix_us.set(unix.as_secs() * 1_000_000 + u64::from(unix.subsec_micros()));
        self.handshakes.begin_turn();
        self.scheduler.begin_turn(Instant::now());
        self.udp.begin_turn();
        if self.hear(lists) {
            return true;
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
        for task in self.slow_clients.take_shed() {
            self.poll_task(task);
        }
        for _ in 0..limits::LAGGARDS_PER_TURN {
            let Some(task) = self.slow_clients.next_in_queue() else { break };
            self.poll_task(task);
        }
        self.mailbox().take_woken(&mut lists.woken);
        for owner in lists.woken.drain(..) {
            self.call_woken(owner);
        }
        self.serve_sessions(lists);
        for client in self.subrequests.take() {
            self.task(client, None);
        }
        self.publish();
        self.watch_budget();
        let last = self.acceptors.borrow_mut().close_left(self);
        last.into_iter().for_each(|client| self.park_first(client));
        self.acceptors.borrow_mut().reopen(self);
        false
    }

    /// Does what control has said, before events: a connection that comes after a plan was told to all workers is
    /// served by that plan. Endpoint sets behind everything else take turns with the exchanges, and only the newest one
    /// of a service counts: where many change at a time, nobody waits for all of them. Says whether the worker is to
    /// end.
    fn hear(self: &Rc<Self>, lists: &mut Lists) -> bool {
        self.mailbox().take_messages(&mut lists.told);
        lists.commands.extend(lists.told.drain(..));
        let is_set = |command: &Command| matches!(command, Command::EndpointSet(..));
        let mut owed = lists.commands.iter().rposition(|command| !is_set(command)).map_or(0, |last| last + 1);
        let mut sets = 0;
        while owed > 0 || sets < limits::ENDPOINT_SETS_PER_TURN {
            let Some(command) = lists.commands.pop_front() else { break };
            owed = owed.saturating_sub(1);
            match &command {
                Command::Stop => return true,
                Command::EndpointSet(service, _) => {
                    let next = lists.commands.iter().take_while(|later| is_set(later));
                    if next
                        .into_iter()
                        .any(|later| matches!(later, Command::EndpointSet(id, _) if id == service))
                    {
                        continue;
                    }
                    sets += 1;
                }
                _ => {}
            }
            self.handle(command);
        }
        false
    }

    /// Lets connections of HTTP/2 say together what their streams have said in this turn. Who else has been woken waits
    /// for the next.
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
                match Token::from(owner) {
                    Token::Session(session) => self.scheduler.put_off(session, Work::Engine),
                    _ => lists.woken.push(owner),
                }
            }
            self.serve_line();
        }
        self.sessions.send_all(|session| self.scheduler.has_exchanges(session));
    }

    /// Does what is to be done for connections of HTTP/2, while there is time.
    fn serve_line(self: &Rc<Self>) {
        self.scheduler.serve(Instant::now, |session, work| match work {
            Work::Exchange(task) => self.poll_task(task),
            Work::Engine => self.poll_session(session),
        });
    }

    /// Does what can be done for an exchange; one on a stream stands in line for that with its connection.
    fn call_seat(&self, task: u32) {
        match self.tasks.session(task) {
            None => {
                self.scheduler.note_other();
                self.poll_task(task);
            }
            Some(session) => self.scheduler.put_off(session, Work::Exchange(task)),
        }
    }

    /// Asks for memory that a call of this owner needs: the first step, a few calls before.
    fn expect_soon(&self, owner: Owner) {
        match Token::from(owner) {
            Token::Task(task) => self.tasks.expect_soon(task),
            Token::Idle(place) => self.idle_connections.borrow().expect_soon(place),
            _ => {}
        }
    }

    /// The second step: what the first one leads to.
    fn expect_next(&self, owner: Owner) {
        match Token::from(owner) {
            Token::Task(task) => self.tasks.expect_next(task),
            Token::Idle(place) => self.idle_connections.borrow().expect_next(place),
            Token::Tunnel(tunnel) => self.tunnels.expect_next(tunnel),
            _ => {}
        }
    }

    fn call(self: &Rc<Self>, owner: Owner) {
        match Token::from(owner) {
            Token::Task(task) if self.chunks.is_crowded() && self.slow_clients.put_off(task) => {}
            Token::Task(task) => self.call_seat(task),
            Token::Tunnel(tunnel) => self.poll_tunnel(tunnel),
            Token::Session(session) => self.scheduler.put_off(session, Work::Engine),
            Token::Idle(place) => self.resume(place),
            Token::Acceptor(local_listener) => {
                let accepted = self.acceptors.borrow_mut().accept(self, local_listener);
                accepted.into_iter().for_each(|client| self.park_first(client));
            }
            Token::Pool(slot) => {
                if let Some(service) = self.slots.find(slot) {
                    service.sweep();
                }
            }
            Token::Port(port) => self.call_port(port),
            Token::Datagrams(session) => self.call_session(session),
            Token::Destination(slot, index) => {
                let service = self.slots.find(slot);
                service.and_then(|service| service.destinations()).inspect(|all| all.sweep(index));
            }
            Token::Notifier => {}
            Token::Refusal(index) => self.acceptors.borrow_mut().drain_refusal(self, index),
        }
    }

    /// Something that an owner awaits has happened, and it was no event of the reactor.
    fn call_woken(self: &Rc<Self>, owner: Owner) {
        match Token::from(owner) {
            Token::Task(task) => self.call_seat(task),
            Token::Tunnel(tunnel) => self.poll_tunnel(tunnel),
            Token::Session(session) => self.scheduler.put_off(session, Work::Engine),
            _ => {}
        }
    }
}
