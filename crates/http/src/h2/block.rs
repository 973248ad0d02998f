//! How many fields a compressed field section has, without what they are (RFC 7541 §6).
//!
//! A field that has been put into the table takes a byte to name again, so that a block of 16 KiB unpacks to 16,000 of them:
//! that must be known before anybody unpacks it. What breaks the format breaks it for the codec too, and is its business.

use super::frame::{FrameHead, flag};

/// The field section whose frames go by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// Bytes of this frame before its part of the block: the length of the padding, the priority.
    before: u32,
    /// The first of them is the length of the padding.
    is_padded: bool,
    /// Bytes of the block that are to come in this frame.
    left: u32,
    fields: u32,
    at: At,
}

/// What the next byte of a block is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum At {
    /// The first of a representation.
    #[default]
    Field,
    /// One more of the number of an entry, or of a table's size, behind which so many strings come.
    Number { strings: u8 },
    /// The first of a string's length; with this one, so many strings come.
    Length { strings: u8 },
    /// One more of a string's length.
    Longer { strings: u8, length: u32, shift: u32 },
    /// So many bytes of a string, behind which so many strings come.
    Text { strings: u8, left: u32 },
}

impl At {
    fn string(strings: u8) -> Self {
        if strings == 0 { Self::Field } else { Self::Length { strings } }
    }

    fn text(strings: u8, left: u32) -> Self {
        if left == 0 { Self::string(strings) } else { Self::Text { strings, left } }
    }
}

impl Block {
    /// HEADERS: a field section begins.
    pub(super) fn begin(&mut self, head: FrameHead) {
        let is_padded = head.has(flag::PADDED);
        let before = u32::from(is_padded) + if head.has(flag::PRIORITY) { 5 } else { 0 };
        *self = Self { before, is_padded, left: head.len.saturating_sub(before), ..Self::default() };
    }

    /// CONTINUATION.
    pub(super) fn go_on(&mut self, head: FrameHead) {
        (self.before, self.left) = (0, head.len);
    }

    /// Any other frame.
    pub(super) fn end(&mut self) {
        (self.before, self.left) = (0, 0);
    }

    /// Fields that have begun.
    pub(super) fn fields(&self) -> u32 {
        self.fields
    }

    /// Payload of the frame goes by, in any pieces.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(self.before as usize);
        if n > 0 && std::mem::take(&mut self.is_padded) {
            self.left = self.left.saturating_sub(u32::from(bytes[0]));
        }
        self.before -= n as u32;
        let bytes = &bytes[n..];
        let n = bytes.len().min(self.left as usize);
        self.left -= n as u32;
        self.count(&bytes[..n]);
    }

    fn count(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let At::Text { strings, left } = self.at {
                let n = bytes.len().min(left as usize);
                self.at = At::text(strings, left - n as u32);
                bytes = &bytes[n..];
                continue;
            }
            bytes = rest;
            self.at = match self.at {
                At::Field => {
                    self.fields += 1;
                    first(byte)
                }
                At::Number { strings } if byte & 0x80 == 0 => At::string(strings),
                At::Number { .. } => self.at,
                At::Length { strings } if byte & 0x7f == 0x7f => {
                    At::Longer { strings: strings - 1, length: 0x7f, shift: 0 }
                }
                At::Length { strings } => At::text(strings - 1, u32::from(byte & 0x7f)),
                At::Longer { strings, length, shift } => {
                    let more = u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(u32::MAX);
                    let (length, shift) = (length.saturating_add(more), shift.saturating_add(7));
                    match byte & 0x80 {
                        0 => At::text(strings, length),
                        _ => At::Longer { strings, length, shift },
                    }
                }
                At::Text { .. } => self.at,
            };
        }
    }
}

/// What follows the first byte of a representation.
fn first(byte: u8) -> At {
    // The bits of its number, and whether it has a value.
    let (bits, value) = match byte {
        0x80.. => (0x7f, 0),
        0x40.. => (0x3f, 1),
        0x20.. => (0x1f, 0),
        _ => (0x0f, 1),
    };
    // A literal whose name has no number brings its name too.
    let strings = if byte & bits == 0 { value * 2 } else { value };
    if byte & bits == bits { At::Number { strings } } else { At::string(strings) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frame::kind;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A number behind the first bits of a byte (RFC 7541 §5.1).
    fn number(first: u8, bits: u32, number: u32) -> Vec<u8> {
        let most = (1 << bits) - 1;
        if number < most {
            return vec![first | number as u8];
        }
        let (mut bytes, mut left) = (vec![first | most as u8], number - most);
        while left >= 0x80 {
            bytes.push(0x80 | (left & 0x7f) as u8);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    fn string(text: &[u8], packed: bool) -> Vec<u8> {
        [&number(u8::from(packed) << 7, 7, text.len() as u32)[..], text].concat()
    }

    fn any_string() -> impl Strategy<Value = Vec<u8>> {
        (vec(any::<u8>(), 0..300), any::<bool>()).prop_map(|(text, packed)| string(&text, packed))
    }

    fn any_field() -> impl Strategy<Value = Vec<u8>> {
        let literal = || (prop_oneof![Just((0x40, 6)), Just((0, 4)), Just((0x10, 4))], any_string());
        prop_oneof![
            (1..5000_u32).prop_map(|at| number(0x80, 7, at)),
            (0..5000_u32).prop_map(|size| number(0x20, 5, size)),
            (1..5000_u32, literal()).prop_map(|(at, ((first, bits), value))| [
                number(first, bits, at),
                value
            ]
            .concat()),
            (any_string(), literal())
                .prop_map(|(name, ((first, _), value))| [&[first][..], &name, &value].concat()),
        ]
    }

    proptest! {
        /// However they are written, wherever frames and what is received of them are cut.
        #[test]
        fn fields_are_counted(
            fields in vec(any_field(), 0..40),
            (padding, priority) in (proptest::option::of(any::<u8>()), any::<bool>()),
            (frame, piece) in (1..400_usize, 1..400_usize),
        ) {
            let whole = fields.concat();
            let mut frames = whole.chunks(frame);
            let first = frames.next().unwrap_or_default();
            let payload = [
                padding.map(|length| vec![length]).unwrap_or_default(),
                vec![0x40; if priority { 5 } else { 0 }],
                first.to_vec(),
                vec![0x82; usize::from(padding.unwrap_or(0))],
            ].concat();
            let flags = if padding.is_some() { flag::PADDED } else { 0 }
                | if priority { flag::PRIORITY } else { 0 };
            let head = |kind, len: usize, flags| FrameHead { len: len as u32, kind, flags, stream: 1 };
            let mut block = Block::default();
            block.begin(head(kind::HEADERS, payload.len(), flags));
            payload.chunks(piece).for_each(|piece| block.read(piece));
            for part in frames {
                block.go_on(head(kind::CONTINUATION, part.len(), 0));
                part.chunks(piece).for_each(|piece| block.read(piece));
            }
            prop_assert_eq!(block.fields(), fields.len() as u32);
        }

        #[test]
        fn nothing_that_breaks_the_format_breaks_it(
            flags in any::<u8>(),
            len in 0..100_u32,
            bytes in vec(any::<u8>(), 0..200),
        ) {
            let mut block = Block::default();
            block.begin(FrameHead { len, kind: kind::HEADERS, flags, stream: 1 });
            block.read(&bytes);
            prop_assert!(block.fields() <= len);
        }
    }
}
