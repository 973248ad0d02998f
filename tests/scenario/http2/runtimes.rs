//! The libraries behind most clients, speaking HTTP/2: Go's net/http, the JDK's java.net.http, Python's httpx and h2.
//! The service that they ask stands in [`crate::scenario::runtimes`].

use std::process::Command;

use thalweg_tests::program::run;
use thalweg_tests::python_tool::python_tool;
use thalweg_tests::{Directory, Proxy, Watchdog};

use super::{config, h2c};
use crate::scenario::runtimes::{CLIENT, LIMIT, built, counted, java, service, source, succeeds};
use crate::scenario::tls;

/// Runs a client before a proxy that takes HTTP/2 without TLS, and wants it content.
fn satisfies(client: &mut Command, more: &[&str]) -> Proxy {
    let upstream = service();
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    succeeds(&run(client.arg(format!("http://{}", proxy.web())).args(more), CLIENT), "all served\n");
    proxy
}

/// The same through TLS; the client gets `more` and the certificate's file as further arguments.
fn satisfies_through_tls(client: &mut Command, more: &[&str]) -> Proxy {
    let upstream = service();
    let proxy = tls::proxy(&[&upstream.url()]);
    client.arg(format!("https://{}", proxy.web())).args(more).arg(proxy.directory().join("web.pem"));
    succeeds(&run(client, CLIENT), "all served\n");
    proxy
}

/// Each client keeps to one connection.
fn used(proxy: &Proxy, connections: f64) {
    assert_eq!(counted(proxy, "thalweg_connections_total"), connections);
}

#[test]
fn go_client_is_served_over_http2() {
    let _watchdog = Watchdog::new("go_client_is_served_over_http2", LIMIT);
    let folder = Directory::new();
    let Some(client) = built("client.go", folder.path()) else { return };
    used(&satisfies_through_tls(&mut Command::new(&client), &["h2"]), 1.0);
    used(&satisfies(&mut Command::new(&client), &["h2c"]), 1.0);
}

#[test]
fn java_client_is_served_over_http2() {
    let _watchdog = Watchdog::new("java_client_is_served_over_http2", LIMIT);
    let Some(mut client) = java("Client.java") else { return };
    used(&satisfies_through_tls(&mut client, &["h2"]), 1.0);
}

/// Without TLS it offers, by default, to change from HTTP/1.1 to HTTP/2, which nobody has to take up (RFC 9113 §3.1).
#[test]
fn java_client_that_offers_an_upgrade_to_http2_is_served_over_http1() {
    let _watchdog = Watchdog::new("java_client_that_offers_an_upgrade_to_http2_is_served_over_http1", LIMIT);
    let Some(mut client) = java("Client.java") else { return };
    satisfies(&mut client, &["upgrade"]);
}

#[test]
fn python_client_is_served_over_http2() {
    let _watchdog = Watchdog::new("python_client_is_served_over_http2", LIMIT);
    let python = || {
        let mut python = python_tool(&["httpx[http2]==0.28.1"])?;
        python.arg(source("client.py"));
        Some(python)
    };
    let (Some(mut plain), Some(mut secure)) = (python(), python()) else { return };
    // One for what comes one after another, one for what comes together, one for the trailers.
    used(&satisfies(&mut plain, &[]), 3.0);
    used(&satisfies_through_tls(&mut secure, &[]), 3.0);
}
