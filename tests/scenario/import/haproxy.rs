//! HAProxy beside Thalweg.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use thalweg_tests::program::find_or_skip;
use thalweg_tests::secure::Identity;
use thalweg_tests::{Directory, Message, Process, STEP};

use super::side::{Original, free_port};
use super::watchdog;

const HAPROXY: Original =
    Original { name: "haproxy", listening_at, start, prepare, is_recorded: false, is_own_page };

fn prepare(directory: &Directory) {
    let root = directory.path();
    fs::create_dir_all(root.join("ssl")).unwrap();
    fs::create_dir_all(root.join("errors")).unwrap();
    for (name, text) in [
        (
            "errors/503.http",
            "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n<h1>sorry</h1>\n",
        ),
        ("errors/403.http", "HTTP/1.0 403 Forbidden\r\nContent-Type: text/html\r\n\r\n<h1>closed</h1>\n"),
        ("office.lst", "# networks\n127.0.0.0/8\n192.0.2.7\n"),
        ("hosts.lst", "a.example\nb.example\n"),
        ("robots.lst", "badbot\ncrawler\n"),
        ("page.html", "<h1>page</h1>\n"),
        ("geo.lst", "203.0.113.0/24 XX\n"),
        ("hosts.map", "b.example two\n"),
    ] {
        directory.write(name, text);
    }
    Identity::shared().write_into(&root.join("ssl"), "site");
    let read = |name: &str| fs::read_to_string(root.join("ssl").join(name)).unwrap();
    let both = read("site.pem") + &read("site.key");
    fs::write(root.join("ssl/both.pem"), both).unwrap();
}

/// Addresses of `bind` become the test's; lines of logs and of the process's own files go.
fn listening_at(text: &str, ip: IpAddr) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix("bind ") else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        let (addresses, options) = rest.split_once(' ').unwrap_or((rest, ""));
        let moved: Vec<String> = addresses
            .split(',')
            .map(|address| match address.rsplit(':').next().and_then(|port| port.parse().ok()) {
                Some(port) => format!("{ip}:{}", free_port(port)),
                None => address.to_owned(),
            })
            .collect();
        let _ = writeln!(out, "    bind {} {options}", moved.join(","));
    }
    out
}

fn start(_: &Directory, main: &Path, ip: IpAddr) -> Option<Process> {
    let haproxy = find_or_skip("haproxy")?;
    let text = fs::read_to_string(main).unwrap();
    let is_own = |line: &&str| {
        let line = line.trim_start();
        let words = ["group ", "chroot ", "daemon", "pidfile ", "log ", "stats socket "];
        // Users of lists have a password.
        let is_user = line.starts_with("user ") && !line.contains("password");
        !is_user && !words.iter().any(|word| line.starts_with(word))
    };
    let text = text.lines().filter(is_own).fold(String::new(), |out, line| out + line + "\n");
    fs::write(main, &text).unwrap();
    let server = Process::start(Command::new(haproxy).args(["-db", "-f"]).arg(main));
    // It says nothing when it is ready: it is when its first listener takes a connection.
    let begin = format!("bind {ip}:");
    let port = text.lines().find_map(|line| line.trim_start().strip_prefix(begin.as_str())).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let address = SocketAddr::new(ip, port.parse().unwrap());
    let end = Instant::now() + STEP;
    while TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_err() {
        assert!(server.is_running(), "haproxy has ended: {}", server.stderr());
        assert!(Instant::now() < end, "haproxy does not listen on {address}: {}", server.stderr());
        std::thread::yield_now();
    }
    Some(server)
}

fn is_own_page(message: &Message) -> bool {
    let is_redirect = (300..400).contains(&message.status()) && message.body.is_empty();
    let text = message.text();
    is_redirect
        || text.starts_with("<html><body><h1>")
        || (message.body.is_empty() && message.status() >= 400)
}

#[test]
fn what_becomes_of_a_request_is_what_haproxy_did() {
    let _watchdog = watchdog("what_becomes_of_a_request_is_what_haproxy_did");
    super::play(&HAPROXY, 30);
}
