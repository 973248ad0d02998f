//! `decompress: { request: true }`: decodes bodies with gzip, deflate, br or zstd (RFC 9110 §8.4), of requests for
//! services that cannot, and of responses for clients that do not accept them.
//!
//! A body of up to two different codings, all of them known, is decoded; others stay as they are. A body that is
//! damaged, or becomes more than it may, is refused: a request with 400 or 413, a response with 502, or it breaks off
//! where it has begun. A ratio and a size bound it, because a few kilobytes decode to gigabytes. Windows are bounded,
//! and taken from the memory that decoders share.
//!
//! As in `compress`, the answer to a HEAD has the fields of that to a GET, and no body.

use crate::accept::coding_weight;
use crate::cors::vary;
use crate::decoder::{Coding, Decoder, Refusals};
use crate::decoder_memory::DecoderMemory;
use crate::representation::{CODINGS, becomes_another, loses_digests, may_change};
use crate::request::BodyTransform;
use crate::stages::{Bound, Stage, Stages};
use crate::{FieldView, Filter, Hooks, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_core::units::{parse_size, size_text};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::octet;

/// Bytes that may always become of a body, however short it is.
const FREE: u64 = 64 * 1024;
/// Bytes that may become of one by default.
const RATIO: u32 = 100;
/// Bytes that may become of a body by default.
const MOST: u64 = 64 * 1024 * 1024;
/// The largest `max_size`.
const MOST_MOST: u64 = 1 << 40;
/// The largest `max_ratio`.
const MOST_RATIO: u32 = 100_000;

/// What is decoded, and how much may become of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `request`, `response`")]
pub struct DecompressSpec {
    /// Bodies of requests are decoded.
    #[schemars(extend("x-default" = false))]
    request: bool,
    /// Bodies of responses are decoded for clients that do not accept their coding.
    #[schemars(extend("x-default" = false))]
    response: bool,
    /// Bodies of responses are decoded for all clients, for filters before this one that read them.
    #[schemars(extend("x-default" = false))]
    always: bool,
    /// Bytes that may become of a body.
    #[schemars(extend("x-range" = ["1KiB", "1TiB"], "x-default" = "64MiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["10MiB", "1GB"]))]
    max_size: Option<String>,
    /// Bytes that may become of one byte, as a mean, above 64 KiB in all.
    #[schemars(range(min = 1, max = 100_000), extend("x-range" = [1, 100_000], "x-default" = 100))]
    max_ratio: Option<u32>,
}

impl DecompressSpec {
    /// Checks sides and bounds.
    ///
    /// # Errors
    /// Nothing to do, or a bound out of its range.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        if !self.request && !self.response && !self.always {
            return Err(
                "`decompress` changes nothing; write `request: true`, `response: true` or both".into()
            );
        }
        let most = self.max_size.as_deref().map_or(Ok(MOST), parse_size)?;
        if !(1024..=MOST_MOST).contains(&most) {
            return Err("`max_size` must be from 1KiB to 1TiB".into());
        }
        let ratio = self.max_ratio.unwrap_or(RATIO);
        if !(1..=MOST_RATIO).contains(&ratio) {
            return Err("`max_ratio` must be from 1 to 100000".into());
        }
        let (request, response, always) = (self.request, self.response || self.always, self.always);
        Ok(Arc::new(Decompress { request, response, always, most, ratio }))
    }
}

#[derive(Debug)]
struct Decompress {
    request: bool,
    response: bool,
    always: bool,
    most: u64,
    ratio: u32,
}

/// Why a body is not decoded while others are.
const NO_MEMORY: Fault = Fault::new(
    FaultKind::ConnectionLimitReached,
    "the decoders of bodies hold all the memory that they may have",
);

/// The codings of a body, the last one that was applied first; `None`: there is none, one is not known, or there are
/// too many.
fn codings(fields: FieldView<'_>) -> Option<Vec<Coding>> {
    let written = fields.values("Content-Encoding").flat_map(octet::list);
    let mut written = written.filter(|name| !name.eq_ignore_ascii_case(b"identity"));
    let mut found = Vec::new();
    for name in written.by_ref().take(CODINGS) {
        // One inside itself is what a bomb has, and nobody else.
        let coding = Coding::named(name).filter(|coding| !found.contains(coding))?;
        found.insert(0, coding);
    }
    (!found.is_empty() && written.next().is_none()).then_some(found)
}

/// Decodes `codings`, or says why that cannot be.
fn decoders(
    codings: &[Coding],
    refusals: Refusals,
    bound: Bound,
    memory: Option<Rc<DecoderMemory>>,
) -> Box<dyn BodyTransform> {
    let decoder =
        |coding: &Coding| Ok(Box::new(Decoder::new(*coding, refusals, memory.clone())?) as Box<dyn Stage>);
    match codings.iter().map(decoder).collect::<Result<Vec<_>, _>>() {
        Ok(list) => Box::new(Stages::new(list.into_iter(), bound)),
        Err(fault) => Box::new(Refused(fault)),
    }
}

impl Decompress {
    fn bound(&self, fault: Fault) -> Bound {
        Bound { free: FREE, ratio: u64::from(self.ratio), most: self.most, fault }
    }
}

/// Says of a body that could not even be begun why.
#[derive(Debug)]
struct Refused(Fault);

impl BodyTransform for Refused {
    fn push(&mut self, _data: &mut &[u8], _out: &mut Vec<u8>) -> Result<(), Fault> {
        Err(self.0)
    }

    fn finish(&mut self, _trailers: &mut Vec<u8>, _out: &mut Vec<u8>) -> Result<bool, Fault> {
        Err(self.0)
    }
}

impl Filter for Decompress {
    fn name(&self) -> &'static str {
        "decompress"
    }

    fn argument(&self) -> String {
        let response = match (self.response, self.always) {
            (_, true) => Some("all responses"),
            (true, false) => Some("responses"),
            (false, false) => None,
        };
        let sides: Vec<_> = self.request.then_some("requests").into_iter().chain(response).collect();
        format!("{}, up to {} and {}:1", sides.join(" and "), size_text(self.most), self.ratio)
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        let request = if self.request { Hooks::REQUEST } else { Hooks::NONE };
        let response = if self.response { Hooks::RESPONSE } else { Hooks::NONE };
        request | response
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let Some(codings) = codings(cx.fields.view()).filter(|_| cx.has_body) else {
            return Verdict::Continue;
        };
        cx.fields.remove("Content-Encoding");
        loses_digests(&mut cx.fields);
        let refusals = Refusals {
            damaged: Fault::request(400, "the request body is not what its content coding says"),
            window: Fault::request(415, "the request body needs a larger window than its coding may have"),
            memory: NO_MEMORY,
        };
        let memory = cx.facts.connection.decoder_memory();
        let bound = self.bound(Fault::request(413, "the request body decodes to more than is allowed"));
        cx.transform_body(Box::new(move || decoders(&codings, refusals, bound, memory.clone())));
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Some(codings) = codings(cx.fields.view()).filter(|_| may_change(cx)) else { return };
        if !self.always {
            vary(&mut cx.fields, "Accept-Encoding");
            let accepts =
                |coding: &Coding| coding_weight(cx.request.as_sent("Accept-Encoding"), coding.name()) > 0;
            if codings.iter().all(accepts) {
                return;
            }
        }
        cx.fields.remove("Content-Encoding");
        becomes_another(&mut cx.fields);
        let fault = |detail| Fault::new(FaultKind::HttpResponseContentCoding, detail);
        let refusals = Refusals {
            damaged: fault("the response body is not what its content coding says"),
            window: fault("the response body needs a larger window than its coding may have"),
            memory: NO_MEMORY,
        };
        let memory = cx.facts.connection.decoder_memory();
        let bound = self.bound(fault("the response body decodes to more than is allowed"));
        cx.transform_body(|| decoders(&codings, refusals, bound, memory));
    }
}

#[cfg(test)]
mod tests;
