//! Long work that requests are not to notice: on a thread of its own, behind those that serve them.

use std::panic::resume_unwind;
use std::thread::{self, Builder};
use thalweg_net::machine::step_back;

/// Does this on another thread, which gets a CPU after those who serve requests, and waits for it. Where there can be no
/// other thread it is done on this one.
pub(super) fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let done = thread::scope(|scope| {
        let todo = &mut work;
        let aside = Builder::new().name("thalweg-aside".into()).spawn_scoped(scope, || {
            step_back();
            todo.take().map(|work| work())
        });
        aside.ok()?.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    done.or_else(|| work.take().map(|work| work())).expect("it is done once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_once_on_another_thread_that_has_stepped_back() {
        let here = thread::current().id();
        let mut times = 0;
        let (thread, priority) = aside(|| {
            times += 1;
            (
                thread::current().id(),
                rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap(),
            )
        });
        assert_ne!(thread, here);
        assert_eq!((times, priority), (1, thalweg_net::machine::BEHIND));
        assert!(std::panic::catch_unwind(|| aside(|| panic!("it is passed on"))).is_err());
    }
}
