//! The access log: a form of one's own, samples, files that move on, and receivers of syslog.

use std::fs;
use std::io::{BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::{fetch, get};
use thalweg_tests::process::Signal;
use thalweg_tests::{Directory, Proxy, STEP, Upstream};

use super::{config, wait_counted, watchdog};

/// A proxy with this log.
fn logging(directory: Directory, log: &str, upstream: &Upstream) -> Proxy {
    let text = config(&[&upstream.url()], "");
    let text = text.replace("access_log: { format: json, path: \"{log}\" }", log);
    Proxy::start_in(directory, &text)
}

fn wait_file(path: &Path, is_right: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + STEP;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if is_right(&text) {
            return text;
        }
        assert!(Instant::now() < end, "{}: {:.400}", path.display(), text);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_line_of_ones_own_stays_a_line_whatever_clients_send() {
    let _watchdog = watchdog("a_line_of_ones_own_stays_a_line_whatever_clients_send");
    let upstream = Upstream::saying("here");
    let log = "access_log: { format: { text: \"{client_ip} '{request}' {status} {bytes_out} '{user_agent}' {field.tenant} {nothing}\" }, path: own.log }";
    let directory = Directory::new();
    let wrong = directory.write(
        "wrong.yaml",
        &config(&[&upstream.url()], "").replace("access_log: { format: json, path: \"{log}\" }", log),
    );
    let told = thalweg_tests::program::run(
        thalweg_tests::proxy::command(directory.path()).arg("check").arg(wrong),
        STEP,
    );
    let said = told.stdout + &told.stderr;
    assert!(told.code == 1 && said.contains("`{nothing}` is no placeholder of a log line"), "{said}");
    let log = log.replace(" {nothing}", "");
    let text = config(&[&upstream.url()], "")
        .replace("access_log: { format: json, path: \"{log}\" }", &log)
        .replace(
            "{ to: s }",
            "{ to: s, filters: [ { log: { fields: { tenant: \"{header.X-Tenant}\" } } } ] }",
        );
    let proxy = Proxy::start_in(directory, &text);
    let request = "GET /a?token=secret&b=1 HTTP/1.1\r\nHost: a.test\r\nUser-Agent: x'\t\"200\" {status}\r\nX-Tenant: acme\r\nConnection: close\r\n\r\n";
    assert_eq!(fetch(proxy.web(), request).unwrap().status(), 200);
    let line = wait_file(&proxy.directory().join("own.log"), |text| text.ends_with('\n'));
    assert_eq!(
        line,
        "127.0.0.1 'GET /a?token=[redacted]&b=1 HTTP/1.1' 200 4 'x'\\x09\\x22200\\x22 {status}' acme\n"
    );
    assert!(proxy.stop().status.success());
}

#[test]
fn errors_always_have_a_line_and_others_when_they_are_drawn() {
    let _watchdog = watchdog("errors_always_have_a_line_and_others_when_they_are_drawn");
    let upstream = Upstream::start(|request| {
        let status = if request.target() == "/bad" { "500 Oops" } else { "200 OK" };
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    let log = "access_log: { path: drawn.log, sample: { share: 0%, always: { status: 5xx } } }";
    let proxy = logging(Directory::new(), log, &upstream);
    for at in 0..50 {
        let path = if at % 10 == 0 { "/bad" } else { "/good" };
        get(proxy.web(), path).unwrap();
    }
    wait_counted(&proxy, "thalweg_requests_total", "", 50);
    let ended = proxy.stop();
    let text = fs::read_to_string(ended.directory.path().join("drawn.log")).unwrap();
    assert_eq!((text.lines().count(), text.matches("\"status\":500").count()), (5, 5), "{text}");
}

#[test]
fn a_file_moves_on_by_its_size_and_usr1_opens_it_anew() {
    let _watchdog = watchdog("a_file_moves_on_by_its_size_and_usr1_opens_it_anew");
    let upstream = Upstream::saying("here");
    let log =
        "access_log: { format: { text: \"{path}\" }, path: moves.log, rotate: { size: 64KiB, keep: 2 } }";
    let proxy = logging(Directory::new(), log, &upstream);
    let directory = proxy.directory().to_owned();
    let numbered = |number: u32| directory.join(format!("moves.log.{number}"));
    let long = format!("/{}", "a".repeat(6000));
    let end = Instant::now() + STEP * 3;
    while !numbered(2).exists() {
        assert!(Instant::now() < end, "it does not move on");
        get(proxy.web(), &long).unwrap();
    }
    for number in 1..=2 {
        let text = fs::read_to_string(numbered(number)).unwrap();
        assert!(text.len() <= 192 * 1024 && text.ends_with('\n'), "{number}: {}", text.len());
        assert!(text.lines().all(|line| line == long));
    }
    // An operator's own program may move it too.
    fs::rename(directory.join("moves.log"), directory.join("taken.log")).unwrap();
    proxy.process().signal(Signal::USR1);
    proxy.process().wait_line("reopened", STEP, |line| line.contains("access log reopened").then_some(()));
    wait_file(&directory.join("moves.log"), |_| directory.join("moves.log").exists());
    get(proxy.web(), "/last").unwrap();
    wait_file(&directory.join("moves.log"), |text| text.lines().any(|line| line == "/last"));
    assert!(!numbered(3).exists());
    assert!(proxy.stop().status.success());
}

/// The line behind the head of a message, which must be right.
fn told(message: &[u8], priority: &str) -> String {
    let text = String::from_utf8_lossy(message).into_owned();
    let (head, line) = text.split_once(" access - ").unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = head.split(' ').collect();
    assert_eq!((words.len(), words[0], words[3]), (5, priority, "edge"), "{head}");
    assert!(words[1].ends_with('Z') && words[4].parse::<u32>().is_ok(), "{head}");
    line.to_owned()
}

#[test]
fn lines_go_to_a_receiver_of_syslog_by_datagrams() {
    let _watchdog = watchdog("lines_go_to_a_receiver_of_syslog_by_datagrams");
    let upstream = Upstream::saying("here");
    let directory = Directory::new();
    let path = directory.path().join("log.sock");
    let (unix, udp) = (UnixDatagram::bind(&path).unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    unix.set_read_timeout(Some(STEP)).unwrap();
    udp.set_read_timeout(Some(STEP)).unwrap();
    let mut buffer = [0; 65_536];
    let log = |address: &str, facility: &str| {
        format!(
            "access_log: {{ format: {{ text: \"{{path}} {{status}}\" }}, syslog: {{ address: \"{address}\", facility: {facility}, tag: edge }} }}"
        )
    };
    let proxy = logging(directory, &log(&format!("unix:{}", path.display()), "daemon"), &upstream);
    get(proxy.web(), "/a").unwrap();
    let read = unix.recv(&mut buffer).unwrap();
    assert_eq!(told(&buffer[..read], "<30>1"), "/a 200");
    assert!(proxy.stop().status.success());
    let proxy =
        logging(Directory::new(), &log(&format!("udp://{}", udp.local_addr().unwrap()), "local7"), &upstream);
    get(proxy.web(), "/b").unwrap();
    let read = udp.recv(&mut buffer).unwrap();
    assert_eq!(told(&buffer[..read], "<190>1"), "/b 200");
    assert!(proxy.stop().status.success());
}

#[test]
fn a_receiver_of_syslog_may_be_away_and_what_is_lost_is_told() {
    let _watchdog = watchdog("a_receiver_of_syslog_may_be_away_and_what_is_lost_is_told");
    let upstream = Upstream::saying("here");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let log =
        format!("access_log: {{ format: json, syslog: {{ address: \"tcp://{address}\", tag: edge }} }}");
    let proxy = logging(Directory::new(), &log, &upstream);
    // Nobody is there: clients do not notice, and the operator does.
    let began = Instant::now();
    assert_eq!(get(proxy.web(), "/lost").unwrap().status(), 200);
    assert!(began.elapsed() < Duration::from_secs(3));
    let said = format!("the access log tcp://{address} cannot be written: ");
    proxy.process().wait_line(&said, STEP, |line| line.contains(&said).then_some(()));
    let listener = TcpListener::bind(address).unwrap();
    let end = Instant::now() + STEP;
    listener.set_nonblocking(true).unwrap();
    let stream = loop {
        get(proxy.web(), "/told").unwrap();
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut digits = Vec::new();
    while digits.last() != Some(&b' ') {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        digits.push(byte[0]);
    }
    let length = String::from_utf8(digits).unwrap().trim().parse().unwrap();
    let mut message = vec![0; length];
    reader.read_exact(&mut message).unwrap();
    let line: serde_json::Value = serde_json::from_str(&told(&message, "<134>1")).unwrap();
    assert_eq!((&line["path"], &line["status"]), (&"/told".into(), &200.into()));
    let said = "the access log is written again; ";
    proxy.process().wait_line(said, STEP, |line| line.contains(said).then_some(()));
    assert!(proxy.stop().status.success());
}
