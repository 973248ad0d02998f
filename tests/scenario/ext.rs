//! `ext`: a service of the operator's own decides about requests and changes them; one that fails or lies harms nobody.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tests::message::{fetch, get};
use thalweg_tests::port::{Refusing, Silent};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::talk::{chunk, wait_hang_up};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Bare, Directory, Message, Process, Proxy, STEP, Talk, Upstream, Watchdog};

use super::runtimes::{CLIENT, LIMIT};
use super::watchdog;

/// How long the proxy waits for an answer that does not come.
const WAIT: Duration = Duration::from_millis(500);

/// An application that says what has arrived.
fn app() -> Upstream {
    Upstream::start(|request: &Message| {
        let field = |name| request.value(name).unwrap_or("-").to_owned();
        Some(ok(&format!(
            "{} {} {} {}",
            request.target(),
            field("x-user"),
            field("x-api-key"),
            request.text()
        )))
    })
}

/// A service that answers with this document, and tells what it was sent.
fn answering(answer: Value) -> (Upstream, Receiver<Value>) {
    let (told, seen) = mpsc::channel();
    let told = Mutex::new(told);
    let service = Upstream::start(move |request: &Message| {
        let document = serde_json::from_slice(&request.body).unwrap_or_default();
        let _ = told.lock().unwrap().send(document);
        Some(ok(&answer.to_string()))
    });
    (service, seen)
}

/// A proxy before an application, with these services and routes.
fn asking(app: &Upstream, services: &[(&str, String)], routes: &str) -> Proxy {
    let services: String =
        services.iter().map(|(name, url)| format!("  {name}: {{ endpoints: \"{url}\" }}\n")).collect();
    Proxy::start(&format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services:\n  app: {{ endpoints: \"{}\" }}\n{services}routes:\n{routes}\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        app.url()
    ))
}

fn post(web: SocketAddr, path: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    fetch(
        web,
        &format!("POST {path} HTTP/1.1\r\nHost: a.test\r\n{fields}Content-Length: {length}\r\n\r\n{body}"),
    )
    .unwrap()
}

#[test]
fn a_service_is_sent_the_whole_body_and_changes_the_request() {
    let _watchdog = watchdog("a_service_is_sent_the_whole_body_and_changes_the_request");
    let app = app();
    let (service, seen) = answering(json!({
        "decision": "continue", "set_fields": { "X-User": "ada" }, "path": "/moved", "query": "a=b",
        "response_fields": { "X-Seen": "yes" },
    }));
    let route = "\
        - match: { path: /twice/* }\n  to: app\n  filters:\n\
        \x20 - ext: { service: judge, send: body, max_body: 1KiB }\n\
        \x20 - ext: { service: judge, send: body, max_body: 1KiB }\n\
        \x20 - buffer: {}\n\
        - { to: app, filters: [ { ext: { service: judge, send: body, max_body: 1KiB } } ] }\n";
    let proxy = asking(&app, &[("judge", service.url())], route);
    let answer = post(proxy.web(), "/a?x=1", "X-User: root\r\n", "hello");
    assert_eq!((answer.text().as_str(), answer.value("x-seen")), ("/moved?a=b ada - hello", Some("yes")));
    let document = seen.recv_timeout(STEP).unwrap();
    let expected = json!({ "path": "/a", "query": "x=1", "method": "POST", "body_base64": "aGVsbG8=", "service": "app" });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&document[key], value, "{key} of {document}");
    }
    // Chunks, and a client that waits to be asked, once.
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send(
        "POST /twice/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    .unwrap();
    assert_eq!(talk.head().unwrap().status(), 100);
    for piece in ["in ", "pieces"] {
        talk.send(chunk(piece.as_bytes())).unwrap();
    }
    talk.send("0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    for expected in ["/moved?a=b ada - in pieces", "/moved?a=b ada - "] {
        let head = talk.head().unwrap();
        assert_eq!(head.status(), 200);
        let mut body = Vec::new();
        talk.body(&head).each(|piece| body.extend_from_slice(piece)).unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }
    for body in ["aW4gcGllY2Vz", "aW4gcGllY2Vz", ""] {
        assert_eq!(seen.recv_timeout(STEP).unwrap()["body_base64"], body);
    }
    // One that is too large goes nowhere, whether its length is declared or not.
    let (asked, served) = (service.served(), app.served());
    let large = "x".repeat(2_000);
    assert_eq!(post(proxy.web(), "/large", "", &large).status(), 413);
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("POST /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    talk.send(chunk(large.as_bytes())).unwrap();
    assert_eq!(talk.head().unwrap().status(), 413);
    assert_eq!((service.served(), app.served()), (asked, served));
    assert!(proxy.stop().status.success());
}

/// Ways to give no usable answer.
const WAYS: [&str; 8] = ["gone", "silent", "error", "no_json", "huge", "half", "framing", "split"];

/// Services that fail, one for each way.
struct Failing {
    services: Vec<(&'static str, String)>,
    _gone: Refusing,
    _silent: Silent,
    _bare: Vec<Bare>,
}

impl Failing {
    fn start() -> Self {
        let (gone, silent) = (Refusing::new(), Silent::new());
        let mut services = vec![
            ("gone", format!("http://{}", gone.address())),
            ("silent", format!("http://{}", silent.address())),
        ];
        let text = |status: &str, body: &str| {
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        let framing = json!({ "decision": "continue", "set_fields": { "Content-Length": "0" } }).to_string();
        let split =
            json!({ "decision": "continue", "set_fields": { "X-User": "a\r\nX-Admin: 1" } }).to_string();
        let answers = [
            ("error", text("500 Internal Server Error", "xxxx")),
            ("no_json", text("200 OK", "<html>xxxx</html>")),
            ("huge", text("200 OK", &"xxxx".repeat(500_000))),
            ("half", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"decision\": \"continue\"}".to_owned()),
            ("framing", text("200 OK", &framing)),
            ("split", text("200 OK", &split)),
        ];
        let mut bare = Vec::new();
        for (way, answer) in answers {
            let service = Bare::start(move |talk| {
                let head = talk.head()?;
                talk.body(&head).each(|_| {})?;
                talk.send(&answer)
            });
            services.push((way, service.url()));
            bare.push(service);
        }
        Self { services, _gone: gone, _silent: silent, _bare: bare }
    }
}

#[test]
fn a_service_that_fails_or_lies_opens_no_door_and_harms_nobody() {
    let _watchdog = watchdog("a_service_that_fails_or_lies_opens_no_door_and_harms_nobody");
    let (app, failing) = (app(), Failing::start());
    let mut routes = String::new();
    for way in WAYS {
        for (door, on_failure) in [("shut", "deny"), ("open", "pass")] {
            routes.push_str(&format!(
                "- {{ match: {{ path: /{door}/{way} }}, to: app, filters: [ {{ ext: {{ service: {way}, \
                 timeout: {WAIT:?}, on_failure: {on_failure} }} }} ] }}\n"
            ));
        }
    }
    let proxy = asking(&app, &failing.services, &routes);
    for way in WAYS {
        let began = Instant::now();
        let answer = get(proxy.web(), &format!("/shut/{way}")).unwrap();
        let expected = if way == "silent" { 504 } else { 503 };
        assert_eq!(answer.status(), expected, "{way}: {}", answer.text());
        assert!(!answer.text().contains("xxxx"), "{way}: nothing of what the service says is shown");
        assert!(began.elapsed() < WAIT + Duration::from_secs(5), "{way}: {:?}", began.elapsed());
    }
    assert_eq!(app.served(), 0, "nobody has passed");
    for way in WAYS {
        let answer = get(proxy.web(), &format!("/open/{way}")).unwrap();
        assert_eq!((answer.status(), answer.text()), (200, format!("/open/{way} - - ")), "{way}");
    }
    let ended = proxy.stop();
    assert!(ended.status.success());
    for way in WAYS {
        for (door, words) in [("shut", "ext: no usable answer of"), ("open", "ext: passes without")] {
            let path = format!("/{door}/{way}");
            let line = ended.log.iter().find(|line| line["path"] == path.as_str()).unwrap();
            let reason = line["reason"].as_str().unwrap_or_default();
            assert!(reason.starts_with(&format!("{words} `{way}`: ")), "{path}: {reason:?}");
        }
    }
}

#[test]
fn a_call_is_given_up_when_the_client_leaves() {
    let _watchdog = watchdog("a_call_is_given_up_when_the_client_leaves");
    let (told, seen) = mpsc::channel();
    let told = Mutex::new(told);
    let service = Bare::start(move |talk| {
        talk.head()?;
        let _ = told.lock().unwrap().send("asked");
        wait_hang_up(talk.stream(), STEP);
        let _ = told.lock().unwrap().send("given up");
        Ok(())
    });
    let app = app();
    let route = "- { to: app, filters: [ { ext: { service: slow, timeout: 60s } } ] }\n";
    let proxy = asking(&app, &[("slow", service.url())], route);
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(seen.recv_timeout(STEP), Ok("asked"));
    talk.reset();
    assert_eq!(seen.recv_timeout(STEP), Ok("given up"));
    assert_eq!(app.served(), 0);
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ext").join(name)
}

/// Starts an example on a port of the kernel's choice, and goes through all that it does.
fn satisfies(command: &mut Command) {
    // It tells its port on standard output, and lines are waited for on the other.
    let mut told = Command::new("sh");
    told.args(["-c", "exec \"$@\" >&2", "sh"]).arg(command.get_program()).args(command.get_args());
    let server = Process::start(told.env("PORT", "0"));
    let port: u16 = server.wait_line("the port", CLIENT, |line| line.strip_prefix("port ")?.parse().ok());
    let app = app();
    let route = "- { to: app, filters: [ { ext: { service: judge, send: body, max_body: 256KiB, timeout: 30s } } ] }\n";
    let proxy = asking(&app, &[("judge", format!("http://127.0.0.1:{port}"))], route);
    let web = proxy.web();
    let key = "X-Api-Key: secret\r\nX-User: root\r\n";
    let refused = post(web, "/a", "X-Api-Key: \"],\\\r\n", "hello");
    assert_eq!((refused.status(), refused.text().as_str()), (401, "a key is needed\n"));
    assert_eq!(refused.value("x-reason"), Some("no key"));
    assert_eq!(post(web, "/a", key, "hello").text(), "/a ada - hello");
    assert_eq!(post(web, "/old/b%22?c=d", key, "").text(), "/new/b%22?c=d ada - ");
    let attack = post(web, "/a", key, "an attack");
    assert_eq!((attack.status(), attack.text().as_str()), (403, "not this\n"));
    let large = "y".repeat(200_000);
    assert_eq!(post(web, "/a", key, &large).text(), format!("/a ada - {large}"));
    let ended = proxy.stop();
    let line = ended.log.iter().find(|line| line["status"] == 403).unwrap();
    assert_eq!(line["reason"], "ext: `judge` answers 403: the body has an attack");
}

#[test]
fn the_example_in_python_does_what_it_says() {
    let _watchdog = Watchdog::new("the_example_in_python_does_what_it_says", LIMIT);
    let Some(python) = find_or_skip("python3") else { return };
    satisfies(Command::new(python).arg(example("service.py")));
}

#[test]
fn the_example_in_node_does_what_it_says() {
    let _watchdog = Watchdog::new("the_example_in_node_does_what_it_says", LIMIT);
    let Some(node) = find_or_skip("node") else { return };
    satisfies(Command::new(node).arg(example("service.mjs")));
}

#[test]
fn the_example_in_go_does_what_it_says() {
    let _watchdog = Watchdog::new("the_example_in_go_does_what_it_says", LIMIT);
    let Some(go) = find_or_skip("go") else { return };
    let directory = Directory::new();
    let program = directory.path().join("service");
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program).arg(example("service.go")).current_dir(directory.path());
    for (variable, value) in
        [("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("CGO_ENABLED", "0")]
    {
        build.env(variable, value);
    }
    let built = run(&mut build, Duration::from_secs(180));
    assert_eq!(built.code, 0, "{}", built.stderr);
    satisfies(&mut Command::new(program));
}

#[test]
fn the_example_in_java_does_what_it_says() {
    let _watchdog = Watchdog::new("the_example_in_java_does_what_it_says", LIMIT);
    // Only a JDK has a compiler.
    let (Some(_), Some(java)) = (find_or_skip("javac"), find_or_skip("java")) else { return };
    let mut command = Command::new(java);
    command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]).arg(example("Service.java"));
    satisfies(&mut command);
}
