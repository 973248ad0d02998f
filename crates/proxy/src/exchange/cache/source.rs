//! Bodies of responses that come from the store.

use crate::exchange::cache::disk::StreamPlace;
use std::ops::Range;
use std::task::{Context, Poll, ready};
use thalweg_core::{Fault, FaultKind};
use thalweg_disk::{Damaged, Load};
use thalweg_filter::{BodySource, Piece, ReplyBody};
use thalweg_store::{Body, Broken, Reader};

/// Bytes of a stored body.
pub(crate) fn of_stored(body: &Body, range: Range<u64>) -> ReplyBody {
    match body.chunks() {
        _ if range.is_empty() => ReplyBody::Empty,
        [only] if range == (0..body.len()) => ReplyBody::Bytes(only.clone()),
        _ => ReplyBody::Source(Box::new(StoredBody { body: body.clone(), left: range })),
    }
}

#[derive(Debug)]
struct StoredBody {
    body: Body,
    left: Range<u64>,
}

impl BodySource for StoredBody {
    fn length(&self) -> Option<u64> {
        Some(self.left.end - self.left.start)
    }

    fn poll_piece(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<Piece>, Fault>> {
        let found = self.body.piece(self.left.start).filter(|_| !self.left.is_empty());
        Poll::Ready(Ok(found.map(|piece| take(piece, &mut self.left))))
    }

    fn small_piece(&mut self, most: usize) -> Option<Piece> {
        let left = self.left.end - self.left.start;
        let piece = self.body.piece(self.left.start).filter(|_| left > 0)?;
        (left.min(piece.len() as u64) <= most as u64).then(|| take(piece, &mut self.left))
    }
}

/// Bytes of a body on the disk.
pub(crate) fn of_disk((mut load, place): (Load, StreamPlace), range: Range<u64>) -> ReplyBody {
    if range.is_empty() {
        return ReplyBody::Empty;
    }
    if range.start > 0 {
        load.seek(range.start);
    }
    ReplyBody::Source(Box::new(DiskBody { load, _place: place, left: range }))
}

#[derive(Debug)]
struct DiskBody {
    load: Load,
    _place: StreamPlace,
    left: Range<u64>,
}

impl BodySource for DiskBody {
    fn length(&self) -> Option<u64> {
        Some(self.left.end - self.left.start)
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Piece>, Fault>> {
        if self.left.is_empty() {
            return Poll::Ready(Ok(None));
        }
        let found = ready!(self.load.poll_piece(context)).map_err(|Damaged| {
            Fault::new(
                FaultKind::HttpResponseIncomplete,
                "the response that is stored on the disk is damaged",
            )
        })?;
        Poll::Ready(Ok(found.map(|piece| take(piece, &mut self.left))))
    }
}

/// Where more clients than these get one body that is being received, all of their heads go out before any of its
/// bytes: the last of them would wait for the bytes of all others.
const CROWD: usize = 16;

/// Bytes of a body that is being received; without an end all that come.
pub(crate) fn of_fill(mut reader: Reader, length: Option<u64>, range: Option<Range<u64>>) -> ReplyBody {
    let range = range.unwrap_or(0..length.unwrap_or(u64::MAX));
    if range.is_empty() {
        return ReplyBody::Empty;
    }
    if range.start > 0 {
        reader.seek(range.start);
    }
    let gives_way = reader.readers() > CROWD;
    ReplyBody::Source(Box::new(GrowingBody { reader, length, left: range, gives_way }))
}

#[derive(Debug)]
struct GrowingBody {
    reader: Reader,
    length: Option<u64>,
    left: Range<u64>,
    /// Others are first to have their turn.
    gives_way: bool,
}

impl BodySource for GrowingBody {
    fn length(&self) -> Option<u64> {
        self.length.map(|_| self.left.end - self.left.start)
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Piece>, Fault>> {
        if self.left.is_empty() {
            return Poll::Ready(Ok(None));
        }
        if std::mem::take(&mut self.gives_way) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let found = ready!(self.reader.poll_piece(context)).map_err(broken_off)?;
        Poll::Ready(Ok(found.map(|piece| take(piece, &mut self.left))))
    }
}

/// What of a piece belongs to that which is left.
fn take(piece: thalweg_store::Piece, left: &mut Range<u64>) -> Piece {
    let (bytes, range) = piece.into_parts();
    let most = usize::try_from(left.end - left.start).unwrap_or(usize::MAX);
    let end = range.end.min(range.start.saturating_add(most));
    left.start += (end - range.start) as u64;
    Piece { bytes, range: range.start..end }
}

fn broken_off(why: Broken) -> Fault {
    let detail = match why {
        Broken::Length => "the endpoint sent another length than it had said",
        Broken::Behind => "the client was too far behind a response that is not stored",
        Broken::Damaged => "the disk of the cache cannot be read any more",
        Broken::LeaderGone | Broken::Failed => "the endpoint's response broke off",
    };
    Fault::new(FaultKind::HttpResponseIncomplete, detail)
}
