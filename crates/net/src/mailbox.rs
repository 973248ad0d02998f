//! What other threads tell a worker, and wake-ups that do not come from a socket of its reactor.
//!
//! The worker looks into its mailbox once per turn. A sender rings the bell (an eventfd that the
//! reactor watches) only when the worker is about to sleep or asleep, so that telling a busy worker
//! something costs no system call. Nothing on the path of an exchange uses it.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Messages and woken seats of one worker, filled from any thread.
#[derive(Debug)]
pub struct Mailbox<M> {
    inner: Mutex<Inner<M>>,
    asleep: AtomicBool,
    bell: OwnedFd,
}

#[derive(Debug)]
struct Inner<M> {
    messages: Vec<M>,
    seats: Vec<u32>,
}

impl<M> Mailbox<M> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inner = Inner { messages: Vec::new(), seats: Vec::new() };
        Ok(Self { inner: Mutex::new(inner), asleep: AtomicBool::new(false), bell })
    }

    /// Tells the worker something.
    pub fn send(&self, message: M) {
        self.lock().messages.push(message);
        self.ring();
    }

    /// Moves what has arrived into the lists.
    pub fn take(&self, messages: &mut Vec<M>, seats: &mut Vec<u32>) {
        let mut inner = self.lock();
        messages.append(&mut inner.messages);
        seats.append(&mut inner.seats);
    }

    /// Whether nothing has arrived; from then on whatever arrives rings, until [`Self::awake`].
    pub fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        // A sender locks after storing: either it is seen here, or it sees the flag.
        let inner = self.lock();
        inner.messages.is_empty() && inner.seats.is_empty()
    }

    /// The worker will look by itself.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn wake_seat(&self, seat: u32) {
        let mut inner = self.lock();
        if !inner.seats.contains(&seat) {
            inner.seats.push(seat);
        }
        drop(inner);
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

/// Wakes one seat of one worker: for what a seat awaits that is no socket of the reactor.
#[derive(Debug)]
pub struct SeatWaker<M> {
    seat: u32,
    mailbox: Arc<Mailbox<M>>,
}

impl<M: Send + 'static> SeatWaker<M> {
    /// The waker of a seat; made once per seat.
    pub fn waker(seat: u32, mailbox: Arc<Mailbox<M>>) -> Waker {
        Waker::from(Arc::new(Self { seat, mailbox }))
    }
}

impl<M: Send + 'static> Wake for SeatWaker<M> {
    fn wake(self: Arc<Self>) {
        self.mailbox.wake_seat(self.seat);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.wake_seat(self.seat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, Reactor};
    use std::time::Duration;

    #[test]
    fn rings_only_for_who_sleeps() {
        let reactor = Reactor::new().unwrap();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        reactor.watch(mailbox.as_fd(), Owner(7)).unwrap();
        let (mut called, mut messages, mut seats) = (Vec::new(), Vec::new(), Vec::new());
        mailbox.send(1);
        assert_eq!(reactor.wait(Some(Duration::ZERO), &mut called).unwrap(), 0, "nobody sleeps");
        assert!(!mailbox.may_sleep(), "something has arrived");
        mailbox.take(&mut messages, &mut seats);
        assert!(mailbox.may_sleep());
        SeatWaker::waker(3, mailbox.clone()).wake_by_ref();
        SeatWaker::waker(3, mailbox.clone()).wake_by_ref();
        assert_eq!(reactor.wait(None, &mut called).unwrap(), 1);
        mailbox.awake();
        mailbox.take(&mut messages, &mut seats);
        assert_eq!((messages, seats, called), (vec![1], vec![3], vec![Owner(7)]));
    }

    #[test]
    fn no_message_is_slept_over() {
        let reactor = Reactor::new().unwrap();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        reactor.watch(mailbox.as_fd(), Owner(0)).unwrap();
        let sender = mailbox.clone();
        let thread = std::thread::spawn(move || (0..20_000).for_each(|i| sender.send(i)));
        let (mut messages, mut seats) = (Vec::new(), Vec::new());
        while messages.len() < 20_000 {
            if mailbox.may_sleep() {
                let events = reactor.wait(Some(Duration::from_secs(10)), &mut Vec::new()).unwrap();
                assert!(events > 0, "slept over a message");
            }
            mailbox.awake();
            mailbox.take(&mut messages, &mut seats);
        }
        thread.join().unwrap();
        assert!(messages.is_sorted());
    }
}
