use super::*;

const CODING: Fault = Fault::new(FaultKind::HttpResponseTransferCoding, "");

/// Payload, and bytes left over after the end (none while the body goes on).
fn read(reader: &mut BodyReader, mut input: &[u8]) -> Result<(Vec<u8>, Option<usize>), Fault> {
    let mut payload = Vec::new();
    loop {
        match reader.read(input)? {
            BodyStep::Data { skip, len } => {
                assert!(len > 0);
                payload.extend_from_slice(&input[skip..skip + len]);
                input = &input[skip + len..];
            }
            BodyStep::More { consumed } => {
                assert_eq!(consumed, input.len());
                return Ok((payload, None));
            }
            BodyStep::End { consumed } => return Ok((payload, Some(input.len() - consumed))),
        }
    }
}

/// Payload, bytes left over after the end, trailers.
type Body = (Vec<u8>, Option<usize>, Vec<u8>);

fn chunked(side: Side, input: &[u8]) -> Result<Body, Fault> {
    let mut reader = BodyReader::new(Framing::Chunked, side);
    let (payload, left) = read(&mut reader, input)?;
    assert_eq!(reader.is_complete(), left.is_some());
    Ok((payload, left, reader.trailers().to_vec()))
}

fn refused(bodies: &[&str]) {
    for body in bodies {
        for side in [Side::Downstream, Side::Upstream] {
            let fault = chunked(side, body.as_bytes()).expect_err(body);
            let expected = if side == Side::Upstream { CODING } else { Fault::request(400, "") };
            assert_eq!((fault.kind, fault.status), (expected.kind, expected.status), "{body:?}");
        }
    }
}

#[test]
fn a_length_ends_at_its_last_byte() {
    let mut reader = BodyReader::new(Framing::Length(5), Side::Downstream);
    assert_eq!(reader.read(b""), Ok(BodyStep::More { consumed: 0 }));
    assert_eq!(reader.read(b"ab"), Ok(BodyStep::Data { skip: 0, len: 2 }));
    assert_eq!((reader.is_complete(), reader.remaining_length()), (false, Some(3)));
    assert_eq!(reader.read(b"cdeGET"), Ok(BodyStep::Data { skip: 0, len: 3 }));
    assert_eq!((reader.is_complete(), reader.remaining_length()), (true, Some(0)));
    assert_eq!(reader.read(b"GET"), Ok(BodyStep::End { consumed: 0 }));
    assert_eq!(reader.end_of_input(), Ok(()));
}

#[test]
fn payload_that_goes_by_unseen_counts() {
    let mut reader = BodyReader::new(Framing::Length(5), Side::Upstream);
    assert_eq!(reader.plain(), 5);
    reader.pass(2);
    assert_eq!((reader.plain(), reader.remaining_length()), (3, Some(3)));
    assert_eq!(reader.read(b"c"), Ok(BodyStep::Data { skip: 0, len: 1 }));
    reader.pass(2);
    assert_eq!((reader.plain(), reader.is_complete()), (0, true));
    let mut reader = BodyReader::new(Framing::UntilClose, Side::Upstream);
    reader.pass(7);
    assert_eq!((reader.plain(), reader.is_complete()), (u64::MAX, false));
    for framing in [Framing::Empty, Framing::Chunked] {
        assert_eq!(BodyReader::new(framing, Side::Upstream).plain(), 0, "{framing:?}");
    }
}

#[test]
fn empty_bodies_are_complete_from_the_start() {
    for framing in [Framing::Empty, Framing::Length(0)] {
        let mut reader = BodyReader::new(framing, Side::Upstream);
        assert!(reader.is_complete());
        assert_eq!(reader.read(b"x"), Ok(BodyStep::End { consumed: 0 }));
    }
}

#[test]
fn a_body_until_close_ends_only_there() {
    let mut reader = BodyReader::new(Framing::UntilClose, Side::Upstream);
    assert_eq!(reader.read(b"abc"), Ok(BodyStep::Data { skip: 0, len: 3 }));
    assert_eq!((reader.is_complete(), reader.remaining_length()), (false, None));
    assert_eq!(reader.end_of_input(), Ok(()));
    assert!(reader.is_complete());
}

#[test]
fn chunks_are_read_and_what_follows_is_left_alone() {
    let body = b"5\r\nhello\r\n6;a=b\r\n world\r\n000\r\n\r\nGET";
    assert_eq!(chunked(Side::Downstream, body), Ok((b"hello world".to_vec(), Some(3), vec![])));
    assert_eq!(chunked(Side::Upstream, b"0\r\n\r\n"), Ok((vec![], Some(0), vec![])));
    let mut reader = BodyReader::new(Framing::Chunked, Side::Downstream);
    assert_eq!(reader.read(b"5\r\nhe"), Ok(BodyStep::Data { skip: 3, len: 2 }));
    assert_eq!(reader.read(b"llo\r"), Ok(BodyStep::Data { skip: 0, len: 3 }));
    assert_eq!(reader.read(b"\r"), Ok(BodyStep::More { consumed: 1 }));
    assert_eq!(reader.read(b"\n0\r\n\r\nx"), Ok(BodyStep::End { consumed: 6 }));
}

#[test]
fn a10_malformed_chunks_are_refused() {
    refused(&[
        "0x5\r\nhello",
        "+5\r\n",
        "5 \r\n",
        " 5\r\n",
        "5_0\r\n",
        "\r\n",
        "-1\r\n",
        "00000000000000005\r\n",
        "ffffffffffffffff\r\n",
        "5\n",
        "5\r\nhelloX",
        "5\r\nhello\n",
        "5\r\nhello\rX",
        "5\r\nhello0\r\n\r\n",
        "5\rh",
        "0\r\n\n",
        "0\r\n\rX",
        "0\n\r\n",
    ]);
}

#[test]
fn a12_a_last_chunk_without_the_final_line_is_not_the_end() {
    for body in ["0\r\n", "0\r\n\r", "0\r\nA: b\r\n", "0\r\nA: b\r\n\r"] {
        let mut reader = BodyReader::new(Framing::Chunked, Side::Downstream);
        assert_eq!(read(&mut reader, body.as_bytes()), Ok((vec![], None)), "{body:?}");
        assert_eq!(reader.end_of_input().map_err(|fault| fault.status), Err(400));
    }
}

#[test]
fn a12_trailers_are_passed_on_but_forbidden_ones_are_not() {
    let end = |trailers: &str| format!("0\r\n{trailers}\r\nnext");
    let fine = "Grpc-Status: 0\r\nX:\ty \r\n";
    for side in [Side::Downstream, Side::Upstream] {
        assert_eq!(chunked(side, end(fine).as_bytes()), Ok((vec![], Some(4), fine.as_bytes().to_vec())));
    }
    for name in [
        "Content-Length",
        "transfer-encoding",
        "Host",
        "Trailer",
        "TE",
        "Connection",
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Any",
        "X_Forwarded_For",
        "Content_Length",
        "Content-Type",
        "Cache-Control",
        "Expect",
        "X-Real-IP",
    ] {
        let body = end(&format!("A: 1\r\n{name}: 5\r\nB: 2\r\n"));
        assert_eq!(
            chunked(Side::Downstream, body.as_bytes()).map_err(|fault| fault.status),
            Err(400),
            "{name}"
        );
        assert_eq!(
            chunked(Side::Upstream, body.as_bytes()),
            Ok((vec![], Some(4), b"A: 1\r\nB: 2\r\n".to_vec())),
            "{name}"
        );
    }
}

#[test]
fn a12_malformed_trailers_are_refused() {
    refused(&[
        "0\r\nA\r\n",
        "0\r\n A: b",
        "0\r\nA : b",
        "0\r\nA: b\n",
        "0\r\nA: b\r\n c",
        "0\r\nA: \0",
        "0\r\n: b",
        "0\r\nA: b\r\n\n",
    ]);
    refused(&[
        &format!("0\r\nA: {}", "a".repeat(limits::TRAILERS)),
        &format!("0\r\n{}", "A: b\r\n".repeat(limits::FIELDS + 1)),
    ]);
}

#[test]
fn a23_an_early_end_is_a_fault_of_the_side_that_closed() {
    for framing in [Framing::Length(10), Framing::Chunked] {
        for (side, kind) in [
            (Side::Downstream, FaultKind::HttpRequestError),
            (Side::Upstream, FaultKind::HttpResponseIncomplete),
        ] {
            let mut reader = BodyReader::new(framing, side);
            read(&mut reader, b"5\r\nhe").unwrap();
            assert_eq!(reader.end_of_input().map_err(|fault| fault.kind), Err(kind));
            assert_eq!(reader.read(b"llo").map_err(|fault| fault.kind), Err(kind), "it stays broken");
        }
    }
}

#[test]
fn a_fault_is_repeated_and_never_becomes_an_end() {
    let mut reader = BodyReader::new(Framing::Chunked, Side::Downstream);
    let fault = reader.read(b"x").unwrap_err();
    assert_eq!(reader.read(b"0\r\n\r\n"), Err(fault));
    assert_eq!(reader.end_of_input(), Err(fault));
    assert!(!reader.is_complete() && reader.trailers().is_empty());
}
