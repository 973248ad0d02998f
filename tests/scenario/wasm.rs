//! `wasm`: modules change requests and responses, answer and ask services; one that fails harms nobody else.
//!
//! Their texts stand in `tests/wasm`. The binary has them with the feature `wasm` of Cargo alone.

use std::env;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_tests::message::{fetch, get};
use thalweg_tests::process::Signal;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::talk::chunk;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Directory, Message, Proxy, STEP, Talk, Upstream};

use super::{wait_counted, watchdog};

const LIMIT: Duration = Duration::from_secs(20);

/// Whether the binary runs modules. As for a program that is missing: in CI it must.
fn has_wasm() -> bool {
    let directory = Directory::new();
    let listed = run(command(directory.path()).args(["list", "filters"]), LIMIT);
    let has =
        listed.stdout.lines().any(|line| line.starts_with("wasm ") && !line.contains("Not in this binary"));
    if !has {
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "the binary has no `wasm`, and CI runs every test");
        eprintln!("skipped: the binary is built without the feature `wasm`");
    }
    has
}

/// Writes the module of a text as `name`.
fn compile(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), wat::parse_str(text).unwrap()).unwrap();
}

fn text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = match name {
        "add_header" => folder.join("../examples/wasm/add_header.wat"),
        name => folder.join("wasm").join(format!("{name}.wat")),
    };
    std::fs::read_to_string(path).unwrap()
}

/// An application that says what has arrived.
fn app() -> Upstream {
    Upstream::start(|request: &Message| {
        let field = |name| request.value(name).unwrap_or("-").to_owned();
        Some(ok(&format!("{} {} {} {}", request.target(), field("x-wasm"), field("x-well"), request.text())))
    })
}

fn config(app: &Upstream, more: &str, routes: &str) -> String {
    format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services:\n  app: {{ endpoints: \"{}\" }}\n{more}routes:\n{routes}\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        app.url()
    )
}

/// A proxy with these modules, each as `NAME.wasm` beside its configuration.
fn running(modules: &[&str], config: &str) -> Proxy {
    let directory = Directory::new();
    for name in modules {
        compile(directory.path(), &format!("{name}.wasm"), &text(name));
    }
    Proxy::start_in(directory, config)
}

fn post(web: SocketAddr, path: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: a.test\r\n{fields}Content-Length: {length}\r\n\r\n");
    fetch(web, &(head + body)).unwrap()
}

#[test]
fn a_binary_without_modules_says_so_with_the_line() {
    let _watchdog = watchdog("a_binary_without_modules_says_so_with_the_line");
    let directory = Directory::new();
    let file = "listeners: { web: \":0\" }\nroutes:\n  - filters:\n      - wasm: { module: none.wasm }\n    to: [ \"http://127.0.0.1:1\" ]\n";
    let file = directory.write("thalweg.yaml", file);
    let checked = run(command(directory.path()).arg("check").arg(&file), LIMIT);
    let listed = run(command(directory.path()).args(["list", "filters"]), LIMIT);
    let expected = match listed.stdout.contains("Not in this binary") {
        true => "this binary is built without `wasm`",
        false => "none.wasm",
    };
    let said = checked.stdout + &checked.stderr;
    assert!(checked.code != 0 && said.contains(expected) && said.contains(":4:"), "{said}");
}

#[test]
fn a_module_adds_fields_and_answers() {
    let _watchdog = watchdog("a_module_adds_fields_and_answers");
    if !has_wasm() {
        return;
    }
    let app = app();
    let routes = "\
        - { match: { path: /shut }, to: app, filters: [ { wasm: { module: deny.wasm } } ] }\n\
        - { name: open, to: app, filters: [ { wasm: { module: add_header.wasm } } ] }\n";
    let proxy = running(&["add_header", "deny"], &config(&app, "", routes));
    for _ in 0..20 {
        let answer = get(proxy.web(), "/a").unwrap();
        assert_eq!((answer.text().as_str(), answer.value("x-wasm-seen")), ("/a hello - ", Some("hello")));
    }
    let denied = get(proxy.web(), "/shut").unwrap();
    assert_eq!(
        (denied.status(), denied.text().as_str(), denied.value("x-denied")),
        (403, "go away\n", Some("yes"))
    );
    let open = fetch(proxy.web(), "GET /shut HTTP/1.1\r\nHost: a\r\nX-Token: secret\r\n\r\n").unwrap();
    assert_eq!(open.status(), 200);
    wait_counted(&proxy, "thalweg_filter_total", "route=\"open\",filter=\"wasm\",outcome=\"changed\"", 20);
    let told = run(command(proxy.directory()).args(["explain", "GET", "http://a/shut"]), LIMIT);
    assert!(told.stdout.contains("is answered 403 by the filter `wasm`"), "{}{}", told.stdout, told.stderr);
    let ended = proxy.stop();
    let line = ended.log.iter().find(|line| line["status"] == 403).unwrap();
    assert_eq!(line["reason"], "wasm: `deny` answers 403: no token");
}

#[test]
fn a_module_that_fails_opens_no_door_and_harms_nobody() {
    let _watchdog = watchdog("a_module_that_fails_opens_no_door_and_harms_nobody");
    if !has_wasm() {
        return;
    }
    let app = app();
    let routes = "\
        - { name: shut, match: { path: /shut/* }, to: app, filters: [ { wasm: { module: fail.wasm, memory: 2MiB } } ] }\n\
        - { name: open, match: { path: /open/* }, to: app, filters: [ { wasm: { module: fail.wasm, on_failure: pass } } ] }\n\
        - { name: rest, to: app }\n";
    let proxy = running(&["fail"], &config(&app, "", routes));
    let ask = |path: &str, field: &str, how: &str| {
        fetch(proxy.web(), &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}: {how}\r\n\r\n")).unwrap()
    };
    let ways = ["loop", "memory", "trap", "exit", "pause"];
    for how in ways {
        let began = Instant::now();
        assert_eq!(ask("/shut/a", "X-Fail", how).status(), 503, "{how}");
        assert!(began.elapsed() < Duration::from_secs(5), "{how}: {:?}", began.elapsed());
    }
    assert_eq!(app.served(), 0, "nobody has passed");
    for how in ways {
        // What it had changed before it failed is not sent.
        assert_eq!(ask("/open/a", "X-Fail", how).text(), "/open/a - - ", "{how}");
    }
    // With the response it is the same.
    for how in ["trap", "pause"] {
        assert_eq!(ask("/shut/a", "X-Fail-Response", how).status(), 503, "{how}");
        assert_eq!(ask("/open/a", "X-Fail-Response", how).text(), "/open/a - 1 ", "{how}");
    }
    for route in ["shut", "open"] {
        let labels = format!("route=\"{route}\",filter=\"wasm\",outcome=\"failed\"");
        wait_counted(&proxy, "thalweg_filter_total", &labels, 7);
        // The next one is well.
        assert_eq!(get(proxy.web(), &format!("/{route}/b")).unwrap().text(), format!("/{route}/b - 1 "));
    }
    proxy.process().wait_line("what the module has done", STEP, |line| {
        line.contains("wasm `fail`: the module has").then_some(())
    });
    let ended = proxy.stop();
    assert!(ended.status.success());
    // Workers write their lines in no order.
    let says = |status: u64, reason: &str| {
        ended.log.iter().any(|line| line["status"] == status && line["reason"] == reason)
    };
    assert!(says(503, "wasm: `fail`: the module has used up its fuel"));
    assert!(says(200, "wasm: passes without `fail`: the module has used up its fuel"));
}

#[test]
fn modules_change_bodies_whichever_way_they_come() {
    let _watchdog = watchdog("modules_change_bodies_whichever_way_they_come");
    if !has_wasm() {
        return;
    }
    let app = app();
    let routes = "- { to: app, filters: [ { wasm: { module: bodies.wasm, request_body: 1KiB, response_body: 64KiB } } ] }\n";
    let proxy = running(&["bodies"], &config(&app, "", routes));
    assert_eq!(post(proxy.web(), "/a", "", "hello").text(), "/a - - seen: hello!");
    assert_eq!(get(proxy.web(), "/b").unwrap().text(), "/b - - !");
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for piece in ["in ", "pieces"] {
        talk.send(chunk(piece.as_bytes())).unwrap();
    }
    talk.send("0\r\n\r\n").unwrap();
    let head = talk.head().unwrap();
    let mut body = Vec::new();
    talk.body(&head).each(|piece| body.extend_from_slice(piece)).unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), "/c - - seen: in pieces!");
    assert_eq!(post(proxy.web(), "/large", "", &"x".repeat(2_000)).status(), 413);
}

#[test]
fn a_module_asks_a_service_of_the_configuration() {
    let _watchdog = watchdog("a_module_asks_a_service_of_the_configuration");
    if !has_wasm() {
        return;
    }
    let app = app();
    let judge = Upstream::start(|request: &Message| {
        let fits = request.target() == "/judge" && request.value("host") == Some("judge.test");
        Some(if fits { ok("") } else { b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec() })
    });
    let services = format!(
        "  judge: {{ endpoints: \"{}\" }}\n  gone: {{ endpoints: \"http://127.0.0.1:1\" }}\n",
        judge.url()
    );
    let routes = "- { to: app, filters: [ { wasm: { module: call.wasm, services: [ judge ] } } ] }\n";
    let proxy = running(&["call"], &config(&app, &services, routes));
    assert_eq!(get(proxy.web(), "/a").unwrap().text(), "/a - - ");
    assert_eq!(judge.served(), 1);
    drop(proxy);
    // One that is not there, and one that accepts and never answers: the module waits for a second.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [1, silent.local_addr().unwrap().port()] {
        let services = format!("  judge: {{ endpoints: \"http://127.0.0.1:{port}\" }}\n");
        let proxy = running(&["call"], &config(&app, &services, routes));
        let began = Instant::now();
        assert_eq!(get(proxy.web(), "/a").unwrap().status(), 401);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    assert_eq!(app.served(), 1);
}

#[test]
fn the_length_of_a_body_is_seen_and_stays_what_it_is() {
    let _watchdog = watchdog("the_length_of_a_body_is_seen_and_stays_what_it_is");
    if !has_wasm() {
        return;
    }
    let app = Upstream::start(|request: &Message| {
        let field = |name| request.value(name).unwrap_or("-").to_owned();
        Some(ok(&format!("{} {} {}", field("x-length"), field("content-length"), request.text())))
    });
    let routes = "- { to: app, filters: [ { wasm: { module: length.wasm } } ] }\n";
    let proxy = running(&["length"], &config(&app, "", routes));
    let answer = post(proxy.web(), "/a", "", "hello");
    assert_eq!((answer.text().as_str(), answer.value("x-length")), ("5 5 hello", Some("9")));
    assert_eq!(answer.value("content-length"), Some("9"));
    let chunked = "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(fetch(proxy.web(), chunked).unwrap().text(), "- - hello");
    assert_eq!(post(proxy.web(), "/c", "", "").text(), "0 0 ");
    assert_eq!(get(proxy.web(), "/d").unwrap().text(), "- - ");
}

#[test]
fn a_response_waits_for_the_services_that_a_module_asks() {
    let _watchdog = watchdog("a_response_waits_for_the_services_that_a_module_asks");
    if !has_wasm() {
        return;
    }
    let app = app();
    let judge = Upstream::start(|request: &Message| {
        (request.target() == "/judge" && request.value("host") == Some("judge")).then(|| ok("yes"))
    });
    let services = format!(
        "  judge: {{ endpoints: \"{}\" }}\n  gone: {{ endpoints: \"http://127.0.0.1:1\" }}\n",
        judge.url()
    );
    let routes = "\
        - { match: { path: /gone }, to: gone, filters: [ { wasm: { module: late.wasm, services: [ judge ] } } ] }\n\
        - { match: { path: /fixed }, to: app, filters: [ { wasm: { module: late.wasm, services: [ judge ] } }, \
            { respond: { status: 200, body: fixed } } ] }\n\
        - { to: app, filters: [ { wasm: { module: late.wasm, services: [ judge ] } }, \
            { headers: { response: { set: { X-Before: one } } } } ] }\n";
    let proxy = running(&["late"], &config(&app, &services, routes));
    let judged = |path: &str, status: u16, text: Option<&str>| {
        let before = judge.served();
        let answer = get(proxy.web(), path).unwrap();
        assert_eq!((answer.status(), answer.value("x-judged")), (status, Some("3")), "{path}");
        assert!(text.is_none_or(|text| text == answer.text()), "{path}: {}", answer.text());
        assert_eq!(judge.served(), before + 3, "{path}");
        answer
    };
    // That of an endpoint, with what other filters have made of it; then own answers.
    assert_eq!(judged("/a", 200, Some("/a - - ")).value("x-before"), Some("one"));
    judged("/fixed", 200, Some("fixed"));
    judged("/gone", 503, None);
    // Several at once on one connection after the other: each waits for its own.
    let mut talk = Talk::open(proxy.web()).unwrap();
    for path in ["/b", "/c"] {
        talk.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")).unwrap();
        let head = talk.head().unwrap();
        let mut body = Vec::new();
        talk.body(&head).each(|piece| body.extend_from_slice(piece)).unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), format!("{path} - - body"));
    }
    // One that is not there is told as such, and the response goes on.
    let services = "  judge: { endpoints: \"http://127.0.0.1:1\" }\n";
    let routes = "- { to: app, filters: [ { wasm: { module: late.wasm, services: [ judge ] } } ] }\n";
    drop(proxy);
    let proxy = running(&["late"], &config(&app, services, routes));
    let answer = get(proxy.web(), "/d").unwrap();
    assert_eq!((answer.text().as_str(), answer.value("x-judged")), ("/d - - ", Some("0")));
}

#[test]
fn a_call_from_outside_of_any_request_goes_with_the_first_one() {
    let _watchdog = watchdog("a_call_from_outside_of_any_request_goes_with_the_first_one");
    if !has_wasm() {
        return;
    }
    let app = Upstream::start(|request: &Message| Some(ok(request.value("x-root").unwrap_or("-"))));
    let judge = Upstream::start(|_: &Message| Some(ok("")));
    let services = format!("  judge: {{ endpoints: \"{}\" }}\n", judge.url());
    let routes = "- { to: app, filters: [ { wasm: { module: root.wasm, services: [ judge ] } } ] }\n";
    let proxy = running(&["root"], &config(&app, &services, routes));
    // Each worker has an instance of its own, which asks once.
    for _ in 0..20 {
        assert_eq!(get(proxy.web(), "/").unwrap().text(), "10");
    }
    assert!((1..=64).contains(&judge.served()), "{}", judge.served());
}

#[test]
fn a_module_is_reloaded_and_a_broken_one_is_not() {
    let _watchdog = watchdog("a_module_is_reloaded_and_a_broken_one_is_not");
    if !has_wasm() {
        return;
    }
    let app = app();
    let routes = "- { to: app, filters: [ { wasm: { module: add_header.wasm } } ] }\n";
    let proxy = running(&["add_header"], &config(&app, "", routes));
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "/ hello - ");
    let changed = text("add_header").replace("\"hello\"", "\"other\"");
    compile(proxy.directory(), "add_header.wasm", &changed);
    let reload = |wanted: &str| {
        proxy.process().signal(Signal::HUP);
        proxy.process().wait_line(wanted, STEP, |line| line.contains(wanted).then_some(()));
    };
    reload("thalweg: reloaded ");
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "/ other - ");
    std::fs::write(proxy.directory().join("add_header.wasm"), "\0asm and nothing else").unwrap();
    reload("the module `add_header.wasm` cannot be used");
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "/ other - ");
}
