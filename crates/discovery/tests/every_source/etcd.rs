//! A real etcd, behind a gate.

use super::gate::Gate;
use super::program::Program;
use super::registry::Registry;
use super::watch::{Told, Watched};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Nobody connects to it: there is one member.
const PEERS: &str = "http://127.0.0.1:1";

pub(crate) struct EtcdRegistry {
    server: SocketAddr,
    gate: Gate,
    ports: BTreeSet<u16>,
    _program: Program,
}

/// Runs etcd, and waits until it serves. Its gateway asks etcd at the address that was written, so that the kernel
/// cannot choose the port while etcd begins: where another one has taken it, the next is tried.
fn run() -> (Program, SocketAddr) {
    run_with(None, &[])
}

/// The same, with more arguments, and with TLS at an address of its own.
pub(crate) fn run_with(secure: Option<SocketAddr>, more: &[String]) -> (Program, SocketAddr) {
    let mut said = String::new();
    for _ in 0..5 {
        let directory = Program::directory("etcd");
        let server = Program::free_port();
        let url = format!("http://{server}");
        let secure_url = secure.map(|secure| format!(",https://{secure}"));
        let urls = url.clone() + &secure_url.unwrap_or_default();
        let mut awaited: Vec<_> =
            [Some(server), secure].into_iter().flatten().map(|at| at.to_string()).collect();
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.join("data")).args([
            "--unsafe-no-fsync",
            "--log-outputs",
            "stderr",
        ]);
        command.args(["--listen-client-urls", &urls, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", PEERS]);
        command.args(["--initial-cluster", &format!("default={PEERS}")]).args(more);
        let mut program = Program::start(command.stderr(Stdio::piped()), directory);
        let mut log = BufReader::new(program.stderr());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 {
            if line.contains("serving") {
                awaited.retain(|address| !line.contains(address));
            }
            if awaited.is_empty() {
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return (program, server);
            }
            said.push_str(&std::mem::take(&mut line));
        }
    }
    panic!("etcd ended: {said}");
}

/// Asks etcd to do something.
pub(crate) fn call(server: SocketAddr, method: &str, body: &serde_json::Value) -> serde_json::Value {
    let answer = super::program::post(server, &format!("/v3/{method}"), &body.to_string());
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{answer}: {error}"))
}

/// In Base64.
pub(crate) fn text(plain: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(plain)
}

impl EtcdRegistry {
    /// Forgets all that came before now.
    fn compact(&self) {
        let revision =
            call(self.server, "kv/range", &json!({ "key": text("/") }))["header"]["revision"].clone();
        call(self.server, "kv/compaction", &json!({ "revision": revision, "physical": true }));
    }
}

impl Registry for EtcdRegistry {
    fn is_here() -> bool {
        Program::is_here("etcd")
    }

    fn start() -> Self {
        let (program, server) = run();
        let gate = Gate::before(server, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"header\"");
        Self { server, gate, ports: BTreeSet::new(), _program: program }
    }

    fn argument(&self) -> String {
        format!(
            "etcd: {{ prefix: /services/checkout/, url: 'http://{}', interval: 200ms }}",
            self.gate.address()
        )
    }

    /// In one transaction, so that one change is one.
    fn publish(&mut self, ports: &[u16]) {
        let new: BTreeSet<u16> = ports.iter().copied().collect();
        let key = |port: &u16| text(&format!("/services/checkout/i-{port}"));
        let puts = new.difference(&self.ports).map(|port| {
            let value = match port % 3 {
                0 => format!("127.0.0.1:{port}"),
                1 => format!(r#"{{"Op":0,"Addr":"127.0.0.1:{port}","Metadata":null}}"#),
                _ => format!(r#"{{"url":"http://127.0.0.1:{port}","weight":2}}"#),
            };
            json!({ "requestPut": { "key": key(port), "value": text(&value) } })
        });
        let deletes = self.ports.difference(&new);
        let deletes = deletes.map(|port| json!({ "requestDeleteRange": { "key": key(port) } }));
        let all: Vec<_> = puts.chain(deletes).collect();
        let answer = call(self.server, "kv/txn", &json!({ "success": all }));
        assert_eq!(answer["succeeded"], true, "{answer}");
        self.ports = new;
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.gate)
    }
}

/// A source of this argument beside the prefix and the server.
fn watched(registry: &EtcdRegistry, more: &str) -> Watched {
    let at = registry.gate.address();
    Watched::of(&format!("etcd: {{ prefix: /services/checkout/, url: 'http://{at}', {more} }}"))
}

#[test]
fn a_watch_that_breaks_goes_on_where_it_stood() {
    if !EtcdRegistry::is_here() {
        return;
    }
    let mut registry = EtcdRegistry::start();
    registry.publish(&[1001]);
    let mut watched = watched(&registry, "interval: 1h");
    assert_eq!(watched.ports(), [1001]);
    // Younger ones are taken for a sign that etcd is not well.
    assert!(matches!(watched.next(Duration::from_millis(1100)), Told::Nothing));
    registry.gate.interrupt();
    registry.publish(&[1001, 1002]);
    assert_eq!(watched.ports(), [1001, 1002]);
    assert_eq!(watched.status().failures, 0);
}

#[test]
fn what_etcd_has_forgotten_is_read_anew() {
    if !EtcdRegistry::is_here() {
        return;
    }
    let mut registry = EtcdRegistry::start();
    registry.publish(&[1001]);
    let mut watched = watched(&registry, "interval: 1h");
    assert_eq!(watched.ports(), [1001]);
    assert!(matches!(watched.next(Duration::from_millis(1100)), Told::Nothing));
    registry.freeze();
    registry.publish(&[1001, 1002]);
    registry.publish(&[1003]);
    registry.publish(&[1002]);
    registry.compact();
    registry.gate.interrupt();
    registry.mend();
    assert_eq!(watched.ports(), [1002]);
    assert_eq!(watched.status().failures, 0);
}

/// A watch from the revision of a deletion on does not tell of it where etcd was compacted at that one
/// (seen with 3.4.23).
#[test]
fn a_deletion_that_the_watch_is_not_told_of_is_noticed_beside_it() {
    if !EtcdRegistry::is_here() {
        return;
    }
    let mut registry = EtcdRegistry::start();
    registry.publish(&[1001]);
    let mut watched = watched(&registry, "interval: 200ms");
    assert_eq!(watched.ports(), [1001]);
    assert!(matches!(watched.next(Duration::from_millis(1100)), Told::Nothing));
    registry.freeze();
    registry.publish(&[1002]);
    registry.compact();
    registry.gate.interrupt();
    registry.mend();
    while watched.until_ports() != [1002] {}
}

#[test]
fn an_instance_whose_lease_is_over_is_gone_and_garbage_is_left_out() {
    if !EtcdRegistry::is_here() {
        return;
    }
    let mut registry = EtcdRegistry::start();
    registry.publish(&[1001]);
    let mut watched = watched(&registry, "interval: 1s");
    assert_eq!(watched.ports(), [1001]);
    let lease = call(registry.server, "lease/grant", &json!({ "TTL": 60 }))["ID"].clone();
    let put = |name: &str, value: &str, lease: &serde_json::Value| {
        let key = text(&format!("/services/checkout/{name}"));
        call(registry.server, "kv/put", &json!({ "key": key, "value": text(value), "lease": lease }));
    };
    put("i-2", "127.0.0.1:1002", &lease);
    assert_eq!(watched.ports(), [1001, 1002]);
    call(registry.server, "lease/revoke", &json!({ "ID": lease }));
    assert_eq!(watched.ports(), [1001]);
    put("wrong", "nonsense", &json!(0));
    put("right", "127.0.0.1:1003", &json!(0));
    assert_eq!(watched.ports(), [1001, 1003]);
    let flaw = watched.status().flaw.unwrap();
    assert!(flaw.contains("`wrong`") && !flaw.contains("nonsense"), "{flaw}");
    assert_eq!(watched.status().failures, 0);
}

#[test]
fn who_asks_logs_in_where_etcd_has_users() {
    if !EtcdRegistry::is_here() {
        return;
    }
    let mut registry = EtcdRegistry::start();
    registry.publish(&[1001]);
    let login = "username: proxy, password: { value: secret }, interval: 200ms";
    assert_eq!(watched(&registry, login).ports(), [1001], "etcd has no users yet");
    let say = |method: &str, body: serde_json::Value| call(registry.server, method, &body);
    say("auth/role/add", json!({ "name": "reader" }));
    let (key, end) = (text("/services/checkout/"), text("/services/checkout0"));
    let may = json!({ "permType": "READ", "key": key, "range_end": end });
    say("auth/role/grant", json!({ "name": "reader", "perm": may }));
    for (user, role) in [("root", "root"), ("proxy", "reader")] {
        say("auth/user/add", json!({ "name": user, "password": "secret" }));
        say("auth/user/grant", json!({ "user": user, "role": role }));
    }
    say("auth/enable", json!({}));
    assert_eq!(watched(&registry, login).ports(), [1001]);
    let why = watched(&registry, "interval: 200ms").failure();
    assert!(why.contains("user name is empty"), "{why}");
    let why = watched(&registry, "username: proxy, password: { value: wrong }").failure();
    assert!(why.contains("authentication failed") && !why.contains("wrong"), "{why}");
}

#[test]
fn whole_documents_under_a_prefix_are_watched_too() {
    if !EtcdRegistry::is_here() {
        return;
    }
    let registry = EtcdRegistry::start();
    let put = |name: &str, value: &str| {
        let key = text(&format!("/routes/{name}"));
        call(registry.server, "kv/put", &json!({ "key": key, "value": text(value) }));
    };
    put("a", "routes: {}");
    let argument = format!("etcd: {{ prefix: /routes/, url: 'http://{}' }}", registry.gate.address());
    let mut watched = Watched::documents_of(&argument);
    assert_eq!(watched.documents(), [("a".to_owned(), "routes: {}".to_owned())]);
    put("b/c", "x");
    assert_eq!(watched.documents().last().unwrap(), &("b/c".to_owned(), "x".to_owned()));
}
