//! A real Redis, behind a gate.

use super::gate::Gate;
use super::program::Program;
use super::registry::Registry;
use super::watch::{Told, Watched};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The hash anew, in one step.
const PUBLISH: &str = "redis.call('DEL', KEYS[1]) for i = 1, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end return 1";

pub(crate) struct RedisRegistry {
    server: SocketAddr,
    gate: Gate,
    _program: Program,
}

impl RedisRegistry {
    fn with(more: &[&str]) -> Self {
        let (program, server) = run(more);
        let gate = Gate::before(server, b"*2\r\n$3\r\nfoo\r\nbar\r\n");
        Self { server, gate, _program: program }
    }

    /// A source of these arguments beside the server.
    fn watched(&self, arguments: &str) -> Watched {
        Watched::of(&format!("redis: {{ {arguments}, url: 'redis://{}' }}", self.gate.address()))
    }

    /// Has Redis do something; the first line of its answer.
    fn ask(&self, words: &[&str]) -> String {
        ask(self.server, words)
    }
}

/// Has a Redis do something; the first line of its answer.
pub(crate) fn ask(server: SocketAddr, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(!line.starts_with('-'), "{words:?}: {line}");
    line
}

/// Runs Redis with more arguments, and waits until it is ready.
pub(crate) fn run(more: &[&str]) -> (Program, SocketAddr) {
    let mut said = String::new();
    for _ in 0..5 {
        let directory = Program::directory("redis");
        let server = Program::free_port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &server.port().to_string(), "--save", "", "--dir"]);
        command.arg(&directory).args(more);
        let mut program = Program::start(command.stdout(Stdio::piped()), directory);
        let mut log = BufReader::new(program.stdout());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 {
            if line.contains("Ready to accept connections") {
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return (program, server);
            }
            said.push_str(&std::mem::take(&mut line));
        }
    }
    panic!("redis-server ended: {said}");
}

impl Registry for RedisRegistry {
    fn is_here() -> bool {
        Program::is_here("redis-server")
    }

    fn start() -> Self {
        Self::with(&[])
    }

    fn argument(&self) -> String {
        format!(
            "redis: {{ key: 'services:checkout', url: 'redis://{}', interval: 200ms }}",
            self.gate.address()
        )
    }

    fn publish(&mut self, ports: &[u16]) {
        let mut words =
            vec!["EVAL".to_owned(), PUBLISH.to_owned(), "1".to_owned(), "services:checkout".to_owned()];
        for port in ports {
            let value = match port % 2 {
                0 => format!("127.0.0.1:{port}"),
                _ => format!(r#"{{"url":"http://127.0.0.1:{port}","zone":"a"}}"#),
            };
            words.extend([format!("i-{port}"), value]);
        }
        self.ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.gate)
    }
}

/// The next set is this one, at once: by a message, since nobody looks for an hour.
#[track_caller]
fn at_once(watched: &mut Watched, ports: &[u16]) {
    match watched.next(Duration::from_secs(10)) {
        Told::Ports(told) => assert_eq!(told, ports),
        other => panic!("{other:?}"),
    }
}

/// Until the subscriptions stand, which ring once each.
fn wait_subscribed(registry: &RedisRegistry, watched: &mut Watched, count: usize) {
    let begun = std::time::Instant::now();
    let channels = || {
        registry.ask(&[
            "EVAL",
            "return #redis.call('PUBSUB', 'CHANNELS') + redis.call('PUBSUB', 'NUMPAT')",
            "0",
        ])
    };
    while channels() != format!(":{count}\r\n") {
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(matches!(watched.next(Duration::from_millis(20)), Told::Nothing));
    }
}

#[test]
fn a_key_that_expires_is_gone_at_once_where_redis_tells_of_keys() {
    if !RedisRegistry::is_here() {
        return;
    }
    let registry = RedisRegistry::with(&["--notify-keyspace-events", "KA"]);
    // Of another service, though a pattern without care would find it.
    registry.ask(&["SET", "services:xx:a", "127.0.0.1:9"]);
    registry.ask(&["SET", "services:[x]:a", "127.0.0.1:1001"]);
    let mut watched = registry.watched("prefix: 'services:[x]:', interval: 1h");
    assert_eq!(watched.ports(), [1001]);
    wait_subscribed(&registry, &mut watched, 1);
    registry.ask(&["SET", "services:[x]:b", "127.0.0.1:1002", "PX", "300"]);
    at_once(&mut watched, &[1001, 1002]);
    at_once(&mut watched, &[1001]);
    registry.ask(&["DEL", "services:[x]:a"]);
    at_once(&mut watched, &[]);
    assert_eq!(watched.status().failures, 0);
}

#[test]
fn a_message_on_the_channel_means_read_again() {
    if !RedisRegistry::is_here() {
        return;
    }
    let mut registry = RedisRegistry::with(&[]);
    registry.publish(&[1001]);
    let mut watched = registry.watched("key: 'services:checkout', channel: changed, interval: 1h");
    assert_eq!(watched.ports(), [1001]);
    wait_subscribed(&registry, &mut watched, 2);
    registry.publish(&[1001, 1002]);
    registry.ask(&["PUBLISH", "changed", "whatever"]);
    at_once(&mut watched, &[1001, 1002]);
}

#[test]
fn who_asks_logs_in_and_chooses_the_database() {
    if !RedisRegistry::is_here() {
        return;
    }
    let registry = RedisRegistry::start();
    registry.ask(&["ACL", "SETUSER", "proxy", "on", ">secret", "~services:*", "&*", "+@all"]);
    registry.ask(&[
        "EVAL",
        "redis.call('SELECT', 3) return redis.call('HSET', 'services:a', 'x', '127.0.0.1:1001')",
        "0",
    ]);
    let login = "username: proxy, database: 3, interval: 200ms, password";
    assert_eq!(registry.watched(&format!("key: 'services:a', {login}: {{ value: secret }}")).ports(), [1001]);
    let why = registry.watched(&format!("key: 'services:a', {login}: {{ value: wrong }}")).failure();
    assert!(why.contains("WRONGPASS") && !why.contains("`wrong`"), "{why}");
    let why = registry.watched(&format!("key: other, {login}: {{ value: secret }}")).failure();
    assert!(why.contains("NOPERM") && why.contains("HGETALL"), "{why}");
    registry.ask(&["SET", "plain", "x"]);
    let why = registry.watched("key: plain").failure();
    assert!(why.contains("WRONGTYPE") && why.contains("write `prefix`"), "{why}");
}

#[test]
fn a_server_that_has_forgotten_most_takes_nothing_away_at_first() {
    if !RedisRegistry::is_here() {
        return;
    }
    let mut registry = RedisRegistry::start();
    registry.publish(&[1001, 1002, 1003]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001, 1002, 1003]);
    registry.cut();
    watched.failure();
    registry.ask(&["FLUSHALL"]);
    registry.publish(&[1004]);
    registry.mend();
    assert_eq!(watched.until_ports(), [1001, 1002, 1003, 1004]);
    assert!(watched.status().flaw.unwrap().contains("3 are kept for now"));
    registry.publish(&[1004, 1005]);
    assert_eq!(watched.ports(), [1004, 1005], "they have registered again");
    registry.publish(&[]);
    assert!(watched.ports().is_empty(), "they have left");
}
