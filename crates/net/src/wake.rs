//! Wake-ups that do not come from a socket of the reactor: channels, tokio sockets, other threads.
//!
//! A seat that awaits such a thing leaves a [`SeatWaker`] there. Waking puts the seat's number into
//! the worker's queue and wakes the worker's loop. Nothing on the HTTP/1 path uses it.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Seats to be polled, filled from any thread.
#[derive(Debug, Default)]
pub struct WakeQueue {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    seats: Vec<u32>,
    worker: Option<Waker>,
}

impl WakeQueue {
    /// Moves the woken seats into `seats` and remembers whom to wake for the next one.
    pub fn take(&self, seats: &mut Vec<u32>, worker: &Waker) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        seats.append(&mut inner.seats);
        if !inner.worker.as_ref().is_some_and(|known| known.will_wake(worker)) {
            inner.worker = Some(worker.clone());
        }
    }

    /// Moves the woken seats into `seats`.
    pub fn drain(&self, seats: &mut Vec<u32>) {
        seats.append(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner).seats);
    }

    fn push(&self, seat: u32) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.seats.contains(&seat) {
            inner.seats.push(seat);
        }
        let worker = inner.worker.clone();
        drop(inner);
        if let Some(worker) = worker {
            worker.wake();
        }
    }
}

/// Wakes one seat of one worker.
#[derive(Debug)]
pub struct SeatWaker {
    seat: u32,
    queue: Arc<WakeQueue>,
}

impl SeatWaker {
    /// The waker of a seat; made once per seat.
    pub fn waker(seat: u32, queue: Arc<WakeQueue>) -> Waker {
        Waker::from(Arc::new(Self { seat, queue }))
    }
}

impl Wake for SeatWaker {
    fn wake(self: Arc<Self>) {
        self.queue.push(self.seat);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.seat);
    }
}
