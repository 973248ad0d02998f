//! `discover: { redis: { key: services:checkout } }`: a hash of Redis or Valkey with one field for each instance, or
//! keys under a prefix, each one instance with a time to live of its own.
//!
//! What is kept is read every `interval`, and at once after a message: of the server itself, where it tells of changes
//! of keys (`notify-keyspace-events`), or on a channel that those who register use. Messages may be lost, so they only
//! ever say "read again".

use crate::entry::entry;
use crate::feed::{Content, Feed};
use crate::found::Found;
use crate::http_servers::{time, trust};
use crate::kept::{Document, Item, KEYS, Kept, ReadValue, document};
use crate::source::{Source, Watching, digest};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_client::redis::{Connection, RedisServer, Reply, destination, late, refusal};
use thalweg_client::{Destination, HttpClient};
use thalweg_filter::{ConfigFiles, SecretSpec};
use thalweg_tls::Trust;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The server of the same machine.
const URL: &str = "redis://127.0.0.1:6379";
/// Between two readings without a message, where nothing is written.
const INTERVAL: Duration = Duration::from_secs(5);
/// For one reading: as long as the interval, within these.
const ANSWER_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// After a message: those that come within it are one.
const GATHER: Duration = Duration::from_millis(50);
/// So long after a failure, a server that knows less than half is taken for one that has forgotten.
const RETURN: Duration = Duration::from_secs(30);
/// Keys that are looked at in one step.
const STEP: &str = "1000";
/// Values that are asked for at a time.
const VALUES: usize = 500;
/// Longest key, prefix and channel, in bytes.
const NAME: usize = 1024;
/// The highest number of a database.
const DATABASE: u16 = 1024;

/// A hash, or keys under a prefix, of Redis or Valkey.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `key` or `prefix`")]
pub struct RedisSourceSpec {
    /// A hash. Each field is one instance; its value is `host:port`, a URL, or an object in JSON with `url`, `weight`,
    /// `zone` and `labels`. In `route_sources` each value is a document. Either this or `prefix`.
    #[schemars(extend("x-default-words" = "none"))]
    key: Option<String>,
    /// What the keys begin with. Each key is one instance, with a value as the fields of a hash have it, and goes when
    /// its time to live is over. The server looks through all keys of the database for them.
    #[schemars(extend("x-default-words" = "none"))]
    prefix: Option<String>,
    /// `redis://HOST:PORT`, `rediss://HOST:PORT` for TLS, or `unix:/PATH`. Default `redis://127.0.0.1:6379`.
    #[schemars(extend("x-default" = "redis://127.0.0.1:6379"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<String>,
    /// The user; default: the default one.
    #[schemars(extend("x-default-words" = "none"))]
    username: Option<String>,
    /// The password.
    #[schemars(extend("x-default-words" = "none"))]
    password: Option<SecretSpec>,
    /// For TLS: certificates in PEM; only a server with a certificate that these vouch for is trusted. Default: those
    /// of the system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// The number of the database.
    #[schemars(extend("x-range" = [0, 1024], "x-default" = 0))]
    #[serde(default)]
    database: u16,
    /// A channel: each message on it, whatever it says, means that something has changed.
    #[schemars(extend("x-default-words" = "none"))]
    channel: Option<String>,
    /// Between two readings without a message. What is known is at most this old, and the time of an answer older.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "5s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5s"]))]
    interval: Option<String>,
}

impl RedisSourceSpec {
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

    fn reading<I: Item>(&self, read: ReadValue<I>, files: &dyn ConfigFiles) -> Result<Redis<I>, String>
    where
        [I]: Content,
    {
        let what = match (&self.key, &self.prefix) {
            (Some(key), None) => What::Hash(key.clone()),
            (None, Some(prefix)) => What::Keys(prefix.clone()),
            _ => return Err("write `key`, a hash, or `prefix`, of keys of their own; one of both".to_owned()),
        };
        let names = [&self.key, &self.prefix, &self.channel];
        if names.into_iter().flatten().any(|name| name.is_empty() || name.len() > NAME) {
            return Err(format!("`key`, `prefix` and `channel` have 1 to {NAME} bytes"));
        }
        if self.database > DATABASE {
            return Err(format!("`database` must be from 0 to {DATABASE}"));
        }
        let url = self.url.as_deref().unwrap_or(URL);
        let to = destination(url)?;
        if self.ca.is_some() && !matches!(to, Destination::Tcp { tls: true, .. }) {
            return Err("`ca` is for TLS; write `rediss://` in `url`".to_owned());
        }
        let password = self.password.as_ref().map(|secret| secret.read(files)).transpose();
        let password = password.map_err(|why| format!("`password`: {why}"))?;
        if self.username.is_some() && password.is_none() {
            return Err("`username` needs `password`".to_owned());
        }
        let trust = trust(self.ca.as_deref(), files)?;
        let ca = match &trust {
            Trust::Only(pem) => digest(pem),
            Trust::System | Trust::InsecureSkipVerify => String::new(),
        };
        let login = digest(format!("{:?} {password:?}", self.username).as_bytes());
        let (channel, database) = (self.channel.clone(), self.database);
        let group = format!("{url} {database} {login} {ca} {channel:?} {what:?}");
        let range = (Duration::from_millis(100), Duration::from_secs(3600));
        let interval = time(("interval", self.interval.as_deref()), INTERVAL, range)?;
        let server = RedisServer {
            client: HttpClient::new(trust),
            to,
            user: self.username.clone(),
            password,
            database,
        };
        let told = Mutex::new(Kept::new(read));
        Ok(Redis { server, place: url.to_owned(), group, what, channel, interval, read, told })
    }
}

/// What is read.
#[derive(Debug)]
enum What {
    Hash(String),
    Keys(String),
}

struct Redis<I> {
    server: RedisServer,
    place: String,
    group: String,
    what: What,
    channel: Option<String>,
    interval: Duration,
    read: ReadValue<I>,
    /// What was told last, for the time after a failure.
    told: Mutex<Kept<I>>,
}

impl<I> fmt::Debug for Redis<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("place", &self.place).field("what", &self.what).finish_non_exhaustive()
    }
}

impl<I: Item> Source<[I]> for Redis<I>
where
    [I]: Content,
{
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn place(&self) -> String {
        match self.server.database {
            0 => self.place.clone(),
            number => format!("{}, database {number}", self.place),
        }
    }

    fn query(&self) -> String {
        match &self.what {
            What::Hash(key) => key.clone(),
            What::Keys(prefix) => format!("{prefix}*"),
        }
    }

    fn group(&self) -> String {
        self.group.clone()
    }

    fn silence(&self) -> Duration {
        self.interval + self.answer_time()
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source<[I]>>], feed: Feed<[I]>) -> Watching<'a> {
        Box::pin(async move {
            let bell = Notify::new();
            let ended = tokio::select! {
                ended = self.keep(&feed, &bell) => ended,
                ended = self.listen(&bell) => ended,
            };
            let Err(why) = ended;
            format!("{}: {why}", self.place)
        })
    }
}

impl<I: Item> Redis<I>
where
    [I]: Content,
{
    fn answer_time(&self) -> Duration {
        self.interval.clamp(ANSWER_TIME.0, ANSWER_TIME.1)
    }

    /// Reads every `interval`, and when the bell rings.
    async fn keep(&self, feed: &Feed<[I]>, bell: &Notify) -> Result<Infallible, String> {
        let (begun, mut is_new) = (Instant::now(), true);
        let mut connection = self.server.connect(self.answer_time()).await?;
        loop {
            let mut next = Instant::now() + self.interval;
            let read = timeout(self.answer_time(), self.read_all(&mut connection)).await;
            let kept = read.unwrap_or_else(|_| Err(late(self.answer_time())))?;
            is_new = self.tell(kept, is_new && begun.elapsed() < RETURN, feed);
            if is_new {
                next = next.min(begun + RETURN);
            }
            if timeout_at(next, bell.notified()).await.is_ok() {
                sleep(GATHER).await;
            }
        }
    }

    /// Tells what was read. A server without a copy on disk has forgotten all when it begins, until instances register
    /// again: while the watch is new, and most is gone that was known before, it is kept. Whether it was.
    fn tell(&self, mut kept: Kept<I>, is_new: bool, feed: &Feed<[I]>) -> bool {
        let query = self.query();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_new || kept.count() * 2 >= told.count() {
            kept.tell(feed, &query);
            *told = kept;
            return false;
        }
        let adopted = kept.adopt(&told);
        kept.tell(feed, &query);
        feed.flawed(
            &query,
            format!("most instances are gone since the server is back; {adopted} are kept for now"),
        );
        true
    }

    async fn read_all(&self, connection: &mut Connection) -> Result<Kept<I>, String> {
        let mut kept = Kept::new(self.read);
        let mut put = |name: &[u8], value: Reply| match value {
            // It went in between.
            Reply::Nil => Ok(()),
            value => kept.put(&String::from_utf8_lossy(name), &value.text()?),
        };
        match &self.what {
            What::Hash(key) => {
                let mut all = connection.ask(&[b"HGETALL", key.as_bytes()]).await?.array()?.into_iter();
                while let (Some(field), Some(value)) = (all.next(), all.next()) {
                    put(&field.text()?, value)?;
                }
            }
            What::Keys(prefix) => {
                let keys: Vec<_> = scan(connection, prefix).await?.into_iter().collect();
                for some in keys.chunks(VALUES) {
                    let words: Vec<&[u8]> =
                        [&b"MGET"[..]].into_iter().chain(some.iter().map(Vec::as_slice)).collect();
                    let values = connection.ask(&words).await?.array()?;
                    for (key, value) in some.iter().zip(values) {
                        put(key.strip_prefix(prefix.as_bytes()).unwrap_or(key), value)?;
                    }
                }
            }
        }
        Ok(kept)
    }

    /// Rings the bell at messages. Without a channel of its own, a server that refuses to tell of changes is one that
    /// tells of none.
    async fn listen(&self, bell: &Notify) -> Result<Infallible, String> {
        let mut connection = self.server.connect(self.answer_time()).await?;
        let events = format!("__keyspace@{}__:", self.server.database);
        let (verb, of_keys) = match &self.what {
            What::Hash(key) => ("SUBSCRIBE", format!("{events}{key}")),
            What::Keys(prefix) => ("PSUBSCRIBE", format!("{events}{}*", escaped(prefix))),
        };
        connection.commands.send(&[verb.as_bytes(), of_keys.as_bytes()]).await?;
        if let Some(channel) = &self.channel {
            connection.commands.send(&[b"SUBSCRIBE", channel.as_bytes()]).await?;
        }
        let Connection { mut answers, mut commands } = connection;
        let reading = async {
            loop {
                let longest = self.interval + self.answer_time();
                let answer = timeout(longest, answers.next()).await.unwrap_or_else(|_| Err(late(longest)))?;
                match answer {
                    Reply::Error(why) if self.channel.is_some() => return Err(refusal(&why)),
                    Reply::Error(_) => pending().await,
                    Reply::Array(words) if is_message(&words) => bell.notify_one(),
                    _ => {}
                }
            }
        };
        let pinging = async {
            loop {
                sleep(self.interval).await;
                commands.send(&[b"PING"]).await?;
            }
        };
        tokio::select! {
            ended = reading => ended,
            ended = pinging => ended,
        }
    }
}

/// A message, or that a subscription has begun: something may have changed before it.
fn is_message(words: &[Reply]) -> bool {
    let kinds: [&[u8]; 4] = [b"message", b"pmessage", b"subscribe", b"psubscribe"];
    matches!(words.first(), Some(Reply::Text(kind)) if kinds.contains(&kind.as_slice()))
}

/// All keys that begin with the prefix.
async fn scan(connection: &mut Connection, prefix: &str) -> Result<BTreeSet<Vec<u8>>, String> {
    let pattern = format!("{}*", escaped(prefix));
    let (mut cursor, mut keys) = (b"0".to_vec(), BTreeSet::new());
    loop {
        let words: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", STEP.as_bytes()];
        let mut answer = connection.ask(&words).await?.array()?.into_iter();
        let (Some(next), Some(some)) = (answer.next(), answer.next()) else {
            return Err("the answer to SCAN is none".to_owned());
        };
        for key in some.array()? {
            keys.insert(key.text()?);
        }
        if keys.len() > KEYS {
            return Err(format!("there are more than {KEYS} keys; write a longer prefix"));
        }
        cursor = next.text()?;
        if cursor == b"0" {
            return Ok(keys);
        }
    }
}

/// A pattern that only stands for this text.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_itself_in_a_pattern() {
        assert_eq!(escaped("a[1]*?\\:"), "a\\[1\\]\\*\\?\\\\:");
    }
}
