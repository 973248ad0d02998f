//! A thread beside the workers, for what filters must not do on one: calls that an exchange waits for (stores, identity
//! providers, checks of passwords), and upkeep (lists and keys that are refreshed).
//!
//! It begins with the first use: a configuration without such filters has no such thread. All is bounded: the calls
//! under way, and the functions that wait for one of few threads.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::thread::available_parallelism;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind, Notice};
use thalweg_filter::{Call, Outcome, Upkeep, UpkeepTools, Work};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinHandle};

/// Calls under way at a time; another one is refused.
const CALLS: usize = 4096;
/// Functions that run or wait for a thread; another one is refused.
const FUNCTIONS: usize = 256;
/// The longest that a call may take.
const LONGEST: Duration = Duration::from_secs(60);

const TOO_MANY: Fault =
    Fault::new(FaultKind::ConnectionLimitReached, "too many calls of filters are under way");
const TOO_LONG: Fault = Fault::new(FaultKind::HttpResponseTimeout, "a call of a filter took too long");
const BROKEN: Fault = Fault::new(FaultKind::ProxyInternalError, "a call of a filter ended by a bug");
const NO_THREAD: Fault =
    Fault::new(FaultKind::ProxyInternalError, "no thread for calls of filters can be had");

/// The thread, and what runs there.
pub(crate) struct Background {
    runtime: OnceLock<Option<Handle>>,
    calls: Arc<Semaphore>,
    functions: Arc<Semaphore>,
    /// By the address of the upkeep, which the entry keeps alive.
    upkeep: Mutex<HashMap<usize, Running>>,
    tools: UpkeepTools,
}

/// Upkeep that runs.
struct Running {
    task: AbortHandle,
    _upkeep: Arc<dyn Upkeep>,
}

impl Background {
    /// Nothing runs. Lines for the operator go to `notices`; dropped when it cannot keep up.
    pub(crate) fn new(notices: mpsc::Sender<Notice>) -> Self {
        let say = move |notice| drop(notices.try_send(notice));
        Self {
            runtime: OnceLock::new(),
            calls: Arc::new(Semaphore::new(CALLS)),
            functions: Arc::new(Semaphore::new(FUNCTIONS)),
            upkeep: Mutex::default(),
            tools: UpkeepTools { say: Arc::new(say) },
        }
    }

    fn runtime(&self) -> Option<&Handle> {
        self.runtime.get_or_init(|| start().ok()).as_ref()
    }

    /// Begins a call; what it gives is awaited on any thread.
    pub(crate) fn call(&self, call: Call) -> Result<Calling, Fault> {
        let place = self.calls.clone().try_acquire_owned().map_err(|_| TOO_MANY)?;
        let runtime = self.runtime().ok_or(NO_THREAD)?;
        let time = call.timeout.min(LONGEST);
        let task = match call.work {
            Work::Future(future) => runtime.spawn(async move {
                let _place = place;
                tokio::time::timeout(time, future).await.map_err(|_| TOO_LONG)
            }),
            Work::Blocking(work) => {
                let turn = self.functions.clone().try_acquire_owned().map_err(|_| TOO_MANY)?;
                let running = runtime.spawn_blocking(move || {
                    let _turn = turn;
                    work()
                });
                runtime.spawn(async move {
                    let _place = place;
                    let ended = tokio::time::timeout(time, running).await.map_err(|_| TOO_LONG)?;
                    ended.map_err(|_| BROKEN)
                })
            }
        };
        Ok(Calling(task))
    }

    /// From now on this upkeep runs, and no other.
    pub(crate) fn keep_up(&self, all: impl Iterator<Item = Arc<dyn Upkeep>>) {
        let mut running = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = HashMap::new();
        for upkeep in all {
            wanted.insert(Arc::as_ptr(&upkeep).cast::<()>().addr(), upkeep);
        }
        running.retain(|key, known| {
            let stays = wanted.contains_key(key);
            if !stays {
                known.task.abort();
            }
            stays
        });
        for (key, upkeep) in wanted {
            if running.contains_key(&key) {
                continue;
            }
            let Some(runtime) = self.runtime() else { return };
            let task = runtime.spawn(upkeep.clone().run(self.tools.clone())).abort_handle();
            running.insert(key, Running { task, _upkeep: upkeep });
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("calls", &(CALLS - self.calls.available_permits())).finish()
    }
}

/// Starts the thread. It ends with the process: what runs there is never in the middle of something that must last.
fn start() -> std::io::Result<Handle> {
    let threads = available_parallelism().map_or(1, |cpus| cpus.get().div_ceil(2));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads)
        .thread_name("filter-work")
        .build()?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name("filter-calls".into());
    thread.spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// A call under way. It is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Calling(JoinHandle<Result<Outcome, Fault>>);

impl Calling {
    /// What it gave. Cancel-safe.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Outcome, Fault>> {
        Pin::new(&mut self.0).poll(context).map(|ended| ended.unwrap_or(Err(BROKEN)))
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use thalweg_filter::Job;

    fn background() -> Background {
        Background::new(mpsc::channel(1).0)
    }

    fn call(job: Job) -> Call {
        let Job::Call(call) = job else { panic!("{job:?}") };
        call
    }

    fn wait(mut calling: Calling) -> Result<Outcome, Fault> {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(poll_fn(|context| calling.poll(context)))
    }

    #[test]
    fn calls_give_what_they_made() {
        let background = background();
        let second = Duration::from_secs(10);
        let future = background.call(call(Job::call(second, async { 7_u32 }))).unwrap();
        assert_eq!(*wait(future).unwrap().downcast::<u32>().unwrap(), 7);
        let function = background.call(call(Job::compute(second, || "done"))).unwrap();
        assert_eq!(*wait(function).unwrap().downcast::<&str>().unwrap(), "done");
    }

    #[test]
    fn calls_that_take_too_long_or_panic_are_faults() {
        let background = background();
        let never = background.call(call(Job::call(Duration::from_millis(1), pending::<()>()))).unwrap();
        assert_eq!(wait(never).unwrap_err(), TOO_LONG);
        let bug = Job::compute(Duration::from_secs(10), || -> u32 { panic!("of a test") });
        assert_eq!(wait(background.call(call(bug)).unwrap()).unwrap_err(), BROKEN);
    }

    #[test]
    fn functions_are_bounded() {
        let background = background();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let mut waiting = Vec::new();
        for _ in 0..FUNCTIONS {
            let gate = gate.clone();
            let job = Job::compute(LONGEST, move || {
                let _ = gate.lock().unwrap().recv();
            });
            waiting.push(background.call(call(job)).unwrap());
        }
        let refused = background.call(call(Job::compute(LONGEST, || ())));
        assert_eq!(refused.map(|_| ()).unwrap_err(), TOO_MANY);
        drop(open);
        waiting.into_iter().for_each(|calling| drop(wait(calling).unwrap()));
        assert_eq!(background.functions.available_permits(), FUNCTIONS);
    }

    #[derive(Debug, Default)]
    struct Counted(Arc<AtomicUsize>);

    struct Alive(Arc<AtomicUsize>);

    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Upkeep for Counted {
        fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let alive = Alive(self.0.clone());
            (tools.say)(Notice::info("runs"));
            Box::pin(async move {
                let _alive = alive;
                pending().await
            })
        }
    }

    #[test]
    fn upkeep_runs_once_while_it_is_wanted() {
        let (notices, mut said) = mpsc::channel(8);
        let background = Background::new(notices);
        let counted = Arc::new(Counted::default());
        let twice = || (0..2).map(|_| counted.clone() as Arc<dyn Upkeep>);
        background.keep_up(twice());
        background.keep_up(twice());
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        assert_eq!(said.blocking_recv().unwrap().text, "runs");
        background.keep_up([].into_iter());
        // It is dropped on its own thread, which runs this call behind it.
        let behind = background.call(call(Job::call(Duration::from_secs(10), async {}))).unwrap();
        drop(wait(behind).unwrap());
        assert_eq!(counted.0.load(Ordering::SeqCst), 0);
        assert!(said.try_recv().is_err());
    }
}
