use super::*;
use crate::h1::HeadLimits;

fn request(text: &str) -> Result<Framing, u16> {
    let mut head = RequestHead::new();
    head.parse(text.as_bytes(), &HeadLimits::default()).unwrap();
    request_framing(&head, text.as_bytes()).map_err(|fault| fault.status)
}

fn with(fields: &str) -> Result<Framing, u16> {
    request(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"))
}

fn response(to: Method, text: &str) -> Result<(Framing, bool), FaultKind> {
    let bytes = text.replace('|', "\r\n") + "\r\n\r\n";
    let mut head = ResponseHead::new();
    head.parse(bytes.as_bytes(), &HeadLimits::default()).unwrap();
    let framing = response_framing(to, &head, bytes.as_bytes()).map_err(|fault| fault.kind)?;
    Ok((framing, response_keeps_alive(&head, bytes.as_bytes(), framing)))
}

#[test]
fn one_length_or_chunked_frames_a_request() {
    assert_eq!(with("A: b"), Ok(Framing::Empty));
    assert_eq!(with("Content-Length: 0"), Ok(Framing::Length(0)));
    assert_eq!(with("content-length:007 "), Ok(Framing::Length(7)));
    assert_eq!(with("Content-Length: 9223372036854775807"), Ok(Framing::Length(i64::MAX as u64)));
    assert_eq!(with("Transfer-Encoding: chunked"), Ok(Framing::Chunked));
    assert_eq!(with("transfer-encoding:\tChUnKeD"), Ok(Framing::Chunked));
    assert_eq!(request("GET / HTTP/1.0\r\nContent-Length: 3\r\n\r\n"), Ok(Framing::Length(3)));
}

#[test]
fn a1_length_and_coding_together_are_refused() {
    assert_eq!(with("Content-Length: 5\r\nTransfer-Encoding: chunked"), Err(400));
    assert_eq!(with("Transfer-Encoding: chunked\r\nContent-Length: 5"), Err(400));
    assert_eq!(with("Transfer-Encoding: gzip\r\nContent-Length: 0"), Err(400));
}

#[test]
fn a2_a3_lengths_that_parsers_read_differently_are_refused() {
    for lengths in
        ["5\r\nContent-Length: 6", "5\r\nContent-Length: 5", "5\r\nA: b\r\ncontent-length: 5", "5, 5", "5,5"]
    {
        assert_eq!(with(&format!("Content-Length: {lengths}")), Err(400), "{lengths}");
    }
    for length in [
        "+5",
        "-1",
        "0x5",
        "5 5",
        "5,",
        ",5",
        "",
        "5;",
        "5a",
        "\u{0665}",
        "1e3",
        "5.0",
        "9223372036854775808",
        "18446744073709551616",
        "123456789012345678901234567890",
        "00000000000000000005",
        "5_0",
        "\"5\"",
    ] {
        assert_eq!(with(&format!("Content-Length: {length}")), Err(400), "{length}");
    }
}

#[test]
fn a4_codings_other_than_chunked_are_refused() {
    for coding in [
        "xchunked",
        "chunked, identity",
        "identity",
        "chunked, chunked",
        "\"chunked\"",
        "chunked;a=b",
        "chunked,",
        ",chunked",
        "",
        "gzip",
        "chunked, gzip",
        "gzip, chunked, chunked",
        "identity, chunked",
        "chunked\u{a0}",
        "chunked x",
        "gzip,chunked,",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: identity",
        "gzip\r\nTransfer-Encoding: chunked",
    ] {
        assert_eq!(with(&format!("Transfer-Encoding: {coding}")), Err(400), "{coding}");
    }
    for coding in ["gzip, chunked", "GZIP,chunked", "deflate, chunked", "x-compress, gzip, chunked"] {
        assert_eq!(with(&format!("Transfer-Encoding: {coding}")), Err(501), "{coding}");
    }
}

#[test]
fn a5_a_coding_in_http_1_0_is_refused() {
    assert_eq!(request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(400));
}

#[test]
fn a16_get_head_and_delete_may_have_a_body() {
    for method in ["GET", "HEAD", "DELETE"] {
        assert_eq!(
            request(&format!("{method} / HTTP/1.1\r\nContent-Length: 3\r\n\r\n")),
            Ok(Framing::Length(3))
        );
        assert_eq!(
            request(&format!("{method} / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")),
            Ok(Framing::Chunked)
        );
    }
}

#[test]
fn responses_are_framed_by_the_rules_of_their_status_and_method() {
    let get = |text: &str| response(Method::Get, text);
    assert_eq!(get("HTTP/1.1 200 OK|Content-Length: 5"), Ok((Framing::Length(5), true)));
    assert_eq!(get("HTTP/1.1 200 OK|Transfer-Encoding: chunked"), Ok((Framing::Chunked, true)));
    assert_eq!(get("HTTP/1.1 200 OK"), Ok((Framing::UntilClose, false)));
    assert_eq!(get("HTTP/1.0 200 OK|Content-Length: 5"), Ok((Framing::Length(5), false)));
    assert_eq!(
        get("HTTP/1.0 200 OK|Content-Length: 5|Connection: Keep-Alive"),
        Ok((Framing::Length(5), true))
    );
    assert_eq!(
        get("HTTP/1.1 200 OK|Content-Length: 5|Connection: a, Close"),
        Ok((Framing::Length(5), false))
    );
    assert_eq!(get("HTTP/1.1 304 Not Modified|Content-Length: 5"), Ok((Framing::Empty, true)));
    assert_eq!(get("HTTP/1.1 204 No Content|Content-Length: 0"), Ok((Framing::Empty, true)));
    assert_eq!(get("HTTP/1.1 101 Switching Protocols"), Ok((Framing::Empty, true)));
    assert_eq!(response(Method::Head, "HTTP/1.1 200 OK|Content-Length: 5"), Ok((Framing::Empty, true)));
    assert_eq!(
        response(Method::Head, "HTTP/1.1 200 OK|Transfer-Encoding: chunked"),
        Ok((Framing::Empty, true))
    );
    assert_eq!(response(Method::Connect, "HTTP/1.1 200 OK|Content-Length: 5"), Ok((Framing::Empty, true)));
    assert_eq!(
        response(Method::Connect, "HTTP/1.1 403 No|Content-Length: 5"),
        Ok((Framing::Length(5), true))
    );
}

#[test]
fn c1_ambiguous_lengths_of_a_response_are_refused_whatever_the_status() {
    for status in ["200", "204", "304", "100"] {
        for fields in [
            "Content-Length: 5|Transfer-Encoding: chunked",
            "Content-Length: 5|Content-Length: 5",
            "Content-Length: 5|Content-Length: 6",
            "Content-Length: 5, 5",
            "Content-Length: -1",
            "Content-Length:",
        ] {
            let text = format!("HTTP/1.1 {status} A|{fields}");
            assert_eq!(response(Method::Get, &text), Err(FaultKind::HttpProtocolError), "{text}");
            assert!(response(Method::Head, &text).is_err(), "{text}");
        }
    }
    let coding = FaultKind::HttpResponseTransferCoding;
    for value in ["gzip, chunked", "identity", "chunked, chunked", "chunked|Transfer-Encoding: chunked", ""] {
        assert_eq!(
            response(Method::Get, &format!("HTTP/1.1 200 A|Transfer-Encoding: {value}")),
            Err(coding),
            "{value}"
        );
    }
    assert_eq!(
        response(Method::Get, "HTTP/1.0 200 A|Transfer-Encoding: chunked"),
        Err(FaultKind::HttpProtocolError)
    );
}

#[test]
fn c5_a_204_that_announces_a_body_ends_its_connection() {
    for fields in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        assert_eq!(response(Method::Get, &format!("HTTP/1.1 204 A|{fields}")), Ok((Framing::Empty, false)));
    }
}

#[test]
fn requests_keep_alive_by_version_and_connection_options() {
    for (version, fields, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive\r\nconnection: x ,\tCLOSE\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let text = format!("GET / HTTP/{version}\r\n{fields}\r\n");
        let mut head = RequestHead::new();
        head.parse(text.as_bytes(), &HeadLimits::default()).unwrap();
        assert_eq!(request_keeps_alive(&head, text.as_bytes()), expected, "{text:?}");
    }
}
