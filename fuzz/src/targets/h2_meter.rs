//! The meter of HTTP/2, from either side.
//!
//! Input: frames, without a preface. They are received, or sent first and then received, by a connection
//! with a client and one with an endpoint, whose driver opens the gate whenever it is shut. Asserts: whole,
//! byte by byte and random pieces give the same verdict, the same bytes for the codec and the same
//! account of what was sent; the codec gets what came but for empty frames, in order; no step leaves its
//! piece or its share; the verdict lasts.

use crate::{Draw, byte_by_byte, cut};
use thalweg_core::{Side, limits};
use thalweg_http::h2::frame::{HEAD_LEN, PREFACE};
use thalweg_http::h2::{Flood, FloodGuard, FloodLimits, Stop};

/// What became of a connection: payload sent and streams refused, the verdict, and what the codec got.
type Outcome = (usize, u32, Result<Vec<u8>, Flood>);

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let mut draw = Draw::of(input);
    let ends = draw.ends(input.len());
    for peer in [Side::Downstream, Side::Upstream] {
        for sends in [false, true] {
            let whole = run(peer, sends, &[input]);
            assert_eq!(run(peer, sends, &byte_by_byte(input)), whole, "byte by byte");
            assert_eq!(run(peer, sends, &cut(input, &ends)), whole, "in pieces");
        }
    }
}

fn run(peer: Side, sends: bool, pieces: &[&[u8]]) -> Outcome {
    let mut meter = FloodGuard::new(peer, FloodLimits::default());
    let (mut payload, mut refused) = (0, 0);
    if peer != Side::Downstream {
        meter.outbound(PREFACE);
    } else if let Err(flood) = receive(&mut meter, &mut PREFACE.to_vec(), &mut Vec::new()) {
        panic!("the preface: {flood:?}");
    }
    for piece in pieces.iter().filter(|_| sends) {
        let sent = meter.outbound(piece);
        payload += sent.payload;
        refused += sent.refused;
    }
    let (mut inbox, mut passed) = (Vec::new(), Vec::new());
    for piece in pieces {
        inbox.extend_from_slice(piece);
        if let Err(flood) = receive(&mut meter, &mut inbox, &mut passed) {
            assert_eq!(
                receive(&mut meter, &mut inbox, &mut passed),
                Err(flood),
                "a verdict that does not last"
            );
            return (payload, refused, Err(flood));
        }
    }
    assert!(inbox.len() < HEAD_LEN, "bytes that nobody gets");
    (payload, refused, Ok(passed))
}

/// Hands on what may be, as a driver does.
fn receive(meter: &mut FloodGuard, inbox: &mut Vec<u8>, passed: &mut Vec<u8>) -> Result<(), Flood> {
    loop {
        let allow = meter.inbound(inbox, 0)?;
        assert!(allow.pass + allow.skip <= inbox.len(), "more than there is");
        assert!(allow.pass <= limits::H2_TURN_BYTES as usize + HEAD_LEN, "more than its share");
        let dropped = &inbox[allow.pass..allow.pass + allow.skip];
        assert!(dropped.is_empty() || dropped.starts_with(&[0, 0, 0, 0]), "more than an empty frame dropped");
        passed.extend_from_slice(&inbox[..allow.pass]);
        inbox.drain(..allow.pass + allow.skip);
        match allow.stop {
            Stop::Bytes => return Ok(()),
            Stop::Skip => assert_eq!(allow.skip, HEAD_LEN),
            Stop::Heads => meter.opened(),
            Stop::Turn => meter.turn(limits::H2_TURN_BYTES),
        }
    }
}
