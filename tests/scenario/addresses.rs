//! Where the proxy listens and where it goes: unix sockets, both families, host names.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::Command;
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Directory, Proxy, STEP, Upstream};

use super::{config, proxy, watchdog};

#[test]
fn a_listener_may_be_a_unix_socket() {
    let _watchdog = watchdog("a_listener_may_be_a_unix_socket");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let socket = directory.path().join("web.sock").display().to_string();
    let text = config(&[&upstream.url()], "");
    let text =
        text.replace("web: { address: \"127.0.0.1:0\" }", &format!("web: {{ address: \"unix:{socket}\" }}"));
    let _proxy = Proxy::start_in(directory, &text);
    let finished = run(
        Command::new(curl).args(["-sS", "--unix-socket", &socket, "http://a.test/"]),
        Duration::from_secs(20),
    );
    assert_eq!((finished.code, finished.stdout.as_str()), (0, "hello"), "{}", finished.stderr);
}

#[test]
fn a_listener_without_a_host_takes_both_families() {
    let _watchdog = watchdog("a_listener_without_a_host_takes_both_families");
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let upstream = Upstream::saying("hello");
    let text = config(&[&upstream.url()], "")
        .replace("web: { address: \"127.0.0.1:0\" }", "web: { address: \":0\" }");
    let proxy = Proxy::start(&text);
    let port = proxy.web().port();
    assert_eq!(get((Ipv4Addr::LOCALHOST, port).into(), "/").unwrap().text(), "hello");
    assert_eq!(get((Ipv6Addr::LOCALHOST, port).into(), "/").unwrap().text(), "hello");
}

#[test]
fn an_endpoint_may_be_a_host_name() {
    let _watchdog = watchdog("an_endpoint_may_be_a_host_name");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&format!("http://localhost:{}", upstream.address().port())]);
    let end = std::time::Instant::now() + STEP;
    // Resolved by the control thread: the first answers may come before the address is known.
    while get(proxy.web(), "/").unwrap().text() != "hello" {
        assert!(std::time::Instant::now() < end, "localhost is not resolved");
    }
}
