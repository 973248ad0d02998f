//! Work that may take long and is not to be felt: compiling a large configuration beside workers that serve.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// How much the work gives way (nice(2)): on a busy CPU it gets about a ninth of what a worker gets.
const NICE: i32 = 10;

/// Does the work on a thread of lower priority, and waits for it. A thread cannot raise its priority again, so it is
/// one of its own. Where none can be started, or its priority not be lowered, the work is done all the same.
pub(crate) fn in_background<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let lowered = || {
        if std::env::var_os("X_NO_NICE").is_none() {
            let before = getpriority_process(Some(gettid())).unwrap_or(0);
            let _ = setpriority_process(Some(gettid()), (before + NICE).min(19));
        }
        work()
    };
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("thalweg-compile".into());
        thread.spawn_scoped(scope, lowered).ok().and_then(|thread| thread.join().ok())
    });
    done.unwrap_or_else(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done_at_a_lower_priority_and_the_caller_keeps_its_own() {
        let own = || getpriority_process(Some(gettid())).unwrap();
        let before = own();
        assert_eq!((in_background(own), own()), ((before + NICE).min(19), before));
    }

    #[test]
    fn work_that_panics_is_tried_once_more_by_the_caller() {
        let tries = std::sync::atomic::AtomicU32::new(0);
        let work = || {
            assert!(tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0, "the first time");
            7
        };
        assert_eq!(in_background(work), 7);
    }
}
