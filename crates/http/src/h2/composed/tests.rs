use super::*;
use crate::h1::HeadLimits;
use crate::h1::encode::{write_field, write_status_line};
use crate::h1::request::RequestHead;
use crate::h2::lines::{read_request, read_trailers};
use crate::h2::pseudo::Pseudo;
use proptest::prelude::*;
use thalweg_core::Side;

fn text<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    fields.map(|(name, value)| (text(name), text(value))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_response_loses_its_reason_and_what_belongs_to_a_connection() {
    let mut head = *b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nConnection: close\r\nX-A:  b\t\r\n\
        Keep-Alive: timeout=5\r\ntransfer-encoding: chunked\r\nProxy-Connection: x\r\nUPGRADE: x\r\nEmpty:\r\n\
        Set-Cookie: A=B\r\nSet-Cookie: C\r\n\r\nBODY: stays\r\n";
    let response = split_response(&mut head).unwrap();
    assert_eq!(response.status, 404);
    let expected = [
        ("content-type", "text/plain"),
        ("x-a", "b"),
        ("empty", ""),
        ("set-cookie", "A=B"),
        ("set-cookie", "C"),
    ];
    assert_eq!(text(response.fields), pairs(&expected));
    let len = response.len;
    assert_eq!(&head[len..], b"BODY: stays\r\n");
}

#[test]
fn a_head_without_fields_or_reason_is_one() {
    for (bytes, status) in
        [("HTTP/1.1 200 OK\r\n\r\n", 200), ("HTTP/1.1 103 \r\n\r\n", 103), ("HTTP/1.1 204\r\n\r\n", 204)]
    {
        let mut head = bytes.as_bytes().to_vec();
        let response = split_response(&mut head).unwrap();
        assert_eq!((response.status, response.len), (status, bytes.len()));
        assert_eq!(response.fields.count(), 0);
    }
    for none in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
        "\r\n\r\n",
    ] {
        assert!(split_response(&mut none.as_bytes().to_vec()).is_none(), "{none:?}");
    }
}

#[test]
fn a_request_gives_its_host_as_the_authority() {
    let mut head =
        *b"POST /a?b HTTP/1.1\r\nHost: A.example:8080\r\nTE: trailers\r\nConnection: TE\r\nVia: 1.1 thalweg\r\n\r\n";
    let len = head.len();
    let request = split_request(&mut head).unwrap();
    assert_eq!((request.method, request.target), (&b"POST"[..], &b"/a?b"[..]));
    assert_eq!((request.host, request.upgrade, request.len), (&b"A.example:8080"[..], None, len));
    assert_eq!(text(request.fields), pairs(&[("te", "trailers"), ("via", "1.1 thalweg")]));

    let mut head = *b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let request = split_request(&mut head).unwrap();
    assert_eq!(request.upgrade, Some(&b"websocket"[..]));
    assert_eq!(request.fields.count(), 0);
}

#[test]
fn trailers_are_taken_apart_with_and_without_their_end() {
    for end in ["", "\r\n"] {
        let mut lines = format!("Grpc-Status: 0\r\nX: Y\r\n{end}").into_bytes();
        assert_eq!(text(split_trailers(&mut lines)), pairs(&[("grpc-status", "0"), ("x", "Y")]));
    }
    assert_eq!(split_trailers(&mut []).count(), 0);
}

/// Fields that HTTP/2 may say.
fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("x-[a-z]{1,9}", "([!-~]([ -~]{0,9}[!-~])?)?"), 0..9)
}

proptest! {
    #[test]
    fn what_came_in_goes_out_again(fields in fields()) {
        let given = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let pseudo =
            Pseudo { method: b"GET", scheme: None, authority: Some(b"a.example"), path: Some(b"/x"), protocol: None };
        let (mut head, mut lines) = (RequestHead::new(), Vec::new());
        read_request((&pseudo, given()), &HeadLimits::default(), &mut head, &mut lines).unwrap();
        let request = split_request(&mut lines).unwrap();
        prop_assert_eq!((request.method, request.target, request.host), (&b"GET"[..], &b"/x"[..], &b"a.example"[..]));
        prop_assert_eq!(text(request.fields), fields.clone());

        let mut head = Vec::new();
        write_status_line(&mut head, 299, b"Any");
        given().for_each(|(name, value)| assert!(write_field(&mut head, &name.to_ascii_uppercase(), value)));
        head.extend_from_slice(b"\r\n");
        prop_assert_eq!(text(split_response(&mut head).unwrap().fields), fields.clone());

        let mut lines = Vec::new();
        read_trailers(Side::Upstream, given(), &mut lines).unwrap();
        prop_assert_eq!(text(split_trailers(&mut lines)), fields.clone());

        // No more than was said beforehand, the end of the last line there or not.
        let ended = lines.len() - lines.iter().rev().take_while(|byte| b"\r\n".contains(byte)).count();
        for lines in [&mut lines.clone()[..], &mut lines[..ended]] {
            let left = split_trailers(lines);
            let most = left.size_hint().1.unwrap();
            prop_assert!(left.count() == fields.len() && (fields.len()..=fields.len() + 1).contains(&most));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'a'), Just(b':'), Just(b'\n'), Just(b'\r')], 0..60)) {
        bytes.retain(|byte| *byte != b'\n');
        let mut head = [b"HTTP/1.1 200 OK\r\nA:", &bytes[..], b"\r\n\r\n"].concat();
        let fields = split_response(&mut head).map(|response| response.fields.count());
        prop_assert!(fields.is_some_and(|count| count <= 1));
        let _ = split_request(&mut bytes);
    }
}
