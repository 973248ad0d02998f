//! Peers that do nothing wrong are never punished, however busy, slow or odd.

use super::*;

/// A message of gRPC with ten bytes, as a DATA frame.
fn message(stream: u32) -> Vec<u8> {
    frame(kind::DATA, 0, stream, &[0; 15])
}

/// Hostile input D11: 200,000 small messages each way on one stream; the client acknowledges each one on
/// the stream and on the connection, and measures the round trip with a PING for every message it gets.
#[test]
fn a_stream_of_small_messages_is_served() {
    let mut connection = Connection::open();
    connection.receive(&frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x82; 200])).unwrap();
    for _ in 0..200_000 {
        connection.receive(&message(1)).unwrap();
        assert_eq!(connection.meter.outbound(&message(1)).payload, 15);
        let acknowledged = [window_update(1, 15), window_update(0, 15), frame(kind::PING, 0, 0, &[0; 8])];
        connection.receive(&acknowledged.concat()).unwrap();
        connection.passed.clear();
    }
}

/// The same, and the client reads whole windows before it acknowledges message by message.
#[test]
fn acknowledgements_may_come_late_and_all_at_once() {
    let mut connection = Connection::open();
    connection.receive(&request(1)).unwrap();
    for _ in 0..10 {
        for _ in 0..65_535 / 15 {
            connection.meter.outbound(&message(1));
        }
        for _ in 0..65_535 / 15 {
            connection.receive(&[window_update(1, 15), window_update(0, 15)].concat()).unwrap();
        }
    }
}

/// Short calls, 100 at a time, each with what clients send around them: acknowledgements, a PING,
/// priorities, an empty frame at the end.
#[test]
fn calls_at_any_rate_are_served() {
    let mut connection = Connection::open();
    for round in 0..500 {
        let streams = || (0..100).map(|at| (round * 100 + at) * 2 + 1);
        for stream in streams() {
            connection.receive(&frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x82; 60])).unwrap();
            connection.receive(&frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 10])).unwrap();
            connection.receive(&message(stream)).unwrap();
            connection.receive(&frame(kind::DATA, flag::END_STREAM, stream, &[])).unwrap();
        }
        for stream in streams() {
            connection.meter.outbound(&frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x88]));
            connection.meter.outbound(&message(stream));
            connection.answer(stream);
            connection.receive(&[window_update(0, 15), frame(kind::PING, 0, 0, &[0; 8])].concat()).unwrap();
        }
    }
}

/// Clients that reset what they got whole, as some do.
#[test]
fn a_reset_after_the_answer_is_free() {
    let mut connection = Connection::open();
    for round in 0..500 {
        let streams = || (0..100).map(|at| (round * 100 + at) * 2 + 1);
        streams().for_each(|stream| connection.receive(&request(stream)).unwrap());
        streams().for_each(|stream| connection.answer(stream));
        streams().for_each(|stream| connection.receive(&reset(stream, code::NO_ERROR)).unwrap());
    }
}

/// Every call runs into a deadline of a second, 100 at a time, for an hour: an endpoint is dead.
#[test]
fn calls_that_end_at_their_deadline_are_no_rapid_resets() {
    let mut connection = Connection::open();
    let mut stream = 1;
    for _ in 0..3600 {
        let first = stream;
        for _ in 0..100 {
            connection.receive(&request(stream)).unwrap();
            stream += 2;
        }
        connection.now_ms += 1000;
        for late in (first..stream).step_by(2) {
            connection.receive(&reset(late, code::CANCEL)).unwrap();
        }
    }
}

/// The same with calls that begin at any time.
#[test]
fn deadlines_need_not_come_together() {
    let mut connection = Connection::open();
    for at in 0..100_000_u32 {
        connection.receive(&request(at * 2 + 1)).unwrap();
        if let Some(late) = at.checked_sub(100) {
            connection.receive(&reset(late * 2 + 1, code::CANCEL)).unwrap();
        }
        connection.now_ms += 10;
    }
}

/// A page is left while it loads, again and again.
#[test]
fn a_browser_that_leaves_a_page_a_second_is_served() {
    let mut connection = Connection::open();
    let mut stream = 1;
    for _ in 0..600 {
        for at in 0..60 {
            connection.receive(&request(stream)).unwrap();
            match at % 3 {
                0 => connection.answer(stream),
                _ => connection.receive(&reset(stream, code::CANCEL)).unwrap(),
            }
            stream += 2;
        }
        connection.now_ms += 1000;
    }
}

/// Uploads that get an early answer: what was under way arrives on streams that are closed.
#[test]
fn late_payload_behind_early_answers_is_forgiven() {
    let mut connection = Connection::open();
    for round in 0..1000 {
        let stream = round * 2 + 1;
        connection.receive(&frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x82; 60])).unwrap();
        connection.answer(stream);
        connection.meter.outbound(&reset(stream, code::NO_ERROR));
        for _ in 0..8 {
            connection.receive(&frame(kind::DATA, 0, stream, &[0; 16_384])).unwrap();
            connection.meter.outbound(&reset(stream, code::STREAM_CLOSED));
        }
        connection.passed.clear();
    }
}

/// Clients that leave when they have seen the head of the response: what they cancel is no fault of the endpoint's, nor
/// are the frames that were under way.
#[test]
fn an_endpoint_whose_answers_are_given_up_is_never_a_flood() {
    let mut meter = FloodGuard::new(Side::Upstream, FloodLimits::default());
    meter.outbound(&[&PREFACE[..], &settings()].concat());
    for stream in (1..40_000).step_by(2) {
        meter.outbound(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &[0x82; 60]));
        let head = frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x88; 20]);
        assert_eq!(meter.inbound(&head, 0).unwrap().pass, head.len());
        meter.opened();
        meter.turn(limits::H2_TURN_BYTES);
        meter.outbound(&reset(stream, code::CANCEL));
        if stream % 64 == 1 {
            meter.outbound(&reset(stream, code::STREAM_CLOSED));
        }
    }
}

/// An endpoint whose head is too large loses that response: the codec sees to it.
#[test]
fn an_endpoint_with_a_large_head_is_no_flood() {
    let limits = FloodLimits { max_head: 8 * 1024, ..FloodLimits::default() };
    let mut meter = FloodGuard::new(Side::Upstream, limits);
    meter.outbound(&[&PREFACE[..], &settings(), &request(1)].concat());
    let head = [
        frame(kind::HEADERS, 0, 1, &[0x88; 16_384]),
        frame(kind::CONTINUATION, 0, 1, &[0x88; 16_384]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[0x88; 16_384]),
    ]
    .concat();
    let mut rest = &head[..];
    while !rest.is_empty() {
        rest = &rest[meter.inbound(rest, 0).unwrap().pass..];
        meter.opened();
        meter.turn(limits::H2_TURN_BYTES);
    }
}

/// A download through a small window, and one in large frames.
#[test]
fn downloads_are_served_whatever_the_window() {
    for size in [256, 1000, 16_384] {
        let mut connection = Connection::open();
        connection.receive(&request(1)).unwrap();
        let data = frame(kind::DATA, 0, 1, &vec![0; size]);
        for _ in 0..50_000 {
            connection.meter.gave(1, size, true);
            connection.meter.outbound(&data);
            let acknowledged = [window_update(1, size as u32), window_update(0, size as u32)];
            connection.receive(&acknowledged.concat()).unwrap();
        }
    }
}

/// What waits in the codec goes when it is written, or with its stream, whichever side resets that.
#[test]
fn what_the_codec_holds_is_known() {
    let mut connection = Connection::open();
    for stream in [1, 3, 5, 7] {
        connection.receive(&request(stream)).unwrap();
        connection.meter.gave(stream, 1000, false);
    }
    connection.meter.outbound(&frame(kind::DATA, 0, 3, &[0; 400]));
    assert_eq!(connection.meter.held(), 3600);
    connection.receive(&reset(3, code::CANCEL)).unwrap();
    assert_eq!(connection.meter.held(), 3000);
    connection.meter.outbound(&frame(kind::DATA, 0, 3, &[0; 600]));
    assert_eq!(connection.meter.held(), 3000, "of a stream that has been reset");
    connection.meter.outbound(&reset(5, code::CANCEL));
    connection.meter.forget(7);
    assert_eq!(connection.meter.held(), 1000);
    connection.meter.outbound(&frame(kind::DATA, flag::END_STREAM, 1, &[0; 1000]));
    assert_eq!(connection.meter.held(), 0);
}

/// Interim and final heads, small messages, measured round trips.
#[test]
fn an_endpoint_that_answers_is_never_a_flood() {
    let mut meter = FloodGuard::new(Side::Upstream, FloodLimits::default());
    meter.outbound(&[&PREFACE[..], &settings()].concat());
    for stream in (1..40_000).step_by(2) {
        meter.outbound(&frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x82; 60]));
        meter.outbound(&message(stream));
        meter.outbound(&message(stream));
        meter.outbound(&frame(kind::DATA, flag::END_STREAM, stream, &[]));
        let wire = [
            frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x08; 20]),
            frame(kind::PING, 0, 0, &[0; 8]),
            window_update(stream, 15),
            window_update(0, 15),
            frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x88; 20]),
            message(stream),
            frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &[0x88; 20]),
        ]
        .concat();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let allow = meter.inbound(rest, 0).unwrap();
            rest = &rest[allow.pass..];
            meter.opened();
            meter.turn(limits::H2_TURN_BYTES);
        }
    }
}
