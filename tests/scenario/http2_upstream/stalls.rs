//! Streams whose clients take nothing, and streams that are over but for the word that they are.

use thalweg_tests::Frames;
use thalweg_tests::h2_frames::{
    DATA, END, END_HEADERS, HEADERS, INITIAL_WINDOW, RST_STREAM, frame, literal, request, response, settings,
    window_update,
};
use thalweg_tests::vitals::{forget_most_resident, most_resident, resident};

use super::frames::{Scene, status};
use super::watchdog;

/// Payload of a frame.
const CRUMB: usize = 4;
/// Payload that is sent on a stream: as much as its window takes, nearly.
const PAYLOAD: usize = 156 * 1024;
/// Bytes that the memory of a proxy may grow by that keeps it for eight streams; each frame by itself would be 250.
const GROWN: u64 = 8 << 20;

#[test]
fn crumbs_that_clients_do_not_take_end_no_connection_of_others() {
    let _watchdog = watchdog("crumbs_that_clients_do_not_take_end_no_connection_of_others");
    let scene = Scene::new("");
    let mut client = Frames::open(scene.proxy.web(), &[(INITIAL_WINDOW, 0)]);
    let streams: Vec<u32> = (0..8).map(|i| 2 * i + 1).collect();
    streams.iter().for_each(|stream| client.send(request(*stream, "/")));
    let mut endpoint = scene.accept(&[]);
    let crumbs: Vec<_> = (0_u32..(PAYLOAD / CRUMB) as u32).map(u32::to_be_bytes).collect();
    let asked: Vec<u32> = streams.iter().map(|_| endpoint.asked()).collect();
    let memory = resident(&scene.proxy);
    forget_most_resident(&scene.proxy);
    for stream in &asked {
        endpoint.send(frame(HEADERS, END_HEADERS, *stream, &literal(":status", "200")));
        endpoint.send(crumbs.iter().flat_map(|crumb| frame(DATA, 0, *stream, crumb)).collect::<Vec<_>>());
    }
    // Behind all of that on the connection.
    let other = scene.get();
    let stream = endpoint.asked();
    endpoint.send(response(stream, 200, b"ok"));
    assert_eq!(status(&other), 200);
    assert!(scene.is_quiet(), "a second connection");
    let grown = most_resident(&scene.proxy).saturating_sub(memory);
    assert!(grown < GROWN, "memory grew by {grown} bytes");

    // What was kept is what was sent.
    asked.iter().for_each(|stream| endpoint.send(frame(DATA, END, *stream, b"")));
    client.send([settings(&[(INITIAL_WINDOW, 1 << 20)]), window_update(0, 1 << 24)].concat());
    let mut bodies = vec![Vec::new(); streams.len()];
    let mut left = streams.len();
    client.until(|frame| {
        if frame.kind == DATA {
            bodies[frame.stream as usize / 2].extend_from_slice(&frame.payload);
        }
        left -= usize::from(frame.ends());
        (left == 0).then_some(())
    });
    assert!(bodies.iter().all(|body| *body == crumbs.concat()), "bytes are lost or in another order");
}

#[test]
fn an_answer_to_head_whose_end_comes_later_is_not_broken_off() {
    let _watchdog = watchdog("an_answer_to_head_whose_end_comes_later_is_not_broken_off");
    let scene = Scene::new("");
    let answer = scene.ask("HEAD / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let mut endpoint = scene.accept(&[]);
    let first = endpoint.asked();
    let head = [literal(":status", "200"), literal("content-length", "5")].concat();
    endpoint.send(frame(HEADERS, END_HEADERS, first, &head));
    assert_eq!(status(&answer), 200);
    endpoint.send(frame(DATA, END, first, b""));
    let answer = scene.get();
    let second = endpoint.until(|frame| {
        assert_ne!(frame.kind, RST_STREAM);
        (frame.kind == HEADERS).then_some(frame.stream)
    });
    endpoint.send(response(second, 200, b"ok"));
    assert_eq!(status(&answer), 200);
}
