use super::*;

fn parse(input: &[u8]) -> Result<Progress, Fault> {
    RequestHead::new().parse(input, &HeadLimits::default())
}

fn status(input: &[u8]) -> u16 {
    match parse(input) {
        Err(fault) => fault.status,
        Ok(progress) => panic!("{} is {progress:?}", input.escape_ascii()),
    }
}

fn refused(lines: &[&str]) {
    for line in lines {
        assert_eq!(status(line.as_bytes()), 400, "{line:?}");
    }
}

/// Refused with the whole head there, and already with its last byte.
fn refused_fields(fields: &[&str]) {
    for field in fields {
        assert_eq!(status(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}").as_bytes()), 400, "{field:?}");
        assert_eq!(
            status(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n").as_bytes()),
            400,
            "{field:?}"
        );
    }
}

#[test]
fn reads_a_plain_request() {
    let input = b"GET /a?b HTTP/1.1\r\nHost: example.com\r\nX:\r\nhost:  b \r\n\r\nGET";
    let mut head = RequestHead::new();
    assert_eq!(head.parse(input, &HeadLimits::default()), Ok(Progress::Complete));
    assert_eq!((head.method, head.version, head.len), (Method::Get, Version::Http11, input.len() - 3));
    assert_eq!((head.method_text.of(input), head.target.of(input)), (&b"GET"[..], &b"/a?b"[..]));
    assert_eq!(head.value(input, FieldId::Host), Some(&b"example.com"[..]));
    assert_eq!(head.values(input, FieldId::Host).collect::<Vec<_>>(), [&b"example.com"[..], b"b"]);
    assert_eq!(head.value(input, FieldId::Cookie), None);
    assert_eq!(head.fields[1].value.of(input), b"");
    head.strip(FieldId::Host);
    assert_eq!(head.fields.iter().map(|field| field.keep).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(head.parse(input, &HeadLimits::default()), Ok(Progress::Complete), "again changes nothing");
    let capacity = head.fields.capacity();
    head.clear();
    assert_eq!((head.fields.len(), head.fields.capacity(), head.len), (0, capacity, 0));
    assert_eq!(head.parse(b"x / HTTP/1.0\r\n\r\n", &HeadLimits::default()), Ok(Progress::Complete));
    assert_eq!((head.method, head.version), (Method::Other, Version::Http10));
}

/// A byte at a time gives the same head; every prefix is partial.
#[test]
fn can_be_resumed_at_every_byte() {
    let input = b"\r\nPOST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    let mut head = RequestHead::new();
    for end in 0..input.len() {
        assert_eq!(head.parse(&input[..end], &HeadLimits::default()), Ok(Progress::Partial), "{end}");
    }
    assert_eq!(head.parse(input, &HeadLimits::default()), Ok(Progress::Complete));
    assert_eq!((head.len, head.method_text.of(input)), (input.len(), &b"POST"[..]));
    assert_eq!(head.value(input, FieldId::ContentLength), Some(&b"3"[..]));
}

#[test]
fn a6_whitespace_before_the_colon_and_odd_names_are_refused() {
    refused_fields(&["A : b", "A\t: b", ": b", "A\u{e9}: b"]);
    for byte in b"(),/;<=>?@[\\]{}\"\x01\x7f\0" {
        refused_fields(&[&format!("A{}b: c", *byte as char)]);
    }
    refused(&["GET / HTTP/1.1\r\n Host: a\r\n\r\n", "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"]);
}

#[test]
fn a7_folded_lines_are_refused() {
    refused_fields(&["A: b\r\n c", "A: b\r\n\tc", "A: b\r\n "]);
    let fault = Fault::request(400, "a field continued on the next line (obs-fold)");
    assert_eq!(parse(b"GET / HTTP/1.1\r\nA: b\r\n "), Err(fault));
}

#[test]
fn a8_bare_lf_and_bare_cr_are_refused_anywhere() {
    refused(&[
        "\nGET / HTTP/1.1\r\n",
        "\rGET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\n",
        "GET / HTTP/1.1\rX",
        "GET /\n",
        "GET\n",
        "GET / HTTP/1.1\r\n\n",
        "GET / HTTP/1.1\r\n\rX",
        "GET / HTTP/1.1\r\nA: b\n",
        "GET / HTTP/1.1\r\nA: b\rc",
        "GET / HTTP/1.1\r\nA: b\r\n\rX",
        "GET / HTTP/1.1\r\nA: b\r\n\n",
        "GET / HTTP/1.1\r\nA\n",
    ]);
}

#[test]
fn a9_nul_and_controls_are_refused_at_once() {
    refused_fields(&["A: \0", "A: b\x01c", "A: b\x7fc", "A: \x0b"]);
    refused(&["GE\0", "\0", "GET /\0", "GET /\x01", "GET /\x7f", "G\x01"]);
}

#[test]
fn a14_malformed_request_lines_are_refused() {
    refused(&[
        "GET  / HTTP/1.1\r\n",
        "GET /  HTTP/1.1\r\n",
        "GET\t/ HTTP/1.1\r\n",
        "GET /\tHTTP/1.1\r\n",
        "GET / HTTP/1.1 \r\n",
        "GET /\r\n",
        "GET\r\n",
        "GET / \r\n",
        "GET / http/1.1\r\n",
        "GET / HTTP/1.10\r\n",
        "GET / HTTP/11\r\n",
        "GET / HTTP/a.1\r\n",
        "GET / HTP/1.1\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\n",
        " GET / HTTP/1.1\r\n",
        "GET / a HTTP/1.1\r\n",
        "G(T / HTTP/1.1\r\n",
    ]);
    refused(&[&"M".repeat(1024), &format!("{} / HTTP/1.1\r\n\r\n", "M".repeat(METHOD_MAX + 1))]);
    for version in ["2.0", "3.0", "0.9", "9.9"] {
        assert_eq!(status(format!("GET / HTTP/{version}\r\n\r\n").as_bytes()), 505, "{version}");
    }
    for version in ["01.01", "1.01", "01.1", "2", "2.00", "1.1.1", "1.", ".1", "+1.1", "1.1a"] {
        assert_eq!(status(format!("GET / HTTP/{version}\r\n\r\n").as_bytes()), 400, "{version}");
    }
}

/// RFC 9110 §2.5: a higher minor version is served as the highest that is known.
#[test]
fn a14_higher_minor_versions_are_served_as_1_1() {
    for version in ["1.2", "1.9"] {
        let input = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
        let mut head = RequestHead::new();
        for end in 0..input.len() {
            assert_eq!(head.parse(&input.as_bytes()[..end], &HeadLimits::default()), Ok(Progress::Partial));
        }
        assert_eq!(head.parse(input.as_bytes(), &HeadLimits::default()), Ok(Progress::Complete));
        assert_eq!((head.version, head.len), (Version::Http11, input.len()));
    }
}

#[test]
fn a14_unknown_methods_and_one_empty_line_pass() {
    for input in ["\r\nGET / HTTP/1.1\r\n\r\n", "frob / HTTP/1.1\r\n\r\n", "M-SEARCH * HTTP/1.1\r\n\r\n"] {
        assert_eq!(parse(input.as_bytes()), Ok(Progress::Complete), "{input:?}");
    }
}

/// `delete` passed a guard on `DELETE`, and services that ignore case took it for that.
#[test]
fn a_well_known_method_in_another_case_is_refused() {
    for method in ["get", "Post", "dElete", "propfind"] {
        refused(&[&format!("{method} / HTTP/1.1\r\n\r\n")]);
    }
}

#[test]
fn a15_forbidden_target_bytes_are_refused_at_once() {
    for byte in "#<>\u{e9}\u{7f}\u{1}\n".chars() {
        refused(&[&format!("GET /a{byte}"), &format!("GET /a?{byte}b HTTP/1.1\r\n\r\n")]);
        refused(&[&format!("GET /a|{byte}")]);
    }
    let input = b"GET /a|b?\"\\^`{}x HTTP/1.1\r\n\r\n";
    let mut head = RequestHead::new();
    for end in 0..=input.len() {
        assert!(head.parse(&input[..end], &HeadLimits::default()).is_ok(), "{end}");
    }
    assert_eq!((head.target.of(input), head.has_raw_target), (&b"/a|b?\"\\^`{}x"[..], true));
    head.clear();
    assert!(head.parse(b"GET /a?b HTTP/1.1\r\n\r\n", &HeadLimits::default()).is_ok() && !head.has_raw_target);
    assert_eq!(parse(b"GET /a;b=1,(2)!*'$&+@:~?x[]=%20 HTTP/1.1\r\n\r\n"), Ok(Progress::Complete));
}

#[test]
fn a22_limits_hold_to_the_byte_and_for_unfinished_heads() {
    let limits = HeadLimits { line: 30, head: 60, fields: 2 };
    let parse =
        |input: &str| RequestHead::new().parse(input.as_bytes(), &limits).map_err(|fault| fault.status);
    let line = |len: usize| format!("GET /{} HTTP/1.1", "a".repeat(len - 14));
    assert_eq!(parse(&format!("{}\r\n\r\n", line(30))), Ok(Progress::Complete));
    assert_eq!(parse(&format!("\r\n{}\r\n\r\n", line(30))), Ok(Progress::Complete));
    assert_eq!(parse(&format!("{}\r\n\r\n", line(31))), Err(414));
    assert_eq!(parse(&format!("GET /{}", "a".repeat(26))), Ok(Progress::Partial));
    assert_eq!(parse(&format!("GET /{}", "a".repeat(27))), Err(414));
    let head = |len: usize| format!("{}\r\nA: {}\r\n\r\n", line(30), "b".repeat(len - 39));
    assert_eq!(parse(&head(60)), Ok(Progress::Complete));
    assert_eq!(parse(&head(61)), Err(431));
    assert_eq!(parse(&head(62)[..59]), Ok(Progress::Partial));
    assert_eq!(parse(&head(62)[..60]), Err(431));
    assert_eq!(parse("GET / HTTP/1.1\r\nA:\r\nB:\r\n\r\n"), Ok(Progress::Complete));
    assert_eq!(parse("GET / HTTP/1.1\r\nA:\r\nB:\r\nC"), Err(431));
    let small = HeadLimits { line: 30, head: 20, fields: 2 };
    let parse =
        |input: &str| RequestHead::new().parse(input.as_bytes(), &small).map_err(|fault| fault.status);
    assert_eq!(parse("GET /aaaaaaaaaaaaaa"), Ok(Progress::Partial));
    assert_eq!(parse("GET /aaaaaaaaaaaaaaa"), Err(431), "the smaller bound counts");
}

#[test]
fn a26_other_protocols_are_refused_at_their_first_wrong_byte() {
    for (input, detail) in [
        (&b"\x16"[..], "a TLS handshake on a plain-text port"),
        (b"SSH-2.0-OpenSSH_9.6\r", "a request line without a target"),
        (b"PROXY TCP4 1", "a malformed version or a space in the request target"),
        (b"\r\n\r\n\0\r\nQUIT\n", "more than one empty line before the request line"),
        (b"PRI * HTTP/2", "an HTTP/2 preface on an HTTP/1 port"),
        (b"\0\0\0\x85\xffSMB", "NUL in the method"),
        (b"\xff", "a forbidden character in the method"),
        (b"\x03\0", "a forbidden character in the method"),
    ] {
        assert_eq!(parse(input), Err(Fault::request(400, detail)), "{}", input.escape_ascii());
    }
}
