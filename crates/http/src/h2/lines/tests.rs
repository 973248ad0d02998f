use super::*;
use crate::h1::encode::write_fields;
use crate::method::{Method, Version};
use crate::rules::{host_of, strip_request};
use crate::{HeadLimits, Progress, RequestRules, parse_authority, parse_target};
use proptest::prelude::*;

type Lines<'a> = &'a [(&'a str, &'a str)];

const GET: Pseudo<'static> = Pseudo {
    method: b"GET",
    scheme: Some(b"https"),
    authority: Some(b"a.example"),
    path: Some(b"/x?y"),
    protocol: None,
};

fn iter<'a>(fields: Lines<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn request_within(
    pseudo: &Pseudo<'_>,
    fields: Lines<'_>,
    limits: &HeadLimits,
) -> Result<(RequestHead, String, Upgrade), Fault> {
    let (mut head, mut out) = (RequestHead::new(), Vec::new());
    let upgrade = read_request((pseudo, iter(fields)), limits, &mut head, &mut out)?;
    assert_eq!((head.len, head.version), (out.len(), Version::Http2));
    Ok((head, String::from_utf8(out).unwrap(), upgrade))
}

fn request(pseudo: &Pseudo<'_>, fields: Lines<'_>) -> Result<String, u16> {
    request_within(pseudo, fields, &HeadLimits::default())
        .map(|(_, text, _)| text)
        .map_err(|fault| fault.status)
}

fn response(status: u16, fields: Lines<'_>) -> Result<String, &'static str> {
    let (mut head, mut out) = (ResponseHead::new(), Vec::new());
    read_response((status, iter(fields)), &HeadLimits::default(), &mut head, &mut out)
        .map_err(|fault| fault.kind.name())?;
    assert_eq!((head.len, head.version, head.status), (out.len(), Version::Http2, status));
    assert_eq!(head.reason.of(&out), b"");
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn a_request_reads_as_its_lines() {
    let fields = [("accept", "*/*"), ("te", "trailers"), ("x_y", ""), ("host", "A.example:443")];
    let (head, text, upgrade) = request_within(&GET, &fields, &HeadLimits::default()).unwrap();
    assert_eq!(text, "GET /x?y HTTP/2.0\r\nhost: a.example\r\naccept: */*\r\nte: trailers\r\nx_y: \r\n\r\n");
    let bytes = text.as_bytes();
    assert_eq!((head.method, upgrade), (Method::Get, Upgrade::None));
    assert_eq!((head.method_text.of(bytes), head.target.of(bytes)), (&b"GET"[..], &b"/x?y"[..]));
    assert_eq!(
        host_of(&head, bytes).map(|host| host.map(|host| host.of(bytes))),
        Ok(Some(&b"a.example"[..]))
    );
    assert_eq!(head.value(bytes, FieldId::Accept), Some(&b"*/*"[..]));
    assert_eq!(head.fields.len(), 4);
    let mut again = head.clone();
    assert_eq!(again.parse(bytes, &HeadLimits::default()), Ok(Progress::Complete), "it is whole");
    let mut copied = Vec::new();
    write_fields(&mut copied, bytes, &head.fields);
    assert!(text.ends_with(&format!("{}\r\n", String::from_utf8(copied).unwrap())));
}

#[test]
fn a_host_without_an_authority_stays_where_it_is() {
    let pseudo = Pseudo { authority: None, scheme: None, ..GET };
    assert_eq!(
        request(&pseudo, &[("a", "b"), ("host", "c")]),
        Ok("GET /x?y HTTP/2.0\r\na: b\r\nhost: c\r\n\r\n".into())
    );
    assert_eq!(
        request(&pseudo, &[]),
        Ok("GET /x?y HTTP/2.0\r\n\r\n".into()),
        "refused with the other versions"
    );
}

#[test]
fn crumbs_of_a_cookie_become_one_line_where_the_first_stands() {
    let fields = [("cookie", "a=1"), ("b", "2"), ("cookie", "c=3"), ("cookie", "d")];
    let (head, text, _) = request_within(&GET, &fields, &HeadLimits::default()).unwrap();
    assert!(text.ends_with("\r\nhost: a.example\r\ncookie: a=1; c=3; d\r\nb: 2\r\n\r\n"), "{text}");
    assert_eq!(head.values(text.as_bytes(), FieldId::Cookie).count(), 1);
    assert_eq!(head.fields.len(), 3);
    let empty = [("cookie", ""), ("cookie", "a"), ("cookie", ""), ("cookie", "b"), ("cookie", "")];
    let (head, text, _) = request_within(&GET, &empty, &HeadLimits::default()).unwrap();
    assert_eq!(head.value(text.as_bytes(), FieldId::Cookie), Some(&b"a; b"[..]));
    assert!(request(&GET, &[("cookie", "")]).unwrap().ends_with("\r\ncookie: \r\n\r\n"));
    // A later crumb is checked too.
    assert_eq!(request(&GET, &[("cookie", "a"), ("cookie", "b\r\nx: y")]), Err(400));
}

/// Hostile input D9: the count is what is bounded, and crumbs are counted one by one.
#[test]
fn the_limits_are_those_of_http_1() {
    let limits = HeadLimits { line: 40, head: 200, fields: 5 };
    let status = |pseudo: &Pseudo<'_>, fields: Lines<'_>| {
        request_within(pseudo, fields, &limits).map(|(head, _, _)| head.len).map_err(|fault| fault.status)
    };
    assert!(status(&GET, &[("a", "b"); 4]).is_ok());
    assert_eq!(status(&GET, &[("a", "b"); 5]), Err(431));
    assert!(status(&GET, &[("cookie", "b"); 4]).is_ok());
    assert_eq!(status(&GET, &[("cookie", "b"); 5]), Err(431));
    assert_eq!(status(&GET, &[("host", "a.example"); 5]), Err(431));
    let bare = status(&GET, &[]).unwrap();
    let fits = "v".repeat(200 - bare - 5);
    assert_eq!(status(&GET, &[("n", &fits)]), Ok(200));
    assert_eq!(status(&GET, &[("n", &format!("{fits}v"))]), Err(431));
    assert_eq!(status(&GET, &[("cookie", &"v".repeat(100)), ("cookie", &"v".repeat(100))]), Err(431));
    let path = format!("/{}", "p".repeat(40 - "GET / HTTP/2.0".len()));
    assert!(status(&Pseudo { path: Some(path.as_bytes()), ..GET }, &[]).is_ok());
    let longer = format!("{path}p");
    assert_eq!(status(&Pseudo { path: Some(longer.as_bytes()), ..GET }, &[]), Err(414));
}

/// Hostile input D1.
#[test]
fn what_would_not_survive_as_a_line_is_refused() {
    for (name, value) in [
        ("", "a"),
        ("A", "b"),
        ("aB", "c"),
        ("a b", "c"),
        (" a", "b"),
        ("a:", "b"),
        ("a\r\nb", "c"),
        ("a\0", "b"),
        ("a\u{e9}", "b"),
        ("a\"", "b"),
        (":path", "/y"),
        (":status", "200"),
        (":x", "y"),
        ("a", "b\r\nc: d"),
        ("a", "b\rc"),
        ("a", "b\nc"),
        ("a", "b\0"),
        ("a", "\u{7f}"),
        ("a", " b"),
        ("a", "b "),
        ("a", "\tb"),
        ("a", "b\t"),
        ("cookie", " "),
    ] {
        assert_eq!(request(&GET, &[(name, value)]), Err(400), "{name:?} {value:?}");
        assert_eq!(request(&GET, &[("x", "y"), (name, value)]), Err(400), "{name:?} {value:?}");
    }
    for (name, value) in [("a", "b c\td"), ("a", "\u{e9}"), ("a", ""), ("x_y.z~", "1")] {
        assert!(request(&GET, &[(name, value)]).is_ok(), "{name:?} {value:?}");
    }
}

/// Hostile input D2.
#[test]
fn pseudo_fields_that_contradict_or_cannot_be_said_are_refused() {
    let method = |method| Pseudo { method, ..GET };
    for wrong in [&b""[..], b"GET ", b"GE T", b"GET\r\n", b"G\0", b"G:T", &[b'A'; 33], b"get", b"dElete"] {
        assert_eq!(request(&method(wrong), &[]), Err(400), "{}", wrong.escape_ascii());
    }
    let path = |path| Pseudo { path, ..GET };
    for wrong in [
        &b""[..],
        b"x",
        b"?x",
        b"http://a.example/",
        b"//[::1",
        b"/a b",
        b"/a#b",
        b"/a\0",
        b"/a<",
        b"/\xc3\xa9",
        b"/a\r\nx: y",
        b"**",
        b"*?",
    ] {
        let result = request(&path(Some(wrong)), &[]);
        // Two slashes in front are refused with the other versions.
        assert!(result == Err(400) || wrong.starts_with(b"//"), "{}", wrong.escape_ascii());
    }
    assert_eq!(request(&path(None), &[]), Err(400));
    assert!(request(&path(Some(b"*")), &[]).is_ok(), "OPTIONS alone, as in the other versions");
    for scheme in [&b""[..], b"ftp", b"http ", b"http:", b"h\r\nttp", b"javascript"] {
        assert_eq!(request(&Pseudo { scheme: Some(scheme), ..GET }, &[]), Err(400));
    }
    for authority in
        [&b""[..], b"user@a.example", b"a.example/x", b"a example", b"a,b", b"a\r\nx: y", b"[::1", b"a:99999"]
    {
        assert_eq!(request(&Pseudo { authority: Some(authority), ..GET }, &[]), Err(400));
    }
    assert_eq!(request(&Pseudo { protocol: Some(b"websocket"), ..GET }, &[]), Err(400));
}

/// Hostile input D2: what is routed by is not what an upstream reads.
#[test]
fn a_host_that_differs_from_the_authority_is_refused() {
    let with = |scheme: &'static str, authority: &'static str, host: &str| {
        let pseudo = Pseudo { scheme: Some(scheme.as_bytes()), authority: Some(authority.as_bytes()), ..GET };
        request(&pseudo, &[("host", host)]).is_ok()
    };
    for (scheme, authority, host) in [
        ("https", "a.example", "a.example"),
        ("https", "a.example", "A.EXAMPLE."),
        ("https", "a.example:443", "a.example"),
        ("http", "a.example", "a.example:80"),
        ("HTTP", "a.example:080", "a.example"),
        ("http", "[::1]:8080", "[0::1]:8080"),
    ] {
        assert!(with(scheme, authority, host), "{authority} {host}");
    }
    for (scheme, authority, host) in [
        ("https", "a.example", "b.example"),
        ("https", "a.example", "a.example:80"),
        ("http", "a.example", "a.example:443"),
        ("http", "a.example", ""),
        ("http", "a.example", "a.example, b.example"),
        ("http", "a.example", "user@a.example"),
        ("http", "[::1]", "[::2]"),
    ] {
        assert!(!with(scheme, authority, host), "{authority} {host}");
    }
    assert_eq!(request(&GET, &[("host", "a.example"), ("host", "b.example")]), Err(400));
}

/// Hostile input D3.
#[test]
fn fields_of_a_connection_and_what_looks_like_framing_are_refused() {
    for (name, value) in [
        ("connection", "close"),
        ("connection", "x"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, deflate"),
        ("te", ""),
        ("transfer_encoding", "chunked"),
        ("content_length", "5"),
        ("content.length", "5"),
        ("keep_alive", "1"),
        ("proxy_connection", "close"),
    ] {
        assert_eq!(request(&GET, &[(name, value)]), Err(400), "{name}");
    }
    // Other aliases are taken out as in HTTP/1.
    let (mut head, text, _) =
        request_within(&GET, &[("x_forwarded_for", "1"), ("a", "b")], &HeadLimits::default()).unwrap();
    strip_request(&mut head, text.as_bytes(), &RequestRules::default());
    let kept: Vec<_> = head.fields.iter().filter(|field| field.keep).collect();
    assert_eq!((kept.len(), kept[0].name.of(text.as_bytes())), (1, &b"a"[..]));
}

/// RFC 8441 §4, hostile input D6.
#[test]
fn an_extended_connect_to_a_websocket_is_a_get_with_an_upgrade() {
    let pseudo = Pseudo { method: b"CONNECT", protocol: Some(b"websocket"), ..GET };
    let (head, text, upgrade) = request_within(&pseudo, &[("a", "b")], &HeadLimits::default()).unwrap();
    assert_eq!(text, "GET /x?y HTTP/2.0\r\nhost: a.example\r\nupgrade: websocket\r\na: b\r\n\r\n");
    assert_eq!((head.method, upgrade), (Method::Get, Upgrade::WebSocket));
    assert_eq!(head.value(text.as_bytes(), FieldId::Upgrade), Some(&b"websocket"[..]));
    assert_eq!(request(&Pseudo { path: None, ..pseudo }, &[]), Err(400));
    assert_eq!(request(&Pseudo { authority: None, ..pseudo }, &[("host", "a.example")]), Err(400));
    for protocol in [&b"connect-udp"[..], b"", b"websocket, h2c", b"webtransport"] {
        assert_eq!(request(&Pseudo { protocol: Some(protocol), ..pseudo }, &[]), Err(501));
    }
}

#[test]
fn a_plain_connect_has_an_authority_and_nothing_else() {
    let connect = Pseudo {
        method: b"CONNECT",
        scheme: None,
        path: None,
        authority: Some(b"a.example:443"),
        protocol: None,
    };
    let (head, text, _) = request_within(&connect, &[], &HeadLimits::default()).unwrap();
    assert_eq!((head.method, head.target.of(text.as_bytes())), (Method::Connect, &b"a.example:443"[..]));
    assert_eq!(request(&Pseudo { authority: None, ..connect }, &[]), Err(400));
    assert_eq!(request(&Pseudo { path: Some(b"/"), ..connect }, &[]), Err(400));
    assert_eq!(request(&Pseudo { scheme: Some(b"https"), ..connect }, &[]), Err(400));
}

#[test]
fn what_was_read_of_a_refused_head_can_be_logged() {
    let (mut head, mut out) = (RequestHead::new(), Vec::new());
    let fields = [("a", "b"), ("c", "d\0")];
    let result = read_request((&GET, iter(&fields)), &HeadLimits::default(), &mut head, &mut out);
    assert_eq!(result.map_err(|fault| fault.status), Err(400));
    assert_eq!((head.method_text.of(&out), head.target.of(&out), head.len), (&b"GET"[..], &b"/x?y"[..], 0));
}

#[test]
fn a_response_reads_as_its_lines() {
    let fields = [("content-type", "text/html"), ("set-cookie", "a"), ("set-cookie", "b"), ("x", " c ")];
    assert_eq!(
        response(200, &fields),
        Ok("HTTP/2.0 200 \r\ncontent-type: text/html\r\nset-cookie: a\r\nset-cookie: b\r\nx: c\r\n\r\n"
            .into())
    );
    assert_eq!(response(103, &[]), Ok("HTTP/2.0 103 \r\n\r\n".into()));
}

/// Hostile inputs C3, C8 over HTTP/2.
#[test]
fn a_response_that_is_none_is_refused() {
    for status in [0, 99, 101, 600, 2000, u16::MAX] {
        assert_eq!(response(status, &[]), Err("http_protocol_error"), "{status}");
    }
    for (name, value) in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "x"),
        ("Location", "/"),
        ("a", "b\r\nc: d"),
        (":status", "200"),
        ("", "x"),
    ] {
        assert_eq!(response(200, &[(name, value)]), Err("http_protocol_error"), "{name}");
    }
    let many = vec![("a", "b"); 129];
    assert_eq!(response(200, &many), Err("http_response_header_section_size"));
    let long = "v".repeat(64 * 1024);
    assert_eq!(response(200, &[("a", &long)]), Err("http_response_header_section_size"));
}

/// Hostile input D5.
#[test]
fn trailers_of_a_request_are_refused_and_of_a_response_left_out() {
    let read = |side, fields: Lines<'_>| {
        let mut out = b"x: y\r\n".to_vec();
        read_trailers(side, iter(fields), &mut out).map_err(|fault| fault.status)?;
        Ok::<_, u16>(String::from_utf8(out).unwrap())
    };
    let fine = [("grpc-status", "0"), ("grpc-message", ""), ("x-checksum", " a ")];
    for side in [Side::Downstream, Side::Upstream] {
        assert_eq!(
            read(side, &fine),
            Ok("x: y\r\ngrpc-status: 0\r\ngrpc-message: \r\nx-checksum: a\r\n".into())
        );
    }
    for forbidden in ["content-length", "host", "x-forwarded-for", "authorization", "content_length", "te"] {
        let fields = [("a", "b"), (forbidden, "5"), ("c", "d")];
        assert_eq!(read(Side::Downstream, &fields), Err(400), "{forbidden}");
        assert_eq!(read(Side::Upstream, &fields), Ok("x: y\r\na: b\r\nc: d\r\n".into()), "{forbidden}");
    }
    for broken in [(":path", "/"), ("transfer-encoding", "x"), ("connection", "x"), ("A", "b"), ("a", "\n")] {
        assert_eq!(read(Side::Downstream, &[broken]), Err(400));
        assert_eq!(read(Side::Upstream, &[broken]), Err(502));
    }
    let many = vec![("a", "b"); 129];
    assert_eq!(read(Side::Downstream, &many), Err(431));
    let long = "v".repeat(16 * 1024);
    assert_eq!(
        (read(Side::Downstream, &[("a", &long)]), read(Side::Upstream, &[("a", &long)])),
        (Err(431), Err(502))
    );
}

/// Names and values from which sound and unsound heads are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-z-]{1,12}".prop_map(String::into_bytes),
        "[ -~]{0,12}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..6),
        prop::sample::select(vec![
            "cookie",
            "host",
            "te",
            "content-length",
            "trailers",
            "a.example",
            "/",
            "*",
            "GET"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

proptest! {
    /// The parser of HTTP/1 would read the same from the lines.
    #[test]
    fn what_is_accepted_reads_the_same_as_http_1(
        method in prop_oneof![4 => Just(b"POST".to_vec()), 1 => piece()],
        authority in prop::option::of(prop_oneof![4 => Just(b"a.example".to_vec()), 1 => piece()]),
        path in prop::option::of(prop_oneof![4 => Just(b"/a?b".to_vec()), 1 => piece()]),
        fields in prop::collection::vec((piece(), piece()), 0..6),
    ) {
        let pseudo = Pseudo {
            method: &method,
            scheme: Some(b"http"),
            authority: authority.as_deref(),
            path: path.as_deref(),
            protocol: None,
        };
        let limits = HeadLimits::default();
        let (mut head, mut out) = (RequestHead::new(), Vec::new());
        let fields = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        if read_request((&pseudo, fields.clone()), &limits, &mut head, &mut out).is_ok() {
            let mut text = out.clone();
            let version = memchr::memmem::find(&text, b" HTTP/2.0\r\n").unwrap();
            text[version..version + 11].copy_from_slice(b" HTTP/1.1\r\n");
            let mut parsed = RequestHead::new();
            prop_assert_eq!(parsed.parse(&text, &limits), Ok(Progress::Complete), "{}", text.escape_ascii());
            prop_assert_eq!(&parsed.fields, &head.fields);
            prop_assert_eq!((parsed.method, parsed.method_text), (head.method, head.method_text));
            prop_assert_eq!((parsed.target, parsed.present, parsed.len), (head.target, head.present, head.len));
            prop_assert_eq!(parsed.has_raw_target, head.has_raw_target);
            if let Ok(target) = parse_target(head.method, &out, head.target) {
                prop_assert!(target.scheme.is_empty());
            }
            if let Some(authority) = pseudo.authority {
                prop_assert!(parse_authority(authority, Span::new(0, authority.len())).is_ok());
            }
        }
        let (mut head, mut out) = (ResponseHead::new(), Vec::new());
        if read_response((200, fields), &limits, &mut head, &mut out).is_ok() {
            out[..8].copy_from_slice(b"HTTP/1.1");
            let mut parsed = ResponseHead::new();
            prop_assert_eq!(parsed.parse(&out, &limits), Ok(Progress::Complete));
            prop_assert_eq!(&parsed.fields, &head.fields);
            prop_assert_eq!((parsed.status, parsed.reason, parsed.len), (200, head.reason, head.len));
        }
    }
}
