//! Rates that several proxies keep together, in Redis or Valkey.
//!
//! Each decision is one script (`gcra.lua`) that runs in the server, so that the rate is exact however many proxies
//! ask; time is the server's. All workers share one connection, on which scripts are pipelined. Nobody waits for
//! longer than the deadline, and not at all while the server is known not to answer: after [`FAILURES`] in a row
//! questions fail at once, until the server has answered a ping again.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, ServerErrorKind};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use thalweg_client::{Destination, HttpClient};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Failures in a row after which the server is not asked.
pub const FAILURES: u32 = 5;
/// Questions under way at a time; another one fails at once.
const QUESTIONS: usize = 1024;
/// For a connection, with its authentication.
const CONNECT: Duration = Duration::from_secs(2);
/// Pauses between attempts to connect: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Between pings of a server that does not answer.
const PROBE: Duration = Duration::from_millis(200);
/// Pings without an answer after which the connection is made anew.
const PINGS: u32 = 10;

const SCRIPT: &str = include_str!("redis_limits/gcra.lua");

/// Where the server is, and how it is asked.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisSettings {
    /// The server.
    pub to: Destination,
    /// For TLS: certificates in PEM that vouch for the server's; `None`: those that the system trusts.
    pub ca: Option<Arc<[u8]>>,
    /// The user; none is the default one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// The number of the database.
    pub database: i64,
    /// For one question.
    pub timeout: Duration,
}

/// The name of a key in the store: 128 bits of a hash (SHA-256), so that the store has no addresses, tokens or long
/// keys. Proxies with the same configuration give the same name to the same key.
#[derive(Clone, Debug)]
pub struct SharedName(Sha256);

impl SharedName {
    /// Keys of another `scope` or `kind` have other names.
    pub fn new(scope: &str, kind: &str) -> Self {
        let mut name = Self(Sha256::new());
        name.part(scope.as_bytes());
        name.part(kind.as_bytes());
        name
    }

    /// Adds a part.
    pub fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// The name: 32 hex digits.
    pub fn finish(self) -> String {
        self.0.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl RedisSettings {
    /// A name for these settings, which says nothing of the password.
    pub fn fingerprint(&self) -> String {
        let mut name = SharedName::new("settings", &format!("{:?}", self.to));
        for text in [&self.user, &self.password] {
            name.part(&[u8::from(text.is_some())]);
            name.part(text.as_deref().unwrap_or_default().as_bytes());
        }
        name.part(self.ca.as_deref().unwrap_or_default());
        name.part(format!("{} {:?}", self.database, self.timeout).as_bytes());
        name.finish()
    }
}

/// A limit that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct SharedCost {
    /// Nanoseconds in which the cost comes back.
    pub cost: u64,
    /// Nanoseconds in which the whole burst comes back.
    pub burst: u64,
}

/// What the server has decided.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharedDecision {
    /// The limit that refuses, by its position.
    pub refused: Option<usize>,
    /// How long it has to wait, in nanoseconds.
    pub wait: u64,
    /// How much of each burst is used, as the time in which it comes back, in nanoseconds.
    pub used: Vec<u64>,
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoDecision {
    /// The server does not answer, and is not asked.
    Down,
    /// It has not answered in time.
    Late,
    /// It has answered with an error, or the connection broke.
    Failed,
    /// Too many questions are under way.
    Busy,
}

impl NoDecision {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Down => "the store does not answer",
            Self::Late => "the store has not answered in time",
            Self::Failed => "the store has failed",
            Self::Busy => "too many questions to the store are under way",
        }
    }
}

/// What has changed, for the operator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RedisNews {
    /// It answers.
    Up,
    /// It does not; why, in words.
    Down(String),
}

/// A server, and the connection to it.
pub struct RedisLimits {
    settings: RedisSettings,
    client: HttpClient,
    /// Not before the first attempt to connect has failed: questions wait for it until their deadline.
    is_down: AtomicBool,
    failures: AtomicU32,
    trouble: Notify,
    connection: watch::Sender<Option<Connected>>,
    questions: Arc<Semaphore>,
}

#[derive(Clone)]
struct Connected {
    connection: MultiplexedConnection,
    /// The name that the server gave to the script.
    script: Arc<str>,
}

/// Ends with what it belongs to.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedisLimits {
    /// Nothing is connected: see [`Self::keep_connected`].
    pub fn new(settings: RedisSettings) -> Self {
        let trust = settings.ca.clone().map_or(thalweg_tls::Trust::System, thalweg_tls::Trust::Only);
        Self {
            settings,
            client: HttpClient::new(trust),
            is_down: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            trouble: Notify::new(),
            connection: watch::channel(None).0,
            questions: Arc::new(Semaphore::new(QUESTIONS)),
        }
    }

    /// What it was made with.
    pub fn settings(&self) -> &RedisSettings {
        &self.settings
    }

    /// The number of the database.
    pub fn database(&self) -> i64 {
        self.settings.database
    }

    /// The time after which a question fails.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Asks about these limits, each with the name of its key; all are spent, or none. The future belongs on the
    /// runtime of [`Self::keep_connected`]. Cancel-safe: what was spent stays spent.
    ///
    /// # Errors
    /// Nobody is to be asked now.
    pub fn ask(
        self: &Arc<Self>,
        limits: &[(String, SharedCost)],
    ) -> Result<impl Future<Output = Result<SharedDecision, NoDecision>> + Send + use<>, NoDecision> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(NoDecision::Down);
        }
        let place = self.questions.clone().try_acquire_owned().map_err(|_| NoDecision::Busy)?;
        let mut words: Vec<String> = limits.iter().map(|(key, _)| key.clone()).collect();
        for (_, SharedCost { cost, burst }) in limits {
            words.push(microseconds(*cost));
            words.push(microseconds(*burst));
        }
        let (this, keys) = (self.clone(), limits.len());
        Ok(async move {
            let _place = place;
            let answer = timeout(this.settings.timeout, this.run(keys, &words)).await;
            let decided = answer.map_err(|_| NoDecision::Late).flatten();
            match decided {
                Ok(_) => this.failures.store(0, Ordering::Relaxed),
                Err(_) => this.note_failure(),
            }
            decided
        })
    }

    fn note_failure(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES {
            self.is_down.store(true, Ordering::Relaxed);
            self.trouble.notify_one();
        }
    }

    async fn run(&self, keys: usize, words: &[String]) -> Result<SharedDecision, NoDecision> {
        let mut news = self.connection.subscribe();
        let connected = news.wait_for(Option::is_some).await.map_err(|_| NoDecision::Failed)?.clone();
        let Some(mut connected) = connected else { return Err(NoDecision::Failed) };
        let question = |verb: &str, script: &str| {
            let mut cmd = redis::cmd(verb);
            cmd.arg(script).arg(keys);
            for word in words {
                cmd.arg(word);
            }
            cmd
        };
        let first = question("EVALSHA", &connected.script);
        let mut answer: Result<Vec<i64>, RedisError> = first.query_async(&mut connected.connection).await;
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)) {
            // The server has forgotten it: it was flushed, or another one took its place.
            answer = question("EVAL", SCRIPT).query_async(&mut connected.connection).await;
        }
        let numbers = answer.map_err(|_| NoDecision::Failed)?;
        let nanoseconds = |number: &i64| u64::try_from(*number).unwrap_or(0).saturating_mul(1000);
        match numbers.as_slice() {
            [refused, wait, used @ ..] if used.len() == keys => Ok(SharedDecision {
                refused: usize::try_from(*refused).ok().and_then(|at| at.checked_sub(1)),
                wait: nanoseconds(wait),
                used: used.iter().map(nanoseconds).collect(),
            }),
            _ => Err(NoDecision::Failed),
        }
    }

    /// Connects, again and again, and says when that begins or ceases to work. Runs as long as it is polled.
    pub async fn keep_connected(&self, say: impl Fn(RedisNews) + Send + Sync) {
        let (mut pause, mut is_told) = (PAUSES.0, false);
        loop {
            let why = match timeout(CONNECT, self.connect()).await {
                Ok(Ok((connected, driver))) => {
                    pause = PAUSES.0;
                    self.failures.store(0, Ordering::Relaxed);
                    self.is_down.store(false, Ordering::Relaxed);
                    self.connection.send_replace(Some(connected.clone()));
                    say(RedisNews::Up);
                    is_told = false;
                    let why = self.watch_over(connected, driver, &say, &mut is_told).await;
                    self.connection.send_replace(None);
                    why
                }
                Ok(Err(why)) => why,
                Err(_) => "it does not answer".to_owned(),
            };
            self.is_down.store(true, Ordering::Relaxed);
            if !std::mem::replace(&mut is_told, true) {
                say(RedisNews::Down(why));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Until the connection is of no more use; says why.
    async fn watch_over(
        &self,
        mut connected: Connected,
        mut driver: Driver,
        say: &(impl Fn(RedisNews) + Send + Sync),
        is_told: &mut bool,
    ) -> String {
        loop {
            tokio::select! {
                _ = &mut driver.0 => return "the connection is closed".to_owned(),
                () = self.trouble.notified() => {}
            }
            let mut pings = 0;
            while self.is_down.load(Ordering::Relaxed) {
                let ping = redis::cmd("PING");
                let answer = async {
                    timeout(
                        self.settings.timeout.max(PROBE),
                        ping.query_async::<String>(&mut connected.connection),
                    )
                    .await
                };
                let is_well = tokio::select! {
                    _ = &mut driver.0 => return "the connection is closed".to_owned(),
                    answer = answer => matches!(answer, Ok(Ok(_))),
                };
                if is_well {
                    self.failures.store(0, Ordering::Relaxed);
                    self.is_down.store(false, Ordering::Relaxed);
                    if std::mem::replace(is_told, false) {
                        say(RedisNews::Up);
                    }
                    break;
                }
                if !std::mem::replace(is_told, true) {
                    say(RedisNews::Down("it does not answer in time".to_owned()));
                }
                pings += 1;
                if pings >= PINGS {
                    return "it does not answer".to_owned();
                }
                sleep(PROBE).await;
            }
        }
    }

    async fn connect(&self) -> Result<(Connected, Driver), String> {
        let stream = self.client.open(&self.settings.to, CONNECT).await.map_err(|error| error.to_string())?;
        let mut info = RedisConnectionInfo::default().set_db(self.settings.database);
        if let Some(user) = &self.settings.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.settings.password {
            info = info.set_password(password);
        }
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let opened = MultiplexedConnection::new_with_config(&info, stream, config);
        let (mut connection, driver) = opened.await.map_err(|error| words(&error))?;
        let driver = Driver(tokio::spawn(driver));
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(SCRIPT);
        let script: String = load.query_async(&mut connection).await.map_err(|error| words(&error))?;
        Ok((Connected { connection, script: script.into() }, driver))
    }
}

/// What the server has said, or what has become of the connection. It repeats no argument: no credential is in it.
fn words(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("it answers {code}"),
        None => error.category().to_owned(),
    }
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("to", &self.to).finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_down = self.is_down.load(Ordering::Relaxed);
        f.debug_struct("RedisLimits").field("to", &self.settings.to).field("is_down", &is_down).finish()
    }
}
