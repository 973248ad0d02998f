//! Something that another server publishes: fetched, kept, refreshed, and used for a while after that server is gone.

use crate::Digest;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg_core::Notice;
use tokio::sync::Mutex as Turn;

/// How long what was fetched is good.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// It is fetched again after this time.
    pub refresh: Duration,
    /// It is used for this time after it was fetched, even if it cannot be fetched again.
    pub stale: Duration,
}

/// Attempts within [`WINDOW`] after which requests may not ask for another one: what strangers send makes nobody ask
/// more often, and a provider may still change its keys twice in a row.
const ATTEMPTS: usize = 3;
const WINDOW: Duration = Duration::from_secs(30);
/// Between two attempts after one that failed: doubled from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What is known of something that is fetched.
pub struct Remote<T> {
    times: Times,
    state: Mutex<State<T>>,
    /// Held by the one that fetches.
    turn: Turn<()>,
}

struct State<T> {
    known: Option<(Arc<T>, Digest, Instant)>,
    /// When the last attempts began, the newest first, and when one ended last.
    began: [Option<Instant>; ATTEMPTS],
    ended: Option<Instant>,
    /// Attempts that failed in a row, and why the last one did.
    failures: u32,
    failure: Option<String>,
}

impl<T> Remote<T> {
    /// Nothing is known yet.
    pub fn new(times: Times) -> Self {
        let state = State { known: None, began: [None; ATTEMPTS], ended: None, failures: 0, failure: None };
        Self { times, state: Mutex::new(state), turn: Turn::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known and not too old.
    pub fn current(&self, now: Instant) -> Option<Arc<T>> {
        let state = self.state();
        let (known, _, since) = state.known.as_ref()?;
        (now.saturating_duration_since(*since) < self.times.stale).then(|| known.clone())
    }

    /// Why it could not be had, last.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Whether a request may have it fetched now, because it needs what is not known: not while the last attempts are
    /// too near, unless one is still under way.
    pub fn may_ask(&self, now: Instant) -> bool {
        let state = self.state();
        let [newest, .., oldest] = state.began;
        let is_under_way = newest > state.ended;
        is_under_way || oldest.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW)
    }

    /// How long it is until the next attempt is due by itself.
    pub fn due(&self, now: Instant) -> Duration {
        let state = self.state();
        let Some(ended) = state.ended else { return Duration::ZERO };
        let pause = match state.failures {
            0 => self.times.refresh,
            failures => RETRY.0.saturating_mul(1 << failures.min(16)).min(RETRY.1).min(self.times.refresh),
        };
        (ended + pause).saturating_duration_since(now)
    }

    /// Fetches it, unless somebody else has since `asked`. One at a time does; others wait for that one. Cancel-safe:
    /// an attempt that is dropped is none.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub async fn refresh<F>(&self, asked: Instant, fetch: impl FnOnce() -> F) -> Result<(), String>
    where
        F: Future<Output = Result<(T, Digest), String>>,
    {
        let _turn = self.turn.lock().await;
        {
            let mut state = self.state();
            if state.ended.is_some_and(|ended| ended > asked) {
                return state.failure.clone().map_or(Ok(()), Err);
            }
            state.began.rotate_right(1);
            state.began[0] = Some(Instant::now());
        }
        let got = fetch().await;
        let now = Instant::now();
        let mut state = self.state();
        state.ended = Some(now);
        match got {
            Ok((value, digest)) => {
                let same = state.known.take().filter(|(_, known, _)| *known == digest);
                let value = same.map_or_else(|| Arc::new(value), |(known, ..)| known);
                state.known = Some((value, digest, now));
                (state.failures, state.failure) = (0, None);
                Ok(())
            }
            Err(why) => {
                state.failures = state.failures.saturating_add(1);
                state.failure = Some(why.clone());
                Err(why)
            }
        }
    }
}

/// Writes a line for the operator.
pub type Say = Arc<dyn Fn(Notice) + Send + Sync>;

/// Refreshes something whenever it is due, and says when that begins to fail and when it works again. Never ends.
/// Cancel-safe.
pub(crate) async fn keep<F>(
    what: String,
    due: impl Fn(Instant) -> Duration,
    refresh: impl Fn(Instant) -> F,
    say: Say,
) where
    F: Future<Output = Result<(), String>>,
{
    let mut fails = false;
    loop {
        tokio::time::sleep(due(Instant::now())).await;
        match refresh(Instant::now()).await {
            Err(why) if !fails => {
                say(Notice::warn(format!(
                    "{what} cannot be refreshed: {why}; what was known is used while it may be"
                )));
                fails = true;
            }
            Ok(()) if fails => {
                say(Notice::info(format!("{what} is refreshed again")));
                fails = false;
            }
            _ => {}
        }
    }
}

impl<T> fmt::Debug for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("remote")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TIMES: Times = Times { refresh: Duration::from_secs(300), stale: Duration::from_secs(3600) };

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn found(value: u32) -> Result<(u32, Digest), String> {
        Ok((value, digest(&[&value.to_be_bytes()])))
    }

    #[test]
    fn it_is_kept_while_it_cannot_be_fetched_but_not_for_ever() {
        let remote = Remote::new(TIMES);
        let now = Instant::now();
        assert_eq!((remote.current(now), remote.due(now)), (None, Duration::ZERO));
        assert_eq!(run(remote.refresh(now, async || found(1))), Ok(()));
        let first = remote.current(Instant::now()).unwrap();
        // The same again is the same thing.
        assert_eq!(run(remote.refresh(Instant::now(), async || found(1))), Ok(()));
        assert!(Arc::ptr_eq(&first, &remote.current(Instant::now()).unwrap()));
        for _ in 0..2 {
            let failed = run(remote.refresh(Instant::now(), async || Err("gone".to_owned())));
            assert_eq!((failed, remote.failure().as_deref()), (Err("gone".into()), Some("gone")));
        }
        let now = Instant::now();
        assert_eq!(remote.current(now + TIMES.stale - Duration::from_secs(60)).as_deref(), Some(&1));
        assert_eq!(remote.current(now + TIMES.stale), None);
        assert!(remote.due(now) <= Duration::from_secs(4) && !remote.due(now).is_zero());
        assert_eq!(run(remote.refresh(Instant::now(), async || found(2))), Ok(()));
        assert_eq!((remote.current(Instant::now()).as_deref(), remote.failure()), (Some(&2), None));
    }

    #[test]
    fn strangers_make_nobody_ask_more_often() {
        let remote = Remote::<u32>::new(TIMES);
        for _ in 0..ATTEMPTS {
            assert!(remote.may_ask(Instant::now()));
            run(remote.refresh(Instant::now(), async || found(1))).unwrap();
        }
        let now = Instant::now();
        assert!(!remote.may_ask(now) && remote.may_ask(now + WINDOW));
    }

    #[test]
    fn one_fetches_for_all_who_wait() {
        let (remote, fetched) = (Remote::new(TIMES), AtomicU32::new(0));
        let asked = Instant::now();
        let ask = || {
            remote.refresh(asked, async || {
                assert!(remote.may_ask(Instant::now()), "it is under way");
                fetched.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                found(1)
            })
        };
        let got = run(async { tokio::join!(ask(), ask(), ask()) });
        assert_eq!(got, (Ok(()), Ok(()), Ok(())));
        assert_eq!(fetched.into_inner(), 1);
    }
}
