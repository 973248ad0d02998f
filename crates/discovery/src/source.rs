//! What a source is, and how each of them stands.

use crate::feed::Feed;
use crate::found::Found;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use thalweg_core::units::duration_text;

/// A watch that is under way. It ends only when it fails, with a sentence for the operator.
pub type Watching<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// Where the endpoints of a service come from, as `discover:` says: whom to ask, and for what. A plan type: it holds no
/// connection. The same for other things than endpoints, with another `T`.
///
/// **What a watch owes**: it tells all that there is as soon as it knows it ([`Feed::found`]), then every change; says
/// that the server still answers ([`Feed::alive`]) more often than [`Self::silence`]; ends with a sentence when the
/// server cannot be reached or says what cannot be understood, and never tells of less because it failed. It needs no
/// pause, no repetition and no comparison: a watch that ends, or is silent for too long, is begun again after a pause
/// that doubles, what is known stays, and a set that is the same as before is told to nobody. Dropping it ends it at
/// once.
pub trait Source<T: ?Sized = [Found]>: fmt::Debug + Send + Sync {
    /// The key under `discover:`.
    fn kind(&self) -> &'static str;

    /// Whom it asks, for people; without secrets.
    fn place(&self) -> String;

    /// For what it asks there, for people; without secrets. Two sources of one group with the same query find the same.
    fn query(&self) -> String;

    /// All that decides what the place answers, without the login and times; never shown.
    fn question(&self) -> String {
        self.query()
    }

    /// What connections to the server depend on, secrets by a digest; never shown. Sources of one group are watched
    /// together, by one watch.
    fn group(&self) -> String {
        format!("{} {}", self.place(), self.query())
    }

    /// The longest silence of a watch that works; twice as much is taken for a failure.
    fn silence(&self) -> Duration;

    /// Watches what all `members` of its group ask for, itself among them.
    fn watch<'a>(&'a self, members: &'a [Arc<dyn Source<T>>], feed: Feed<T>) -> Watching<'a>;
}

/// By what updates name a source: those with one id are one. Another time between two questions makes it
/// another one.
pub fn id<T: ?Sized>(source: &dyn Source<T>) -> Arc<str> {
    format!("{} {}\n{}\n{}", source.kind(), source.group(), source.query(), duration_text(source.silence()))
        .into()
}

/// Whom it asks for what, in words for people. Sources with the same words may find different things: a query of a
/// URL, a login and a search domain are not shown.
pub fn words<T: ?Sized>(source: &dyn Source<T>) -> String {
    format!("{}: {} at {}", source.kind(), source.query(), source.place())
}

/// Whom it asks for what, without its login and times: a source of the file that has other ones goes on with what is
/// known. Never shown, except for its first line, the [`words`].
pub fn question<T: ?Sized>(source: &dyn Source<T>) -> Arc<str> {
    format!("{}\n{}", words(source), digest(source.question().as_bytes())).into()
}

/// In the place of a secret, where it is only compared, also with that of another process. Never shown.
pub(crate) fn digest(secret: &[u8]) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a source stands.
#[derive(Clone, Debug)]
pub struct SourceStatus {
    /// The key under `discover:`.
    pub kind: &'static str,
    /// Whom it asks.
    pub place: String,
    /// For what.
    pub query: String,
    /// How many endpoints are known; `None`: it has not told of any set yet.
    pub count: Option<usize>,
    /// What was kept of it before a restart, which is used until it tells of a set: when that was right, and how many
    /// endpoints it is.
    pub kept: Option<(SystemTime, usize)>,
    /// When the set last changed.
    pub changed: Option<SystemTime>,
    /// When the server was last heard: what is known was right then.
    pub heard: Option<Instant>,
    /// How often sets came.
    pub updates: u64,
    /// How often it failed.
    pub failures: u64,
    /// Why it fails now.
    pub failure: Option<String>,
    /// Whether it fails for what the server says of this query alone; that the server answers is no end of it.
    pub(crate) refused: bool,
    /// The last that could not be understood of what came.
    pub flaw: Option<String>,
    /// Why something of the newest set is not used, although it was understood.
    pub unused: Option<String>,
    /// How old what is known may be while it works.
    pub silence: Duration,
}

impl SourceStatus {
    pub(crate) fn of<T: ?Sized>(source: &dyn Source<T>) -> Self {
        Self {
            kind: source.kind(),
            place: source.place(),
            query: source.query(),
            count: None,
            kept: None,
            changed: None,
            heard: None,
            updates: 0,
            failures: 0,
            failure: None,
            refused: false,
            flaw: None,
            unused: None,
            silence: source.silence(),
        }
    }

    /// How many endpoints are known, and how long ago that was right.
    pub fn known(&self) -> (Option<usize>, Option<Duration>) {
        match (self.count, self.kept) {
            (None, Some((at, count))) => (Some(count), at.elapsed().ok()),
            (count, _) => (count, self.heard.map(|heard| heard.elapsed())),
        }
    }
}

/// How all sources stand, by their [`id`]. Clones share.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Mutex<BTreeMap<Arc<str>, SourceStatus>>>);

impl Sources {
    /// All of them.
    pub fn list(&self) -> Vec<(Arc<str>, SourceStatus)> {
        self.lock().iter().map(|(id, status)| (id.clone(), status.clone())).collect()
    }

    /// The one with this id.
    pub fn get(&self, id: &str) -> Option<SourceStatus> {
        self.lock().get(id).cloned()
    }

    /// Why something of the newest set of the source is not used; `None`: all of it is. It holds until the set changes.
    pub fn tell_unused(&self, id: &str, why: Option<&str>) {
        self.change(id, |status| status.unused = why.map(str::to_owned));
    }

    /// This was kept of what the source told of before a restart, and is used until it tells of a set.
    pub fn tell_kept(&self, id: &str, kept: (SystemTime, usize)) {
        self.change(id, |status| status.kept = Some(kept));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, SourceStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is said of one, if it is still there.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut SourceStatus)) {
        if let Some(status) = self.lock().get_mut(id) {
            change(status);
        }
    }
}
