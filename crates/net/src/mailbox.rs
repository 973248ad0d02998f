//! What other threads tell a worker, and wake-ups that do not come from a socket of its reactor.
//!
//! The worker looks into its mailbox in every turn. A sender rings the bell (an eventfd that the
//! reactor watches) only when the worker is about to sleep or asleep, so that telling a busy worker
//! something costs no system call. Nothing on the path of an exchange uses it.

use crate::reactor::Owner;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Messages and woken owners of one worker, filled from any thread.
#[derive(Debug)]
pub struct Mailbox<M> {
    inner: Mutex<Inner<M>>,
    /// There may be messages.
    has_messages: AtomicBool,
    asleep: AtomicBool,
    bell: OwnedFd,
}

#[derive(Debug)]
struct Inner<M> {
    messages: Vec<M>,
    woken: Vec<Arc<OwnerWaker<M>>>,
}

impl<M> Mailbox<M> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inner = Inner { messages: Vec::new(), woken: Vec::new() };
        let inner = Mutex::new(inner);
        Ok(Self { inner, has_messages: AtomicBool::new(false), asleep: AtomicBool::new(false), bell })
    }

    /// Tells the worker something.
    pub fn send(&self, message: M) {
        {
            let mut inner = self.lock();
            inner.messages.push(message);
            self.has_messages.store(true, Ordering::Release);
        }
        self.ring();
    }

    /// Moves what has arrived into the list. Costs next to nothing when that is nothing.
    pub fn take_messages(&self, messages: &mut Vec<M>) {
        if self.has_messages.load(Ordering::Acquire) {
            let mut inner = self.lock();
            self.has_messages.store(false, Ordering::Release);
            messages.append(&mut inner.messages);
        }
    }

    /// Moves those who have been woken into the list.
    pub fn take_woken(&self, woken: &mut Vec<Owner>) {
        woken.extend(self.lock().woken.drain(..).map(|waker| waker.take()));
    }

    /// Whether nothing has arrived; from then on whatever arrives rings, until [`Self::awake`].
    pub fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        // A sender locks after storing: either it is seen here, or it sees the flag.
        let inner = self.lock();
        inner.messages.is_empty() && inner.woken.is_empty()
    }

    /// The worker will look by itself.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn wake(&self, waker: Arc<OwnerWaker<M>>) {
        self.lock().woken.push(waker);
        self.ring();
    }

    fn ring(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It can only fail when the counter is full, and then the bell has rung.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<M>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> AsFd for Mailbox<M> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Wakes one owner of one worker: for what it awaits that is no socket of the reactor.
#[derive(Debug)]
pub struct OwnerWaker<M> {
    owner: Owner,
    /// It stands in the mailbox.
    queued: AtomicBool,
    mailbox: Arc<Mailbox<M>>,
}

impl<M: Send + 'static> OwnerWaker<M> {
    /// A waker of an owner.
    pub fn waker(owner: Owner, mailbox: Arc<Mailbox<M>>) -> Waker {
        Waker::from(Arc::new(Self { owner, queued: AtomicBool::new(false), mailbox }))
    }
}

impl<M> OwnerWaker<M> {
    /// Marks it as taken out of the mailbox; its owner is called afterwards. This is a swap, not a store: a waker
    /// that finds it queued does not queue it again, and the owner must see the writes before that wake.
    fn take(&self) -> Owner {
        self.queued.swap(false, Ordering::AcqRel);
        self.owner
    }
}

impl<M: Send + 'static> Wake for OwnerWaker<M> {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.mailbox.clone().wake(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.mailbox.wake(self.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reactor;
    use std::time::Duration;

    #[test]
    fn rings_only_for_who_sleeps() {
        let reactor = Reactor::new().unwrap();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        reactor.watch(mailbox.as_fd(), Owner(7)).unwrap();
        let (mut called, mut messages, mut woken) = (Vec::new(), Vec::new(), Vec::new());
        mailbox.send(1);
        assert_eq!(reactor.wait(Some(Duration::ZERO), &mut called).unwrap(), 0, "nobody sleeps");
        assert!(!mailbox.may_sleep(), "something has arrived");
        mailbox.take_messages(&mut messages);
        mailbox.take_woken(&mut woken);
        assert!(mailbox.may_sleep());
        let waker = OwnerWaker::waker(Owner(3), mailbox.clone());
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(reactor.wait(None, &mut called).unwrap(), 1);
        mailbox.awake();
        mailbox.take_messages(&mut messages);
        mailbox.take_woken(&mut woken);
        assert_eq!((messages, &woken, called), (vec![1], &vec![Owner(3)], vec![Owner(7)]), "once");
        waker.wake();
        mailbox.take_woken(&mut woken);
        assert_eq!(woken, [Owner(3); 2], "and again when it has been taken");
    }

    #[test]
    fn no_message_is_slept_over() {
        let reactor = Reactor::new().unwrap();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        reactor.watch(mailbox.as_fd(), Owner(0)).unwrap();
        let sender = mailbox.clone();
        let thread = std::thread::spawn(move || (0..20_000).for_each(|i| sender.send(i)));
        let (mut messages, mut woken) = (Vec::new(), Vec::new());
        while messages.len() < 20_000 {
            if mailbox.may_sleep() {
                let events = reactor.wait(Some(Duration::from_secs(10)), &mut Vec::new()).unwrap();
                assert!(events > 0, "slept over a message");
            }
            mailbox.awake();
            mailbox.take_messages(&mut messages);
            mailbox.take_woken(&mut woken);
        }
        thread.join().unwrap();
        assert!(messages.is_sorted());
    }
}
