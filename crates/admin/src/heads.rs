//! Connections of a listener that wait for the head of a request, the longest wait first.
//!
//! `server` wraps every connection with it. When the connection limit is reached, the connection that has waited
//! longest is closed for the next one, so slow or incomplete heads cannot exhaust the limit. A connection whose
//! request is being answered does not wait, and is never closed for this reason.
//!
//! An answer whose last byte is handed to the connection may be unread: a client may ask for the metrics on each of its
//! connections and read none of them. Invariant: answers that wait to be read have at most [`UNREAD`] bytes in all, and
//! one more answer: none is made while a connection that was closed for this reason has not let its bytes go.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// Most bytes of unread answers of a listener. Beyond, the connection that has waited longest with one is closed.
const UNREAD: usize = 64 * 1024 * 1024;

/// The waiting connections of one listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Bytes of a connection that was called off are gone.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The number of the next wait.
    next: u64,
    /// Each waiting connection, by number.
    all: BTreeMap<u64, Arc<Signal>>,
    /// Bytes of unread answers of all connections that were not called off.
    unread: usize,
    /// The same of those that were, and are not closed yet.
    dying: usize,
}

/// The state of a connection that other tasks read, and the signal by which they end it.
#[derive(Debug, Default)]
struct Signal {
    called_off: Notify,
    /// Bytes of its unread answers. This and the next one change only while the list is locked.
    unread: AtomicUsize,
    is_called_off: AtomicBool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Head {
    heads: Heads,
    /// The number of its wait, while it waits.
    at: Mutex<Option<u64>>,
    signal: Arc<Signal>,
}

impl Heads {
    /// A connection that waits from now on.
    pub(crate) fn connect(&self) -> Arc<Head> {
        let (at, signal) = (Mutex::default(), Arc::default());
        let head = Arc::new(Head { heads: self.clone(), at, signal });
        head.wait();
        head
    }

    /// Signals the connection that has waited longest, if one waits, to close.
    pub(crate) fn call_off_longest(&self) {
        let mut waiting = self.lock();
        if let Some(longest) = waiting.all.first_key_value().map(|(at, _)| *at) {
            waiting.call_off(longest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn call_off(&mut self, at: u64) {
        if let Some(signal) = self.all.remove(&at) {
            let bytes = signal.unread.load(Relaxed);
            self.unread -= bytes;
            self.dying += bytes;
            signal.is_called_off.store(true, Relaxed);
            signal.called_off.notify_one();
        }
    }

    /// Bytes of an answer will be read by a client.
    fn hold(&mut self, signal: &Signal, bytes: usize) {
        signal.unread.fetch_add(bytes, Relaxed);
        *self.sum_of(signal) += bytes;
        while self.unread > UNREAD {
            let mut holders = self.all.iter().filter(|(_, signal)| signal.unread.load(Relaxed) > 0);
            let Some(longest) = holders.next().map(|(at, _)| *at) else { break };
            self.call_off(longest);
        }
    }

    /// They were read, or their connection is gone.
    fn let_go(&mut self, signal: &Signal, bytes: usize) {
        signal.unread.fetch_sub(bytes, Relaxed);
        *self.sum_of(signal) -= bytes;
    }

    fn sum_of(&mut self, signal: &Signal) -> &mut usize {
        if signal.is_called_off.load(Relaxed) { &mut self.dying } else { &mut self.unread }
    }
}

impl Head {
    /// The connection waits for the next head.
    fn wait(&self) {
        let mut waiting = self.heads.lock();
        waiting.next += 1;
        let at = waiting.next;
        waiting.all.insert(at, Arc::clone(&self.signal));
        let before = self.at.lock().unwrap_or_else(PoisonError::into_inner).replace(at);
        if let Some(before) = before {
            waiting.all.remove(&before);
        }
    }

    /// The head has arrived.
    pub(crate) fn end_wait(&self) {
        let mut waiting = self.heads.lock();
        if let Some(at) = self.at.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waiting.all.remove(&at);
        }
    }

    /// Waits until connections that were called off have let their bytes go. Cancel-safe.
    pub(crate) async fn room(&self) {
        loop {
            let mut freed = pin!(self.heads.0.freed.notified());
            freed.as_mut().enable();
            if self.heads.lock().dying == 0 {
                return;
            }
            freed.await;
        }
    }

    /// Waits for the signal to close. Cancel-safe.
    pub(crate) async fn called_off(&self) {
        self.signal.called_off.notified().await;
    }

    /// Wraps an answer: after its last byte the connection waits for a head again.
    pub(crate) fn answer(self: &Arc<Self>, answer: Response) -> Response {
        let head = Arc::clone(self);
        answer.map(|body| Body::new(Answered { body, head }))
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.end_wait();
    }
}

/// The body of an answer.
struct Answered {
    body: Body,
    head: Arc<Head>,
}

impl hyper::body::Body for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let head = &self.head;
        polled.map_ok(|frame| frame.map_data(|bytes| Unread::count(bytes, head)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.head.wait();
    }
}

/// Bytes of an answer that were handed to the connection, until it has written them.
struct Unread {
    bytes: Bytes,
    head: Arc<Head>,
}

impl Unread {
    fn count(bytes: Bytes, head: &Arc<Head>) -> Bytes {
        head.heads.lock().hold(&head.signal, bytes.len());
        Bytes::from_owner(Self { bytes, head: Arc::clone(head) })
    }
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.head.heads.lock().let_go(&self.head.signal, self.bytes.len());
        self.head.heads.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Body as _;

    fn is_called_off(head: &Head) -> bool {
        let mut called_off = std::pin::pin!(head.called_off());
        called_off.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn the_connection_that_has_waited_longest_is_called_off_and_none_that_is_answered() {
        let heads = Heads::default();
        let [first, second, third] = [(); 3].map(|()| heads.connect());
        first.end_wait();
        heads.call_off_longest();
        assert_eq!([&first, &second, &third].map(|head| is_called_off(head)), [false, true, false]);
        drop(first.answer(Response::new(Body::empty())));
        heads.call_off_longest();
        assert_eq!([&first, &third].map(|head| is_called_off(head)), [false, true], "the first waits anew");
        heads.call_off_longest();
        assert!(is_called_off(&first));
        drop(third);
        heads.call_off_longest();
        assert!(heads.lock().all.is_empty());
    }

    /// An answer of so many bytes that the connection holds and the client does not read.
    fn unread(head: &Arc<Head>, bytes: usize) -> Bytes {
        head.end_wait();
        let answer = head.answer(Response::new(Body::from(vec![0_u8; bytes])));
        let mut body = answer.into_body();
        let polled = Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        let Poll::Ready(Some(Ok(frame))) = polled else { panic!("{polled:?}") };
        frame.into_data().unwrap()
    }

    /// Each of 256 connections held an answer that its client did not read, of some megabytes for thousands of routes.
    #[test]
    fn unread_answers_are_bounded_and_the_longest_unread_gives_way() {
        let heads = Heads::default();
        let idle = heads.connect();
        let readers: Vec<_> = (0..5).map(|_| heads.connect()).collect();
        let held: Vec<_> = readers.iter().map(|head| unread(head, UNREAD / 4)).collect();
        let sum = || heads.lock().unread;
        let has_room = || {
            let mut room = pin!(idle.room());
            room.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        let called_off: Vec<_> = readers.iter().map(|head| is_called_off(head)).collect();
        assert_eq!((called_off, sum()), (vec![true, false, false, false, false], UNREAD));
        assert!(!is_called_off(&idle), "it holds nothing");
        assert!(!has_room(), "no answer is made before the one called off is gone");
        drop(held);
        assert!(has_room());
        assert_eq!(sum(), 0);
        let large = unread(&readers[1], 2 * UNREAD);
        assert!(!is_called_off(&readers[1]), "one answer may be larger than the bound");
        let next = unread(&readers[2], 1);
        assert_eq!((is_called_off(&readers[1]), sum()), (true, 1));
        drop((large, next));
        assert_eq!(sum(), 0);
    }
}
