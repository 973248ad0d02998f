//! Docker's socket as its API describes it: lists of containers, and a stream of events with one object a line.

use super::gate::Gate;
use super::http_fake::{Ask, HttpFake, More, Reply};
use super::registry::Registry;
use super::watch::{Told, Watched};
use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct State {
    ports: Vec<u16>,
    /// Lines of the stream since the beginning.
    events: Vec<String>,
    /// How often containers were listed since the last change.
    lists: usize,
    /// How many streams were opened.
    streams: usize,
}

impl State {
    fn tell(&mut self, action: &str, id: &str, attributes: &str) {
        self.events.push(format!(
            r#"{{"Type":"container","Action":"{action}","Actor":{{"ID":"{id}","Attributes":{{{attributes}}}}}}}"#
        ));
    }
}

pub(crate) struct DockerRegistry {
    server: HttpFake,
    state: Arc<Mutex<State>>,
    socket: PathBuf,
}

impl DockerRegistry {
    fn tell(&self, action: &str, id: &str, attributes: &str) {
        self.state.lock().unwrap().tell(action, id, attributes);
    }
}

impl Registry for DockerRegistry {
    fn start() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("thalweg-source-docker-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&socket);
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        let server = HttpFake::start(move |ask| answer(ask, &shared));
        let (listener, gate) = (UnixListener::bind(&socket).unwrap(), server.gate.address());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                std::thread::spawn(move || relay(&client, gate));
            }
        });
        Self { server, state, socket }
    }

    fn argument(&self) -> String {
        format!("docker: {{ service: shop, socket: 'unix://{}', interval: 1s }}", self.socket.display())
    }

    fn documents(&self) -> String {
        format!("docker: {{ socket: 'unix://{}', interval: 1s }}", self.socket.display())
    }

    fn publish(&mut self, ports: &[u16]) {
        let mut state = self.state.lock().unwrap();
        assert!(state.lists < 500, "listed {} times since the last change: a loop that is busy", state.lists);
        let begun: Vec<_> = ports.iter().filter(|port| !state.ports.contains(port)).copied().collect();
        let ended: Vec<_> = state.ports.iter().filter(|port| !ports.contains(port)).copied().collect();
        state.ports = ports.to_vec();
        state.lists = 0;
        ended.iter().for_each(|port| state.tell("die", &format!("c{port}"), r#""exitCode":"0""#));
        begun.iter().for_each(|port| state.tell("start", &format!("c{port}"), ""));
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Between a socket in the file system and one of the network, both ways.
fn relay(client: &UnixStream, server: SocketAddr) {
    let Ok(server) = TcpStream::connect(server) else { return };
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = copy(&mut &server, &mut &*client);
    let _ = client.shutdown(Shutdown::Both);
}

fn answer(ask: &Ask, shared: &Arc<Mutex<State>>) -> Reply {
    let mut state = shared.lock().unwrap();
    match (ask.method.as_str(), ask.path.as_str()) {
        ("GET", "/containers/json") => {
            state.lists += 1;
            let all: Vec<_> = state.ports.iter().map(container).collect();
            Reply::json(format!("[{}]", all.join(",")))
        }
        // One whose image says that SIGQUIT stops it.
        ("GET", "/containers/c1003/json") => {
            Reply::json(r#"{"Id":"c1003","Config":{"StopSignal":"SIGQUIT"}}"#)
        }
        ("GET", path) if path.starts_with("/containers/c") => Reply::json(r#"{"Config":{"Cmd":null}}"#),
        ("GET", "/events") => {
            let filters: serde_json::Value = serde_json::from_str(ask.parameter("filters").unwrap()).unwrap();
            assert!(filters["type"].is_array() && filters["event"].is_array());
            state.streams += 1;
            let (shared, mut told) = (shared.clone(), state.events.len());
            let next = move || {
                let state = shared.lock().unwrap();
                let lines: String = state.events[told..].iter().map(|line| format!("{line}\n")).collect();
                told = state.events.len();
                Some(lines)
            };
            Reply { more: Some(More(Box::new(next))), ..Reply::json("") }
        }
        _ => Reply::of(404, r#"{"message":"page not found"}"#),
    }
}

/// A container on the network of the host, beside one that is not of the service.
fn container(port: &u16) -> String {
    format!(
        r#"{{"Id":"c{port}","Names":["/shop-{port}"],"State":"running","Status":"Up 1 second",
            "Labels":{{"thalweg.service":"shop","thalweg.port":"{port}","thalweg.path":"/shop/*"}},"Ports":[],
            "HostConfig":{{"NetworkMode":"host"}},"NetworkSettings":{{"Networks":{{"host":{{"IPAddress":""}}}}}}}},
           {{"Id":"d{port}","Names":["/db-{port}"],"State":"running","Status":"Up 1 second","Labels":null,"Ports":null}}"#
    )
}

#[test]
fn a_container_that_is_told_to_stop_gets_no_new_requests_before_it_has_stopped() {
    let mut registry = DockerRegistry::start();
    registry.publish(&[1001, 1002, 1003]);
    let mut watched = Watched::of(&registry.argument().replace("interval: 1s", "interval: 1m"));
    assert_eq!(watched.ports(), [1001, 1002, 1003]);
    registry.tell("kill", "c1001", r#""signal":"1""#);
    assert!(matches!(watched.next(Duration::from_millis(500)), Told::Nothing), "SIGHUP stops nothing");
    registry.tell("kill", "c1001", r#""signal":"15""#);
    assert_eq!(watched.ports(), [1002, 1003]);
    registry.tell("kill", "c1003", r#""signal":"3""#);
    assert_eq!(watched.ports(), [1002], "by the signal of its image");
    // It has stopped, and is started again.
    registry.tell("die", "c1001", r#""exitCode":"0""#);
    registry.tell("start", "c1001", "");
    assert_eq!(watched.ports(), [1001, 1002]);
}

#[test]
fn what_changes_without_an_event_is_seen_at_the_next_list() {
    let mut registry = DockerRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001]);
    registry.state.lock().unwrap().ports = vec![1001, 1002];
    assert_eq!(watched.ports(), [1001, 1002]);
}

#[test]
fn services_of_one_socket_share_one_stream() {
    let mut registry = DockerRegistry::start();
    registry.publish(&[1001]);
    let source = |service: &str| {
        super::watch::source(&registry.argument().replace("service: shop", &format!("service: {service}")))
    };
    let sources = [source("shop"), source("other")];
    assert_eq!(sources[0].group(), sources[1].group());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut watches = thalweg_discovery::Watches::default();
    let mut counts = runtime.block_on(async {
        watches.watch(&sources);
        let mut counts = Vec::new();
        for _ in 0..2 {
            if let thalweg_discovery::News::Set(_, set) = watches.news().await {
                counts.push(set.len());
            }
        }
        counts
    });
    counts.sort_unstable();
    assert_eq!(counts, [0, 1]);
    assert_eq!(registry.state.lock().unwrap().streams, 1);
}

#[test]
fn a_route_stays_while_its_last_container_stops_and_goes_with_it() {
    let mut registry = DockerRegistry::start();
    registry.publish(&[1001]);
    let argument = registry.documents().replace("interval: 1s", "interval: 1m");
    let mut watched = Watched::documents_of(&argument);
    let (name, text) = watched.documents().pop().unwrap();
    assert!(name == "shop.json" && text.contains(r#""weight":1"#), "{name} {text}");
    registry.tell("kill", "c1001", r#""signal":"15""#);
    let (_, text) = watched.documents().pop().unwrap();
    assert!(text.contains(r#""weight":0"#), "{text}");
    registry.publish(&[]);
    assert_eq!(watched.documents(), []);
}
