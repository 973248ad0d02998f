//! The writer against receivers of syslog that are there, go, and come back.

use std::io::Read as _;
use std::net::TcpListener;

use super::*;
use crate::record::{Format, LogRecord};
use crate::writer::{Destination, LogOptions, LogWriter};
use crate::{LogBatch, Registry};

const LONG: Duration = Duration::from_secs(20);

fn start(to: SyslogReceiver, registry: &Registry) -> (LogWriter, LogBatch) {
    let syslog = Syslog { to, facility: 16, tag: "proxy".into() };
    let destination = Destination::Syslog(syslog);
    let options = LogOptions { destination, format: Format::Combined, sample: None, rotation: None };
    let writer = LogWriter::start_with(options, registry.log()).unwrap();
    let batch = writer.batch(registry.worker(0));
    (writer, batch)
}

fn push(batch: &mut LogBatch, path: &[u8]) {
    batch.push(&LogRecord { method: b"GET", path, status: 200, ..LogRecord::default() });
    batch.flush();
}

/// What a message says behind its head, which must be right.
fn told(message: &[u8]) -> String {
    let text = str::from_utf8(message).unwrap();
    let (head, line) = text.split_once(" access - ").unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = head.split(' ').collect();
    let [priority, time, host, tag, pid] = words[..] else { panic!("{head}") };
    assert_eq!((priority, tag, pid), ("<134>1", "proxy", &*std::process::id().to_string()));
    assert!(time.parse::<jiff::Timestamp>().is_ok() && !host.is_empty(), "{head}");
    line.split(' ').nth(6).unwrap().trim_end_matches('"').to_owned()
}

/// Messages with octet counting.
fn next(stream: &mut TcpStream) -> String {
    let mut digits = String::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        match byte[0] {
            b' ' => break,
            digit => digits.push(char::from(digit)),
        }
    }
    let mut message = vec![0; digits.parse().unwrap()];
    stream.read_exact(&mut message).unwrap();
    told(&message)
}

#[test]
fn each_line_is_a_datagram() {
    let registry = Registry::new(1);
    let path = std::env::temp_dir().join(format!("thalweg-syslog-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let unix = UnixDatagram::bind(&path).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = udp.local_addr().unwrap().port();
    unix.set_read_timeout(Some(LONG)).unwrap();
    udp.set_read_timeout(Some(LONG)).unwrap();
    for to in [SyslogReceiver::Unix(path.clone()), SyslogReceiver::Udp("localhost".into(), port)] {
        let is_unix = matches!(to, SyslogReceiver::Unix(_));
        let (writer, mut batch) = start(to, &registry);
        push(&mut batch, b"/a\nb");
        push(&mut batch, &b"/long".repeat(20_000));
        push(&mut batch, b"/c");
        let mut buffer = vec![0; 70_000];
        let paths = [(); 3].map(|()| {
            let read = if is_unix { unix.recv(&mut buffer) } else { udp.recv(&mut buffer) };
            told(&buffer[..read.unwrap()])
        });
        assert_eq!((&*paths[0], &*paths[2]), ("/a\\x0Ab", "/c"), "a line end makes no message");
        drop(batch);
        assert!(writer.shutdown(LONG));
    }
    assert_eq!(registry.log().lost.value(), 0);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_receiver_that_goes_and_comes_back_is_found_again() {
    let registry = Registry::new(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (writer, mut batch) = start(SyslogReceiver::Tcp("127.0.0.1".into(), port), &registry);
    push(&mut batch, b"/1");
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(next(&mut stream), "/1");
    // It ends the connection and takes another one: nothing is lost.
    drop(stream);
    push(&mut batch, b"/2");
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(next(&mut stream), "/2");
    // It goes, and comes back while lines wait for it.
    drop((stream, listener));
    push(&mut batch, b"/3");
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(next(&mut stream), "/3");
    drop(batch);
    assert!(writer.shutdown(LONG));
    assert_eq!(registry.log().lost.value(), 0);
}

#[test]
fn while_a_receiver_is_away_lines_are_counted_and_it_is_looked_for() {
    let registry = Registry::new(1);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (writer, mut batch) = start(SyslogReceiver::Tcp("127.0.0.1".into(), port), &registry);
    push(&mut batch, b"/1");
    let end = Instant::now() + LONG;
    let error = loop {
        if let Some(error) = registry.log().take_write_error() {
            break error;
        }
        assert!(Instant::now() < end);
        thread::yield_now();
    };
    assert!(error.contains(&format!("tcp://127.0.0.1:{port} cannot be written: ")), "{error}");
    push(&mut batch, b"/2");
    // The mistake: each line that comes while it is away puts the next look for it off.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut pushed = 2;
    while listener.accept().is_err() {
        assert!(Instant::now() < end);
        push(&mut batch, b"/3");
        pushed += 1;
        thread::sleep(Duration::from_millis(20));
    }
    drop((listener, batch));
    let began = Instant::now();
    assert!(writer.shutdown(LONG) && began.elapsed() < PATIENCE);
    assert!((1..=pushed).contains(&registry.log().lost.value()));
}
