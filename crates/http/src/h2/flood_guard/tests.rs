//! The meter on streams of frames without a codec: floods, lawful peers, cuts.

use super::*;
use proptest::prelude::*;

mod floods;
mod gate;
mod lawful;

/// Of the budget of control frames, what is left once a connection is open.
const OPEN: u32 = 2000 - 11;

/// Of a field section that has few fields: a value of 126 bytes that are the same again, however it is cut.
const FEW: u8 = 0x7e;

/// One frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { len: payload.len() as u32, kind, flags, stream };
    [&head.write()[..], payload].concat()
}

/// A request's field section without a body.
fn request(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &[0x82; 20])
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn settings() -> Vec<u8> {
    frame(kind::SETTINGS, 0, 0, &[])
}

/// What a client begins with.
fn opening() -> Vec<u8> {
    [&PREFACE[..], &settings(), &frame(kind::SETTINGS, flag::ACK, 0, &[])].concat()
}

/// A connection with a client, whose driver takes up what came whenever the gate shuts.
struct Connection {
    meter: FloodGuard,
    now_ms: u64,
    /// What the codec got.
    passed: Vec<u8>,
    inbox: Vec<u8>,
}

impl Connection {
    fn new(limits: FloodLimits) -> Self {
        Self {
            meter: FloodGuard::new(Side::Downstream, limits),
            now_ms: 0,
            passed: Vec::new(),
            inbox: Vec::new(),
        }
    }

    /// With a client that has said what opens a connection.
    fn open() -> Self {
        let mut connection = Self::new(FloodLimits::default());
        connection.meter.outbound(&settings());
        connection.receive(&opening()).unwrap();
        connection
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Flood> {
        self.inbox.extend_from_slice(bytes);
        loop {
            let Allow { pass, skip, stop } = self.meter.inbound(&self.inbox, self.now_ms)?;
            self.passed.extend(self.inbox.drain(..pass));
            self.inbox.drain(..skip);
            match stop {
                Stop::Bytes => return Ok(()),
                Stop::Skip => assert!(skip > 0),
                Stop::Heads => self.meter.opened(),
                Stop::Turn => self.meter.turn(limits::H2_TURN_BYTES),
            }
        }
    }

    /// How many of the frames come through before the flood, of at most 100,000.
    fn endure(&mut self, mut make: impl FnMut(u32) -> Vec<u8>) -> (u32, Option<Flood>) {
        for round in 0..100_000 {
            if let Err(flood) = self.receive(&make(round)) {
                assert_eq!(self.receive(&settings()), Err(flood), "a flood does not last");
                return (round, Some(flood));
            }
        }
        (100_000, None)
    }

    /// A response whole on this stream.
    fn answer(&mut self, stream: u32) {
        self.meter.outbound(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &[0x88]));
    }
}
