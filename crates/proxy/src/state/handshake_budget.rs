//! HandshakeBudget take their turns: other exchanges of a worker do not wait for many of them in a row.
//!
//! One costs 0.2 ms of CPU (ECDSA) to several (RSA). A worker spends about [`SHARE`] of each turn on them, at least one
//! step; the rest goes on in the next turn. So many at a time as [`UNDER_WAY`] have a session. A further one takes the
//! place of the one that has been under way longest: who says hello and then nothing more keeps nobody out.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use thalweg_net::{Reactor, SocketId};

/// CPU time of a turn after which no further step of a handshake is begun in it.
const SHARE: Duration = Duration::from_millis(1);
/// HandshakeBudget of a worker at a time.
const UNDER_WAY: usize = 1024;

/// The handshakes of a worker.
#[derive(Debug, Default)]
pub(crate) struct HandshakeBudget {
    spent: Cell<Duration>,
    next: Cell<u64>,
    /// Steps that have been put off to a later turn.
    put_off: Cell<usize>,
    /// In the order in which they began.
    under_way: RefCell<VecDeque<Begun>>,
}

#[derive(Debug)]
struct Begun {
    number: u64,
    socket: SocketId,
    waker: Waker,
}

/// A handshake that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    handshakes: &'a HandshakeBudget,
    number: u64,
}

impl HandshakeBudget {
    /// A turn of the worker begins.
    pub(crate) fn begin_turn(&self) {
        self.spent.set(Duration::ZERO);
    }

    /// Begins one; where there are too many the deadline of the oldest one passes now.
    pub(crate) async fn enter(&self, reactor: &Reactor, socket: SocketId) -> UnderWay<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let mut under_way = self.under_way.borrow_mut();
        under_way.push_back(Begun { number, socket, waker });
        if under_way.len() > UNDER_WAY
            && let Some(oldest) = under_way.pop_front()
        {
            reactor.expire_now(oldest.socket);
            oldest.waker.wake();
        }
        UnderWay { handshakes: self, number }
    }

    /// Waits until this turn, or a later one, has time left, behind those who wait already.
    pub(crate) async fn take_turn(&self) {
        let mut waits = None;
        poll_fn(|context| {
            let is_due = waits.is_some() || self.put_off.get() == 0;
            if is_due && self.spent.get() < SHARE {
                return Poll::Ready(());
            }
            waits.get_or_insert_with(|| PutOff::new(&self.put_off));
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Does a step, on this turn's account.
    pub(crate) fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = step();
        self.spent.set(self.spent.get() + begin.elapsed());
        done
    }
}

/// Counted while it waits.
struct PutOff<'a>(&'a Cell<usize>);

impl<'a> PutOff<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for PutOff<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl UnderWay<'_> {
    /// Whether another one has its place.
    pub(crate) fn is_replaced(&self) -> bool {
        self.place().is_err()
    }

    fn place(&self) -> Result<usize, usize> {
        self.handshakes.under_way.borrow().binary_search_by_key(&self.number, |begun| begun.number)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Ok(place) = self.place() {
            self.handshakes.under_way.borrow_mut().remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    fn is_ready<F: Future>(future: F) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn be_busy() {
        let begin = Instant::now();
        while begin.elapsed() <= SHARE {}
    }

    #[test]
    fn a_turn_has_its_share_and_at_least_one_step() {
        let handshakes = HandshakeBudget::default();
        assert!(is_ready(handshakes.take_turn()));
        handshakes.step(be_busy);
        assert!(!is_ready(handshakes.take_turn()));
        handshakes.begin_turn();
        assert!(is_ready(handshakes.take_turn()));
    }

    #[test]
    fn newcomers_stand_behind_those_who_wait() {
        let handshakes = HandshakeBudget::default();
        handshakes.step(be_busy);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut first = pin!(handshakes.take_turn());
            assert!(first.as_mut().poll(&mut context).is_pending());
            handshakes.begin_turn();
            assert!(!is_ready(handshakes.take_turn()));
            assert!(first.as_mut().poll(&mut context).is_ready());
        }
        assert!(is_ready(handshakes.take_turn()));
    }

    #[test]
    fn a_further_one_takes_the_place_of_the_oldest() {
        let (handshakes, reactor) = (HandshakeBudget::default(), Reactor::new().unwrap());
        let enter = || match pin!(handshakes.enter(&reactor, SocketId::default()))
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(begun) => begun,
            Poll::Pending => panic!("nobody waits"),
        };
        let first = enter();
        let mut others: Vec<_> = (1..UNDER_WAY).map(|_| enter()).collect();
        assert!(!first.is_replaced());
        others.swap_remove(7);
        others.push(enter());
        assert!(!first.is_replaced(), "one had ended");
        others.push(enter());
        assert!(first.is_replaced() && others.iter().all(|other| !other.is_replaced()));
        drop(first);
        drop(others);
        assert!(handshakes.under_way.borrow().is_empty());
    }
}
