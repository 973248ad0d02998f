//! `rate_limit` and `concurrency`: exact over all workers, over reloads, and over several proxies with one store that
//! may fail.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::{Kind, fetch, get};
use thalweg_tests::process::Signal;
use thalweg_tests::program::{find, find_or_skip, run};
use thalweg_tests::{Connection, Directory, Held, Identity, Message, Process, Proxy, STEP, machine_time};

use super::{reload, wait_counted, watchdog};

/// Deadline of the store.
const DEADLINE: Duration = Duration::from_millis(200);

/// A configuration with these routes, which answers by itself.
fn text(routes: &str) -> String {
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n\
         services: {{ s: {{ endpoints: \"http://127.0.0.1:9\" }} }}\n\
         routes:\n{routes}"
    )
}

/// Statuses of so many requests, each on a connection of its own, from several threads.
fn statuses(web: SocketAddr, path: &str, requests: usize) -> Vec<u16> {
    const THREADS: usize = 4;
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..requests / THREADS {
                    let status = get(web, path).unwrap().status();
                    all.lock().unwrap_or_else(PoisonError::into_inner).push(status);
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|known| **known == status).count()
}

#[test]
fn a_limit_is_exact_over_workers_and_goes_on_over_reloads() {
    let _watchdog = watchdog("a_limit_is_exact_over_workers_and_goes_on_over_reloads");
    let with = |requests: u32| {
        text(&format!(
            "- {{ name: r, to: s, filters: [ {{ rate_limit: {{ requests: {requests}, per: 1h }} }}, {{ respond: 200 }} ] }}\n"
        ))
    };
    let proxy = Proxy::start(&with(60));
    let seen = statuses(proxy.web(), "/", 200);
    assert_eq!((count(&seen, 200), count(&seen, 429)), (60, 140));
    reload(&proxy, &with(60).replace("grace: 5s", "grace: 6s"), 1);
    assert_eq!(count(&statuses(proxy.web(), "/", 40), 200), 0, "the count goes on");
    let refused = get(proxy.web(), "/").unwrap();
    assert_eq!(refused.value("retry-after"), Some("60"));
    assert!(refused.value("ratelimit").unwrap().starts_with("\"1h\";r=0;t="), "{refused:?}");
    wait_counted(&proxy, "thalweg_filter_total", "filter=\"rate_limit\",outcome=\"refused\"", 181);
    let ended = proxy.stop();
    assert!(ended.status.success());
    let reasons = ended.log.iter().filter(|line| line["status"] == 429);
    let reasons: Vec<_> =
        reasons.map(|line| line["reason"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(reasons.len(), 181);
    assert!(
        reasons.iter().all(|reason| reason == "rate_limit: over 60 requests per 1h by client_ip"),
        "{reasons:?}"
    );
}

#[test]
fn keys_of_any_length_are_counted_and_not_kept() {
    let _watchdog = watchdog("keys_of_any_length_are_counted_and_not_kept");
    let proxy = Proxy::start(&text(
        "- { to: s, filters: [ { rate_limit: { requests: 2, per: 1h, key: { header: X-Key } } }, { respond: 200 } ] }\n",
    ));
    let long = |last: char| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Key: {}{last}\r\nConnection: close\r\n\r\n",
            "k".repeat(60_000)
        );
        fetch(proxy.web(), &request).unwrap().status()
    };
    assert_eq!([long('a'), long('a'), long('a'), long('b')], [200, 200, 429, 200]);
}

/// Asks for `/long` and waits until the answer has begun.
fn long(web: SocketAddr) -> Connection {
    let mut connection = Connection::open(web).unwrap();
    connection.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n");
    while !String::from_utf8_lossy(connection.seen()).contains("begun") {
        connection.read(Instant::now() + STEP);
    }
    connection
}

fn wait_status(web: SocketAddr, status: u16) {
    let end = Instant::now() + STEP;
    loop {
        let seen = get(web, "/").map(|answer| answer.status());
        if seen == Ok(status) {
            return;
        }
        assert!(Instant::now() < end, "{seen:?}, not {status}");
        thread::yield_now();
    }
}

#[test]
fn places_in_flight_are_free_however_an_exchange_ends() {
    let _watchdog = watchdog("places_in_flight_are_free_however_an_exchange_ends");
    let upstream = Held::start("held");
    let config =
        text("- { to: s, filters: [ { concurrency: { max: 2, status: 503, retry_after: 3s } } ] }\n")
            .replace("http://127.0.0.1:9", &upstream.url());
    let proxy = Proxy::start(&config);
    let web = proxy.web();
    let (mut first, second) = (long(web), long(web));
    let refused = get(web, "/").unwrap();
    assert_eq!((refused.status(), refused.value("retry-after")), (503, Some("3")));
    // One that leaves gives its place back.
    second.reset();
    wait_status(web, 200);
    // One that ends does, though its connection stays open.
    let third = long(web);
    wait_status(web, 503);
    upstream.release();
    let whole = Message::read(&mut first, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!(whole.text(), "begun ended");
    wait_status(web, 200);
    drop((first, third));
    // An upgraded connection keeps its place until it closes.
    let tunnels: Vec<Connection> = (0..2)
        .map(|_| {
            let mut tunnel = Connection::open(web).unwrap();
            tunnel
                .send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
            let answer = Message::read(&mut tunnel, Kind::Response, Instant::now() + STEP).unwrap();
            assert_eq!(answer.status(), 101);
            tunnel
        })
        .collect();
    wait_status(web, 503);
    tunnels.into_iter().for_each(Connection::close);
    wait_status(web, 200);
}

/// A server of Redis.
struct Redis {
    process: Process,
    socket: PathBuf,
}

impl Redis {
    fn start(program: &Path, directory: &Path) -> Self {
        let socket = directory.join("redis.sock");
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--daemonize", "no", "--logfile", "", "--unixsocket"]);
        let process = Process::start(command.arg(&socket).current_dir(directory));
        let end = Instant::now() + STEP;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < end, "redis does not listen: {}", process.stdout());
            thread::yield_now();
        }
        Self { process, socket }
    }

    /// The store as it is written.
    fn store(&self, on_failure: &str) -> String {
        let (socket, deadline) = (self.socket.display(), DEADLINE.as_millis());
        format!(
            "store: {{ redis: {{ url: \"unix:{socket}\", timeout: {deadline}ms, on_failure: {on_failure} }} }}"
        )
    }
}

/// Routes of the three policies, each with a limit of 5 in an hour.
fn policies(redis: &Redis) -> String {
    let route = |name: &str| {
        let store = redis.store(name);
        format!(
            "- {{ name: {name}, match: {{ path: /{name} }}, to: s, filters: [ {{ rate_limit: {{ requests: 5, per: 1h, {store} }} }}, {{ respond: 200 }} ] }}\n"
        )
    };
    text(&["allow", "deny", "local"].map(route).concat())
}

/// Waits until the store is asked again: then what it keeps is in the answer.
fn wait_answer(web: SocketAddr, path: &str, status: u16) -> Message {
    let end = Instant::now() + STEP;
    loop {
        let answer = get(web, path).unwrap();
        if answer.status() == status {
            return answer;
        }
        assert!(Instant::now() < end, "{} is not {status}: {answer:?}", answer.status());
        thread::sleep(Duration::from_millis(20));
    }
}

/// What clients see while the store does not answer.
fn policies_hold(web: SocketAddr) {
    let began = machine_time();
    let allowed: Vec<u16> = (0..30).map(|_| get(web, "/allow").unwrap().status()).collect();
    assert_eq!(count(&allowed, 200), 30);
    // The deadline is waited for by five at most, then nobody waits.
    let took = machine_time() - began;
    assert!(took < DEADLINE * 5 + Duration::from_secs(3), "{took:?}");
    let denied = get(web, "/deny").unwrap();
    assert_eq!((denied.status(), denied.value("retry-after")), (503, Some("1")));
    let local: Vec<u16> = (0..8).map(|_| get(web, "/local").unwrap().status()).collect();
    assert!(count(&local, 200) <= 5 && count(&local, 429) >= 3, "{local:?}");
}

#[test]
fn a_store_that_fails_costs_clients_the_policy_and_no_more() {
    let _watchdog = watchdog("a_store_that_fails_costs_clients_the_policy_and_no_more");
    let (Some(program), Some(cli)) = (find_or_skip("redis-server"), find_or_skip("redis-cli")) else {
        return;
    };
    let directory = Directory::new();
    let redis = Redis::start(&program, directory.path());
    let proxy = Proxy::start(&policies(&redis));
    let web = proxy.web();
    let answer = wait_answer(web, "/deny", 200);
    assert!(answer.value("ratelimit").unwrap().starts_with("\"1h\";r=4;t="), "{answer:?}");
    // Flushed, with its scripts: at most one burst is lost.
    let ask = |words: &[&str]| run(Command::new(&cli).arg("-s").arg(&redis.socket).args(words), STEP);
    assert_eq!(ask(&["FLUSHALL"]).stdout.trim(), "OK");
    assert_eq!(ask(&["SCRIPT", "FLUSH"]).stdout.trim(), "OK");
    assert_eq!(get(web, "/deny").unwrap().status(), 200);
    // Stopped: it accepts, and says nothing.
    redis.process.signal(Signal::STOP);
    policies_hold(web);
    redis.process.signal(Signal::CONT);
    wait_answer(web, "/deny", 200);
    // Killed, and started anew.
    redis.process.signal(Signal::KILL);
    redis.process.wait_exit(STEP);
    policies_hold(web);
    let again = Redis::start(&program, directory.path());
    let answer = wait_answer(web, "/deny", 200);
    assert!(answer.value("ratelimit").is_some(), "{answer:?}");
    drop(again);
    assert!(proxy.stop().status.success());
}

/// A port that nothing listens on now, for a program that cannot let the kernel choose.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A store that speaks TLS alone, to those who know its password.
struct SecureRedis {
    process: Process,
    port: u16,
}

impl SecureRedis {
    fn start(program: &Path, directory: &Path) -> Self {
        // Another program may take the port in between: then there is another one.
        for _ in 0..10 {
            let port = free_port();
            let mut command = Command::new(program);
            command.args(["--port", "0", "--save", "", "--daemonize", "no", "--logfile", "", "--bind"]);
            command.args(["127.0.0.1", "--requirepass", "pass-of-a-test", "--tls-auth-clients", "no"]);
            command.args(["--tls-cert-file", "redis.pem", "--tls-key-file", "redis.key"]);
            command.args(["--tls-ca-cert-file", "redis.pem", "--tls-port", &port.to_string()]);
            let process = Process::start(command.current_dir(directory));
            let end = Instant::now() + STEP;
            while process.is_running() && Instant::now() < end {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self { process, port };
                }
                thread::yield_now();
            }
        }
        panic!("redis does not listen");
    }
}

/// `rediss://` with `requirepass`: the store is asked with the right authority and the right password, and not with
/// others; the password is in no log.
#[test]
fn a_store_with_tls_and_a_password_is_asked_by_those_who_know_it() {
    let _watchdog = watchdog("a_store_with_tls_and_a_password_is_asked_by_those_who_know_it");
    let Some(program) = find("valkey-server").or_else(|| find_or_skip("redis-server")) else { return };
    let directory = Directory::new();
    let (right, wrong) = (Identity::new(&["127.0.0.1", "localhost"]), Identity::new(&["127.0.0.1"]));
    right.write(&directory, "redis");
    wrong.write(&directory, "wrong");
    let redis = SecureRedis::start(&program, directory.path());
    let store = |scheme: &str, password: &str, ca: &str| {
        let ca = if ca.is_empty() {
            String::new()
        } else {
            format!(", ca: \"{}/{ca}.pem\"", directory.path().display())
        };
        let (port, deadline) = (redis.port, DEADLINE.as_millis());
        format!(
            "store: {{ redis: {{ url: \"{scheme}://localhost:{port}\", password: {{ value: {password} }}, \
             timeout: {deadline}ms, on_failure: deny{ca} }} }}"
        )
    };
    let ways = [
        ("right", store("rediss", "pass-of-a-test", "redis")),
        ("password", store("rediss", "another-password", "redis")),
        ("authority", store("rediss", "pass-of-a-test", "wrong")),
        ("clear", store("redis", "pass-of-a-test", "")),
    ];
    let route = |(name, store): &(&str, String)| {
        format!(
            "- {{ name: {name}, match: {{ path: /{name} }}, to: s, filters: [ {{ rate_limit: {{ requests: 3, per: 1h, {store} }} }}, {{ respond: 200 }} ] }}\n"
        )
    };
    let config = text(&ways.iter().map(route).collect::<String>());
    let (first, second) = (Proxy::start(&config), Proxy::start(&config));
    wait_answer(first.web(), "/right", 200);
    // Another proxy counts on in the same place.
    let answer = wait_answer(second.web(), "/right", 200);
    assert!(answer.value("ratelimit").unwrap().starts_with("\"1h\";r=1;t="), "{answer:?}");
    for way in ["/password", "/authority", "/clear"] {
        for _ in 0..10 {
            let answer = get(first.web(), way).unwrap();
            assert_eq!((answer.status(), answer.value("retry-after")), (503, Some("1")), "{way}");
        }
    }
    assert!(redis.process.is_running());
    let ended = first.stop();
    assert!(ended.status.success());
    for secret in ["pass-of-a-test", "another-password"] {
        let log = fs::read_to_string(ended.directory.path().join("access.log")).unwrap();
        assert!(!ended.stderr.contains(secret) && !log.contains(secret), "{}", ended.stderr);
    }
}

/// Asks a proxy at a steady pace until told to stop; counts what was admitted and what was asked.
fn paced(web: SocketAddr, pace: Duration, (stop, admitted, asked): (&AtomicBool, &AtomicU64, &AtomicU64)) {
    let mut connection = Connection::open(web).unwrap();
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let answer = Message::read(&mut connection, Kind::Response, Instant::now() + STEP).unwrap();
        asked.fetch_add(1, Ordering::Relaxed);
        match answer.status() {
            200 => admitted.fetch_add(1, Ordering::Relaxed),
            429 => 0,
            other => panic!("{other}"),
        };
        next += pace;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Two proxies with one store keep a rate together. `THALWEG_LONG=1`: 1,000/s for 30 s at 4,000/s.
#[test]
fn two_proxies_keep_one_rate() {
    let _watchdog = watchdog("two_proxies_keep_one_rate");
    let Some(program) = find_or_skip("redis-server") else { return };
    let is_long = std::env::var("THALWEG_LONG").as_deref() == Ok("1");
    let (rate, offered, time) = if is_long { (1000, 4000, 30) } else { (100, 400, 5) };
    let directory = Directory::new();
    let redis = Redis::start(&program, directory.path());
    let store = redis.store("deny");
    let config = text(&format!(
        "- {{ name: r, to: s, filters: [ {{ rate_limit: {{ requests: {rate}, per: 1s, burst: {}, key: route, {store} }} }}, {{ respond: 200 }} ] }}\n",
        rate / 20
    ));
    let proxies = [Proxy::start(&config), Proxy::start(&config)];
    for proxy in &proxies {
        wait_answer(proxy.web(), "/", 200);
    }
    let clients = 16;
    let pace = Duration::from_secs(clients) / offered;
    let shared = Arc::new((AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0)));
    let clients: Vec<_> = (0..clients)
        .map(|at| {
            let (web, shared) = (proxies[at as usize % 2].web(), shared.clone());
            thread::spawn(move || paced(web, pace, (&shared.0, &shared.1, &shared.2)))
        })
        .collect();
    let read = || (shared.1.load(Ordering::Relaxed), shared.2.load(Ordering::Relaxed));
    // The burst is gone by then.
    thread::sleep(Duration::from_secs(1));
    let (began, began_machine, before) = (Instant::now(), machine_time(), read());
    thread::sleep(Duration::from_secs(time));
    let (took, took_machine, after) = (began.elapsed(), machine_time() - began_machine, read());
    shared.0.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    // A bucket goes on being filled while the machine stands still, but only up to the burst: no more than the rate in
    // the time that passed, and no less in that in which somebody could ask.
    let (most, least) = (took.as_secs_f64(), took_machine.as_secs_f64());
    let (admitted, asked) = ((after.0 - before.0) as f64, (after.1 - before.1) as f64);
    eprintln!("{admitted} of {asked} requests were admitted, of {rate}/s for {most:.2} s ({least:.2} s)");
    assert!(asked > f64::from(rate) * least * 1.5, "the clients ask too little: {asked} in {least:.2} s");
    assert!(admitted <= f64::from(rate) * most * 1.05, "{admitted} of {rate}/s in {most:.2} s");
    assert!(admitted >= f64::from(rate) * least * 0.95, "{admitted} of {rate}/s in {least:.2} s");
}
