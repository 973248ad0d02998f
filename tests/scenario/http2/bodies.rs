//! What goes through a stream: bodies both ways, trailers, interim responses, many streams at once.

use thalweg_tests::h2_frames::{
    DATA, END, END_HEADERS, HEADERS, PING, RST_STREAM, frame, request, section, window_update,
};
use thalweg_tests::{Frames, Noise};

use super::{h2c, house, watchdog};
use crate::scenario::scripted::{House, OK};

/// Streams that a client may have at one time.
const STREAMS: u32 = 100;

fn post(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &section("POST", "/up", fields))
}

/// Reads the answer of a stream to its end: its status, its body and the frames that carried it.
fn answer(client: &mut Frames, stream: u32) -> (u16, Vec<u8>) {
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
fn a_request_without_a_body_is_one_of_http_1_upstream() {
    let _watchdog = watchdog("a_request_without_a_body_is_one_of_http_1_upstream");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    let crumbs = [("cookie", "a=1"), ("x-one", "1"), ("cookie", "b=2")];
    client.send(frame(HEADERS, END | END_HEADERS, 1, &section("GET", "/a?b=%20c", &crumbs)));
    let mut asked = house.asked();
    assert_eq!(asked.head.start, "GET /a?b=%20c HTTP/1.1");
    let value = |name| asked.head.value(name).unwrap_or_default();
    assert_eq!([value("host"), value("cookie"), value("x-one")], ["a.test", "a=1; b=2", "1"]);
    assert_eq!([value("via"), value("x-forwarded-proto")], ["2.0 thalweg", "http"]);
    assert_eq!(asked.head.value("content-length").or(asked.head.value("transfer-encoding")), None);
    asked.talk.send(OK).unwrap();
    assert_eq!(answer(&mut client, 1), (200, b"ok".to_vec()));
    drop(client);
    let log = house.proxy.stop().log;
    assert_eq!(log[0]["proto"], "HTTP/2.0", "{}", log[0]);
}

#[test]
fn an_empty_answer_is_one_frame() {
    let _watchdog = watchdog("an_empty_answer_is_one_frame");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(request(1, "/"));
    house.asked().talk.send("HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let whole = client.until(|frame| (frame.kind == HEADERS).then(|| frame.ends()));
    assert!(whole, "the end of the stream comes with its head");
}

#[test]
fn bodies_go_both_ways_with_and_without_a_length() {
    let _watchdog = watchdog("bodies_go_both_ways_with_and_without_a_length");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    let body = Noise::new(7).take(60_000);
    for (stream, fields) in [(1, &[][..]), (3, &[("content-length", "60000")])] {
        client.send(post(stream, fields));
        let mut asked = house.asked();
        for piece in body[..48_000].chunks(16_000) {
            client.send(frame(DATA, 0, stream, piece));
        }
        client.send(frame(DATA, END, stream, &body[48_000..]));
        assert!(asked.body() == body, "stream {stream}");
        let chunked = asked.head.value("transfer-encoding") == Some("chunked");
        assert_eq!(chunked, fields.is_empty(), "{}", asked.head.start);
        let answer_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        asked.talk.send(answer_head).unwrap();
        for piece in body[..30_000].chunks(10_000) {
            asked.talk.send(thalweg_tests::talk::chunk(piece)).unwrap();
        }
        asked.talk.send("0\r\n\r\n").unwrap();
        let (status, got) = answer(&mut client, stream);
        assert!(status == 200 && got == body[..30_000], "stream {stream}: {status}, {} bytes", got.len());
        client.send([window_update(0, 30_000), window_update(0, 1)].concat());
    }
}

/// Python's httpx says the end of every body in a frame of its own, and takes a reset before that for a failure.
#[test]
fn the_end_of_a_body_may_come_after_the_answer() {
    let _watchdog = watchdog("the_end_of_a_body_may_come_after_the_answer");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    // More than may be open at one time: each is over when its end has come.
    for number in 0..STREAMS + 20 {
        let (stream, body) = (2 * number + 1, if number % 2 == 0 { "" } else { "hello" });
        client.send(post(stream, &[("content-length", &body.len().to_string())]));
        if !body.is_empty() {
            client.send(frame(DATA, 0, stream, body.as_bytes()));
        }
        let mut asked = house.asked();
        assert_eq!(asked.body(), body.as_bytes());
        asked.talk.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert_eq!(answer(&mut client, stream), (200, b"ok".to_vec()));
        client.send(frame(PING, 0, 0, b"whatever"));
        let is_told = client.until(|frame| match frame.kind {
            RST_STREAM => Some(false),
            _ => (frame.kind == PING).then_some(true),
        });
        assert!(is_told, "stream {stream} was reset");
        client.send(frame(DATA, END, stream, b""));
    }
}

#[test]
fn a_window_is_opened_as_the_endpoint_takes_the_body() {
    let _watchdog = watchdog("a_window_is_opened_as_the_endpoint_takes_the_body");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(post(1, &[]));
    let mut asked = house.asked();
    let reader = std::thread::spawn(move || {
        let len = asked.body().len();
        asked.talk.send(OK).unwrap();
        len
    });
    // More than the windows of the stream and of the connection hold.
    let (mut room, mut connection, mut left) = (65_535_usize, 65_535_usize, 1_500_000_usize);
    while left > 0 {
        let n = left.min(room).min(connection).min(16_000);
        if n == 0 {
            let (stream, more) = client.until(|frame| Some((frame.stream, frame.increment()?)));
            match stream {
                0 => connection += more,
                _ => room += more,
            }
            continue;
        }
        client.send(frame(DATA, if n == left { END } else { 0 }, 1, &vec![b'x'; n]));
        (room, connection, left) = (room - n, connection - n, left - n);
    }
    assert_eq!(client.answer(1), Ok(200));
    assert_eq!(reader.join().unwrap(), 1_500_000);
}

#[test]
fn trailers_go_both_ways() {
    let _watchdog = watchdog("trailers_go_both_ways");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(post(1, &[("te", "trailers")]));
    let mut asked = house.asked();
    client.send(frame(DATA, 0, 1, b"hello"));
    client.send(frame(HEADERS, END | END_HEADERS, 1, &thalweg_tests::h2_frames::literal("x-sum", "5")));
    let mut body = asked.talk.body(&asked.head);
    body.each(|_| {}).unwrap();
    assert_eq!(body.trailer("x-sum"), Some("5"));
    drop(body);
    assert_eq!(asked.head.value("te"), Some("trailers"));
    let answered = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Status: 7\r\n\r\n";
    asked.talk.send(answered).unwrap();
    let mut seen = Vec::new();
    client.until(|frame| {
        if frame.stream == 1 {
            seen.push((frame.kind, frame.ends()));
        }
        (frame.stream == 1 && frame.ends()).then_some(())
    });
    assert_eq!(seen, [(HEADERS, false), (DATA, false), (HEADERS, true)]);
}

/// A verified field could be forged in a trailer, which servers merge into the fields (issue 43).
#[test]
fn trailers_of_names_that_a_filter_verifies_do_not_go_on() {
    let _watchdog = watchdog("trailers_of_names_that_a_filter_verifies_do_not_go_on");
    let filters = "filters: [ { auth: { network: \"127.0.0.1\", forward: { X-User: \"ada\" } } } ]";
    let guarded = |text: &str| {
        let text = h2c(text);
        assert!(text.contains("routes: [ { to: s } ]"), "{text}");
        text.replace("routes: [ { to: s } ]", &format!("routes: [ {{ to: s, {filters} }} ]"))
    };
    let house = House::start_changed(1, ("", ""), guarded);
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(post(1, &[("te", "trailers")]));
    let mut asked = house.asked();
    client.send(frame(DATA, 0, 1, b"hello"));
    let trailers = [("x-user", "root"), ("x_user", "root"), ("x.user", "root"), ("x-sum", "5")];
    let trailers: Vec<u8> =
        trailers.iter().flat_map(|(name, value)| thalweg_tests::h2_frames::literal(name, value)).collect();
    client.send(frame(HEADERS, END | END_HEADERS, 1, &trailers));
    let mut body = asked.talk.body(&asked.head);
    body.each(|_| {}).unwrap();
    assert_eq!(body.trailer("x-sum"), Some("5"));
    for name in ["x-user", "x_user", "x.user"] {
        assert_eq!(body.trailer(name), None, "{name}");
    }
    drop(body);
    assert_eq!(asked.head.values("x-user").collect::<Vec<_>>(), ["ada"]);
    asked.talk.send("HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert_eq!(client.answer(1), Ok(204));
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let _watchdog = watchdog("interim_responses_come_before_the_final_one");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send(post(1, &[("expect", "100-continue"), ("content-length", "2")]));
    let mut asked = house.asked();
    assert_eq!(asked.head.value("expect"), Some("100-continue"));
    asked.talk.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n").unwrap();
    let status =
        |client: &mut Frames| client.until(|frame| frame.status().map(|status| (status, frame.ends())));
    assert_eq!([status(&mut client), status(&mut client)], [(100, false), (103, false)]);
    client.send(frame(DATA, END, 1, b"hi"));
    assert_eq!(asked.body(), b"hi");
    asked.talk.send(OK).unwrap();
    assert_eq!(status(&mut client), (200, false));
}

#[test]
fn many_streams_are_served_at_one_time() {
    let _watchdog = watchdog("many_streams_are_served_at_one_time");
    let house = house("", "");
    let mut client = Frames::open(house.proxy.web(), &[]);
    client.send((0..STREAMS).flat_map(|i| request(2 * i + 1, &format!("/{i}"))).collect::<Vec<_>>());
    // None is answered before all have come.
    let mut all: Vec<_> = (0..STREAMS).map(|_| house.asked()).collect();
    for asked in all.iter_mut().rev() {
        let body = asked.head.target().to_owned();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        asked.talk.send(answer).unwrap();
    }
    let mut got = vec![Vec::new(); STREAMS as usize];
    let mut ended = 0;
    client.until(|frame| {
        if frame.kind == DATA {
            got[frame.stream as usize / 2].extend_from_slice(&frame.payload);
        }
        ended += u32::from(frame.stream > 0 && frame.ends());
        (ended == STREAMS).then_some(())
    });
    let wrong = (0..STREAMS as usize).find(|i| got[*i] != format!("/{i}").as_bytes());
    assert_eq!(wrong, None);
}
