//! Requests that are malformed in a way of which the engine says nothing (RFC 9113 §8.1.1).

use thalweg_tests::h2_frames::{
    DATA, END, END_HEADERS, HEADERS, PROTOCOL_ERROR, frame, literal, request, section,
};
use thalweg_tests::{Frames, Proxy, Upstream, upstream::ok};

use super::{config, h2c, house, watchdog};
use crate::scenario::scripted::OK;

/// Row A15 of the hostile inputs. `/admin#x` is not `/admin`, and nothing else either.
#[test]
fn a_fragment_in_a_path_is_refused() {
    let _watchdog = watchdog("a_fragment_in_a_path_is_refused");
    let upstream = Upstream::start(|request| Some(ok(request.target())));
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    let mut client = Frames::open(proxy.web(), &[]);
    // Several at once, good ones between them.
    client.send([request(1, "/#"), request(3, "/a?b=c"), request(5, "/admin#/../public")].concat());
    let answers =
        [1, 3, 5].map(|_| client.until(|frame| frame.status().map(|status| (frame.stream, status))));
    let of = |stream| answers.iter().find(|(of, _)| *of == stream).map(|(_, status)| *status);
    assert_eq!([of(1), of(3), of(5)], [Some(400), Some(200), Some(400)]);
    // An entry of the table, put there by a request that was refused.
    let others: Vec<u8> = [(":method", "GET"), (":scheme", "http"), (":authority", "a.test")]
        .iter()
        .flat_map(|(name, value)| literal(name, value))
        .collect();
    for (stream, path) in [(7, &b"\x44\x04/a#b"[..]), (9, b"\xbe"), (11, b"\x04\x02/a")] {
        client.send(frame(HEADERS, END | END_HEADERS, stream, &[&others[..], path].concat()));
        assert_eq!(client.answer(stream), Ok(if stream == 11 { 200 } else { 400 }), "stream {stream}");
    }
    let log = proxy.stop().log;
    assert_eq!(log.iter().filter(|line| line["fault"] == "http_request_error").count(), 4, "{log:?}");
}

/// RFC 9113 §8.1, §8.3.
#[test]
fn a_pseudo_field_in_trailers_resets_the_stream() {
    let _watchdog = watchdog("a_pseudo_field_in_trailers_resets_the_stream");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    // As a literal, packed, and of the static table; alone and before others.
    let trailers: [&[u8]; 4] =
        [&literal(":path", "/b"), b"\x00\x84\xb9\x58\xd3\x3f\x01/", b"\x84\x00\x01a\x01b", b"\x82"];
    for (at, trailers) in trailers.iter().enumerate() {
        let stream = 2 * at as u32 + 1;
        client.send(frame(HEADERS, END_HEADERS, stream, &section("POST", "/", &[])));
        let mut asked = house.asked();
        client.send(
            [frame(DATA, 0, stream, b"x"), frame(HEADERS, END | END_HEADERS, stream, trailers)].concat(),
        );
        assert_eq!(client.answer(stream), Err(PROTOCOL_ERROR), "{trailers:?}");
        asked.talk.assert_ends("a request that turned out malformed");
    }
    // Others on the connection, and lawful trailers, are not concerned.
    client.send(frame(HEADERS, END_HEADERS, 21, &section("POST", "/", &[])));
    let mut asked = house.asked();
    client
        .send([frame(DATA, 0, 21, b"x"), frame(HEADERS, END | END_HEADERS, 21, &literal("a", "b"))].concat());
    asked.talk.send(OK).unwrap();
    assert_eq!(client.answer(21), Ok(200));
}
