//! What a compressed field section says that the codec does not pass on (RFC 7541): whether it has pseudo-fields, and
//! whether a `:path` has a `#`.
//!
//! Used by the block reader. Nothing is unpacked: of the dynamic table three bits per entry are kept, for an entry is
//! named by its age alone. Names of entries that the codec has dropped break the format, and end the connection there.

/// `:path` in the code of HPACK. The code of a text is unique.
const PACKED_PATH: [u8; 4] = [0xb9, 0x58, 0xd3, 0x3f];
/// Entries of the static table (RFC 7541, Appendix A), which begins with the pseudo-fields; those of `:path` among
/// them.
const STATIC: u32 = 61;
const STATIC_PSEUDO: u32 = 14;
const STATIC_PATHS: std::ops::RangeInclusive<u32> = 4..=5;
/// Bytes of a name that tell what it is, and one more.
const START: usize = 6;

/// What the name of a field is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Name {
    #[default]
    Other,
    Pseudo,
    Path,
}

/// What was seen in a field section.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen {
    /// It has a pseudo-field.
    pub(super) has_pseudo: bool,
    /// It has a `:path` with a `#`, which the codec cuts off with all behind it.
    pub(super) has_fragment: bool,
}

/// What is known of the entries of the dynamic table: a bit each, the newest is the lowest. A table of 4,096 bytes has
/// at most 128.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    pseudo: u128,
    paths: u128,
    fragments: u128,
}

impl Table {
    fn insert(&mut self, name: Name, has_fragment: bool) {
        let push = |bits: u128, bit: bool| bits << 1 | u128::from(bit);
        self.pseudo = push(self.pseudo, name != Name::Other);
        self.paths = push(self.paths, name == Name::Path);
        self.fragments = push(self.fragments, has_fragment);
    }

    /// The name of an entry, and whether its value is a path with a `#`.
    fn entry(&self, index: u32) -> (Name, bool) {
        let Some(age) = index.checked_sub(STATIC + 1) else {
            let name = match index {
                _ if STATIC_PATHS.contains(&index) => Name::Path,
                1..=STATIC_PSEUDO => Name::Pseudo,
                _ => Name::Other,
            };
            return (name, false);
        };
        let has = |bits: u128| bits.checked_shr(age).is_some_and(|bits| bits & 1 == 1);
        let name = match (has(self.paths), has(self.pseudo)) {
            (true, _) => Name::Path,
            (false, true) => Name::Pseudo,
            (false, false) => Name::Other,
        };
        (name, has(self.fragments))
    }
}

/// The form of a representation (RFC 7541 §6).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Form {
    /// An entry as it is.
    Entry,
    /// A literal that becomes an entry.
    Kept,
    /// Any other literal.
    #[default]
    Literal,
    /// A size of the table.
    Size,
}

/// The field that goes by, and what is known of all before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    table: Table,
    seen: Seen,
    form: Form,
    name: Name,
    has_fragment: bool,
    /// How the string that goes by begins, and how many bytes of it have gone, up to [`START`].
    start: [u8; START],
    have: usize,
    is_packed: bool,
    packed: Packed,
}

impl Fields {
    /// A field section begins.
    pub(super) fn begin(&mut self) {
        self.seen = Seen::default();
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// The first byte of a representation: the bits of its number, and the strings behind it where the number is 0, and
    /// where not.
    pub(super) fn first(&mut self, byte: u8) -> (u8, u8, u8) {
        let (form, bits, new, known) = match byte {
            0x80.. => (Form::Entry, 0x7f, 0, 0),
            0x40.. => (Form::Kept, 0x3f, 2, 1),
            0x20.. => (Form::Size, 0x1f, 0, 0),
            _ => (Form::Literal, 0x0f, 2, 1),
        };
        (self.form, self.name, self.has_fragment) = (form, Name::Other, false);
        (bits, new, known)
    }

    /// The number of a representation.
    pub(super) fn number(&mut self, number: u32) {
        match self.form {
            Form::Entry => {
                let (name, has_fragment) = self.table.entry(number);
                self.see(name, has_fragment);
            }
            Form::Kept | Form::Literal => self.name = self.table.entry(number).0,
            Form::Size => {}
        }
    }

    /// A string begins.
    pub(super) fn string(&mut self, is_packed: bool) {
        (self.have, self.is_packed, self.packed) = (0, is_packed, Packed::default());
    }

    /// Bytes of a name or a value.
    pub(super) fn text(&mut self, is_name: bool, bytes: &[u8]) {
        if is_name {
            let n = bytes.len().min(START - self.have);
            self.start[self.have..][..n].copy_from_slice(&bytes[..n]);
            self.have += n;
        } else if self.name == Name::Path && self.is_packed {
            self.packed.read(bytes);
        } else if self.name == Name::Path {
            self.has_fragment |= memchr::memchr(b'#', bytes).is_some();
        }
    }

    /// A name or a value is whole.
    pub(super) fn string_ends(&mut self, is_name: bool) {
        if is_name {
            self.name = self.name_of(&self.start[..self.have]);
            return;
        }
        self.has_fragment |= self.name == Name::Path && self.is_packed && self.packed.end();
        if self.form == Form::Kept {
            self.table.insert(self.name, self.has_fragment);
        }
        self.see(self.name, self.has_fragment);
    }

    fn name_of(&self, start: &[u8]) -> Name {
        // `:` has a code of seven bits.
        let (path, is_pseudo): (&[u8], _) = match (self.is_packed, start.first()) {
            (true, first) => (&PACKED_PATH, first.is_some_and(|byte| byte & 0xfe == 0xb8)),
            (false, first) => (b":path", first == Some(&b':')),
        };
        match is_pseudo {
            true if start == path => Name::Path,
            true => Name::Pseudo,
            false => Name::Other,
        }
    }

    fn see(&mut self, name: Name, has_fragment: bool) {
        self.seen.has_pseudo |= name != Name::Other;
        self.seen.has_fragment |= has_fragment;
    }
}

/// Looks for `#` in a text in the code of HPACK (RFC 7541, Appendix B), in any pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    /// Bits that are not read, from the highest on, and how many there are.
    bits: u64,
    len: u32,
    found: bool,
}

/// Bits of the longest code.
const LONGEST: u32 = 30;
/// The code of `#`, twelve bits.
const HASH: u64 = 0xffa;
/// Codes are ordered by length: those below each bound, read as 32 bits, have so many.
const LENGTHS: [(u32, u32); 20] = [
    (0x5000_0000, 5),
    (0xb800_0000, 6),
    (0xf800_0000, 7),
    (0xfe00_0000, 8),
    (0xff40_0000, 10),
    (0xffa0_0000, 11),
    (0xffc0_0000, 12),
    (0xfff0_0000, 13),
    (0xfff8_0000, 14),
    (0xfffe_0000, 15),
    (0xfffe_6000, 19),
    (0xfffe_e000, 20),
    (0xffff_4800, 21),
    (0xffff_b000, 22),
    (0xffff_ea00, 23),
    (0xffff_f600, 24),
    (0xffff_f800, 25),
    (0xffff_fbc0, 26),
    (0xffff_fe20, 27),
    (0xffff_fff0, 28),
];

impl Packed {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.bits |= u64::from(*byte) << (56 - self.len);
            self.len += 8;
            while self.len >= LONGEST {
                self.step();
            }
        }
    }

    /// Nothing comes behind it: whether it has one.
    fn end(&mut self) -> bool {
        while self.length() <= self.len {
            self.step();
        }
        self.found
    }

    /// Bits of the next code.
    fn length(&self) -> u32 {
        let next = (self.bits >> 32) as u32;
        LENGTHS.iter().find(|(bound, _)| next < *bound).map_or(LONGEST, |(_, length)| *length)
    }

    fn step(&mut self) {
        let length = self.length();
        self.found |= length == 12 && self.bits >> 52 == HASH;
        self.bits <<= length;
        self.len -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of RFC 7541, Appendix B, with their lengths.
    const CODES: [(u8, u32, u32); 18] = [
        (b'#', 0xffa, 12),
        (b'>', 0xffb, 12),
        (b'/', 0x18, 6),
        (b'0', 0x0, 5),
        (b'a', 0x3, 5),
        (b'b', 0x23, 6),
        (b'j', 0x74, 7),
        (b'z', 0x7b, 7),
        (b'Z', 0xfd, 8),
        (b'&', 0xf8, 8),
        (b'?', 0x3fc, 10),
        (b'+', 0x7fb, 11),
        (b'~', 0x1ffd, 13),
        (b'^', 0x3ffc, 14),
        (b'{', 0x7ffe, 15),
        (b'\\', 0x7fff0, 19),
        (0x80, 0xf_ffe6, 20),
        (b'\n', 0x3fff_fffc, 30),
    ];

    fn pack(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for byte in text {
            let (_, code, length) = CODES.iter().find(|(known, ..)| known == byte).unwrap();
            bits.extend((0..*length).rev().map(|at| code >> at & 1));
        }
        bits.resize(bits.len().next_multiple_of(8), 1);
        bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | *bit as u8)).collect()
    }

    #[test]
    fn a_packed_text_has_a_hash_where_one_was_packed() {
        let known: Vec<u8> = CODES.iter().map(|(byte, ..)| *byte).collect();
        let mut random = 1_u64;
        for _ in 0..5000 {
            let text: Vec<u8> = (0..random % 12)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    known[(random >> 40) as usize % known.len()]
                })
                .collect();
            random = random.wrapping_add(1);
            for piece in [1, 2, 64] {
                let mut packed = Packed::default();
                pack(&text).chunks(piece).for_each(|bytes| packed.read(bytes));
                assert_eq!(packed.end(), text.contains(&b'#'), "{text:?}");
            }
        }
    }

    #[test]
    fn an_entry_that_is_too_old_is_nothing() {
        let mut table = Table::default();
        table.insert(Name::Path, true);
        assert_eq!(table.entry(62), (Name::Path, true));
        (0..127).for_each(|_| table.insert(Name::Other, false));
        assert_eq!(table.entry(62 + 127), (Name::Path, true));
        table.insert(Name::Pseudo, false);
        assert_eq!((table.entry(62), table.entry(62 + 128)), ((Name::Pseudo, false), (Name::Other, false)));
        assert_eq!(table.entry(u32::MAX), (Name::Other, false));
    }
}
