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

    fn documents(&self) -> String {
        let url = self.server.url();
        format!(
            "consul: {{ prefix: 'thalweg/my routes/', url: '{url}', wait: 1s, token: {{ value: s3cret }} }}"
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
    let is_keys = ask.path == "/v1/kv/thalweg/my routes/" && ask.parameter("recurse").is_some();
    let is_health = ask.path == "/v1/health/service/check out" && ask.parameter("passing").is_some();
    if ask.method != "GET" || !(is_keys || is_health) {
        return Reply::of(404, "no such path");
    }
    assert!(is_keys || ask.parameter("tag") == Some("v2"));
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
    let ports = if state.sees_nothing { &[] } else { &*state.ports };
    let entries: Vec<_> = ports.iter().map(if is_keys { key } else { entry }).collect();
    let reply = match &*entries {
        // Where there are no keys, it says 404 and nothing else.
        [] if is_keys => Reply::of(404, ""),
        entries => Reply::json(format!("[{}]", entries.join(","))),
    };
    let reply = reply.with("x-consul-index", state.index);
    if state.sees_nothing { reply.with("x-consul-results-filtered-by-acls", true) } else { reply }
}

/// A key with a document, behind a folder.
fn key(port: &u16) -> String {
    use base64::Engine as _;
    let document = format!("routes: [ {{ name: r{port}, to: [ 'http://127.0.0.1:{port}' ] }} ]\n");
    let value = base64::engine::general_purpose::STANDARD.encode(document);
    let of = |key: &str, value: &str| {
        format!(
            r#"{{"LockIndex":0,"Key":"thalweg/my routes/{key}","Flags":0,"Value":{value},"CreateIndex":5,"ModifyIndex":5}}"#
        )
    };
    format!(
        "{},{}",
        of(&format!("f{port}/"), "null"),
        of(&format!("f{port}/r.yaml"), &format!("\"{value}\""))
    )
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

#[test]
fn documents_are_keys_by_their_names_and_a_token_without_rights_takes_none_away() {
    let mut registry = ConsulRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::documents_of(&registry.documents());
    let document = "routes: [ { name: r1001, to: [ 'http://127.0.0.1:1001' ] } ]\n";
    assert_eq!(watched.documents(), [("f1001/r.yaml".to_owned(), document.to_owned())]);
    let mut state = registry.shared.0.lock().unwrap();
    (state.sees_nothing, state.index) = (true, state.index + 1);
    drop(state);
    registry.shared.1.notify_all();
    assert!(watched.failure().contains("key_prefix"));
    registry.publish(&[1001, 1002]);
    assert_eq!(watched.until_ports(), [1001, 1002]);
}
