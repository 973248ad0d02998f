//! Seats: where exchanges run.
//!
//! A seat is a future that lives as long as the worker needs it. It waits for a client connection
//! with something to read, holds the conversation until the client falls silent, gives the
//! connection back to be parked and waits for the next. So an exchange costs no spawn and no
//! allocation, its code is plain `async`, and a connection that says nothing holds no seat.
//!
//! A panic ends the seat's future and with it the one exchange it served; the seat gets a new one.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thalweg_net::prefetch;

/// Vacant seats kept beyond those in use.
const SPARE: usize = 64;

pub(crate) type SeatFuture = Pin<Box<dyn Future<Output = ()>>>;

/// One seat: what waits to be served in it, and its future while nobody polls it.
pub(crate) struct Seat<T> {
    mailbox: Cell<Option<T>>,
    future: Cell<Option<SeatFuture>>,
    waker: Waker,
    /// The connection of HTTP/2 whose stream is served in it.
    session: Cell<Option<u32>>,
}

impl<T> Seat<T> {
    /// The next thing to serve. Cancel-safe.
    pub(crate) async fn next(&self) -> T {
        std::future::poll_fn(|_| self.mailbox.take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// All seats of a worker.
pub(crate) struct Seats<T> {
    seats: RefCell<Vec<Rc<Seat<T>>>>,
    vacant: RefCell<Vec<u32>>,
    /// Makes the waker of a seat, for what is no socket of the reactor.
    waker: Box<dyn Fn(u32) -> Waker>,
}

impl<T> Seats<T> {
    pub(crate) fn new(waker: impl Fn(u32) -> Waker + 'static) -> Self {
        Self { seats: RefCell::default(), vacant: RefCell::default(), waker: Box::new(waker) }
    }

    /// Puts `guest`, a stream of `session` or a connection of its own, into a vacant seat and says which; the caller polls it.
    /// `staff` makes a seat's future and is called only when there is none.
    pub(crate) fn occupy(
        &self,
        guest: T,
        session: Option<u32>,
        staff: impl FnOnce(u32, Rc<Seat<T>>) -> SeatFuture,
    ) -> u32 {
        let index = self.vacant.borrow_mut().pop().unwrap_or_else(|| self.add());
        let seat = self.seats.borrow()[index as usize].clone();
        let future = seat.future.take().unwrap_or_else(|| staff(index, seat.clone()));
        seat.future.set(Some(future));
        seat.mailbox.set(Some(guest));
        seat.session.set(session);
        index
    }

    /// The connection of HTTP/2 whose stream a seat serves.
    pub(crate) fn session(&self, index: u32) -> Option<u32> {
        self.seats.borrow().get(index as usize)?.session.get()
    }

    /// The seat's conversation is over.
    pub(crate) fn vacate(&self, index: u32) {
        self.vacant.borrow_mut().push(index);
    }

    /// Polls a seat once. An error means that it panicked; its exchange is gone and the seat vacant.
    pub(crate) fn poll(&self, index: u32) -> Result<(), ()> {
        let Some(seat) = self.seats.borrow().get(index as usize).cloned() else { return Ok(()) };
        let Some(mut future) = seat.future.take() else { return Ok(()) };
        let mut context = Context::from_waker(&seat.waker);
        // What a panic may leave half-done lives in the future and goes with it.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(_) => {
                seat.future.set(Some(future));
                Ok(())
            }
            Err(_) => {
                // Dropping what panicked may panic again; that must not end the worker either.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                self.vacate(index);
                Err(())
            }
        }
    }

    /// Asks for the memory of a seat that is polled soon: first for what leads to its future.
    pub(crate) fn expect_soon(&self, index: u32) {
        if let Some(seat) = self.seats.borrow().get(index as usize) {
            prefetch(&**seat);
        }
    }

    /// Asks for the memory of a seat that is polled next: its future.
    pub(crate) fn expect_next(&self, index: u32) {
        if let Some(seat) = self.seats.borrow().get(index as usize) {
            let future = seat.future.take();
            if let Some(future) = &future {
                prefetch(&**future);
            }
            seat.future.set(future);
        }
    }

    /// Seats, vacant ones too.
    pub(crate) fn len(&self) -> u32 {
        self.seats.borrow().len() as u32
    }

    /// Seats in use.
    pub(crate) fn occupied(&self) -> usize {
        self.seats.borrow().len() - self.vacant.borrow().len()
    }

    /// Gives the memory of vacant seats back, but for a few. They are staffed again when needed.
    pub(crate) fn trim(&self) {
        let vacant = self.vacant.borrow();
        let seats = self.seats.borrow();
        for index in &vacant[..vacant.len().saturating_sub(SPARE)] {
            drop(seats[*index as usize].future.take());
        }
    }

    fn add(&self) -> u32 {
        let mut seats = self.seats.borrow_mut();
        let index = seats.len() as u32;
        let waker = (self.waker)(index);
        seats.push(Rc::new(Seat {
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

    fn staff(log: Log, seats: Rc<Seats<u32>>) -> impl FnOnce(u32, Rc<Seat<u32>>) -> SeatFuture {
        move |index, seat| {
            Box::pin(async move {
                loop {
                    let guest = seat.next().await;
                    assert!(guest != 13, "an unlucky guest");
                    log.borrow_mut().push(guest);
                    seats.vacate(index);
                }
            })
        }
    }

    #[test]
    fn a_seat_serves_one_guest_after_the_other() {
        let (log, seats) = (Log::default(), Rc::new(Seats::new(|_| Waker::noop().clone())));
        for guest in [1, 2, 3] {
            let index = seats.occupy(guest, None, staff(log.clone(), seats.clone()));
            assert_eq!((index, seats.occupied()), (0, 1));
            seats.poll(index).unwrap();
            assert_eq!(seats.occupied(), 0);
        }
        assert_eq!(*log.borrow(), [1, 2, 3]);
    }

    #[test]
    fn a_panic_costs_the_guest_and_not_the_seat() {
        let (log, seats) = (Log::default(), Rc::new(Seats::new(|_| Waker::noop().clone())));
        for (guest, outcome) in [(1, Ok(())), (13, Err(())), (2, Ok(()))] {
            let index = seats.occupy(guest, None, staff(log.clone(), seats.clone()));
            assert_eq!(seats.poll(index), outcome);
            assert_eq!(seats.occupied(), 0);
        }
        assert_eq!(*log.borrow(), [1, 2]);
    }

    #[test]
    fn trimming_leaves_seats_usable() {
        let (log, seats) = (Log::default(), Rc::new(Seats::new(|_| Waker::noop().clone())));
        let all: Vec<_> =
            (100..300).map(|g| seats.occupy(g, None, staff(log.clone(), seats.clone()))).collect();
        all.iter().for_each(|index| seats.poll(*index).unwrap());
        seats.trim();
        let index = seats.occupy(1000, None, staff(log.clone(), seats.clone()));
        seats.poll(index).unwrap();
        assert_eq!(log.borrow().len(), 201);
    }
}
