//! The task pool: where exchanges run.
//!
//! A task is a future that lives as long as the worker needs it. It waits for a client connection
//! with something to read, holds the conversation until the client falls silent, gives the
//! connection back to the idle ones and waits for the next. So an exchange costs no spawn and no
//! allocation, its code is plain `async`, and a connection that says nothing holds no task.
//!
//! A panic ends the task's future and with it the one exchange it served; the task gets a new one.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thalweg_net::prefetch;

/// Vacant tasks kept beyond those in use.
const SPARE: usize = 64;

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// One task: what waits to be served in it, and its future while nobody polls it.
pub(crate) struct TaskSlot<T> {
    mailbox: Cell<Option<T>>,
    future: Cell<Option<TaskFuture>>,
    waker: Waker,
    /// The connection of HTTP/2 whose stream is served in it.
    session: Cell<Option<u32>>,
}

impl<T> TaskSlot<T> {
    /// The next thing to serve. Cancel-safe.
    pub(crate) async fn next(&self) -> T {
        std::future::poll_fn(|_| self.mailbox.take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// All tasks of a worker.
pub(crate) struct TaskPool<T> {
    tasks: RefCell<Vec<Rc<TaskSlot<T>>>>,
    vacant: RefCell<Vec<u32>>,
    /// Makes the waker of a task, for what is no socket of the reactor.
    waker: Box<dyn Fn(u32) -> Waker>,
}

impl<T> TaskPool<T> {
    pub(crate) fn new(waker: impl Fn(u32) -> Waker + 'static) -> Self {
        Self { tasks: RefCell::default(), vacant: RefCell::default(), waker: Box::new(waker) }
    }

    /// Puts `guest`, a stream of `session` or a connection of its own, into a vacant task and says which; the caller
    /// polls it. `new_task` makes a task's future and is called only when there is none.
    pub(crate) fn start(
        &self,
        guest: T,
        session: Option<u32>,
        new_task: impl FnOnce(u32, Rc<TaskSlot<T>>) -> TaskFuture,
    ) -> u32 {
        let index = self.vacant.borrow_mut().pop().unwrap_or_else(|| self.add());
        let task = self.tasks.borrow()[index as usize].clone();
        let future = task.future.take().unwrap_or_else(|| new_task(index, task.clone()));
        task.future.set(Some(future));
        task.mailbox.set(Some(guest));
        task.session.set(session);
        index
    }

    /// The connection of HTTP/2 whose stream a task serves.
    pub(crate) fn session(&self, index: u32) -> Option<u32> {
        self.tasks.borrow().get(index as usize)?.session.get()
    }

    /// The task's conversation is over.
    pub(crate) fn finish(&self, index: u32) {
        self.vacant.borrow_mut().push(index);
    }

    /// Polls a task once. An error means that it panicked; its exchange is gone and the task vacant.
    pub(crate) fn poll(&self, index: u32) -> Result<(), ()> {
        let Some(task) = self.tasks.borrow().get(index as usize).cloned() else { return Ok(()) };
        let Some(mut future) = task.future.take() else { return Ok(()) };
        let mut context = Context::from_waker(&task.waker);
        // What a panic may leave half-done lives in the future and goes with it.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(_) => {
                task.future.set(Some(future));
                Ok(())
            }
            Err(_) => {
                // Dropping what panicked may panic again; that must not end the worker either.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                self.finish(index);
                Err(())
            }
        }
    }

    /// Asks for the memory of a task that is polled soon: first for what leads to its future.
    pub(crate) fn expect_soon(&self, index: u32) {
        if let Some(task) = self.tasks.borrow().get(index as usize) {
            prefetch(&**task);
        }
    }

    /// Asks for the memory of a task that is polled next: its future.
    pub(crate) fn expect_next(&self, index: u32) {
        if let Some(task) = self.tasks.borrow().get(index as usize) {
            let future = task.future.take();
            if let Some(future) = &future {
                prefetch(&**future);
            }
            task.future.set(future);
        }
    }

    /// How many tasks there are, free ones too.
    pub(crate) fn len(&self) -> u32 {
        self.tasks.borrow().len() as u32
    }

    /// How many tasks are in use.
    pub(crate) fn occupied(&self) -> usize {
        self.tasks.borrow().len() - self.vacant.borrow().len()
    }

    /// Gives the memory of vacant tasks back, but for a few. They are staffed again when needed.
    pub(crate) fn trim(&self) {
        let vacant = self.vacant.borrow();
        let tasks = self.tasks.borrow();
        for index in &vacant[..vacant.len().saturating_sub(SPARE)] {
            drop(tasks[*index as usize].future.take());
        }
    }

    fn add(&self) -> u32 {
        let mut tasks = self.tasks.borrow_mut();
        let index = tasks.len() as u32;
        let waker = (self.waker)(index);
        tasks.push(Rc::new(TaskSlot {
            mailbox: Cell::new(None),
            future: Cell::new(None),
            waker,
            session: Cell::new(None),
        }));
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Log = Rc<RefCell<Vec<u32>>>;

    fn new_task(log: Log, tasks: Rc<TaskPool<u32>>) -> impl FnOnce(u32, Rc<TaskSlot<u32>>) -> TaskFuture {
        move |index, task| {
            Box::pin(async move {
                loop {
                    let guest = task.next().await;
                    assert!(guest != 13, "an unlucky guest");
                    log.borrow_mut().push(guest);
                    tasks.finish(index);
                }
            })
        }
    }

    #[test]
    fn a_seat_serves_one_guest_after_the_other() {
        let (log, tasks) = (Log::default(), Rc::new(TaskPool::new(|_| Waker::noop().clone())));
        for guest in [1, 2, 3] {
            let index = tasks.start(guest, None, new_task(log.clone(), tasks.clone()));
            assert_eq!((index, tasks.occupied()), (0, 1));
            tasks.poll(index).unwrap();
            assert_eq!(tasks.occupied(), 0);
        }
        assert_eq!(*log.borrow(), [1, 2, 3]);
    }

    #[test]
    fn a_panic_costs_the_guest_and_not_the_seat() {
        let (log, tasks) = (Log::default(), Rc::new(TaskPool::new(|_| Waker::noop().clone())));
        for (guest, outcome) in [(1, Ok(())), (13, Err(())), (2, Ok(()))] {
            let index = tasks.start(guest, None, new_task(log.clone(), tasks.clone()));
            assert_eq!(tasks.poll(index), outcome);
            assert_eq!(tasks.occupied(), 0);
        }
        assert_eq!(*log.borrow(), [1, 2]);
    }

    #[test]
    fn trimming_leaves_seats_usable() {
        let (log, tasks) = (Log::default(), Rc::new(TaskPool::new(|_| Waker::noop().clone())));
        let all: Vec<_> =
            (100..300).map(|g| tasks.start(g, None, new_task(log.clone(), tasks.clone()))).collect();
        all.iter().for_each(|index| tasks.poll(*index).unwrap());
        tasks.trim();
        let index = tasks.start(1000, None, new_task(log.clone(), tasks.clone()));
        tasks.poll(index).unwrap();
        assert_eq!(log.borrow().len(), 201);
    }
}
