//! Another process takes over: by hand, in a supervisor, after a crash, and from systemd.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::load::Load;
use thalweg_tests::message::get;
use thalweg_tests::process::{Signal, kill_heirs, raise_descriptors};
use thalweg_tests::program::{Finished, find, run};
use thalweg_tests::proxy::command;
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Admin, Directory, Held, Process, Proxy, STEP, Talk, Upstream, binary};

use super::{config, measuring, watchdog};

/// How long an upgrade may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);
/// Upgrades and crashes under load.
const TIMES: usize = 20;

fn verb(proxy: &Proxy, arguments: &[&str]) -> Finished {
    run(command(proxy.directory()).args(arguments), LIMIT)
}

/// The processes that take over from a proxy. They end with its directory.
struct Successors<'a>(&'a Proxy);

impl Successors<'_> {
    fn pids(&self) -> Vec<i32> {
        self.0.process().stderr().lines().filter_map(successor).collect()
    }

    fn upgrade(&self) -> Finished {
        let done = verb(self.0, &["upgrade"]);
        assert_eq!(done.code, 0, "{done:?}\n{}", self.0.process().stderr());
        done
    }
}

/// The process that has taken over, as this line of the one before it says.
fn successor(line: &str) -> Option<i32> {
    line.strip_prefix("thalweg: upgrade: process ")?.split(' ').next()?.parse().ok()
}

/// A client that asks over a connection of its own each time, until it is told to stop or the test fails.
struct Newcomers {
    stops: Arc<AtomicBool>,
    client: Option<thread::JoinHandle<(usize, Vec<String>)>>,
}

impl Newcomers {
    fn start(address: SocketAddr) -> Self {
        let stops = Arc::<AtomicBool>::default();
        let stopped = stops.clone();
        let client = thread::spawn(move || {
            let (mut answered, mut failures) = (0, Vec::new());
            while !stopped.load(Relaxed) {
                match once(address) {
                    Ok(()) => answered += 1,
                    Err(why) => failures.push(why),
                }
            }
            (answered, failures)
        });
        Self { stops, client: Some(client) }
    }

    /// How many were answered, and the failures.
    fn stop(mut self) -> (usize, Vec<String>) {
        self.stops.store(true, Relaxed);
        self.client.take().unwrap().join().unwrap()
    }
}

impl Drop for Newcomers {
    fn drop(&mut self) {
        self.stops.store(true, Relaxed);
    }
}

fn once(address: SocketAddr) -> Result<(), String> {
    let mut talk = Talk::open(address).map_err(|error| format!("connect: {error}"))?;
    let asked = talk.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    asked.map_err(|error| format!("send: {error}"))?;
    match talk.head() {
        Ok(head) if head.status() == 200 => Ok(()),
        Ok(head) => Err(head.start),
        Err(error) => Err(format!("head: {error}")),
    }
}

#[test]
fn no_request_fails_while_the_binary_is_upgraded_again_and_again() {
    let _watchdog = watchdog("no_request_fails_while_the_binary_is_upgraded_again_and_again");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let successors = Successors(&proxy);
    let (load, new) = (Load::start(proxy.web(), 4), Newcomers::start(proxy.web()));
    for _ in 0..TIMES {
        load.wait_for(20);
        successors.upgrade();
    }
    load.wait_for(20);
    let ((answered, failures), (asked, others)) = (load.stop(), new.stop());
    assert!(
        failures.is_empty() && others.is_empty(),
        "{failures:?} and {others:?} of {answered} and {asked}"
    );
    let end = Instant::now() + STEP;
    while successors.pids().len() < TIMES {
        assert!(Instant::now() < end, "{}", proxy.process().stderr());
        thread::yield_now();
    }
    assert!(answered > 0 && asked > 0);
    // The first process has ended; the last one is the one that answers.
    assert_eq!(proxy.process().wait_exit_status(STEP).code(), Some(0));
    let status = Admin::of(&proxy).get("/api/v1/status");
    assert_eq!(status["pid"], *successors.pids().last().unwrap());
}

#[test]
fn only_what_is_in_flight_fails_when_the_proxy_crashes() {
    let _watchdog = watchdog("only_what_is_in_flight_fails_when_the_proxy_crashes");
    let upstream = Upstream::saying("hello");
    let text = config(&[&upstream.url()], "state: { path: state }\n");
    let proxy = Proxy::start_with(&["--supervise=always"], &text);
    let (load, new) = (Load::start(proxy.web(), 2), Newcomers::start(proxy.web()));
    let crashes = if measuring() { TIMES } else { 3 };
    for crash in 1..=crashes {
        let child = child_of(&proxy);
        // One that has just been started is not started again at once.
        let is_steady = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < is_steady {
            load.wait_for(20);
        }
        load.wait_for(20);
        crash_worker(child);
        let told = format!("crash {crash} of this supervisor");
        proxy.process().wait_line(&told, STEP, |line| line.contains(&told).then_some(()));
        await_child(&proxy, child);
    }
    load.wait_for(20);
    let ((answered, failures), (asked, others)) = (load.stop(), new.stop());
    // A client loses what it has under way, and nobody is refused.
    assert!(failures.len() <= 2 * crashes && others.len() <= crashes, "{failures:?} {others:?}");
    let refused = |why: &&String| why.contains("refused");
    assert!(!others.iter().any(|why| refused(&why)), "{others:?}");
    assert!(!failures.iter().any(|failure| refused(&&failure.reason)), "{failures:?}");
    assert!(answered > 0 && asked > 0);
    let reports: Vec<_> = fs::read_dir(proxy.directory().join("state/crashes")).unwrap().collect();
    assert_eq!(reports.len(), crashes.min(16), "the newest ones are kept");
    let reports: Vec<_> =
        reports.into_iter().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let tells = |report: &String| report.contains("SIGSEGV") && report.contains("in thread worker-0");
    assert!(reports.iter().all(tells), "{reports:?}");
    // One that crashes while it takes an exchange down does not tell of the last ones.
    let last = "the last exchanges of worker 0, the newest first:\n";
    let records = reports.iter().find_map(|report| Some(report.split_once(last)?.1));
    let records = records.unwrap_or_else(|| panic!("{reports:?}"));
    assert!((1..=16).contains(&records.lines().count()), "{records}");
    let is_told = |line: &str| line.starts_with("  GET ") && line.contains(", listener web, route ");
    assert!(records.lines().all(is_told) && records.contains(&upstream.url()), "{records}");
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

/// Has the first worker of this process crash: a signal to a single thread.
pub(super) fn crash_worker(pid: i32) {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap().path());
    let is_first =
        |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "worker-0");
    let thread = threads.into_iter().find(is_first).unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap();
    let program = format!("import ctypes; assert ctypes.CDLL(None).tgkill({pid}, {thread}, 11) == 0");
    assert!(Command::new("python3").args(["-c", &program]).status().unwrap().success());
}

/// The process that the supervisor runs.
pub(super) fn child_of(proxy: &Proxy) -> i32 {
    let pid = proxy.process().pid();
    let end = Instant::now() + STEP;
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        if let Some(child) = children.split_whitespace().last() {
            return child.parse().unwrap();
        }
        assert!(Instant::now() < end, "the supervisor has no child");
        thread::yield_now();
    }
}

pub(super) fn await_child(proxy: &Proxy, former: i32) {
    let end = Instant::now() + STEP;
    while child_of(proxy) == former {
        assert!(Instant::now() < end, "no other child");
        thread::yield_now();
    }
}

#[test]
fn a_supervised_proxy_is_upgraded_by_signal_and_by_verb() {
    let _watchdog = watchdog("a_supervised_proxy_is_upgraded_by_signal_and_by_verb");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start_with(&["--supervise=always"], &config(&[&upstream.url()], ""));
    let successors = Successors(&proxy);
    let load = Load::start(proxy.web(), 2);
    load.wait_for(10);
    let refused = verb(&proxy, &["upgrade", "--binary", "/no/such/binary"]);
    assert!(refused.code == 1 && refused.stderr.contains("cannot be run"), "{refused:?}");
    successors.upgrade();
    proxy.process().signal(Signal::USR2);
    let end = Instant::now() + LIMIT;
    while successors.pids().len() < 2 {
        assert!(Instant::now() < end, "{}", proxy.process().stderr());
        thread::yield_now();
    }
    load.wait_for(10);
    let (_, failures) = load.stop();
    assert!(failures.is_empty(), "{failures:?}");
    // Not the supervisor, which goes on, and ends what it has started last.
    assert!(proxy.process().is_running());
    let last = *successors.pids().last().unwrap();
    assert_eq!(child_of(&proxy), last);
    kill_heirs(proxy.directory(), Some(proxy.process().pid()));
    proxy.process().wait_line("the crash", STEP, |line| line.contains("has crashed").then_some(()));
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn a_supervisor_that_is_killed_takes_the_proxy_along() {
    let _watchdog = watchdog("a_supervisor_that_is_killed_takes_the_proxy_along");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start_with(&["--supervise=always"], &config(&[&upstream.url()], ""));
    let child = child_of(&proxy);
    proxy.process().signal(Signal::KILL);
    let end = Instant::now() + STEP;
    while Path::new(&format!("/proc/{child}/exe")).exists() {
        assert!(Instant::now() < end, "{}", proxy.process().stderr());
        thread::yield_now();
    }
}

#[test]
fn a_configuration_with_mistakes_ends_the_supervisor_at_once() {
    let directory = Directory::new();
    directory.write("bad.yaml", "listeners: 5\n");
    let done =
        run(command(directory.path()).args(["run", "--supervise=always", "--config", "bad.yaml"]), LIMIT);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(!done.stderr.contains("crash"), "{done:?}");
}

#[test]
fn a_successor_that_cannot_start_leaves_all_as_it_was() {
    let _watchdog = watchdog("a_successor_that_cannot_start_leaves_all_as_it_was");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let web = proxy.web();
    let refused = |arguments: &[&str], why: &str| {
        let done = verb(&proxy, arguments);
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.stderr.contains(why), "{done:?}\n{}", proxy.process().stderr());
        once(web).unwrap();
        let status = Admin::of(&proxy).get("/api/v1/status");
        assert_eq!(status["pid"], proxy.process().pid(), "{status}");
    };
    refused(&["upgrade", "--binary", "/no/such/binary"], "cannot be run");
    refused(&["upgrade", "--binary", "/bin/false"], "has ended");
    let file = proxy.directory().join("thalweg.yaml");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, "listeners: 5\n").unwrap();
    refused(&["upgrade"], "mistakes");
    fs::write(&file, format!("{good}tests: [ {{ request: {{ path: / }}, expect: {{ route: other }} }} ]\n"))
        .unwrap();
    refused(&["upgrade"], "mistakes");
    // A listener that somebody else has.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("listeners: {{ other: {{ address: \"{}\" }},", taken.local_addr().unwrap());
    fs::write(&file, good.replace("listeners: {", &other)).unwrap();
    refused(&["upgrade"], "cannot listen");
    fs::write(&file, good).unwrap();
    // Changes are possible again, and so is an upgrade.
    let drained = verb(&proxy, &["drain", "s", &upstream.url()]);
    assert_eq!(drained.code, 0, "{drained:?}");
    Successors(&proxy).upgrade();
}

#[test]
fn only_who_is_on_this_machine_names_a_binary() {
    let _watchdog = watchdog("only_who_is_on_this_machine_names_a_binary");
    let upstream = Upstream::saying("hello");
    let token = "0123456789abcdef0123456789abcdef";
    let admin = "admin: { address: \"127.0.0.1:0\", token: { value: 0123456789abcdef0123456789abcdef } }\n";
    let proxy = Proxy::start(&config(&[&upstream.url()], admin));
    let far = Admin::on_tcp(&proxy, Some(token));
    let answer = far.call("POST", "/api/v1/upgrade", "{\"binary\": \"/bin/true\"}");
    assert_eq!(answer.status(), 403, "{}", answer.text());
    let answer = far.call("POST", "/api/v1/upgrade", "{}");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    // The same address and token, and another process.
    let pid = proxy.process().wait_line("who has taken over", STEP, successor);
    let status = far.get("/api/v1/status");
    assert_eq!(status["pid"], pid, "{status}");
}

#[test]
fn what_was_changed_at_run_time_is_taken_along() {
    let _watchdog = watchdog("what_was_changed_at_run_time_is_taken_along");
    let (one, other) = (Upstream::saying("one"), Upstream::saying("other"));
    let text = config(&[&one.url(), &other.url()], "").replace(
        "routes: [ { to: s } ]",
        "routes: [ { to: s, filters: [ { access: { deny: [ { list: blocked } ] } } ] } ]",
    );
    let proxy = Proxy::start(&text);
    assert_eq!(verb(&proxy, &["drain", "s", &one.url()]).code, 0);
    assert_eq!(verb(&proxy, &["block", "192.0.2.7", "--list", "blocked"]).code, 0);
    let successors = Successors(&proxy);
    successors.upgrade();
    for _ in 0..4 {
        assert_eq!(get(proxy.web(), "/").unwrap().text(), "other");
    }
    let listed = Admin::of(&proxy).get("/api/v1/access/blocked");
    assert!(listed.to_string().contains("192.0.2.7"), "{listed}");
    assert_eq!(verb(&proxy, &["drain", "s", &one.url(), "--undo"]).code, 0);
    assert_eq!(verb(&proxy, &["drain", "s", &other.url()]).code, 0);
    assert_eq!(get(proxy.web(), "/").unwrap().text(), "one");
}

#[test]
fn a_connection_that_waits_is_served_once_more_and_a_long_response_to_its_end() {
    let _watchdog = watchdog("a_connection_that_waits_is_served_once_more_and_a_long_response_to_its_end");
    let upstream = Held::start("one");
    let text = config(&[&upstream.url()], "shutdown: { delay: 0s, grace: 30s }\n");
    let proxy = Proxy::start(&text);
    let mut idle = Talk::open(proxy.web()).unwrap();
    idle.send("GET /short HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = idle.head().unwrap();
    idle.body(&head).each(|_| {}).unwrap();
    let mut long = Talk::open(proxy.web()).unwrap();
    long.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let begun = long.head().unwrap();
    let successors = Successors(&proxy);
    successors.upgrade();
    idle.send("GET /short HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = idle.head().unwrap();
    assert_eq!((head.status(), head.value("connection")), (200, Some("close")), "{head:?}");
    assert!(proxy.process().is_running(), "a response is under way");
    drop(idle);
    upstream.release();
    long.body(&begun).each(|_| {}).unwrap();
    // Its head has promised, before anybody knew of the upgrade, that the connection is kept.
    assert_eq!(begun.value("connection"), None);
    long.send("GET /short HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = long.head().unwrap();
    assert_eq!((head.status(), head.value("connection")), (200, Some("close")), "{head:?}");
    assert_eq!(proxy.process().wait_exit_status(STEP).code(), Some(0));
}

/// An endpoint that lets every connection become a tunnel, and says back what comes.
fn tunnels() -> Listener {
    let (accepted, connections) = std::sync::mpsc::channel::<TcpStream>();
    thread::spawn(move || {
        for mut stream in connections {
            thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn(move || {
                    let mut bytes = [0; 1024];
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut bytes[..1]) {
                            Ok(1) => head.push(bytes[0]),
                            _ => return,
                        }
                    }
                    let key = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
                    let answer = format!(
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n{key}\r\n\r\n"
                    );
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                    while let Ok(read @ 1..) = stream.read(&mut bytes) {
                        if stream.write_all(&bytes[..read]).is_err() {
                            return;
                        }
                    }
                })
                .unwrap();
        }
    });
    Listener::start(accepted)
}

#[test]
fn a_thousand_websockets_survive_until_the_grace_ends() {
    let _watchdog = watchdog("a_thousand_websockets_survive_until_the_grace_ends");
    raise_descriptors();
    let endpoint = tunnels();
    let url = format!("http://{}", endpoint.address());
    let proxy = Proxy::start(&config(&[&url], "shutdown: { delay: 0s, grace: 8s }\n"));
    let ask = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut open: Vec<_> = (0..1000)
        .map(|_| {
            let mut talk = Talk::open(proxy.web()).unwrap();
            talk.send(ask).unwrap();
            assert_eq!(talk.head().unwrap().status(), 101);
            talk
        })
        .collect();
    let successors = Successors(&proxy);
    successors.upgrade();
    // A text frame as clients send it; it comes back as it is. First all are sent, so that the grace is long enough.
    let frame = b"\x81\x82\0\0\0\0hi";
    open.iter_mut().for_each(|talk| talk.send(frame).unwrap());
    let mut alive = 0;
    for talk in &open {
        let mut back = [0; 8];
        talk.stream().set_read_timeout(Some(STEP)).unwrap();
        let mut stream = talk.stream();
        alive += usize::from(stream.read_exact(&mut back).is_ok() && back == *frame);
    }
    assert_eq!(alive, 1000);
    assert_eq!(proxy.process().wait_exit_status(2 * STEP).code(), Some(0), "the grace has ended");
    let over = open.iter().filter(|talk| matches!(talk.stream().read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(over.count(), 1000);
}

#[test]
fn datagrams_and_unix_sockets_change_hands_too() {
    let _watchdog = watchdog("datagrams_and_unix_sockets_change_hands_too");
    let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = echo.local_addr().unwrap();
    let (stops, heard) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let serve = {
        let (stops, heard) = (stops.clone(), heard.clone());
        thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((length, from)) = echo.recv_from(&mut bytes) {
                if stops.load(Relaxed) {
                    return;
                }
                heard.fetch_add(1, Relaxed);
                let _ = echo.send_to(&bytes[..length], from);
            }
        })
    };
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let path = directory.path().join("web.sock");
    let text = format!(
        "workers: 2\n\
         listeners:\n  web: {{ address: \"unix:{}\" }}\n  dns: {{ address: \"127.0.0.1:0\", protocol: udp, to: d }}\n\
         services: {{ s: {{ endpoints: [ \"{}\" ] }}, d: {{ endpoints: [ \"udp://{address}\" ] }} }}\n\
         routes: [ {{ to: s }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        path.display(),
        upstream.url(),
    );
    let proxy = Proxy::start_in(directory, &text);
    let successors = Successors(&proxy);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(proxy.address("dns")).unwrap();
    client.set_read_timeout(Some(STEP)).unwrap();
    for round in 0..6_u8 {
        client.send(&[round; 8]).unwrap();
        let mut back = [0; 8];
        assert_eq!((client.recv(&mut back).unwrap(), back), (8, [round; 8]));
        let mut web = UnixStream::connect(&path).unwrap();
        web.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        web.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
        if round % 2 == 0 {
            successors.upgrade();
        }
    }
    assert_eq!(heard.load(Relaxed), 6);
    stops.store(true, Relaxed);
    client_of(address).send(b"end").unwrap();
    serve.join().unwrap();
}

fn client_of(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket
}

/// A process with more or fewer workers has the same sockets.
#[test]
fn another_number_of_workers_loses_nobody() {
    let _watchdog = watchdog("another_number_of_workers_loses_nobody");
    let upstream = Upstream::saying("hello");
    let text = config(&[&upstream.url()], "");
    let proxy = Proxy::start(&text);
    let (load, new) = (Load::start(proxy.web(), 2), Newcomers::start(proxy.web()));
    let successors = Successors(&proxy);
    for workers in [1, 4, 2] {
        let log = proxy.log_path();
        let text = text.replace("workers: 2", &format!("workers: {workers}"));
        fs::write(proxy.directory().join("thalweg.yaml"), text.replace("{log}", &log.to_string_lossy()))
            .unwrap();
        successors.upgrade();
        load.wait_for(40);
    }
    let ((_, failures), (_, others)) = (load.stop(), new.stop());
    assert!(failures.is_empty() && others.is_empty(), "{failures:?} {others:?}");
}

/// What systemd does: it opens the sockets, is told how the proxy stands, and keeps copies.
#[test]
fn systemd_opens_sockets_and_is_told_how_the_proxy_stands() {
    let _watchdog = watchdog("systemd_opens_sockets_and_is_told_how_the_proxy_stands");
    let Some(python) = find("python3") else { return };
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let manager = UnixDatagram::bind(directory.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(STEP)).unwrap();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let text = config(&[&upstream.url()], "")
        .replace("web: { address: \"127.0.0.1:0\" }", &format!("web: {{ address: \"{address}\" }}"));
    let log = directory.path().join("access.log");
    directory.write("thalweg.yaml", &text.replace("{log}", &log.to_string_lossy()));
    let opener = directory.write(
        "opener.py",
        "import os, socket, sys\n\
         host, port = sys.argv[1].rsplit(':', 1)\n\
         s = socket.socket()\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
         s.bind((host, int(port))); s.listen(64)\n\
         os.dup2(s.fileno(), 3, inheritable=True)\n\
         os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='web.socket')\n\
         os.execv(sys.argv[2], sys.argv[2:])\n",
    );
    let mut start = Command::new(python);
    let prepared = command(directory.path());
    prepared.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(start.env(name, value)),
        None => drop(start.env_remove(name)),
    });
    start.current_dir(directory.path()).env("NOTIFY_SOCKET", directory.path().join("notify"));
    start.arg(opener).arg(address.to_string()).arg(prepared.get_program());
    let process = Process::start(start.args(["run", "--config", "thalweg.yaml"]));
    let told = |wanted: &str| loop {
        let mut bytes = [0; 4096];
        let length = manager
            .recv(&mut bytes)
            .unwrap_or_else(|error| panic!("{wanted}: {error}\n{}", process.stderr()));
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if text.contains(wanted) {
            return text;
        }
    };
    told(&format!("MAINPID={}", process.pid()));
    told("FDSTORE=1");
    told("WATCHDOG=1");
    once(address).unwrap();
    process.signal(Signal::HUP);
    assert!(told("RELOADING=1").contains("MONOTONIC_USEC="));
    told("READY=1");
    process.signal(Signal::TERM);
    told("STOPPING=1");
    assert_eq!(process.wait_exit(STEP).code(), Some(0));
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn what_is_named_as_a_binary_is_run() {
    let _watchdog = watchdog("what_is_named_as_a_binary_is_run");
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let other = proxy.directory().join("thalweg-new");
    binary::place_at(&other);
    let done = verb(&proxy, &["upgrade", "--binary", &other.to_string_lossy(), "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let told: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let pid = told["pid"].as_i64().unwrap();
    assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap(), other);
    once(proxy.web()).unwrap();
}
