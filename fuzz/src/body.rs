//! Reading and writing whole bodies with our engine, in pieces.
//!
//! Used by the `body` target and by the engine's side of the differential.

use thalweg_core::{Fault, Side};
use thalweg_http::h1::encode::{CHUNK_END, write_chunk_head, write_last_chunk};
use thalweg_http::{BodyReader, BodyStep, Framing};

/// What was read of a body.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Body {
    /// The payload of all chunks together.
    pub(crate) payload: Vec<u8>,
    /// The trailer lines that may be passed on.
    pub(crate) trailers: Vec<u8>,
    /// Bytes of input that belong to the body.
    pub(crate) consumed: usize,
    /// Whether it is whole.
    pub(crate) complete: bool,
}

/// Reads a body that arrives in `pieces`, and asserts that the reader's steps are sound: inside the
/// piece, never empty, and nothing taken after the end.
///
/// # Errors
/// The reader's fault, and how many payload bytes came before it.
pub(crate) fn read(framing: Framing, side: Side, pieces: &[&[u8]]) -> Result<Body, (Fault, usize)> {
    let mut reader = BodyReader::new(framing, side);
    let mut body = Body::default();
    for mut piece in pieces.iter().copied() {
        loop {
            let step = reader.read(piece);
            let consumed = match step {
                Ok(BodyStep::Data { skip, len }) => {
                    assert!(len > 0, "an empty step of data");
                    body.payload.extend_from_slice(&piece[skip..skip + len]);
                    skip + len
                }
                Ok(BodyStep::More { consumed }) => {
                    assert_eq!(consumed, piece.len(), "wants more and has not taken all");
                    consumed
                }
                Ok(BodyStep::End { consumed }) => {
                    assert!(reader.is_complete(), "an end that is not complete");
                    consumed
                }
                Err(fault) => {
                    assert_eq!(reader.read(piece), Err(fault), "a fault does not last");
                    return Err((fault, body.payload.len()));
                }
            };
            assert!(consumed <= piece.len(), "consumed more than there is");
            body.consumed += consumed;
            piece = &piece[consumed..];
            if matches!(step, Ok(BodyStep::End { .. })) || piece.is_empty() {
                break;
            }
        }
        if reader.is_complete() {
            assert_eq!(
                reader.read(b"GET / HTTP/1.1"),
                Ok(BodyStep::End { consumed: 0 }),
                "read past the end"
            );
            break;
        }
    }
    body.trailers = reader.trailers().to_vec();
    body.complete = reader.is_complete();
    Ok(body)
}

/// Writes a chunked body with our encoder, one chunk for each piece that is not empty.
pub(crate) fn write_chunked(pieces: &[&[u8]], trailers: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        write_chunk_head(&mut out, piece.len());
        out.extend_from_slice(piece);
        out.extend_from_slice(CHUNK_END);
    }
    write_last_chunk(&mut out, trailers);
    out
}
