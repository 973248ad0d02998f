//! Responses that are malformed in a way of which the engine says nothing (RFC 9113 §8.1.1).

use thalweg_tests::Frames;
use thalweg_tests::h2_frames::{
    DATA, END, END_HEADERS, HEADERS, PROTOCOL_ERROR, RST_STREAM, frame, literal, request, section,
};

use super::frames::{Scene, status};
use super::watchdog;

/// RFC 9113 §8.1, §8.3: the response does not count as whole.
#[test]
fn a_pseudo_field_in_the_trailers_of_a_response_breaks_it_off() {
    let _watchdog = watchdog("a_pseudo_field_in_the_trailers_of_a_response_breaks_it_off");
    let scene = Scene::new("");
    let mut client = Frames::open(scene.proxy.web(), &[]);
    client.send(request(1, "/"));
    let mut endpoint = scene.accept(&[]);
    let bad = [
        literal(":path", "/"),
        literal(":status", "200"),
        [literal(":status", "204"), literal("a", "b")].concat(),
    ];
    for (at, trailers) in bad.iter().enumerate() {
        let stream = 2 * at as u32 + 1;
        let asked = endpoint.asked();
        endpoint.send(frame(HEADERS, END_HEADERS, asked, &literal(":status", "200")));
        assert_eq!(client.answer(stream), Ok(200));
        endpoint
            .send([frame(DATA, 0, asked, b"x"), frame(HEADERS, END | END_HEADERS, asked, trailers)].concat());
        let ended = client.until(|frame| match frame.code() {
            Some(code) if frame.stream == stream => Some(Err(code)),
            _ => (frame.stream == stream && frame.ends()).then_some(Ok(())),
        });
        assert!(ended.is_err(), "a malformed response that is whole");
        client.send(request(stream + 2, "/"));
    }
    // Others on the connection, and lawful trailers, are not concerned.
    let asked = endpoint.asked();
    endpoint.send(frame(HEADERS, END_HEADERS, asked, &literal(":status", "200")));
    endpoint.send(
        [frame(DATA, 0, asked, b"x"), frame(HEADERS, END | END_HEADERS, asked, &literal("a", "b"))].concat(),
    );
    client.until(|frame| (frame.stream == 7 && frame.ends()).then_some(()));
    // A response that is nothing but its head has pseudo-fields at its end, and may.
    let get = scene.get();
    let asked = endpoint.asked();
    endpoint.send(frame(HEADERS, END | END_HEADERS, asked, &literal(":status", "204")));
    assert_eq!(status(&get), 204);
    assert!(scene.is_quiet(), "a second connection");
    let log = scene.proxy.stop().log;
    assert_eq!(log.iter().filter(|line| line["fault"] == "http_protocol_error").count(), 3, "{log:?}");
}

/// Where the request goes on, the endpoint is told.
#[test]
fn an_endpoint_is_told_of_its_malformed_trailers() {
    let _watchdog = watchdog("an_endpoint_is_told_of_its_malformed_trailers");
    let scene = Scene::new("");
    let client = Frames::open(scene.proxy.web(), &[]);
    client.send(frame(HEADERS, END_HEADERS, 1, &section("POST", "/", &[])));
    let mut endpoint = scene.accept(&[]);
    let asked = endpoint.asked();
    endpoint.send(frame(HEADERS, END_HEADERS, asked, &literal(":status", "200")));
    endpoint.send(frame(HEADERS, END | END_HEADERS, asked, &literal(":path", "/")));
    let code = endpoint.until(|frame| frame.code().filter(|_| frame.kind == RST_STREAM));
    assert_eq!(code, PROTOCOL_ERROR);
}
