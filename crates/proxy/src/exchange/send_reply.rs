//! Sends the proxy's own answers: what has been written, and bodies of any size as the client takes them, from memory,
//! a file, or whatever they come from while they are sent.

use crate::exchange::outcome::{Next, broken};
use crate::exchange::pace::{Pace, moved, tick};
use crate::relay::IoScratch;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::{BodySource, Part, Piece as SharedPiece, ReplyBody};

/// Time given to a client to take a small answer.
const SEND_TIME: Duration = Duration::from_secs(5);
/// Bytes that are read of a file at once.
const PIECE: usize = 64 * 1024;
/// So much of a file is sent by the kernel, where it can; less is not worth a call of its own.
const LARGE: u64 = 64 * 1024;
/// From this size on bytes leave together with their head; fewer are copied behind it.
const TOGETHER: usize = 4 * 1024;
/// A last piece of at most this size leaves with the one before it.
const TAIL: usize = 16 * 1024;

/// What is left of a body.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece, where that is in memory, which have been read.
    read: usize,
    /// The kernel does not send files to this client.
    only_copies: bool,
    /// The end of the last piece is the end of the body.
    is_open_ended: bool,
}

#[derive(Debug)]
enum Piece {
    /// Shared with the plan, or with whoever has made the answer.
    Shared(Arc<[u8]>),
    Part(Part),
    /// What has come and was not read yet, and where more comes from.
    Source(Option<SharedPiece>, Box<dyn BodySource>),
}

impl Piece {
    /// Its bytes, where they are in memory.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Shared(bytes) => Some(bytes),
            Self::Part(Part::Bytes(bytes)) => Some(bytes),
            Self::Source(piece, _) => Some(piece.as_ref().map_or(&[][..], AsRef::as_ref)),
            Self::Part(Part::File { .. }) => None,
        }
    }
}

impl Parts {
    /// All of a body.
    pub(crate) fn of(body: ReplyBody) -> Self {
        let is_open_ended = body.length().is_none();
        let pieces = match body {
            ReplyBody::Empty => VecDeque::new(),
            ReplyBody::Bytes(bytes) => VecDeque::from([Piece::Shared(bytes)]),
            ReplyBody::Parts(parts) => parts.into_iter().map(Piece::Part).collect(),
            ReplyBody::Source(source) => VecDeque::from([Piece::Source(None, source)]),
        };
        Self { pieces, read: 0, only_copies: false, is_open_ended }
    }

    /// Sends some of a large file straight from the kernel, at most `share` bytes; `None`: the next bytes are to be
    /// read.
    fn send_file(
        &mut self,
        client: &Client,
        x: &Exchange,
        share: usize,
    ) -> Poll<Result<Option<usize>, Fault>> {
        let room = if self.only_copies { 0 } else { x.downward.room_beside() };
        let first = self.pieces.front_mut().filter(|_| room >= LARGE);
        let Some(Piece::Part(Part::File { file, from, length })) = first else {
            return Poll::Ready(Ok(None));
        };
        if *length < LARGE {
            return Poll::Ready(Ok(None));
        }
        let most = usize::try_from((*length).min(room)).unwrap_or(usize::MAX).min(share);
        match ready!(client.socket.poll_send_file(&**file, *from, most)) {
            Ok(0) => Poll::Ready(Err(shrunk())),
            Ok(n) => {
                (*from, *length) = (*from + n as u64, *length - n as u64);
                Poll::Ready(Ok(Some(n)))
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.only_copies = true;
                Poll::Ready(Ok(None))
            }
            Err(_) => Poll::Ready(Err(gone())),
        }
    }

    /// Waits for the next bytes of a source; what is empty goes. Cancel-safe.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while let Some(first) = self.pieces.front_mut() {
            match first {
                Piece::Part(Part::File { length, .. }) if *length > 0 => break,
                first if first.bytes().is_some_and(|bytes| self.read < bytes.len()) => break,
                Piece::Source(piece, source) => {
                    self.read = 0;
                    *piece = None;
                    *piece = ready!(source.poll_piece(context))?;
                    if piece.is_none() {
                        self.pieces.pop_front();
                    }
                }
                Piece::Shared(_) | Piece::Part(_) => {
                    self.pieces.pop_front();
                    self.read = 0;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The first bytes, where they are in memory and many enough to be sent from there, and a small piece behind them;
    /// at most `most` in all. They count as read.
    fn first(&mut self, most: u64) -> Option<(&[u8], Option<SharedPiece>)> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let only = self.pieces.len() == 1;
        let first = self.pieces.front_mut()?;
        let size = first.bytes().filter(|bytes| self.read == 0 && bytes.len() >= TOGETHER)?.len();
        let size = size.min(PIECE).min(most);
        let is_whole = first.bytes().is_some_and(|bytes| bytes.len() == size);
        let tail = match first {
            Piece::Source(_, source) if only && is_whole => source.small_piece(TAIL.min(most - size)),
            _ => None,
        };
        self.read = size;
        Some((first.bytes()?.get(..size)?, tail))
    }

    /// The next bytes, at most so many: where they are, or in `room`. None at the end.
    fn next<'a>(&'a mut self, room: &'a mut [u8], most: usize) -> Result<&'a [u8], Fault> {
        let most = most.min(room.len());
        let Some(first) = self.pieces.front_mut() else { return Ok(&[]) };
        if let Piece::Part(Part::File { file, from, length }) = first {
            let most = usize::try_from(*length).unwrap_or(usize::MAX).min(most);
            let n = file.read_at(&mut room[..most], *from).unwrap_or(0);
            if n == 0 {
                return Err(shrunk());
            }
            (*from, *length) = (*from + n as u64, *length - n as u64);
            return Ok(&room[..n]);
        }
        let rest = first.bytes().and_then(|bytes| bytes.get(self.read..)).unwrap_or_default();
        let n = rest.len().min(most);
        self.read += n;
        Ok(&rest[..n])
    }
}

fn shrunk() -> Fault {
    let detail = "a file became shorter while it was sent, or cannot be read";
    Fault::new(FaultKind::HttpResponseIncomplete, detail)
}

fn gone() -> Fault {
    Fault::new(FaultKind::ClientGone, "the client closed the connection inside the response")
}

/// Sends an answer whose head has been written, and the rest of its body.
pub(crate) async fn send_reply(worker: &Worker, client: &Client, x: &mut Exchange, parts: Parts) -> Next {
    let sent = match parts.pieces.is_empty() {
        true => send_small(client, x).await,
        false => send_parts(worker, client, x, parts).await,
    };
    x.downward.release_buffers(&worker.warm.buffers);
    match sent {
        Ok(()) if x.keep_alive => Next::Again,
        Ok(()) => Next::Drain,
        Err(Some(fault)) => {
            broken(worker, client, x, fault);
            Next::Close
        }
        Err(None) => Next::Close,
    }
}

/// Sends what waits. A client that does not take it gets no other answer.
async fn send_small(client: &Client, x: &mut Exchange) -> Result<(), Option<Fault>> {
    client.socket.set_deadline(Some(SEND_TIME));
    poll_fn(|_| match x.downward.poll_flush(&client.socket) {
        Poll::Pending if client.socket.expired() => Poll::Ready(Err(None)),
        Poll::Pending => Poll::Pending,
        Poll::Ready(done) => Poll::Ready(done.map_err(|_| None)),
    })
    .await
}

async fn send_parts(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    mut parts: Parts,
) -> Result<(), Option<Fault>> {
    let mut pace = Pace::default();
    poll_fn(|context| {
        if pace.has_begun() && client.socket.expired() {
            pace.expire(worker, client, x)?;
        }
        tick(worker, x);
        let before = pace.has_begun().then(|| moved(client, x));
        match pump(worker, client, x, (&mut parts, context)) {
            Poll::Ready(done) => return Poll::Ready(done),
            Poll::Pending => {}
        }
        if client.socket.is_gone() {
            return Poll::Ready(Err(gone()));
        }
        if before.is_none_or(|before| moved(client, x) != before) {
            pace.keep(worker, client, x)?;
        }
        pace.hold_back(worker, client, x);
        Poll::Pending
    })
    .await
    .map_err(Some)
}

/// Sends the head that waits with the first bytes of the body, where both are there; otherwise says how the wait for
/// them goes on once the head has been sent.
fn begin(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (parts, context): (&mut Parts, &mut Context<'_>),
) -> Poll<Result<(), Fault>> {
    let room = x.downward.room_behind_head();
    if room > 0 {
        ready!(parts.poll_ready(context))?;
        if let Some((bytes, tail)) = parts.first(room) {
            let tail = tail.as_ref().map_or(&[][..], AsRef::as_ref);
            x.downward.send_with_head([bytes, tail], &client.socket, &worker.chunks)?;
        }
    }
    Poll::Ready(Ok(()))
}

/// Sends what can be sent in this turn.
fn pump(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (parts, context): (&mut Parts, &mut Context<'_>),
) -> Poll<Result<(), Fault>> {
    let mut scratch = worker.scratch.borrow_mut();
    let means = IoScratch::of(&mut scratch, &worker.chunks);
    let mut share = means.share;
    let waits = begin(worker, client, x, (parts, context));
    loop {
        match x.downward.poll_flush(&client.socket) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(_)) => return Poll::Ready(Err(gone())),
            Poll::Ready(Ok(())) if x.downward.is_received() => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {}
        }
        ready!(waits)?;
        if share == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(parts.poll_ready(context))?;
        if parts.pieces.is_empty() {
            if !parts.is_open_ended {
                return Poll::Ready(Err(shrunk()));
            }
            x.downward.end(&worker.chunks)?;
            continue;
        }
        if let Some(n) = ready!(parts.send_file(client, x, share))? {
            share = share.saturating_sub(n);
            x.downward.went_beside(n, &worker.chunks)?;
            continue;
        }
        let Some(most) = x.downward.paced(means.scratch.len().min(PIECE)) else { return Poll::Pending };
        let bytes = parts.next(means.scratch, most)?;
        share = share.saturating_sub(bytes.len());
        x.downward.spend(bytes.len());
        x.downward.feed(bytes, Some(&client.socket), &worker.chunks)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Pieces that are there when they are asked for the second time.
    #[derive(Debug)]
    struct Slow(VecDeque<&'static [u8]>, bool);

    impl BodySource for Slow {
        fn length(&self) -> Option<u64> {
            None
        }

        fn small_piece(&mut self, most: usize) -> Option<SharedPiece> {
            let next = self.0.pop_front_if(|bytes| bytes.len() <= most)?;
            Some(SharedPiece { bytes: next.into(), range: 0..next.len() })
        }

        fn poll_piece(&mut self, _context: &mut Context<'_>) -> Poll<Result<Option<SharedPiece>, Fault>> {
            self.1 = !self.1;
            if self.1 {
                return Poll::Pending;
            }
            let next = self.0.pop_front();
            Poll::Ready(Ok(next.map(|bytes| SharedPiece { bytes: bytes.into(), range: 0..bytes.len() })))
        }
    }

    fn read(body: ReplyBody, room: usize) -> Vec<u8> {
        let (mut parts, mut read, mut buffer) = (Parts::of(body), Vec::new(), vec![0; room]);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if parts.poll_ready(&mut context).is_pending() {
                continue;
            }
            let bytes = parts.next(&mut buffer, room).unwrap();
            if bytes.is_empty() {
                return read;
            }
            read.extend_from_slice(bytes);
        }
    }

    #[test]
    fn a_body_is_read_piece_by_piece_whatever_room_there_is() {
        let parts =
            || vec![Part::Bytes(b"hello".to_vec()), Part::Bytes(Vec::new()), Part::Bytes(b" you".to_vec())];
        let source = || Slow(VecDeque::from([&b"hel"[..], b"lo y", b"ou"]), false);
        for room in [1, 2, 3, 100] {
            for body in [
                ReplyBody::Parts(parts()),
                ReplyBody::Bytes((*b"hello you").into()),
                ReplyBody::Source(Box::new(source())),
            ] {
                assert_eq!(read(body, room), b"hello you", "{room}");
            }
        }
        assert!(read(ReplyBody::Empty, 4).is_empty());
    }

    #[test]
    fn what_is_large_leaves_with_its_head_and_a_small_piece_behind_it() {
        let large: &'static [u8] = &[b'a'; TOGETHER];
        let source = |pieces: &[&'static [u8]]| {
            let mut parts =
                Parts::of(ReplyBody::Source(Box::new(Slow(pieces.iter().copied().collect(), true))));
            assert!(parts.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
            parts
        };
        let mut parts = source(&[large, b"bc", b"d"]);
        let (first, tail) = parts.first(u64::MAX).unwrap();
        assert_eq!((first, tail.unwrap().as_ref()), (large, &b"bc"[..]));
        assert!(parts.first(u64::MAX).is_none(), "it is read already");
        // What is little is copied beside the head; what does not fit is not taken.
        assert!(source(&[b"a", b"bc"]).first(u64::MAX).is_none());
        let mut parts = source(&[large, b"bc"]);
        let (first, tail) = parts.first(TOGETHER as u64 + 1).unwrap();
        assert_eq!((first, tail.is_none()), (large, true));
        let mut parts = source(&[large, b"bc"]);
        assert_eq!(parts.first(5).unwrap().0, &large[..5]);
        assert_eq!(parts.next(&mut [0; 3], 3).unwrap(), b"aaa");
    }
}
