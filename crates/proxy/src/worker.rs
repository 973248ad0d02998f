//! A worker: one thread that accepts connections and serves their exchanges from first to last byte.
//!
//! A turn takes what the reactor has, calls the owners, polls woken tasks and meets deadlines ([`event_loop`]); what
//! control says is heard at its begin ([`commands`]). Everything here belongs to this thread: `Rc`, `Cell` and
//! `RefCell`, no lock and no atomic per exchange but the meters' plain stores.

pub(crate) mod pool;

mod commands;
mod event_loop;

use crate::connection::serve::serve_connection;
use crate::listener::proxy_protocol;
use crate::plan::ListenerProtocol;
use crate::state::exchange::{Client, Exchange};
use crate::state::scheduler::Work;
use crate::state::tasks::{TaskFuture, TaskSlot};
use crate::state::token::Token;
use crate::state::worker::Worker;
use event_loop::Lists;
use rustix::fd::AsFd;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use thalweg_core::limits;
use thalweg_core::limits::FIRST_WORD_TIME;
use thalweg_net::allocator::tidy_up;
use thalweg_net::crash;
use thalweg_observe::Limit;

/// How often a worker says that it lives, flushes its log and trims its memory.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// Bytes of chunks given back at once that are worth tidying up after.
const MUCH: usize = 256 * 1024;

impl Worker {
    /// Runs until it is told to stop.
    pub(crate) fn run(self: Rc<Self>) -> io::Result<()> {
        self.reactor.watch(self.mailbox().as_fd(), Token::Notifier.into())?;
        self.bind_listeners();
        let weak = Rc::downgrade(&self);
        crash::add_words(move |report| {
            if let Some(worker) = weak.upgrade() {
                // A report that cannot be written is not there for anybody.
                let _ = worker.write_last(report);
            }
        });
        let mut lists = Lists::default();
        let mut beat = self.reactor.now() + HEARTBEAT;
        let mut full = false;
        loop {
            let has_more = full
                || self.tunnels.have_more()
                || self.udp.have_more()
                || self.slow_clients.has_queue()
                || !lists.woken.is_empty()
                || lists.have_commands()
                || !self.scheduler.is_empty();
            let sleeps = !has_more && self.mailbox().may_sleep();
            let look = self.pressure.next_look(self.reactor.now(), beat);
            let next = self.reactor.next_deadline().map_or(look, |deadline| deadline.min(look));
            let timeout =
                if sleeps { next.saturating_duration_since(self.reactor.now()) } else { Duration::ZERO };
            let events = self.reactor.wait(Some(timeout), &mut lists.called)?;
            self.mailbox().awake();
            full = events == limits::EVENTS_PER_TURN;
            if self.turn(&mut lists) {
                self.cut_exchanges();
                self.end_sessions();
                self.end_tunnels();
                self.heartbeat(Duration::ZERO);
                return Ok(());
            }
            let now = self.reactor.now();
            if now >= beat {
                self.heartbeat(now.saturating_duration_since(beat));
                beat = now + HEARTBEAT;
            }
        }
    }

    /// Something happened on a silent connection: it has a request, has ended, or was silent too long.
    fn resume(self: &Rc<Self>, place: u32) {
        let mut idle_connections = self.idle_connections.borrow_mut();
        let Some(client) = idle_connections.peek(place) else { return };
        // One that was to say on whose behalf it comes is recorded when it did not.
        let is_owed =
            client.socket.expired() && proxy_protocol::due(client).is_some_and(|policy| policy.required);
        if client.socket.is_readable() || is_owed {
            let Some(client) = idle_connections.remove(place) else { return };
            drop(idle_connections);
            self.task(client, None);
        } else if client.socket.expired() {
            let ended = idle_connections.remove(place);
            drop(idle_connections);
            drop(ended);
        }
    }

    /// Serves a client that has something to say: a stream of `session`, or a connection of its own.
    pub(crate) fn task(self: &Rc<Self>, client: Client, session: Option<u32>) {
        client.socket.rest(false);
        let task = self.tasks.start(client, session, |index, task| self.new_task(index, task));
        match session {
            None => {
                self.scheduler.note_other();
                self.poll_task(task);
            }
            Some(session) => self.scheduler.put_off(session, Work::Exchange(task)),
        }
    }

    /// The future of a task: one conversation after the other.
    fn new_task(self: &Rc<Self>, index: u32, task: Rc<TaskSlot<Client>>) -> TaskFuture {
        let worker = self.clone();
        Box::pin(async move {
            let owner = Token::Task(index).into();
            let mut exchange = Exchange::new(owner);
            loop {
                let client = task.next().await;
                client.socket.set_owner(owner);
                serve_connection(&worker, client, &mut exchange).await;
                worker.held.set(index, 0);
                worker.tasks.finish(index);
            }
        })
    }

    fn poll_task(&self, task: u32) {
        if self.tasks.poll(task).is_err() {
            self.slow_clients.forget(task);
            self.held.set(task, 0);
            self.note_panic();
        }
    }

    /// Lets a new connection wait for its first request. Where endpoints may have the first word, nothing is waited
    /// for.
    pub(crate) fn park_first(self: &Rc<Self>, client: Client) {
        let local_listener = client.listener();
        let begins = !local_listener.is_secure() && proxy_protocol::due(&client).is_none();
        if begins && local_listener.protocol() == ListenerProtocol::Tcp {
            return self.task(client, None);
        }
        let head = self.view.borrow().plan.client_timeouts.head;
        let time = if client.listener().is_leaving() { FIRST_WORD_TIME } else { head };
        self.park_for(client, time);
    }

    /// Ends the exchanges under way: each is recorded.
    fn cut_exchanges(&self) {
        self.cut.set(true);
        (0..self.tasks.len()).for_each(|task| self.poll_task(task));
    }

    fn heartbeat(&self, late: Duration) {
        self.meters.lag_us.set(late.as_micros() as i64);
        self.tasks.trim();
        self.sessions.look();
        let (given_back, is_untidy) = (self.chunks.trim(), self.is_untidy.take());
        if given_back >= MUCH || is_untidy {
            tidy_up();
        }
        self.return_credits();
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.flush();
        }
        let idle: usize = self.view().services().iter().map(|service| service.state.idle()).sum();
        self.meters.upstream_idle.set(idle as i64);
        self.meters.tick(Instant::now());
    }

    fn publish(&self) {
        let load = &self.shared.loads.workers[self.id];
        let active = self.tasks.occupied() + self.tunnels.len();
        load.active.store(active, Relaxed);
        load.upstream.store(self.upstream_open.current(), Relaxed);
        load.fresh.store(self.idle_connections.borrow().fresh(), Relaxed);
        load.multiplexed.store(self.sessions.of_clients(), Relaxed);
        load.bodies.store(self.pressure.bodies.in_use(), Relaxed);
        load.held.store(self.chunks.held() + self.sessions.held() + self.decoders.held(), Relaxed);
        let buffers = self.held.sum() + self.sessions.buffers() + self.reactor.layer_bytes();
        load.buffers.store(buffers, Relaxed);
        (0..self.decoders.take_refused()).for_each(|_| self.meters.limit(Limit::Decoders));
        self.meters.active_exchanges.set(active as i64);
        let idle_connections = self.idle_connections.borrow().len();
        self.meters.idle_connections.set((idle_connections + self.sessions.idle()) as i64);
        let drained = self.draining.get()
            && active == 0
            && idle_connections == 0
            && self.sessions.of_clients() == 0
            && self.udp.len() == 0;
        load.drained.store(drained, Relaxed);
    }
}
