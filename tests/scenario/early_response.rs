//! Upstreams that answer before they have the whole request: the client gets the whole answer, whatever becomes of the
//! rest of its upload, and both sides agree afterwards on where messages begin.

use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use thalweg_tests::connection::Event;
use thalweg_tests::message::Kind;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::proxy::read_log;
use thalweg_tests::talk::chunk;
use thalweg_tests::{Bare, Connection, Message, Noise, Proxy, STEP, Talk, Vitals};

use super::{proxy, watchdog};

/// Bytes of an upload that fits no buffer on its way.
const UPLOAD: u64 = 16 << 20;
/// Bytes of an answer that does not fit beside it.
const ANSWER: u64 = 2 << 20;

/// What the upstream does once it has answered.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Reads the rest of the request.
    Reads,
    /// Ends its side and reads no more, until the proxy ends the connection.
    Stops,
    /// Closes with the rest of the request unread: the kernel breaks the connection off.
    Closes,
}

/// How the client goes about it.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// Reads while it sends, and goes on sending after the answer.
    Both,
    /// Reads when it has sent everything, or can send no more.
    SendsFirst,
}

/// Answers when so many bytes of the body have come; the answer's length stands in the path.
fn hasty(after: usize, then: Then, status: &'static str) -> Bare {
    Bare::start(move |talk| {
        let head = talk.head()?;
        let len: usize = head.target()[1..].parse().unwrap_or_default();
        io::copy(&mut io::Read::take(talk.body(&head), after as u64), &mut io::sink())?;
        let close = if matches!(then, Then::Reads) { "" } else { "Connection: close\r\n" };
        // In one piece: what an upstream has not sent when it closes on unread bytes is lost with it.
        let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n{close}\r\n").into_bytes();
        answer.extend(Noise::new(6).take(len));
        talk.send(answer)?;
        match then {
            Then::Reads => talk.rest().map(drop),
            Then::Stops => {
                talk.half_close();
                // Nothing is read; the kernel tells of the end of the connection all the same.
                thalweg_tests::talk::wait_hang_up(talk.stream(), STEP);
                Ok(())
            }
            Then::Closes => Ok(()),
        }
    })
}

/// Sends the body; an error ends it, as the peer is free to take no more.
fn upload(mut to: TcpStream, chunked: bool) {
    let mut noise = Noise::new(7);
    for _ in 0..UPLOAD / (64 * 1024) {
        let piece = noise.take(64 * 1024);
        if to.write_all(&if chunked { chunk(&piece) } else { piece }).is_err() {
            return;
        }
    }
    if chunked {
        let _ = to.write_all(b"0\r\n\r\n");
    }
}

/// Uploads to an upstream that does not want it, and checks the answer to its last byte.
fn gets_the_whole_answer(proxy: &Proxy, client: Client, chunked: bool, len: u64, status: u16) {
    let case = format!("{client:?}, chunked: {chunked}, {len} bytes");
    let mut talk = Talk::open(proxy.web()).unwrap();
    let framing =
        if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {UPLOAD}") };
    talk.send(format!("POST /{len} HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n")).unwrap();
    let writer = talk.writer().unwrap();
    let sender = match client {
        Client::Both => Some(thread::spawn(move || upload(writer, chunked))),
        Client::SendsFirst => {
            upload(writer, chunked);
            None
        }
    };
    let head = talk.head().unwrap_or_else(|error| panic!("{case}: no answer: {error}"));
    assert_eq!(head.status(), status, "{case}: {head:?}");
    let (mut noise, mut wrong) = (Noise::new(6), None);
    let sum = talk.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()));
    let sum = sum.unwrap_or_else(|error| {
        let record = read_log(&proxy.log_path()).pop();
        panic!("{case}: {error} after {} bytes of the answer; logged: {record:?}", noise.given())
    });
    assert_eq!((sum, wrong), (len, None), "{case}");
    if let Some(sender) = sender {
        sender.join().unwrap();
    }
    if head.value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
        // Nothing but the end may follow, hard or soft.
        match talk.rest() {
            Ok(rest) => assert!(rest.is_empty(), "{case}: behind the answer: {}", rest.escape_ascii()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{case}: {error}"),
        }
        return;
    }
    talk.send("GET /3 HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = talk.head().unwrap_or_else(|error| panic!("{case}: the connection was to stay: {error}"));
    assert_eq!(talk.body(&head).each(|_| {}).unwrap(), 3, "{case}: the next answer");
}

fn all_clients_get_the_whole_answer(then: Then, len: u64, status: &'static str) {
    let number = status[..3].parse().unwrap();
    for after in [0, 1_000_000] {
        let upstream = hasty(after, then, status);
        let proxy = proxy(&[&upstream.url()]);
        let before = Vitals::of(&proxy);
        // An upstream that waits until its long answer is taken, and a client that waits until its upload is: only
        // endless buffers would serve both.
        let clients: &[Client] =
            if len < ANSWER { &[Client::Both, Client::SendsFirst] } else { &[Client::Both] };
        for client in clients {
            for chunked in [false, true] {
                gets_the_whole_answer(&proxy, *client, chunked, len, number);
            }
        }
        before.wait_for(&proxy, "early answers");
    }
}

#[test]
fn a_short_early_answer_of_an_upstream_that_reads_on_arrives_whole() {
    let _watchdog = watchdog("a_short_early_answer_of_an_upstream_that_reads_on_arrives_whole");
    all_clients_get_the_whole_answer(Then::Reads, 100, "413 Content Too Large");
}

#[test]
fn a_short_early_answer_of_an_upstream_that_reads_no_more_arrives_whole() {
    let _watchdog = watchdog("a_short_early_answer_of_an_upstream_that_reads_no_more_arrives_whole");
    all_clients_get_the_whole_answer(Then::Stops, 100, "413 Content Too Large");
}

#[test]
fn a_short_early_answer_of_an_upstream_that_closes_arrives_whole() {
    let _watchdog = watchdog("a_short_early_answer_of_an_upstream_that_closes_arrives_whole");
    all_clients_get_the_whole_answer(Then::Closes, 100, "200 OK");
}

#[test]
#[ignore = "the drain ends after 256 KiB or a second, and its reset takes what the client has not read yet"]
fn a_long_early_answer_of_an_upstream_that_reads_on_arrives_whole() {
    let _watchdog = watchdog("a_long_early_answer_of_an_upstream_that_reads_on_arrives_whole");
    all_clients_get_the_whole_answer(Then::Reads, ANSWER, "200 OK");
}

#[test]
#[ignore = "the drain ends after 256 KiB or a second, and its reset takes what the client has not read yet"]
fn a_long_early_answer_of_an_upstream_that_reads_no_more_arrives_whole() {
    let _watchdog = watchdog("a_long_early_answer_of_an_upstream_that_reads_no_more_arrives_whole");
    all_clients_get_the_whole_answer(Then::Stops, ANSWER, "413 Content Too Large");
}

#[test]
fn an_upload_that_ends_after_its_early_answer_leaves_a_connection_that_is_right() {
    let _watchdog = watchdog("an_upload_that_ends_after_its_early_answer_leaves_a_connection_that_is_right");
    let upstream = Bare::start(|talk| {
        loop {
            let head = talk.head()?;
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")?;
            // The answer ends when the request has.
            talk.body(&head).each(|_| {})?;
            talk.send("k")?;
        }
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Connection::open(proxy.web()).unwrap();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhel");
    let deadline = Instant::now() + STEP;
    while !client.seen().ends_with(b"\r\n\r\no") {
        assert_eq!(client.read(deadline), Event::Bytes, "the answer begins within the upload");
    }
    client.send("lo");
    let first = Message::read(&mut client, Kind::Response, deadline).unwrap();
    assert_eq!(first.text(), "ok");
    if first.value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
        assert_eq!(client.read_to_end(deadline), Event::End, "it was said to close");
        assert!(client.seen().is_empty());
        return;
    }
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(Message::read(&mut client, Kind::Response, deadline).unwrap().text(), "ok");
}

#[test]
fn a_refused_expectation_reaches_the_client_before_its_body_is_sent() {
    let _watchdog = watchdog("a_refused_expectation_reaches_the_client_before_its_body_is_sent");
    let (behind, came_behind) = mpsc::channel();
    let behind = Mutex::new(behind);
    let upstream = Bare::start(move |talk| {
        talk.head()?;
        talk.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")?;
        let _ = behind.lock().unwrap().send(talk.rest());
        Ok(())
    });
    let proxy = proxy(&[&upstream.url()]);
    let before = Vitals::of(&proxy);
    let mut client = Connection::open(proxy.web()).unwrap();
    client.send("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
    let deadline = Instant::now() + STEP;
    let answer = Message::read(&mut client, Kind::Response, deadline).unwrap();
    assert_eq!((answer.status(), answer.text()), (417, "no".to_owned()));
    // The body may still come or not (RFC 9110 §10.1.1), so the connection cannot go on.
    assert!(
        answer.value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
        "{answer:?}"
    );
    assert_eq!(client.read_to_end(deadline), Event::End);
    drop(client);
    let behind = came_behind.recv_timeout(STEP).unwrap().unwrap();
    assert!(behind.is_empty(), "the refused body came: {}", behind.escape_ascii());
    before.wait_for(&proxy, "a refused expectation");
}

#[test]
fn curl_reports_the_refusal_of_its_upload_and_not_an_error() {
    let _watchdog = watchdog("curl_reports_the_refusal_of_its_upload_and_not_an_error");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = hasty(0, Then::Reads, "413 Content Too Large");
    let proxy = proxy(&[&upstream.url()]);
    let file = proxy.directory().join("upload");
    std::fs::write(&file, Noise::new(8).take(usize::try_from(UPLOAD).unwrap())).unwrap();
    for expect in ["Expect: 100-continue", "Expect:"] {
        let url = format!("http://{}/100", proxy.web());
        let mut command = Command::new(&curl);
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "-H", expect, "-T"]);
        let finished = run(command.arg(&file).arg(&url), STEP * 2);
        assert_eq!(finished.stdout, "413 100", "{expect}: {}", finished.stderr);
    }
}

/// The write side of a connection that is shut down while the other still sends.
#[test]
fn a_client_that_half_closes_within_its_upload_is_told_so() {
    let _watchdog = watchdog("a_client_that_half_closes_within_its_upload_is_told_so");
    let upstream = hasty(1 << 20, Then::Reads, "200 OK");
    let proxy = proxy(&[&upstream.url()]);
    let before = Vitals::of(&proxy);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("POST /1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\nhello").unwrap();
    client.stream().shutdown(Shutdown::Write).unwrap();
    let head = client.head().unwrap();
    assert_eq!(head.status(), 400, "{head:?}");
    assert!(client.body(&head).each(|_| {}).is_ok());
    drop(client);
    before.wait_for(&proxy, "a half-closed upload");
}
