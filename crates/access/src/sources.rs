//! Lists that are read from files and URLs, and read again while the proxy runs.
//!
//! Every place of a configuration that names the same file or URL has the same [`Source`], also after a reload: a list
//! of a million networks is in memory once. A list that cannot be read, or has a wrong line, changes nothing: the old
//! one stays, and the operator is told once. [`keep_fresh`] looks at all of them.

use crate::geo::Database;
use crate::list;
use crate::networks::Networks;
use crate::stamp::{Stamp, Watch, read, unreadable};
use arc_swap::ArcSwap;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use thalweg_client::{Bounds, Destination, HttpClient};
use thalweg_core::Notice;
use thalweg_http::HttpUrl;
use thalweg_tls::Trust;
use tokio::task::{JoinSet, spawn_blocking};

/// Largest list, in bytes.
pub const LIST: usize = 128 << 20;
/// How often files are looked at; one that has changed is read at the second look.
const LOOK: Duration = Duration::from_secs(2);
/// For the whole of a list from a URL.
const FETCH: Duration = Duration::from_secs(60);
/// The longest silence of its server.
const SILENCE: Duration = Duration::from_secs(15);
/// Most lists and databases of a process.
const SOURCES: usize = 1024;

/// A list that lives elsewhere.
pub struct Source {
    place: Place,
    networks: ArcSwap<Networks>,
    state: Mutex<State>,
}

/// Without what changes while it runs: configurations are compared by this.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    Url { text: Box<str>, url: HttpUrl, every: Duration },
}

#[derive(Default)]
struct State {
    watch: Watch,
    /// What a server calls what was read.
    etag: Option<HeaderValue>,
    /// When it is asked again; `None`: at once.
    due: Option<Instant>,
    /// The file was not there at the last look.
    is_missing: bool,
    /// What was said last of why it cannot be read.
    problem: Option<String>,
}

/// All sources of the process that something uses.
#[derive(Default)]
struct All {
    lists: HashMap<String, Weak<Source>>,
    databases: HashMap<PathBuf, Weak<Database>>,
}

static ALL: Mutex<Option<All>> = Mutex::new(None);

fn with_all<T>(work: impl FnOnce(&mut All) -> T) -> T {
    work(ALL.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Source {
    /// The list in this file, read now where it is another one than before.
    ///
    /// # Errors
    /// A sentence that names the line: nothing has changed then.
    pub fn file(path: &Path) -> Result<Arc<Self>, String> {
        let source = shared(&format!("file {}", path.display()), || Place::File(path.to_owned()))?;
        source.read_file(true).map_err(|problem| format!("{source}: {problem}"))?;
        Ok(source)
    }

    /// The list at this URL, asked for every so often; it is empty until it was there for the first time.
    ///
    /// # Errors
    /// It is no URL, or there are too many lists.
    pub fn url(text: &str, every: Duration) -> Result<Arc<Self>, String> {
        let url = HttpUrl::parse(text).map_err(str::to_owned)?;
        shared(&format!("url {text} {every:?}"), || Place::Url { text: text.into(), url, every })
    }

    /// The networks now.
    #[inline]
    pub fn networks(&self) -> arc_swap::Guard<Arc<Networks>> {
        self.networks.load()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again: `now`, where it is another one, or else where it has stopped changing. Says whether it
    /// did.
    fn read_file(&self, now: bool) -> Result<bool, String> {
        let Place::File(path) = &self.place else { return Ok(false) };
        let stamp = Stamp::of(path);
        let mut state = self.state();
        let is_due = match (&stamp, now) {
            (Ok(stamp), true) => !state.watch.knows(*stamp) || state.problem.is_some(),
            (Err(_), true) => true,
            (stamp, false) => state.watch.is_due(stamp.as_ref().ok().copied()),
        };
        if !is_due {
            return Ok(false);
        }
        let (bytes, stamp) = read(path, LIST as u64)?;
        // One that is wrong is not read again and again.
        state.watch.has_read(stamp);
        let networks = list::parse(&bytes).map_err(|error| error.to_string())?;
        state.problem = None;
        self.networks.store(Arc::new(networks));
        Ok(true)
    }

    /// Looks whether the file has changed, and gives what the operator is to know.
    fn look(&self) -> Option<Notice> {
        let Place::File(path) = &self.place else { return None };
        let missing = Stamp::of(path).err();
        let was_missing = std::mem::replace(&mut self.state().is_missing, missing.is_some());
        if let Some(error) = missing {
            return (!was_missing).then(|| self.stays(&unreadable(&error)));
        }
        let before = self.networks().len();
        match self.read_file(false) {
            Ok(true) => Some(self.is_read(before)),
            Ok(false) => None,
            Err(problem) => self.is_wrong(problem),
        }
    }

    fn is_read(&self, before: usize) -> Notice {
        Notice::info(format!("{self}: {} networks, {before} before", self.networks().len()))
    }

    fn stays(&self, problem: &str) -> Notice {
        let kept = self.networks().len();
        Notice::warn(format!("{self} is not taken: {problem}; the old list with {kept} networks stays"))
    }

    /// Remembers a problem; a line for the operator where it is a new one.
    fn is_wrong(&self, problem: String) -> Option<Notice> {
        let mut state = self.state();
        if state.problem.as_ref() == Some(&problem) {
            return None;
        }
        let line = self.stays(&problem);
        state.problem = Some(problem);
        Some(line)
    }

    /// Asks the server for the list, where its time has come. Cancel-safe.
    async fn fetch(self: Arc<Self>, client: HttpClient, now: Instant) -> Option<Notice> {
        let Place::Url { url, every, .. } = &self.place else { return None };
        {
            let mut state = self.state();
            if state.due.is_some_and(|due| due > now) {
                return None;
            }
            // It is not asked a second time while it takes its time.
            state.due = Some(now + FETCH);
        }
        let before = self.networks().len();
        let was_wrong = self.state().problem.is_some();
        let answer = self.ask(&client, url).await;
        self.state().due = Some(Instant::now() + *every);
        match answer {
            Ok(None) if was_wrong => {
                self.state().problem = None;
                Some(self.is_read(before))
            }
            Ok(None) => None,
            Ok(Some((networks, etag))) => {
                let mut state = self.state();
                (state.etag, state.problem) = (etag, None);
                self.networks.store(Arc::new(networks));
                drop(state);
                Some(self.is_read(before))
            }
            Err(problem) => self.is_wrong(problem),
        }
    }

    /// The list at its server; `None`: it is the same as before.
    async fn ask(
        &self,
        client: &HttpClient,
        url: &HttpUrl,
    ) -> Result<Option<(Networks, Option<HeaderValue>)>, String> {
        let mut request = Request::get(url.target()).header("accept", "text/plain, */*;q=0.5");
        if let Some(etag) = &self.state().etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let request = request.body(Bytes::new()).map_err(|error| error.to_string())?;
        let bounds = Bounds { time: FETCH, silence: SILENCE, body: LIST };
        let answer = client.send(&Destination::from(url), request, bounds).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200 => {}
            304 => return Ok(None),
            status => return Err(format!("the server answers {status}")),
        }
        let etag = answer.headers().get(ETAG).cloned();
        let body = answer.into_body();
        let read = spawn_blocking(move || list::parse(&body)).await.map_err(|error| error.to_string())?;
        read.map(|networks| Some((networks, etag))).map_err(|error| error.to_string())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File(path) => write!(f, "the list {}", path.display()),
            Place::Url { text, .. } => {
                // What stands behind `?` may be a secret.
                write!(f, "the list {}", text.split('?').next().unwrap_or_default())
            }
        }
    }
}

/// The source of this key.
fn shared(key: &str, place: impl FnOnce() -> Place) -> Result<Arc<Source>, String> {
    with_all(|all| {
        if let Some(known) = all.lists.get(key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        all.lists.retain(|_, source| source.strong_count() > 0);
        if all.lists.len() >= SOURCES {
            return Err(format!("there are more than {SOURCES} lists"));
        }
        let source =
            Arc::new(Source { place: place(), networks: ArcSwap::default(), state: Mutex::default() });
        all.lists.insert(key.to_owned(), Arc::downgrade(&source));
        Ok(source)
    })
}

/// The database in this file, shared like lists.
///
/// # Errors
/// A sentence: it cannot be read, or is no database.
pub fn database(path: &Path) -> Result<Arc<Database>, String> {
    let known = with_all(|all| all.databases.get(path).and_then(Weak::upgrade));
    if let Some(known) = known {
        known.look(true)?;
        return Ok(known);
    }
    let database = Arc::new(Database::open(path)?);
    with_all(|all| {
        all.databases.retain(|_, database| database.strong_count() > 0);
        if all.databases.len() >= SOURCES {
            return Err(format!("there are more than {SOURCES} databases"));
        }
        all.databases.insert(path.to_owned(), Arc::downgrade(&database));
        Ok(database)
    })
}

/// Looks at all lists and databases that something uses, for as long as it is polled. Cancel-safe.
pub async fn keep_fresh(say: impl Fn(Notice)) {
    let client = HttpClient::new(Trust::System);
    let mut fetches = JoinSet::new();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            Some(done) = fetches.join_next() => {
                done.ok().flatten().into_iter().for_each(&say);
                continue;
            }
        }
        let sources = all_lists();
        for source in &sources {
            // One that is being asked is not due: it is dropped at once.
            if matches!(source.place, Place::Url { .. }) && fetches.len() < SOURCES {
                fetches.spawn(source.clone().fetch(client.clone(), Instant::now()));
            }
        }
        let looked = spawn_blocking(move || look_at_files(&sources)).await;
        looked.unwrap_or_default().into_iter().for_each(&say);
    }
}

fn all_lists() -> Vec<Arc<Source>> {
    with_all(|all| all.lists.values().filter_map(Weak::upgrade).collect())
}

fn look_at_files(sources: &[Arc<Source>]) -> Vec<Notice> {
    let databases: Vec<_> = with_all(|all| all.databases.values().filter_map(Weak::upgrade).collect());
    let of_databases = databases.iter().filter_map(|database| database.look_and_tell());
    sources.iter().filter_map(|source| source.look()).chain(of_databases).collect()
}

#[cfg(test)]
mod tests;
