//! How many fields a compressed field section has, and what the codec does not tell of them (RFC 7541 §6).
//!
//! A field that has been put into the table takes a byte to name again, so that a block of 16 KiB unpacks to 16,000 of
//! them: that must be known before anybody unpacks it. What breaks the format breaks it for the codec too, and is its
//! business.

use super::frame::{FrameHead, flag};
use super::hpack::{Fields, Seen};

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
    field: Fields,
}

/// What the next byte of a block is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum At {
    /// The first of a representation.
    #[default]
    Field,
    /// One more of the number of an entry, or of a table's size, behind which so many strings come.
    Number { strings: u8, number: u32, shift: u32 },
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
}

/// One more byte of a number (RFC 7541 §5.1): the number, and the shift of the next byte.
fn longer(number: u32, shift: u32, byte: u8) -> (u32, u32) {
    let more = u32::from(byte & 0x7f);
    let more = if more == 0 { 0 } else { more.checked_shl(shift).unwrap_or(u32::MAX) };
    (number.saturating_add(more), shift.saturating_add(7))
}

impl Block {
    /// HEADERS: a field section begins.
    pub(super) fn begin(&mut self, head: FrameHead) {
        let is_padded = head.has(flag::PADDED);
        let before = u32::from(is_padded) + if head.has(flag::PRIORITY) { 5 } else { 0 };
        self.field.begin();
        *self = Self {
            before,
            is_padded,
            left: head.len.saturating_sub(before),
            field: self.field,
            ..Self::default()
        };
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

    /// What was seen in those that have gone by whole.
    pub(super) fn seen(&self) -> Seen {
        self.field.seen()
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
                self.field.text(strings == 1, &bytes[..n]);
                self.at = self.text(strings, left - n as u32);
                bytes = &bytes[n..];
                continue;
            }
            bytes = rest;
            self.at = match self.at {
                At::Field => {
                    self.fields += 1;
                    self.first(byte)
                }
                At::Number { strings, number, shift } => {
                    let (number, shift) = longer(number, shift, byte);
                    match byte & 0x80 {
                        0 => self.number(strings, number),
                        _ => At::Number { strings, number, shift },
                    }
                }
                At::Length { strings } => {
                    self.field.string(byte & 0x80 != 0);
                    match byte & 0x7f {
                        0x7f => At::Longer { strings: strings - 1, length: 0x7f, shift: 0 },
                        length => self.text(strings - 1, u32::from(length)),
                    }
                }
                At::Longer { strings, length, shift } => {
                    let (length, shift) = longer(length, shift, byte);
                    match byte & 0x80 {
                        0 => self.text(strings, length),
                        _ => At::Longer { strings, length, shift },
                    }
                }
                At::Text { .. } => self.at,
            };
        }
    }

    /// What follows the first byte of a representation.
    fn first(&mut self, byte: u8) -> At {
        let (bits, new, known) = self.field.first(byte);
        match byte & bits {
            // A literal whose name has no number brings its name too.
            0 => self.number(new, 0),
            number if number == bits => At::Number { strings: known, number: u32::from(bits), shift: 0 },
            number => self.number(known, u32::from(number)),
        }
    }

    /// What follows the number of a representation.
    fn number(&mut self, strings: u8, number: u32) -> At {
        self.field.number(number);
        At::string(strings)
    }

    /// What follows where so much of a string is left, behind which so many come.
    fn text(&mut self, strings: u8, left: u32) -> At {
        if left > 0 {
            return At::Text { strings, left };
        }
        self.field.string_ends(strings == 1);
        At::string(strings)
    }
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

    /// One that is no pseudo-field.
    fn any_other() -> impl Strategy<Value = Vec<u8>> {
        let literal = || (prop_oneof![Just((0x40, 6)), Just((0, 4)), Just((0x10, 4))], any_string());
        prop_oneof![
            (15..62_u32).prop_map(|at| number(0x80, 7, at)),
            (0..5000_u32).prop_map(|size| number(0x20, 5, size)),
            (15..62_u32, literal())
                .prop_map(|(at, ((first, bits), value))| [number(first, bits, at), value].concat()),
            literal().prop_map(|((first, _), value)| [&[first][..], &string(b"x-#", false), &value].concat()),
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

        /// However they are written, and wherever they are cut.
        #[test]
        fn a_hash_in_a_path_is_seen(
            (before, after) in (vec(any_other(), 0..130), vec(any_other(), 0..3)),
            (name, form) in (0..4_u8, prop_oneof![Just((0x40, 6)), Just((0, 4)), Just((0x10, 4))]),
            (has_hash, packed, again, piece) in (any::<bool>(), any::<bool>(), any::<bool>(), 1..40_usize),
        ) {
            let ((first, bits), mut whole) = (form, before.concat());
            match name {
                0 => whole.extend(number(first, bits, 4)),
                1 => whole.extend([vec![first], string(b":path", false)].concat()),
                2 => whole.extend([vec![first], string(&[0xb9, 0x58, 0xd3, 0x3f], true)].concat()),
                _ => {
                    // Put in with another value, and named as the newest but one.
                    whole.extend([&[0x44][..], &string(b"/", false), &[0x40], &string(b"x", false), &string(b"y", false)].concat());
                    whole.extend(number(first, bits, 63));
                }
            }
            // `/a#a`, `/a`.
            whole.extend(match (has_hash, packed) {
                (true, true) => string(&[0x60, 0x7f, 0xf4, 0x3f], true),
                (false, true) => string(&[0x60, 0x7f], true),
                (true, false) => string(b"/a#a", false),
                (false, false) => string(b"/a", false),
            });
            let mut block = Block::default();
            let read = |block: &mut Block, bytes: &[u8]| {
                let head = FrameHead { len: bytes.len() as u32, kind: kind::HEADERS, flags: 0, stream: 1 };
                block.begin(head);
                bytes.chunks(piece).for_each(|piece| block.read(piece));
                block.seen()
            };
            let whole = [whole, after.concat()].concat();
            prop_assert_eq!(read(&mut block, &whole), Seen { has_pseudo: true, has_fragment: has_hash });
            // As an entry of the table, by name and whole.
            let kept = after.iter().filter(|field| (0x40..0x80).contains(&field[0])).count() as u32;
            if again && first == 0x40 {
                let seen = read(&mut block, &number(0x80, 7, 62 + kept));
                prop_assert_eq!(seen, Seen { has_pseudo: true, has_fragment: has_hash });
            }
            prop_assert_eq!(read(&mut block, &[0x0f, 0x01, 0x01, b'#']), Seen::default(), "accept-encoding");
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
