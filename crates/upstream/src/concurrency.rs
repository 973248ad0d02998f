//! A bound on what is under way at once: so many places, and a line of those who wait for one.
//!
//! Shared by all workers. Whoever finds a free place takes it with one atomic step; only who finds
//! none, or leaves while somebody waits, touches the lock of the line. A place that is left while
//! somebody waits belongs at once to the first in line, by priority and then by arrival, and its
//! waker is called. Called by `proxy`: for routes and services before an endpoint is chosen, for
//! endpoints with the choice, for connections before one is opened. Who waits to open a connection can
//! be given one instead that is no longer in use, with the places that it holds ([`WaitQueue::give`]).
//!
//! Invariants, tested over random interleavings: never more places are taken than the limit in
//! force allows; inside a priority the first to come is the first to go; a place that was granted
//! to somebody who has given up goes on to the next; no place is lost and no waiter is forgotten.
//!
//! Why nobody is forgotten: who waits first says so ([`WaitQueue::waiting`]) and then looks for a place;
//! who leaves first gives the place back and then asks whether somebody waits. In whichever order
//! these four steps come, at least one of the two sees the other (hence `SeqCst`).
//!
//! Pure: no socket and no clock; how long somebody waits is the caller's matter.

use crate::policy::{Priority, QueuePolicy};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How many priorities there are.
const PRIORITIES: usize = 3;

/// How often in a row the first in line may be passed over by one who can be given the thing itself;
/// then it is its turn.
const PASSED_OVER: u32 = 16;
/// How far down the line one who wants the thing is looked for.
const LOOKED_AT: usize = 64;

/// What somebody in line can be given instead of a place, whichever worker they wait on.
pub trait Alternative: Debug + Send {
    /// Which of them will do.
    type Kind: Debug + PartialEq + Send;
}

/// Why somebody got no place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejected {
    /// As many wait as may.
    Full,
    /// The line was full, and somebody with a higher priority came.
    Displaced,
}

/// What somebody in line waits for.
#[derive(Debug)]
pub struct WaitFor<T: Alternative> {
    /// A thing of this kind would do instead of a place.
    pub thing: Option<T::Kind>,
    /// Only the places of these concurrency limits ([`ConcurrencyLimit::key`]); `None`: of any concurrency limit of the
    /// line. After a reload a line may have concurrency limits that are of no use to who came before.
    pub concurrency_limits: Option<Box<[LimitKey]>>,
}

/// What tells a concurrency limit from all others that live.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LimitKey(usize);

impl<T: Alternative> Default for WaitFor<T> {
    fn default() -> Self {
        Self { thing: None, concurrency_limits: None }
    }
}

impl<T: Alternative> WaitFor<T> {
    fn accepts(&self, concurrency: LimitKey) -> bool {
        self.concurrency_limits
            .as_ref()
            .is_none_or(|concurrency_limits| concurrency_limits.contains(&concurrency))
    }
}

/// How a wait ended well.
#[derive(Debug)]
pub enum Acquired<T: Alternative> {
    /// A place.
    Place(Permit<T>),
    /// No place is needed: this is what it was wanted for.
    Alternative(T),
}

/// Those who wait at one concurrency limit, or at several of which any will do.
#[derive(Debug)]
pub struct WaitQueue<T: Alternative> {
    waiting: Waiting,
    size: AtomicU32,
    timeout_us: AtomicU64,
    queue: Mutex<Queue<T>>,
}

/// How many wait: read by everyone who enters or leaves, written only when somebody waits.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Waiting(AtomicUsize);

#[derive(Debug)]
struct Queue<T: Alternative> {
    /// Those who wait, by priority; tickets ascend.
    ranks: [VecDeque<Entry<T>>; PRIORITIES],
    next: u64,
    /// How often in a row the first has been passed over.
    passed: u32,
}

#[derive(Debug)]
struct Entry<T: Alternative> {
    ticket: u64,
    waker: Waker,
    wish: WaitFor<T>,
    outcome: Arc<Outcome<T>>,
}

/// What became of a wait: written once, under the lock of the line, by who takes it out of the line.
#[derive(Debug)]
struct Outcome<T: Alternative> {
    state: AtomicU8,
    /// Until somebody takes it.
    granted: Mutex<Option<Granted<T>>>,
}

#[derive(Debug)]
enum Granted<T: Alternative> {
    Place(Arc<ConcurrencyLimit<T>>),
    Alternative(T),
}

const PENDING: u8 = 0;
const GRANTED: u8 = 1;
const DISPLACED: u8 = 2;

impl<T: Alternative> Outcome<T> {
    fn grant(&self, granted: Granted<T>) {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(granted);
        self.state.store(GRANTED, Release);
    }

    fn take(&self) -> Option<Granted<T>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Alternative> Queue<T> {
    fn new() -> Self {
        Self { ranks: std::array::from_fn(|_| VecDeque::new()), next: 0, passed: 0 }
    }

    fn len(&self) -> usize {
        self.ranks.iter().map(VecDeque::len).sum()
    }

    /// The rank and the position of the first who can use a place of this concurrency limit.
    fn first_for(&self, concurrency: LimitKey) -> Option<(usize, usize)> {
        let mut ranks = self.ranks.iter().enumerate();
        let position =
            |entries: &VecDeque<Entry<T>>| entries.iter().position(|entry| entry.wish.accepts(concurrency));
        ranks.find_map(|(rank, entries)| position(entries).map(|at| (rank, at)))
    }

    fn remove(&mut self, (rank, at): (usize, usize)) -> Option<Entry<T>> {
        self.passed = if at == 0 { 0 } else { self.passed.saturating_add(1) };
        self.ranks[rank].remove(at)
    }

    /// The one that came last, of the lowest priority below `priority`.
    fn pop_last_below(&mut self, priority: Priority) -> Option<Entry<T>> {
        self.ranks[priority as usize + 1..].iter_mut().rev().find_map(VecDeque::pop_back)
    }

    fn position(&self, priority: Priority, ticket: u64) -> Option<usize> {
        self.ranks[priority as usize].binary_search_by_key(&ticket, |entry| entry.ticket).ok()
    }

    /// The rank and the position of the first who may be given a thing of this kind.
    fn first_who_wants(&self, kind: &T::Kind) -> Option<(usize, usize)> {
        let rank = self.ranks.iter().position(|rank| !rank.is_empty())?;
        let looked_at = if self.passed < PASSED_OVER { LOOKED_AT } else { 1 };
        let mut entries = self.ranks[rank].iter().take(looked_at);
        entries.position(|entry| entry.wish.thing.as_ref() == Some(kind)).map(|at| (rank, at))
    }
}

impl<T: Alternative> WaitQueue<T> {
    /// A line in which nobody waits.
    pub fn new(policy: QueuePolicy) -> Self {
        let line = Self {
            waiting: Waiting::default(),
            size: AtomicU32::new(0),
            timeout_us: AtomicU64::new(0),
            queue: Mutex::new(Queue::new()),
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

    /// As [`Self::join_for`], for a place at any of its concurrency limits and nothing else.
    ///
    /// # Errors
    /// As there.
    pub fn join(self: &Arc<Self>, priority: Priority, waker: &Waker) -> Result<Wait<T>, Rejected> {
        self.join_for(WaitFor::default(), priority, waker)
    }

    /// Waits in line. The caller then has to look whether a place is free ([`LimitHandle::offer`]): only those
    /// that are left from now on come to the line by themselves.
    ///
    /// # Errors
    /// [`Rejected::Full`] when as many wait as may and none of them has a lower priority.
    pub fn join_for(
        self: &Arc<Self>,
        wish: WaitFor<T>,
        priority: Priority,
        waker: &Waker,
    ) -> Result<Wait<T>, Rejected> {
        let mut queue = self.lock();
        let mut displaced = None;
        if queue.len() >= self.size.load(Relaxed) as usize {
            displaced = Some(queue.pop_last_below(priority).ok_or(Rejected::Full)?);
        }
        let ticket = queue.next;
        queue.next += 1;
        let outcome = Arc::new(Outcome { state: AtomicU8::new(PENDING), granted: Mutex::new(None) });
        let entry = Entry { ticket, waker: waker.clone(), wish, outcome: outcome.clone() };
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

    /// Whether [`Self::give`] would find somebody now.
    pub fn wants(&self, kind: &T::Kind) -> bool {
        self.waiting() > 0 && self.lock().first_who_wants(kind).is_some()
    }

    /// Gives the thing to the first who wants one of its kind, and with it the places that it holds.
    /// Nobody of a higher priority is passed over, and the first in line not more than 16 times in a row:
    /// who wants something else gets a turn too.
    ///
    /// # Errors
    /// The thing, when there is nobody.
    pub fn give(&self, kind: &T::Kind, thing: T) -> Result<(), T> {
        let mut queue = self.lock();
        let Some(entry) = queue.first_who_wants(kind).and_then(|first| queue.remove(first)) else {
            return Err(thing);
        };
        self.tell(&queue);
        entry.outcome.grant(Granted::Alternative(thing));
        drop(queue);
        entry.waker.wake();
        Ok(())
    }

    fn tell(&self, queue: &Queue<T>) {
        self.waiting.0.store(queue.len(), SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
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
    /// Most that were taken at once since the last look.
    peak: AtomicU32,
    /// Places that are left wait for an offer.
    shunned: AtomicBool,
}

/// So many places, shared by all workers.
#[derive(Debug)]
pub struct ConcurrencyLimit<T: Alternative> {
    places: Places,
    line: Arc<WaitQueue<T>>,
}

impl<T: Alternative> ConcurrencyLimit<T> {
    /// A concurrency limit with `limit` places, all of them free, and the line in which one waits for them.
    pub fn new(limit: u32, line: Arc<WaitQueue<T>>) -> Arc<Self> {
        let (taken, limit, peak) = (AtomicU32::new(0), AtomicU32::new(limit), AtomicU32::new(0));
        Arc::new(Self { places: Places { taken, limit, peak, shunned: AtomicBool::new(false) }, line })
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

    /// How many places there are.
    pub fn limit(&self) -> u32 {
        self.places.limit.load(Relaxed)
    }

    /// Most places that were taken at once since the last call.
    pub fn take_peak(&self) -> u32 {
        let taken = self.taken();
        self.places.peak.swap(taken, Relaxed).max(taken)
    }

    /// Whether every place is taken.
    pub fn is_full(&self) -> bool {
        self.taken() >= self.places.limit.load(Relaxed)
    }

    /// What is behind the concurrency limit does not work: its places are no longer handed to those who wait, until
    /// somebody offers them again ([`LimitHandle::offer`]). They would all run into the same wall.
    pub fn shun(&self) {
        self.places.shunned.store(true, Relaxed);
    }

    /// What tells it from all others that live.
    pub fn key(self: &Arc<Self>) -> LimitKey {
        LimitKey(Arc::as_ptr(self) as usize)
    }

    /// The line in which one waits for a place.
    pub fn line(&self) -> &Arc<WaitQueue<T>> {
        &self.line
    }

    /// Takes a place, whoever waits.
    fn take(&self) -> bool {
        let limit = self.places.limit.load(SeqCst);
        let step = |taken| (taken < limit).then(|| taken + 1);
        let before = self.places.taken.fetch_update(SeqCst, SeqCst, step);
        if let Ok(before) = before
            && before >= self.places.peak.load(Relaxed)
        {
            self.places.peak.fetch_max(before + 1, Relaxed);
        }
        before.is_ok()
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
            let Some(first) = queue.first_for(self.key()) else { return };
            if !self.take() {
                return;
            }
            let first = queue.remove(first);
            self.line.tell(&queue);
            if let Some(entry) = &first {
                entry.outcome.grant(Granted::Place(self.clone()));
            }
            drop(queue);
            match first {
                Some(entry) => entry.waker.wake(),
                None => return,
            }
        }
    }
}

/// A worker's own pointer to a concurrency limit: a permit copies it without an atomic step.
#[derive(Debug)]
#[expect(
    clippy::redundant_allocation,
    reason = "copying the inner pointer is an atomic step on a shared line"
)]
pub struct LimitHandle<T: Alternative>(Rc<Arc<ConcurrencyLimit<T>>>);

impl<T: Alternative> LimitHandle<T> {
    /// An handle of a limit to `concurrency`.
    pub fn new(concurrency: Arc<ConcurrencyLimit<T>>) -> Self {
        Self(Rc::new(concurrency))
    }

    /// A place, if one is free and nobody waits for it.
    pub fn enter(&self) -> Option<Permit<T>> {
        (self.0.line.waiting() == 0 && self.0.take()).then(|| Permit::new(self.0.clone()))
    }

    /// As [`Self::enter`]; where every place is taken and nobody waits, after `make_room` has made one free.
    pub fn enter_after(&self, make_room: impl FnOnce() -> bool) -> Option<Permit<T>> {
        self.enter().or_else(|| (self.0.line.waiting() == 0 && make_room()).then(|| self.enter())?)
    }

    /// Offers what is free to those who wait: to be called after [`WaitQueue::join`].
    pub fn offer(&self) {
        self.0.places.shunned.store(false, Relaxed);
        self.0.hand_out();
    }

    /// The concurrency limit.
    pub fn concurrency(&self) -> &Arc<ConcurrencyLimit<T>> {
        &self.0
    }
}

/// A place at a concurrency limit; dropping it leaves.
#[derive(Debug)]
#[expect(clippy::redundant_allocation, reason = "as in `LimitHandle`")]
pub struct Permit<T: Alternative> {
    concurrency: Rc<Arc<ConcurrencyLimit<T>>>,
    /// The place is somebody else's now.
    passed_on: bool,
}

#[expect(clippy::redundant_allocation, reason = "as in `LimitHandle`")]
impl<T: Alternative> Permit<T> {
    fn new(concurrency: Rc<Arc<ConcurrencyLimit<T>>>) -> Self {
        Self { concurrency, passed_on: false }
    }

    /// The concurrency limit.
    pub fn concurrency(&self) -> &Arc<ConcurrencyLimit<T>> {
        &self.concurrency
    }

    /// The same place, for something that can go to another worker.
    pub fn stay(mut self) -> OwnedPermit<T> {
        self.passed_on = true;
        OwnedPermit(Arc::clone(&self.concurrency))
    }
}

impl<T: Alternative> Drop for Permit<T> {
    fn drop(&mut self) {
        if !self.passed_on {
            self.concurrency.leave();
        }
    }
}

/// A place at a concurrency limit, taken by something that can go to another worker; dropping it leaves.
#[derive(Debug)]
pub struct OwnedPermit<T: Alternative>(Arc<ConcurrencyLimit<T>>);

impl<T: Alternative> OwnedPermit<T> {
    /// The concurrency limit.
    pub fn concurrency(&self) -> &Arc<ConcurrencyLimit<T>> {
        &self.0
    }

    /// Whether somebody waits for this place.
    pub fn is_wanted(&self) -> bool {
        self.0.line.waiting() > 0
    }
}

impl<T: Alternative> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Somebody in line. Dropping it gives up: a place that was granted meanwhile goes to the next, a thing
/// is dropped and leaves the places that it holds.
#[derive(Debug)]
pub struct Wait<T: Alternative> {
    line: Arc<WaitQueue<T>>,
    priority: Priority,
    ticket: u64,
    waker: Waker,
    outcome: Arc<Outcome<T>>,
    /// The outcome has been taken.
    over: bool,
}

impl<T: Alternative> Wait<T> {
    /// The place, or what does instead, once it is granted. Cancel-safe.
    ///
    /// # Errors
    /// [`Rejected::Displaced`] when somebody with a higher priority came to a full line.
    pub fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Acquired<T>, Rejected>> {
        if self.outcome.state.load(Acquire) == PENDING && !self.waker.will_wake(context.waker()) {
            self.waker.clone_from(context.waker());
            let mut queue = self.line.lock();
            if let Some(at) = queue.position(self.priority, self.ticket) {
                queue.ranks[self.priority as usize][at].waker.clone_from(&self.waker);
            }
        }
        if self.outcome.state.load(Acquire) == PENDING {
            return Poll::Pending;
        }
        self.over = true;
        Poll::Ready(match self.outcome.take() {
            Some(Granted::Place(concurrency)) => Ok(Acquired::Place(Permit::new(Rc::new(concurrency)))),
            Some(Granted::Alternative(thing)) => Ok(Acquired::Alternative(thing)),
            None => Err(Rejected::Displaced),
        })
    }
}

impl<T: Alternative> Drop for Wait<T> {
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
        match self.outcome.take() {
            Some(Granted::Place(concurrency)) => concurrency.leave(),
            Some(Granted::Alternative(thing)) => drop(thing),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
