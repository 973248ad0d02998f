//! Decoders of content codings (RFC 9110 §8.4.1): gzip, deflate, br and zstd, as stages of a transform.
//!
//! Memory is bounded by the windows: 32 KiB for gzip and deflate, 16 MiB for br (RFC 7932 §9.1), 8 MiB for zstd (RFC
//! 9659); a br stream with the large windows of its extension, and a zstd frame with more, are refused. The window that
//! a stream asks for is taken from what the decoders of the worker may hold together before it is there. What stands
//! behind the end is refused, but for further members of gzip (RFC 1952 §2.2) and frames of zstd. A body without a byte
//! is empty in every coding.

use crate::decoder_memory::{DecoderMemory, Held};
use crate::stages::{PIECE, Stage, Step};
use crate::window::{Window, of_br, of_zstd};
use brotli::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode, SliceWrapper,
};
use flate2::{Decompress, FlushDecompress, Status};
use std::fmt;
use std::rc::Rc;
use thalweg_core::Fault;
use zstd::stream::raw::{DParameter, Operation};

/// The largest window of a zstd frame, as a power of two.
const ZSTD_WINDOW: u32 = 23;
/// The window of gzip, as a power of two.
const GZIP_WINDOW: u8 = 15;
/// The largest window of br.
const BR_WINDOW: u64 = 1 << 24;
/// What every decoder holds: its state, and pieces of the body before and behind it.
const DECODER: usize = 128 * 1024;
/// What one of zstd holds beside its window: tables, and a block before and behind them.
const ZSTD_STATE: usize = 512 * 1024;

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

/// Memory of the heap that is counted.
struct Counted<T: Clone> {
    heap: HeapAlloc<T>,
    held: Rc<Held>,
}

impl<T: Clone> Counted<T> {
    fn new(value: T, held: &Rc<Held>) -> Self {
        Self { heap: HeapAlloc::new(value), held: held.clone() }
    }
}

impl<T: Clone> Allocator<T> for Counted<T> {
    type AllocatedMemory = <HeapAlloc<T> as Allocator<T>>::AllocatedMemory;

    fn alloc_cell(&mut self, length: usize) -> Self::AllocatedMemory {
        self.held.count(length * size_of::<T>());
        self.heap.alloc_cell(length)
    }

    fn free_cell(&mut self, data: Self::AllocatedMemory) {
        self.held.give(size_of_val(data.slice()));
        self.heap.free_cell(data);
    }
}

/// The state of `br`.
type Br = BrotliState<Counted<u8>, Counted<u32>, Counted<HuffmanCode>>;

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals {
    /// It is not what its coding says.
    pub(crate) damaged: Fault,
    /// It needs a larger window than the coding is decoded with.
    pub(crate) window: Fault,
    /// The decoders of the worker hold what they may.
    pub(crate) memory: Fault,
}

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
    refusals: Refusals,
    held: Rc<Held>,
    /// Bytes of `held` that are for the window of a frame of zstd.
    window: usize,
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
    pub(crate) fn new(
        coding: Coding,
        refusals: Refusals,
        memory: Option<Rc<DecoderMemory>>,
    ) -> Result<Self, Fault> {
        let held = Rc::new(Held::none_of(memory));
        if !held.take(DECODER + if coding == Coding::Zstd { ZSTD_STATE } else { 0 }) {
            return Err(refusals.memory);
        }
        let engine = match coding {
            Coding::Gzip => Engine::Gzip(Decompress::new_gzip(GZIP_WINDOW)),
            Coding::Deflate => Engine::Deflate(None),
            Coding::Br => Engine::Br(Box::new(BrotliState::new_strict(
                Counted::new(0, &held),
                Counted::new(0, &held),
                Counted::new(HuffmanCode::default(), &held),
            ))),
            Coding::Zstd => {
                let mut decoder = zstd::stream::raw::Decoder::new().map_err(|_| refusals.memory)?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW)).map_err(|_| refusals.memory)?;
                Engine::Zstd(decoder)
            }
        };
        let (is_inside, is_over, is_full) = (false, false, false);
        Ok(Self { engine, refusals, held, window: 0, is_inside, is_over, is_full })
    }

    /// Before a stream or frame: whether the window that it asks for may be had; `false`: more of it has to come first.
    fn begin(&mut self, input: &[u8]) -> Result<bool, Fault> {
        let (window, most) = match &self.engine {
            Engine::Br(_) => (of_br(input), BR_WINDOW),
            Engine::Zstd(_) => (of_zstd(input), 1 << ZSTD_WINDOW),
            Engine::Gzip(_) | Engine::Deflate(_) => return Ok(true),
        };
        let bytes = match window {
            Window::Later => return Ok(false),
            Window::Unknown => return Ok(true),
            Window::Bytes(bytes) if bytes > most => return Err(self.refusals.window),
            Window::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let more = bytes.saturating_sub(self.window);
        if !self.held.take(more) {
            return Err(self.refusals.memory);
        }
        match &self.engine {
            // It counts the window itself as it takes it.
            Engine::Br(_) => self.held.give(more),
            _ => self.window += more,
        }
        Ok(true)
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
            return Err(self.refusals.damaged);
        }
        Ok(Step { taken: run.taken, has_more: self.is_full || run.taken < input.len() })
    }
}

impl Stage for Decoder {
    fn step(&mut self, input: &[u8], is_all: bool, out: &mut Vec<u8>) -> Result<Step, Fault> {
        if input.is_empty() && !self.is_full {
            let is_cut = is_all && self.is_inside;
            return if is_cut { Err(self.refusals.damaged) } else { Ok(Step { taken: 0, has_more: false }) };
        }
        if self.is_over {
            return Err(self.refusals.damaged);
        }
        if !self.is_inside && !self.begin(input)? && !is_all {
            return Ok(Step { taken: 0, has_more: false });
        }
        if let Engine::Deflate(engine @ None) = &mut self.engine {
            let &[first, second, ..] = input else {
                return if is_all {
                    Err(self.refusals.damaged)
                } else {
                    Ok(Step { taken: 0, has_more: false })
                };
            };
            // RFC 1950 §2.2: the method is 8, and both bytes are a multiple of 31.
            let is_zlib = first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
            *engine = Some(Decompress::new(is_zlib));
        }
        let from = out.len();
        out.resize(from + PIECE, 0);
        let run = run(&mut self.engine, input, &mut out[from..]).ok_or(self.refusals.damaged)?;
        out.truncate(from + run.made);
        if self.held.is_over() {
            return Err(self.refusals.memory);
        }
        let step = self.note(&run, input)?;
        if is_all && !step.has_more && self.is_inside && step.taken == input.len() {
            return Err(self.refusals.damaged);
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
    const REFUSALS: Refusals = Refusals {
        damaged: DAMAGED,
        window: Fault::request(415, "window"),
        memory: Fault::request(503, "memory"),
    };

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
        decode_within(codings, (body, piece), None)
    }

    fn decode_within(
        codings: &[Coding],
        (body, piece): (&[u8], usize),
        memory: Option<&Rc<DecoderMemory>>,
    ) -> Result<Vec<u8>, Fault> {
        let bound = Bound { free: u64::MAX, ratio: 1, most: u64::MAX, fault: DAMAGED };
        let decoder = |coding: &Coding| Decoder::new(*coding, REFUSALS, memory.cloned());
        let decoders = codings.iter().map(decoder).collect::<Result<Vec<_>, _>>()?;
        let decoders = decoders.into_iter().map(|decoder| Box::new(decoder) as _);
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

    fn zstd_with_window(bits: u32) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(bits).unwrap();
        encoder.write_all(&text()).unwrap();
        encoder.flush().unwrap();
        encoder.write_all(&text()).unwrap();
        encoder.finish().unwrap()
    }

    fn br_with_window(bits: u32) -> Vec<u8> {
        let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 5, bits);
        // What is not the last piece takes the whole window.
        writer.write_all(&text()[..2000]).unwrap();
        writer.flush().unwrap();
        writer.write_all(&text()[2000..]).unwrap();
        writer.into_inner()
    }

    #[test]
    fn a_window_beyond_the_standard_is_refused() {
        for piece in [1, 4096] {
            assert_eq!(decode(&[Coding::Zstd], &zstd_with_window(27), piece), Err(REFUSALS.window));
            assert!(decode(&[Coding::Zstd], &zstd_with_window(23), piece).is_ok());
        }
        assert_eq!(decode(&[Coding::Br], b"\x11\x1e rest", 1), Err(REFUSALS.window));
        let both = [&zstd_with_window(17)[..], &zstd_with_window(24)].concat();
        assert_eq!(decode(&[Coding::Zstd], &both, 100), Err(REFUSALS.window), "a later frame");
    }

    #[test]
    fn what_decoders_hold_together_is_bounded_and_comes_back() {
        const MIB: usize = 1024 * 1024;
        let within = |bytes: usize, coding, body: &[u8]| {
            let memory = DecoderMemory::new(bytes);
            let decoded = decode_within(&[coding], (body, 1000), Some(&memory));
            assert_eq!(memory.held(), 0, "all of it comes back");
            assert_eq!(memory.take_refused() > 0, decoded.is_err());
            decoded.map(|decoded| decoded.len())
        };
        let whole = Ok(text().len());
        assert_eq!(within(100 * 1024, Coding::Gzip, &encoded(Coding::Gzip, &text())), Err(REFUSALS.memory));
        assert_eq!(within(200 * 1024, Coding::Gzip, &encoded(Coding::Gzip, &text())), whole);
        let br = br_with_window(22);
        assert_eq!(within(4 * MIB, Coding::Br, &br), Err(REFUSALS.memory));
        assert_eq!(within(5 * MIB, Coding::Br, &br), whole);
        assert_eq!(within(5 * MIB, Coding::Br, &br_with_window(24)), Err(REFUSALS.memory));
        assert_eq!(within(8 * MIB, Coding::Zstd, &zstd_with_window(23)), Err(REFUSALS.memory));
        assert!(within(9 * MIB, Coding::Zstd, &zstd_with_window(23)).is_ok());
        // The small window of the first frame is not the measure of the second.
        let both = [&zstd_with_window(17)[..], &zstd_with_window(23)].concat();
        assert_eq!(within(8 * MIB, Coding::Zstd, &both), Err(REFUSALS.memory));
    }

    #[test]
    fn a_decoder_holds_its_memory_while_it_is_under_way() {
        let memory = DecoderMemory::new(64 * 1024 * 1024);
        let body = br_with_window(22);
        let begun = |memory: &Rc<DecoderMemory>| {
            let mut decoder = Decoder::new(Coding::Br, REFUSALS, Some(memory.clone())).unwrap();
            decoder.step(&body[..1000], false, &mut Vec::new()).map(|_| decoder)
        };
        let mut decoders = Vec::new();
        while let Ok(decoder) = begun(&memory) {
            decoders.push(decoder);
            assert!(memory.held() <= 64 * 1024 * 1024 && decoders.len() < 17);
        }
        assert!((12..16).contains(&decoders.len()), "{}", decoders.len());
        decoders.clear();
        assert_eq!(memory.held(), 0);
    }
}
