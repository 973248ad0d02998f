//! A server of Nacos as its documentation describes it; the real one cannot be had where these tests run.

use super::gate::Gate;
use super::http_fake::{Ask, HttpFake, Reply};
use super::registry::Registry;
use super::watch::Watched;
use std::sync::{Arc, Mutex};

struct State {
    ports: Vec<u16>,
    /// The versions of the API that it has.
    versions: Vec<&'static str>,
    /// How often somebody has logged in; the last token is the good one.
    logins: usize,
}

pub(crate) struct NacosRegistry {
    server: HttpFake,
    state: Arc<Mutex<State>>,
}

impl NacosRegistry {
    fn with(versions: &[&'static str]) -> Self {
        let state = State { ports: Vec::new(), versions: versions.to_vec(), logins: 0 };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let server = HttpFake::start(move |ask| answer(ask, &mut shared.lock().unwrap()));
        Self { server, state }
    }
}

impl Registry for NacosRegistry {
    fn start() -> Self {
        Self::with(&["v1", "v2"])
    }

    fn argument(&self) -> String {
        format!(
            "nacos: {{ service: checkout, url: '{}', namespace: dev, clusters: [A], username: u, password: {{ value: p&w }},
                interval: 1s }}",
            self.server.url()
        )
    }

    fn publish(&mut self, ports: &[u16]) {
        self.state.lock().unwrap().ports = ports.to_vec();
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }
}

fn answer(ask: &Ask, state: &mut State) -> Reply {
    let has = |version| state.versions.contains(&version);
    let login = if has("v1") || has("v2") { "/nacos/v1/auth/login" } else { "/nacos/v3/auth/user/login" };
    if ask.method == "POST" && ask.path == login {
        if ask.body != "username=u&password=p%26w" {
            return Reply::of(403, "unknown user!");
        }
        state.logins += 1;
        let token = state.logins;
        return Reply::json(format!(
            r#"{{"accessToken":"token-{token}","tokenTtl":18000,"globalAdmin":false}}"#
        ));
    }
    let version = match ask.path.as_str() {
        "/nacos/v1/ns/instance/list" if has("v1") => "v1",
        "/nacos/v2/ns/instance/list" if has("v2") => "v2",
        "/nacos/v3/client/ns/instance/list" if has("v3") => "v3",
        _ => return Reply::of(404, r#"{"status":404,"error":"Not Found"}"#),
    };
    if ask.fields.get("authorization") != Some(&format!("Bearer token-{}", state.logins)) {
        return Reply::of(403, "token invalid!");
    }
    let clusters = if version == "v1" { "clusters" } else { "clusterName" };
    let wanted = [
        ("serviceName", "checkout"),
        ("groupName", "DEFAULT_GROUP"),
        ("namespaceId", "dev"),
        (clusters, "A"),
    ];
    for (name, value) in wanted {
        assert_eq!(ask.parameter(name), Some(value));
    }
    let mut hosts: Vec<_> = state.ports.iter().map(|port| host(*port, true)).collect();
    hosts.push(host(9, false));
    let hosts = hosts.join(",");
    let list = format!(r#"{{"name":"DEFAULT_GROUP@@checkout","cacheMillis":10000,"hosts":[{hosts}]}}"#);
    Reply::json(match version {
        "v1" => list,
        "v2" => format!(r#"{{"code":0,"message":"success","data":{list}}}"#),
        _ => format!(r#"{{"code":0,"message":"success","data":[{hosts}]}}"#),
    })
}

fn host(port: u16, is_healthy: bool) -> String {
    format!(
        r#"{{"instanceId":"127.0.0.1#{port}","ip":"127.0.0.1","port":{port},"weight":1.0,"healthy":{is_healthy},
            "enabled":true,"ephemeral":true,"clusterName":"A","serviceName":"DEFAULT_GROUP@@checkout","metadata":{{}}}}"#
    )
}

#[test]
fn a_server_without_the_first_version_is_asked_by_the_second_or_third() {
    for versions in [&["v2"], &["v3"]] {
        let mut registry = NacosRegistry::with(versions);
        registry.publish(&[1001]);
        assert_eq!(Watched::start(&registry).ports(), [1001]);
    }
}

#[test]
fn a_token_that_is_not_known_any_more_is_got_anew() {
    let mut registry = NacosRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001]);
    registry.state.lock().unwrap().logins = 5;
    registry.publish(&[1002]);
    assert_eq!(watched.ports(), [1002], "without a failure");
    assert_eq!(registry.state.lock().unwrap().logins, 6);
}

#[test]
fn a_server_that_comes_back_empty_takes_no_endpoint_away() {
    let mut registry = NacosRegistry::start();
    registry.publish(&[1001, 1002, 1003]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001, 1002, 1003]);
    registry.cut();
    watched.failure();
    registry.publish(&[]);
    registry.mend();
    // The next set is the one that has a new instance; the old ones are in it.
    while watched.status().failure.is_some() {
        assert!(!matches!(watched.next(std::time::Duration::from_millis(100)), super::watch::Told::Ports(_)));
    }
    registry.publish(&[1004]);
    assert_eq!(watched.until_ports(), [1001, 1002, 1003, 1004]);
    registry.publish(&[1002, 1003, 1004]);
    assert_eq!(watched.until_ports(), [1002, 1003, 1004]);
}
