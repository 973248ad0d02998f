//! A response that is written while it is fetched: it is larger than what memory keeps of one.
//!
//! It has a file of its own, whose name is not that of a segment: what is unfinished is found by nobody, and removed
//! when the store is opened. Once the body is complete, the front of the file is written, and it becomes a segment with
//! one record. Who gives the chunks waits for nothing ([`Spill`]); what waits to be written is bounded by the fill,
//! which is told how far it is ([`Progress`]). Who follows the fill reads from the file what is written.
//!
//! Where nothing is written for [`STALLED`], the disk hangs: the response is not stored, and goes on without it.

use crate::ban::Verdict;
use crate::counters::add;
use crate::load::Load;
use crate::record::{Header, Meta};
use crate::settings::{MOST_GROWTHS, STALLED, WRITTEN_AT_ONCE};
use crate::shared::{Condition, Shared, Ticket, lock};
use crate::{Disk, record};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;
use thalweg_cache::{StoredHead, UnixMillis};
use thalweg_store::{Chunk, Progress, Spill, SpillRead, Spilled, Spills};

/// The disk as the second tier of a fill whose response was asked for after this moment.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) disk: Disk,
    pub(crate) ticket: Ticket,
}

impl Spills for Tier {
    fn begin(&self, response: &Spilled<'_>, progress: Progress) -> Option<Arc<dyn Spill>> {
        let shared = self.disk.shared();
        let begun = Growth::begin(shared, response, (self.ticket, progress));
        if begun.is_none() {
            add(&shared.counters.not_written, 1);
        }
        begun.map(|growth| growth as Arc<dyn Spill>)
    }
}

/// How it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// More comes.
    Open,
    /// The body is complete.
    Complete,
    /// It is not stored.
    Over,
}

struct State {
    /// What is to be written next.
    chunks: VecDeque<Chunk>,
    end: End,
    /// Purges and removals up to here are taken into account.
    ticket: Ticket,
    stale_from: Option<UnixMillis>,
    /// It stands in the queue of the writing thread.
    is_queued: bool,
    /// Since when nothing was written although there is something.
    waits_since: Option<Instant>,
    /// Where it can be read, once something is written.
    file: Option<(Arc<File>, Header)>,
}

/// A response that is written while it is fetched.
pub(crate) struct Growth {
    me: Weak<Self>,
    shared: Arc<Shared>,
    /// Key, variant and lines, as they stand in the record.
    pub(crate) meta: Box<[u8]>,
    pub(crate) key: usize,
    pub(crate) url: usize,
    pub(crate) variant: usize,
    pub(crate) head: Arc<StoredHead>,
    progress: Progress,
    state: Mutex<State>,
}

/// What the writing thread is to do for one.
pub(crate) struct Work {
    pub(crate) chunks: Vec<Chunk>,
    /// There is more.
    pub(crate) has_more: bool,
    /// The body is complete with this.
    pub(crate) is_last: bool,
    pub(crate) is_over: bool,
}

impl Growth {
    /// `None`: it is too large, there are too many, or the disk is not in use.
    fn begin(
        shared: &Arc<Shared>,
        response: &Spilled<'_>,
        (ticket, progress): (Ticket, Progress),
    ) -> Option<Arc<Self>> {
        let Spilled { key, url, variant, head, length } = *response;
        let is_in_use = matches!(shared.condition(), Condition::Indexing | Condition::Ready);
        if !is_in_use || length.is_some_and(|length| length > shared.settings.largest()) {
            return None;
        }
        if key.len() + variant.len() > record::MOST_NAME || head.lines().len() > record::MOST_LINES {
            return None;
        }
        let state = State {
            chunks: VecDeque::new(),
            end: End::Open,
            ticket,
            stale_from: None,
            is_queued: false,
            waits_since: None,
            file: None,
        };
        let growth = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            shared: shared.clone(),
            meta: [key, variant, head.lines()].concat().into(),
            key: key.len(),
            url: url.len(),
            variant: variant.len(),
            head: head.clone(),
            progress,
            state: Mutex::new(state),
        });
        // The writing thread ends all that are listed when it closes the store.
        let tasks = lock(&shared.tasks);
        let has_room = tasks.is_open && shared.list_growth(&growth);
        drop(tasks);
        if !has_room {
            return None;
        }
        // They look whether it hangs.
        shared.wake_readers();
        Some(growth)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.meta[..self.key]
    }

    pub(crate) fn url(&self) -> &[u8] {
        &self.meta[..self.url]
    }

    pub(crate) fn variant(&self) -> &[u8] {
        &self.meta[self.key..self.key + self.variant]
    }

    fn is_over(&self) -> bool {
        lock(&self.state).end == End::Over
    }

    /// Takes what is to be written now.
    pub(crate) fn take(&self) -> Work {
        let mut state = lock(&self.state);
        state.is_queued = false;
        let many = state.chunks.len().min(WRITTEN_AT_ONCE);
        let chunks: Vec<_> = state.chunks.drain(..many).collect();
        let has_more = !state.chunks.is_empty();
        let is_last = state.end == End::Complete && !has_more;
        Work { chunks, has_more, is_last, is_over: state.end == End::Over }
    }

    /// So much of the body is in the file: `header` has its length.
    pub(crate) fn wrote(&self, file: &Arc<File>, header: &Header) {
        let mut state = lock(&self.state);
        state.file = Some((file.clone(), header.clone()));
        state.waits_since = (!state.chunks.is_empty()).then(Instant::now);
        let is_over = state.end == End::Over;
        drop(state);
        if !is_over {
            self.progress.written(header.body);
        }
    }

    /// What purges and removals make of it; `None`: it is not stored.
    pub(crate) fn judge(&self) -> Option<(Ticket, Option<UnixMillis>)> {
        let mut state = lock(&self.state);
        let (bans, ticket) = (&self.shared.bans, state.ticket);
        let name = (self.key(), self.url(), self.head.lines());
        let Verdict::Kept(stale_from) = bans.judge(ticket.bans, name, state.stale_from) else { return None };
        if bans.is_unknown(ticket.bans) {
            return None;
        }
        state.stale_from = stale_from;
        Some((ticket, stale_from))
    }

    /// Bans up to this number are about to be forgotten: what they say of it is kept.
    fn keep_judgement(&self, upto: u64) {
        if self.judge().is_some() {
            let mut state = lock(&self.state);
            state.ticket.bans = state.ticket.bans.max(upto);
        } else {
            self.fail();
        }
    }

    /// It is not stored. The writing thread removes its file.
    pub(crate) fn fail(&self) {
        self.end(End::Over);
        self.progress.failed();
    }

    /// It is stored, and can be found.
    pub(crate) fn stored(&self) {
        lock(&self.state).end = End::Over;
        self.progress.stored();
    }

    fn end(&self, end: End) {
        let mut state = lock(&self.state);
        if state.end != End::Over {
            state.end = end;
        }
        let gone = if state.end == End::Over { std::mem::take(&mut state.chunks) } else { VecDeque::new() };
        let is_new = !std::mem::replace(&mut state.is_queued, true);
        drop(state);
        drop(gone);
        if is_new {
            self.queue();
        }
    }

    /// The writing thread is to look at it.
    pub(crate) fn queue(&self) {
        let Some(me) = self.me.upgrade() else { return };
        lock(&self.shared.tasks).growths.push_back(me);
        self.shared.has_tasks.notify_one();
    }

    /// The same after it has taken a part of what there is.
    pub(crate) fn queue_again(&self) {
        let is_new = !std::mem::replace(&mut lock(&self.state).is_queued, true);
        if is_new {
            self.queue();
        }
    }

    fn hangs(&self) -> bool {
        let since = lock(&self.state).waits_since;
        since.is_some_and(|since| since.elapsed() >= STALLED)
    }
}

impl Spill for Growth {
    fn push(&self, chunk: Chunk) {
        let mut state = lock(&self.state);
        if state.end != End::Open {
            return;
        }
        state.chunks.push_back(chunk);
        state.waits_since.get_or_insert_with(Instant::now);
        let is_new = !std::mem::replace(&mut state.is_queued, true);
        drop(state);
        if is_new {
            self.queue();
        }
    }

    fn finish(&self) {
        let ticket = lock(&self.state).ticket;
        let name = (self.key(), self.url(), self.variant());
        match self.shared.replace(name, &self.head.vary, ticket) {
            Some(ticket) => {
                lock(&self.state).ticket.removals = ticket.removals;
                self.end(End::Complete);
            }
            None => self.fail(),
        }
    }

    fn abandon(&self) {
        self.end(End::Over);
    }

    fn read(&self, from: u64, upto: u64) -> Option<Box<dyn SpillRead>> {
        let (file, header) = lock(&self.state).file.clone()?;
        let header = Header { body: upto.min(header.body), ..header };
        let meta = Meta::check(&header, self.meta.clone())?;
        let load = Load::of_growth(&self.shared, (file, header, meta), from)?;
        Some(Box::new(load))
    }
}

impl Shared {
    /// Takes note of one; false: there are too many.
    fn list_growth(&self, growth: &Arc<Growth>) -> bool {
        let mut growths = lock(&self.growths);
        growths.retain(is_going_on);
        let has_room = growths.len() < MOST_GROWTHS;
        if has_room {
            growths.push(Arc::downgrade(growth));
        }
        self.growing.store(growths.len(), Ordering::Release);
        has_room
    }

    pub(crate) fn all_growths(&self) -> Vec<Arc<Growth>> {
        let mut growths = lock(&self.growths);
        growths.retain(is_going_on);
        self.growing.store(growths.len(), Ordering::Release);
        growths.iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends those that the disk has left waiting.
    pub(crate) fn end_stalled(&self) {
        for growth in self.all_growths().into_iter().filter(|growth| growth.hangs()) {
            add(&self.counters.errors, 1);
            growth.fail();
        }
    }

    /// Ends all of them.
    pub(crate) fn end_growths(&self) {
        self.all_growths().into_iter().for_each(|growth| growth.fail());
    }

    /// Bans up to this number are about to be forgotten.
    pub(crate) fn judge_growths(&self, upto: u64) {
        self.all_growths().into_iter().for_each(|growth| growth.keep_judgement(upto));
    }
}

fn is_going_on(growth: &Weak<Growth>) -> bool {
    growth.upgrade().is_some_and(|growth| !growth.is_over())
}

#[cfg(test)]
impl Growth {
    /// From now on the writing thread does not see it, as if it hung in a write.
    pub(crate) fn hang(&self) {
        lock(&self.state).is_queued = true;
    }

    /// What waits to be written, if there is something, has waited for so long.
    pub(crate) fn has_waited(&self, long: std::time::Duration) {
        if let Some(since) = &mut lock(&self.state).waits_since {
            *since = since.checked_sub(long).expect("the machine runs for longer than that");
        }
    }
}
