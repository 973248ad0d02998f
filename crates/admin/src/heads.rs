//! Connections of a listener that wait for the head of a request, the longest wait first.
//!
//! `server` wraps every connection with it. When the connection limit is reached, the connection that has waited
//! longest is closed for the next one, so slow or incomplete heads cannot exhaust the limit. A connection whose
//! request is being answered does not wait, and is never closed for this reason.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// The waiting connections of one listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// The number of the next wait.
    next: u64,
    /// The close signal of each waiting connection, by number.
    all: BTreeMap<u64, Arc<Notify>>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Head {
    heads: Heads,
    /// The number of its wait, while it waits.
    at: Mutex<Option<u64>>,
    called_off: Arc<Notify>,
}

impl Heads {
    /// A connection that waits from now on.
    pub(crate) fn connect(&self) -> Arc<Head> {
        let (at, called_off) = (Mutex::default(), Arc::default());
        let head = Arc::new(Head { heads: self.clone(), at, called_off });
        head.wait();
        head
    }

    /// Signals the connection that has waited longest, if one waits, to close.
    pub(crate) fn call_off_longest(&self) {
        if let Some((_, longest)) = self.lock().all.pop_first() {
            longest.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Head {
    /// The connection waits for the next head.
    fn wait(&self) {
        let mut waiting = self.heads.lock();
        waiting.next += 1;
        let at = waiting.next;
        waiting.all.insert(at, Arc::clone(&self.called_off));
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

    /// Waits for the signal to close. Cancel-safe.
    pub(crate) async fn called_off(&self) {
        self.called_off.notified().await;
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
        Pin::new(&mut self.body).poll_frame(context)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
