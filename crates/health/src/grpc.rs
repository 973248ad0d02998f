//! A call of `grpc.health.v1.Health/Check`, and whether it says that the endpoint serves (the health checking protocol
//! of gRPC).

use crate::outcome::Outcome;
use crate::target::Target;
use bytes::{BufMut, Bytes, BytesMut};
use hyper::http::uri::{Authority, Uri};
use hyper::http::{HeaderMap, Method, Request};
use thalweg_client::h2;
use thalweg_core::GRPC_STATUSES;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

const METHOD: &str = "/grpc.health.v1.Health/Check";
/// A byte for compression and four of length before each message.
const PREFIX: usize = 5;
/// Bytes of an answer: its one field takes two.
const ANSWER: usize = 64;
/// The key of field 1 of a message, with a number in it and with bytes.
const NUMBER: u8 = 0x08;
const TEXT: u8 = 0x0a;
/// What a server may say, by number; the one that is well is [`SERVING`].
const SAID: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
const SERVING: usize = 1;

/// Asks over `stream`. The caller ends it at `deadline`.
pub(crate) async fn ask<S>(target: &Target, service: &str, deadline: Instant, stream: S) -> Outcome
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = match request(target, deadline) {
        Ok(request) => request,
        Err(error) => return Outcome::NotAsked(format!("the check's call cannot be made: {error}")),
    };
    match h2::ask(stream, (request, message(service)), ANSWER).await {
        Ok(answer) => judge(&answer),
        Err(why) => Outcome::Failed(why),
    }
}

fn request(target: &Target, deadline: Instant) -> Result<Request<()>, hyper::http::Error> {
    let scheme = if target.tls.is_some() { "https" } else { "http" };
    let authority: Authority = target.authority.parse()?;
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(METHOD).build()?;
    let left = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
    Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "thalweg-health")
        .header("grpc-timeout", format!("{left}m"))
        .body(())
}

/// A message with the service's name in field 1, which is left out where it is empty.
fn message(service: &str) -> Bytes {
    let mut body = BytesMut::new();
    if !service.is_empty() {
        body.put_u8(TEXT);
        let mut length = service.len();
        while length >= 0x80 {
            body.put_u8(length as u8 | 0x80);
            length >>= 7;
        }
        body.put_u8(length as u8);
        body.put_slice(service.as_bytes());
    }
    let mut message = BytesMut::with_capacity(PREFIX + body.len());
    message.put_u8(0);
    // Names are bounded far below 4 GiB.
    message.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    message.put(body);
    message.freeze()
}

fn judge(answer: &h2::Answer) -> Outcome {
    let status = answer.head.status().as_u16();
    let failed = |why: String| Outcome::Failed(why);
    if status != 200 {
        return failed(format!("status {status}"));
    }
    let fields = answer.head.headers();
    let media_type = fields.get("content-type").map(|value| value.as_bytes());
    if !media_type.is_some_and(|value| value.starts_with(b"application/grpc")) {
        return failed("the answer is not gRPC".into());
    }
    match code(&answer.trailers).or_else(|| code(fields)) {
        Some(0) => {}
        Some(code) => {
            let name = GRPC_STATUSES.get(code).copied().unwrap_or("unknown");
            return failed(format!("the call ended with {name}"));
        }
        None => return failed("the call ended without a status".into()),
    }
    match said(&answer.body) {
        Some(SERVING) => Outcome::Passed("SERVING".into()),
        Some(said) => failed(SAID[said].into()),
        None => failed("the answer is not one of grpc.health.v1".into()),
    }
}

/// How the call ended; only a plain number counts.
fn code(fields: &HeaderMap) -> Option<usize> {
    let value = fields.get("grpc-status")?.to_str().ok()?;
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}

/// What the only message says: nothing, which is 0, or the number in field 1 alone.
fn said(body: &[u8]) -> Option<usize> {
    let (prefix, message) = body.split_first_chunk::<PREFIX>()?;
    let [compressed, length @ ..] = prefix;
    if *compressed != 0 || usize::try_from(u32::from_be_bytes(*length)).ok()? != message.len() {
        return None;
    }
    let said = match message {
        [] => 0,
        [NUMBER, said] => usize::from(*said),
        _ => return None,
    };
    (said < SAID.len()).then_some(said)
}

#[cfg(test)]
mod tests;
