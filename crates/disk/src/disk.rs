//! The store as workers see it.

use crate::ban::{Selection, Which};
use crate::counters::{Counts, add};
use crate::growth::Tier;
use crate::load::{Load, Place, read_loads};
use crate::settings::{MOST_QUEUED, MOST_QUEUED_BYTES, Settings};
use crate::shared::{Condition, Put, Say, Shared, Ticket, lock};
use crate::writer;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;
use thalweg_cache::request::FieldLines;
use thalweg_cache::{Key, Policy};
use thalweg_store::{How, Object, Select, Spills};

/// A store on a disk. A clone is another handle of it; the last one that is dropped closes it.
#[derive(Clone)]
pub struct Disk {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("path", &self.shared().settings.path).finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens a store; at once, whatever there is in the directory. What is wrong with that is said by `say`.
    ///
    /// # Errors
    /// The settings cannot be used, or there are no threads.
    pub fn open(settings: Settings, say: Say) -> Result<Self, String> {
        settings.check()?;
        let readers = settings.readers;
        let shared = Arc::new(Shared::new(settings, say));
        // Dropped on the way out, it ends the threads that there are.
        let disk = Self { handle: Arc::new(Handle { shared: shared.clone() }) };
        let spawn = |name: &str, run: fn(&Arc<Shared>)| {
            let shared = shared.clone();
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared));
            spawned.map(drop).map_err(|error| format!("cannot start a thread for the disk cache: {error}"))
        };
        spawn("thalweg-disk", writer::run)?;
        for _ in 0..readers {
            spawn("thalweg-load", |shared| read_loads(shared))?;
        }
        Ok(disk)
    }

    /// A moment: to be taken before a response is asked for that will be put here.
    pub fn ticket(&self) -> Ticket {
        self.shared().ticket()
    }

    /// Has an object written that is stored in memory, unless it was purged or removed after `ticket`. Does not wait;
    /// false: it is not written, since there is too much to write. What is stored of an earlier response goes in any
    /// case: the disk never has an older one than memory had.
    pub fn put(&self, object: &Arc<Object>, ticket: Ticket) -> bool {
        let shared = self.shared();
        let name = (object.key(), object.url(), object.variant());
        let replaced = shared.replace(name, &object.head().vary, ticket);
        let is_queued = replaced.is_some_and(|ticket| self.queue(object, ticket));
        if is_queued {
            shared.has_tasks.notify_one();
        } else {
            add(&shared.counters.not_written, 1);
        }
        is_queued
    }

    /// The disk as the place of responses that are too large for memory, and are written while they come; `ticket` as
    /// for [`Self::put`].
    pub fn tier(&self, ticket: Ticket) -> Box<dyn Spills> {
        Box::new(Tier { disk: self.clone(), ticket })
    }

    fn queue(&self, object: &Arc<Object>, ticket: Ticket) -> bool {
        let (shared, bytes) = (self.shared(), object.body().len());
        let may = bytes <= shared.settings.largest()
            && matches!(shared.condition(), Condition::Indexing | Condition::Ready | Condition::Paused);
        let mut tasks = lock(&shared.tasks);
        // An object that is as large as all that may wait comes alone.
        let has_room = tasks.puts.is_empty()
            || (tasks.puts.len() < MOST_QUEUED && tasks.put_bytes + bytes <= MOST_QUEUED_BYTES);
        let is_queued = may && tasks.is_open && has_room;
        if is_queued {
            tasks.puts.push_back(Put { object: object.clone(), ticket });
            tasks.put_bytes += bytes;
        }
        is_queued
    }

    /// Where the object for a request is, if one is there. Looks into memory only. `variant` becomes what tells the
    /// request from others under its key.
    pub fn find<'a>(
        &self,
        key: &Key,
        policy: &Policy,
        fields: impl FieldLines<'a>,
        variant: &mut Vec<u8>,
    ) -> Option<Place> {
        let shared = self.shared();
        if shared.condition() == Condition::Unusable || shared.index.objects() == 0 {
            return None;
        }
        // Before it is found: what is removed afterwards concerns it.
        let ticket = shared.ticket();
        let of_key = shared.index.hash(key.bytes());
        let slot = shared.index.find(of_key, (policy, fields), variant)?;
        let hashes = shared.index.hashes(key.bytes(), key.url());
        Some(Place { hashes, slot, ticket })
    }

    /// Begins to read an object; key and variant are what [`Self::find`] was asked and has said. `None`: too many are
    /// being read.
    pub fn load(&self, place: Place, key: &Key, variant: &[u8]) -> Option<Load> {
        Load::begin(self.shared(), place, key, variant)
    }

    /// Removes what is stored under a key; how many objects.
    pub fn remove(&self, key: &Key) -> u64 {
        let shared = self.shared();
        let of_key = shared.index.hash(key.bytes());
        lock(&shared.removals).note(of_key);
        let gone = shared.index.take(of_key, |_| true);
        self.removed(&gone, || Which::Key(key.bytes().into()))
    }

    /// Removes what is stored under the key and variant of an object.
    pub fn remove_object(&self, object: &Object) -> u64 {
        let shared = self.shared();
        let of_key = shared.index.hash(object.key());
        lock(&shared.removals).note(of_key);
        let gone = shared.index.take_same(of_key, &object.head().vary, object.variant());
        self.removed(&gone, || Which::Key(object.key().into()))
    }

    /// Removes what is stored for a URL, whatever else its keys say; `url` is [`Key::url`]. How many objects.
    pub fn remove_url(&self, url: &[u8]) -> u64 {
        let shared = self.shared();
        let of_url = shared.index.hash(url);
        lock(&shared.removals).note(of_url);
        let gone = shared.index.take_url(of_url);
        self.removed(&gone, || Which::Url(url.into()))
    }

    fn removed(&self, gone: &[crate::index::Slot], which: impl FnOnce() -> Which) -> u64 {
        let shared = self.shared();
        shared.mark(gone);
        // What the index does not know of yet.
        if shared.is_unread.load(Ordering::Acquire) {
            shared.ban(How::Remove, which());
        }
        add(&shared.counters.removed, gone.len() as u64);
        gone.len() as u64
    }

    /// Takes objects away: from when this returns none of them is given out any more. Does not wait for the disk.
    pub fn begin_purge(&self, select: &Select<'_>, how: How) -> Purging {
        let which = Which::Select(Box::new(Selection::of(select)));
        Purging { number: self.shared().ban(how, which), shared: self.shared().clone() }
    }

    /// The same, and waits until it outlasts a crash of the machine: not for workers.
    pub fn purge(&self, select: &Select<'_>, how: How) {
        self.begin_purge(select, how).wait(Duration::MAX);
    }

    /// What it has and did.
    pub fn counts(&self) -> Counts {
        Counts { objects: self.shared().index.objects(), ..self.shared().counters.read() }
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.shared().settings
    }

    /// How it stands.
    pub fn condition(&self) -> Condition {
        self.shared().condition()
    }

    /// Bytes of memory that the index takes.
    pub fn index_bytes(&self) -> u64 {
        self.shared().index.memory()
    }

    /// Waits until all that was put is written, all that is stored can be found, and all purges are forgotten. For
    /// tests and figures.
    pub fn wait_idle(&self) {
        let shared = self.shared();
        let mut tasks = lock(&shared.tasks);
        (tasks.sweeps, tasks.is_idle) = (true, false);
        shared.has_tasks.notify_one();
        while !tasks.is_idle && !tasks.is_over && shared.condition() != Condition::Unusable {
            tasks = shared.has_done.wait(tasks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes it, and waits until what was put and removed is written. Not for workers.
    pub fn close(self) {
        self.close_within(Duration::MAX);
    }

    /// The same, and waits at most so long: for the end of the process. False: the disk was slower.
    pub fn close_within(self, most: Duration) -> bool {
        let shared = self.shared().clone();
        drop(self);
        shared.close();
        shared.wait_until(most, |tasks| tasks.is_over)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

/// A purge that has begun.
#[must_use = "it may have to be waited for"]
pub struct Purging {
    shared: Arc<Shared>,
    number: Option<u64>,
}

impl Purging {
    /// Waits until the purge outlasts a crash of the machine, at most so long: not for workers. False: it does not yet,
    /// since the directory is not in use or the disk is slow.
    pub fn wait(self, most: Duration) -> bool {
        let Some(number) = self.number else { return false };
        self.shared.wait_until(most, |tasks| tasks.kept_bans >= number || !tasks.is_open)
            && lock(&self.shared.tasks).kept_bans >= number
    }
}

impl fmt::Debug for Purging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purging").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}
