//! Traces: what services and collectors are told, and what a collector that is away costs.

mod collector;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::{span::SpanKind, status::StatusCode};
use thalweg_tests::admin::Admin;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::{Message, Proxy, STEP, Upstream, upstream::ok};

use super::scripted::{House, response};
use super::{config, reload, wait_counted, watchdog};
use collector::{Collector, clients, said};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A service that tells of every request.
fn telling() -> (Upstream, Receiver<Message>) {
    let (told, seen) = mpsc::channel();
    let told = Mutex::new(told);
    let upstream = Upstream::start(move |request: &Message| {
        let _ = told.lock().unwrap_or_else(PoisonError::into_inner).send(request.clone());
        Some(ok("ok"))
    });
    (upstream, seen)
}

fn tracing(address: SocketAddr, more: &str) -> String {
    format!("tracing: {{ endpoint: \"http://{address}\", service_name: edge, {more} }}\n")
}

/// The ids of a `traceparent` and its flags.
fn parts(traceparent: &str) -> (String, String, String) {
    let parts: Vec<&str> = traceparent.split('-').collect();
    assert!(parts.len() == 4 && parts[0] == "00" && traceparent.len() == 55, "{traceparent}");
    (parts[1].to_owned(), parts[2].to_owned(), parts[3].to_owned())
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request of a client that names a trace reaches the collector as two spans, the service sees the one that asked it,
/// and log and record name the trace.
fn goes_out(collector: &Collector, protocol: &str) {
    let (upstream, seen) = telling();
    let headers = "headers: { X-Team: { value: \"of ours\" } }";
    let more = tracing(collector.address, &format!("protocol: {protocol}, sample: 0%, {headers}"));
    let proxy = Proxy::start(&config(&[&upstream.url()], &format!("trusted_proxies: [ 127.0.0.1 ]\n{more}")));
    let request = format!(
        "GET /cart?token=hidden HTTP/1.1\r\nHost: a.test\r\nTraceparent: {PARENT}\r\nTracestate: a=b\r\n\r\n"
    );
    assert_eq!(fetch(proxy.web(), &request).unwrap().status(), 200);
    let there = seen.recv_timeout(STEP).unwrap();
    let (trace, span, flags) = parts(there.value("traceparent").unwrap());
    assert_eq!((trace.as_str(), flags.as_str(), there.value("tracestate")), (TRACE, "01", Some("a=b")));
    assert_eq!(there.values("traceparent").count(), 1);
    let batches = collector.wait(|span| span.kind() == SpanKind::Server);
    let last = batches.last().unwrap();
    assert_eq!((last.service.as_str(), last.team.as_deref()), ("edge", Some("of ours")));
    let [server, client] = &last.spans[..] else { panic!("{batches:?}") };
    assert_eq!(
        (hex(&server.trace_id), hex(&server.parent_span_id)),
        (TRACE.to_owned(), PARENT[36..52].to_owned())
    );
    assert_eq!((client.kind(), hex(&client.span_id)), (SpanKind::Client, span));
    assert_eq!(client.parent_span_id, server.span_id);
    assert_eq!(
        (said(server, "url.path"), said(client, "http.response.status_code")),
        ("/cart".into(), "200".into())
    );
    assert!(client.start_time_unix_nano >= server.start_time_unix_nano);
    assert!(client.end_time_unix_nano <= server.end_time_unix_nano, "{batches:?}");
    assert!(!format!("{batches:?}").contains("hidden"));
    wait_counted(&proxy, "thalweg_spans_total", "exported", 2);
    let records = Admin::of(&proxy).get("/api/v1/requests");
    assert_eq!(records["requests"][0]["trace_id"], TRACE, "{records}");
    let log = proxy.stop().log;
    assert_eq!(log[0]["trace_id"], TRACE, "{log:?}");
}

#[test]
fn spans_go_out_over_http() {
    let _watchdog = watchdog("spans_go_out_over_http");
    goes_out(&Collector::http(), "http");
}

#[test]
fn spans_go_out_over_grpc() {
    let _watchdog = watchdog("spans_go_out_over_grpc");
    goes_out(&Collector::grpc(), "grpc");
}

#[test]
fn failures_and_slow_ones_are_told_whatever_the_share() {
    let _watchdog = watchdog("failures_and_slow_ones_are_told_whatever_the_share");
    let collector = Collector::http();
    let (told, seen) = mpsc::channel();
    let told = Mutex::new(told);
    let upstream = Upstream::start(move |request: &Message| {
        let traceparent = request.value("traceparent").unwrap().to_owned();
        told.lock().unwrap_or_else(PoisonError::into_inner).send(traceparent).ok()?;
        match request.target() {
            "/slow" => {
                // As long as the work of a slow service takes.
                thread::sleep(Duration::from_millis(150));
                Some(ok("late"))
            }
            "/missing" => Some(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "/broken" => Some(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n".to_vec()),
            _ => Some(ok("well")),
        }
    });
    let more = tracing(collector.address, "sample: 0%, slower_than: 100ms");
    let proxy = Proxy::start(&config(&[&upstream.url()], &more));
    for (path, status) in [("/missing", 404), ("/broken", 500), ("/slow", 200)] {
        assert_eq!(get(proxy.web(), path).unwrap().status(), status);
    }
    let flags: Vec<String> = seen.try_iter().map(|traceparent| parts(&traceparent).2).collect();
    assert_eq!(flags, ["00"; 3], "nobody knew it when they were asked");
    let spans: Vec<_> = collector
        .wait(|span| said(span, "url.path") == "/slow")
        .into_iter()
        .flat_map(|batch| batch.spans)
        .collect();
    let paths: Vec<String> =
        spans.iter().map(|span| said(span, "url.path")).filter(|path| !path.is_empty()).collect();
    assert_eq!(paths, ["/broken", "/slow"], "{spans:?}");
    let broken = spans.iter().find(|span| said(span, "url.path") == "/broken").unwrap();
    assert_eq!(broken.status.as_ref().unwrap().code(), StatusCode::Error);
    assert_eq!((said(broken, "error.type"), broken.flags & 1), ("500".to_owned(), 0));
    assert!(collector.is_quiet());
}

#[test]
fn each_retry_is_an_event_and_a_span_that_its_endpoint_knows() {
    let _watchdog = watchdog("each_retry_is_an_event_and_a_span_that_its_endpoint_knows");
    let collector = Collector::http();
    let house = House::start(
        2,
        "retry: { attempts: 2, budget: 100%, statuses: [ 503 ] }",
        &tracing(collector.address, "sample: 100%"),
    );
    let mut client = house.client("GET /again HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut first = house.asked();
    first.talk.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut second = house.asked();
    second.talk.send(ok("ok")).unwrap();
    assert_eq!(response(&mut client).1, b"ok");
    let (server, below) = collector.exchange("/again");
    let told: Vec<String> = clients(&below).iter().map(|span| hex(&span.span_id)).collect();
    let known = [first, second].map(|asked| parts(asked.head.value("traceparent").unwrap()).1);
    assert_eq!(told, known, "{below:?}");
    assert_eq!(server.events.len(), 1, "{server:?}");
    assert_eq!(server.events[0].name, "retry");
    assert_eq!(said(&below[0], "error.type"), "http_response_status");
    assert_eq!(
        (said(&below[1], "http.request.resend_count"), said(&below[1], "error.type")),
        ("1".into(), String::new())
    );
    assert!(server.status.is_none(), "{server:?}");
}

#[test]
fn a_copy_beside_a_slow_attempt_is_a_span_of_its_own() {
    let _watchdog = watchdog("a_copy_beside_a_slow_attempt_is_a_span_of_its_own");
    let collector = Collector::http();
    let hedge = "retry: { attempts: 2, hedge: { after: 50ms, budget: 100% } }";
    let house = House::start(2, hedge, &tracing(collector.address, "sample: 100%"));
    let mut client = house.client("GET /hedged HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let (first, mut second) = (house.asked(), house.asked());
    second.talk.send(ok("ok")).unwrap();
    assert_eq!(response(&mut client).1, b"ok");
    let (server, below) = collector.exchange("/hedged");
    let told: Vec<String> = clients(&below).iter().map(|span| hex(&span.span_id)).collect();
    let known = [&first, &second].map(|asked| parts(asked.head.value("traceparent").unwrap()).1);
    assert_eq!(told, known, "{below:?}");
    assert_eq!((server.events.len(), server.events[0].name.as_str()), (1, "hedge"));
    assert_eq!(
        (said(&below[0], "thalweg.called_off"), said(&below[1], "thalweg.hedge")),
        ("true".into(), "true".into())
    );
}

#[test]
fn what_strangers_say_of_traces_is_checked() {
    let _watchdog = watchdog("what_strangers_say_of_traces_is_checked");
    let collector = Collector::http();
    let (upstream, seen) = telling();
    let proxy = Proxy::start(&config(&[&upstream.url()], &tracing(collector.address, "sample: 0%")));
    let ask = |fields: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        assert_eq!(fetch(proxy.web(), &request).unwrap().status(), 200);
        seen.recv_timeout(STEP).unwrap()
    };
    // It goes on, but who is not trusted does not say that it is recorded; and state that has not too much is kept.
    let followed = ask(&format!("traceparent: {PARENT}\r\ntracestate: a=b\r\ntracestate: c=d\r\n"));
    let (trace, span, flags) = parts(followed.value("traceparent").unwrap());
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "00"));
    assert_ne!(span, PARENT[36..52]);
    assert_eq!(followed.values("tracestate").collect::<Vec<_>>(), ["a=b", "c=d"]);
    let later = ask(&format!("traceparent: cc{}-more\r\n", &PARENT[2..]));
    assert_eq!(parts(later.value("traceparent").unwrap()).0, TRACE);
    let much = ask(&format!("traceparent: {PARENT}\r\ntracestate: a={}\r\n", "x".repeat(511)));
    assert_eq!(
        (parts(much.value("traceparent").unwrap()).0.as_str(), much.value("tracestate")),
        (TRACE, None)
    );
    for wrong in [
        format!("traceparent: ff{}\r\n", &PARENT[2..]),
        format!("traceparent: {PARENT}-more\r\n"),
        format!("traceparent: {}\r\n", PARENT.to_uppercase()),
        format!("traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\n"),
        format!("traceparent: {PARENT}, {PARENT}\r\n"),
        "traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01\r\n".to_owned(),
        "traceparent:\r\n".to_owned(),
    ] {
        let there = ask(&format!("{wrong}tracestate: a=b\r\n"));
        assert_eq!(there.values("traceparent").count(), 1, "{there:?}");
        assert_ne!(parts(there.value("traceparent").unwrap()).0, TRACE, "{wrong}");
        assert_eq!(there.value("tracestate"), None, "it is about another trace: {wrong}");
    }
}

#[test]
fn copies_of_requests_carry_the_trace() {
    let _watchdog = watchdog("copies_of_requests_carry_the_trace");
    let collector = Collector::http();
    let (main, (shadow, seen)) = (Upstream::saying("main"), telling());
    let more = tracing(collector.address, "sample: 100%");
    let proxy = Proxy::start(&format!(
        "{more}listeners: {{ web: \"127.0.0.1:0\" }}\n\
         services: {{ main: {{ endpoints: \"{}\" }}, shadow: {{ endpoints: \"{}\" }} }}\n\
         routes: [ {{ to: main, filters: [ {{ mirror: shadow }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        main.url(),
        shadow.url()
    ));
    let request =
        format!("GET /both HTTP/1.1\r\nHost: a.test\r\nTraceparent: {PARENT}\r\nTracestate: a=b\r\n\r\n");
    assert_eq!(fetch(proxy.web(), &request).unwrap().text(), "main");
    let copy = seen.recv_timeout(STEP).unwrap();
    let (trace, span, _) = parts(copy.value("traceparent").unwrap());
    assert_eq!(
        (trace.as_str(), copy.value("tracestate"), copy.values("traceparent").count()),
        (TRACE, Some("a=b"), 1)
    );
    let is_it = |span: &opentelemetry_proto::tonic::trace::v1::Span| {
        span.kind() == SpanKind::Internal && said(span, "thalweg.service") == "shadow"
    };
    let spans: Vec<_> = collector.wait(is_it).into_iter().flat_map(|batch| batch.spans).collect();
    let internal = spans.iter().find(|span| is_it(span)).unwrap();
    let client = spans.iter().find(|known| hex(&known.span_id) == span).unwrap();
    assert_eq!((client.kind(), &client.parent_span_id), (SpanKind::Client, &internal.span_id));
    assert_eq!(hex(&internal.trace_id), TRACE);
}

#[test]
fn a_reload_turns_traces_on_and_off_and_moves_them() {
    let _watchdog = watchdog("a_reload_turns_traces_on_and_off_and_moves_them");
    let (one, other) = (Collector::http(), Collector::grpc());
    let (upstream, seen) = telling();
    let base = config(&[&upstream.url()], "");
    let proxy = Proxy::start(&base);
    let base = base
        .replace("web: { address: \"127.0.0.1:0\" }", &format!("web: {{ address: \"{}\" }}", proxy.web()));
    let ask = |path: &str| {
        assert_eq!(get(proxy.web(), path).unwrap().status(), 200);
        seen.recv_timeout(STEP).unwrap().value("traceparent").is_some()
    };
    // A worker takes a configuration over at its next turn.
    let until = |path: &str, wanted: bool| {
        let end = Instant::now() + STEP;
        while ask(path) != wanted {
            assert!(Instant::now() < end, "{path} is traced, or is not: {}", !wanted);
        }
    };
    assert!(!ask("/off"), "nothing is written without `tracing`");
    reload(&proxy, &format!("{base}{}", tracing(one.address, "sample: 100%")), 1);
    until("/one", true);
    one.exchange("/one");
    reload(&proxy, &format!("{base}{}", tracing(other.address, "sample: 100%, protocol: grpc")), 2);
    until("/other", true);
    other.exchange("/other");
    assert!(one.is_quiet());
    reload(&proxy, &base, 3);
    until("/off-again", false);
}

#[test]
fn a_collector_that_refuses_costs_spans_and_the_operator_is_told_once() {
    let _watchdog = watchdog("a_collector_that_refuses_costs_spans_and_the_operator_is_told_once");
    let refusing =
        Upstream::start(|_| Some(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let (upstream, _seen) = telling();
    let proxy = Proxy::start(&config(&[&upstream.url()], &tracing(refusing.address(), "sample: 100%")));
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    wait_counted(&proxy, "thalweg_spans_total", "failed", 2);
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    wait_counted(&proxy, "thalweg_spans_total", "failed", 4);
    let ended = proxy.stop();
    assert_eq!(ended.stderr.matches("does not take spans: it answered 401").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_collector_that_comes_back_gets_what_waits() {
    let _watchdog = watchdog("a_collector_that_comes_back_gets_what_waits");
    let (upstream, _seen) = telling();
    // It answers once that it is busy, then with something that is to be tried again too.
    let (told, seen) = mpsc::channel();
    let told = Mutex::new((told, 0));
    let collector = Upstream::start(move |request: &Message| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1 += 1;
        match told.1 {
            1 => Some(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()),
            2 => None,
            _ => {
                let _ = told.0.send(request.body.clone());
                Some(ok(""))
            }
        }
    });
    let proxy = Proxy::start(&config(&[&upstream.url()], &tracing(collector.address(), "sample: 100%")));
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    assert!(!seen.recv_timeout(STEP).unwrap().is_empty());
    wait_counted(&proxy, "thalweg_spans_total", "exported", 2);
    wait_counted(&proxy, "thalweg_spans_total", "failed", 0);
    let ended = proxy.stop();
    for said in ["does not take spans: it answered 503", "takes spans again"] {
        assert_eq!(ended.stderr.matches(said).count(), 1, "{said}: {}", ended.stderr);
    }
}

#[test]
fn the_last_spans_go_out_at_the_end() {
    let _watchdog = watchdog("the_last_spans_go_out_at_the_end");
    let collector = Collector::grpc();
    let (upstream, _seen) = telling();
    let more = tracing(collector.address, "sample: 100%, protocol: grpc");
    let proxy = Proxy::start(&config(&[&upstream.url()], &more));
    assert_eq!(get(proxy.web(), "/last").unwrap().status(), 200);
    assert!(proxy.stop().status.success());
    assert_eq!(collector.exchange("/last").1.len(), 1);
}

#[test]
fn a_collector_that_is_silent_costs_what_has_no_room_and_no_exchange() {
    const REQUESTS: usize = 6000;
    let _watchdog = watchdog("a_collector_that_is_silent_costs_what_has_no_room_and_no_exchange");
    // It accepts in the kernel, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = tracing(silent.local_addr().unwrap(), "sample: 100%");
    let proxy = Proxy::start(&format!(
        "workers: 1\nmetrics: {{ address: \"127.0.0.1:0\" }}\n{more}listeners: {{ web: \"127.0.0.1:0\" }}\n\
         services: {{ s: {{ endpoints: \"http://127.0.0.1:9\" }} }}\n\
         routes: [ {{ to: s, filters: [ {{ respond: {{ status: 200, body: here }} }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    ));
    let mut stream = TcpStream::connect(proxy.web()).unwrap();
    let mut out = stream.try_clone().unwrap();
    let writer = thread::spawn(move || {
        (0..REQUESTS).for_each(|_| out.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap());
    });
    stream.set_read_timeout(Some(STEP)).unwrap();
    let (mut answers, mut tail, mut part) = (0, Vec::new(), [0; 64 * 1024]);
    while answers < REQUESTS {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "closed after {answers} answers");
        tail.extend_from_slice(&part[..read]);
        answers += tail.windows(8).filter(|window| window == b"\r\n\r\nhere").count();
        tail.drain(..tail.len().saturating_sub(7));
    }
    writer.join().unwrap();
    let end = Instant::now() + STEP;
    let dropped = || {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        let line =
            text.lines().find(|line| line.starts_with("thalweg_spans_total{result=\"dropped\"}")).unwrap();
        let limit = text.lines().any(|line| {
            line.starts_with("thalweg_limit_hits_total{limit=\"spans\"}") && !line.ends_with(" 0")
        });
        (line.rsplit(' ').next().unwrap().parse::<u64>().unwrap(), limit)
    };
    // The queue, and a batch that is under way.
    let most = (4096 + 512) as u64;
    while dropped().0 < REQUESTS as u64 - most {
        assert!(Instant::now() < end, "{:?}", dropped());
        thread::yield_now();
    }
    assert!(dropped().1, "the bound is counted too");
    let asked = Instant::now();
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    drop(silent);
}
