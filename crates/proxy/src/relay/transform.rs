//! Bodies that change on their way, piece by piece, with back-pressure.
//!
//! Payload goes through the transforms in their order and then on as any payload does. The first transform may leave
//! input for later: it is held here, counts as held for the receiver, and is taken up again when the receiver has taken
//! what was made. The end of the body is passed through likewise.

use super::{Flow, Stream};
use crate::buffers::chunk_queue::ChunkPool;
use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::rc::Rc;
use thalweg_core::{Fault, FaultKind};
use thalweg_filter::{BodyTransform, ENOUGH};

/// Sees the payload of a message as it passes, before anything changes it.
pub(crate) trait Tap: Debug {
    /// The message is sent anew.
    fn restart(&mut self);
    /// So much of it has come.
    fn see(&mut self, payload: &[u8]);
    /// It has come whole.
    fn end(&mut self);
}

/// A tap that outlives the attempts at which a message is sent.
pub(crate) type SharedTap = Rc<RefCell<dyn Tap>>;

/// The transforms of one message.
#[derive(Debug)]
pub(super) struct Transformer {
    tap: Option<SharedTap>,
    list: Vec<Box<dyn BodyTransform>>,
    /// Input that the first transform has left, of which `used` bytes are taken.
    held: Vec<u8>,
    used: usize,
    /// The body has been received to its end.
    has_ended: bool,
    /// How many transforms have said their end.
    finished: usize,
    /// Something was taken since the last flush.
    is_dirty: bool,
    /// As the transforms have left them.
    trailers: Vec<u8>,
    chunks: Rc<ChunkPool>,
}

impl Transformer {
    /// Whether there is more to be made of what has been received.
    fn has_more(&self) -> bool {
        self.used < self.held.len() || (self.has_ended && self.finished < self.list.len())
    }

    /// Takes input and makes about as much as is enough.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        while self.used < self.held.len() && out.len() < ENOUGH {
            let mut rest = &self.held[self.used..];
            let mut made = Vec::new();
            if let Some(first) = self.list.first_mut() {
                push(&mut **first, &mut rest, &mut made)?;
            }
            self.used = self.held.len() - rest.len();
            pass_on(&mut self.list[1..], made, out)?;
        }
        if self.used == self.held.len() {
            self.held.clear();
            self.used = 0;
        }
        while self.held.is_empty() && self.has_ended && self.finished < self.list.len() && out.len() < ENOUGH
        {
            let mut made = Vec::new();
            let at = self.finished;
            let is_over = self.list[at].finish(&mut self.trailers, &mut made)?;
            pass_on(&mut self.list[at + 1..], made, out)?;
            self.finished += usize::from(is_over);
        }
        Ok(())
    }

    /// What transforms hold back goes, where they think it worth it.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !std::mem::take(&mut self.is_dirty) || self.has_ended {
            return Ok(());
        }
        for at in 0..self.list.len() {
            let mut made = Vec::new();
            self.list[at].flush(&mut made);
            pass_on(&mut self.list[at + 1..], made, out)?;
        }
        Ok(())
    }
}

/// Gives input to a transform, which takes some of it or makes something.
fn push(transform: &mut dyn BodyTransform, rest: &mut &[u8], made: &mut Vec<u8>) -> Result<(), Fault> {
    let before = rest.len();
    transform.push(rest, made)?;
    if rest.len() == before && made.is_empty() {
        debug_assert!(false, "a transform that takes nothing and makes nothing");
        return Err(Fault::new(FaultKind::ProxyInternalError, "a filter of bodies does not go on"));
    }
    Ok(())
}

/// Sends what one transform has made through those behind it.
fn pass_on(list: &mut [Box<dyn BodyTransform>], made: Vec<u8>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut made = made;
    for transform in list {
        let mut rest = &made[..];
        let mut next = Vec::new();
        while !rest.is_empty() {
            // Into memory of its own: who has made enough takes nothing more.
            let mut part = Vec::new();
            push(&mut **transform, &mut rest, &mut part)?;
            if next.is_empty() { next = part } else { next.extend_from_slice(&part) }
        }
        made = next;
    }
    match out.is_empty() {
        true => *out = made,
        false => out.extend_from_slice(&made),
    }
    Ok(())
}

impl Flow {
    /// The body of the message that was started goes through these, in their order; its receiver is told no length.
    pub(crate) fn set_transforms(&mut self, list: Vec<Box<dyn BodyTransform>>, chunks: &Rc<ChunkPool>) {
        if list.is_empty() {
            return;
        }
        self.open_ended = !self.chunked && !self.ended;
        self.watch(list, None, chunks);
    }

    /// The body of the message that was started is seen by this, and goes through the transforms that were set.
    pub(crate) fn set_tap(&mut self, tap: &SharedTap, chunks: &Rc<ChunkPool>) {
        tap.borrow_mut().restart();
        match &mut self.transforms {
            Some(transformer) => transformer.tap = Some(tap.clone()),
            None => self.watch(Vec::new(), Some(tap.clone()), chunks),
        }
    }

    fn watch(&mut self, list: Vec<Box<dyn BodyTransform>>, tap: Option<SharedTap>, chunks: &Rc<ChunkPool>) {
        self.transforms = Some(Box::new(Transformer {
            tap,
            list,
            held: Vec::new(),
            used: 0,
            has_ended: false,
            finished: 0,
            is_dirty: false,
            trailers: Vec::new(),
            chunks: Rc::clone(chunks),
        }));
    }

    /// Whether what is received may turn out to be wrong only when some of it has been sent.
    pub(crate) fn is_transformed(&self) -> bool {
        self.transforms.is_some()
    }

    /// Whether transforms have more to make of what has been received.
    #[inline]
    pub(super) fn has_more_to_make(&self) -> bool {
        self.transforms.as_ref().is_some_and(|transforms| transforms.has_more())
    }

    /// Sends payload, in its form, behind what waits.
    #[inline]
    pub(super) fn carry<S: Stream>(
        &mut self,
        payload: &[u8],
        to: Option<&S>,
        chunks: &Rc<ChunkPool>,
    ) -> Result<(), Fault> {
        let Some(transformer) = &self.transforms else {
            self.put(payload, to, chunks);
            return Ok(());
        };
        if let Some(tap) = &transformer.tap {
            tap.borrow_mut().see(payload);
        }
        if transformer.list.is_empty() {
            self.put(payload, to, chunks);
            return Ok(());
        }
        self.transform(to, |transformer, out| {
            // What has been taken goes first: with a slow receiver something is always left.
            transformer.held.drain(..std::mem::take(&mut transformer.used));
            transformer.held.extend_from_slice(payload);
            transformer.is_dirty = true;
            // More of it is made when the receiver has taken this.
            if out.is_empty() { transformer.advance(out) } else { Ok(()) }
        })
    }

    /// The body has been received to its end: says whether all of it has been made.
    pub(super) fn end_transforms(&mut self) -> Result<bool, Fault> {
        let Some(transformer) = &self.transforms else { return Ok(true) };
        if let Some(tap) = &transformer.tap {
            tap.borrow_mut().end();
        }
        let trailers = self.last_trailers().to_vec();
        self.transform::<thalweg_net::Socket>(None, |transformer, out| {
            transformer.has_ended = true;
            transformer.trailers = trailers;
            transformer.advance(out)
        })?;
        Ok(!self.has_more_to_make())
    }

    /// Makes more of what has been received.
    pub(super) fn make_more(&mut self) -> io::Result<()> {
        let made = self.transform::<thalweg_net::Socket>(None, Transformer::advance);
        made.map_err(io::Error::other)?;
        if self.ended && !self.has_more_to_make() {
            let chunks = self.transforms.as_ref().map(|transforms| Rc::clone(&transforms.chunks));
            chunks.iter().for_each(|chunks| self.write_end(chunks));
        }
        Ok(())
    }

    /// Nothing more may come for a while.
    pub(super) fn flush_transforms(&mut self) -> Result<(), Fault> {
        self.transform::<thalweg_net::Socket>(None, Transformer::flush)
    }

    fn transform<S: Stream>(
        &mut self,
        to: Option<&S>,
        make: impl FnOnce(&mut Transformer, &mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some(mut transformer) = self.transforms.take() else { return Ok(()) };
        let mut out = Vec::new();
        let made = make(&mut transformer, &mut out);
        if !out.is_empty() {
            self.put(&out, to, &transformer.chunks);
        }
        self.transforms = Some(transformer);
        made
    }

    /// The trailers that are sent.
    pub(super) fn sent_trailers(&self) -> &[u8] {
        match &self.transforms {
            Some(transformer) => &transformer.trailers,
            None => self.last_trailers(),
        }
    }

    /// Bytes that were received and wait for a transform.
    pub(super) fn untransformed(&self) -> usize {
        self.transforms.as_ref().map_or(0, |transformer| transformer.held.len() - transformer.used)
    }
}
