//! The events of this process: numbered, kept for a while, told to whoever subscribed.
//!
//! Whoever sees something happen calls [`Events::publish`]; the event stream of the admin API and
//! each webhook hold a [`Subscription`]. There is one buffer: a subscriber is a place in it, so
//! replay and live events are the same path, and one that is too slow loses the oldest and is told
//! how many. Invariant: publishing waits for no reader.

mod document;
mod published;

pub use published::Published;

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::Event;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use document::Origin;

/// Events kept for replay and for slow subscribers.
pub const KEPT: usize = 256;
/// States of endpoints that the kept events hold together, about 6 MiB; the newest event always stays.
pub(crate) const KEPT_ENDPOINTS: usize = 256 * 1024;
/// Event streams at once; further ones are answered 503.
pub const STREAMS: usize = 64;

/// The events of this process. Clones are the same.
#[derive(Clone, Debug)]
pub struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    changed: watch::Sender<()>,
    streams: Arc<Semaphore>,
    origin: Origin,
}

#[derive(Debug, Default)]
struct Kept {
    /// How many there have been: the number of the newest.
    newest: u64,
    /// The newest of them, without a gap.
    events: VecDeque<Arc<Published>>,
    /// Endpoint states in `events`.
    endpoints: usize,
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

impl Events {
    /// A permit for one more event stream; `None`: there are [`STREAMS`] already.
    pub(crate) fn stream_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.streams).try_acquire_owned().ok()
    }

    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            kept: Mutex::default(),
            changed: watch::Sender::new(()),
            streams: Arc::new(Semaphore::new(STREAMS)),
            origin: Origin::of_this_process(),
        }))
    }

    /// Numbers the event, keeps it and wakes the subscribers. Callable from any thread; takes a lock
    /// for as long as it takes to append to a list.
    pub fn publish(&self, event: Event) {
        let mut kept = self.0.kept();
        kept.newest += 1;
        kept.endpoints += event.endpoints.len();
        let id = kept.newest;
        kept.events.push_back(Arc::new(Published { id, event }));
        while kept.events.len() > 1 && (kept.events.len() > KEPT || kept.endpoints > KEPT_ENDPOINTS) {
            let oldest = kept.events.pop_front();
            kept.endpoints -= oldest.map_or(0, |oldest| oldest.event.endpoints.len());
        }
        drop(kept);
        self.0.changed.send_replace(());
    }

    /// The events from now on.
    pub fn subscribe(&self) -> Subscription {
        let newest = self.0.kept().newest;
        self.subscribe_at(newest)
    }

    /// The events after number `id`, kept ones first. A number that has not been reached is one of
    /// an earlier process: then all that are kept come.
    pub fn subscribe_after(&self, id: u64) -> Subscription {
        let newest = self.0.kept().newest;
        self.subscribe_at(if id > newest { 0 } else { id })
    }

    fn subscribe_at(&self, seen: u64) -> Subscription {
        Subscription { shared: Arc::clone(&self.0), changed: self.0.changed.subscribe(), seen }
    }

    /// The JSON of an event as the API and webhooks give it; `missed` adds a member of that name.
    pub(crate) fn json(&self, published: &Published, missed: Option<u64>) -> String {
        self.0.origin.json(published, missed)
    }
}

impl Shared {
    /// The list. It is never left half changed, so a panic elsewhere does not make it unusable.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the sequence of events.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    changed: watch::Receiver<()>,
    seen: u64,
}

/// What a subscriber hears.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Heard {
    /// The next event.
    Event(Arc<Published>),
    /// So many events are no longer kept: the subscriber was too slow, or asked for what is too old.
    Missed(u64),
}

impl Subscription {
    /// Waits for the next event. Cancel-safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Heard {
        loop {
            self.changed.mark_unchanged();
            if let Some(heard) = self.try_next() {
                return heard;
            }
            if self.changed.changed().await.is_err() {
                // Not reached: the sender lives as long as `shared`.
                pending::<()>().await;
            }
        }
    }

    /// The next event, if there has been one.
    pub fn try_next(&mut self) -> Option<Heard> {
        let kept = self.shared.kept();
        let oldest = kept.events.front()?.id;
        if self.seen + 1 < oldest {
            let missed = oldest - 1 - self.seen;
            self.seen = oldest - 1;
            return Some(Heard::Missed(missed));
        }
        let index = usize::try_from(self.seen + 1 - oldest).ok()?;
        let event = Arc::clone(kept.events.get(index)?);
        self.seen = event.id;
        Some(Heard::Event(event))
    }
}

#[cfg(test)]
pub(crate) mod tests;
