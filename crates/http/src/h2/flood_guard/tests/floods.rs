//! Rows D7 and D8 of the list of hostile inputs: each is caught within its bound.

use super::*;

/// Hostile input D7, CVE-2023-44487.
#[test]
fn rapid_resets_end_after_twice_the_stream_limit() {
    let attack = |round: u32| [request(round * 2 + 1), reset(round * 2 + 1, code::CANCEL)].concat();
    assert_eq!(Connection::open().endure(attack), (200, Some(Flood::Resets)));

    let mut connection = Connection::new(FloodLimits { max_streams: 1000, ..FloodLimits::default() });
    connection.receive(&opening()).unwrap();
    assert_eq!(connection.endure(attack), (2000, Some(Flood::Resets)));
}

#[test]
fn time_gives_resets_back_a_fifth_of_the_stream_limit_a_second() {
    let mut connection = Connection::open();
    let mut stream = 1;
    let mut reset_some = |connection: &mut Connection, count| {
        for _ in 0..count {
            connection.receive(&[request(stream), reset(stream, code::CANCEL)].concat()).unwrap();
            stream += 2;
        }
    };
    reset_some(&mut connection, 200);
    for _ in 0..20 {
        connection.now_ms += 1000;
        reset_some(&mut connection, 20);
    }
    assert_eq!(connection.meter.resets.level(), 0);
}

/// An old stream, reset again and again.
#[test]
fn resets_of_old_streams_are_not_free() {
    let mut connection = Connection::open();
    connection.receive(&request(1)).unwrap();
    connection.now_ms += 1000;
    assert_eq!(connection.endure(|_| reset(1, code::CANCEL)), (2000, Some(Flood::Resets)));
}

/// Hostile input D7, CVE-2025-8671: the answers to broken frames are resets of ours.
#[test]
fn provoked_resets_end_after_twice_the_stream_limit_however_the_codec_writes_them() {
    for code in [code::PROTOCOL_ERROR, code::FLOW_CONTROL_ERROR, code::FRAME_SIZE_ERROR, code::STREAM_CLOSED]
    {
        let mut connection = Connection::open();
        let mut rounds = 0;
        while connection.receive(&[]).is_ok() {
            let refused: u32 = reset(rounds * 2 + 1, code)
                .chunks(1 + rounds as usize % 13)
                .map(|piece| connection.meter.outbound(piece).refused)
                .sum();
            assert_eq!(refused, 1);
            rounds += 1;
        }
        assert_eq!((rounds, connection.receive(&[])), (201, Err(Flood::ProvokedResets)), "{code}");
    }
}

#[test]
fn resets_of_our_own_accord_are_free() {
    let mut connection = Connection::open();
    for code in [code::NO_ERROR, code::CANCEL, code::INTERNAL_ERROR] {
        for stream in 0..1000 {
            assert_eq!(connection.meter.outbound(&reset(stream * 2 + 1, code)), Sent::default());
        }
    }
    assert_eq!(connection.meter.resets.level(), 200);
}

/// Frames that were under way when the stream ended come in a row.
#[test]
fn late_frames_of_one_stream_cost_one_reset_and_are_not_free() {
    let mut connection = Connection::open();
    let mut resets = 0;
    while connection.receive(&[]).is_ok() {
        connection.meter.outbound(&reset(1, code::STREAM_CLOSED));
        resets += 1;
    }
    assert_eq!(connection.meter.resets.level(), 199);
    assert_eq!(resets, 1 + OPEN + 1);
}

#[test]
fn streams_over_the_limit_cost_little_until_the_limit_is_known() {
    let mut connection = Connection::new(FloodLimits::default());
    connection.receive(&[&PREFACE[..], &settings()].concat()).unwrap();
    for stream in 0..1000 {
        connection.meter.outbound(&reset(stream * 2 + 1, code::REFUSED_STREAM));
    }
    assert_eq!(connection.meter.resets.level(), 200);
    connection.receive(&frame(kind::SETTINGS, flag::ACK, 0, &[])).unwrap();
    for stream in 1000..1200 {
        connection.meter.outbound(&reset(stream * 2 + 1, code::REFUSED_STREAM));
    }
    assert_eq!(connection.receive(&[]), Ok(()));
    connection.meter.outbound(&reset(2401, code::REFUSED_STREAM));
    assert_eq!(connection.receive(&[]), Err(Flood::ProvokedResets));
}

/// Hostile input D8, CVE-2024-27316.
#[test]
fn field_sections_without_end_are_cut_by_frames_and_by_bytes_before_they_are_held() {
    for (size, most) in [(0, 5), (1, 5), (16_384, 3)] {
        let mut connection = Connection::open();
        connection.receive(&frame(kind::HEADERS, 0, 1, &[FEW; 16_384])).unwrap();
        let before = connection.passed.len();
        let (frames, flood) = connection.endure(|_| frame(kind::CONTINUATION, 0, 1, &vec![FEW; size]));
        let expected = if size > 1 { Flood::FieldSection } else { Flood::Continuations };
        assert_eq!((frames, flood), (most, Some(expected)), "{size}");
        assert_eq!(connection.passed.len() - before, most as usize * (9 + size));
    }
}

/// Hostile input D9: a field that takes a byte unpacks to what was put into the table before.
#[test]
fn sections_of_too_many_fields_are_cut_before_they_are_unpacked() {
    let section = |fields| frame(kind::HEADERS, flag::END_HEADERS, 1, &vec![0xbe; fields]);
    assert_eq!(Connection::open().receive(&section(1000)), Ok(()));
    let mut connection = Connection::open();
    let before = connection.passed.len();
    assert_eq!(connection.receive(&section(1001)), Err(Flood::FieldSection));
    assert_eq!(connection.passed.len(), before, "some of it reached the codec");
    let limits = FloodLimits { max_fields: 500, ..FloodLimits::default() };
    let mut connection = Connection::new(limits);
    connection.receive(&opening()).unwrap();
    assert_eq!(connection.receive(&section(2000)), Ok(()));
    // Of each section anew, and of all its frames together.
    let begun = frame(kind::HEADERS, 0, 3, &[0xbe; 1500]);
    assert_eq!(connection.receive(&begun), Ok(()));
    let rest = frame(kind::CONTINUATION, flag::END_HEADERS, 3, &[0xbe; 501]);
    assert_eq!(connection.receive(&rest), Err(Flood::FieldSection));
}

/// The codec unpacks it before it knows that nobody may send it.
#[test]
fn promises_do_not_reach_the_codec() {
    for peer in [Side::Downstream, Side::Upstream] {
        let mut meter = FloodGuard::new(peer, FloodLimits::default());
        let begun = if peer == Side::Downstream { opening() } else { settings() };
        meter.inbound(&begun, 0).unwrap();
        let promise = frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0xbe; 100]);
        assert_eq!(meter.inbound(&promise, 0), Err(Flood::OtherFrames), "{peer:?}");
    }
}

#[test]
fn the_largest_lawful_field_section_comes_through() {
    let mut connection = Connection::open();
    connection.receive(&frame(kind::HEADERS, 0, 1, &[FEW; 16_384])).unwrap();
    for _ in 0..3 {
        connection.receive(&frame(kind::CONTINUATION, 0, 1, &[FEW; 16_384])).unwrap();
    }
    connection.receive(&frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[FEW; 8192])).unwrap();
    let limits = FloodLimits { max_head: 1024 * 1024, ..FloodLimits::default() };
    assert_eq!(FloodGuard::new(Side::Downstream, limits).continuations(), 80);
    let limits = FloodLimits { max_head: usize::MAX, ..limits };
    assert_eq!(FloodGuard::new(Side::Downstream, limits).continuations(), u32::MAX);
}

/// Hostile input D8.
#[test]
fn frames_that_carry_nothing_are_cut_when_their_budget_is_spent() {
    let padded = [&[9][..], &[0; 9]].concat();
    let floods = [
        (settings(), OPEN / 10, Flood::Settings),
        (frame(kind::SETTINGS, flag::ACK, 0, &[]), OPEN, Flood::Settings),
        (frame(kind::PING, 0, 0, &[0; 8]), OPEN, Flood::Pings),
        (frame(kind::PING, flag::ACK, 0, &[0; 8]), OPEN, Flood::Pings),
        (frame(kind::PRIORITY, 0, 3, &[0; 5]), OPEN, Flood::Priorities),
        (frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 5]), OPEN, Flood::Priorities),
        (frame(kind::GOAWAY, 0, 0, &[0; 8]), OPEN, Flood::OtherFrames),
        (frame(kind::CONTINUATION, 0, 1, &[]), OPEN, Flood::OtherFrames),
        (frame(0x55, 0xff, 77, &[0; 5]), OPEN, Flood::OtherFrames),
        (frame(kind::DATA, 0, 1, &[]), OPEN, Flood::EmptyData),
        (frame(kind::DATA, flag::PADDED, 1, &padded), OPEN, Flood::EmptyData),
        (frame(kind::DATA, flag::END_STREAM, 1, &[]), OPEN, Flood::EmptyData),
    ];
    for (wire, most, expected) in floods {
        let mut connection = Connection::open();
        connection.receive(&request(1)).unwrap();
        assert_eq!(connection.endure(|_| wire.clone()), (most, Some(expected)));
    }
}

/// Hostile input D8: a field section on a stream that has one, which a codec may ignore after a reset.
#[test]
fn further_field_sections_of_a_stream_are_cut() {
    let mut connection = Connection::open();
    connection.receive(&request(1)).unwrap();
    assert_eq!(connection.endure(|_| request(1)), (OPEN, Some(Flood::Headers)));
}

/// Hostile input D8: one empty frame too many would end the connection in the codec, however old it is.
#[test]
fn empty_data_that_means_nothing_does_not_reach_the_codec_for_long() {
    let mut connection = Connection::open();
    connection.receive(&request(1)).unwrap();
    let before = connection.passed.len();
    for _ in 0..10_000 {
        connection.receive(&frame(kind::DATA, 0, 1, &[])).unwrap();
        connection.now_ms += 5;
    }
    assert_eq!(connection.passed.len() - before, 50 * HEAD_LEN);
    connection.receive(&frame(kind::DATA, flag::END_STREAM, 1, &[])).unwrap();
    assert_eq!(connection.passed.len() - before, 51 * HEAD_LEN);
}

/// Hostile input D8: the window is opened by one byte, and one byte is sent.
#[test]
fn windows_opened_by_crumbs_are_cut() {
    let mut connection = Connection::open();
    let mut rounds = 0;
    while connection.receive(&window_update(1, 1)).is_ok() {
        connection.meter.gave(1, 1, true);
        assert_eq!(connection.meter.outbound(&frame(kind::DATA, 0, 1, b"x")).payload, 1);
        rounds += 1;
    }
    assert_eq!((rounds, connection.receive(&[])), (2000, Err(Flood::WindowUpdates)));
}

/// A mix of everything is bounded by the same budgets.
#[test]
fn mixed_floods_are_cut_too() {
    let (rounds, flood) = Connection::open().endure(|round| match round % 4 {
        0 => frame(kind::PING, 0, 0, &[0; 8]),
        1 => frame(kind::PRIORITY, 0, 3, &[0; 5]),
        2 => frame(kind::DATA, 0, 1, &[]),
        _ => settings(),
    });
    assert!(rounds < 640 && flood.is_some(), "{rounds}");
}

/// An endpoint that resets every stream does what it was asked to; one that resets unasked does not.
#[test]
fn resets_of_an_endpoint_are_paid_for_by_the_requests() {
    let mut meter = FloodGuard::new(Side::Upstream, FloodLimits::default());
    meter.outbound(&[&PREFACE[..], &settings()].concat());
    for stream in (1..100_000).step_by(2) {
        meter.outbound(&request(stream));
        let allow = meter.inbound(&reset(stream, code::REFUSED_STREAM), 0).unwrap();
        assert_eq!((allow.pass, allow.skip), (13, 0));
        meter.turn(limits::H2_TURN_BYTES);
    }
    let more = (0..100_000).position(|_| meter.inbound(&reset(1, code::CANCEL), 0).is_err());
    // The first request found a full budget.
    assert_eq!(more, Some(199));
}
