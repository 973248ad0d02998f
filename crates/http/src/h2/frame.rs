//! Frames from outside: the nine bytes before every payload, and where they stand in a stream of bytes
//! that comes in pieces (RFC 9113 §4.1).
//!
//! Used by the flood guard, which must know what goes by in both directions while the codec does the reading.
//! Nothing is copied but a head that is cut, and nothing is judged here.

/// Bytes of a frame before its payload.
pub const HEAD_LEN: usize = 9;
/// What a client sends before its first frame (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113 §6, RFC 9218 §7.1).
pub mod kind {
    /// Payload of a message.
    pub const DATA: u8 = 0;
    /// A field section, or the beginning of one.
    pub const HEADERS: u8 = 1;
    /// A priority, deprecated.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream before its time.
    pub const RST_STREAM: u8 = 3;
    /// Settings of a peer.
    pub const SETTINGS: u8 = 4;
    /// A request that the server makes up.
    pub const PUSH_PROMISE: u8 = 5;
    /// A question after the round trip.
    pub const PING: u8 = 6;
    /// The end of the connection.
    pub const GOAWAY: u8 = 7;
    /// More room for payload.
    pub const WINDOW_UPDATE: u8 = 8;
    /// More of a field section.
    pub const CONTINUATION: u8 = 9;
    /// A priority as text.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags, each of which has a meaning for some types only.
pub mod flag {
    /// The last frame of a message: DATA, HEADERS.
    pub const END_STREAM: u8 = 0x1;
    /// An answer: SETTINGS, PING.
    pub const ACK: u8 = 0x1;
    /// The field section is whole: HEADERS, PUSH_PROMISE, CONTINUATION.
    pub const END_HEADERS: u8 = 0x4;
    /// The payload begins with the length of the padding at its end: DATA, HEADERS, PUSH_PROMISE.
    pub const PADDED: u8 = 0x8;
    /// The payload begins with a priority: HEADERS.
    pub const PRIORITY: u8 = 0x20;
}

/// Error codes of RST_STREAM and GOAWAY (RFC 9113 §7).
pub mod code {
    /// No error.
    pub const NO_ERROR: u32 = 0;
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// A fault on this side.
    pub const INTERNAL_ERROR: u32 = 2;
    /// The peer sent more than its window.
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    /// The peer did not acknowledge settings.
    pub const SETTINGS_TIMEOUT: u32 = 4;
    /// A frame for a stream whose end came already.
    pub const STREAM_CLOSED: u32 = 5;
    /// A frame of a length that its type does not have.
    pub const FRAME_SIZE_ERROR: u32 = 6;
    /// The stream was not looked at and may be opened again.
    pub const REFUSED_STREAM: u32 = 7;
    /// The stream is not needed any more.
    pub const CANCEL: u32 = 8;
    /// The compression's state is lost.
    pub const COMPRESSION_ERROR: u32 = 9;
    /// The tunnel broke.
    pub const CONNECT_ERROR: u32 = 10;
    /// The peer makes too much work.
    pub const ENHANCE_YOUR_CALM: u32 = 11;
    /// TLS is not good enough.
    pub const INADEQUATE_SECURITY: u32 = 12;
    /// HTTP/1.1 is asked for.
    pub const HTTP_1_1_REQUIRED: u32 = 13;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FrameHead {
    /// Bytes of payload, below 2^24.
    pub len: u32,
    /// The type, as in [`kind`]; unknown ones are to be ignored.
    pub kind: u8,
    /// The flags, as in [`flag`].
    pub flags: u8,
    /// The stream, below 2^31; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads a head. The reserved bit before the stream is ignored.
    #[inline]
    pub const fn read(bytes: &[u8; HEAD_LEN]) -> Self {
        let [a, b, c, kind, flags, s, t, u, v] = *bytes;
        Self {
            len: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s, t, u, v]) & 0x7fff_ffff,
        }
    }

    /// The head that the bytes begin with, if all of it is there.
    #[inline]
    pub fn first(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(Self::read)
    }

    /// The head as bytes. Of `len` the lower 24 bits are written, of `stream` the lower 31.
    pub const fn write(self) -> [u8; HEAD_LEN] {
        let [_, a, b, c] = self.len.to_be_bytes();
        let [s, t, u, v] = (self.stream & 0x7fff_ffff).to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    /// Whether the flag is set.
    #[inline]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether the frame ends the message of its stream.
    #[inline]
    pub const fn ends_stream(self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS) && self.has(flag::END_STREAM)
    }
}

/// What comes next in a stream of frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'a> {
    /// A frame begins.
    Head(FrameHead),
    /// Some of its payload.
    Payload {
        /// Bytes of the payload before these.
        at: u32,
        /// At least one.
        bytes: &'a [u8],
    },
}

/// Finds heads and payloads in bytes that come in pieces.
#[derive(Clone, Debug, Default)]
pub struct FrameReader {
    /// A head of which `have` bytes have come.
    cut: [u8; HEAD_LEN],
    have: usize,
    /// Payload of the frame that goes by: how much there is in all, and how much is to come.
    len: u32,
    left: u32,
}

impl FrameReader {
    /// A reader before the first frame, with `skipped` bytes in front that belong to none (such as [`PREFACE`]);
    /// they are given as a payload.
    pub const fn after(skipped: u32) -> Self {
        Self { cut: [0; HEAD_LEN], have: 0, len: skipped, left: skipped }
    }

    /// The next piece, whose bytes are taken off the front; none when all bytes are taken.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        if self.left > 0 {
            let (bytes, at) = (take(bytes, self.left as usize)?, self.len - self.left);
            self.left -= bytes.len() as u32;
            return Some(Piece::Payload { at, bytes });
        }
        let head = if self.have == 0
            && let Some((whole, rest)) = bytes.split_first_chunk()
        {
            *bytes = rest;
            FrameHead::read(whole)
        } else {
            let part = take(bytes, HEAD_LEN - self.have)?;
            self.cut[self.have..][..part.len()].copy_from_slice(part);
            self.have += part.len();
            if self.have < HEAD_LEN {
                return None;
            }
            FrameHead::read(&self.cut)
        };
        (self.have, self.len, self.left) = (0, head.len, head.len);
        Some(Piece::Head(head))
    }
}

/// Takes up to `most` bytes off the front; none where there are none.
fn take<'a>(bytes: &mut &'a [u8], most: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    (!front.is_empty()).then_some(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_the_reserved_bit_is_ignored() {
        let head = FrameHead { len: 0x01_02_03, kind: 9, flags: 4, stream: 0x7fff_ffff };
        assert_eq!(head.write(), [1, 2, 3, 9, 4, 0x7f, 0xff, 0xff, 0xff]);
        let mut bytes = head.write();
        bytes[5] |= 0x80;
        assert_eq!(FrameHead::first(&bytes), Some(head));
        assert_eq!(FrameHead::first(&bytes[..8]), None);
    }

    #[test]
    fn only_messages_end_a_stream() {
        let ends = |kind| FrameHead { kind, flags: 1, ..FrameHead::default() }.ends_stream();
        assert!(ends(kind::DATA) && ends(kind::HEADERS));
        assert!(!ends(kind::SETTINGS) && !ends(kind::PING));
    }

    /// Heads and payloads of a stream, payloads joined.
    fn read(skipped: u32, pieces: &[&[u8]]) -> Vec<(Option<FrameHead>, Vec<u8>)> {
        let mut reader = FrameReader::after(skipped);
        let mut frames = vec![(None, Vec::new())];
        for piece in pieces {
            let mut rest = *piece;
            while let Some(piece) = reader.next(&mut rest) {
                match piece {
                    Piece::Head(head) => frames.push((Some(head), Vec::new())),
                    Piece::Payload { at, bytes } => {
                        let (_, payload) = frames.last_mut().unwrap();
                        assert_eq!((at as usize, bytes.is_empty()), (payload.len(), false));
                        payload.extend_from_slice(bytes);
                    }
                }
            }
            assert!(rest.is_empty());
        }
        frames
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            frames in prop::collection::vec((any::<u8>(), any::<u8>(), 0u32..0x8000_0000, 0usize..40), 0..12),
            mut ends in prop::collection::vec(0usize..600, 0..30),
        ) {
            let mut wire = PREFACE.to_vec();
            let mut expected = vec![(None, PREFACE.to_vec())];
            for (kind, flags, stream, len) in frames {
                let head = FrameHead { len: len as u32, kind, flags, stream };
                let payload: Vec<u8> = (0..len as u8).collect();
                wire.extend_from_slice(&head.write());
                wire.extend_from_slice(&payload);
                expected.push((Some(head), payload));
            }
            ends.push(wire.len());
            ends.iter_mut().for_each(|end| *end = (*end).min(wire.len()));
            ends.sort_unstable();
            let mut start = 0;
            let pieces: Vec<_> =
                ends.iter().map(|end| &wire[std::mem::replace(&mut start, *end)..*end]).collect();
            let single: Vec<_> = wire.chunks(1).collect();
            prop_assert_eq!(&read(24, &pieces), &expected);
            prop_assert_eq!(&read(24, &single), &expected);
        }
    }
}
