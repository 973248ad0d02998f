//! The body reader, with the encoder as its counterpart.
//!
//! Input: bytes that follow a head. They are read as a chunked body of either side, as a body by length
//! and as one until the close. Asserts: whole, byte by byte and random pieces give the same payload,
//! trailers, end and fault; no step leaves its piece and nothing is taken after the end, whatever stands
//! there; one byte less is not complete; trailers that are passed on are sound lines without framing
//! fields; what was read, written again and read again is the same.

use crate::body::{Body, read, write_chunked};
use crate::{Draw, byte_by_byte, cut};
use thalweg_core::Side;
use thalweg_http::Framing;

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let mut draw = Draw::of(input);
    let ends = draw.ends(input.len());
    let length = draw.below(input.len() as u64 + 3);
    for framing in [Framing::Chunked, Framing::Length(length), Framing::UntilClose, Framing::Empty] {
        for side in [Side::Downstream, Side::Upstream] {
            let whole = read(framing, side, &[input]);
            assert_eq!(read(framing, side, &byte_by_byte(input)), whole, "byte by byte");
            assert_eq!(read(framing, side, &cut(input, &ends)), whole, "in pieces");
            match whole {
                Ok(body) => check(framing, side, &body, input, &ends),
                Err((fault, _)) => assert_eq!((fault.side(), framing), (side, Framing::Chunked)),
            }
        }
    }
}

fn check(framing: Framing, side: Side, body: &Body, input: &[u8], ends: &[usize]) {
    assert!(body.complete || body.consumed == input.len(), "bytes left and not complete");
    match framing {
        Framing::Empty => assert!(body.complete && body.consumed == 0),
        Framing::UntilClose => assert!(!body.complete && body.payload == input),
        Framing::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            assert_eq!(body.complete, length <= input.len());
            assert_eq!(body.payload, input[..length.min(input.len())]);
        }
        Framing::Chunked if body.complete => {
            let (mine, after) = input.split_at(body.consumed);
            assert!(mine.ends_with(b"\r\n"));
            let other: Vec<u8> = after.iter().rev().chain(b"0\r\n\r\nGET").copied().collect();
            assert_eq!(read(framing, side, &[mine, &other]).as_ref(), Ok(body), "what follows matters");
            let short = read(framing, side, &[&mine[..mine.len() - 1]]);
            assert!(short.is_ok_and(|short| !short.complete), "complete without its last byte");
            check_trailers(&body.trailers);
            round_trip(side, body, ends);
        }
        Framing::Chunked => assert!(body.trailers.is_empty()),
    }
}

/// What is passed on stands before the empty line: whole lines, and none that frames or routes.
fn check_trailers(trailers: &[u8]) {
    let section = [trailers, b"\r\n"].concat();
    let mut room = [httparse::EMPTY_HEADER; thalweg_core::limits::FIELDS];
    let parsed = httparse::parse_headers(&section, &mut room);
    let Ok(httparse::Status::Complete((length, fields))) = parsed else {
        panic!("trailers that are no field section: {parsed:?}");
    };
    assert_eq!(length, section.len(), "an empty line within the trailers");
    for field in fields {
        let name = field.name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let forbidden =
            ["content-length", "transfer-encoding", "host", "connection", "authorization", "x-forwarded-for"];
        assert!(!forbidden.contains(&name.as_str()), "{name} passed on");
    }
}

fn round_trip(side: Side, body: &Body, ends: &[usize]) {
    let ends: Vec<usize> =
        ends.iter().map(|end| (*end).min(body.payload.len())).chain([body.payload.len()]).collect();
    let wire = write_chunked(&cut(&body.payload, &ends), &body.trailers);
    let again = read(Framing::Chunked, side, &[&wire]);
    let expected = Body { consumed: wire.len(), ..body.clone() };
    assert_eq!(again, Ok(expected), "not the same when written and read again");
}
