//! Purges of the cache: by URL, prefix, host and tag, hard and soft, while a response comes, and of all replicas that
//! share a channel of Redis.

use std::collections::HashMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tests::admin::json as document;
use thalweg_tests::message::fetch;
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, find, find_or_skip, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Process, Proxy, STEP, Upstream};

use super::{config, wait_counted, watchdog};

const LIMIT: Duration = Duration::from_secs(20);

/// A service whose answers say how often their path was asked for, may be kept for an hour, and are tagged with the
/// first segment of the path. What is asked with `If-None-Match` has not changed.
struct Origin {
    upstream: Upstream,
    validated: Arc<AtomicU64>,
    /// Where answers wait, one after the other, to be let go.
    held: Arc<Mutex<Option<Sender<Sender<()>>>>>,
}

impl Origin {
    fn start() -> Self {
        let counts = Mutex::new(HashMap::<String, u32>::new());
        let (validated, held) =
            (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None::<Sender<Sender<()>>>)));
        let (of_answers, holds) = (validated.clone(), held.clone());
        let upstream = Upstream::start(move |request| {
            let hold = holds.lock().unwrap().clone();
            if let Some(hold) = hold {
                let (go, gone) = mpsc::channel();
                hold.send(go).ok()?;
                gone.recv().ok()?;
            }
            let target = request.target().to_owned();
            let tag = target.split(['/', '?']).nth(1).unwrap_or_default().to_owned();
            let fields = format!("Cache-Control: max-age=3600\r\nETag: \"1\"\r\nCache-Tag: {tag}, all\r\n");
            if request.value("if-none-match").is_some() {
                of_answers.fetch_add(1, Ordering::Relaxed);
                return Some(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes());
            }
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(target).or_default();
            *count += 1;
            let body = count.to_string();
            Some(
                format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
                    .into_bytes(),
            )
        });
        Self { upstream, validated, held }
    }
}

/// A configuration with a cached route; `rule` is the argument of `cache`.
fn cached(origin: &Origin, rule: &str, more: &str) -> String {
    let route = format!("{{ name: shop, filters: [ {{ cache: {rule} }} ], to: s }}");
    config(&[&origin.upstream.url()], &format!("limits: {{ memory: 256MiB }}\n{more}"))
        .replace("{ to: s }", &route)
}

fn ask(proxy: &Proxy, host: &str, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = fetch(proxy.web(), &request).unwrap();
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.text()
}

/// How often the service was asked for each of these, once all are asked for again.
fn counts(proxy: &Proxy, asked: &[(&str, &str)]) -> Vec<String> {
    asked.iter().map(|(host, path)| ask(proxy, host, path)).collect()
}

fn purge(proxy: &Proxy, body: &Value) -> Value {
    let answer = Admin::of(proxy).call("POST", "/api/v1/cache/purge", &body.to_string());
    assert_eq!(answer.status(), 200, "{body}: {}", answer.text());
    document(&answer)
}

/// Waits until so many responses are stored and none is on its way: a client may have the last byte a moment before.
fn wait_stored(proxy: &Proxy, objects: u64) {
    let end = Instant::now() + STEP;
    loop {
        let cache = Admin::of(proxy).get("/api/v1/cache");
        if cache["objects"] == objects && cache["filling"] == 0 {
            return;
        }
        assert!(Instant::now() < end, "not {objects} objects: {cache}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn verb(directory: &Path, arguments: &[&str]) -> Finished {
    run(command(directory).args(arguments), LIMIT)
}

#[test]
fn a_purge_takes_what_it_names_and_nothing_else() {
    let _watchdog = watchdog("a_purge_takes_what_it_names_and_nothing_else");
    const ALL: [(&str, &str); 5] = [
        ("a.test", "/x/1"),
        ("a.test", "/x/1?q=1"),
        ("a.test", "/x/2"),
        ("a.test", "/y/1"),
        ("b.test", "/x/1"),
    ];
    for (body, objects, again) in [
        (json!({ "url": "http://A.test/x/./1" }), 1, [true, false, false, false, false]),
        (json!({ "url": "http://a.test:80/x/1?q=1" }), 1, [false, true, false, false, false]),
        (json!({ "url": "http://a.test/x/1", "any_query": true }), 2, [true, true, false, false, false]),
        (json!({ "url": "https://a.test/x/1" }), 0, [false; 5]),
        (json!({ "prefix": "http://a.test/x/" }), 3, [true, true, true, false, false]),
        (json!({ "host": "b.test" }), 1, [false, false, false, false, true]),
        (json!({ "host": "a.test:8080" }), 0, [false; 5]),
        (json!({ "tag": "X" }), 4, [true, true, true, false, true]),
        (json!({ "tag": "y", "route": "shop" }), 1, [false, false, false, true, false]),
        (json!({ "all": true, "space": "other" }), 0, [false; 5]),
        (json!({ "all": true }), 5, [true; 5]),
    ] {
        let origin = Origin::start();
        let proxy = Proxy::start(&cached(&origin, "{}", ""));
        let first = counts(&proxy, &ALL);
        assert_eq!(counts(&proxy, &ALL), first, "all are stored");
        let done = purge(&proxy, &body);
        assert_eq!(done["objects"], objects, "{body}: {done}");
        assert_eq!(origin.upstream.served(), 5);
        let fetched = ALL.map(|(host, path)| {
            let before = origin.upstream.served();
            ask(&proxy, host, path);
            origin.upstream.served() > before
        });
        assert_eq!(fetched, again, "{body}");
    }
}

#[test]
fn a_query_is_named_as_clients_write_it() {
    let _watchdog = watchdog("a_query_is_named_as_clients_write_it");
    let origin = Origin::start();
    let rule = "{ key: { query: { exclude: [ \"utm_*\" ] }, sort_query: true } }";
    let proxy = Proxy::start(&cached(&origin, rule, ""));
    assert_eq!(ask(&proxy, "a.test", "/x?b=1&a=2&utm_source=m"), "1");
    assert_eq!(ask(&proxy, "a.test", "/x?a=2&b=1"), "1");
    wait_stored(&proxy, 1);
    assert_eq!(purge(&proxy, &json!({ "url": "http://a.test/x?utm_id=7&b=1&a=2" }))["objects"], 1);
    assert_eq!(ask(&proxy, "a.test", "/x?a=2&b=1"), "2");
    assert_eq!(ask(&proxy, "a.test", "/x?utm_source=m"), "1");
    wait_stored(&proxy, 2);
    assert_eq!(purge(&proxy, &json!({ "url": "http://a.test/x?utm_id=7" }))["objects"], 1);
    assert_eq!(purge(&proxy, &json!({ "url": "http://a.test/x" }))["objects"], 0);
}

#[test]
fn what_is_purged_softly_is_validated() {
    let _watchdog = watchdog("what_is_purged_softly_is_validated");
    let origin = Origin::start();
    let proxy = Proxy::start(&cached(&origin, "{}", ""));
    assert_eq!(ask(&proxy, "a.test", "/x"), "1");
    wait_stored(&proxy, 1);
    assert_eq!(purge(&proxy, &json!({ "tag": "x", "soft": true }))["objects"], 1);
    assert_eq!((ask(&proxy, "a.test", "/x"), origin.validated.load(Ordering::Relaxed)), ("1".into(), 1));
    assert_eq!((ask(&proxy, "a.test", "/x"), origin.upstream.served()), ("1".into(), 2));
    wait_counted(&proxy, "thalweg_cache_requests_total", "route=\"shop\"", 3);
    let cache = Admin::of(&proxy).get("/api/v1/cache");
    assert_eq!(
        (&cache["totals"]["made_stale"], &cache["totals"]["purged"]),
        (&json!(1), &json!(0)),
        "{cache}"
    );
    let route = &cache["routes"][0];
    assert_eq!(
        (&route["route"], &route["revalidated"], &route["miss"]),
        (&json!("shop"), &json!(1), &json!(1))
    );
}

#[test]
fn what_is_purged_while_it_comes_is_not_stored() {
    let _watchdog = watchdog("what_is_purged_while_it_comes_is_not_stored");
    for body in
        [json!({ "url": "http://a.test/x" }), json!({ "tag": "x" }), json!({ "tag": "x", "soft": true })]
    {
        let origin = Origin::start();
        let proxy = Proxy::start(&cached(&origin, "{}", ""));
        let (hold, holds) = mpsc::channel();
        *origin.held.lock().unwrap() = Some(hold);
        thread::scope(|scope| {
            let early = scope.spawn(|| ask(&proxy, "a.test", "/x"));
            let go = holds.recv_timeout(STEP).unwrap();
            assert_eq!(purge(&proxy, &body)["objects"], 0);
            *origin.held.lock().unwrap() = None;
            go.send(()).unwrap();
            assert_eq!(early.join().unwrap(), "1");
        });
        assert_eq!(
            (ask(&proxy, "a.test", "/x"), ask(&proxy, "a.test", "/x")),
            ("2".into(), "2".into()),
            "{body}"
        );
    }
}

#[test]
fn the_verb_purges_and_it_is_told_everywhere() {
    let _watchdog = watchdog("the_verb_purges_and_it_is_told_everywhere");
    let origin = Origin::start();
    let proxy = Proxy::start(&cached(&origin, "{}", "state: { path: state }\n"));
    let directory = proxy.directory().to_owned();
    let events = Admin::of(&proxy).events();
    for path in ["/x/1", "/x/2", "/y"] {
        ask(&proxy, "a.test", path);
    }
    assert_eq!(ask(&proxy, "a.test", "/y"), "1");
    wait_stored(&proxy, 3);
    wait_counted(&proxy, "thalweg_cache_requests_total", "route=\"shop\"", 4);
    let said = verb(&directory, &["status"]).stdout;
    assert!(
        said.contains("\ncache: 3 objects, ") && said.contains(", 25% of 4 requests answered\n"),
        "{said}"
    );
    let done = verb(&directory, &["purge", "--prefix", "http://a.test/x"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "prefix http://a.test/x: 2 purged\n"), "{done:?}");
    let done = verb(&directory, &["purge", "http://a.test/y", "--soft", "--json"]);
    let answer: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(answer, json!({ "what": "http://a.test/y, softly", "soft": true, "objects": 1 }));
    assert_eq!(events.wait("cache_purged", None)["cause"], "prefix http://a.test/x: 2 objects");
    let audit = Admin::of(&proxy).get("/api/v1/audit").to_string();
    assert!(audit.contains("/api/v1/cache/purge") && audit.contains("prefix http://a.test/x"), "{audit}");
    let page = fetch(proxy.metrics(), "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap()
        .text();
    for line in [
        "thalweg_cache_objects 1",
        "thalweg_cache_limit_bytes 33554432",
        "thalweg_cache_stored_total 3",
        "thalweg_cache_purged_total 2",
        "thalweg_cache_made_stale_total 1",
        "thalweg_cache_fills_active 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
    }
    for wrong in [
        &["purge"][..],
        &["purge", "http://a/", "--all"],
        &["purge", "--all", "--any-query"],
        &["purge", "a.test/x"],
        &["purge", "--prefix", "http://a.test/?q"],
        &["purge", "--all", "--route", "none"],
    ] {
        let told = verb(&directory, wrong);
        assert_ne!(told.code, 0, "{wrong:?}: {told:?}");
    }
    assert_eq!(Admin::of(&proxy).get("/api/v1/cache")["objects"], 1);
}

/// A server of Redis or Valkey.
struct Redis {
    process: Process,
    socket: PathBuf,
}

impl Redis {
    fn start(program: &Path, directory: &Path, more: &[&str]) -> Self {
        let socket = directory.join("redis.sock");
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--daemonize", "no", "--logfile", "", "--unixsocket"]);
        let process = Process::start(command.arg(&socket).args(more).current_dir(directory));
        let end = Instant::now() + STEP;
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < end, "redis does not listen: {}", process.stdout());
            thread::yield_now();
        }
        Self { process, socket }
    }

    fn purge(&self, more: &str) -> String {
        format!("cache: {{ purge: {{ redis: {{ url: \"unix:{}\"{more} }} }} }}\n", self.socket.display())
    }
}

fn server() -> Option<PathBuf> {
    find("valkey-server").or_else(|| find_or_skip("redis-server"))
}

/// Waits until `is_so` of what the API says of the channel.
fn wait_channel(proxy: &Proxy, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + STEP;
    loop {
        let channel = Admin::of(proxy).get("/api/v1/cache")["channel"].clone();
        if is_so(&channel) {
            return channel;
        }
        assert!(Instant::now() < end, "{what}: {channel}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn connected(channel: &Value) -> bool {
    channel["connected"] == true
}

#[test]
fn replicas_purge_together() {
    let _watchdog = watchdog("replicas_purge_together");
    let (Some(program), Some(cli)) = (server(), find("valkey-cli").or_else(|| find_or_skip("redis-cli")))
    else {
        return;
    };
    let directory = Directory::new();
    let redis = Redis::start(&program, directory.path(), &[]);
    let origin = Origin::start();
    let text = cached(&origin, "{}", &redis.purge(""));
    let (one, other) = (Proxy::start(&text), Proxy::start(&text));
    let ids = [&one, &other].map(|proxy| wait_channel(proxy, "connected", connected)["instance"].clone());
    assert_ne!(ids[0], ids[1]);
    assert_eq!((ask(&one, "a.test", "/x"), ask(&other, "a.test", "/x")), ("1".into(), "2".into()));
    [&one, &other].into_iter().for_each(|proxy| wait_stored(proxy, 1));
    let events = Admin::of(&other).events();
    let done = purge(&one, &json!({ "tag": "x" }));
    assert_eq!((&done["objects"], &done["replicas"]["state"]), (&json!(1), &json!("sent")), "{done}");
    assert_eq!(done["replicas"]["subscribers"], 2);
    let cause = events.wait("cache_purged", None)["cause"].clone();
    assert_eq!(cause, format!("tag x: 1 object, told by `{}`", ids[0].as_str().unwrap()));
    assert_eq!((ask(&other, "a.test", "/x"), ask(&one, "a.test", "/x")), ("3".into(), "4".into()));
    // An application that may publish purges all of them, and what is no purge does no harm.
    let publish = |message: &str| {
        let mut command = Command::new(&cli);
        command.arg("-s").arg(&redis.socket).args(["PUBLISH", "thalweg-purge", message]);
        assert_eq!(run(&mut command, STEP).stdout.trim(), "2");
    };
    publish("rubbish");
    publish(r#"{ "all": true }"#);
    for proxy in [&one, &other] {
        wait_channel(proxy, "both", |channel| {
            channel["received"].as_u64() >= Some(1) && channel["refused"] == 1
        });
    }
    // One's own is not done twice.
    let channel = wait_channel(&one, "once", connected);
    assert_eq!((&channel["sent"], &channel["received"]), (&json!(1), &json!(1)), "{channel}");
    let end = Instant::now() + STEP;
    while Admin::of(&one).get("/api/v1/cache")["objects"] != 0 {
        assert!(Instant::now() < end);
    }
}

#[test]
fn a_lost_channel_is_told_and_comes_back() {
    let _watchdog = watchdog("a_lost_channel_is_told_and_comes_back");
    let Some(program) = server() else { return };
    let directory = Directory::new();
    let password = ["--requirepass", "pass-of-a-test"];
    let redis = Redis::start(&program, directory.path(), &password);
    let origin = Origin::start();
    let channel = redis
        .purge(", password: { value: pass-of-a-test }")
        .replace("redis:", "after_loss: make_stale, redis:");
    let text = cached(&origin, "{}", &channel);
    let (one, other) = (Proxy::start(&text), Proxy::start(&text));
    for proxy in [&one, &other] {
        wait_channel(proxy, "connected", connected);
    }
    assert_eq!(ask(&other, "a.test", "/x"), "1");
    wait_stored(&other, 1);
    let events = Admin::of(&other).events();
    redis.process.signal(Signal::KILL);
    redis.process.wait_exit(STEP);
    events.wait("purge_channel_lost", None);
    wait_channel(&one, "lost", |channel| channel["connected"] == false && channel["problem"].is_string());
    // Nobody waits for long, and it is sent later.
    let done = purge(&one, &json!({ "tag": "none" }));
    assert_eq!(done["replicas"]["state"], "waiting", "{done}");
    assert_eq!(ask(&other, "a.test", "/x"), "1");
    assert_eq!(origin.validated.load(Ordering::Relaxed), 0);
    let again = Redis::start(&program, directory.path(), &password);
    events.wait("purge_channel_up", None);
    let back = wait_channel(&one, "sent", |channel| channel["sent"] == 1);
    assert_eq!(back["waiting"], 0, "{back}");
    // What may have been missed is made up for: everything is validated.
    let cause = events.wait("cache_purged", None)["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("everything, softly: 1 object, since purges"), "{cause}");
    assert_eq!((ask(&other, "a.test", "/x"), origin.validated.load(Ordering::Relaxed)), ("1".into(), 1));
    drop(again);
    // The password stands nowhere.
    let ended = one.stop();
    assert!(!ended.stderr.contains("pass-of-a-test"), "{}", ended.stderr);
}
