//! What a peer of HTTP/2 may make this side do: every frame has a price, and the codec gets no more at once
//! than has been taken up.
//!
//! The driver of a connection calls [`FloodGuard::inbound`] with what it received before the codec sees it, and
//! [`FloodGuard::outbound`] with what the codec wrote. The guard reads heads of frames, counts the fields of compressed
//! sections and unpacks nothing. Three things come of it:
//!
//! - **Prices.** Three budgets ([`Bucket`]) are charged for what costs the peer nothing and this side
//!   something: streams that end before their answer (`resets`), frames that carry nothing of a message
//!   (`control`) and windows opened by crumbs (`windows`). Time fills them, and work that was really done
//!   does, so that a busy connection may ask for more than an idle one and no counter runs for the life of
//!   a connection. A budget that is spent is a [`Flood`], for good. Payload is free.
//! - **The gate.** A codec reads all there is before it hands out the first request; here it stops after a few
//!   field sections until they were taken up ([`FloodGuard::opened`]), and after its share of a turn
//!   ([`FloodGuard::turn`]).
//! - **Notes** of what the codec keeps to itself: many small DATA frames, of which each costs more than its payload;
//!   pseudo-fields in trailers, which it drops; a `#` in a `:path`, which it cuts off ([`FloodGuard::take_notes`],
//!   [`FloodGuard::has_fragment`]).
//!
//! Invariants: where the bytes are cut does not matter; nothing is held but a few words and the notes of a turn; the
//! gate never stops within a field section but for the share of the turn.
//!
//! Sources: RFC 9113 §10.5; CVE-2023-44487 (rapid reset), CVE-2025-8671 (resets that this side is
//! made to send), CVE-2024-27316 and its kin (CONTINUATION), CVE-2019-9511 to -9518 (all others).

use thalweg_core::{Side, limits};

use super::block::Block;
use super::bucket::Bucket;
use super::flood::Flood;
use super::frame::{FrameHead, FrameReader, HEAD_LEN, PREFACE, Piece, code, flag, kind};
use super::held::Held;
use super::streams::Streams;

/// DATA frames from this payload on are work whoever sends them.
const WORTHWHILE: u32 = 256;
/// Price of a change of settings: it makes the codec walk over all streams, or throw a table away.
const SETTINGS_PRICE: u32 = 10;
/// Window updates that one DATA frame earns: of the stream, of the connection, and one to spare.
const WINDOWS_PER_DATA: u32 = 3;

/// Bounds that the configuration sets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FloodLimits {
    /// Streams that the peer may have open at one time, 1–65,535; default 100. The peer may end twice as many
    /// before their answer, and a fifth of it each second.
    pub max_streams: u32,
    /// Longest head in bytes of HTTP/1 (`limits.max_head`); default 64 KiB.
    pub max_head: usize,
    /// Most fields of a head (`limits.max_fields`); default 128. A request with a few more is answered; one with
    /// [`limits::H2_FIELDS_SLACK`] as many, or a thousand, is not unpacked.
    pub max_fields: usize,
}

impl Default for FloodLimits {
    fn default() -> Self {
        Self { max_streams: limits::H2_STREAMS, max_head: limits::HEAD, max_fields: limits::FIELDS }
    }
}

/// What the codec gets of the bytes that were offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allow {
    /// Bytes at the front that may be handed on now, in one piece or many.
    pub pass: usize,
    /// Bytes after those that are dropped: a frame that means nothing and that the codec counts for the
    /// life of the connection.
    pub skip: usize,
    /// Why no more than that. What is left is offered again, from its first byte.
    pub stop: Stop,
}

/// Why it stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// For want of bytes: all were taken, except for up to eight of a head that is cut. Receive more.
    Bytes,
    /// A frame is dropped: offer what follows it.
    Skip,
    /// Field sections wait to be taken up: receive nothing until [`FloodGuard::opened`].
    Heads,
    /// The share of this turn is spent: receive nothing until [`FloodGuard::turn`].
    Turn,
}

/// What the codec wrote.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// Payload of DATA frames, in bytes.
    pub payload: usize,
    /// Streams that were reset for what the peer sent on them.
    pub refused: u32,
}

/// What has gone to the codec on a stream and what the codec does not tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Note {
    /// A DATA frame whose payload is smaller than what the codec keeps beside it, and not the last.
    Crumb {
        /// The stream.
        stream: u32,
    },
    /// A field section that ends the message and has pseudo-fields: if it is one of trailers, the message is malformed
    /// (RFC 9113 §8.1).
    PseudoAtEnd {
        /// The stream.
        stream: u32,
    },
}

/// A field section that is not whole.
#[derive(Clone, Copy, Debug)]
struct Section {
    bytes: usize,
    continuations: u32,
}

/// The flood guard of one connection, for both directions.
#[derive(Clone, Debug)]
pub struct FloodGuard {
    /// Where the peer stands: `Downstream` is a client.
    peer: Side,
    limits: FloodLimits,
    now_ms: u64,
    flood: Option<Flood>,

    resets: Bucket,
    control: Bucket,
    windows: Bucket,

    incoming: Incoming,
    outgoing: FrameReader,
    /// RST_STREAM that goes out: its stream, and as much of its code as has gone.
    reset: Option<(u32, u32)>,
    /// The last stream to which STREAM_CLOSED went.
    closed: u32,
    /// DATA frames to come that are as short as the peer's window made them.
    cramped: u32,
    held: Held,
    streams: Streams,
    /// Changes of settings sent and not acknowledged.
    unacknowledged: u32,
    acknowledged: bool,
    has_settings: bool,
    /// Since the turn began: at most as many as it may have frames.
    notes: Vec<Note>,
    /// Streams whose `:path` has a `#`, since [`FloodGuard::opened`].
    fragments: Vec<u32>,
}

/// What has gone through the gate.
#[derive(Clone, Debug)]
struct Incoming {
    /// Payload of the last frame that is to come.
    left: usize,
    /// Length of a DATA frame's payload, whose first byte says how much of it is padding.
    padded: Option<FrameHead>,
    section: Option<Section>,
    block: Block,
    /// The HEADERS frame of the field section that goes by, and whether it is the first on its stream.
    headers: FrameHead,
    is_first: bool,
    /// The last frame of the section goes by.
    closes: bool,
    empty_data: u32,
    /// Since [`FloodGuard::opened`].
    heads: u32,
    section_bytes: u32,
    /// Of this turn.
    bytes_left: usize,
    frames_left: u32,
    heads_left: u32,
}

impl FloodGuard {
    /// The flood guard of a new connection with a client (`Side::Downstream`) or an endpoint (any other), before the
    /// first byte. Its first turn has begun.
    pub fn new(peer: Side, limits: FloodLimits) -> Self {
        let streams = limits.max_streams.clamp(1, 0xffff);
        let (least, least_per_second) = limits::H2_RESETS_LEAST;
        let resets = (streams * 2).max(least);
        let control = limits::H2_CONTROL_BURST;
        let client = peer == Side::Downstream;
        let preface = PREFACE.len() as u32;
        let mut guard = Self {
            peer,
            limits,
            now_ms: 0,
            flood: None,
            resets: Bucket::new(resets, (streams / 5).max(least_per_second), resets),
            control: Bucket::new(control, limits::H2_CONTROL_PER_SECOND, control),
            windows: Bucket::new(control, limits::H2_CONTROL_PER_SECOND, limits::H2_WINDOWS_EARNED),
            incoming: Incoming {
                left: if client { preface as usize } else { 0 },
                padded: None,
                section: None,
                block: Block::default(),
                headers: FrameHead::default(),
                is_first: false,
                closes: false,
                empty_data: 0,
                heads: 0,
                section_bytes: 0,
                bytes_left: 0,
                frames_left: 0,
                heads_left: 0,
            },
            outgoing: FrameReader::after(if client { 0 } else { preface }),
            reset: None,
            closed: 0,
            cramped: 0,
            held: Held::default(),
            streams: Streams::default(),
            unacknowledged: 0,
            acknowledged: false,
            has_settings: false,
            notes: Vec::new(),
            fragments: Vec::new(),
        };
        guard.turn(limits::H2_TURN_BYTES);
        guard
    }

    /// A turn begins, in which the codec may get `share` bytes ([`limits::H2_TURN_BYTES`], less where many
    /// want theirs), a frame for each 256 of them and a head for each 8,192.
    pub fn turn(&mut self, share: u32) {
        self.incoming.bytes_left = share.max(1) as usize;
        self.incoming.frames_left = (share / limits::H2_TURN_BYTES_PER_FRAME).max(1);
        self.incoming.heads_left = (share / limits::H2_TURN_BYTES_PER_HEAD).max(1);
        self.notes.clear();
    }

    /// What the codec had to give out was taken.
    pub fn opened(&mut self) {
        (self.incoming.heads, self.incoming.section_bytes) = (0, 0);
        self.fragments.clear();
    }

    /// Takes what is to be told of this turn; to be called before the next one begins.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Whether the `:path` of a request has a `#`, of which the codec says nothing. Known from when the codec has the
    /// head until [`FloodGuard::opened`].
    pub fn has_fragment(&self, stream: u32) -> bool {
        self.fragments.contains(&stream)
    }

    /// Whether any request has.
    pub const fn has_fragments(&self) -> bool {
        !self.fragments.is_empty()
    }

    /// What may be handed on of `bytes`, the received ones that were not allowed yet. `now_ms` is of any clock
    /// that does not go back. May be called without bytes, to learn whether to receive any.
    ///
    /// # Errors
    /// The flood, from then on for every call; also one that [`FloodGuard::outbound`] found.
    pub fn inbound(&mut self, bytes: &[u8], now_ms: u64) -> Result<Allow, Flood> {
        self.tick(now_ms);
        let mut at = 0;
        loop {
            at += self.payload(&bytes[at..]);
            if let Some(flood) = self.flood {
                return Err(flood);
            }
            let next = FrameHead::first(&bytes[at..]).filter(|_| self.incoming.left == 0);
            if let Some(stop) = self.incoming.stop(next) {
                return Ok(Allow { pass: at, skip: 0, stop });
            }
            let Some(head) = next else { return Ok(Allow { pass: at, skip: 0, stop: Stop::Bytes }) };
            self.incoming.bytes_left = self.incoming.bytes_left.saturating_sub(HEAD_LEN);
            self.incoming.frames_left -= 1;
            self.charge(head);
            self.incoming.left = head.len as usize;
            let empty = head.kind == kind::DATA && head.len == 0 && !head.ends_stream();
            if empty && self.incoming.empty_data > limits::H2_EMPTY_DATA && self.flood.is_none() {
                return Ok(Allow { pass: at, skip: HEAD_LEN, stop: Stop::Skip });
            }
            at += HEAD_LEN;
        }
    }

    /// The codec wrote `bytes`. What is found wrong is said by the next [`FloodGuard::inbound`].
    pub fn outbound(&mut self, mut bytes: &[u8]) -> Sent {
        let mut sent = Sent::default();
        while let Some(piece) = self.outgoing.next(&mut bytes) {
            match piece {
                Piece::Head(head) => self.credit(head, &mut sent),
                Piece::Payload { at, bytes } => {
                    let Some((stream, mut code)) = self.reset.take() else { continue };
                    let last = at as usize + bytes.len() >= 4;
                    bytes.iter().take(4 - at as usize).for_each(|byte| code = code << 8 | u32::from(*byte));
                    match last {
                        true => sent.refused += u32::from(self.was_reset(stream, code)),
                        false => self.reset = Some((stream, code)),
                    }
                }
            }
        }
        sent
    }

    /// A DATA frame of a stream, with `payload` bytes, goes to the codec. `is_cramped`: it has no more of them because
    /// the peer's window has no more. A peer who opens its window by crumbs earns nothing by what it gets.
    pub fn gave(&mut self, stream: u32, payload: usize, is_cramped: bool) {
        self.held.add(stream, payload);
        if is_cramped && payload < WORTHWHILE as usize {
            self.cramped = self.cramped.saturating_add(1);
        }
    }

    /// Payload in bytes that the codec got ([`FloodGuard::gave`]), less what it has written, and less what went with
    /// streams that either side has reset.
    pub const fn held(&self) -> usize {
        self.held.sum()
    }

    /// The codec holds nothing of a stream any more, which shows in no frame.
    pub fn forget(&mut self, stream: u32) {
        self.held.forget(stream);
    }

    /// Whether the peer's first settings have come, and with them all that opens a connection.
    pub const fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Whether settings were sent that the peer has not acknowledged.
    pub const fn awaits_acknowledgement(&self) -> bool {
        self.unacknowledged > 0
    }

    fn tick(&mut self, now_ms: u64) {
        let elapsed = now_ms.saturating_sub(self.now_ms);
        if elapsed > 0 {
            self.now_ms = now_ms;
            self.resets.refill(elapsed);
            self.control.refill(elapsed);
            self.windows.refill(elapsed);
            self.streams.tick(now_ms);
        }
    }

    /// Lets payload by of the frame whose head has gone: how much of it.
    fn payload(&mut self, bytes: &[u8]) -> usize {
        let incoming = &mut self.incoming;
        let part = bytes.len().min(incoming.left).min(incoming.bytes_left);
        incoming.left -= part;
        incoming.bytes_left -= part;
        if part > 0
            && let Some(head) = incoming.padded.take()
        {
            let payload = (head.len - 1).saturating_sub(u32::from(bytes[0]));
            self.data(head, payload);
        }
        self.incoming.block.read(&bytes[..part]);
        if self.incoming.left == 0 && std::mem::take(&mut self.incoming.closes) {
            self.section_ends();
        }
        // An endpoint that goes too far loses the response, and not the others on its connection.
        if self.peer == Side::Downstream && self.incoming.block.fields() as usize > self.fields() {
            self.flooded(Flood::FieldSection);
        }
        part
    }

    /// Fields that a section may have before it is not worth an answer.
    fn fields(&self) -> usize {
        let (times, least) = limits::H2_FIELDS_SLACK;
        self.limits.max_fields.saturating_mul(times).max(least)
    }

    /// A frame of the peer passes.
    fn charge(&mut self, head: FrameHead) {
        self.incoming.closes = false;
        if head.kind != kind::CONTINUATION {
            self.incoming.section = None;
        }
        match head.kind {
            kind::HEADERS => self.incoming.block.begin(head),
            kind::CONTINUATION => self.incoming.block.go_on(head),
            _ => self.incoming.block.end(),
        }
        match head.kind {
            kind::DATA if head.has(flag::PADDED) && head.len > 0 => self.incoming.padded = Some(head),
            kind::DATA => self.data(head, head.len),
            kind::HEADERS => self.section(head),
            // A client may not, and endpoints are told not to; the codec would unpack it first.
            kind::PUSH_PROMISE => self.flooded(Flood::OtherFrames),
            kind::CONTINUATION => self.continuation(head),
            // Of those there are few: as many as may be open, twice a second.
            kind::RST_STREAM => {
                self.held.forget(head.stream);
                match self.streams.is_old(head.stream) {
                    true => self.spend(|guard| &mut guard.control, 1, Flood::Resets),
                    false => self.spend(|guard| &mut guard.resets, 1, Flood::Resets),
                }
            }
            kind::SETTINGS if head.has(flag::ACK) => {
                self.unacknowledged = self.unacknowledged.saturating_sub(1);
                self.acknowledged = true;
                self.spend(|guard| &mut guard.control, 1, Flood::Settings);
            }
            kind::SETTINGS => {
                self.has_settings = true;
                self.spend(|guard| &mut guard.control, SETTINGS_PRICE, Flood::Settings);
            }
            kind::WINDOW_UPDATE => self.spend(|guard| &mut guard.windows, 1, Flood::WindowUpdates),
            kind::PING => self.spend(|guard| &mut guard.control, 1, Flood::Pings),
            kind::PRIORITY | kind::PRIORITY_UPDATE => {
                self.spend(|guard| &mut guard.control, 1, Flood::Priorities);
            }
            _ => self.spend(|guard| &mut guard.control, 1, Flood::OtherFrames),
        }
        if head.ends_stream() && self.peer != Side::Downstream {
            self.answered();
        }
    }

    /// DATA of the peer, without its padding.
    fn data(&mut self, head: FrameHead, payload: u32) {
        if payload >= WORTHWHILE {
            self.control.give(1);
        } else if payload == 0 {
            self.incoming.empty_data =
                self.incoming.empty_data.saturating_add(u32::from(!head.ends_stream()));
            self.spend(|guard| &mut guard.control, 1, Flood::EmptyData);
        } else if !head.ends_stream() {
            self.notes.push(Note::Crumb { stream: head.stream });
        }
    }

    /// A field section has gone by whole.
    fn section_ends(&mut self) {
        let Incoming { block, headers, is_first, .. } = self.incoming;
        let (seen, stream) = (block.seen(), headers.stream);
        if self.peer == Side::Downstream && is_first && seen.has_fragment {
            self.fragments.push(stream);
        }
        // The first section of an endpoint may be a whole response.
        if seen.has_pseudo && headers.ends_stream() && !(self.peer == Side::Downstream && is_first) {
            self.notes.push(Note::PseudoAtEnd { stream });
        }
    }

    /// A field section begins. A request's is bounded by the number of streams; further ones of a stream have
    /// a price, and so have a response's, of which there may be many.
    fn section(&mut self, head: FrameHead) {
        let is_first = self.peer == Side::Downstream && self.streams.opens(head.stream, self.now_ms);
        if !is_first {
            self.spend(|guard| &mut guard.control, 1, Flood::Headers);
        }
        (self.incoming.headers, self.incoming.is_first) = (head, is_first);
        self.incoming.section_bytes = self.incoming.section_bytes.saturating_add(head.len);
        if head.has(flag::END_HEADERS) {
            self.incoming.head();
        } else {
            self.incoming.section = Some(Section { bytes: head.len as usize, continuations: 0 });
        }
    }

    fn continuation(&mut self, head: FrameHead) {
        let Some(mut section) = self.incoming.section.take() else {
            // The codec ends the connection.
            return self.spend(|guard| &mut guard.control, 1, Flood::OtherFrames);
        };
        section.bytes = section.bytes.saturating_add(head.len as usize);
        self.incoming.section_bytes = self.incoming.section_bytes.saturating_add(head.len);
        if section.bytes > self.block() {
            return self.flooded(Flood::FieldSection);
        }
        if head.has(flag::END_HEADERS) {
            return self.incoming.head();
        }
        section.continuations += 1;
        if section.continuations > self.continuations() {
            return self.flooded(Flood::Continuations);
        }
        self.incoming.section = Some(section);
    }

    /// Bytes that a field section may have before it is unpacked. An endpoint that goes a little too far loses the
    /// response, which the codec sees to, and not the others on its connection.
    fn block(&self) -> usize {
        let most = self.limits.max_head.saturating_add(limits::H2_BLOCK_SLACK);
        if self.peer == Side::Downstream { most } else { most.saturating_mul(4) }
    }

    /// CONTINUATION frames that a field section may have before the last one: a quarter more than the largest
    /// one fills.
    fn continuations(&self) -> u32 {
        let full = u32::try_from(self.block() / (16 * 1024)).unwrap_or(u32::MAX);
        full.saturating_add(full / 4).max(limits::H2_CONTINUATIONS)
    }

    /// A frame of this side goes out.
    fn credit(&mut self, head: FrameHead, sent: &mut Sent) {
        let peer_asks = self.peer == Side::Downstream;
        match head.kind {
            kind::DATA if head.len > 0 => {
                sent.payload += head.len as usize;
                self.held.wrote(head.stream, head.len as usize);
                if head.len < WORTHWHILE && self.cramped > 0 {
                    self.cramped -= 1;
                } else {
                    self.windows.give(WINDOWS_PER_DATA);
                    self.control.give(1);
                }
            }
            // What an endpoint resets was asked of it.
            kind::HEADERS if !peer_asks && self.streams.opens(head.stream, self.now_ms) => {
                self.resets.give(1);
                // The head of its response will be charged, and may be all that comes of it.
                self.control.give(1);
            }
            kind::RST_STREAM if head.len == 4 => {
                self.held.forget(head.stream);
                self.reset = Some((head.stream, 0));
            }
            kind::SETTINGS if !head.has(flag::ACK) => {
                self.unacknowledged = self.unacknowledged.saturating_add(1);
            }
            _ => {}
        }
        if head.ends_stream() && peer_asks {
            self.answered();
        }
    }

    /// This side reset a stream: whether for what the peer did.
    fn was_reset(&mut self, stream: u32, code: u32) -> bool {
        match code {
            // Frames that were under way when an early answer ended the stream, perhaps.
            // Or late frames of streams that this side has given up, which an endpoint cannot know.
            code::STREAM_CLOSED if self.closed == stream || self.peer != Side::Downstream => {
                self.spend(|guard| &mut guard.control, 1, Flood::ProvokedResets);
            }
            // Opened before the peer could know how many there may be.
            code::REFUSED_STREAM if !self.acknowledged => {
                self.spend(|guard| &mut guard.control, 1, Flood::ProvokedResets);
            }
            code::PROTOCOL_ERROR
            | code::FLOW_CONTROL_ERROR
            | code::FRAME_SIZE_ERROR
            | code::STREAM_CLOSED
            | code::REFUSED_STREAM => {
                self.spend(|guard| &mut guard.resets, 1, Flood::ProvokedResets);
            }
            _ => return false,
        }
        if code == code::STREAM_CLOSED {
            self.closed = stream;
        }
        true
    }

    /// A response went by whole.
    fn answered(&mut self) {
        self.resets.give(1);
        self.control.give(2);
    }

    fn spend(&mut self, budget: fn(&mut Self) -> &mut Bucket, price: u32, flood: Flood) {
        if !budget(self).take(price) {
            self.flooded(flood);
        }
    }

    fn flooded(&mut self, flood: Flood) {
        self.flood.get_or_insert(flood);
    }
}

impl Incoming {
    /// A field section is whole.
    fn head(&mut self) {
        self.closes = true;
        self.heads += 1;
        self.heads_left = self.heads_left.saturating_sub(1);
    }

    /// Why the gate is shut before the next frame, if it is. What follows heads at once goes with them: a reset that
    /// has come spares the exchange.
    fn stop(&self, next: Option<FrameHead>) -> Option<Stop> {
        let begins = |head: FrameHead| head.kind == kind::HEADERS;
        let between = self.left == 0 && self.section.is_none() && next.is_none_or(begins);
        let heads = self.heads >= limits::H2_HEADS_AT_ONCE || self.section_bytes >= limits::H2_BLOCK_AT_ONCE;
        if between && heads {
            return Some(Stop::Heads);
        }
        let spent = self.frames_left == 0 && self.left == 0 || self.heads_left == 0 && between;
        (self.bytes_left == 0 || spent).then_some(Stop::Turn)
    }
}

#[cfg(test)]
mod tests;
