//! `compress: {}`: compresses responses with zstd, brotli or gzip, as the client accepts it (RFC 9110 §8.4, §12.5.3).
//!
//! Left alone are responses that are compressed already, parts of a representation (206, `Content-Range`), what says
//! `Cache-Control: no-transform`, small ones, types that are not listed, and statuses without a body. A compressed
//! response has another representation than the original: its `ETag` becomes weak, `Accept-Ranges` goes, and its length
//! is not told. `Vary` says that it depends on what the client accepts, also where this client gets it as it is.

use crate::accept::coding_weight;
use crate::cors::vary;
use crate::representation::{TEXT, becomes_another, is_coded, is_kept, may_change, weaken};
use crate::request::BodyTransform;
use crate::{Filter, Hooks, OneOrManySpec, ResponseCx};
use schemars::JsonSchema;
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_core::units::{parse_size, size_text};
use thalweg_core::{Fault, FaultKind};

/// Bytes below which compression is not worth its fields.
const LEAST: u64 = 1024;
/// Bytes that `min_length` may be at most.
const MOST_LEAST: u64 = 1024 * 1024;
/// The window of brotli, as a power of two: what a stream needs in memory follows from it, about 1 MiB.
const BROTLI_WINDOW: u32 = 18;
/// The window of zstd, as a power of two.
const ZSTD_WINDOW: u32 = 19;

/// Types that are compressed where nothing is written, beside text.
const TYPES: &[&str] = &["application/wasm", "image/bmp", "font/ttf", "font/otf"];

/// What is compressed, and how.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map; `{}` for the defaults")]
pub struct CompressSpec {
    /// Algorithms, the most wanted first; what the client likes better goes before that.
    #[schemars(extend("x-default-words" = "zstd, br, gzip"))]
    algorithms: Option<OneOrManySpec<AlgorithmSpec>>,
    /// Content types, `text/html` or `text/*`, one or a list.
    #[schemars(extend("x-default-words" = "text, JSON, XML, JavaScript, WebAssembly, SVG, uncompressed fonts"))]
    types: Option<OneOrManySpec<String>>,
    /// Responses whose length is known and less stay as they are.
    #[schemars(extend("x-range" = ["0B", "1MiB"], "x-default" = "1KiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["512B", "2KiB"]))]
    min_length: Option<String>,
    /// From 1, fast, to 9, small.
    #[schemars(range(min = 1, max = 9), extend("x-range" = [1, 9], "x-default" = 4))]
    level: Option<u8>,
}

/// An algorithm, by its word in `Content-Encoding`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`zstd`, `br` or `gzip`")]
pub(crate) enum AlgorithmSpec {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Br,
    /// gzip (RFC 1952).
    Gzip,
}

impl AlgorithmSpec {
    fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
        }
    }
}

impl CompressSpec {
    /// Checks lists and bounds.
    ///
    /// # Errors
    /// A list that is empty, a type that is none, or a value out of its range.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let written = self.algorithms.as_ref().map(OneOrManySpec::as_slice);
        let algorithms =
            written.unwrap_or(&[AlgorithmSpec::Zstd, AlgorithmSpec::Br, AlgorithmSpec::Gzip]).to_vec();
        if algorithms.is_empty() {
            return Err("`algorithms` is empty; name at least one of `zstd`, `br` and `gzip`".into());
        }
        let types: Vec<Box<str>> = match self.types.as_ref().map(OneOrManySpec::as_slice) {
            None => TEXT.iter().chain(TYPES).map(|kind| (*kind).into()).collect(),
            Some(written) => written.iter().map(|kind| kind.to_ascii_lowercase().into()).collect(),
        };
        if let Some(wrong) = types.iter().find(|kind| !kind.contains('/')) {
            return Err(format!("`{wrong}` is no content type; write `text/html` or `text/*`"));
        }
        let least = self.min_length.as_deref().map_or(Ok(LEAST), parse_size)?;
        if least > MOST_LEAST {
            return Err("`min_length` must be from 0B to 1MiB".into());
        }
        let level = self.level.unwrap_or(4);
        if !(1..=9).contains(&level) {
            return Err("`level` must be from 1 to 9".into());
        }
        Ok(Arc::new(Compress { algorithms, types, least, level }))
    }
}

#[derive(Debug)]
struct Compress {
    algorithms: Vec<AlgorithmSpec>,
    types: Vec<Box<str>>,
    least: u64,
    level: u8,
}

impl Compress {
    /// Whether the response could be compressed for some client.
    fn fits(&self, cx: &ResponseCx<'_>) -> bool {
        let kind = cx.fields.get("Content-Type").unwrap_or_default();
        may_change(cx)
            && !is_coded(&cx.fields)
            && self.types.iter().any(|wanted| crate::is_type(kind, wanted))
            && cx.content_length.is_none_or(|length| length >= self.least.max(1))
    }

    /// What the client likes best; `None`: to have it as it is.
    fn choose(&self, cx: &ResponseCx<'_>) -> Option<AlgorithmSpec> {
        let accepted = || cx.request.as_sent("Accept-Encoding");
        // RFC 9110 §12.5.3: a client that says nothing may not understand anything.
        accepted().next()?;
        let identity = coding_weight(accepted(), "identity");
        let mut best: Option<(u16, AlgorithmSpec)> = None;
        for algorithm in &self.algorithms {
            let weight = coding_weight(accepted(), algorithm.name());
            // Ours come in the order of preference: a later one must be liked more.
            if weight > 0 && weight >= identity && best.is_none_or(|(best, _)| weight > best) {
                best = Some((weight, *algorithm));
            }
        }
        best.map(|(_, algorithm)| algorithm)
    }

    /// What the response with a body would have said stands in the one that freshens it too (RFC 9110 §15.4.5). Mostly
    /// it does not say its type; then it may be one that is listed. Its tag is that of what the client holds: weak only
    /// where the client says so, since an image would lose its strong one.
    fn freshen(&self, cx: &mut ResponseCx<'_>) {
        let kind = cx.fields.get("Content-Type");
        let is_listed = kind.is_none_or(|kind| self.types.iter().any(|wanted| crate::is_type(kind, wanted)));
        if !is_listed || is_coded(&cx.fields) || is_kept(cx) {
            return;
        }
        vary(&mut cx.fields, "Accept-Encoding");
        let weak = [b"W/", cx.fields.get("ETag").unwrap_or_default()].concat();
        if cx.request.as_sent("If-None-Match").any(|tags| memchr::memmem::find(tags, &weak).is_some()) {
            weaken(&mut cx.fields);
        }
    }
}

impl Filter for Compress {
    fn name(&self) -> &'static str {
        "compress"
    }

    fn argument(&self) -> String {
        let names: Vec<_> = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        format!("{}, level {}, from {}", names.join(" "), self.level, size_text(self.least))
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESPONSE
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        if cx.status == 304 {
            return self.freshen(cx);
        }
        if !self.fits(cx) {
            return;
        }
        vary(&mut cx.fields, "Accept-Encoding");
        let Some(algorithm) = self.choose(cx) else { return };
        cx.fields.set("Content-Encoding", algorithm.name().as_bytes());
        becomes_another(&mut cx.fields);
        // What is made as it is needed should come as it is made.
        let is_live = cx.content_length.is_none();
        let level = self.level;
        cx.transform_body(|| {
            let sink = Sink::default();
            Box::new(Compressor { encoder: Encoder::new(algorithm, level, sink.clone()), sink, is_live })
        });
    }
}

/// The body of one response.
struct Compressor {
    encoder: Encoder,
    /// What it has made.
    sink: Sink,
    /// It is sent as it comes: after a pause nothing is held back.
    is_live: bool,
}

enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Sink>),
    Br(Box<brotli::CompressorWriter<Sink>>),
    Gzip(flate2::write::GzEncoder<Sink>),
    Over,
}

/// Where encoders write: one of them does not give its buffer away before its end.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Encoder {
    fn new(algorithm: AlgorithmSpec, level: u8, sink: Sink) -> Self {
        match algorithm {
            AlgorithmSpec::Zstd => {
                let made = zstd::stream::write::Encoder::new(sink, i32::from(level));
                let made = made.and_then(|mut encoder| encoder.window_log(ZSTD_WINDOW).map(|()| encoder));
                made.map_or(Self::Over, Self::Zstd)
            }
            AlgorithmSpec::Br => {
                let writer = brotli::CompressorWriter::new(sink, 16 * 1024, u32::from(level), BROTLI_WINDOW);
                Self::Br(Box::new(writer))
            }
            AlgorithmSpec::Gzip => {
                Self::Gzip(flate2::write::GzEncoder::new(sink, flate2::Compression::new(u32::from(level))))
            }
        }
    }

    fn writer(&mut self) -> Option<&mut dyn Write> {
        match self {
            Self::Zstd(encoder) => Some(encoder),
            Self::Br(encoder) => Some(encoder),
            Self::Gzip(encoder) => Some(encoder),
            Self::Over => None,
        }
    }

    fn end(self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.finish().map(drop),
            Self::Br(encoder) => {
                drop(encoder.into_inner());
                Ok(())
            }
            Self::Gzip(encoder) => encoder.finish().map(drop),
            Self::Over => Ok(()),
        }
    }
}

/// Why a body breaks off: the encoders fail for want of memory only.
fn failed(_: io::Error) -> Fault {
    Fault::new(FaultKind::ProxyInternalError, "the response could not be compressed")
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

impl BodyTransform for Compressor {
    fn push(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let writer = self.encoder.writer().ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        writer.write_all(mem::take(data)).map_err(failed)?;
        out.append(&mut self.sink.0.borrow_mut());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        // What cannot be flushed comes with the end, or fails there.
        if self.is_live && self.encoder.writer().is_some_and(|writer| writer.flush().is_ok()) {
            out.append(&mut self.sink.0.borrow_mut());
        }
    }

    fn finish(&mut self, _trailers: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        mem::replace(&mut self.encoder, Encoder::Over).end().map_err(failed)?;
        out.append(&mut self.sink.0.borrow_mut());
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};
    use std::io::Read;

    /// The outcome of a response of this kind for a client that accepts this, and its lines.
    fn answered(json: &str, accepted: &str, response: &str) -> (String, bool) {
        let filter = built::<CompressSpec>(json).build().unwrap();
        let mut asked = Asked::at("/").with("Accept-Encoding", accepted);
        asked.response = response.as_bytes().to_vec();
        let outcome = asked.answer(&*filter);
        (asked.response_lines(), !outcome.transforms.is_empty())
    }

    const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n";

    #[test]
    fn the_client_gets_what_it_likes_best() {
        for (accepted, json, coding) in [
            ("gzip, deflate, br, zstd", "{}", Some("zstd")),
            ("gzip, deflate, br", "{}", Some("br")),
            ("br;q=0.5, gzip", "{}", Some("gzip")),
            ("*", "{}", Some("zstd")),
            ("gzip;q=0.5, identity", "{}", None),
            ("gzip;q=0", "{}", None),
            ("deflate", "{}", None),
            ("", "{}", None),
            ("gzip, br, zstd", r#"{"algorithms": ["gzip", "br"]}"#, Some("gzip")),
        ] {
            let (lines, is_compressed) = answered(json, accepted, HTML);
            assert_eq!(is_compressed, coding.is_some(), "{accepted}");
            assert!(lines.contains("Vary: Accept-Encoding\r\n"), "{accepted}: {lines}");
            if let Some(coding) = coding {
                assert!(lines.contains(&format!("Content-Encoding: {coding}\r\n")), "{accepted}: {lines}");
            }
        }
    }

    #[test]
    fn what_may_not_or_need_not_be_compressed_is_left_alone() {
        for response in [
            "Content-Type: image/png\r\n",
            "",
            "Content-Type: text/css\r\nContent-Encoding: br\r\n",
            "Content-Type: text/css\r\nCache-Control: public, No-Transform\r\n",
            "Content-Type: text/css\r\nContent-Range: bytes 0-1/2\r\n",
        ] {
            assert_eq!(answered("{}", "gzip", response), (response.to_owned(), false));
        }
        let filter = built::<CompressSpec>("{}").build().unwrap();
        for status in [204, 205, 206] {
            let mut asked = Asked::at("/").with("Accept-Encoding", "gzip");
            (asked.status, asked.response) = (status, HTML.into());
            assert!(asked.answer(&*filter).transforms.is_empty(), "{status}");
            assert_eq!(asked.response_lines(), HTML, "{status}");
        }
    }

    #[test]
    fn a_304_says_what_the_200_has_said() {
        let answered = |held: &str, response: &str| {
            let filter = built::<CompressSpec>("{}").build().unwrap();
            let mut asked = Asked::at("/").with("Accept-Encoding", "gzip").with("If-None-Match", held);
            (asked.status, asked.response) = (304, response.into());
            assert!(asked.answer(&*filter).transforms.is_empty());
            asked.response_lines()
        };
        let (strong, weak) =
            ("ETag: \"a\"\r\nVary: Accept-Encoding\r\n", "Vary: Accept-Encoding\r\nETag: W/\"a\"\r\n");
        for (held, told) in [
            ("W/\"a\"", weak),
            ("\"b\", W/\"a\"", weak),
            ("\"a\"", strong),
            ("W/\"aa\", \"a\"", strong),
            ("*", strong),
        ] {
            assert_eq!(answered(held, "ETag: \"a\"\r\n"), told, "{held}");
        }
        for response in ["Content-Type: image/png\r\n", "Cache-Control: no-transform\r\n"] {
            assert_eq!(answered("W/\"a\"", response), response);
        }
    }

    #[test]
    fn fields_say_that_it_is_another_representation() {
        let response =
            "Content-Type: text/css\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\nVary: accept-encoding\r\n";
        let (lines, _) = answered("{}", "gzip", response);
        assert_eq!(
            lines,
            "Content-Type: text/css\r\nVary: accept-encoding\r\nContent-Encoding: gzip\r\nETag: W/\"a\"\r\n"
        );
        // The answer to a HEAD has the same fields and no body.
        let mut asked = Asked::at("/").with("Accept-Encoding", "gzip");
        (asked.method, asked.response) = ("HEAD", response.into());
        let outcome = asked.answer(&*built::<CompressSpec>("{}").build().unwrap());
        assert!(outcome.changes_length && outcome.transforms.is_empty());
        assert_eq!(asked.response_lines(), lines);
    }

    fn decoded(algorithm: AlgorithmSpec, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match algorithm {
            AlgorithmSpec::Zstd => {
                drop(zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out))
            }
            AlgorithmSpec::Br => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out)),
            AlgorithmSpec::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out)),
        }
        out
    }

    #[test]
    fn bodies_come_back_whole_and_a_pause_holds_nothing_back() {
        for algorithm in [AlgorithmSpec::Zstd, AlgorithmSpec::Br, AlgorithmSpec::Gzip] {
            for level in [1, 4, 9] {
                let sink = Sink::default();
                let encoder = Encoder::new(algorithm, level, sink.clone());
                let mut compressor = Compressor { encoder, sink, is_live: true };
                let (mut whole, mut out) = (Vec::new(), Vec::new());
                for round in 0..40_u32 {
                    let piece = format!("event {round} {}\n", "data ".repeat(round as usize * 50));
                    whole.extend_from_slice(piece.as_bytes());
                    compressor.push(&mut piece.as_bytes(), &mut out).unwrap();
                    compressor.flush(&mut out);
                    assert_eq!(decoded(algorithm, &out), whole, "{algorithm:?} {round}");
                }
                assert!(compressor.finish(&mut Vec::new(), &mut out).unwrap());
                assert_eq!(decoded(algorithm, &out), whole, "{algorithm:?}");
                assert!(out.len() * 4 < whole.len(), "{algorithm:?} {}", out.len());
            }
        }
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (json, part) in [
            (r#"{"algorithms": []}"#, "is empty"),
            (r#"{"types": "html"}"#, "no content type"),
            (r#"{"min_length": "2MiB"}"#, "from 0B to 1MiB"),
            (r#"{"level": 10}"#, "from 1 to 9"),
        ] {
            let error = built::<CompressSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
