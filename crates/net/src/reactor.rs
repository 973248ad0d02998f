//! Readiness and deadlines of a worker's sockets.
//!
//! A source is a registered descriptor. It has readiness bits (set by events, cleared by the socket
//! when the kernel has no more), at most one deadline, and an owner: a number that the worker gave
//! it and gets back when something happened. One event means one call of the owner, whatever it
//! waits for; nothing is allocated, woken or queued per event.
//!
//! Invariant (the lost edge is the classic bug of edge-triggered code): only [`Reactor::wait`] sets
//! READ and WRITE, and a call that is about to ask the kernel itself; only a call that met EAGAIN or moved less than
//! asked clears them.

use crate::layered::Staging;
use crate::socket::SocketId;
use crate::timer_wheel::{Entry, NEVER, TICK_MS, Wheels};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};
use thalweg_core::limits::EVENTS_PER_TURN;

/// Who is called when a source is ready or its deadline has passed: a number of the worker's choice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Owner(pub u64);

/// Readiness of a source.
pub(crate) mod ready {
    /// Bytes, an end or an error can be read.
    pub(crate) const READ: u8 = 1;
    /// Bytes can be written.
    pub(crate) const WRITE: u8 = 2;
    /// The peer has closed its sending side, or the connection is gone.
    pub(crate) const PEER_CLOSED: u8 = 4;
    /// The connection is gone in both directions (reset or error).
    pub(crate) const GONE: u8 = 8;
    /// The deadline has passed and nobody has asked yet.
    pub(crate) const EXPIRED: u8 = 16;
    /// Urgent data has come: a receive stops at its mark, so a short one empties nothing.
    pub(crate) const URGENT: u8 = 32;
}

#[derive(Debug)]
struct Source {
    readiness: Cell<u8>,
    generation: Cell<u32>,
    /// In milliseconds from the reactor's start; a coarse one is a multiple of [`TICK_MS`].
    deadline: Cell<u64>,
    /// The time for which an entry stands in a wheel, [`NEVER`] for none.
    armed: Cell<u64>,
    owner: Cell<Owner>,
}

/// One epoll instance with its sources and deadlines; belongs to one thread.
pub struct Reactor {
    epoll: OwnedFd,
    sources: RefCell<Vec<Source>>,
    free: RefCell<Vec<u32>>,
    wheel: RefCell<Wheels>,
    events: RefCell<Vec<epoll::Event>>,
    staging: RefCell<Staging>,
    /// Bytes in the TLS layers of its sockets.
    layer_bytes: Cell<usize>,
    started: Instant,
    now: Cell<Instant>,
    /// The same in milliseconds from the start.
    now_ms: Cell<u64>,
}

impl Reactor {
    /// A reactor without sources.
    ///
    /// # Errors
    /// When the kernel refuses an epoll descriptor.
    pub fn new() -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sources: RefCell::default(),
            free: RefCell::default(),
            wheel: RefCell::new(Wheels::new()),
            events: RefCell::new(Vec::with_capacity(EVENTS_PER_TURN)),
            staging: RefCell::default(),
            layer_bytes: Cell::new(0),
            started: now,
            now: Cell::new(now),
            now_ms: Cell::new(0),
        })
    }

    /// Watches a descriptor that rings: every write to it calls the owner once, nothing is read.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub fn watch(&self, fd: BorrowedFd<'_>, owner: Owner) -> io::Result<()> {
        self.register(fd, owner, 0, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(())
    }

    /// The time of the last [`Self::wait`].
    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// The time from the reactor's start to the last [`Self::wait`].
    pub fn elapsed(&self) -> Duration {
        self.now.get().saturating_duration_since(self.started)
    }

    /// Waits until something is ready, at most `timeout` (`None`: for ever), and puts the owners to
    /// call into `called`. Says how many events there were.
    ///
    /// # Errors
    /// When epoll fails, which it only does for a bug of ours.
    pub fn wait(&self, timeout: Option<Duration>, called: &mut Vec<Owner>) -> io::Result<usize> {
        let mut events = self.events.borrow_mut();
        events.clear();
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().min(3600) as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = Instant::now();
        self.now.set(now);
        self.now_ms.set(millis(now.saturating_duration_since(self.started)));
        let sources = self.sources.borrow();
        for event in &*events {
            let key = event.data.u64();
            let Some(source) = find(&sources, key) else { continue };
            source.readiness.set(source.readiness.get() | readiness_of(event.flags));
            called.push(source.owner.get());
        }
        Ok(events.len())
    }

    /// Puts the owners whose deadline has passed into `called`.
    pub fn expire(&self, called: &mut Vec<Owner>) {
        let now = self.now_ms.get();
        let mut wheel = self.wheel.borrow_mut();
        let sources = self.sources.borrow();
        while let Some(entries) = wheel.take_due(now) {
            for &Entry { key, at } in &entries.list {
                let Some(source) = find(&sources, key) else { continue };
                if source.armed.get() != at {
                    continue;
                }
                source.armed.set(NEVER);
                let deadline = source.deadline.get();
                if deadline <= now {
                    source.deadline.set(NEVER);
                    source.readiness.set(source.readiness.get() | ready::EXPIRED);
                    called.push(source.owner.get());
                } else if deadline != NEVER {
                    source.armed.set(wheel.push(key, deadline));
                }
            }
            wheel.recycle(entries);
        }
        wheel.follow(now);
    }

    /// Makes the deadline of a socket pass now. Its owner is not called: that is for the caller to see to.
    pub fn expire_now(&self, socket: SocketId) {
        if let Some(source) = self.sources.borrow().get(socket.0 as usize) {
            source.deadline.set(NEVER);
            source.readiness.set(source.readiness.get() | ready::EXPIRED);
        }
    }

    /// When [`Self::expire`] has something to do next; `None`: not before something is set.
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.wheel.borrow().next_occupied()?;
        Some(self.started + Duration::from_millis(next))
    }

    /// Registers a descriptor, edge-triggered for both directions.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, owner: Owner, readiness: u8) -> io::Result<u32> {
        use epoll::EventFlags as F;
        self.register(fd, owner, readiness, F::IN | F::OUT | F::RDHUP | F::PRI | F::ET)
    }

    /// Registers a listening descriptor: level-triggered, so that what is left waits for the next turn.
    pub(crate) fn add_listener(&self, fd: BorrowedFd<'_>, owner: Owner, shared: bool) -> io::Result<u32> {
        use epoll::EventFlags as F;
        self.register(fd, owner, 0, if shared { F::IN | F::EXCLUSIVE } else { F::IN })
    }

    /// Registers a descriptor of datagrams, edge-triggered for what is received alone: there is nothing to wait for
    /// before one is sent.
    pub(crate) fn add_datagrams(&self, fd: BorrowedFd<'_>, owner: Owner) -> io::Result<u32> {
        self.register(fd, owner, 0, epoll::EventFlags::IN | epoll::EventFlags::ET)
    }

    fn register(
        &self,
        fd: BorrowedFd<'_>,
        owner: Owner,
        readiness: u8,
        flags: epoll::EventFlags,
    ) -> io::Result<u32> {
        let (id, key) = self.occupy(owner, readiness);
        if let Err(error) = epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), flags) {
            self.free.borrow_mut().push(id);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Makes a source without a descriptor: it has a deadline, and no events.
    pub(crate) fn add_timer(&self, owner: Owner) -> u32 {
        self.occupy(owner, 0).0
    }

    fn occupy(&self, owner: Owner, readiness: u8) -> (u32, u64) {
        let mut sources = self.sources.borrow_mut();
        let id = self.free.borrow_mut().pop().unwrap_or(sources.len() as u32);
        if id as usize == sources.len() {
            sources.push(Source {
                readiness: Cell::new(0),
                generation: Cell::new(0),
                deadline: Cell::new(NEVER),
                armed: Cell::new(NEVER),
                owner: Cell::new(owner),
            });
        }
        let source = &sources[id as usize];
        source.readiness.set(readiness);
        source.owner.set(owner);
        (id, key_of(id, source.generation.get()))
    }

    /// Forgets a source; its descriptor is closed by the caller right after, or stays in no epoll set.
    pub(crate) fn remove(&self, id: u32, fd: Option<BorrowedFd<'_>>) {
        if let Some(fd) = fd {
            let _ = epoll::delete(&self.epoll, fd);
        }
        let sources = self.sources.borrow();
        let source = &sources[id as usize];
        source.generation.set(source.generation.get().wrapping_add(1));
        source.deadline.set(NEVER);
        source.armed.set(NEVER);
        self.free.borrow_mut().push(id);
    }

    /// Calls nobody for a descriptor any more, although it stays open.
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>) {
        // It can only fail for a descriptor that is not watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    pub(crate) fn readiness(&self, id: u32) -> u8 {
        self.sources.borrow()[id as usize].readiness.get()
    }

    /// Bytes in the TLS layers of its sockets: incomplete records, and encrypted ones that wait to be sent.
    pub fn layer_bytes(&self) -> usize {
        self.layer_bytes.get()
    }

    /// Updates the count of a layer that held `before` bytes and now holds `now`.
    pub(crate) fn count_layer(&self, before: usize, now: usize) {
        self.layer_bytes.set(self.layer_bytes.get() - before + now);
    }

    /// Where records of layers pass through.
    pub(crate) fn staging(&self) -> &RefCell<Staging> {
        &self.staging
    }

    /// Has the next call ask the kernel, whatever events have told.
    pub(crate) fn set(&self, id: u32, bits: u8) {
        let sources = self.sources.borrow();
        let readiness = &sources[id as usize].readiness;
        readiness.set(readiness.get() | bits);
    }

    pub(crate) fn clear(&self, id: u32, bits: u8) {
        let sources = self.sources.borrow();
        let readiness = &sources[id as usize].readiness;
        readiness.set(readiness.get() & !bits);
    }

    pub(crate) fn set_owner(&self, id: u32, owner: Owner) {
        self.sources.borrow()[id as usize].owner.set(owner);
    }

    /// Sets the deadline, met up to two ticks of the coarse wheel late.
    pub(crate) fn set_deadline(&self, id: u32, after: Option<Duration>) {
        let tick = (self.now_ms.get() / TICK_MS + 2).saturating_add(after.map_or(0, millis) / TICK_MS);
        self.put_deadline(id, after.map(|_| tick.saturating_mul(TICK_MS)));
    }

    /// The same, met up to a millisecond late: for waits of that order.
    pub(crate) fn set_exact_deadline(&self, id: u32, after: Duration) {
        let at = self.elapsed().saturating_add(after).saturating_add(Duration::from_nanos(999_999));
        self.put_deadline(id, Some(millis(at)));
    }

    fn put_deadline(&self, id: u32, at: Option<u64>) {
        let sources = self.sources.borrow();
        let source = &sources[id as usize];
        source.readiness.set(source.readiness.get() & !ready::EXPIRED);
        let Some(at) = at else { return source.deadline.set(NEVER) };
        let at = at.min(NEVER - 1);
        source.deadline.set(at);
        if at < source.armed.get() {
            let key = key_of(id, source.generation.get());
            source.armed.set(self.wheel.borrow_mut().push(key, at));
        }
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("sources", &self.sources.borrow().len()).finish_non_exhaustive()
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Whole milliseconds in a time.
fn millis(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(u64::from(time.subsec_millis()))
}

fn key_of(id: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(id)
}

fn find(sources: &[Source], key: u64) -> Option<&Source> {
    let source = sources.get(key as u32 as usize)?;
    (u64::from(source.generation.get()) == key >> 32).then_some(source)
}

fn readiness_of(flags: epoll::EventFlags) -> u8 {
    use epoll::EventFlags as F;
    let mut bits = 0;
    if flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) {
        bits |= ready::READ;
    }
    if flags.intersects(F::OUT | F::HUP | F::ERR) {
        bits |= ready::WRITE;
    }
    if flags.intersects(F::RDHUP | F::HUP | F::ERR) {
        bits |= ready::PEER_CLOSED;
    }
    if flags.intersects(F::HUP | F::ERR) {
        bits |= ready::GONE;
    }
    if flags.intersects(F::PRI) {
        bits |= ready::URGENT | ready::READ;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait of 20 ms is one of 20 ms: a deadline may be coarse only where nobody waits for it to pass.
    #[test]
    fn an_exact_deadline_is_a_millisecond_late_at_most_and_a_coarse_one_two_ticks() {
        let reactor = Reactor::new().unwrap();
        for after in [1, 10, 16, 20, 50, 1_000, 3_000].map(Duration::from_millis) {
            reactor.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
            let id = reactor.add_timer(Owner(1));
            let late = || {
                let at = reactor.sources.borrow()[id as usize].deadline.get();
                Duration::from_millis(at).checked_sub(reactor.elapsed() + after).expect("not early")
            };
            reactor.set_exact_deadline(id, after);
            assert!(late() <= Duration::from_millis(1), "{after:?}: {:?}", late());
            reactor.set_deadline(id, Some(after));
            assert!(late() <= Duration::from_millis(2 * TICK_MS), "{after:?}: {:?}", late());
            reactor.remove(id, None);
        }
    }
}
