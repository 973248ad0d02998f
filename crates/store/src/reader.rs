//! The reading end of a fill.

use crate::body::Piece;
use crate::fill::{End, Fill, Head, State};
use crate::object::Object;
use crate::spill::{Spill, SpillRead};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use thalweg_cache::{NotStored, StoredHead};
use thalweg_core::Fault;

/// The head of a response that is being received.
#[derive(Clone, Debug)]
pub struct Given {
    /// It.
    pub head: Arc<StoredHead>,
    /// What its `Vary` makes of the request that caused it. A request of which it makes something else goes alone.
    pub variant: Arc<[u8]>,
    /// The length of the body, where it is known.
    pub length: Option<u64>,
}

/// What a reader gets in answer.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A response that is being received.
    Response(Given),
    /// A stored response, which was freshened or is used although it is stale.
    Object(Arc<Object>),
    /// Nothing: it fetches the response for itself.
    Alone(Alone),
}

/// Why one who waited goes alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Alone {
    /// The response is not stored.
    NotStored(NotStored),
    /// It is too large to be stored.
    TooLarge,
    /// There is no response, and asking again would bring none: this is what the client is told.
    Failed(Fault),
    /// It broke off before it began.
    Broken(Broken),
}

/// Why the rest of a response will not come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Broken {
    /// The leader was dropped.
    LeaderGone,
    /// The service, or the way to it, failed.
    Failed,
    /// The body has not the length that was declared.
    Length,
    /// The bytes at this position were let go of: the response is not stored, and all readers had read them.
    Behind,
    /// What had been written to the second tier cannot be read there.
    Damaged,
}

/// What a reader finds at its position.
enum Found {
    Piece(Piece),
    /// It was let go of here, and can be read there up to this byte.
    Spilled(Arc<dyn Spill>, u64),
    End,
}

/// The reading end of a fill, with a position of its own. Dropping it is how a reader goes.
#[derive(Debug)]
pub struct Reader {
    fill: Arc<Fill>,
    place: u32,
    position: u64,
    /// Bytes at its position that are read from a second tier.
    spilled: Option<Box<dyn SpillRead>>,
}

impl Reader {
    /// At the front of a fill; `None` where there is no place.
    pub(crate) fn new(fill: Arc<Fill>) -> Option<Self> {
        let place = fill.join()?;
        Some(Self { fill, place, position: 0, spilled: None })
    }

    /// Another reader at the same position; `None` where there is no place.
    pub fn another(&self) -> Option<Self> {
        let mut other = Self::new(self.fill.clone())?;
        other.seek(self.position);
        Some(other)
    }

    /// The next byte that it reads.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on at this byte, which may not be there yet.
    pub fn seek(&mut self, position: u64) {
        (self.position, self.spilled) = (position, None);
        self.fill.change(|state, wakers| state.advance(self.place, position, wakers));
    }

    /// Readers of this fill.
    pub fn readers(&self) -> usize {
        self.fill.change(|state, _| state.readers())
    }

    /// Waits for the head; cancel-safe.
    pub fn poll_head(&mut self, context: &Context<'_>) -> Poll<Seen> {
        self.poll(context, |state, _| {
            let seen = match (&state.head, state.end) {
                (Head::Alone(why), _) => Seen::Alone(*why),
                (Head::Object(object), _) => Seen::Object(object.clone()),
                (_, End::Broken(why)) => Seen::Alone(Alone::Broken(why)),
                (Head::Given(given), _) => Seen::Response(given.clone()),
                (Head::Waiting, _) => return Poll::Pending,
            };
            Poll::Ready(seen)
        })
    }

    /// Waits for bytes at its position and goes behind them; `None`: the body is complete. Cancel-safe.
    ///
    /// # Errors
    /// The body breaks off here. What was read before is not a complete response.
    pub fn poll_piece(&mut self, context: &Context<'_>) -> Poll<Result<Option<Piece>, Broken>> {
        loop {
            if let Some(spilled) = &mut self.spilled {
                match ready!(spilled.poll_piece(context))? {
                    Some(piece) => {
                        self.position += piece.len() as u64;
                        let (at, place) = (self.position, self.place);
                        self.fill.change(|state, wakers| state.advance(place, at, wakers));
                        return Poll::Ready(Ok(Some(piece)));
                    }
                    None => self.spilled = None,
                }
            }
            match ready!(self.poll_found(context))? {
                Found::Piece(piece) => {
                    self.position += piece.len() as u64;
                    return Poll::Ready(Ok(Some(piece)));
                }
                Found::Spilled(to, upto) => {
                    self.spilled = Some(to.read(self.position, upto).ok_or(Broken::Behind)?);
                }
                Found::End => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// What there is at its position, in memory or elsewhere.
    fn poll_found(&mut self, context: &Context<'_>) -> Poll<Result<Found, Broken>> {
        let (at, place) = (self.position, self.place);
        self.poll(context, |state, wakers| {
            if let Some(piece) = state.piece(at) {
                state.advance(place, at + piece.len() as u64, wakers);
                return Poll::Ready(Ok(Found::Piece(piece)));
            }
            if let Some((to, upto)) = state.spilled(at) {
                return Poll::Ready(Ok(Found::Spilled(to, upto)));
            }
            match state.end {
                End::Broken(why) => Poll::Ready(Err(why)),
                _ if state.is_behind(at) => Poll::Ready(Err(Broken::Behind)),
                End::Complete => Poll::Ready(Ok(Found::End)),
                End::Open => Poll::Pending,
            }
        })
    }

    /// Looks, and registers where nothing is there yet, under one lock.
    fn poll<T>(
        &mut self,
        context: &Context<'_>,
        look: impl FnOnce(&mut State, &mut Vec<Waker>) -> Poll<T>,
    ) -> Poll<T> {
        let (polled, old) = self.fill.change(|state, wakers| {
            let polled = look(state, wakers);
            let old = if polled.is_pending() { state.wait(self.place, context) } else { None };
            (polled, old)
        });
        drop(old);
        polled
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.fill.leave(self.place);
    }
}
