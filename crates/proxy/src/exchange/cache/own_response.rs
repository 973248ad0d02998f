//! A response that was fetched for the store and is not for it: it goes to the client that has caused it.
//!
//! Between the exchange that fetches it and the client's there is a window of bytes; who fetches waits for the client.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use thalweg_cache::{NotStored, StoredHead};
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::{BodySource, Piece, ReplyBody};
use thalweg_store::Object;

/// Bytes that wait for the client at most. They stand in no budget: there is one of these for each exchange whose
/// client is slow to take what is not stored.
const WINDOW: usize = 32 * 1024;
/// What a piece takes beside its bytes.
const PIECE: usize = 64;

/// Its way to the client.
#[derive(Clone, Default)]
pub(crate) struct OwnResponse(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Interim responses that have come, as lines; bounded by how many there may be.
    interims: VecDeque<Vec<u8>>,
    given: Option<Given>,
    pieces: VecDeque<Arc<[u8]>>,
    held: usize,
    end: Option<Result<(), Fault>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    has_left: bool,
}

/// What the client gets.
pub(crate) enum Given {
    /// A response with its status, its fields as lines, the length of its body where that is known, and why it is not
    /// stored. Its body follows.
    Response { status: u16, lines: Vec<u8>, length: Option<u64>, not_stored: NotStored },
    /// A stored response with another head.
    Stored(Arc<StoredHead>, Arc<Object>),
}

/// A response as the client gets it.
pub(crate) struct Passed {
    pub(crate) status: u16,
    pub(crate) lines: Vec<u8>,
    pub(crate) body: ReplyBody,
    pub(crate) not_stored: NotStored,
}

/// What is there for the client.
pub(crate) enum Taken {
    Passed(Passed),
    Stored(Arc<StoredHead>, Arc<Object>),
}

impl OwnResponse {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's end.
    pub(crate) fn reader(&self) -> OwnReader {
        OwnReader { of: self.clone(), length: None }
    }

    /// Gives an interim response.
    pub(crate) fn inform(&self, lines: &[u8]) {
        let mut state = self.lock();
        if !state.has_left {
            state.interims.push_back(lines.into());
        }
        wake(state, |state| state.reader.take());
    }

    /// Gives the head, before anything else but interim responses.
    pub(crate) fn give(&self, given: Given) {
        let mut state = self.lock();
        state.given = Some(given);
        wake(state, |state| state.reader.take());
    }

    /// Adds bytes, and says how many; pending while too many wait.
    pub(crate) fn poll_push(&self, bytes: &[u8], context: &Context<'_>) -> Poll<usize> {
        let mut state = self.lock();
        if state.has_left {
            return Poll::Ready(bytes.len());
        }
        let room = WINDOW.saturating_sub(state.held);
        if room == 0 {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let taken = &bytes[..bytes.len().min(room)];
        state.held += taken.len() + PIECE;
        state.pieces.push_back(taken.into());
        wake(state, |state| state.reader.take());
        Poll::Ready(taken.len())
    }

    /// Nothing more comes.
    pub(crate) fn end(&self, outcome: Result<(), Fault>) {
        let mut state = self.lock();
        state.end.get_or_insert(outcome);
        wake(state, |state| state.reader.take());
    }

    /// Whether the client is there no more.
    pub(crate) fn has_left(&self) -> bool {
        self.lock().has_left
    }
}

/// Wakes after the lock.
fn wake(mut state: MutexGuard<'_, State>, who: impl FnOnce(&mut State) -> Option<Waker>) {
    let waker = who(&mut state);
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl fmt::Debug for OwnResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnResponse").finish_non_exhaustive()
    }
}

/// The client's end. When it is dropped, the client has left.
#[derive(Debug)]
pub(crate) struct OwnReader {
    of: OwnResponse,
    length: Option<u64>,
}

impl OwnReader {
    /// The next interim response; who asks is called when there is one.
    pub(crate) fn next_interim(&self, context: &Context<'_>) -> Option<Vec<u8>> {
        let mut state = self.of.lock();
        let next = state.interims.pop_front();
        if next.is_none() {
            state.reader = Some(context.waker().clone());
        }
        next
    }

    /// What is there for the client; `None`: nothing is.
    ///
    /// # Errors
    /// It has ended without a response: this is what the client is told.
    pub(crate) fn take(mut self) -> Result<Option<Taken>, Fault> {
        let (given, end) = {
            let mut state = self.of.lock();
            (state.given.take(), state.end)
        };
        let Some(given) = given else { return end.unwrap_or(Ok(())).map(|()| None) };
        Ok(Some(match given {
            Given::Stored(head, object) => Taken::Stored(head, object),
            Given::Response { status, lines, length, not_stored } => {
                self.length = length;
                let body =
                    if length == Some(0) { ReplyBody::Empty } else { ReplyBody::Source(Box::new(self)) };
                Taken::Passed(Passed { status, lines, body, not_stored })
            }
        }))
    }
}

impl Drop for OwnReader {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state.has_left = true;
        (state.pieces, state.held) = (VecDeque::new(), 0);
        wake(state, |state| state.writer.take());
    }
}

impl BodySource for OwnReader {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Piece>, Fault>> {
        let mut state = self.of.lock();
        if let Some(bytes) = state.pieces.pop_front() {
            state.held -= bytes.len() + PIECE;
            let writer = if state.held < WINDOW / 2 { state.writer.take() } else { None };
            drop(state);
            if let Some(writer) = writer {
                writer.wake();
            }
            let range = 0..bytes.len();
            return Poll::Ready(Ok(Some(Piece { bytes, range })));
        }
        match state.end {
            Some(Ok(())) => Poll::Ready(Ok(None)),
            Some(Err(fault)) => {
                let fault = if fault.kind == FaultKind::ClientGone { broken_off() } else { fault };
                Poll::Ready(Err(fault))
            }
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn broken_off() -> Fault {
    Fault::new(FaultKind::HttpResponseIncomplete, "the endpoint's response broke off")
}
