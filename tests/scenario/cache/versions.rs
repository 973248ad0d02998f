//! Clients of HTTP/1 and HTTP/2 share what is stored, with and without compression.

use std::io::Read;

use flate2::read::GzDecoder;
use thalweg_tests::h2_frames::{DATA, END, END_HEADERS, HEADERS, frame, request, section, window_update};
use thalweg_tests::{Frames, Proxy};

use super::{Half, Halves, Origin, ask, asking, body, caching, good, reads, watchdog};

/// Streams of one connection that want the same.
const STREAMS: u32 = 10;
/// Bytes of the object, within the window of a connection that is not enlarged.
const SMALL: usize = 6000;

/// Reads the answer of a stream to its end.
pub(super) fn answer(client: &mut Frames, stream: u32) -> (u16, Vec<u8>) {
    let (mut status, mut body) = (0, Vec::new());
    client.until(|frame| {
        if frame.stream != stream {
            return None;
        }
        assert_eq!(frame.code(), None, "the stream was reset");
        status = frame.status().unwrap_or(status);
        if frame.kind == DATA {
            body.extend_from_slice(&frame.payload);
        }
        frame.ends().then_some(())
    });
    (status, body)
}

#[test]
fn both_versions_get_what_the_other_has_stored() {
    let _watchdog = watchdog("both_versions_get_what_the_other_has_stored");
    let origin = Origin::start(|request, _| Some(good("", request.target())));
    let proxy = caching(&origin.url(), "{}", "");
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(request(1, "/two"));
    assert_eq!(answer(&mut client, 1), (200, b"/two".to_vec()));
    assert_eq!(ask(&proxy, "/two", "").text(), "/two");
    assert_eq!(ask(&proxy, "/one", "").text(), "/one");
    client.send(request(3, "/one"));
    assert_eq!(answer(&mut client, 3), (200, b"/one".to_vec()));
    assert_eq!((origin.asked("/one"), origin.asked("/two")), (1, 1));
}

#[test]
fn streams_of_one_connection_share_a_fetch() {
    let _watchdog = watchdog("streams_of_one_connection_share_a_fetch");
    for chunked in [false, true] {
        let object = body(SMALL, 9);
        let endpoint = Halves::start(vec![object.clone()], chunked);
        let proxy = caching(&endpoint.url(), "{}", "");
        let mut client = Frames::open(proxy.web(), &[]);
        let streams: Vec<u32> = (0..STREAMS).map(|number| 2 * number + 1).collect();
        for stream in &streams {
            client.send(request(*stream, "/object"));
        }
        let half = endpoint.next();
        let mut heads = 0;
        // Each has its first bytes before the endpoint has sent the last ones.
        client.until(|frame| {
            heads += u32::from(frame.kind == HEADERS && frame.status() == Some(200));
            (heads == STREAMS).then_some(())
        });
        let mut other = asking(&proxy, "/object");
        half.send(Half::Rest).unwrap();
        let (mut ended, mut bytes) = (0, 0);
        client.until(|frame| {
            assert_eq!(frame.code(), None, "a stream was reset");
            bytes += if frame.kind == DATA { frame.payload.len() } else { 0 };
            ended += u32::from(frame.ends());
            (ended == STREAMS).then_some(())
        });
        assert!(bytes <= SMALL * STREAMS as usize, "{bytes} bytes");
        assert_eq!(reads(&mut other, &object), Ok(()), "a client of HTTP/1");
        assert_eq!(endpoint.asked(), 1, "chunked: {chunked}");
        client.send(window_update(0, 1_000_000));
        client.send(request(101, "/object"));
        assert_eq!(answer(&mut client, 101), (200, object));
    }
}

#[test]
fn a_stream_whose_fetch_is_cut_is_reset() {
    let _watchdog = watchdog("a_stream_whose_fetch_is_cut_is_reset");
    let endpoint = Halves::start(vec![body(SMALL, 10)], false);
    let proxy = caching(&endpoint.url(), "{}", "");
    let mut client = Frames::open(proxy.web(), &[]);
    for stream in [1, 3] {
        client.send(request(stream, "/object"));
    }
    let half = endpoint.next();
    let (mut heads, mut reset) = (0, 0);
    client.until(|frame| {
        heads += u32::from(frame.kind == HEADERS && frame.status() == Some(200));
        (heads == 2).then_some(())
    });
    half.send(Half::Cut).unwrap();
    client.until(|frame| {
        assert!(!frame.ends(), "a response that looks whole");
        reset += u32::from(frame.stream != 0 && frame.code().is_some());
        (reset == 2).then_some(())
    });
}

/// A text of some length, which compresses well.
fn text() -> String {
    (0..2000_u32).map(|line| format!("line {line} of a text\n")).collect()
}

fn compressing(url: &str) -> Proxy {
    caching(url, "{}", ", { compress: {} }")
}

#[test]
fn what_is_stored_is_compressed_for_each_client_as_it_likes() {
    let _watchdog = watchdog("what_is_stored_is_compressed_for_each_client_as_it_likes");
    let origin = Origin::start(|_, _| Some(good("Content-Type: text/plain\r\nETag: \"t\"\r\n", &text())));
    let proxy = compressing(&origin.url());
    for _ in 0..2 {
        let packed = ask(&proxy, "/", "Accept-Encoding: gzip\r\n");
        assert_eq!(packed.value("content-encoding"), Some("gzip"));
        let mut unpacked = String::new();
        GzDecoder::new(&*packed.body).read_to_string(&mut unpacked).unwrap();
        assert!(unpacked == text(), "{} bytes", unpacked.len());
        let plain = ask(&proxy, "/", "");
        assert_eq!((plain.value("content-encoding"), plain.value("vary")), (None, Some("Accept-Encoding")));
        assert!(plain.text() == text());
    }
    let mut client = Frames::open(proxy.web(), &[]);
    client.send(window_update(0, 1_000_000));
    client.send(frame(HEADERS, END | END_HEADERS, 1, &section("GET", "/", &[("accept-encoding", "gzip")])));
    let (status, packed) = answer(&mut client, 1);
    let mut unpacked = String::new();
    GzDecoder::new(&*packed).read_to_string(&mut unpacked).unwrap();
    assert!(status == 200 && unpacked == text(), "{status}, {} bytes", unpacked.len());
    assert_eq!(origin.asked("/"), 1, "stored once");
}

#[test]
fn what_the_service_has_compressed_is_stored_for_who_accepts_it() {
    let _watchdog = watchdog("what_the_service_has_compressed_is_stored_for_who_accepts_it");
    let origin = Origin::start(|request, _| {
        let coding =
            if request.value("accept-encoding") == Some("gzip") { "Content-Encoding: gzip\r\n" } else { "" };
        Some(good(
            &format!("{coding}Vary: Accept-Encoding\r\n"),
            if coding.is_empty() { "plain" } else { "packed" },
        ))
    });
    let proxy = caching(&origin.url(), "{}", "");
    for _ in 0..2 {
        assert_eq!(ask(&proxy, "/", "Accept-Encoding: gzip\r\n").text(), "packed");
        assert_eq!(ask(&proxy, "/", "").text(), "plain");
    }
    assert_eq!(origin.asked("/"), 2);
}
