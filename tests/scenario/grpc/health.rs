//! `health.grpc`: a server of grpc-go says whether it is well.

use std::path::Path;
use std::process::Command;

use thalweg_tests::go_tool::go_program;
use thalweg_tests::process::Signal;
use thalweg_tests::{Directory, Identity, Process, Proxy, STEP};

use super::watchdog;
use crate::scenario::config;

const CHECKS: &str = "interval: 100ms, timeout: 90ms, unhealthy_after: 2, healthy_after: 2";

/// The server, and its address; through TLS with a certificate and its key.
fn server(program: &Path, certificate: &[&str]) -> (Process, String) {
    let server = Process::start(Command::new(program).args(certificate));
    let address =
        server.wait_line("its address", STEP, |line| line.strip_prefix("listens on ").map(str::to_owned));
    (server, address)
}

/// A proxy before it, which asks it so.
fn proxy(url: &str, service: &str) -> Proxy {
    let text = config(&[url], "").replace("services: { s: {", &format!("services: {{ s: {{ {service},"));
    Proxy::start(&text)
}

/// Waits until the proxy says this of the endpoint.
fn told(proxy: &Proxy, words: &str) {
    proxy.process().wait_line(words, STEP, |line| line.contains(words).then_some(()));
}

#[test]
fn a_server_of_grpc_go_is_asked_whether_it_serves() {
    let Some(program) = go_program("grpc_health") else { return };
    let _watchdog = watchdog("a_server_of_grpc_go_is_asked_whether_it_serves");
    let (server, address) = server(&program, &[]);
    for check in ["grpc: {}", "grpc: { service: shop.Cart }"] {
        let proxy = proxy(&format!("http://{address}"), &format!("health: {{ {check}, {CHECKS} }}"));
        server.signal(Signal::USR1);
        told(&proxy, "unhealthy: NOT_SERVING");
        server.signal(Signal::USR2);
        told(&proxy, "healthy again: SERVING");
    }
    let proxy = proxy(
        &format!("http://{address}"),
        &format!("health: {{ grpc: {{ service: shop.Elsewhere }}, {CHECKS} }}"),
    );
    told(&proxy, "unhealthy: the call ended with not_found");
}

#[test]
fn a_server_of_grpc_go_is_asked_through_tls() {
    let Some(program) = go_program("grpc_health") else { return };
    let _watchdog = watchdog("a_server_of_grpc_go_is_asked_through_tls");
    let directory = Directory::new();
    Identity::new(&["127.0.0.1"]).write(&directory, "web");
    let [chain, key] = ["web.pem", "web.key"].map(|name| directory.path().join(name).display().to_string());
    let (server, address) = server(&program, &[&chain, &key]);
    let keys = format!("tls: {{ ca: \"{chain}\" }}, health: {{ grpc: {{}}, {CHECKS} }}");
    let proxy = proxy(&format!("https://{address}"), &keys);
    server.signal(Signal::USR1);
    told(&proxy, "unhealthy: NOT_SERVING");
    server.signal(Signal::USR2);
    told(&proxy, "healthy again: SERVING");
}
