//! `discover: { etcd: { prefix: /services/checkout/ } }`: keys under a prefix of etcd, each one instance.
//!
//! All keys are read at one revision, and a watch follows from the next one. When the connection of the watch breaks,
//! it goes on where it stood; where etcd has forgotten what came in between (compaction), all is read anew. A watch
//! without news says nothing for minutes, so a small question beside it ([`Beat`]) shows that etcd lives, and that the
//! watch has told of everything.
//!
//! The same watch serves endpoints and whole documents under a prefix: what a value is, [`ReadValue`] says.

mod gateway;
#[cfg(test)]
mod tests;

use crate::entry::entry;
use crate::feed::{Content, Feed};
use crate::found::Found;
use crate::http_servers::{HttpServers, certificate, time, trust};
use crate::kept::{Document, Item, Kept, ReadValue, document};
use crate::source::{Source, Watching, digest};
use gateway::{Beat, Gateway, Line, Trouble};
use schemars::JsonSchema;
use serde::Deserialize;
use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};
use tokio::time::{Instant, sleep, sleep_until};

/// The member of the same machine.
const URL: &str = "http://127.0.0.1:2379";
/// Between two questions beside the watch, where nothing is written.
const INTERVAL: Duration = Duration::from_secs(5);
/// For one answer: as long as the interval, within these.
const ANSWER_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Between two times that all is read.
const BETWEEN_SNAPSHOTS: Duration = Duration::from_secs(1);
/// A watch that breaks earlier is not taken up again: the server is not well.
const SHORT: Duration = Duration::from_secs(1);
/// Longest prefix, in bytes.
const PREFIX: usize = 1024;

/// Keys under a prefix of etcd.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `prefix`")]
pub struct EtcdSourceSpec {
    /// What the keys begin with, as `/services/checkout/`. Each key is one instance; its value is `host:port`, a URL,
    /// an object in JSON with `url`, `weight`, `zone` and `labels`, or what etcd's `naming` library writes. In
    /// `route_sources` each value is a document.
    prefix: String,
    /// A member, or several of one cluster: the next is asked when one does not answer. Default
    /// `http://127.0.0.1:2379`.
    #[schemars(extend("x-default" = "http://127.0.0.1:2379"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<OneOrManySpec<String>>,
    /// The user, where etcd asks for one; needs `password`.
    #[schemars(extend("x-default-words" = "none"))]
    username: Option<String>,
    /// The user's password.
    #[schemars(extend("x-default-words" = "none"))]
    password: Option<SecretSpec>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// A PEM file with the certificate that etcd is shown; needs `key`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    cert: Option<String>,
    /// A PEM file with its key.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    key: Option<String>,
    /// Between two questions whether the watch has told of everything. What is known is at most this old, and the time
    /// of an answer older.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "5s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5s"]))]
    interval: Option<String>,
}

impl EtcdSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        Ok(Arc::new(self.reading::<Found>(entry, files)?))
    }

    /// The same keys, each with a document.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        Ok(Arc::new(self.reading(document, files)?))
    }

    fn reading<I: Item>(&self, read: ReadValue<I>, files: &dyn ConfigFiles) -> Result<Etcd<I>, String> {
        if self.prefix.is_empty() || self.prefix.len() > PREFIX {
            return Err(format!("`prefix` must have 1 to {PREFIX} bytes, as `/services/checkout/`"));
        }
        let login = match (&self.username, &self.password) {
            (None, None) => None,
            (Some(user), Some(password)) => {
                let password = password.read(files).map_err(|why| format!("`password`: {why}"))?;
                let password = String::from_utf8(password).map_err(|_| "`password` is not UTF-8")?;
                Some(Login { user: user.clone(), password })
            }
            _ => return Err("`username` and `password` belong together; write both or none".to_owned()),
        };
        let certificate = certificate((self.cert.as_deref(), self.key.as_deref()), files)?;
        let urls = match &self.url {
            None => vec![URL.to_owned()],
            Some(OneOrManySpec::One(url)) => vec![url.clone()],
            Some(OneOrManySpec::Many(urls)) => urls.clone(),
        };
        let servers = HttpServers::new(&urls, Vec::new(), trust(self.ca.as_deref(), files)?)?;
        let range = (Duration::from_millis(100), Duration::from_secs(3600));
        let interval = time(("interval", self.interval.as_deref()), INTERVAL, range)?;
        let servers = servers.showing(certificate);
        Ok(Etcd { servers, login, prefix: self.prefix.clone(), interval, read })
    }
}

struct Login {
    user: String,
    password: String,
}

struct Etcd<I> {
    servers: HttpServers,
    login: Option<Login>,
    prefix: String,
    interval: Duration,
    read: ReadValue<I>,
}

impl<I> fmt::Debug for Etcd<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("servers", &self.servers)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl<I: Item> Source<[I]> for Etcd<I>
where
    [I]: Content,
{
    fn kind(&self) -> &'static str {
        "etcd"
    }

    fn place(&self) -> String {
        self.servers.place()
    }

    fn query(&self) -> String {
        self.prefix.clone()
    }

    fn group(&self) -> String {
        let login =
            self.login.as_ref().map(|login| digest(format!("{}\n{}", login.user, login.password).as_bytes()));
        format!("{} {} {}", self.servers.group(), login.unwrap_or_default(), self.prefix)
    }

    fn silence(&self) -> Duration {
        self.interval + self.answer_time()
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source<[I]>>], feed: Feed<[I]>) -> Watching<'a> {
        Box::pin(async move {
            let Err(why) = self.keep(&feed).await;
            why
        })
    }
}

/// Up to where all is known.
#[derive(Clone, Copy)]
struct Position {
    /// The revision.
    revision: i64,
    /// Of this cluster.
    cluster: u64,
}

impl<I: Item> Etcd<I>
where
    [I]: Content,
{
    fn answer_time(&self) -> Duration {
        self.interval.clamp(ANSWER_TIME.0, ANSWER_TIME.1)
    }

    async fn keep(&self, feed: &Feed<[I]>) -> Result<Infallible, String> {
        loop {
            let begun = Instant::now();
            let login = self.login.as_ref().map(|login| (login.user.as_str(), login.password.as_str()));
            let gateway = Gateway::open(&self.servers, login, self.answer_time()).await?;
            let mut kept = Kept::new(self.read);
            let (cluster, revision) = gateway.read_all(&self.prefix, &mut kept).await?;
            kept.tell(feed, &self.prefix);
            let at = Position { revision, cluster };
            let known = Known { kept, at, floor: revision, doubt: None };
            self.follow(&gateway, known, feed).await?;
            sleep_until(begun + BETWEEN_SNAPSHOTS).await;
        }
    }

    /// Tells every change, until all must be read anew.
    async fn follow(
        &self,
        gateway: &Gateway<'_>,
        mut known: Known<I>,
        feed: &Feed<[I]>,
    ) -> Result<(), String> {
        let beat = async || {
            sleep(self.interval).await;
            gateway.beat(&self.prefix).await
        };
        let mut next_beat = pin!(beat());
        loop {
            let begun = Instant::now();
            let mut watch = match gateway.watch(&self.prefix, known.at.revision + 1).await {
                Err(Trouble::Stale) => return Ok(()),
                Err(Trouble::Failed(why)) => return Err(why),
                Ok(watch) => watch,
            };
            let is_known = loop {
                let news = tokio::select! {
                    line = watch.next() => line.map(News::Line),
                    answer = &mut next_beat => answer.map(News::Beat),
                };
                let ends = match news {
                    Ok(News::Line(line)) => {
                        let (ends, has_changed) = known.take_line(line)?;
                        if has_changed && !watch.has_more() {
                            known.kept.tell(feed, &self.prefix);
                        }
                        ends
                    }
                    Ok(News::Beat(answer)) => {
                        feed.alive();
                        let ends = known.take_beat(&answer);
                        next_beat.set(beat());
                        ends
                    }
                    Err(Trouble::Stale) => Some(Ends::Anew),
                    Err(Trouble::Failed(why)) => return Err(why),
                };
                match ends {
                    Some(Ends::Broken) => break true,
                    Some(Ends::Anew) => break false,
                    None => {}
                }
            };
            if !is_known {
                return Ok(());
            }
            if begun.elapsed() < SHORT {
                return Err("etcd ends the watch at once".to_owned());
            }
        }
    }
}

enum News {
    Line(Line),
    Beat(Beat),
}

/// How a watch ends that has not failed.
#[derive(Debug, Eq, PartialEq)]
enum Ends {
    /// Its connection is over: another one goes on where it stood.
    Broken,
    /// All must be read anew.
    Anew,
}

/// What is known.
struct Known<I> {
    kept: Kept<I>,
    at: Position,
    /// The position when the beat that is under way was begun: no answer may be older.
    floor: i64,
    /// The position at which a beat has shown something that was not known.
    doubt: Option<i64>,
}

impl<I: Item> Known<I>
where
    [I]: Content,
{
    /// Whether the watch ends, and whether a key has changed.
    fn take_line(&mut self, line: Line) -> Result<(Option<Ends>, bool), String> {
        match line {
            Line::Created(cluster) if cluster != self.at.cluster => return Ok((Some(Ends::Anew), false)),
            Line::Created(_) => {}
            Line::Changes(changes) => {
                for change in changes {
                    change.apply(&mut self.kept)?;
                    self.at.revision = self.at.revision.max(change.revision);
                }
                return Ok((None, true));
            }
            Line::Progress(revision) => self.at.revision = self.at.revision.max(revision),
            Line::Compacted => return Ok((Some(Ends::Anew), false)),
            Line::End => return Ok((Some(Ends::Broken), false)),
        }
        Ok((None, false))
    }

    /// Whether the watch ends: compares the answer with what is known.
    fn take_beat(&mut self, beat: &Beat) -> Option<Ends> {
        let floor = std::mem::replace(&mut self.floor, self.at.revision);
        // Another cluster at the same place, or one that was restored from a backup.
        if beat.cluster != self.at.cluster || beat.revision < floor {
            return Some(Ends::Anew);
        }
        if beat.newest <= self.at.revision && beat.count == self.kept.count() as u64 {
            self.doubt = None;
            self.at.revision = self.at.revision.max(beat.revision);
            self.floor = self.at.revision;
            return None;
        }
        // Once, the watch may be a little later than the answer. Twice, with no change in between, it has lost one.
        let was = self.doubt.replace(self.at.revision);
        (was == Some(self.at.revision)).then_some(Ends::Anew)
    }
}
