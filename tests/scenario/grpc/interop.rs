//! gRPC's own interoperability tests: grpc-go's client and server, with the proxy between them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use thalweg_tests::go_tool::{go_program, go_tool};
use thalweg_tests::program::run;
use thalweg_tests::{Directory, Identity, Process, Proxy, STEP};

use super::watchdog;
use crate::scenario::config;
use crate::scenario::http2::h2c;

/// Those that concern who stands between: neither the credentials of a cloud nor what a client keeps for itself.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];
/// A case takes a fraction of a second.
const TIME: Duration = Duration::from_secs(30);

pub(in crate::scenario) fn client() -> Option<PathBuf> {
    go_tool("google.golang.org/grpc/interop/client", "v1.81.1")
}

/// Builds both ends, which takes minutes where the compiler's cache is empty: that is no part of a test's time. False:
/// they cannot be built here.
pub(in crate::scenario) fn is_built() -> bool {
    go_program("grpc_interop").is_some() && client().is_some()
}

/// The server, and its address; through TLS with a certificate and its key.
pub(in crate::scenario) fn server(certificate: &[&Path]) -> Option<(Process, String)> {
    let server = Process::start(Command::new(go_program("grpc_interop")?).args(certificate));
    let address =
        server.wait_line("its address", STEP, |line| line.strip_prefix("listens on ").map(str::to_owned));
    Some((server, address))
}

/// Runs all cases against the proxy.
fn pass(what: &str, proxy: &Proxy, more: &[String]) {
    let Some(client) = client() else { return };
    let port = format!("--server_port={}", proxy.web().port());
    thread::scope(|scope| {
        for case in CASES {
            let mut command = Command::new(&client);
            command.args(["--server_host=127.0.0.1", &port, &format!("--test_case={case}")]).args(more);
            scope.spawn(move || {
                let ran = run(&mut command, TIME);
                assert_eq!(ran.code, 0, "{what}, {case}: {}", ran.stderr);
            });
        }
    });
}

fn speaking(protocol: &str, url: &str) -> String {
    config(&[url], "").replace("services: { s: {", &format!("services: {{ s: {{ protocol: {protocol},"))
}

#[test]
fn grpc_go_passes_in_the_clear_and_through_a_hop_of_http_1() {
    if !is_built() {
        return;
    }
    let _watchdog = watchdog("grpc_go_passes_in_the_clear_and_through_a_hop_of_http_1");
    let Some((_server, address)) = server(&[]) else { return };
    let proxy = Proxy::start(&h2c(&speaking("http2", &format!("http://{address}"))));
    pass("h2c", &proxy, &[]);
    // Trailers, statuses in heads and streams in both directions at once survive HTTP/1.1 between two proxies.
    let front = Proxy::start(&h2c(&speaking("http1", &format!("http://{}", proxy.web()))));
    pass("h2c over HTTP/1.1", &front, &[]);
}

#[test]
fn grpc_go_passes_through_tls_on_both_sides() {
    if !is_built() {
        return;
    }
    let _watchdog = watchdog("grpc_go_passes_through_tls_on_both_sides");
    let directory = Directory::new();
    let identity = Identity::new(&["127.0.0.1", "localhost"]);
    let certificate = identity.write(&directory, "web");
    let path = directory.path().to_owned();
    let Some((_server, address)) = server(&[&path.join("web.pem"), &path.join("web.key")]) else { return };
    let plain = "web: { address: \"127.0.0.1:0\"";
    let trusted = format!("tls: {{ ca: \"{}\" }}, ", path.join("web.pem").display());
    let text = config(&[&format!("https://{address}")], "")
        .replace(plain, &format!("{plain}, tls: {{ certificates: [ {certificate} ] }}"))
        .replace("services: { s: {", &format!("services: {{ s: {{ {trusted}"));
    let proxy = Proxy::start_in(directory, &text);
    let more = ["--use_tls=true", "--use_test_ca=true", "--server_host_override=localhost"];
    let mut more: Vec<_> = more.map(str::to_owned).into();
    more.push(format!("--ca_file={}", path.join("web.pem").display()));
    pass("TLS", &proxy, &more);
}
