//! What workers and the threads of a store share: the index, the bans, and what is to be done.

use crate::ban::{Bans, Which};
use crate::counters::{Counters, add};
use crate::directory::Directory;
use crate::growth::Growth;
use crate::index::{Index, Slot};
use crate::load::Loading;
use crate::removals::Removals;
use crate::settings::{MOST_BANS, Settings};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use thalweg_cache::Vary;
use thalweg_core::Notice;
use thalweg_store::{How, Object};

/// Files of segments that are open for reading and may be used again.
const MOST_FILES: usize = 32;
/// Who waits for the disk looks again after this.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Where lines for the operator go.
pub type Say = Arc<dyn Fn(Notice) + Send + Sync>;

/// How a store stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Condition {
    /// Its directory is being opened, or another process uses it.
    Opening,
    /// Objects of an earlier run are being found.
    Indexing,
    /// All that is stored can be found.
    Ready,
    /// Nothing is written for a while: the disk is full, or has failed.
    Paused,
    /// The directory cannot be used.
    Unusable,
}

impl Condition {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Indexing => "indexing",
            Self::Ready => "ready",
            Self::Paused => "paused",
            Self::Unusable => "unusable",
        }
    }

    const ALL: [Self; 5] = [Self::Opening, Self::Indexing, Self::Ready, Self::Paused, Self::Unusable];
}

/// A moment in the order of purges and removals: what is stored later and has been received since then is concerned by
/// those that came after it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ticket {
    pub(crate) bans: u64,
    pub(crate) removals: u64,
}

/// An object that is to be written.
pub(crate) struct Put {
    pub(crate) object: Arc<Object>,
    pub(crate) ticket: Ticket,
}

/// What the writing thread is to do.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) puts: VecDeque<Put>,
    /// Bytes of bodies among them.
    pub(crate) put_bytes: u64,
    /// Records that were removed.
    pub(crate) marks: Vec<(u32, u64)>,
    /// Bans that are to be kept.
    pub(crate) bans: Vec<Arc<crate::ban::Ban>>,
    /// Responses of which something is to be written while they come; each stands here once.
    pub(crate) growths: VecDeque<Arc<Growth>>,
    /// The number of the last ban that is on the disk.
    pub(crate) kept_bans: u64,
    /// The directory is open: bans are kept.
    pub(crate) is_open: bool,
    /// All bans are to be forgotten as soon as may be.
    pub(crate) sweeps: bool,
    /// There is nothing to do.
    pub(crate) is_idle: bool,
    /// The writing thread has ended.
    pub(crate) is_over: bool,
}

impl Tasks {
    /// Whether somebody wants something done.
    pub(crate) fn has_some(&self) -> bool {
        let has_puts = !self.puts.is_empty() || !self.growths.is_empty();
        has_puts || !self.bans.is_empty() || !self.marks.is_empty()
    }
}

/// What is shared.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) say: Say,
    pub(crate) index: Index,
    pub(crate) bans: Bans,
    pub(crate) removals: Mutex<Removals>,
    pub(crate) counters: Counters,
    pub(crate) tasks: Mutex<Tasks>,
    /// There is something to do for the writing thread.
    pub(crate) has_tasks: Condvar,
    /// It has done something.
    pub(crate) has_done: Condvar,
    pub(crate) loads: Mutex<VecDeque<Arc<Loading>>>,
    pub(crate) has_loads: Condvar,
    /// Loads that there are.
    pub(crate) loading: AtomicUsize,
    /// Loads of growths that there are.
    pub(crate) growth_loading: AtomicUsize,
    /// Responses that are written while they come.
    pub(crate) growths: Mutex<Vec<Weak<Growth>>>,
    /// How many these are, about.
    pub(crate) growing: AtomicUsize,
    pub(crate) is_closing: AtomicBool,
    pub(crate) is_unread: AtomicBool,
    pub(crate) directory: OnceLock<Arc<Directory>>,
    pub(crate) instance: AtomicU64,
    condition: AtomicU8,
    files: Mutex<VecDeque<(u32, Arc<File>)>>,
    has_told_damage: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(settings: Settings, say: Say) -> Self {
        Self {
            settings,
            say,
            index: Index::new(),
            bans: Bans::default(),
            removals: Mutex::default(),
            counters: Counters::default(),
            tasks: Mutex::default(),
            has_tasks: Condvar::new(),
            has_done: Condvar::new(),
            loads: Mutex::default(),
            has_loads: Condvar::new(),
            loading: AtomicUsize::new(0),
            growth_loading: AtomicUsize::new(0),
            growths: Mutex::default(),
            growing: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            is_unread: AtomicBool::new(true),
            directory: OnceLock::new(),
            instance: AtomicU64::new(0),
            condition: AtomicU8::new(Condition::Opening as u8),
            files: Mutex::default(),
            has_told_damage: AtomicBool::new(false),
        }
    }

    pub(crate) fn condition(&self) -> Condition {
        let number = usize::from(self.condition.load(Ordering::Acquire));
        Condition::ALL.get(number).copied().unwrap_or(Condition::Unusable)
    }

    pub(crate) fn set_condition(&self, condition: Condition) {
        self.condition.store(condition as u8, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Lets the threads end.
    pub(crate) fn close(&self) {
        // Who has looked and not begun to wait yet holds the lock.
        let tasks = lock(&self.tasks);
        self.is_closing.store(true, Ordering::Release);
        drop(tasks);
        self.has_tasks.notify_all();
        self.wake_readers();
    }

    /// Lets threads for reading see that something has changed.
    pub(crate) fn wake_readers(&self) {
        // Who has looked and not begun to wait yet holds the lock.
        drop(lock(&self.loads));
        self.has_loads.notify_all();
    }

    /// A moment.
    pub(crate) fn ticket(&self) -> Ticket {
        let removals = lock(&self.removals).last();
        Ticket { bans: self.bans.last(), removals }
    }

    /// Adds a ban; gives its number where the directory is open, so that it will be kept.
    pub(crate) fn ban(&self, how: How, which: Which) -> Option<u64> {
        let mut tasks = lock(&self.tasks);
        let (how, which) = match self.bans.all().len() >= MOST_BANS {
            true => (How::Remove, Which::all()),
            false => (how, which),
        };
        let ban = self.bans.add(how, which);
        if !tasks.is_open {
            return None;
        }
        let number = ban.number;
        tasks.bans.push(ban);
        drop(tasks);
        self.has_tasks.notify_one();
        Some(number)
    }

    /// Waits until it is so, at most so long; whether it is.
    pub(crate) fn wait_until(&self, most: Duration, is_so: impl Fn(&Tasks) -> bool) -> bool {
        let end = Instant::now().checked_add(most);
        let mut tasks = lock(&self.tasks);
        while !is_so(&tasks) {
            let left = end.map_or(LONGEST_WAIT, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            tasks = self.has_done.wait_timeout(tasks, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Removes what is stored in the place of an object that is to be written: of this key, URL and variant. The moment
    /// from which on it is concerned itself; `None`: it was removed.
    pub(crate) fn replace(
        &self,
        (key, url, variant): (&[u8], &[u8], &[u8]),
        vary: &Vary,
        mut ticket: Ticket,
    ) -> Option<Ticket> {
        let hashes = self.index.hashes(key, url);
        // Noted first: it may be found, or be written, just now.
        let is_unread = self.is_unread.load(Ordering::Acquire);
        let is_written = || {
            let tasks = lock(&self.tasks);
            !tasks.is_idle || !tasks.puts.is_empty() || !tasks.growths.is_empty()
        };
        if is_unread || is_written() {
            let mut removals = lock(&self.removals);
            if removals.concern(ticket.removals, &hashes.both()) {
                return None;
            }
            let of = if is_unread { hashes.key } else { self.index.same(hashes.key, variant) };
            removals.note(of);
            ticket.removals = removals.last();
        }
        self.mark(&self.index.take_same(hashes.key, vary, variant));
        Some(ticket)
    }

    /// Objects were taken out of the index: their records are to be marked.
    pub(crate) fn mark(&self, gone: &[Slot]) {
        if gone.is_empty() {
            return;
        }
        lock(&self.tasks).marks.extend(gone.iter().map(|slot| (slot.segment, slot.offset())));
        self.has_tasks.notify_one();
    }

    /// An object on the disk is damaged.
    pub(crate) fn drop_damaged(&self, of_key: u64, slot: &Slot) {
        if self.index.take_at(of_key, slot) {
            self.mark(&[*slot]);
            self.count_damage();
        }
    }

    /// Counts damage; the first one is told.
    pub(crate) fn count_damage(&self) {
        add(&self.counters.damaged, 1);
        if !self.has_told_damage.swap(true, Ordering::Relaxed) {
            self.warn("has damaged objects, which are not used; help: look whether the disk fails");
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        (self.say)(Notice::warn(self.line(text)));
    }

    pub(crate) fn info(&self, text: &str) {
        (self.say)(Notice::info(self.line(text)));
    }

    fn line(&self, text: &str) -> String {
        format!("disk cache {}: {text}", self.settings.path.display())
    }

    /// A segment, open for reading.
    pub(crate) fn file(&self, number: u32) -> Result<Arc<File>, rustix::io::Errno> {
        let known =
            lock(&self.files).iter().find(|(known, _)| *known == number).map(|(_, file)| file.clone());
        if let Some(file) = known {
            return Ok(file);
        }
        let directory = self.directory.get().ok_or(rustix::io::Errno::NOENT)?;
        let file = Arc::new(directory.segment(number, false)?);
        let mut files = lock(&self.files);
        files.push_back((number, file.clone()));
        let old = if files.len() > MOST_FILES { files.pop_front() } else { None };
        drop(files);
        drop(old);
        Ok(file)
    }

    /// A segment has gone.
    pub(crate) fn forget_file(&self, number: u32) {
        let mut files = lock(&self.files);
        let gone: Vec<_> = files.iter().filter(|(known, _)| *known == number).cloned().collect();
        files.retain(|(known, _)| *known != number);
        drop(files);
        drop(gone);
    }
}
