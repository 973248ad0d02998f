//! The thread that owns the directory: it finds what an earlier run has stored, writes objects, marks those that were
//! removed, keeps bans, and makes room.
//!
//! What concerns removals comes first in each turn. A mark that cannot be written takes its segment with it; a ban that
//! cannot be kept, the whole store.

use crate::ban::{Ban, Bans, Verdict};
use crate::counters::add;
use crate::directory::{Directory, Refused, text_of};
use crate::grow::Growing;
use crate::growth::Growth;
use crate::index::{Hashes, Slot};
use crate::log::{Log, Records, Written};
use crate::record::Header;
use crate::scan::Sweep;
use crate::settings::{
    IN_USE_RETRY, LOWERED_FOR, PAUSE, SWEEP_BANS, SWEEP_INTERVAL, SYNC_INTERVAL, UNUSABLE_RETRY,
};
use crate::shared::{Condition, Put, Shared, lock};
use crate::state::{NotWritten, State};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Objects that are taken from the queue at one time.
const AT_A_TIME: usize = 256;
/// Segments of which most is in use that get another turn before one goes.
const MOST_TURNS: u32 = 8;

/// Runs the thread until the store is closed.
pub(crate) fn run(shared: &Arc<Shared>) {
    if let Some(mut writer) = Writer::open(shared) {
        while writer.turn() {}
        lock(&shared.tasks).is_open = false;
        writer.end_growths();
        let _ = writer.log.sync();
        // Loads may go on for a while.
        writer.log.directory.release();
    }
    let mut tasks = lock(&shared.tasks);
    (tasks.is_over, tasks.is_open) = (true, false);
    tasks.puts.clear();
    let growths = std::mem::take(&mut tasks.growths);
    drop(tasks);
    drop(growths);
    shared.has_done.notify_all();
}

/// What is to be done in a turn.
struct Turn {
    bans: Vec<Arc<Ban>>,
    marks: Vec<(u32, u64)>,
    puts: VecDeque<Put>,
    growths: Vec<Arc<Growth>>,
}

/// Writes the state with all bans.
fn write(directory: &Directory, instance: u64, bans: &Bans) -> io::Result<State> {
    let all = bans.all();
    let all: Vec<&Ban> = all.iter().map(|ban| &**ban).collect();
    State::write(directory, instance, bans.forgotten(), &all)
}

/// The store cannot be used any more.
pub(crate) struct Lost;

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
    /// Responses that are written while they come.
    pub(crate) growing: Vec<Growing>,
    /// The number of the next of them.
    pub(crate) grown: u32,
    state: State,
    /// The state file does not have all bans, or not the number of the last.
    is_behind: bool,
    pub(crate) room: u64,
    lowered_until: Option<Instant>,
    paused_until: Option<Instant>,
    pub(crate) sweep: Option<Sweep>,
    pub(crate) swept: Instant,
    synced: Instant,
}

/// A number that is not known before.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

impl Writer {
    /// Waits until the directory can be used; `None`: the store was closed meanwhile.
    fn open(shared: &Arc<Shared>) -> Option<Self> {
        let mut told = None;
        loop {
            let (refused, wait) = match Directory::open(&shared.settings.path) {
                Ok(directory) => match Self::begin(shared, Arc::new(directory)) {
                    Ok(writer) => return Some(writer),
                    Err(error) => (format!("cannot be used: {}", text(&error)), UNUSABLE_RETRY),
                },
                Err(Refused::InUse) => {
                    ("another process uses it; it is not used until that ends".to_owned(), IN_USE_RETRY)
                }
                Err(Refused::Unusable(why)) => {
                    (format!("{why}; nothing is stored on the disk"), UNUSABLE_RETRY)
                }
            };
            let is_in_use = wait == IN_USE_RETRY;
            shared.set_condition(if is_in_use { Condition::Opening } else { Condition::Unusable });
            if told.as_ref() != Some(&refused) {
                shared.warn(&refused);
                told = Some(refused);
            }
            let tasks = lock(&shared.tasks);
            shared.has_done.notify_all();
            let has_waited = shared.has_tasks.wait_timeout_while(tasks, wait, |_| !shared.is_closing());
            drop(has_waited);
            if shared.is_closing() {
                return None;
            }
        }
    }

    /// Takes over a directory.
    fn begin(shared: &Arc<Shared>, directory: Arc<Directory>) -> io::Result<Self> {
        let kept = State::read(&directory)?;
        if kept.is_none() {
            // Without its bans, nothing that is there may be used.
            for (number, _) in directory.segments()? {
                directory.remove_segment(number)?;
            }
            directory.sync()?;
        }
        directory.remove_growths()?;
        let instance = kept.as_ref().map_or_else(random, |(state, _)| state.instance);
        let log = Log::new(directory.clone(), (instance, random()), shared.settings.segment())?;
        let mut tasks = lock(&shared.tasks);
        let early = shared.bans.all().len();
        let state = match kept {
            // On a full disk there is no room for another one.
            Some((mut state, kept)) => {
                shared.bans.begin(kept.forgotten, kept.bans);
                let all = shared.bans.all();
                let is_kept = all[all.len() - early..].iter().all(|ban| state.add(ban).is_ok());
                if is_kept { state } else { write(&directory, instance, &shared.bans)? }
            }
            None => {
                shared.bans.begin(0, Vec::new());
                write(&directory, instance, &shared.bans)?
            }
        };
        (tasks.is_open, tasks.kept_bans) = (true, shared.bans.last());
        drop(tasks);
        shared.instance.store(instance, Ordering::Release);
        // It is set once: a directory that could not be begun with was not.
        let _ = shared.directory.set(directory);
        shared.set_condition(Condition::Indexing);
        shared.has_done.notify_all();
        let now = Instant::now();
        Ok(Self {
            shared: shared.clone(),
            log,
            growing: Vec::new(),
            grown: 0,
            state,
            is_behind: false,
            room: shared.settings.room(),
            lowered_until: None,
            paused_until: None,
            sweep: None,
            swept: now,
            synced: now,
        })
    }

    /// Does what there is to do; false: it is over.
    fn turn(&mut self) -> bool {
        let Some(turn) = self.take() else { return false };
        match self.work(turn) {
            Ok(()) => true,
            Err(Lost) => {
                self.shared.set_condition(Condition::Unusable);
                self.shared.warn(
                    "cannot be changed any more: what was purged or invalidated may still be in it; it is not used \
                     until a restart; help: remove its files before that",
                );
                false
            }
        }
    }

    fn work(&mut self, turn: Turn) -> Result<(), Lost> {
        let Turn { bans, marks, puts, growths } = turn;
        self.keep_bans(&bans)?;
        for (segment, offset) in marks {
            self.mark(segment, offset)?;
        }
        self.resume();
        if self.may_write() {
            for put in puts {
                self.put(&put)?;
            }
            let flushed = self.log.flush();
            self.settle(flushed)?;
        } else {
            add(&self.shared.counters.not_written, puts.len() as u64);
        }
        self.write_growths(growths)?;
        if !self.read_next()? {
            self.sweep_next()?;
        }
        if self.log.is_dirty() && self.synced.elapsed() >= SYNC_INTERVAL {
            self.synced = Instant::now();
            if let Err(error) = self.log.sync() {
                self.pause(&error);
            }
        }
        self.make_room(0)?;
        let counters = &self.shared.counters;
        counters.bytes.store(self.log.bytes(), Ordering::Relaxed);
        counters.bans.store(self.shared.bans.all().len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Takes what is to be done, and waits where that is nothing; `None`: the store is closed.
    fn take(&self) -> Option<Turn> {
        let shared = &self.shared;
        let mut tasks = lock(&shared.tasks);
        loop {
            let is_asked = tasks.has_some();
            let sweeps = self.sweep.is_some() || self.must_sweep(tasks.sweeps);
            if is_asked || sweeps || shared.is_unread.load(Ordering::Acquire) {
                break;
            }
            if shared.is_closing() {
                return None;
            }
            tasks.is_idle = true;
            tasks.sweeps = false;
            shared.has_done.notify_all();
            let due = self.log.is_dirty() && self.synced.elapsed() >= SYNC_INTERVAL;
            let is_over = match self.paused_until {
                Some(until) => until <= Instant::now(),
                None => self.is_behind,
            };
            if due || is_over {
                break;
            }
            let waited = shared.has_tasks.wait_timeout(tasks, SYNC_INTERVAL);
            tasks = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        tasks.is_idle = false;
        if shared.is_closing() && !tasks.has_some() {
            return None;
        }
        let many = tasks.puts.len().min(AT_A_TIME);
        let puts: VecDeque<_> = tasks.puts.drain(..many).collect();
        tasks.put_bytes -= puts.iter().map(|put| put.object.body().len()).sum::<u64>();
        let (bans, marks) = (std::mem::take(&mut tasks.bans), std::mem::take(&mut tasks.marks));
        Some(Turn { bans, marks, puts, growths: tasks.growths.drain(..).collect() })
    }

    /// Whether objects are written at all.
    pub(crate) fn may_write(&self) -> bool {
        self.paused_until.is_none() && !self.is_behind
    }

    pub(crate) fn must_sweep(&self, is_asked: bool) -> bool {
        let many = self.shared.bans.all().len();
        let is_due = many >= SWEEP_BANS || self.swept.elapsed() >= SWEEP_INTERVAL;
        many > 0 && self.log.unread.is_empty() && (is_asked || is_due)
    }

    /// Writes bans down, and tells who waits for that.
    fn keep_bans(&mut self, bans: &[Arc<Ban>]) -> Result<(), Lost> {
        for ban in bans {
            match self.state.add(ban) {
                Ok(()) => {}
                Err(NotWritten::Full) if self.write_state() => {}
                Err(NotWritten::Full | NotWritten::Failed) => {
                    self.empty()?;
                    self.write_state();
                }
            }
        }
        if self.is_behind {
            self.write_state();
        }
        if let Some(last) = bans.last() {
            lock(&self.shared.tasks).kept_bans = last.number;
            self.shared.has_done.notify_all();
        }
        Ok(())
    }

    /// Writes the state anew; false, and nothing is written into segments, where that fails.
    pub(crate) fn write_state(&mut self) -> bool {
        let written = write(&self.log.directory, self.log.instance, &self.shared.bans);
        self.is_behind = written.is_err();
        match written {
            Ok(state) => self.state = state,
            Err(error) => self.pause(&error),
        }
        !self.is_behind
    }

    /// Removes everything: a ban has no other place.
    fn empty(&mut self) -> Result<(), Lost> {
        self.shared.warn("a purge cannot be written down; the disk cache is emptied in its place");
        let numbers: Vec<_> =
            self.log.numbers().into_iter().chain(self.log.unread.iter().map(|(n, _)| *n)).collect();
        for number in numbers {
            self.remove_segment(number)?;
        }
        self.end_growths();
        self.shared.bans.forget(self.shared.bans.last());
        self.sweep = None;
        Ok(())
    }

    /// Removes a segment, and what stands in it.
    pub(crate) fn remove_segment(&mut self, number: u32) -> Result<(), Lost> {
        let mut gone = 0;
        for key in self.log.keys(number) {
            gone += self.shared.index.take(key, |slot| slot.segment == number).len();
        }
        add(&self.shared.counters.evictions, gone as u64);
        let removed = self.log.remove(number).map_err(|_| Lost);
        // Afterwards: nobody opens it again.
        self.shared.forget_file(number);
        removed
    }

    /// Marks a record as removed.
    pub(crate) fn mark(&mut self, segment: u32, offset: u64) -> Result<(), Lost> {
        let marked = self.log.restamp(segment, offset, |header| header.is_live = false);
        if marked.is_err() {
            add(&self.shared.counters.errors, 1);
            self.remove_segment(segment)?;
        }
        Ok(())
    }

    /// Writes an object, or not.
    fn put(&mut self, put: &Put) -> Result<(), Lost> {
        if self.paused_until.is_some() {
            add(&self.shared.counters.not_written, 1);
            return Ok(());
        }
        match self.append(put) {
            Ok(true) => Ok(()),
            Ok(false) => {
                add(&self.shared.counters.not_written, 1);
                Ok(())
            }
            Err(Failure::Lost) => Err(Lost),
            Err(Failure::Io(error)) => {
                add(&self.shared.counters.not_written, 1);
                self.settle(Err(error))
            }
        }
    }

    fn append(&mut self, put: &Put) -> Result<bool, Failure> {
        let (shared, Put { object, ticket }) = (self.shared.clone(), put);
        let (head, body) = (object.head(), object.body());
        let name = (object.key(), object.url(), head.lines());
        let hashes = shared.index.hashes(object.key(), object.url());
        let Verdict::Kept(stale_from) = shared.bans.judge(ticket.bans, name, None) else { return Ok(false) };
        let same = shared.index.same(hashes.key, object.variant());
        let all = [hashes.key, hashes.url, same];
        let is_removed = lock(&shared.removals).concern(ticket.removals, &all);
        if is_removed || shared.bans.is_unknown(ticket.bans) {
            return Ok(false);
        }
        let meta = [object.key(), object.variant(), head.lines()].concat();
        let nonce = self.log.nonce();
        let header = Header {
            is_live: true,
            nonce,
            body: body.len(),
            received: head.freshness.received.0,
            initial_age: head.freshness.initial_age,
            bans: ticket.bans,
            stale_from,
            part: head.part,
            key: object.key().len() as u32,
            url: object.url().len() as u32,
            variant: object.variant().len() as u32,
            lines: head.lines().len() as u32,
            status: head.status,
            meta_sum: Header::sum_of_meta(nonce, &meta),
        };
        let slot = shared.index.slot((0, 0, header.record()), &head.vary, object.variant());
        let Some(slot) = slot.filter(|_| header.is_possible() && body.len() <= shared.settings.largest())
        else {
            return Ok(false);
        };
        self.make_room(header.record()).map_err(|Lost| Failure::Lost)?;
        self.end_long()?;
        let (segment, offset) = self.log.begin(&header, &meta)?;
        for (number, chunk) in body.even().chunks().iter().enumerate() {
            self.log.chunk(&header, number as u64, chunk)?;
        }
        let slot = slot.moved(segment, offset);
        self.log.end(Written { hashes, slot, moved_from: None, removals: ticket.removals })?;
        Ok(true)
    }

    /// Ends the segment that is written to, where it is long enough.
    fn end_long(&mut self) -> Result<(), Failure> {
        if self.log.is_long() { self.end_segment() } else { Ok(()) }
    }

    /// Ends the segment that is written to.
    pub(crate) fn end_segment(&mut self) -> Result<(), Failure> {
        self.log.flush()?;
        self.index_written().map_err(|Lost| Failure::Lost)?;
        self.log.retire();
        Ok(())
    }

    /// What was written can be found, and what could not be is forgotten.
    pub(crate) fn settle(&mut self, written: io::Result<()>) -> Result<(), Lost> {
        self.index_written()?;
        if let Err(error) = written {
            let lost = self.log.give_up();
            add(&self.shared.counters.not_written, lost as u64);
            self.pause(&error);
        }
        Ok(())
    }

    fn index_written(&mut self) -> Result<(), Lost> {
        let shared = self.shared.clone();
        for Written { hashes, slot, moved_from, removals } in self.log.take_written() {
            if let Some(old) = moved_from {
                if !shared.index.replace(hashes.key, &old, slot) {
                    self.mark(slot.segment, slot.offset())?;
                }
                continue;
            }
            self.index_new(hashes, slot, removals)?;
        }
        Ok(())
    }

    /// A record can be found, in the place of an earlier one, unless it was removed after the removal with this number.
    pub(crate) fn index_new(&mut self, hashes: Hashes, slot: Slot, removals: u64) -> Result<(), Lost> {
        let shared = self.shared.clone();
        for gone in shared.index.insert(hashes, slot) {
            self.mark(gone.segment, gone.offset())?;
        }
        add(&shared.counters.written, 1);
        self.note_success();
        // After it can be found: a removal that comes now finds it.
        let all = [hashes.key, hashes.url, slot.same(hashes.key)];
        let is_removed = lock(&shared.removals).concern(removals, &all);
        if is_removed && shared.index.take_at(hashes.key, &slot) {
            add(&shared.counters.removed, 1);
            self.mark(slot.segment, slot.offset())?;
        }
        Ok(())
    }

    /// Nothing is written for a while.
    fn pause(&mut self, error: &io::Error) {
        let (shared, now) = (&self.shared, Instant::now());
        add(&shared.counters.errors, 1);
        if is_full(error) {
            let used = self.log.bytes();
            self.room = self.room.min(used.saturating_sub(shared.settings.segment()));
            self.lowered_until = Some(now + LOWERED_FOR);
        }
        if self.paused_until.is_none() && shared.condition() != Condition::Paused {
            shared.warn(&format!(
                "cannot write: {}; nothing is written for a while, what is stored is still used",
                text(error)
            ));
        }
        shared.set_condition(Condition::Paused);
        self.paused_until = Some(now + PAUSE);
    }

    /// Goes on after a pause.
    fn resume(&mut self) {
        let now = Instant::now();
        if self.lowered_until.is_some_and(|until| until <= now) {
            (self.room, self.lowered_until) = (self.shared.settings.room(), None);
        }
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
        }
    }

    /// Something was written.
    fn note_success(&self) {
        if self.paused_until.is_none() && self.shared.condition() == Condition::Paused {
            self.shared.info("is written to again");
            self.set_ready();
        }
    }

    /// Says how far the index is.
    pub(crate) fn set_ready(&self) {
        let is_read = self.log.unread.is_empty();
        self.shared.set_condition(if is_read { Condition::Ready } else { Condition::Indexing });
    }

    /// Lets segments go until there is room for so many bytes.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Result<(), Lost> {
        let mut turns = 0;
        while self.log.bytes() + bytes > self.room {
            if let Some((number, _)) = self.log.unread.front().copied() {
                self.remove_segment(number)?;
                continue;
            }
            let Some(oldest) = self.log.segments.front() else { return Ok(()) };
            let (number, size) = (oldest.number, oldest.bytes);
            let used = self.used(number);
            let used_bytes: u64 = used.iter().map(|(_, slot)| slot.length()).sum();
            if used_bytes >= size / 4 * 3 && turns < MOST_TURNS {
                turns += 1;
                for (key, slot) in used {
                    self.shared.index.replace(key, &slot, slot.moved(number, slot.offset()));
                }
                self.log.segments.rotate_left(1);
                continue;
            }
            self.keep(used)?;
            self.remove_segment(number)?;
        }
        Ok(())
    }

    /// The objects of a segment that were used.
    fn used(&self, number: u32) -> Vec<(u64, Slot)> {
        let mut keys = self.log.keys(number);
        keys.sort_unstable();
        keys.dedup();
        let index = &self.shared.index;
        let of_key = |key: u64| index.in_segment(key, number).into_iter().map(move |slot| (key, slot));
        keys.into_iter().flat_map(of_key).filter(|(_, slot)| slot.uses > 0).collect()
    }

    /// Writes objects again whose segment is to go, as long as they are less than half of one.
    fn keep(&mut self, used: Vec<(u64, Slot)>) -> Result<(), Lost> {
        let mut left = self.shared.settings.segment() / 2;
        if self.paused_until.is_some() {
            return Ok(());
        }
        for (key, slot) in used {
            if slot.length() > left {
                continue;
            }
            match self.copy(key, &slot) {
                Ok(()) => left -= slot.length(),
                Err(Failure::Lost) => return Err(Lost),
                Err(Failure::Io(error)) => return self.settle(Err(error)),
            }
        }
        let flushed = self.log.flush();
        self.settle(flushed)
    }

    fn copy(&mut self, key: u64, slot: &Slot) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let Ok(file) = shared.file(slot.segment) else { return Ok(()) };
        self.end_long()?;
        // Not one that a crash could make forgotten.
        let last = lock(&shared.tasks).kept_bans;
        let mut records = Records::new(&file, slot.offset() + slot.length());
        let Ok(Some(header)) = records.header(self.log.at(slot.segment, slot.offset())) else {
            return Ok(());
        };
        let meta = match records.meta(slot.offset(), &header) {
            Ok(Some(meta)) if header.is_live => meta,
            _ => return Ok(()),
        };
        let name = (meta.key(), meta.url(), meta.lines());
        let Verdict::Kept(stale_from) = shared.bans.judge(header.bans, name, header.stale_from) else {
            return Ok(());
        };
        let hashes: Hashes = shared.index.hashes(meta.key(), meta.url());
        let all = [meta.key(), meta.variant(), meta.lines()].concat();
        let nonce = self.log.nonce();
        let meta_sum = Header::sum_of_meta(nonce, &all);
        let next = Header { nonce, meta_sum, stale_from, bans: last, ..header.clone() };
        let (segment, offset) = self.log.begin(&next, &all)?;
        for number in 0..header.chunks() {
            let Ok(Some(chunk)) = records.chunk(slot.offset(), &header, number) else {
                shared.count_damage();
                return Ok(self.log.abandon(offset)?);
            };
            self.log.chunk(&next, number, chunk)?;
        }
        let written =
            Written { hashes, slot: slot.moved(segment, offset), moved_from: Some(*slot), removals: 0 };
        debug_assert_eq!(key, hashes.key);
        add(&shared.counters.kept, 1);
        Ok(self.log.end(written)?)
    }
}

/// Why something is not written.
pub(crate) enum Failure {
    Lost,
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn is_full(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}

fn text(error: &io::Error) -> String {
    Errno::from_io_error(error).map_or_else(|| error.to_string(), text_of)
}
