//! Decoders of content codings (RFC 9110 §8.4.1): gzip, deflate, br and zstd, as stages of a transform.
//!
//! Memory is bounded by the windows: 32 KiB for gzip and deflate, 16 MiB for br (RFC 7932 §9.1), 8 MiB for zstd (RFC
//! 9659); a br stream with the large windows of its extension, and a zstd frame with more, are refused. What stands
//! behind the end is refused, but for further members of gzip (RFC 1952 §2.2) and frames of zstd. A body without a byte
//! is empty in every coding.

use crate::stages::{PIECE, Stage, Step};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use flate2::{Decompress, FlushDecompress, Status};
use std::fmt;
use thalweg_core::Fault;
use zstd::stream::raw::{DParameter, Operation};

/// The largest window of a zstd frame, as a power of two.
const ZSTD_WINDOW: u32 = 23;
/// The window of gzip, as a power of two.
const GZIP_WINDOW: u8 = 15;

/// A coding that can be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Br,
    Zstd,
}

impl Coding {
    /// The coding of this name, as it stands in `Content-Encoding`.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        const NAMES: &[(&[u8], Coding)] = &[
            (b"gzip", Coding::Gzip),
            (b"x-gzip", Coding::Gzip),
            (b"deflate", Coding::Deflate),
            (b"br", Coding::Br),
            (b"zstd", Coding::Zstd),
        ];
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, coding)| *coding)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Br => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// The state of `br`.
type Br = BrotliState<HeapAlloc<u8>, HeapAlloc<u32>, HeapAlloc<HuffmanCode>>;

enum Engine {
    Gzip(Decompress),
    /// Of which the first bytes say whether it is the format of zlib, as it should be (RFC 9110 §8.4.1.2), or bare, as
    /// some send it.
    Deflate(Option<Decompress>),
    Br(Box<Br>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

/// What an engine has done.
struct Run {
    taken: usize,
    made: usize,
    /// The stream, member or frame is complete.
    ended: bool,
}

/// Decodes one coding.
pub(crate) struct Decoder {
    engine: Engine,
    /// Why the message breaks off when it is damaged.
    fault: Fault,
    /// Something was taken since the beginning, or since the last member or frame.
    is_inside: bool,
    /// The stream is complete: nothing may come behind it.
    is_over: bool,
    /// The last piece was full: there may be more of it.
    is_full: bool,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// A decoder of one body.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn new(coding: Coding, fault: Fault) -> Result<Self, Fault> {
        let engine = match coding {
            Coding::Gzip => Engine::Gzip(Decompress::new_gzip(GZIP_WINDOW)),
            Coding::Deflate => Engine::Deflate(None),
            Coding::Br => Engine::Br(Box::new(BrotliState::new_strict(
                HeapAlloc::new(0),
                HeapAlloc::new(0),
                HeapAlloc::new(HuffmanCode::default()),
            ))),
            Coding::Zstd => {
                let mut decoder = zstd::stream::raw::Decoder::new().map_err(|_| fault)?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW)).map_err(|_| fault)?;
                Engine::Zstd(decoder)
            }
        };
        Ok(Self { engine, fault, is_inside: false, is_over: false, is_full: false })
    }

    /// Takes note of what the engine has done; what it needs before it can go on.
    fn note(&mut self, run: &Run, input: &[u8]) -> Result<Step, Fault> {
        self.is_inside |= run.taken > 0;
        self.is_full = run.made == PIECE;
        if run.ended {
            (self.is_inside, self.is_full) = (false, false);
            match &mut self.engine {
                Engine::Gzip(engine) => engine.reset(true),
                Engine::Zstd(_) => {}
                Engine::Deflate(_) | Engine::Br(_) => self.is_over = true,
            }
        } else if run.taken == 0 && run.made == 0 && !input.is_empty() {
            // It neither goes on nor says why.
            return Err(self.fault);
        }
        Ok(Step { taken: run.taken, has_more: self.is_full || run.taken < input.len() })
    }
}

impl Stage for Decoder {
    fn step(&mut self, input: &[u8], is_all: bool, out: &mut Vec<u8>) -> Result<Step, Fault> {
        if input.is_empty() && !self.is_full {
            let is_cut = is_all && self.is_inside;
            return if is_cut { Err(self.fault) } else { Ok(Step { taken: 0, has_more: false }) };
        }
        if self.is_over {
            return Err(self.fault);
        }
        if let Engine::Deflate(engine @ None) = &mut self.engine {
            let &[first, second, ..] = input else {
                return if is_all { Err(self.fault) } else { Ok(Step { taken: 0, has_more: false }) };
            };
            // RFC 1950 §2.2: the method is 8, and both bytes are a multiple of 31.
            let is_zlib = first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
            *engine = Some(Decompress::new(is_zlib));
        }
        let from = out.len();
        out.resize(from + PIECE, 0);
        let run = run(&mut self.engine, input, &mut out[from..]).ok_or(self.fault)?;
        out.truncate(from + run.made);
        let step = self.note(&run, input)?;
        if is_all && !step.has_more && self.is_inside && step.taken == input.len() {
            return Err(self.fault);
        }
        Ok(step)
    }
}

/// Lets an engine fill `out`; `None`: its input is damaged.
fn run(engine: &mut Engine, input: &[u8], out: &mut [u8]) -> Option<Run> {
    match engine {
        Engine::Gzip(engine) | Engine::Deflate(Some(engine)) => {
            let before = (engine.total_in(), engine.total_out());
            let status = engine.decompress(input, out, FlushDecompress::None).ok()?;
            Some(Run {
                taken: usize::try_from(engine.total_in() - before.0).ok()?,
                made: usize::try_from(engine.total_out() - before.1).ok()?,
                ended: status == Status::StreamEnd,
            })
        }
        Engine::Deflate(None) => None,
        Engine::Br(state) => {
            let (mut left, mut taken, mut room, mut made, mut total) = (input.len(), 0, out.len(), 0, 0);
            let result = BrotliDecompressStream(
                &mut left, &mut taken, input, &mut room, &mut made, out, &mut total, state,
            );
            let ended = match result {
                BrotliResult::ResultFailure => return None,
                BrotliResult::ResultSuccess => true,
                BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
            };
            Some(Run { taken, made, ended })
        }
        Engine::Zstd(decoder) => {
            let status = decoder.run_on_buffers(input, out).ok()?;
            Some(Run { taken: status.bytes_read, made: status.bytes_written, ended: status.remaining == 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::tests::run;
    use crate::stages::{Bound, Stages};
    use std::io::Write;

    const DAMAGED: Fault = Fault::request(400, "damaged");

    pub(super) fn encoded(coding: Coding, text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::new(6);
        match coding {
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Br => {
                let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
                writer.write_all(text).unwrap();
                writer.into_inner()
            }
            Coding::Zstd => zstd::encode_all(text, 3).unwrap(),
        }
    }

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Br, Coding::Zstd];

    fn decode(codings: &[Coding], body: &[u8], piece: usize) -> Result<Vec<u8>, Fault> {
        let bound = Bound { free: u64::MAX, ratio: 1, most: u64::MAX, fault: DAMAGED };
        let decoders = codings.iter().map(|coding| Box::new(Decoder::new(*coding, DAMAGED).unwrap()) as _);
        run(&mut Stages::new(decoders, bound), body, std::iter::repeat(piece))
    }

    fn text() -> Vec<u8> {
        let lines = (0..1_500_u32).map(|line| format!("line {line} {}\n", line.wrapping_mul(2_654_435_761)));
        lines.collect::<String>().into_bytes()
    }

    #[test]
    fn every_coding_comes_back_whole_however_it_is_cut() {
        let text = text();
        for coding in ALL {
            let body = encoded(coding, &text);
            for piece in [1, 2, 7, 1000, usize::MAX] {
                assert!(decode(&[coding], &body, piece).unwrap() == text, "{coding:?} {piece}");
            }
            assert_eq!(decode(&[coding], b"", 1).unwrap(), b"", "{coding:?}");
        }
        for (inner, outer) in [(Coding::Gzip, Coding::Br), (Coding::Zstd, Coding::Gzip)] {
            let body = encoded(outer, &encoded(inner, &text));
            assert!(decode(&[outer, inner], &body, 777).unwrap() == text, "{inner:?} in {outer:?}");
        }
    }

    #[test]
    fn much_comes_of_little_piece_by_piece() {
        let zeros = vec![0; 2 * 1024 * 1024];
        for coding in ALL {
            // The helper asserts that each call makes about as much as is enough.
            assert!(decode(&[coding], &encoded(coding, &zeros), usize::MAX).unwrap() == zeros, "{coding:?}");
        }
        let body = encoded(Coding::Gzip, &encoded(Coding::Gzip, &zeros));
        assert!(decode(&[Coding::Gzip; 2], &body, usize::MAX).unwrap() == zeros);
    }

    #[test]
    fn bodies_that_are_cut_or_changed_or_go_on_are_damaged() {
        let text = text();
        for coding in ALL {
            let body = encoded(coding, &text);
            for cut in [1, 2, 11, body.len() / 2, body.len() - 1] {
                assert_eq!(decode(&[coding], &body[..cut], 5), Err(DAMAGED), "{coding:?} {cut}");
            }
            let behind = [&body[..], b"trash behind it"].concat();
            assert_eq!(decode(&[coding], &behind, 100), Err(DAMAGED), "{coding:?}");
            assert_eq!(decode(&[coding], b"no coding at all, but words", 3), Err(DAMAGED), "{coding:?}");
        }
        let mut body = encoded(Coding::Gzip, &text);
        let at = body.len() - 6;
        body[at] ^= 1;
        assert_eq!(decode(&[Coding::Gzip], &body, 100), Err(DAMAGED), "its checksum");
    }

    #[test]
    fn members_and_frames_follow_each_other_and_bare_deflate_is_known() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let body = [encoded(coding, b"one "), encoded(coding, b""), encoded(coding, b"two")].concat();
            for piece in [1, 30, usize::MAX] {
                assert_eq!(decode(&[coding], &body, piece).unwrap(), b"one two", "{coding:?} {piece}");
            }
        }
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(&text()).unwrap();
        let body = encoder.finish().unwrap();
        assert!(decode(&[Coding::Deflate], &body, 1).unwrap() == text());
    }

    #[test]
    fn a_window_beyond_the_standard_is_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&text()).unwrap();
        encoder.flush().unwrap();
        encoder.write_all(&text()).unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(decode(&[Coding::Zstd], &body, 4096), Err(DAMAGED));
    }
}
