//! An agent of Consul as its documentation describes it; the real one cannot be had where these tests run. Blocking
//! queries hold the index of what is asked for, answer when it moves on or the time is over, and one change of what
//! else the agent knows wakes them for nothing.

use super::gate::Gate;
use super::http_fake::{Ask, HttpFake, Reply};
use super::registry::Registry;
use super::watch::Watched;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    index: u64,
    ports: Vec<u16>,
    /// How often it was asked since the last change.
    asked: usize,
    /// The token has lost its rights: the list is empty, and only a field says why.
    sees_nothing: bool,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

pub(crate) struct ConsulRegistry {
    server: HttpFake,
    shared: Shared,
}

impl Registry for ConsulRegistry {
    fn start() -> Self {
        let shared: Shared = Arc::new((Mutex::new(State { index: 7, ..State::default() }), Condvar::new()));
        let state = shared.clone();
        let server = HttpFake::start(move |ask| answer(ask, &state));
        Self { server, shared }
    }

    fn argument(&self) -> String {
        format!(
            "consul: {{ service: check out, url: '{}', wait: 1s, tags: v2, token: {{ value: s3cret }} }}",
            self.server.url()
        )
    }

    fn publish(&mut self, ports: &[u16]) {
        let mut state = self.shared.0.lock().unwrap();
        assert!(state.asked < 500, "asked {} times since the last change: a loop that is busy", state.asked);
        *state = State { index: state.index + 3, ports: ports.to_vec(), ..State::default() };
        self.shared.1.notify_all();
    }

    fn mend(&mut self) {
        // A restored snapshot: the index goes back.
        let mut state = self.shared.0.lock().unwrap();
        state.index = 2;
        drop(state);
        self.shared.1.notify_all();
        self.server.gate.mend();
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }
}

fn answer(ask: &Ask, shared: &Shared) -> Reply {
    if ask.fields.get("x-consul-token").map(String::as_str) != Some("s3cret") {
        return Reply::of(403, "ACL not found");
    }
    if ask.method != "GET" || ask.path != "/v1/health/service/check out" || ask.parameter("passing").is_none()
    {
        return Reply::of(404, "no such path");
    }
    assert_eq!(ask.parameter("tag"), Some("v2"));
    let known: u64 = ask.parameter("index").map_or(0, |index| index.parse().unwrap());
    let wait: u64 = ask.parameter("wait").and_then(|wait| wait.strip_suffix("ms")).unwrap().parse().unwrap();
    let deadline = Instant::now() + Duration::from_millis(wait + wait / 16);
    let mut state = shared.0.lock().unwrap();
    state.asked += 1;
    // It waits only while nothing is newer; without an index, or with one of the future, it answers at once.
    while known != 0 && state.index == known {
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            break;
        }
        state = shared.1.wait_timeout(state, rest).unwrap().0;
    }
    if state.sees_nothing {
        let empty = Reply::json("[]").with("x-consul-index", state.index);
        return empty.with("x-consul-results-filtered-by-acls", true);
    }
    let entries: Vec<_> = state.ports.iter().map(entry).collect();
    Reply::json(format!("[{}]", entries.join(","))).with("x-consul-index", state.index)
}

fn entry(port: &u16) -> String {
    format!(
        r#"{{"Node":{{"Node":"n1","Address":"127.0.0.1","Datacenter":"dc1"}},
            "Service":{{"ID":"c{port}","Service":"check out","Tags":["v2"],"Address":"","Port":{port},
            "Meta":{{"zone":"a"}},"Weights":{{"Passing":10,"Warning":1}}}},
            "Checks":[{{"CheckID":"serfHealth","Status":"passing"}}]}}"#
    )
}

#[test]
fn a_token_that_has_lost_its_rights_takes_no_endpoint_away() {
    let mut registry = ConsulRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001]);
    let mut state = registry.shared.0.lock().unwrap();
    (state.sees_nothing, state.index) = (true, state.index + 1);
    drop(state);
    registry.shared.1.notify_all();
    assert!(watched.failure().contains("service:read"));
    registry.publish(&[1001, 1002]);
    assert_eq!(watched.until_ports(), [1001, 1002]);
}
