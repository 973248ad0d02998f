//! A response that is being received: one leader writes it, readers follow.
//!
//! All that they share stands behind one lock, that of the fill. Whoever changes something takes out the wakers of
//! those who wait for it and wakes them after the lock: a reader looks and registers under the same lock, so that
//! nothing is missed. Each reader has at most one waker here.
//!
//! What is kept of the body: all of it while it is to be stored here; what is not written yet and a window behind that
//! while it goes to a second tier; what some reader has still to read once it is not to be stored any more.

use crate::body::{Body, Chunk, Piece};
use crate::counters::{add, change, sub};
use crate::limits::{MOST_READERS, MOST_SPILL_READERS, SPILL_AHEAD, SPILL_WINDOW, WINDOW};
use crate::object::{Name, Object, head_charge};
use crate::reader::{Alone, Broken, Given};
use crate::size::{allocated, shared};
use crate::spill::{Place, Spill};
use crate::store::Inner;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use thalweg_cache::StoredHead;

/// A response that is being received.
pub(crate) struct Fill {
    pub(crate) inner: Arc<Inner>,
    /// The key, and what is known of the variant.
    pub(crate) name: Name,
    /// The hash of the key.
    pub(crate) of_key: u64,
    /// What it is claimed under.
    pub(crate) id: u64,
    /// What is marked where it is not to be stored.
    pub(crate) mark: u64,
    state: Mutex<State>,
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fill").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What is known of the head.
#[derive(Default)]
pub(crate) enum Head {
    #[default]
    Waiting,
    Given(Given),
    Object(Arc<Object>),
    Alone(Alone),
}

/// How the body ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum End {
    #[default]
    Open,
    Complete,
    Broken(Broken),
}

/// Where a reader is that is let go of: it holds up nobody.
const LET_GO: u64 = u64::MAX;

/// A reader: where it is, and who waits for more.
struct At {
    position: u64,
    waker: Option<Waker>,
}

/// What leader and readers share.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) head: Head,
    pub(crate) end: End,
    /// Parts of the body with their first byte, in order, without gaps.
    pieces: VecDeque<(u64, Chunk)>,
    /// What they take of memory.
    piece_bytes: u64,
    /// The body as a whole, in place of the pieces.
    body: Option<Body>,
    pub(crate) written: u64,
    /// It is not to be stored any more, and keeps only what readers have still to read.
    pub(crate) is_window: bool,
    /// Where it goes, if that is a second tier.
    pub(crate) spill: Option<Place>,
    readers: Vec<Option<At>>,
    free: Vec<u32>,
    leader: Option<Waker>,
    charged: u64,
}

impl Fill {
    /// A new one, unless there are too many.
    pub(crate) fn begin(
        inner: &Arc<Inner>,
        name: Name,
        (of_key, id, mark): (u64, u64, u64),
    ) -> Option<Arc<Self>> {
        let counters = &inner.counters;
        let is_full = counters.fill_bytes.load(Ordering::Relaxed) > inner.limits.bytes / 4 * 3;
        let before = counters.filling.fetch_add(1, Ordering::Relaxed);
        if is_full || before >= inner.limits.fills() as u64 {
            sub(&counters.filling, 1);
            return None;
        }
        add(&counters.fills, 1);
        Some(Arc::new(Self { inner: inner.clone(), name, of_key, id, mark, state: Mutex::default() }))
    }

    /// Changes what is shared; those whom `run` puts on the list are woken after that.
    pub(crate) fn change<T>(&self, run: impl FnOnce(&mut State, &mut Vec<Waker>) -> T) -> T {
        let mut wakers = Vec::new();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = run(&mut state, &mut wakers);
        let now = self.charge() + state.charge();
        let was = std::mem::replace(&mut state.charged, now);
        drop(state);
        if was != now {
            change(&self.inner.counters.bytes, was, now);
            change(&self.inner.counters.fill_bytes, was, now);
        }
        wakers.into_iter().for_each(Waker::wake);
        done
    }

    /// A place for a reader, if there is one.
    pub(crate) fn join(&self) -> Option<u32> {
        self.change(|state, _| {
            let at = At { position: 0, waker: None };
            let is_crowded = state.spill.is_some() && state.readers() >= MOST_SPILL_READERS;
            if is_crowded || state.is_window && state.written > 0 {
                return None;
            }
            if let Some(place) = state.free.pop() {
                state.readers[place as usize] = Some(at);
                return Some(place);
            }
            if state.readers.len() >= MOST_READERS {
                return None;
            }
            state.readers.push(Some(at));
            Some((state.readers.len() - 1) as u32)
        })
    }

    /// A reader is gone.
    pub(crate) fn leave(&self, place: u32) {
        let gone = self.change(|state, wakers| {
            let gone = state.readers.get_mut(place as usize).and_then(Option::take);
            state.free.push(place);
            state.trim();
            wakers.extend(state.leader.take());
            gone
        });
        // What a waker does when it is dropped is not known.
        drop(gone);
    }

    /// Ends it; false where it had ended.
    pub(crate) fn end(&self, end: End) -> bool {
        self.change(|state, wakers| {
            let is_first = state.end == End::Open;
            if is_first {
                state.end = end;
                state.take_wakers(wakers);
            }
            is_first
        })
    }

    /// Takes it off the list of claims.
    pub(crate) fn unlist(self: &Arc<Self>) {
        self.inner.change(self.of_key, |shard| shard.end_fill(self));
    }

    fn charge(&self) -> u64 {
        shared(size_of::<Self>()) + self.name.charge()
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.spill.is_some() {
            self.inner.spilling.fetch_sub(1, Ordering::Relaxed);
        }
        sub(&self.inner.counters.bytes, state.charged);
        sub(&self.inner.counters.fill_bytes, state.charged);
    }
}

impl State {
    /// The bytes from this one on that are there.
    pub(crate) fn piece(&self, at: u64) -> Option<Piece> {
        if let Some(body) = &self.body {
            return body.piece(at);
        }
        let number = self.pieces.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let (start, chunk) = self.pieces.get(number)?;
        let from = usize::try_from(at - start).ok()?;
        (from < chunk.len()).then(|| Piece { chunk: chunk.clone(), from })
    }

    /// Whether the bytes from this one on were let go of.
    pub(crate) fn is_behind(&self, at: u64) -> bool {
        self.body.is_none() && at < self.pieces.front().map_or(self.written, |(start, _)| *start)
    }

    /// The head, once it is given.
    pub(crate) fn given_head(&self) -> Option<Arc<StoredHead>> {
        match &self.head {
            Head::Given(given) => Some(given.head.clone()),
            Head::Waiting | Head::Object(_) | Head::Alone(_) => None,
        }
    }

    /// Puts a chunk in the place of the last ones, or behind them.
    pub(crate) fn push(&mut self, replaced: usize, chunk: Chunk) {
        let mut start = self.written;
        for _ in 0..replaced {
            if let Some((begins, old)) = self.pieces.pop_back() {
                self.piece_bytes -= shared(old.len());
                start = begins;
            }
        }
        self.written = start + chunk.len() as u64;
        self.piece_bytes += shared(chunk.len());
        self.pieces.push_back((start, chunk));
        self.trim();
    }

    /// All chunks.
    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        self.pieces.iter().map(|(_, chunk)| chunk.clone()).collect()
    }

    /// The body is there as a whole; who counts it from now on is the store, or still the fill.
    pub(crate) fn set_body(&mut self, body: Body, is_stored: bool) {
        self.pieces = VecDeque::new();
        self.piece_bytes = if is_stored { 0 } else { body.charge() };
        self.body = Some(body);
    }

    /// Moves a reader.
    pub(crate) fn advance(&mut self, place: u32, position: u64, wakers: &mut Vec<Waker>) {
        if let Some(Some(at)) = self.readers.get_mut(place as usize) {
            at.position = position;
        }
        if self.is_window {
            self.trim();
            wakers.extend(self.leader.take());
        }
    }

    /// Has a reader woken when something changes. Gives what it was registered with before, to be dropped later.
    pub(crate) fn wait(&mut self, place: u32, context: &Context<'_>) -> Option<Waker> {
        let at = self.readers.get_mut(place as usize)?.as_mut()?;
        match &at.waker {
            Some(known) if known.will_wake(context.waker()) => None,
            _ => at.waker.replace(context.waker().clone()),
        }
    }

    /// Whether there is room for more; the leader is woken when there is.
    pub(crate) fn has_room(&mut self, context: &Context<'_>) -> bool {
        let is_full = match &self.spill {
            _ if self.is_window => self.kept() > WINDOW as u64,
            Some(place) if !place.has_failed => self.written - place.written > SPILL_AHEAD as u64,
            _ => false,
        };
        self.leader = is_full.then(|| context.waker().clone());
        !is_full
    }

    /// The window has been full for a while: where some reader waits for more, those who keep it full are let go of.
    pub(crate) fn let_go(&mut self, wakers: &mut Vec<Waker>) {
        let waiting = self.written..LET_GO;
        let waits = self.readers.iter().flatten().any(|at| waiting.contains(&at.position));
        if !self.is_window || !waits || self.kept() <= WINDOW as u64 {
            return;
        }
        let from = self.written.saturating_sub(WINDOW as u64 / 2);
        for at in self.readers.iter_mut().flatten().filter(|at| at.position < from) {
            // What it reads next is not there; until it finds that out, it is not waited for.
            at.position = LET_GO;
            wakers.extend(at.waker.take());
        }
        self.trim();
        wakers.extend(self.leader.take());
    }

    /// Takes out the wakers of all readers.
    pub(crate) fn take_wakers(&mut self, wakers: &mut Vec<Waker>) {
        let readers = self.readers.iter_mut().flatten();
        wakers.extend(readers.filter_map(|at| at.waker.take()));
    }

    /// Readers that there are.
    pub(crate) fn readers(&self) -> usize {
        self.readers.len() - self.free.len()
    }

    /// Bytes up to this one can be read in a second tier.
    pub(crate) fn set_spilled(&mut self, upto: u64, wakers: &mut Vec<Waker>) {
        if let Some(place) = &mut self.spill {
            place.written = upto;
            wakers.extend(self.leader.take());
            self.trim();
        }
    }

    /// The second tier has failed. What it has can still be read. The leader makes a window of it: it knows which
    /// pieces it has still to join.
    pub(crate) fn end_spill(&mut self, wakers: &mut Vec<Waker>) {
        if let Some(place) = &mut self.spill {
            place.has_failed = true;
            wakers.extend(self.leader.take());
        }
    }

    /// Where the bytes from this one on can be read that are not here any more, and up to which one.
    pub(crate) fn spilled(&self, at: u64) -> Option<(Arc<dyn Spill>, u64)> {
        let place = self.spill.as_ref().filter(|place| at < place.written)?;
        Some((place.to.clone(), place.written))
    }

    /// Lets go of what is not needed any more: in a window, of what all readers have read; on the way to a second tier,
    /// of what is there, but for the last of it.
    pub(crate) fn trim(&mut self) {
        let spilled = self.spill.as_ref().map(|place| place.written);
        let keep_from = match (self.is_window, spilled) {
            (true, spilled) => {
                // Who is behind what is kept reads from the second tier.
                let first = self.pieces.front().map_or(self.written, |(start, _)| *start);
                let here = self.readers.iter().flatten().map(|at| at.position);
                here.map(|at| if at < first && at < spilled.unwrap_or(0) { first } else { at })
                    .min()
                    .unwrap_or(self.written)
            }
            (false, Some(spilled)) => spilled.min(self.written.saturating_sub(SPILL_WINDOW as u64)),
            (false, None) => return,
        };
        while let Some((start, chunk)) = self.pieces.front()
            && start + chunk.len() as u64 <= keep_from
        {
            self.piece_bytes -= shared(chunk.len());
            self.pieces.pop_front();
        }
    }

    fn kept(&self) -> u64 {
        self.pieces.front().map_or(0, |(start, _)| self.written - start)
    }

    fn charge(&self) -> u64 {
        let head = match &self.head {
            Head::Given(given) => head_charge(&given.head) + shared(given.variant.len()),
            Head::Waiting | Head::Object(_) | Head::Alone(_) => 0,
        };
        let tables = self.pieces.capacity() * size_of::<(u64, Chunk)>()
            + self.readers.capacity() * size_of::<Option<At>>()
            + self.free.capacity() * size_of::<u32>();
        head + self.piece_bytes + allocated(tables)
    }
}

#[cfg(test)]
mod tests;
