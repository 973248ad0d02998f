//! The text of a configuration that is kept for long and seldom read: packed, a tenth of its size.

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::io::{Read, Write};
use std::sync::Arc;

/// A text, packed. Texts are equal when their packed forms are: packing is deterministic.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Text {
    packed: Arc<[u8]>,
    len: usize,
}

impl Text {
    /// Bytes of the text.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that it takes.
    pub(crate) fn packed_len(&self) -> usize {
        self.packed.len()
    }

    /// The text as it was.
    pub(crate) fn unpack(&self) -> String {
        let mut text = String::with_capacity(self.len);
        // What was packed here can be unpacked.
        let read = ZlibDecoder::new(&*self.packed).read_to_string(&mut text);
        debug_assert!(read.is_ok(), "{read:?}");
        text
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        // The fast level of zlib-rs has fixed codes, which hardly pack a text that does not repeat itself.
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        // Writing to a Vec cannot fail.
        let packed = packer.write_all(text.as_bytes()).and_then(|()| packer.finish()).unwrap_or_default();
        Self { packed: packed.into(), len: text.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_as_it_was_and_takes_little() {
        for text in ["", "listeners: {}\n", "ü€\u{10348}\0", &"services: { s: {} }\n".repeat(10_000)] {
            let packed = Text::from(text);
            assert_eq!((packed.unpack().as_str(), packed.len()), (text, text.len()));
            assert_eq!(packed, Text::from(text));
            assert!(packed.packed_len() < 64 + text.len() / 10);
        }
        assert_ne!(Text::from("a"), Text::from("b"));
    }
}
