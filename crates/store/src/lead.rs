//! The writing end of a fill.
//!
//! A fill that becomes larger than what may be stored, or than the part of the store that fills may have, goes to a
//! second tier, if there is one ([`Lead::spill_to`]). Otherwise it is not stored any more, and nobody new follows it.
//! Those who do get all of it: from then on it keeps a window of the body, and the leader waits for the slowest of them
//! ([`Lead::poll_room`]). Before that no reader is waited for.

use crate::body::{Body, CHUNK, Chunk, join};
use crate::counters::{add, sub};
use crate::fill::{End, Fill, Head};
use crate::lead_spill::ToSpill;
use crate::object::Object;
use crate::reader::{Alone, Broken, Given, Reader};
use crate::store::Store;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use thalweg_cache::{NotStored, StoredHead, UnixMillis};
use thalweg_core::Fault;

/// Small parts are joined up to this length, so that a response that comes in crumbs takes no more memory than another.
const CRUMB: usize = 4 * 1024;

/// The writing end of a fill. Dropped before its end, it leaves a response that is broken and not stored.
pub struct Lead {
    pub(crate) fill: Arc<Fill>,
    /// The last pieces, which have not the length of a chunk together.
    pub(crate) tail: Vec<Chunk>,
    tail_len: usize,
    written: u64,
    length: Option<u64>,
    /// A larger body is not stored in memory.
    pub(crate) most: u64,
    /// A larger body is not stored at all.
    bound: u64,
    given: Option<Given>,
    pub(crate) spill: ToSpill,
    is_window: bool,
    is_over: bool,
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead")
            .field("fill", &self.fill)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

/// Why a response is not complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfinished {
    /// It has no head yet.
    NoHead,
    /// It is shorter than it was declared to be.
    TooShort,
    /// It is longer than it was declared to be.
    TooLong,
}

impl Lead {
    pub(crate) fn new(fill: Arc<Fill>) -> Self {
        Self {
            most: fill.inner.limits.largest(),
            fill,
            tail: Vec::new(),
            tail_len: 0,
            written: 0,
            length: None,
            bound: u64::MAX,
            given: None,
            spill: ToSpill::default(),
            is_window: false,
            is_over: false,
        }
    }

    /// A reader for the client that caused the fill; `None`: there are too many, or it has begun without being stored.
    pub fn reader(&self) -> Option<Reader> {
        Reader::new(self.fill.clone())
    }

    /// A body of more bytes is not stored, whatever the store would take.
    pub fn bound(&mut self, most: u64) {
        self.most = self.most.min(most);
        self.bound = self.bound.min(most);
    }

    /// Readers that there are.
    pub fn readers(&self) -> usize {
        self.fill.change(|state, _| state.readers())
    }

    /// Whether the response is of use to somebody: it is to be stored, or read.
    pub fn is_wanted(&self) -> bool {
        !self.is_window && self.is_listed() || self.readers() > 0
    }

    /// Whether it is to be stored when it is complete; not after a purge, or when it has become too large.
    pub fn is_stored_when_complete(&self) -> bool {
        !self.is_window && self.is_listed()
    }

    /// Gives the head; `variant` is what its `Vary` makes of the request that caused it, `length` that of the body
    /// where it is known. False: it is too large to be stored, and those who follow have been told to go alone; the
    /// fill is over.
    pub fn give_head(&mut self, head: Arc<StoredHead>, variant: &[u8], length: Option<u64>) -> bool {
        if self.is_over || self.given.is_some() {
            return !self.is_over;
        }
        let given = Given { head, variant: variant.into(), length };
        let is_large = length.filter(|length| *length > self.most);
        if is_large.is_some_and(|length| length > self.bound || !self.begin_spill(&given, Some(length))) {
            add(&self.fill.inner.counters.rejected, 1);
            self.conclude(Head::Alone(Alone::TooLarge), None);
            return false;
        }
        (self.length, self.given) = (length, Some(given.clone()));
        self.fill.change(|state, wakers| {
            state.head = Head::Given(given);
            state.take_wakers(wakers);
        });
        self.fill.inner.make_room();
        true
    }

    /// Adds bytes to the body.
    ///
    /// # Errors
    /// There is no head, or the body is longer than it was declared to be: the fill is broken.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), Unfinished> {
        if self.given.is_none() || self.is_over {
            return Err(Unfinished::NoHead);
        }
        let end = self.written.saturating_add(bytes.len() as u64);
        if self.length.is_some_and(|length| end > length) {
            self.break_off(Broken::Length);
            return Err(Unfinished::TooLong);
        }
        self.keep_within(end, bytes.len());
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK - self.tail_len));
            self.push(now);
            bytes = rest;
        }
        self.written = end;
        self.fill.inner.make_room();
        Ok(())
    }

    /// Whether more is to be appended now. Pending only where the response is not stored any more and its readers are
    /// slow, or where a second tier is slow; cancel-safe.
    pub fn poll_room(&mut self, context: &Context<'_>) -> Poll<()> {
        self.note_failure();
        let may_wait = self.is_window || self.spill.to.is_some();
        if !may_wait || self.fill.change(|state, _| state.has_room(context)) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// There has been no room for some time: readers who wait for more are not held up any longer by others, whose
    /// responses break off. Where nobody else waits, nothing happens.
    pub fn let_go(&self) {
        self.fill.change(|state, wakers| state.let_go(wakers));
    }

    /// The response is complete: it is stored, at once and as a whole, and given out. `None`: it was complete, but is
    /// not stored here, since it was purged meanwhile or is too large, or goes to a second tier. A part of a
    /// representation is joined with the parts of the same one that are stored; what is given out are all together.
    ///
    /// # Errors
    /// It is not complete, and broken for its readers.
    pub fn finish(mut self) -> Result<Option<Arc<Object>>, Unfinished> {
        let Some(given) = self.given.take() else {
            self.break_off(Broken::Failed);
            return Err(Unfinished::NoHead);
        };
        if self.is_over {
            return Err(Unfinished::TooLong);
        }
        if self.length.is_some_and(|length| self.written < length) {
            self.break_off(Broken::Length);
            return Err(Unfinished::TooShort);
        }
        self.note_failure();
        if self.is_window {
            self.end(End::Complete);
            return Ok(None);
        }
        if self.spill.to.is_some() {
            self.finish_spill(&given);
            return Ok(None);
        }
        if self.tail.len() > 1 {
            self.settle(&[]);
        }
        let body = Body::of(self.fill.change(|state, _| state.chunks()));
        if let Some(part) = given.head.part {
            return Ok(self.finish_part(&given, &part, body));
        }
        let (fill, inner) = (&self.fill, &self.fill.inner);
        let name = fill.name.with_variant(&given.variant);
        let object = Arc::new(Object::new(name, given.head, body.clone(), &inner.hasher));
        let is_stored = inner.insert(fill.of_key, object.clone(), |shard| shard.end_fill(fill));
        fill.change(|state, _| state.set_body(body, is_stored));
        self.end(End::Complete);
        Ok(is_stored.then_some(object))
    }

    /// The response breaks off.
    pub fn fail(mut self, why: Broken) {
        self.break_off(why);
    }

    /// The response is not stored: those who follow go alone, and so do those who come, until then.
    pub fn not_stored(mut self, why: NotStored, until: Option<UnixMillis>) {
        self.conclude(Head::Alone(Alone::NotStored(why)), until);
    }

    /// The service, or the way to it, fails: who follows is told so and does not ask again. After the head it breaks
    /// off as by [`Self::fail`].
    pub fn fail_all(mut self, fault: Fault) {
        if self.given.is_some() {
            self.break_off(Broken::Failed);
        } else {
            self.conclude(Head::Alone(Alone::Failed(fault)), None);
        }
    }

    /// A stored response answers all who follow: one that was freshened, or that is used although it is stale.
    pub fn answer_with(mut self, object: Arc<Object>) {
        self.conclude(Head::Object(object), None);
    }

    /// A 304 has come for a stored response: it is freshened ([`Store::freshen`]) and answers all who follow.
    pub fn freshen(self, old: &Arc<Object>, head: StoredHead) -> Arc<Object> {
        let object = Store { inner: self.fill.inner.clone() }.freshen(old, head);
        self.answer_with(object.clone());
        object
    }

    #[cfg(test)]
    pub(crate) fn written_for_tests(&self) -> u64 {
        self.written
    }

    fn is_listed(&self) -> bool {
        self.fill.inner.shard(self.fill.of_key).lock().has_fill(&self.fill)
    }

    /// From here on it goes to a second tier, or is a window, where it becomes too large.
    fn keep_within(&mut self, end: u64, more: usize) {
        self.note_failure();
        let (limits, counters) = (&self.fill.inner.limits, &self.fill.inner.counters);
        let of_fills = counters.fill_bytes.load(Ordering::Relaxed).saturating_add(more as u64);
        let is_kept = match self.spill.to.is_some() {
            true => end <= self.bound,
            false => end <= self.most && of_fills <= limits.fill_bytes(),
        };
        if self.is_window || is_kept {
            return;
        }
        if let Some(given) = self.given.clone().filter(|_| self.spill.to.is_none() && end <= self.bound)
            && self.begin_spill(&given, self.length)
        {
            return;
        }
        self.abandon_spill();
        self.begin_window();
    }

    /// From here on it is a window.
    pub(crate) fn begin_window(&mut self) {
        self.is_window = true;
        add(&self.fill.inner.counters.rejected, 1);
        self.fill.unlist();
        self.fill.change(|state, _| {
            state.is_window = true;
            state.trim();
        });
        (self.tail, self.tail_len) = (Vec::new(), 0);
    }

    /// Adds at most what a chunk has still room for.
    fn push(&mut self, bytes: &[u8]) {
        if self.is_window {
            return self.commit(0, bytes.into());
        }
        if self.tail_len + bytes.len() == CHUNK {
            return self.settle(bytes);
        }
        self.tail_len += bytes.len();
        match self.tail.last_mut().filter(|last| last.len() + bytes.len() <= CRUMB) {
            Some(last) => {
                *last = join([&**last, bytes].into_iter());
                let chunk = last.clone();
                self.commit(1, chunk);
            }
            None => {
                self.tail.push(bytes.into());
                self.commit(0, self.tail[self.tail.len() - 1].clone());
            }
        }
    }

    /// Makes one chunk of the last pieces and these bytes. Copied outside of the lock: nobody else writes.
    pub(crate) fn settle(&mut self, bytes: &[u8]) {
        let pieces = std::mem::take(&mut self.tail);
        self.tail_len = 0;
        let chunk = match pieces.len() {
            0 => bytes.into(),
            _ => join(pieces.iter().map(|piece| &**piece).chain([bytes])),
        };
        self.spill(&chunk);
        self.commit(pieces.len(), chunk);
    }

    fn commit(&self, replaced: usize, chunk: Chunk) {
        self.fill.change(|state, wakers| {
            state.push(replaced, chunk);
            state.take_wakers(wakers);
        });
    }

    fn break_off(&mut self, why: Broken) {
        if !self.is_over {
            add(&self.fill.inner.counters.broken, 1);
            self.abandon_spill();
            self.fill.unlist();
            self.end(End::Broken(why));
        }
    }

    /// Ends it without a body.
    fn conclude(&mut self, head: Head, mark: Option<UnixMillis>) {
        if self.is_over {
            return;
        }
        let fill = &self.fill;
        fill.inner.change(fill.of_key, |shard| {
            // After a purge the mark is of no use: what is there now may be another response.
            if shard.end_fill(fill)
                && let Some(until) = mark
            {
                shard.marks.add(fill.mark, until);
            }
        });
        // Where the body has begun, its readers get no other answer.
        let end = if self.given.is_some() { End::Broken(Broken::Failed) } else { End::Complete };
        if self.given.is_none() {
            fill.change(|state, _| state.head = head);
        }
        self.end(end);
    }

    pub(crate) fn end(&mut self, end: End) {
        if !self.is_over {
            self.is_over = true;
            self.fill.end(end);
            sub(&self.fill.inner.counters.filling, 1);
            self.fill.inner.make_room();
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.break_off(Broken::LeaderGone);
    }
}
