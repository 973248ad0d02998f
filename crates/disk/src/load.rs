//! Loads: an object is read by a thread for reading, and given to the task that asked, chunk by chunk.
//!
//! A chunk is given out after its checksum was right. Some are read ahead; then the load rests until the task has taken
//! them, so that a slow client holds two chunks and no thread. Who waits is woken outside of locks. What is still being
//! written is read the same way, up to what was written when the load began.

use crate::ban::{Verdict, judge};
use crate::counters::add;
use crate::index::{Hashes, Slot};
use crate::log::FIRST;
use crate::record::{At, HEADER, Header, Meta, SUM};
use crate::settings::{AHEAD, AHEAD_OF_GROWTH, MOST_GROWTH_LOADS, MOST_LOADS, STALL_CHECK};
use crate::shared::{Shared, Ticket, lock};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;
use thalweg_cache::{Key, Policy, Saved, StoredHead, UnixMillis, Vary};
use thalweg_store::{Body, Broken, CHUNK, Chunk, Object, Piece, SpillRead, Store, make_stale};

/// What is read at first: most heads, and a chunk.
const FIRST_READ: usize = HEADER + 8 * 1024 + CHUNK + SUM;

/// Where the index says that an object is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(crate) hashes: Hashes,
    pub(crate) slot: Slot,
    pub(crate) ticket: Ticket,
}

impl Place {
    /// About how many bytes the object has, with its head.
    pub fn size(&self) -> u64 {
        self.slot.length()
    }
}

/// The rest of a body cannot be had: it is damaged, or the disk fails. What was given before was right, but the
/// response is not complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Damaged;

/// An object that was found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its head.
    pub head: Arc<StoredHead>,
    /// Bytes of its body.
    pub length: u64,
}

/// The head as it stands on the disk.
struct Raw {
    header: Header,
    meta: Meta<Box<[u8]>>,
    stale_from: Option<UnixMillis>,
}

impl Raw {
    fn restore(&self, policy: &Policy) -> Option<StoredHead> {
        let header = &self.header;
        let mut head = StoredHead::restore(
            policy,
            Saved {
                status: header.status,
                received: UnixMillis(header.received),
                initial_age: header.initial_age,
                part: header.part,
                lines: self.meta.lines(),
            },
        )?;
        if let Some(from) = self.stale_from {
            make_stale(&mut head, from);
        }
        Some(head)
    }
}

#[derive(Default)]
enum Head {
    #[default]
    Waiting,
    Nothing,
    Read(Arc<Raw>),
}

/// What a task and the threads share of a load.
pub(crate) struct Loading {
    place: Place,
    /// Key and variant that it must have.
    name: Box<[u8]>,
    key: usize,
    /// Chunks that are read ahead.
    ahead: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    head: Head,
    file: Option<Arc<File>>,
    /// Chunks that were read, the first of them being number `first`.
    chunks: VecDeque<Chunk>,
    first: u64,
    /// It became another one by a seek.
    turn: u32,
    is_damaged: bool,
    /// A thread has it, or will.
    is_queued: bool,
    is_gone: bool,
    waker: Option<Waker>,
}

impl State {
    fn raw(&self) -> Option<Arc<Raw>> {
        match &self.head {
            Head::Read(raw) => Some(raw.clone()),
            Head::Waiting | Head::Nothing => None,
        }
    }

    /// The chunk that is to be read next.
    fn next(&self, ahead: usize) -> Option<u64> {
        let next = self.first + self.chunks.len() as u64;
        let has_more = self.raw().is_some_and(|raw| next < raw.header.chunks());
        (has_more && !self.is_damaged && !self.is_gone && self.chunks.len() < ahead).then_some(next)
    }
}

/// The reading end. Dropping it is how a task goes.
pub struct Load {
    shared: Arc<Shared>,
    loading: Arc<Loading>,
    position: u64,
    /// What it reads is still being written.
    is_of_growth: bool,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("place", &self.loading.place).finish_non_exhaustive()
    }
}

impl Load {
    /// `None`: there are too many.
    pub(crate) fn begin(shared: &Arc<Shared>, place: Place, key: &Key, variant: &[u8]) -> Option<Self> {
        let is_full = shared.loading.fetch_add(1, Ordering::Relaxed) >= MOST_LOADS;
        // Of those who have left, a disk that hangs still has the places in the queue.
        if is_full || lock(&shared.loads).len() >= MOST_LOADS {
            shared.loading.fetch_sub(1, Ordering::Relaxed);
            add(&shared.counters.busy, 1);
            return None;
        }
        let state = State { is_queued: true, ..State::default() };
        let name = [key.bytes(), variant].concat().into();
        let loading = Loading { place, name, key: key.bytes().len(), ahead: AHEAD, state: Mutex::new(state) };
        let load =
            Self { shared: shared.clone(), loading: Arc::new(loading), position: 0, is_of_growth: false };
        load.queue();
        Some(load)
    }

    /// One of what is written of an unfinished body, from this byte on; `None`: there are too many.
    pub(crate) fn of_growth(
        shared: &Arc<Shared>,
        (file, header, meta): (Arc<File>, Header, Meta<Box<[u8]>>),
        position: u64,
    ) -> Option<Self> {
        let before = shared.growth_loading.fetch_add(1, Ordering::AcqRel);
        let hashes = shared.index.hashes(meta.key(), meta.url());
        // In no segment: nothing is removed where it is damaged.
        let slot = shared.index.slot((0, FIRST, header.record()), &Vary::Nothing, b"");
        let place = slot.map(|slot| Place { hashes, slot, ticket: Ticket::default() });
        // Once the store closes, nobody is left to read.
        let may = before < MOST_GROWTH_LOADS && !shared.is_closing();
        let Some(place) = place.filter(|_| may) else {
            shared.growth_loading.fetch_sub(1, Ordering::AcqRel);
            return None;
        };
        let head = Head::Read(Arc::new(Raw { header, meta, stale_from: None }));
        let first = position / CHUNK as u64;
        let state = State { head, file: Some(file), first, ..State::default() };
        let (name, key, ahead) = (Box::default(), 0, AHEAD_OF_GROWTH);
        let loading = Loading { place, name, key, ahead, state: Mutex::new(state) };
        Some(Self { shared: shared.clone(), loading: Arc::new(loading), position, is_of_growth: true })
    }

    /// Waits for the head; `None`: the object is not there, or is damaged, or would not be stored with this policy.
    /// Cancel-safe. A head that is stale is given too.
    pub fn poll_head(&mut self, context: &Context<'_>, policy: &Policy) -> Poll<Option<Loaded>> {
        let mut state = lock(&self.loading.state);
        let raw = match &state.head {
            Head::Nothing => return Poll::Ready(None),
            Head::Read(raw) => raw.clone(),
            Head::Waiting => {
                let old = state.waker.replace(context.waker().clone());
                drop(state);
                drop(old);
                return Poll::Pending;
            }
        };
        drop(state);
        let head = raw.restore(policy);
        Poll::Ready(head.map(|head| Loaded { head: Arc::new(head), length: raw.header.body }))
    }

    /// Reads the whole body; after the head, and before anything else of the body. What is there already stands in
    /// `read`. Cancel-safe.
    ///
    /// # Errors
    /// The rest cannot be had.
    pub fn poll_body(&mut self, context: &Context<'_>, read: &mut Vec<Chunk>) -> Poll<Result<Body, Damaged>> {
        while let Some(piece) = ready!(self.poll_piece(context))? {
            read.push(piece.into_parts().0);
        }
        Poll::Ready(Ok(Body::of(std::mem::take(read))))
    }

    /// Stores the object in memory too; after the head and the whole body. `None`: it is too large, or was purged
    /// meanwhile.
    pub fn promote(&self, store: &Store, key: &Key, loaded: &Loaded, body: Body) -> Option<Arc<Object>> {
        let raw = lock(&self.loading.state).raw()?;
        let name = (key, raw.meta.variant());
        store.put_if(name, (*loaded.head).clone(), body, || !self.is_outdated(&raw)).ok()
    }

    fn is_outdated(&self, raw: &Raw) -> bool {
        let (place, bans) = (&self.loading.place, &self.shared.bans);
        let name = (raw.meta.key(), raw.meta.url(), raw.meta.lines());
        // In this order: what is forgotten in between counts as unknown.
        let is_banned = bans.judge(place.ticket.bans, name, None) != Verdict::Kept(None)
            || bans.is_unknown(place.ticket.bans);
        is_banned || lock(&self.shared.removals).concern(place.ticket.removals, &place.hashes.both())
    }

    /// The next byte that it reads.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on at this byte; after the head.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
        let wanted = position / CHUNK as u64;
        let mut state = lock(&self.loading.state);
        let mut gone = Vec::new();
        while state.first < wanted
            && let Some(chunk) = state.chunks.pop_front()
        {
            state.first += 1;
            gone.push(chunk);
        }
        if state.first != wanted {
            gone.extend(state.chunks.drain(..));
            (state.first, state.turn) = (wanted, state.turn.wrapping_add(1));
        }
        drop(state);
        drop(gone);
    }

    /// Waits for bytes at its position and goes behind them; `None`: the body ends here. Cancel-safe.
    ///
    /// # Errors
    /// The rest cannot be had.
    pub fn poll_piece(&mut self, context: &Context<'_>) -> Poll<Result<Option<Piece>, Damaged>> {
        let mut state = lock(&self.loading.state);
        let Some(raw) = state.raw() else { return Poll::Ready(Err(Damaged)) };
        if self.position >= raw.header.body {
            return Poll::Ready(Ok(None));
        }
        let (number, from) = (self.position / CHUNK as u64, (self.position % CHUNK as u64) as usize);
        let found = if number == state.first { state.chunks.pop_front() } else { None };
        state.first += u64::from(found.is_some());
        let is_damaged = state.is_damaged && found.is_none();
        let old = match found {
            Some(_) => None,
            None => state.waker.replace(context.waker().clone()),
        };
        let is_new =
            state.next(self.loading.ahead).is_some() && !std::mem::replace(&mut state.is_queued, true);
        drop(state);
        drop(old);
        if is_new {
            self.queue();
        }
        match found {
            Some(chunk) => {
                self.position += (chunk.len() - from) as u64;
                Poll::Ready(Ok(Some(Piece::of(chunk, from))))
            }
            None if is_damaged => Poll::Ready(Err(Damaged)),
            None => Poll::Pending,
        }
    }

    fn queue(&self) {
        lock(&self.shared.loads).push_back(self.loading.clone());
        self.shared.has_loads.notify_one();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let mut state = lock(&self.loading.state);
        state.is_gone = true;
        let gone = (std::mem::take(&mut state.chunks), state.file.take(), state.waker.take());
        drop(state);
        drop(gone);
        match self.is_of_growth {
            true => self.shared.growth_loading.fetch_sub(1, Ordering::AcqRel),
            false => self.shared.loading.fetch_sub(1, Ordering::AcqRel),
        };
        if self.shared.is_closing() {
            self.shared.wake_readers();
        }
    }
}

impl SpillRead for Load {
    fn poll_piece(&mut self, context: &Context<'_>) -> Poll<Result<Option<Piece>, Broken>> {
        Load::poll_piece(self, context).map_err(|Damaged| Broken::Damaged)
    }
}

/// Runs a thread for reading until the store is closed and all loads are over. Beside that it looks whether the disk
/// hangs under those who wait for it to write.
pub(crate) fn read_loads(shared: &Shared) {
    let (mut buffer, mut looked) = (vec![0; FIRST_READ], Instant::now());
    loop {
        if shared.growing.load(Ordering::Acquire) > 0 && looked.elapsed() >= STALL_CHECK {
            shared.end_stalled();
            looked = Instant::now();
        }
        match next(shared) {
            Next::Load(loading) => loading.advance(shared, &mut buffer),
            Next::Look => {}
            Next::Over => return,
        }
    }
}

/// What a thread for reading does next.
enum Next {
    Load(Arc<Loading>),
    /// Time has gone by.
    Look,
    Over,
}

fn next(shared: &Shared) -> Next {
    let mut loads = lock(&shared.loads);
    loop {
        if let Some(loading) = loads.pop_front() {
            return Next::Load(loading);
        }
        let loading = shared.loading.load(Ordering::Acquire) + shared.growth_loading.load(Ordering::Acquire);
        if shared.is_closing() && loading == 0 {
            return Next::Over;
        }
        if shared.growing.load(Ordering::Acquire) > 0 {
            drop(shared.has_loads.wait_timeout(loads, STALL_CHECK));
            return Next::Look;
        }
        loads = shared.has_loads.wait(loads).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Why a head is not there.
enum Missing {
    /// It was another object, or it has gone.
    Nothing,
    Damaged,
    Failed,
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // It was cut off.
            io::ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::Failed,
        }
    }
}

impl Loading {
    /// Changes what is shared, and wakes who waits.
    fn change(&self, run: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        run(&mut state);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Reads what is to be read now.
    fn advance(&self, shared: &Shared, buffer: &mut Vec<u8>) {
        let (is_waiting, is_gone) = {
            let state = lock(&self.state);
            (matches!(state.head, Head::Waiting), state.is_gone)
        };
        if is_gone {
            return;
        }
        if is_waiting {
            self.find(shared, buffer);
            // The rest is read once somebody asks for it.
            return;
        }
        loop {
            let mut state = lock(&self.state);
            let (Some(number), Some(raw), Some(file)) =
                (state.next(self.ahead), state.raw(), state.file.clone())
            else {
                state.is_queued = false;
                return;
            };
            let turn = state.turn;
            drop(state);
            let chunk = self.chunk(&file, &raw.header, number, buffer);
            if chunk.is_none() {
                shared.drop_damaged(self.place.hashes.key, &self.place.slot);
            }
            self.change(|state| match chunk {
                _ if state.turn != turn || state.is_gone => {}
                Some(chunk) => state.chunks.push_back(chunk),
                None => state.is_damaged = true,
            });
        }
    }

    /// Reads the head, and the first chunk.
    fn find(&self, shared: &Shared, buffer: &mut Vec<u8>) {
        let found = self.read_head(shared, buffer);
        match &found {
            Ok(_) => add(&shared.counters.loaded, 1),
            Err(Missing::Nothing) => {}
            Err(Missing::Damaged) => shared.drop_damaged(self.place.hashes.key, &self.place.slot),
            Err(Missing::Failed) => {
                add(&shared.counters.errors, 1);
                shared.drop_damaged(self.place.hashes.key, &self.place.slot);
            }
        }
        self.change(|state| {
            state.is_queued = false;
            match found {
                Ok((raw, file, chunk)) => {
                    state.file = Some(file).filter(|_| raw.header.chunks() > 1 && !state.is_gone);
                    state.head = Head::Read(Arc::new(raw));
                    state.chunks.extend(chunk);
                }
                Err(_) => state.head = Head::Nothing,
            }
        });
    }

    fn read_head(
        &self,
        shared: &Shared,
        buffer: &mut Vec<u8>,
    ) -> Result<(Raw, Arc<File>, Option<Chunk>), Missing> {
        let Place { slot, .. } = self.place;
        let file = match shared.file(slot.segment) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => return Err(Missing::Nothing),
            Err(_) => return Err(Missing::Failed),
        };
        // Before it is read: when one of them is forgotten meanwhile, the record may have been read without its mark.
        let bans = shared.bans.all();
        let instance = shared.instance.load(Ordering::Acquire);
        let at = At { instance, segment: slot.segment, offset: slot.offset() };
        let first = slot.length().min(FIRST_READ as u64) as usize;
        read(&file, buffer, at.offset, first)?;
        let mut header = Header::decode(buffer, at);
        if header.is_none() {
            // It may be changed just now.
            read(&file, buffer, at.offset, first)?;
            header = Header::decode(buffer, at);
        }
        let header = header.ok_or(Missing::Damaged)?;
        if !header.is_live {
            return Err(Missing::Nothing);
        }
        let front = HEADER + header.meta() + header.chunk(0).map_or(0, |(_, length)| length + SUM);
        if front > buffer.len() {
            read(&file, buffer, at.offset, front)?;
        }
        let meta = &buffer[HEADER..HEADER + header.meta()];
        let meta = Meta::check(&header, Box::<[u8]>::from(meta)).ok_or(Missing::Damaged)?;
        if meta.key() != &self.name[..self.key] || meta.variant() != &self.name[self.key..] {
            return Err(Missing::Nothing);
        }
        let chunk = match header.chunks() {
            0 => None,
            _ => {
                let bytes = &buffer[HEADER + header.meta()..];
                Some(Chunk::from(header.checked_chunk(0, bytes).ok_or(Missing::Damaged)?))
            }
        };
        let name = (meta.key(), meta.url(), meta.lines());
        match judge(&bans, header.bans, name, header.stale_from) {
            Verdict::Gone => Err(Missing::Nothing),
            Verdict::Kept(stale_from) => Ok((Raw { header, meta, stale_from }, file, chunk)),
        }
    }

    fn chunk(&self, file: &File, header: &Header, number: u64, buffer: &mut Vec<u8>) -> Option<Chunk> {
        let (from, length) = header.chunk(number)?;
        read(file, buffer, self.place.slot.offset() + from, length + SUM).ok()?;
        header.checked_chunk(number, buffer).map(Chunk::from)
    }
}

fn read(file: &File, buffer: &mut Vec<u8>, offset: u64, length: usize) -> io::Result<()> {
    buffer.resize(length, 0);
    file.read_exact_at(buffer, offset)
}
