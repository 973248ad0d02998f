//! A server of Eureka with its odd JSON: a list of one is an object, and truth values are texts. Scenarios run the real
//! one.

use super::gate::Gate;
use super::http_fake::{Ask, HttpFake, Reply};
use super::registry::Registry;
use super::watch::Here;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_discovery::{EurekaRegistrationSpec, Heartbeat, RegistrationSpec, Registrations};

#[derive(Default)]
struct State {
    /// By port, when each was changed.
    ports: BTreeMap<u16, u64>,
    /// What has changed lately: the port, when, and how.
    changes: Vec<(u16, u64, &'static str)>,
    clock: u64,
    /// What clients registered, by path.
    registered: BTreeMap<String, String>,
    asked: Vec<String>,
}

pub(crate) struct EurekaRegistry {
    server: HttpFake,
    state: Arc<Mutex<State>>,
}

impl Registry for EurekaRegistry {
    fn start() -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        let server = HttpFake::start(move |ask| answer(ask, &mut shared.lock().unwrap()));
        Self { server, state }
    }

    fn argument(&self) -> String {
        format!(
            "eureka: {{ app: checkout, url: '{}/eureka/', interval: 1s, username: u, password: {{ value: p }} }}",
            self.server.url()
        )
    }

    fn publish(&mut self, ports: &[u16]) {
        let mut state = self.state.lock().unwrap();
        state.clock += 1;
        let (now, before) = (state.clock, state.ports.clone());
        state.ports = ports.iter().map(|port| (*port, before.get(port).copied().unwrap_or(now))).collect();
        let added = ports.iter().filter(|port| !before.contains_key(port)).map(|port| (*port, now, "ADDED"));
        let gone = before.keys().filter(|port| !ports.contains(port)).map(|port| (*port, now, "DELETED"));
        let changes: Vec<_> = added.chain(gone).collect();
        state.changes.retain(|(port, ..)| changes.iter().all(|(other, ..)| other != port));
        state.changes.extend(changes);
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }
}

fn answer(ask: &Ask, state: &mut State) -> Reply {
    // u:p
    if ask.fields.get("authorization").map(String::as_str) != Some("Basic dTpw") {
        return Reply::of(401, "");
    }
    assert_eq!(ask.fields["accept"], "application/json");
    let Some(path) = ask.path.strip_prefix("/eureka/apps") else { return Reply::of(404, "") };
    state.asked.push(format!("{} {path}", ask.method));
    match (ask.method.as_str(), path) {
        ("GET", "") => {
            let all: Vec<_> =
                state.ports.iter().map(|(port, updated)| instance(*port, *updated, "ADDED")).collect();
            applications(state, &all, true)
        }
        ("GET", "/delta") => {
            let all: Vec<_> =
                state.changes.iter().map(|(port, updated, how)| instance(*port, *updated, how)).collect();
            applications(state, &all, false)
        }
        ("POST", "/GATEWAY") => {
            let body: serde_json::Value = serde_json::from_str(&ask.body).unwrap();
            let id = body["instance"]["instanceId"].as_str().unwrap();
            state.registered.insert(format!("{path}/{id}"), ask.body.clone());
            Reply::of(204, "")
        }
        ("PUT", own) => Reply::of(if state.registered.contains_key(own) { 200 } else { 404 }, ""),
        ("DELETE", own) => Reply::of(if state.registered.remove(own).is_some() { 200 } else { 404 }, ""),
        _ => Reply::of(404, ""),
    }
}

/// One that is down belongs to another application; changes do not tell of it.
fn applications(state: &State, instances: &[String], is_whole: bool) -> Reply {
    let count = match state.ports.len() {
        0 => "DOWN_1_".to_owned(),
        count => format!("DOWN_1_UP_{count}_"),
    };
    let mut apps = Vec::new();
    if is_whole {
        let down = instance(9, 0, "ADDED").replace(r#""UP""#, r#""DOWN""#);
        apps.push(format!(r#"{{"name":"OTHER","instance":{down}}}"#));
    }
    match instances {
        [] => {}
        [one] => apps.push(format!(r#"{{"name":"CHECKOUT","instance":{one}}}"#)),
        many => apps.push(format!(r#"{{"name":"CHECKOUT","instance":[{}]}}"#, many.join(","))),
    }
    let apps = if apps.len() == 1 { apps.remove(0) } else { format!("[{}]", apps.join(",")) };
    Reply::json(format!(
        r#"{{"applications":{{"versions__delta":"1","apps__hashcode":"{count}","application":{apps}}}}}"#
    ))
}

fn instance(port: u16, updated: u64, how: &str) -> String {
    format!(
        r#"{{"instanceId":"i-{port}","hostName":"h","ipAddr":"127.0.0.1","status":"UP",
            "port":{{"$":{port},"@enabled":"true"}},"securePort":{{"$":443,"@enabled":"false"}},
            "metadata":{{"@class":"java.util.Collections$EmptyMap"}},"lastUpdatedTimestamp":"{updated}",
            "actionType":"{how}"}}"#
    )
}

#[test]
fn thalweg_registers_again_when_a_server_does_not_know_it_and_leaves_when_it_drains() {
    let registry = EurekaRegistry::start();
    let spec: EurekaRegistrationSpec = serde_saphyr::from_str(&format!(
        "{{ url: '{}/eureka', username: u, password: {{ value: p }}, app: gateway, host: 10.0.0.5, port: 8080,
            interval: 1s, health_path: /ready, metadata: {{ zone: a }} }}",
        registry.server.url()
    ))
    .unwrap();
    let registration = spec.build(&Here).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let own = "/GATEWAY/10.0.0.5:gateway:8080";
    let registered = || registry.state.lock().unwrap().registered.get(own).cloned();
    let told = Mutex::new(Vec::new());
    let drain = async {
        until(|| registered().is_some()).await;
        let body: serde_json::Value = serde_json::from_str(&registered().unwrap()).unwrap();
        let instance = &body["instance"];
        assert_eq!(instance["healthCheckUrl"], "http://10.0.0.5:8080/ready");
        assert_eq!((&instance["port"]["$"], &instance["metadata"]["zone"]), (&8080.into(), &"a".into()));
        assert_eq!(instance["leaseInfo"]["durationInSecs"], 3);
        // The server forgets all.
        registry.state.lock().unwrap().registered.clear();
        until(|| registered().is_some()).await;
        registry.server.gate.cut();
        until(|| told.lock().unwrap().len() == 2).await;
        registry.server.gate.mend();
        registry.state.lock().unwrap().registered.clear();
        // The server knows it before it has heard the answer.
        until(|| told.lock().unwrap().len() == 3 && registered().is_some()).await;
    };
    runtime.block_on(registration.keep(drain, |result| told.lock().unwrap().push(result.is_ok())));
    assert_eq!(registered(), None, "it has left");
    assert_eq!(*told.lock().unwrap(), [true, false, true]);
    assert_eq!(runtime.block_on(registration.heartbeat()), Ok(Heartbeat::Unknown));
    assert_eq!(runtime.block_on(registration.deregister()), Ok(()), "one that is not there is off");
}

#[test]
fn registrations_that_stay_are_undisturbed_and_others_leave() {
    let registry = EurekaRegistry::start();
    let of_zone = |port: u16, zone: &str| {
        let yaml = format!(
            "eureka: {{ url: '{}/eureka', username: u, password: {{ value: p }}, app: gateway, host: h, port: {port},
                metadata: {{ zone: {zone} }} }}",
            registry.server.url()
        );
        let spec: RegistrationSpec = serde_saphyr::from_str(&yaml).unwrap();
        Arc::new(spec.build(&Here).unwrap())
    };
    let of = |port| of_zone(port, "a");
    let paths = || registry.state.lock().unwrap().registered.keys().cloned().collect::<Vec<_>>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut registrations = Registrations::default();
        registrations.keep(&[of(1), of(2)]);
        for _ in 0..2 {
            assert_eq!(registrations.next().await.failure, None);
        }
        assert_eq!(paths(), ["/GATEWAY/h:gateway:1", "/GATEWAY/h:gateway:2"]);
        registrations.keep(&[of(2), of(3)]);
        until(|| paths() == ["/GATEWAY/h:gateway:2", "/GATEWAY/h:gateway:3"]).await;
        let registered = |state: &State| state.asked.iter().filter(|line| *line == "POST /GATEWAY").count();
        assert_eq!(registered(&registry.state.lock().unwrap()), 3, "the second is registered once");
        // With other words in the same place: it is never away.
        registrations.keep(&[of(2), of_zone(3, "b")]);
        until(|| registry.state.lock().unwrap().registered["/GATEWAY/h:gateway:3"].contains("\"b\"")).await;
        assert!(!registry.state.lock().unwrap().asked.contains(&"DELETE /GATEWAY/h:gateway:3".to_owned()));
        registrations.leave().await;
        assert!(paths().is_empty());
    });
}

#[test]
fn a_registration_that_nobody_could_use_is_refused() {
    for bad in
        ["{ app: '', host: h, port: 1 }", "{ app: a, host: h/x, port: 1 }", "{ app: a, host: h, port: 0 }"]
    {
        let spec: EurekaRegistrationSpec = serde_saphyr::from_str(bad).unwrap();
        assert!(spec.build(&Here).is_err(), "{bad}");
    }
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never was so");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
