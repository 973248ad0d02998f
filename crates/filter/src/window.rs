//! The window of a compressed stream, as its first bytes say it.

/// What is known of a stream from its beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Window {
    /// So many bytes.
    Bytes(u64),
    /// More bytes of it have to come first.
    Later,
    /// It is no such stream: the decoder finds out.
    Unknown,
}

/// The window of a stream of br (RFC 7932 §9.1).
pub(crate) fn of_br(input: &[u8]) -> Window {
    let Some(&first) = input.first() else { return Window::Later };
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, more @ 1.., _) => 17 + u32::from(more),
        (_, 0, 0) => 17,
        // Large windows, an extension.
        (_, 0, 1) => return Window::Bytes(u64::MAX),
        (_, 0, less) => 8 + u32::from(less),
    };
    Window::Bytes(1 << bits)
}

/// The window of a frame of zstd (RFC 8878 §3.1.1); one that is skipped has none.
pub(crate) fn of_zstd(input: &[u8]) -> Window {
    let Some((magic, rest)) = input.split_first_chunk::<4>() else { return Window::Later };
    match u32::from_le_bytes(*magic) {
        0xFD2F_B528 => {}
        0x184D_2A50..=0x184D_2A5F => return Window::Bytes(0),
        _ => return Window::Unknown,
    }
    let Some((&descriptor, rest)) = rest.split_first() else { return Window::Later };
    if descriptor & 0x20 == 0 {
        let Some(&window) = rest.first() else { return Window::Later };
        let base = 1_u64 << (10 + (window >> 3));
        return Window::Bytes(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: the window is the content.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = 1 << (descriptor >> 6);
    let Some(field) = rest.get(dictionary..dictionary + length) else { return Window::Later };
    let size = field.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Window::Bytes(if length == 2 { size + 256 } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn windows_of_br_are_those_that_were_asked_for() {
        for bits in 10..=24 {
            let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 5, bits);
            writer.write_all(&vec![7; 100_000]).unwrap();
            let body = writer.into_inner();
            let Window::Bytes(bytes) = of_br(&body) else { panic!("{bits}") };
            assert!(bytes == 1 << bits, "{bits} {bytes}");
        }
        assert_eq!(of_br(b""), Window::Later);
        assert_eq!(of_br(b"\x11"), Window::Bytes(u64::MAX));
    }

    #[test]
    fn windows_of_zstd_are_those_that_were_asked_for() {
        for bits in 10..=27 {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
            encoder.window_log(bits).unwrap();
            encoder.write_all(&vec![7; 100_000]).unwrap();
            let body = encoder.finish().unwrap();
            assert_eq!(of_zstd(&body), Window::Bytes(1 << bits), "{bits}");
            for cut in 0..6 {
                assert_eq!(of_zstd(&body[..cut]), Window::Later, "{cut}");
            }
        }
        for length in [0, 100, 255, 256, 65_535, 66_000, 300_000] {
            let body = zstd::bulk::compress(&vec![7; length], 3).unwrap();
            let Window::Bytes(bytes) = of_zstd(&body) else { panic!("{length}") };
            assert!(bytes >= length as u64 && bytes <= (length as u64).max(1024) * 2, "{length} {bytes}");
        }
        assert_eq!(of_zstd(b"\x50\x2a\x4d\x18rest"), Window::Bytes(0));
        assert_eq!(of_zstd(b"what is this"), Window::Unknown);
    }
}
