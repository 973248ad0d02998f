//! A bound on what is under way at once: so many places, and a line of those who wait for one.
//!
//! Shared by all workers. Whoever finds a free place takes it with one atomic step; only who finds
//! none, or leaves while somebody waits, touches the lock of the line. A place that is left while
//! somebody waits belongs at once to the first in line, by priority and then by arrival, and its
//! waker is called. Called by `proxy`: for routes and services before an endpoint is chosen, for
//! endpoints with the choice, for connections before one is opened.
//!
//! Invariants, tested over random interleavings: never more places are taken than the limit in
//! force allows; inside a priority the first to come is the first to go; a place that was granted
//! to somebody who has given up goes on to the next; no place is lost and no waiter is forgotten.
//!
//! Why nobody is forgotten: who waits first says so ([`Line::waiting`]) and then looks for a place;
//! who leaves first gives the place back and then asks whether somebody waits. In whichever order
//! these four steps come, at least one of the two sees the other (hence `SeqCst`).
//!
//! Pure: no socket and no clock; how long somebody waits is the caller's matter.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Who goes first when several wait (`routes[].limits.priority`). Within one, the first to come.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// When nobody else waits; the first to make room in a line that is full.
    Low,
}

/// How many priorities there are.
const PRIORITIES: usize = 3;

/// How often in a row the first in line may be passed over by one who can be served with the thing
/// itself; then it is its turn.
const PASSED_OVER: u32 = 16;
/// How far down the line one who can be served is looked for.
const LOOKED_AT: usize = 64;

/// How many may wait at a gate, and for how long (`limits.queue`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueuePolicy {
    /// Most that wait at once, 0–100,000; 0: nobody waits. Default 100.
    pub size: u32,
    /// Longest wait of one; default 1 s.
    pub timeout: Duration,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self { size: 100, timeout: Duration::from_secs(1) }
    }
}

/// Why somebody got no place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turned {
    /// As many wait as may.
    Full,
    /// The line was full, and somebody with a higher priority came.
    Displaced,
    /// It needs none: what it wanted a place for is there for it ([`Line::serve`]).
    Served,
}

/// Those who wait at one gate, or at several of which any will do.
#[derive(Debug)]
pub struct Line {
    waiting: Waiting,
    size: AtomicU32,
    timeout_us: AtomicU64,
    queue: Mutex<Queue>,
}

/// How many wait: read by everyone who enters or leaves, written only when somebody waits.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Waiting(AtomicUsize);

#[derive(Debug, Default)]
struct Queue {
    /// Those who wait, by priority; tickets ascend.
    ranks: [VecDeque<Entry>; PRIORITIES],
    next: u64,
    /// How often in a row the first has been passed over.
    passed: u32,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    waker: Waker,
    wants: usize,
    outcome: Arc<Outcome>,
}

/// What became of a wait.
#[derive(Debug, Default)]
struct Outcome {
    state: AtomicU8,
    gate: OnceLock<Arc<Gate>>,
}

const PENDING: u8 = 0;
const GRANTED: u8 = 1;
const DISPLACED: u8 = 2;
const SERVED: u8 = 3;

impl Queue {
    fn len(&self) -> usize {
        self.ranks.iter().map(VecDeque::len).sum()
    }

    fn pop_first(&mut self) -> Option<Entry> {
        self.passed = 0;
        self.ranks.iter_mut().find_map(VecDeque::pop_front)
    }

    /// The one that came last, of the lowest priority below `priority`.
    fn pop_last_below(&mut self, priority: Priority) -> Option<Entry> {
        self.ranks[priority as usize + 1..].iter_mut().rev().find_map(VecDeque::pop_back)
    }

    fn position(&self, priority: Priority, ticket: u64) -> Option<usize> {
        self.ranks[priority as usize].binary_search_by_key(&ticket, |entry| entry.ticket).ok()
    }
}

impl Line {
    /// A line in which nobody waits.
    pub fn new(policy: QueuePolicy) -> Self {
        let line = Self {
            waiting: Waiting::default(),
            size: AtomicU32::new(0),
            timeout_us: AtomicU64::new(0),
            queue: Mutex::default(),
        };
        line.set_policy(policy);
        line
    }

    /// From now on this many may wait, this long. Who waits already stays.
    pub fn set_policy(&self, policy: QueuePolicy) {
        self.size.store(policy.size, Relaxed);
        let us = u64::try_from(policy.timeout.as_micros()).unwrap_or(u64::MAX);
        self.timeout_us.store(us, Relaxed);
    }

    /// The longest wait.
    pub fn timeout(&self) -> Duration {
        Duration::from_micros(self.timeout_us.load(Relaxed))
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.0.load(SeqCst)
    }

    /// As [`Self::join_for`], for a place and nothing else.
    ///
    /// # Errors
    /// As there.
    pub fn join(self: &Arc<Self>, priority: Priority, waker: &Waker) -> Result<Wait, Turned> {
        self.join_for(0, priority, waker)
    }

    /// Waits in line. `wants` is what else would do, as far as [`Self::serve`] is told; 0: nothing. The caller then has to look whether a place is free ([`Entrance::offer`]):
    /// only those that are left from now on come to the line by themselves.
    ///
    /// # Errors
    /// [`Turned::Full`] when as many wait as may and none of them has a lower priority.
    pub fn join_for(
        self: &Arc<Self>,
        wants: usize,
        priority: Priority,
        waker: &Waker,
    ) -> Result<Wait, Turned> {
        let mut queue = self.lock();
        let mut displaced = None;
        if queue.len() >= self.size.load(Relaxed) as usize {
            displaced = Some(queue.pop_last_below(priority).ok_or(Turned::Full)?);
        }
        let ticket = queue.next;
        queue.next += 1;
        let outcome = Arc::<Outcome>::default();
        let entry = Entry { ticket, waker: waker.clone(), wants, outcome: outcome.clone() };
        queue.ranks[priority as usize].push_back(entry);
        self.tell(&queue);
        if let Some(entry) = &displaced {
            entry.outcome.state.store(DISPLACED, Release);
        }
        drop(queue);
        if let Some(entry) = displaced {
            entry.waker.wake();
        }
        Ok(Wait { line: self.clone(), priority, ticket, waker: waker.clone(), outcome, over: false })
    }

    /// Takes the first who wants this very thing out of the line: it is there for them now, and its place
    /// with it. Says whether there was somebody. Nobody of a higher priority is passed over, and the first
    /// in line not more than 16 times in a row: who wants the thing elsewhere gets a turn too.
    pub fn serve(&self, wants: usize) -> bool {
        let mut queue = self.lock();
        let Some(rank) = queue.ranks.iter().position(|rank| !rank.is_empty()) else { return false };
        let looked_at = if queue.passed < PASSED_OVER { LOOKED_AT } else { 1 };
        let found = queue.ranks[rank].iter().take(looked_at).position(|entry| entry.wants == wants);
        let Some(entry) = found.and_then(|at| queue.ranks[rank].remove(at)) else { return false };
        queue.passed = if found == Some(0) { 0 } else { queue.passed + 1 };
        self.tell(&queue);
        entry.outcome.state.store(SERVED, Release);
        drop(queue);
        entry.waker.wake();
        true
    }

    fn tell(&self, queue: &Queue) {
        self.waiting.0.store(queue.len(), SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing can panic while it is held; were it otherwise, the queue would still be whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places themselves, on a cache line of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Places {
    taken: AtomicU32,
    limit: AtomicU32,
    /// Places that are left wait for an offer.
    shunned: AtomicBool,
}

/// So many places, shared by all workers.
#[derive(Debug)]
pub struct Gate {
    places: Places,
    line: Arc<Line>,
}

impl Gate {
    /// A gate with `limit` places, all of them free, and the line in which one waits for them.
    pub fn new(limit: u32, line: Arc<Line>) -> Arc<Self> {
        let (taken, limit) = (AtomicU32::new(0), AtomicU32::new(limit));
        Arc::new(Self { places: Places { taken, limit, shunned: AtomicBool::new(false) }, line })
    }

    /// From now on there are this many places. Who has one keeps it: until enough have left there may
    /// be more of them than places. Places that are new go to those who wait.
    pub fn set_limit(self: &Arc<Self>, limit: u32) {
        self.places.limit.store(limit, SeqCst);
        self.hand_out();
    }

    /// Places taken now.
    pub fn taken(&self) -> u32 {
        self.places.taken.load(Relaxed)
    }

    /// Whether every place is taken.
    pub fn is_full(&self) -> bool {
        self.taken() >= self.places.limit.load(Relaxed)
    }

    /// What is behind the gate does not work: its places are no longer handed to those who wait, until
    /// somebody offers them again ([`Entrance::offer`]). They would all run into the same wall.
    pub fn shun(&self) {
        self.places.shunned.store(true, Relaxed);
    }

    /// The line in which one waits for a place.
    pub fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Takes a place, whoever waits.
    fn take(&self) -> bool {
        let limit = self.places.limit.load(SeqCst);
        let step = |taken| (taken < limit).then(|| taken + 1);
        self.places.taken.fetch_update(SeqCst, SeqCst, step).is_ok()
    }

    fn leave(self: &Arc<Self>) {
        self.places.taken.fetch_sub(1, SeqCst);
        if self.line.waiting() > 0 && !self.places.shunned.load(Relaxed) {
            self.hand_out();
        }
    }

    /// Gives free places to those who wait, the first in line first.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let mut queue = self.line.lock();
            if queue.len() == 0 || !self.take() {
                return;
            }
            let first = queue.pop_first();
            self.line.tell(&queue);
            if let Some(entry) = &first {
                let _ = entry.outcome.gate.set(self.clone());
                entry.outcome.state.store(GRANTED, Release);
            }
            drop(queue);
            match first {
                Some(entry) => entry.waker.wake(),
                None => return,
            }
        }
    }
}

/// A worker's own pointer to a gate: copied without an atomic step.
#[derive(Clone, Debug)]
#[expect(
    clippy::redundant_allocation,
    reason = "copying the inner pointer is an atomic step on a shared line"
)]
pub struct Entrance(Rc<Arc<Gate>>);

impl Entrance {
    /// An entrance to `gate`.
    pub fn new(gate: Arc<Gate>) -> Self {
        Self(Rc::new(gate))
    }

    /// A place, if one is free and nobody waits for it.
    pub fn enter(&self) -> Option<Permit> {
        (self.0.line.waiting() == 0 && self.0.take()).then(|| Permit(self.0.clone()))
    }

    /// Offers what is free to those who wait: to be called after [`Line::join`].
    pub fn offer(&self) {
        self.0.places.shunned.store(false, Relaxed);
        self.0.hand_out();
    }

    /// The gate.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.0
    }
}

/// A place at a gate; dropping it leaves.
#[derive(Debug)]
#[expect(clippy::redundant_allocation, reason = "as in `Entrance`")]
pub struct Permit(Rc<Arc<Gate>>);

impl Permit {
    /// The gate.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.0
    }

    /// Whether somebody waits for this place.
    pub fn is_wanted(&self) -> bool {
        self.0.line.waiting() > 0
    }

    /// [`Line::serve`] of its line.
    pub fn serve(&self, wants: usize) -> bool {
        self.is_wanted() && self.0.line.serve(wants)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Somebody in line. Dropping it gives up: a place that was granted meanwhile goes to the next.
#[derive(Debug)]
pub struct Wait {
    line: Arc<Line>,
    priority: Priority,
    ticket: u64,
    waker: Waker,
    outcome: Arc<Outcome>,
    /// The outcome has been taken.
    over: bool,
}

impl Wait {
    /// The place, once it is granted. Cancel-safe.
    ///
    /// # Errors
    /// [`Turned::Displaced`] when somebody with a higher priority came to a full line, [`Turned::Served`]
    /// when no place is needed any more.
    pub fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Permit, Turned>> {
        if self.outcome.state.load(Acquire) == PENDING && !self.waker.will_wake(context.waker()) {
            self.waker.clone_from(context.waker());
            let mut queue = self.line.lock();
            if let Some(at) = queue.position(self.priority, self.ticket) {
                queue.ranks[self.priority as usize][at].waker.clone_from(&self.waker);
            }
        }
        match self.outcome.state.load(Acquire) {
            PENDING => Poll::Pending,
            GRANTED if !self.over => {
                self.over = true;
                let gate = self.outcome.gate.get().cloned();
                Poll::Ready(gate.map(|gate| Permit(Rc::new(gate))).ok_or(Turned::Displaced))
            }
            SERVED => {
                self.over = true;
                Poll::Ready(Err(Turned::Served))
            }
            _ => {
                self.over = true;
                Poll::Ready(Err(Turned::Displaced))
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut queue = self.line.lock();
        if let Some(at) = queue.position(self.priority, self.ticket) {
            drop(queue.ranks[self.priority as usize].remove(at));
            self.line.tell(&queue);
            return;
        }
        drop(queue);
        if let Some(gate) = self.outcome.gate.get() {
            gate.leave();
        }
    }
}

#[cfg(test)]
mod tests;
