//! `store: { redis: { url: "redis://10.0.0.5" } }`: limits that several proxies keep together.
//!
//! A request waits for one answer of the store, for no longer than the deadline. A key that the store has refused is
//! refused here, without a question, until the time that the store has said: nothing could admit it earlier.

use super::{Account, RateLimit, Refusal, Spent};
use crate::named::Named;
use crate::{ConfigFiles, Job, JobResult, RequestCx, SecretSpec, Upkeep, UpkeepTools, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use thalweg_access::{
    Decision, Destination, KeyTable, NoDecision, RedisLimits, RedisNews, RedisSettings, SharedCost,
    SharedDecision,
};
use thalweg_core::Notice;
use thalweg_core::units::{duration_text, parse_duration};

/// For an answer, where nothing is written.
const TIMEOUT: Duration = Duration::from_millis(50);
/// Beyond the deadline of the question, which ends by itself.
const BACKSTOP: Duration = Duration::from_secs(1);
/// Largest file of certificates, in bytes.
const CA_FILE: usize = 1024 * 1024;

/// Where limits are kept that several proxies share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "a map with `redis`")]
pub(super) enum StoreSpec {
    /// Redis or Valkey.
    Redis(RedisSpec),
}

/// A server of Redis or Valkey.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub(super) struct RedisSpec {
    /// `redis://HOST:PORT`, `rediss://HOST:PORT` for TLS, or `unix:/PATH`. The port is 6379 unless it is written.
    #[schemars(extend("examples" = ["redis://10.0.0.5:6379"]))]
    #[schemars(extend("x-api" = "destination"))]
    url: String,
    /// The user.
    #[schemars(extend("x-default-words" = "the default user"))]
    user: Option<String>,
    /// Its password.
    #[schemars(extend("x-default-words" = "none"))]
    password: Option<SecretSpec>,
    /// For TLS: certificates in PEM that vouch for the server's.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// The number of the database.
    #[schemars(extend("x-range" = [0, 1024], "x-default" = 0))]
    #[serde(default)]
    database: u16,
    /// The longest that a request waits for an answer.
    #[schemars(extend("x-range" = ["1ms", "5s"], "x-default" = "50ms"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["50ms"]))]
    timeout: Option<String>,
    /// What becomes of requests without an answer.
    #[schemars(extend("x-default" = "local"))]
    #[serde(default)]
    on_failure: OnFailureSpec,
    /// The beginning of all keys.
    #[schemars(extend("x-default" = "thalweg:limit:"))]
    prefix: Option<String>,
}

/// What becomes of requests without an answer of the store.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnFailureSpec {
    /// They are admitted.
    Allow,
    /// They are refused with 503.
    Deny,
    /// Each proxy keeps the limit by itself.
    #[default]
    Local,
}

/// One connection for all filters and workers.
#[derive(Debug)]
pub(super) struct Shared {
    redis: Arc<RedisLimits>,
    place: String,
}

/// Servers in use.
static SERVERS: Named<String, Shared> = Named::new();

#[derive(Debug)]
pub(super) struct Store {
    shared: Arc<Shared>,
    on_failure: OnFailureSpec,
    prefix: Box<str>,
    /// Keys that have to wait, as the store has said.
    pub(super) blocked: KeyTable,
}

/// What a request has asked the store.
#[derive(Debug)]
struct Asked(Box<[Spent]>);

impl StoreSpec {
    /// Checks where the server is, and reads what it needs.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(super) fn build(&self, files: &dyn ConfigFiles, keys: usize) -> Result<Store, String> {
        let Self::Redis(spec) = self;
        let to = destination(&spec.url)?;
        let timeout = spec.timeout.as_deref().map_or(Ok(TIMEOUT), parse_duration)?;
        if !(Duration::from_millis(1)..=Duration::from_secs(5)).contains(&timeout) {
            return Err("`timeout` of the store must be from 1ms to 5s".into());
        }
        if spec.database > 1024 {
            return Err("`database` must be from 0 to 1024".into());
        }
        let is_tls = matches!(to, Destination::Tcp { tls: true, .. });
        if spec.ca.is_some() && !is_tls {
            return Err("`ca` is for TLS: write `rediss://` in `url`".into());
        }
        let text = |what: &str, bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| format!("the {what} of the store is not text"))
        };
        let password =
            spec.password.as_ref().map(|secret| text("password", secret.read(files)?)).transpose()?;
        if spec.user.is_some() && password.is_none() {
            return Err("`user` of the store needs a `password`".into());
        }
        let ca = spec.ca.as_ref().map(|path| files.roots(path, CA_FILE)).transpose()?;
        let prefix = spec.prefix.as_deref().unwrap_or("thalweg:limit:");
        if prefix.len() > 64 || prefix.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("`prefix` of the store has at most 64 bytes, without control characters".into());
        }
        let settings = RedisSettings {
            to,
            ca: ca.map(Into::into),
            user: spec.user.clone(),
            password,
            database: i64::from(spec.database),
            timeout,
        };
        // All that is written, and what the files say: a changed password is another connection.
        let name = settings.fingerprint();
        let place = spec.url.clone();
        let shared =
            SERVERS.share(&name, || Arc::new(Shared { redis: Arc::new(RedisLimits::new(settings)), place }));
        let blocked = KeyTable::new(keys);
        Ok(Store { shared, on_failure: spec.on_failure, prefix: prefix.into(), blocked })
    }
}

fn destination(url: &str) -> Result<Destination, String> {
    let wrong = || {
        format!(
            "`{url}` is no place of a store; write `redis://HOST:PORT`, `rediss://HOST:PORT` for TLS, or `unix:/PATH`"
        )
    };
    if let Some(path) = url.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return if path.starts_with('/') { Ok(Destination::Unix(PathBuf::from(path))) } else { Err(wrong()) };
    }
    let (rest, tls) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ => return Err(wrong()),
    };
    if rest.contains('@') {
        return Err(
            "the URL of a store has no user or password; write `user` and `password` beside it".into()
        );
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, "6379"),
        Some((host, port)) => (host, port.strip_prefix(':').ok_or_else(wrong)?),
        None => rest.rsplit_once(':').unwrap_or((rest, "6379")),
    };
    let is_host =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
    let port = port.parse().ok().filter(|port| *port > 0 && is_host).ok_or_else(wrong)?;
    Ok(Destination::Tcp { host: host.to_owned(), port, tls })
}

impl Upkeep for Shared {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let (say, place) = (tools.say, &self.place);
            let told = |news| match news {
                RedisNews::Up => say(Notice::info(format!("the store of limits {place} answers"))),
                RedisNews::Down(why) => say(Notice::warn(format!(
                    "the store of limits {place} cannot be asked: {why}; `on_failure` says what becomes of requests"
                ))),
            };
            self.redis.keep_connected(told).await;
        })
    }
}

impl Store {
    /// What keeps the connection.
    pub(super) fn upkeep(&self) -> Arc<dyn Upkeep> {
        self.shared.clone()
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let on_failure = match self.on_failure {
            OnFailureSpec::Allow => "allow",
            OnFailureSpec::Deny => "deny",
            OnFailureSpec::Local => "local",
        };
        let timeout = duration_text(self.shared.redis.timeout());
        let database = match self.shared.redis.database() {
            0 => String::new(),
            number => format!(" database {number}"),
        };
        let (place, prefix) = (&self.shared.place, &self.prefix);
        format!(", kept at {place}{database} as {prefix} within {timeout}, else {on_failure}")
    }
}

impl RateLimit {
    /// Asks the store about a request.
    pub(super) fn ask_store(&self, cx: &mut RequestCx<'_>, store: &Store, now: u64) -> Verdict {
        let (mut all, mut question) = (Vec::new(), Vec::new());
        let scope = self.name.as_deref().unwrap_or(cx.facts.route).to_owned();
        for at in 0..self.limits.len() as u16 {
            let values = cx.values();
            let spent = match self.ask(at, &values, 0) {
                Ok(Some(spent)) => spent,
                Ok(None) => continue,
                Err(refusal) => return self.refuse(cx, &refusal),
            };
            let Some((limit, terms)) = self.terms(&spent) else { continue };
            let cost = terms.rate.time_of(spent.units.min(terms.rate.burst())).min(terms.rate.tolerance());
            if let Some(wait) = store.blocked.blocked_for(spent.key, now) {
                let used = terms.rate.tolerance().saturating_sub(cost).saturating_add(wait);
                let decision = terms.rate.seen(used, wait);
                return self.refuse(cx, &Refusal::Over(Spent { decision, ..spent }));
            }
            let name = limit.key.name(&values, &scope);
            question.push((
                format!("{}{name}", store.prefix),
                SharedCost { cost, burst: terms.rate.tolerance() },
            ));
            all.push(spent);
        }
        if all.is_empty() {
            return Verdict::Continue;
        }
        match store.shared.redis.ask(&question) {
            Ok(answer) => {
                cx.remember(Asked(all.into()));
                Verdict::Wait(Job::call(store.shared.redis.timeout() + BACKSTOP, answer))
            }
            Err(why) => self.without_store(cx, store, (why, now)),
        }
    }

    /// Goes on with what the store has said.
    pub(super) fn answered(&self, cx: &mut RequestCx<'_>, got: JobResult, now: u64) -> Verdict {
        let Some(store) = &self.store else { return Verdict::Continue };
        if let JobResult::NotAsked = got {
            return Verdict::Continue;
        }
        let decided = got.called::<Result<SharedDecision, NoDecision>>().unwrap_or(Err(NoDecision::Failed));
        let decision = match decided {
            Ok(decision) => decision,
            Err(why) => return self.without_store(cx, store, (why, now)),
        };
        let asked = cx.remembered::<Asked>().map(|asked| asked.0.to_vec()).unwrap_or_default();
        let seen = |at: usize, wait: u64| -> Option<Decision> {
            let (_, terms) = self.terms(asked.get(at)?)?;
            Some(terms.rate.seen(*decision.used.get(at)?, wait))
        };
        if let Some(at) = decision.refused {
            let (Some(spent), Some(decided)) = (asked.get(at), seen(at, decision.wait.max(1))) else {
                return self.without_store(cx, store, (NoDecision::Failed, now));
            };
            if self.has_fixed_cost(spent) {
                store.blocked.block(spent.key, (now, now.saturating_add(decision.wait)));
            }
            return self.refuse(cx, &Refusal::Over(Spent { decision: decided, ..*spent }));
        }
        let all = asked.iter().enumerate();
        let all: Option<Box<[Spent]>> =
            all.map(|(at, spent)| Some(Spent { decision: seen(at, 0)?, ..*spent })).collect();
        match all {
            Some(all) => cx.remember(Account::Several(all)),
            None => return self.without_store(cx, store, (NoDecision::Failed, now)),
        }
        Verdict::Continue
    }

    /// There is no answer: the configuration says what becomes of the request.
    fn without_store(&self, cx: &mut RequestCx<'_>, store: &Store, (why, now): (NoDecision, u64)) -> Verdict {
        let why = why.words();
        match store.on_failure {
            OnFailureSpec::Allow => {
                cx.explain(format!("rate_limit: {why}; admitted"));
                Verdict::Continue
            }
            OnFailureSpec::Local => {
                cx.explain(format!("rate_limit: {why}; counted by this proxy alone"));
                self.spend_here(cx, (0, now))
            }
            OnFailureSpec::Deny if self.is_dry_run => {
                cx.explain(format!("rate_limit: {why}; refused (dry run)"));
                Verdict::Continue
            }
            OnFailureSpec::Deny => {
                cx.fault_field("Retry-After", b"1");
                cx.refuse(503, "the rate limit cannot be checked", format!("rate_limit: {why}; refused"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_stores_are_read() {
        let tcp = |host: &str, port, tls| Destination::Tcp { host: host.into(), port, tls };
        for (url, expected) in [
            ("redis://a", tcp("a", 6379, false)),
            ("redis://a.test:7000/", tcp("a.test", 7000, false)),
            ("rediss://[::1]:7000", tcp("::1", 7000, true)),
            ("redis://[::1]", tcp("::1", 6379, false)),
            ("unix:/run/redis.sock", Destination::Unix("/run/redis.sock".into())),
            ("unix:///run/redis.sock", Destination::Unix("/run/redis.sock".into())),
        ] {
            assert_eq!(destination(url).unwrap(), expected, "{url}");
        }
        for url in [
            "",
            "a:6379",
            "redis://",
            "redis://a:0",
            "redis://a:70000",
            "redis://a/3",
            "unix:run/a",
            "http://a",
        ] {
            assert!(destination(url).unwrap_err().contains("no place of a store"), "{url}");
        }
        assert!(destination("redis://:secret@a").unwrap_err().contains("no user or password"));
    }
}
