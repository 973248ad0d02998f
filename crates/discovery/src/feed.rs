//! Watches of sources: begun, kept going, and begun again when they fail.
//!
//! One task for each group of sources. What it finds goes through a bounded channel to the control thread, which takes
//! over one set after the other: a source whose set changes faster than [`PAUSE`] is asked for the newest one only.

use crate::follower::{Followed, Follower, Next, Update};
use crate::found::Found;
use crate::source::{Source, SourceStatus, Sources, id};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use thalweg_core::limits::ENDPOINTS;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Between two sets of one source that are taken over.
pub const PAUSE: Duration = Duration::from_millis(100);
/// Before a watch that failed is begun again; then it doubles.
const BACKOFF: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// A pause varies by this share of itself to either side: many proxies do not come back at once.
const JITTER: f64 = 0.25;

/// The most failures and recoveries that wait to be taken over.
const TURNS: usize = 1024;
/// The longest reason that is kept, in characters: it may quote what a server said.
const REASON: usize = 400;

/// What a watch has told and nobody has taken over yet: one set for each source, whatever comes.
#[derive(Debug)]
struct Inbox<T: ?Sized> {
    sets: HashMap<Arc<str>, Arc<T>>,
    /// Those of them that have come since the last look, in their order.
    order: VecDeque<Arc<str>>,
    turned: VecDeque<(Arc<str>, Option<String>)>,
}

impl<T: ?Sized> Default for Inbox<T> {
    fn default() -> Self {
        Self { sets: HashMap::new(), order: VecDeque::new(), turned: VecDeque::new() }
    }
}

/// Of its two locks the inbox is taken first, where both are held.
#[derive(Debug)]
struct Shared<T: ?Sized> {
    inbox: Mutex<Inbox<T>>,
    bell: Notify,
    sources: Sources,
}

/// Where a watch tells what it finds.
#[derive(Debug)]
pub struct Feed<T: ?Sized = [Found]> {
    shared: Arc<Shared<T>>,
    /// Moved on by every sign of life.
    heard: Arc<Mutex<Instant>>,
    ids: Arc<[(String, Arc<str>)]>,
}

impl<T: ?Sized> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), heard: self.heard.clone(), ids: self.ids.clone() }
    }
}

/// What a source can tell of.
pub trait Content: PartialEq + Send + Sync + 'static {
    /// How many things it is.
    fn count(&self) -> usize;

    /// Without what is too much, and what has been left out.
    fn bounded(set: Arc<Self>) -> (Arc<Self>, Option<String>);
}

impl Content for [Found] {
    fn count(&self) -> usize {
        self.len()
    }

    fn bounded(set: Arc<Self>) -> (Arc<Self>, Option<String>) {
        if set.len() <= ENDPOINTS {
            return (set, None);
        }
        let flaw = format!("{} endpoints are known; the first {ENDPOINTS} are used", set.len());
        (set[..ENDPOINTS].into(), Some(flaw))
    }
}

impl<T: Content + ?Sized> Feed<T> {
    /// All that there is now for this query, and nothing else. An empty set is one too.
    pub fn found(&self, query: &str, set: impl Into<Arc<T>>) {
        let Some(id) = self.id_of(query) else { return };
        self.shared.sources.change(&id, |status| status.refused = false);
        self.alive();
        let (set, flaw) = T::bounded(set.into());
        self.shared.sources.change(&id, |status| {
            status.count = Some(set.count());
            status.updates += 1;
            status.flaw = flaw;
        });
        let mut inbox = self.inbox();
        if inbox.sets.insert(id.clone(), set).is_none() {
            inbox.order.push_back(id);
        }
        drop(inbox);
        self.shared.bell.notify_one();
    }

    /// The server has answered for all queries: what is known is right.
    pub fn alive(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        for (_, id) in &*self.ids {
            let mut recovers = false;
            self.shared.sources.change(id, |status| {
                status.heard = Some(std::time::Instant::now());
                recovers = !status.refused && status.failure.take().is_some();
            });
            if recovers {
                self.turned(id, None);
            }
        }
    }

    /// A part of an answer for this query cannot be used, and was left out. Say it after [`Self::found`].
    pub fn flawed(&self, query: &str, why: impl Into<String>) {
        if let Some(id) = self.id_of(query) {
            let why = sentence(&why.into());
            self.shared.sources.change(&id, |status| status.flaw = Some(why));
        }
    }

    /// The server is well, and what it says for this query is no set of endpoints: a failure of this query alone, until
    /// its next [`Self::found`]. What is known of it stays.
    pub fn refused(&self, query: &str, why: impl Into<String>) {
        self.alive();
        let Some(id) = self.id_of(query) else { return };
        let why = why.into();
        let mut begins = false;
        self.shared.sources.change(&id, |status| {
            status.refused = true;
            status.failures += u64::from(status.failure.as_ref() != Some(&why));
            begins = status.failure.replace(why.clone()).is_none();
        });
        if begins {
            self.turned(&id, Some(why));
        }
    }

    /// It has begun to fail, or works again. Of more than [`TURNS`] that nobody has taken over, the oldest is lost.
    fn turned(&self, id: &Arc<str>, failure: Option<String>) {
        let mut inbox = self.inbox();
        if inbox.turned.len() >= TURNS {
            inbox.turned.pop_front();
        }
        inbox.turned.push_back((id.clone(), failure));
        drop(inbox);
        self.shared.bell.notify_one();
    }

    fn id_of(&self, query: &str) -> Option<Arc<str>> {
        self.ids.iter().find(|(known, _)| known == query).map(|(_, id)| id.clone())
    }

    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox<T>> {
        self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watch has failed.
    fn failed(&self, why: &str) {
        let why = sentence(why);
        for (_, id) in &*self.ids {
            let mut begins = false;
            self.shared.sources.change(id, |status| {
                status.failures += 1;
                begins = status.failure.replace(why.clone()).is_none();
            });
            if begins {
                self.turned(id, Some(why.clone()));
            }
        }
    }

    fn heard(&self) -> Instant {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group of sources that one task watches.
#[derive(Debug)]
struct Group {
    /// Sorted.
    members: Vec<Arc<str>>,
    task: AbortHandle,
}

/// The sources of a group, by their ids.
type Members<T> = BTreeMap<Arc<str>, Arc<dyn Source<T>>>;

/// All watches. Dropping it ends them.
#[derive(Debug)]
pub struct Watches<T: ?Sized = [Found]> {
    tasks: JoinSet<()>,
    groups: HashMap<String, Group>,
    shared: Arc<Shared<T>>,
    /// The last set of each source, and when it was taken over.
    told: HashMap<Arc<str>, (Arc<T>, Instant)>,
    /// Sources with another set, by the time at which it may be taken over, and numbered as they came.
    due: BTreeMap<(Instant, u64), Arc<str>>,
    number: u64,
}

impl<T: ?Sized> Default for Watches<T> {
    fn default() -> Self {
        let shared = Shared { inbox: Mutex::default(), bell: Notify::new(), sources: Sources::default() };
        let (tasks, groups, told, due) = Default::default();
        Self { tasks, groups, shared: Arc::new(shared), told, due, number: 0 }
    }
}

/// What a watch has found out.
#[derive(Debug)]
pub enum News<T: ?Sized> {
    /// What there is now.
    Set(Arc<str>, Arc<T>),
    /// It has begun to fail, for this reason, or works again.
    Turned(Arc<str>, Option<String>),
}

impl<T: Content + ?Sized> Watches<T> {
    /// How they stand.
    pub fn sources(&self) -> Sources {
        self.shared.sources.clone()
    }

    /// These are the sources from now on. A group with the same members goes on undisturbed.
    pub fn watch(&mut self, sources: &[Arc<dyn Source<T>>]) {
        let mut wanted: BTreeMap<String, Members<T>> = BTreeMap::new();
        for source in sources {
            let group = format!("{} {}", source.kind(), source.group());
            wanted.entry(group).or_default().insert(id(&**source), source.clone());
        }
        let stays = |group: &Group, members: &BTreeMap<Arc<str>, _>| group.members.iter().eq(members.keys());
        self.groups.retain(|name, group| {
            let stays = wanted.get(name).is_some_and(|members| stays(group, members));
            if !stays {
                group.task.abort();
            }
            stays
        });
        let is_wanted = |id: &Arc<str>| wanted.values().any(|members| members.contains_key(id));
        self.told.retain(|id, _| is_wanted(id));
        self.shared.sources.lock().retain(|id, _| is_wanted(id));
        while self.tasks.try_join_next().is_some() {}
        for (name, members) in wanted {
            if self.groups.contains_key(&name) {
                continue;
            }
            let mut board = self.shared.sources.lock();
            for (id, source) in &members {
                board.entry(id.clone()).or_insert_with(|| SourceStatus::of(&**source));
            }
            drop(board);
            let ids = members.iter().map(|(id, source)| (source.query(), id.clone())).collect();
            let heard = Arc::new(Mutex::new(Instant::now()));
            let feed = Feed { shared: self.shared.clone(), heard, ids };
            let all: Vec<_> = members.values().cloned().collect();
            let task = self.tasks.spawn(keep(all, feed));
            self.groups.insert(name, Group { members: members.into_keys().collect(), task });
        }
    }

    /// Whether each has told of a set, or failed, at least once.
    pub fn are_settled(&self) -> bool {
        let is_empty = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner).sets.is_empty();
        is_empty
            && self.shared.sources.lock().values().all(|status| status.count.is_some() || status.failures > 0)
    }

    /// What is found out next. Waits for ever when nothing can come. Cancel-safe.
    pub async fn news(&mut self) -> News<T> {
        loop {
            let earliest = match self.take() {
                Ok(news) => return news,
                Err(earliest) => earliest,
            };
            // What rang since is not lost: the bell keeps one ring.
            let bell = self.shared.bell.notified();
            match earliest {
                Some(at) => drop(timeout_at(at, bell).await),
                None => bell.await,
            }
        }
    }

    /// The next news; when there is one later, if there is any.
    fn take(&mut self) -> Result<News<T>, Option<Instant>> {
        let mut inbox = self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |id: &Arc<str>| self.shared.sources.lock().contains_key(id);
        while let Some((id, failure)) = inbox.turned.pop_front() {
            if known(&id) {
                return Ok(News::Turned(id, failure));
            }
        }
        let now = Instant::now();
        for id in inbox.order.drain(..) {
            let due = self.told.get(&id).map_or(now, |(_, when)| *when + PAUSE);
            self.number += 1;
            self.due.insert((due, self.number), id);
        }
        while let Some(first) = self.due.first_entry() {
            let (due, _) = *first.key();
            if due > now {
                return Err(Some(due));
            }
            let id = first.remove();
            let Some(set) = inbox.sets.remove(&id).filter(|_| known(&id)) else { continue };
            let is_same = self.told.get(&id).is_some_and(|(told, _)| *told == set);
            if !is_same {
                self.told.insert(id.clone(), (set.clone(), now));
                self.shared.sources.change(&id, |status| status.changed = Some(SystemTime::now()));
                return Ok(News::Set(id, set));
            }
        }
        Err(None)
    }
}

impl Follower for Watches {
    fn follow(&mut self, services: Followed<'_>) {
        self.watch(services.sources);
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            match self.news().await {
                News::Set(source, found) => Update::Found { source, found },
                News::Turned(source, failure) => Update::Turned { source, failure },
            }
        })
    }

    fn is_complete(&self) -> bool {
        self.are_settled()
    }
}

/// One line that is not too long.
fn sentence(why: &str) -> String {
    why.trim().chars().take(REASON).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Watches a group for ever.
async fn keep<T: Content + ?Sized>(members: Vec<Arc<dyn Source<T>>>, feed: Feed<T>) {
    let Some(first) = members.first() else { return };
    let silence = first.silence() * 2;
    let mut pause = BACKOFF;
    loop {
        let begun = Instant::now();
        feed.heard_now(begun);
        let failure = guarded(members.clone(), feed.clone(), silence).await;
        if feed.heard() > begun {
            pause = BACKOFF;
        }
        feed.failed(&failure);
        sleep(pause.mul_f64(1.0 + JITTER * (2.0 * fastrand::f64() - 1.0))).await;
        pause = (pause * 2).min(LONGEST_BACKOFF);
    }
}

impl<T: ?Sized> Feed<T> {
    fn heard_now(&self, now: Instant) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// One watch, in a task of its own: one that panics has failed, and so has one that is silent for too long.
async fn guarded<T: Content + ?Sized>(
    members: Vec<Arc<dyn Source<T>>>,
    feed: Feed<T>,
    silence: Duration,
) -> String {
    let heard = feed.clone();
    let mut task = JoinSet::new();
    task.spawn(async move {
        match members.first() {
            Some(first) => first.watch(&members, feed).await,
            None => pending().await,
        }
    });
    loop {
        let deadline = heard.heard() + silence;
        tokio::select! {
            ended = task.join_next() => {
                let ended = ended.and_then(Result::ok);
                return ended.unwrap_or_else(|| "the watch ended by a defect of the proxy".to_owned());
            }
            () = sleep_until(deadline) => {
                if heard.heard() + silence <= Instant::now() {
                    let seconds = silence.as_secs_f64();
                    return format!("no sign of life for {seconds:.0} s");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_whatever_a_server_said() {
        assert_eq!(sentence("the server answers 500:\n\u{1b}[31mred\t"), "the server answers 500:  [31mred");
        assert_eq!(sentence(&"x".repeat(10_000)).len(), REASON);
    }

    /// Never tells of anything.
    #[derive(Debug)]
    struct Silent;

    impl Source for Silent {
        fn kind(&self) -> &'static str {
            "silent"
        }

        fn place(&self) -> String {
            "nowhere".to_owned()
        }

        fn query(&self) -> String {
            "nothing".to_owned()
        }

        fn silence(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn watch<'a>(&'a self, _: &'a [Arc<dyn Source>], _: Feed) -> crate::source::Watching<'a> {
            Box::pin(pending())
        }
    }

    #[test]
    fn what_is_not_used_stays_told_while_the_set_stays_the_same() {
        let shared = Watches::<[Found]>::default().shared;
        let (id, query) = (id(&Silent as &dyn Source), Silent.query());
        shared.sources.lock().insert(id.clone(), SourceStatus::of(&Silent as &dyn Source));
        let ids = [(query.clone(), id.clone())].into();
        let feed = Feed { shared: shared.clone(), heard: Arc::new(Mutex::new(Instant::now())), ids };
        feed.found(&query, Vec::new());
        feed.flawed(&query, "a line that is not read");
        shared.sources.tell_unused(&id, Some("an endpoint for other traffic"));
        feed.found(&query, Vec::new());
        let status = shared.sources.get(&id).expect("it is on the board");
        assert_eq!((status.flaw, status.unused.as_deref()), (None, Some("an endpoint for other traffic")));
        shared.sources.tell_unused(&id, None);
        assert_eq!(shared.sources.get(&id).and_then(|status| status.unused), None);
    }
}
