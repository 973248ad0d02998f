use super::*;

fn parse(input: &[u8]) -> Result<Progress, Fault> {
    ResponseHead::new().parse(input, &HeadLimits::default())
}

fn kind(input: &str) -> FaultKind {
    match parse(input.as_bytes()) {
        Err(fault) => fault.kind,
        Ok(progress) => panic!("{input:?} is {progress:?}"),
    }
}

#[test]
fn reads_a_plain_response_at_any_split() {
    let input = b"HTTP/1.0 404 Not Found\xff\r\nServer: a\r\n\r\nrest";
    for split in 0..input.len() - 4 {
        let mut head = ResponseHead::new();
        assert_eq!(head.parse(&input[..split], &HeadLimits::default()), Ok(Progress::Partial), "{split}");
        assert_eq!(head.parse(input, &HeadLimits::default()), Ok(Progress::Complete));
        assert_eq!((head.status, head.version, head.len), (404, Version::Http10, input.len() - 4));
        assert_eq!(head.reason.of(input), b"Not Found\xff");
        assert_eq!(head.value(input, FieldId::Server), Some(&b"a"[..]));
    }
}

#[test]
fn the_reason_and_its_space_may_be_missing() {
    for input in ["HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200 \r\n\r\n", "HTTP/1.1 599 \t \r\n\r\n"] {
        assert_eq!(parse(input.as_bytes()), Ok(Progress::Complete), "{input:?}");
    }
    let mut head = ResponseHead::new();
    assert_eq!(head.parse(b"HTTP/1.1 103\r\n\r\n", &HeadLimits::default()), Ok(Progress::Complete));
    assert!(head.is_interim() && head.reason.is_empty());
    head.clear();
    assert_eq!(head.parse(b"HTTP/1.1 101\r\n\r\n", &HeadLimits::default()), Ok(Progress::Complete));
    assert!(!head.is_interim());
}

#[test]
fn c3_odd_status_lines_are_refused_at_their_first_wrong_byte() {
    for input in [
        "HTTP/1.1 2000",
        "HTTP/1.1 20\r",
        "HTTP/1.1 20 ",
        "HTTP/1.1 200O",
        "HTTP/1.1 099",
        "HTTP/1.1 600",
        "HTTP/1.1 999",
        "HTTP/1.1  200",
        "HTTP/1.1\t200",
        "HTTP/1.1 +20",
        "HTTP/3",
        "HTTP/2",
        "HTTP/0.9",
        "HTTP/01.1",
        "HTTP/1.11",
        "http",
        "ICY 200",
        "\r\n",
        "\n",
        " ",
        "<html>",
        "\0",
        "SSH-",
        "HTTP/1.1 200\n",
        "HTTP/1.1 200\rx",
        "HTTP/1.1 200 OK\n",
        "HTTP/1.1 200 OK\rx",
        "HTTP/1.1 200 O\0",
        "1",
    ] {
        assert_eq!(kind(input), FaultKind::HttpProtocolError, "{input:?}");
    }
}

/// RFC 9110 §2.5.
#[test]
fn higher_minor_versions_are_read_as_1_1() {
    let mut head = ResponseHead::new();
    assert_eq!(head.parse(b"HTTP/1.2 200 OK\r\n\r\n", &HeadLimits::default()), Ok(Progress::Complete));
    assert_eq!((head.version, head.status), (Version::Http11, 200));
}

#[test]
fn c3_odd_fields_are_refused() {
    for field in ["A : b", " A: b", "A: b\r\n c", "A: b\n", "A: \0", "A\n", ": b", "A: b\rc", "A", "\n"] {
        assert_eq!(
            kind(&format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n")),
            FaultKind::HttpProtocolError,
            "{field:?}"
        );
    }
}

/// Hostile input C8: a raw line break in a value cannot be told from a new line, all else can.
#[test]
fn c8_raw_controls_in_values_are_refused_and_encoded_ones_pass() {
    assert_eq!(
        kind("HTTP/1.1 302 Found\r\nLocation: /a\nSet-Cookie: b\r\n\r\n"),
        FaultKind::HttpProtocolError
    );
    assert_eq!(parse(b"HTTP/1.1 302 Found\r\nLocation: /a%0d%0ab\r\n\r\n"), Ok(Progress::Complete));
}

#[test]
fn c3_large_heads_are_refused_with_their_own_fault() {
    let too_large = FaultKind::HttpResponseHeaderSectionSize;
    assert_eq!(kind(&format!("HTTP/1.1 200 {}", "a".repeat(20_000))), too_large);
    assert_eq!(kind(&format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(1 << 20))), too_large);
    assert_eq!(kind(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(129))), too_large);
    assert_eq!(
        parse(format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(128)).as_bytes()),
        Ok(Progress::Complete)
    );
}
