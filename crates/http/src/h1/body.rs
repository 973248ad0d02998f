//! The reader of a body: where its payload lies in the received bytes, and where it ends.
//!
//! Called by the relay of both directions with whatever the socket gave. It never holds payload;
//! what it holds is a few words of state and, at the end of a chunked message, its bounded trailer
//! section (RFC 9112 §6.3, §7.1). After a fault it stays in that fault.

use thalweg_core::{Fault, FaultKind, Side, limits};

use crate::field::{Field, FieldSet};
use crate::h1::Progress;
use crate::h1::chunk_line::ChunkLine;
use crate::h1::encode;
use crate::h1::fields::{FieldScan, Flaw};
use crate::h1::framing::Framing;
use crate::rules;

/// What the reader found in the bytes it was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyStep {
    /// Payload: `input[skip..skip + len]`, `len` above 0. `skip + len` bytes are consumed; call
    /// again with the rest.
    Data {
        /// Bytes of framing in front of the payload.
        skip: usize,
        /// Bytes of payload.
        len: usize,
    },
    /// All bytes are consumed and the message goes on.
    More {
        /// Bytes consumed: the length of the input.
        consumed: usize,
    },
    /// The message is complete; bytes after `consumed` belong to the next one.
    End {
        /// Bytes consumed.
        consumed: usize,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Length,
    UntilClose,
    Size,
    Payload,
    PayloadCr,
    PayloadLf,
    /// After the last chunk: the final line or a first trailer.
    LastLine,
    LastLf,
    Trailers,
    Done,
    Broken(Fault),
}

/// The trailer section while it comes in, afterwards what is passed on of it.
#[derive(Debug, Default)]
struct Trailers {
    raw: Vec<u8>,
    fields: Vec<Field>,
    present: FieldSet,
    scan: FieldScan,
}

/// The reader of one body.
#[derive(Debug)]
pub struct BodyReader {
    state: State,
    side: Side,
    /// Bytes left of the body or of the chunk.
    left: u64,
    chunk: ChunkLine,
    trailers: Option<Box<Trailers>>,
}

impl BodyReader {
    /// A reader for a message from the downstream or the upstream side, which takes the blame for faults.
    pub fn new(framing: Framing, side: Side) -> Self {
        let (state, left) = match framing {
            Framing::Empty | Framing::Length(0) => (State::Done, 0),
            Framing::Length(length) => (State::Length, length),
            Framing::Chunked => (State::Size, 0),
            Framing::UntilClose => (State::UntilClose, 0),
        };
        Self { state, side, left, chunk: ChunkLine::default(), trailers: None }
    }

    /// Reads on. `input` begins with the first byte not consumed yet.
    ///
    /// # Errors
    /// Downstream: 400. Upstream: `http_response_transfer_coding`. The connection is of no more use.
    #[inline]
    pub fn read(&mut self, input: &[u8]) -> Result<BodyStep, Fault> {
        match self.state {
            State::Done => Ok(BodyStep::End { consumed: 0 }),
            State::Broken(fault) => Err(fault),
            _ if input.is_empty() => Ok(BodyStep::More { consumed: 0 }),
            State::Length => Ok(BodyStep::Data { skip: 0, len: self.take(input.len(), State::Done) }),
            State::UntilClose => Ok(BodyStep::Data { skip: 0, len: input.len() }),
            _ => match self.read_chunked(input) {
                Ok(step) => Ok(step),
                Err(detail) => Err(self.fail(detail)),
            },
        }
    }

    /// Whether the whole message was read. True right after the last payload byte of a length.
    pub fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    /// The side that the message comes from.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The peer closed its sending side: the end of a body that runs until then, a fault otherwise.
    ///
    /// # Errors
    /// Downstream: 400. Upstream: `http_response_incomplete`.
    pub fn end_of_input(&mut self) -> Result<(), Fault> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Broken(fault) => Err(fault),
            _ => {
                let fault = match self.side {
                    Side::Upstream => Fault::new(
                        FaultKind::HttpResponseIncomplete,
                        "closed in the middle of a response body",
                    ),
                    _ => Fault::request(400, "closed in the middle of a request body"),
                };
                self.state = State::Broken(fault);
                Err(fault)
            }
        }
    }

    /// Payload bytes still to come, where that is known: not for chunked bodies and those until close.
    pub fn remaining_length(&self) -> Option<u64> {
        match self.state {
            State::Length => Some(self.left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Bytes from here on that are payload and nothing else, where it needs no look at them to know:
    /// with a length what is left of it, until close [`u64::MAX`], in chunks and at the end 0.
    pub fn plain(&self) -> u64 {
        match self.state {
            State::Length => self.left,
            State::UntilClose => u64::MAX,
            _ => 0,
        }
    }

    /// `n` bytes of payload, at most [`Self::plain`], have gone by unseen.
    pub fn pass(&mut self, n: usize) {
        debug_assert!(n as u64 <= self.plain(), "only payload may go by unseen");
        if self.state == State::Length {
            self.take(n, State::Done);
        }
    }

    /// The trailer fields that may be passed on, as lines with CR LF and without the empty line
    /// after them. Empty before the end.
    pub fn trailers(&self) -> &[u8] {
        match &self.trailers {
            Some(trailers) if self.state == State::Done => &trailers.raw,
            _ => &[],
        }
    }

    /// Takes up to `available` bytes of payload, and goes to `then` when it was the last.
    #[inline]
    fn take(&mut self, available: usize, then: State) -> usize {
        let len = usize::try_from(self.left).map_or(available, |left| left.min(available));
        self.left -= len as u64;
        if self.left == 0 {
            self.state = then;
        }
        len
    }

    fn read_chunked(&mut self, input: &[u8]) -> Result<BodyStep, &'static str> {
        for (at, &byte) in input.iter().enumerate() {
            self.state = match (self.state, byte) {
                (State::Payload, _) => {
                    let len = self.take(input.len() - at, State::PayloadCr);
                    return Ok(BodyStep::Data { skip: at, len });
                }
                (State::Trailers, _) => return self.read_trailers(input, at),
                (State::Size, _) => match self.chunk.step(byte)? {
                    None => State::Size,
                    Some(0) => State::LastLine,
                    Some(size) => {
                        self.left = size;
                        State::Payload
                    }
                },
                (State::PayloadCr, b'\r') => State::PayloadLf,
                (State::PayloadLf, b'\n') => State::Size,
                (State::PayloadCr | State::PayloadLf, _) => return Err("chunk data without CR LF after it"),
                (State::LastLine, b'\r') => State::LastLf,
                (State::LastLine, _) => {
                    self.state = State::Trailers;
                    return self.read_trailers(input, at);
                }
                (State::LastLf, b'\n') => {
                    self.state = State::Done;
                    return Ok(BodyStep::End { consumed: at + 1 });
                }
                (State::LastLf, _) => return Err("CR without LF after the last chunk"),
                _ => return Err("read after the end"),
            };
        }
        Ok(BodyStep::More { consumed: input.len() })
    }

    /// Copies the trailer section line by line, so that nothing after its end is taken.
    fn read_trailers(&mut self, input: &[u8], from: usize) -> Result<BodyStep, &'static str> {
        let trailers = self.trailers.get_or_insert_default();
        let mut at = from;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            if len > limits::TRAILERS - trailers.raw.len().min(limits::TRAILERS) {
                return Err("the trailer section is too large");
            }
            trailers.raw.extend_from_slice(&rest[..len]);
            at += len;
            let Trailers { raw, fields, present, scan } = trailers.as_mut();
            match scan.scan(raw, limits::FIELDS, fields, present) {
                Ok(Progress::Partial) => {}
                Ok(Progress::Complete) => {
                    trailers.finish(self.side)?;
                    self.state = State::Done;
                    return Ok(BodyStep::End { consumed: at });
                }
                Err(Flaw::Malformed(detail)) => return Err(detail),
                Err(Flaw::TooManyFields) => return Err("too many trailer fields"),
            }
        }
        Ok(BodyStep::More { consumed: input.len() })
    }

    #[cold]
    fn fail(&mut self, detail: &'static str) -> Fault {
        let fault = match self.side {
            Side::Upstream => Fault::new(FaultKind::HttpResponseTransferCoding, detail),
            _ => Fault::request(400, detail),
        };
        self.state = State::Broken(fault);
        fault
    }
}

impl Trailers {
    /// Leaves in `raw` what is passed on. Forbidden trailers (RFC 9110 §6.5.1) of a request are an
    /// attack and refused; of a response they are dropped.
    fn finish(&mut self, side: Side) -> Result<(), &'static str> {
        if !self.present.intersects(rules::FORBIDDEN_TRAILERS) {
            self.raw.truncate(self.raw.len().saturating_sub(2));
            return Ok(());
        }
        if side != Side::Upstream {
            return Err("a trailer field that is not allowed in a trailer section");
        }
        for field in &mut self.fields {
            field.keep = !rules::FORBIDDEN_TRAILERS.contains(field.id);
        }
        let mut kept = Vec::new();
        encode::write_fields(&mut kept, &self.raw, &self.fields);
        self.raw = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
