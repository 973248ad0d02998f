//! Transforms of bodies that are made of stages, one behind the other, each of which makes a bounded piece at a time.
//!
//! Much may become of little: a few bytes decode to gigabytes, one letter is replaced by a page. So a stage makes about
//! [`PIECE`] bytes per step, the last stage that has something to do goes first, and nothing is taken while enough
//! waits for the receiver. What is made in all is bounded in proportion to what came, for each stage alike, so that
//! neither memory nor time is the sender's to spend.

use crate::request::{BodyTransform, ENOUGH};
use std::fmt::Debug;
use std::mem;
use thalweg_core::Fault;

/// Bytes that a stage makes in a step, about, and that the first one is given at a time.
pub(crate) const PIECE: usize = 16 * 1024;

/// One change of a body.
pub(crate) trait Stage: Debug {
    /// Takes bytes from the front of `input` and appends what becomes of them to `out`, at most about [`PIECE`]. What
    /// it leaves of `input` is given to it again, with more behind it. With `is_all` nothing comes behind it.
    fn step(&mut self, input: &[u8], is_all: bool, out: &mut Vec<u8>) -> Result<Step, Fault>;
}

/// What a stage has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Step {
    /// Bytes taken.
    pub(crate) taken: usize,
    /// It can make more before it is given more.
    pub(crate) has_more: bool,
}

/// What a stage may make of what has come of the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Bytes that are never too many for what has come.
    pub(crate) free: u64,
    /// Above them: bytes for each one that has come.
    pub(crate) ratio: u64,
    /// Bytes in all.
    pub(crate) most: u64,
    /// Why the message breaks off.
    pub(crate) fault: Fault,
}

/// A transform in stages.
#[derive(Debug)]
pub(crate) struct Stages {
    list: Vec<Running>,
    bound: Bound,
    /// Bytes that have come.
    came: u64,
    /// Stages, from the first on, that have said their end.
    closed: usize,
    /// The first byte that was left is known: it was left so that the transform is called again.
    is_ahead: bool,
}

#[derive(Debug)]
struct Running {
    stage: Box<dyn Stage>,
    input: Vec<u8>,
    has_more: bool,
    /// Nothing comes behind `input`.
    is_all: bool,
    made: u64,
}

impl Stages {
    /// These, in their order.
    pub(crate) fn new(list: impl Iterator<Item = Box<dyn Stage>>, bound: Bound) -> Self {
        let running = |stage| Running { stage, input: Vec::new(), has_more: false, is_all: false, made: 0 };
        Self { list: list.map(running).collect(), bound, came: 0, closed: 0, is_ahead: false }
    }

    /// The last stage that can go on makes a piece; `false`: there is none.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let Some(at) = self.list.iter().rposition(|running| running.has_more) else { return Ok(false) };
        let (before, after) = self.list.split_at_mut(at + 1);
        let Some(running) = before.last_mut() else { return Ok(false) };
        let mut made = Vec::new();
        let Step { taken, has_more } = running.stage.step(&running.input, running.is_all, &mut made)?;
        running.input.drain(..taken);
        running.has_more = has_more;
        running.made += made.len() as u64;
        let Bound { free, ratio, most, fault } = self.bound;
        if running.made > most || running.made > free.max(self.came.saturating_mul(ratio)) {
            return Err(fault);
        }
        match after.first_mut() {
            Some(next) if !made.is_empty() => {
                next.input.extend_from_slice(&made);
                next.has_more = true;
            }
            Some(_) => {}
            None if out.is_empty() => *out = made,
            None => out.extend_from_slice(&made),
        }
        Ok(true)
    }
}

impl BodyTransform for Stages {
    fn push(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let whole = *data;
        let mut rest = whole.get(usize::from(mem::take(&mut self.is_ahead))..).unwrap_or_default();
        while out.len() < ENOUGH {
            if self.advance(out)? {
                continue;
            }
            let (piece, behind) = rest.split_at(rest.len().min(PIECE));
            let Some(first) = self.list.first_mut().filter(|_| !piece.is_empty()) else { break };
            first.input.extend_from_slice(piece);
            first.has_more = true;
            self.came += piece.len() as u64;
            rest = behind;
        }
        if rest.is_empty() && self.list.iter().any(|running| running.has_more) {
            self.is_ahead = true;
            rest = &whole[whole.len().saturating_sub(1)..];
        }
        *data = rest;
        Ok(())
    }

    fn finish(&mut self, _trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        while out.len() < ENOUGH {
            if self.advance(out)? {
                continue;
            }
            let Some(next) = self.list.get_mut(self.closed) else { return Ok(true) };
            if next.is_all {
                self.closed += 1;
            } else {
                (next.is_all, next.has_more) = (true, true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs a body through a transform, cut into pieces of these lengths, as the relay does; each call makes about as
    /// much as is enough.
    pub(crate) fn run(
        transform: &mut dyn BodyTransform,
        body: &[u8],
        pieces: impl Iterator<Item = usize>,
    ) -> Result<Vec<u8>, Fault> {
        let (mut made, mut rest, mut held) = (Vec::new(), body, Vec::new());
        for piece in pieces.chain([usize::MAX]) {
            let (now, later) = rest.split_at(rest.len().min(piece.max(1)));
            rest = later;
            held.extend_from_slice(now);
            while !held.is_empty() {
                let (mut left, mut out) = (&held[..], Vec::new());
                transform.push(&mut left, &mut out)?;
                let left = left.len();
                assert!(left < held.len() || !out.is_empty(), "it is stuck");
                assert!(out.len() < ENOUGH + 4 * 1024 * 1024, "{}", out.len());
                held.drain(..held.len() - left);
                made.append(&mut out);
            }
            if rest.is_empty() {
                break;
            }
        }
        loop {
            let mut out = Vec::new();
            let is_over = transform.finish(&mut Vec::new(), &mut out)?;
            made.append(&mut out);
            if is_over {
                return Ok(made);
            }
            assert!(!out.is_empty() || !is_over);
        }
    }
}
