//! As much of WebSocket (RFC 6455) as both ends need: the answer to a key, heads of frames, masks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// Appended to a key before it is digested (RFC 6455 §1.3).
const ACCEPT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// A final frame.
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Opcodes (RFC 6455 §5.2).
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;
/// The longest head of a frame without a mask.
const HEAD: usize = 10;

/// The value of `Sec-WebSocket-Accept` for one of `Sec-WebSocket-Key` (RFC 6455 §4.2.2).
pub(crate) fn accept(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(ACCEPT).finalize())
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) opcode: u8,
    pub(crate) mask: Option<[u8; 4]>,
    /// Bytes of the head, and of what follows it.
    pub(crate) head: usize,
    pub(crate) length: usize,
}

impl Head {
    /// Reads one; `None` when more bytes are needed.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let &[first, second, ref rest @ ..] = bytes else { return None };
        let (length, long) = match second & !MASKED {
            126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2),
            127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
            short => (u64::from(short), 0),
        };
        let masked = second & MASKED != 0;
        let mask = if masked { Some(*rest.get(long..)?.first_chunk()?) } else { None };
        let head = 2 + long + if masked { 4 } else { 0 };
        Some(Self { opcode: first & 0x0f, mask, head, length: usize::try_from(length).ok()? })
    }
}

/// Appends the head of a final frame.
pub(crate) fn write_head(out: &mut Vec<u8>, opcode: u8, length: usize, mask: Option<[u8; 4]>) {
    let (bytes, used) = head(opcode, length, mask.is_some());
    out.extend_from_slice(&bytes[..used]);
    out.extend_from_slice(mask.as_ref().map_or(&[], |mask| mask.as_slice()));
}

/// The head of a final frame without its mask, and how many bytes of it count.
pub(crate) fn head(opcode: u8, length: usize, masked: bool) -> ([u8; HEAD], usize) {
    let (mut bytes, bit) = ([0; HEAD], if masked { MASKED } else { 0 });
    bytes[0] = FINAL | opcode;
    match length {
        // The arms say that it fits.
        0..126 => {
            bytes[1] = bit | length as u8;
            (bytes, 2)
        }
        126..0x1_0000 => {
            bytes[1] = bit | 126;
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            (bytes, 4)
        }
        _ => {
            bytes[1] = bit | 127;
            bytes[2..].copy_from_slice(&(length as u64).to_be_bytes());
            (bytes, HEAD)
        }
    }
}

/// Masks or unmasks (RFC 6455 §5.3).
pub(crate) fn apply(mask: [u8; 4], bytes: &mut [u8]) {
    let [a, b, c, d] = mask;
    let eight = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ eight).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_rfc_is_accepted_as_there() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn heads_of_every_length_come_back() {
        for length in [0, 125, 126, 1024, 0xffff, 0x1_0000] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let mut bytes = Vec::new();
                write_head(&mut bytes, BINARY, length, mask);
                let whole = Head { opcode: BINARY, mask, head: bytes.len(), length };
                assert_eq!(Head::read(&bytes), Some(whole));
                for part in 0..bytes.len() {
                    assert_eq!(Head::read(&bytes[..part]), None, "{part} of {length}");
                }
            }
        }
    }

    #[test]
    fn the_masked_hello_of_the_rfc_is_unmasked() {
        let mut text = [0x7f, 0x9f, 0x4d, 0x51, 0x58];
        apply([0x37, 0xfa, 0x21, 0x3d], &mut text);
        assert_eq!(&text, b"Hello");
        let mut long: Vec<u8> = (0..21).collect();
        apply([1, 2, 3, 4], &mut long);
        assert!(long.iter().zip(0_u8..).all(|(byte, i)| *byte == i ^ (i % 4 + 1)));
    }
}
