//! The disk below the memory of the cache: what is not in memory is looked for there before the service is asked.
//!
//! What is small goes back into memory and is then used from there, and so does what is stale and fits there: it is
//! validated, or used stale, as everything else is. What is large and fresh goes to the client from the disk. What was
//! stored with another configuration is used only where this one would store it. A disk that is slow, full or damaged
//! has nothing: no request fails by it or waits long for it.

use crate::exchange::cache::asked::{Asked, fields};
use crate::exchange::cache::reply::{handled, of_loaded};
use crate::exchange::cache::until::until;
use crate::exchange::cache::{Looked, look_again, pass, refresh};
use crate::state::exchange::{Client, Exchange};
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_cache::{Forward, Found, Hit, Lookup, Parts, look_up};
use thalweg_core::Fault;
use thalweg_disk::settings::MOST_LOADS;
use thalweg_disk::{Load, Loaded};
use thalweg_observe::CacheUse;
use thalweg_store::{Choice, Stored};

/// A request waits so long for the disk.
const LONGEST: Duration = Duration::from_secs(2);
/// Bodies up to this length go back into memory whatever is done with them: a few reads.
const SMALL: u64 = 256 * 1024;
/// Of the memory of the cache, such a part may be in use beside it for bodies that are read as wholes.
const PART_FOR_READING: u64 = 16;
/// Bodies that are sent from the disk at one time: slow clients leave places for what is read at once.
const MOST_STREAMS: usize = MOST_LOADS / 4 * 3;

/// A response that may be on the disk, and what asks for it.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(crate) asked: Asked,
    pub(crate) load: Load,
}

/// Begins to read what the disk may have for a request, once.
pub(super) fn find(worker: &Worker, x: &Exchange, asked: &mut Asked) -> Option<Load> {
    if std::mem::replace(&mut asked.has_asked_disk, true) {
        return None;
    }
    let (disk, mut variant) = (worker.shared.disk.as_ref()?, Vec::new());
    let place = disk.find(&asked.key, &asked.rule.policy, fields(x), &mut variant)?;
    disk.load(place, &asked.key, &variant)
}

/// Waits for the disk and uses what it has. Cancel-safe.
pub(crate) async fn load(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    loading: Box<Loading>,
) -> Result<Looked, Fault> {
    let Loading { mut asked, mut load } = *loading;
    let policy = asked.rule.clone();
    let read =
        until((worker, client), x, LONGEST, |_, context| load.poll_head(context, &policy.policy)).await?;
    let found = read.flatten().filter(|_| !is_in_memory(worker, x, &mut asked));
    // What was stored with another limit is not used with this one.
    let Some(loaded) = found.filter(|loaded| loaded.length <= asked.rule.max_object) else {
        return Ok(look_again(worker, client, x, (asked, None)));
    };
    let hit = match decide(worker, x, &asked, &loaded) {
        Lookup::Hit(hit) => Some(hit),
        _ => None,
    };
    if let Some(hit) = hit.filter(|_| loaded.length > SMALL)
        && let Some(place) = StreamPlace::take(worker)
    {
        return Ok(stream(worker, client, x, (asked, hit), (&loaded, (load, place))));
    }
    let shared = &worker.shared;
    if let Some(_held) = Held::of(&shared.disk_reading, loaded.length, shared.cache.limits().bytes) {
        asked.is_from_disk = promote(worker, client, x, &asked, (&loaded, load)).await?;
    } else if let Some(hit) = hit
        && let Some(place) = StreamPlace::take(worker)
    {
        return Ok(stream(worker, client, x, (asked, hit), (&loaded, (load, place))));
    }
    // It is in memory, or it is fetched as if there was no disk.
    Ok(look_again(worker, client, x, (asked, None)))
}

/// Whether the memory has got something meanwhile: that is newer.
fn is_in_memory(worker: &Worker, x: &Exchange, asked: &mut Asked) -> bool {
    let stored = worker.shared.cache.find(&asked.key);
    !matches!(stored, Stored::Nothing)
        && matches!(stored.choose(&asked.rule.policy, fields(x), &mut asked.variant), Choice::Object(_))
}

/// What is to be done with what was found.
fn decide(worker: &Worker, x: &Exchange, asked: &Asked, loaded: &Loaded) -> Lookup {
    let (request, policy) = (asked.request(x), &asked.rule.policy);
    let parts = loaded.head.part.map(|part| Parts::of(&part));
    let found = match &parts {
        Some(parts) => Found::Parts(&loaded.head, parts),
        None => Found::Head(&loaded.head),
    };
    look_up(policy, &request, found, worker.unix())
}

/// A large response goes from the disk to the client; a stale one is fetched again beside that.
fn stream(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (mut asked, hit): (Asked, Hit),
    (loaded, load): (&Loaded, (Load, StreamPlace)),
) -> Looked {
    asked.is_from_disk = true;
    let Some(reply) = of_loaded(x, &asked, (loaded, load), &handled::hit(hit)) else {
        return pass(x, asked.into_forwarded(Forward::Partial));
    };
    x.cache_use = Some(if hit.is_stale { CacheUse::Stale } else { CacheUse::Hit });
    if hit.refresh {
        refresh(worker, client, x, &asked, None);
    }
    worker.cache_key.set(asked.key);
    Looked::Answered(reply)
}

/// Stores a response in memory, as a whole; false: it is not there.
async fn promote(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    asked: &Asked,
    (loaded, mut load): (&Loaded, Load),
) -> Result<bool, Fault> {
    let mut read = Vec::new();
    let body = until((worker, client), x, LONGEST, |_, context| load.poll_body(context, &mut read)).await?;
    let Some(Ok(body)) = body else { return Ok(false) };
    Ok(load.promote(&worker.shared.cache, &asked.key, loaded, body).is_some())
}

/// A place among those who are sent a body from the disk, as fast as they take it.
pub(super) struct StreamPlace(Arc<Shared>);

impl StreamPlace {
    fn take(worker: &Worker) -> Option<Self> {
        let place = Self(worker.shared.clone());
        let before = place.0.disk_streams.fetch_add(1, Ordering::Relaxed);
        (before < MOST_STREAMS).then_some(place)
    }
}

impl fmt::Debug for StreamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamPlace")
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.disk_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that are being read, as long as they are.
struct Held<'a> {
    all: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Held<'a> {
    /// `None`: too many are, for a cache with so much memory.
    fn of(all: &'a AtomicU64, bytes: u64, memory: u64) -> Option<Self> {
        let held = Self { all, bytes };
        let before = all.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes <= memory / PART_FOR_READING).then_some(held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
