//! Upstreams that die, and come back.

use std::process::Command;
use std::time::Instant;

use thalweg_tests::message::get;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Load, Process, Proxy, STEP, Upstream};

use super::{config, proxy, wait_counted, watchdog};

/// A keep-alive server in a process of its own, which can be killed as servers are.
fn server() -> Option<(Process, String)> {
    let python = find_or_skip("python3")?;
    let script = r#"
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *arguments):
        pass
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
server = Server(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], file=sys.stderr, flush=True)
server.serve_forever()
"#;
    let process = Process::start(Command::new(python).args(["-c", script]));
    let port: u16 = process.wait_line("the port", STEP, |line| line.strip_prefix("port ")?.parse().ok());
    Some((process, format!("http://127.0.0.1:{port}")))
}

#[test]
fn killing_an_upstream_in_the_middle_of_load_costs_no_request_that_had_not_begun() {
    let _watchdog = watchdog("killing_an_upstream_in_the_middle_of_load");
    let Some((first, second)) = server().zip(server()) else { return };
    let proxy = proxy(&[&first.1, &second.1]);
    let load = Load::start(proxy.web(), 32);
    load.wait_for(500);
    drop(first.0); // SIGKILL
    load.wait_for(500);
    let (answered, failures) = load.stop();
    assert!(answered >= 1000, "{answered}");
    let lost: Vec<_> = failures.iter().filter(|failure| !failure.begun).collect();
    assert!(
        lost.is_empty(),
        "{} of {answered} requests failed: {:?}",
        lost.len(),
        &lost[..lost.len().min(5)]
    );

    let ended = proxy.stop();
    let retried = ended.log.iter().filter(|record| record["attempts"].as_u64() > Some(1)).count();
    assert!(retried > 0, "no record of another attempt in {} records", ended.log.len());
    assert!(ended.stderr.contains("connection"), "the log does not say what happened:\n{}", ended.stderr);
}

#[test]
fn when_every_endpoint_is_dead_the_answer_is_503_and_it_recovers_by_itself() {
    let _watchdog = watchdog("when_every_endpoint_is_dead_the_answer_is_503_and_it_recovers_by_itself");
    let (first, second) = (Upstream::saying("one"), Upstream::saying("two"));
    let addresses = [first.address(), second.address()];
    let proxy = proxy(&[&first.url(), &second.url()]);
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    drop((first, second));

    // The listening sockets close soon after; until then an attempt may find a closing connection.
    let end = Instant::now() + STEP;
    let refused = loop {
        let answer = get(proxy.web(), "/").unwrap();
        if answer.status() == 503 || Instant::now() > end {
            break answer;
        }
    };
    assert_eq!(refused.status(), 503, "{refused:?}");
    let cause = refused.value("proxy-status").unwrap();
    assert!(cause.contains("error="), "{cause}");
    for address in addresses {
        assert!(!format!("{refused:?}").contains(&address.to_string()), "an address leaks: {refused:?}");
    }
    assert!(proxy.process().is_running());

    let _back = Upstream::start_at(addresses[0], |_| Some(thalweg_tests::upstream::ok("back")));
    let end = Instant::now() + STEP;
    while get(proxy.web(), "/").unwrap().status() != 200 {
        assert!(Instant::now() < end, "it does not recover");
    }
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn a_service_may_be_down_when_the_proxy_starts() {
    let _watchdog = watchdog("a_service_may_be_down_when_the_proxy_starts");
    let address = Upstream::saying("x").address();
    let proxy = Proxy::start(&config(&[&format!("http://{address}")], ""));
    assert!(matches!(get(proxy.web(), "/").unwrap().status(), 502 | 503));
    let _upstream = Upstream::start_at(address, |_| Some(thalweg_tests::upstream::ok("here")));
    let end = Instant::now() + STEP;
    while get(proxy.web(), "/").unwrap().status() != 200 {
        assert!(Instant::now() < end, "it does not find the service");
    }
}

#[test]
fn faults_are_counted_and_logged_with_the_same_word() {
    let _watchdog = watchdog("faults_are_counted_and_logged_with_the_same_word");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    for _ in 0..3 {
        let answer =
            thalweg_tests::message::fetch(proxy.web(), "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n").unwrap();
        assert_eq!(answer.status(), 400);
        assert!(answer.value("proxy-status").unwrap().contains("http_request_error"));
    }
    wait_counted(&proxy, "thalweg_faults_total", "\"http_request_error\"", 3);
    let records = proxy.stop().log;
    assert_eq!(
        records.iter().filter(|record| record["fault"] == "http_request_error").count(),
        3,
        "{records:?}"
    );
}
