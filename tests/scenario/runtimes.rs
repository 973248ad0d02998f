//! Go's net/http and the JDK's java.net.http on either side of the proxy: the libraries behind most clients and
//! services, with connection pools, uploads and interim responses of their own.
//!
//! The programs stand in `tests/programs/`. All of them agree on one small service, which the harness serves too:
//!
//! | target | answer |
//! |---|---|
//! | `/echo/…` | method, target and number of bytes of the body, with a length |
//! | `/chunks` | the same in chunks, and a trailer `X-Sum`: those bytes and the request's trailer `X-Check` |
//! | `/empty` | 204 |
//! | `/large` | [`LARGE`] bytes, each its place modulo 251 |
//! | `/early` | 413 before the body is read, and the end of the connection |

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::program::{Finished, find_or_skip, run};
use thalweg_tests::talk::{chunk, wait_hang_up};
use thalweg_tests::{Bare, Directory, Process, Proxy, STEP, Talk, Watchdog};

use super::proxy;

/// Bytes of the body under `/large`.
const LARGE: usize = 10_000_000;
/// Most that building a program may take: the first time Go compiles its library too.
const BUILD: Duration = Duration::from_secs(180);
/// Most that a client may take for all it does.
pub(super) const CLIENT: Duration = Duration::from_secs(60);
/// Most that a test may take.
pub(super) const LIMIT: Duration = Duration::from_secs(280);
/// A small virtual machine that starts soon: several may run beside other tests.
const JAVA: &[&str] = &["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

pub(super) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

/// Builds a Go program of one file into `folder`; `None` without Go.
pub(super) fn built(name: &str, folder: &Path) -> Option<PathBuf> {
    let go = find_or_skip("go")?;
    let program = folder.join(name.trim_end_matches(".go"));
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg(source(name)).current_dir(folder);
    // One file and the standard library: nothing is fetched, and no C compiler is needed.
    for (variable, value) in
        [("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("CGO_ENABLED", "0")]
    {
        command.env(variable, value);
    }
    succeeds(&run(&mut command, BUILD), "");
    Some(program)
}

/// A Java program of one file, compiled as it is started; `None` without a JDK.
pub(super) fn java(name: &str) -> Option<Command> {
    // Only a JDK has a compiler.
    find_or_skip("javac")?;
    let mut command = Command::new(find_or_skip("java")?);
    command.args(JAVA).arg(source(name));
    Some(command)
}

pub(super) fn succeeds(finished: &Finished, stdout: &str) {
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (0, stdout),
        "its standard error:\n{}",
        finished.stderr
    );
}

/// Starts a server that says its port; its URL.
fn served(command: &mut Command) -> (Process, String) {
    let server = Process::start(command);
    let port: u16 = server.wait_line("the port", CLIENT, |line| line.strip_prefix("port ")?.parse().ok());
    (server, format!("http://127.0.0.1:{port}"))
}

/// The service, served by the harness.
pub(super) fn service() -> Bare {
    Bare::start(|talk| {
        while answer(talk)? {}
        Ok(())
    })
}

/// Answers one request; whether another may follow.
fn answer(talk: &mut Talk) -> io::Result<bool> {
    let head = talk.head()?;
    let (method, target) = (head.start.split(' ').next().unwrap_or_default(), head.target());
    if target == "/early" {
        talk.send(
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large",
        )?;
        // What it has not read must not break the answer off: it closes when the proxy does.
        talk.half_close();
        wait_hang_up(talk.stream(), STEP);
        return Ok(false);
    }
    if head.value("expect").is_some() {
        talk.send("HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = talk.body(&head);
    let bytes = body.each(|_| {})?;
    let check = body.trailer("x-check").unwrap_or_default().to_owned();
    let text = format!("{method} {target} {bytes}");
    match target {
        "/empty" => talk.send("HTTP/1.1 204 No Content\r\n\r\n")?,
        "/large" => {
            let body: Vec<u8> = (0..LARGE).map(|at| (at % 251).to_le_bytes()[0]).collect();
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"))?;
            talk.send(body)?;
        }
        "/chunks" => {
            talk.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")?;
            talk.send(chunk(text.as_bytes()))?;
            talk.send(format!("0\r\nX-Sum: {bytes} {check}\r\n\r\n"))?;
        }
        _ => {
            let body = if method == "HEAD" { "" } else { &text };
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", text.len()))?;
        }
    }
    Ok(true)
}

/// Runs a client before a proxy before `upstream`, and wants it content.
fn satisfies(client: &mut Command, upstream: &str) -> Proxy {
    let proxy = proxy(&[upstream]);
    let finished = run(client.arg(format!("http://{}", proxy.web())), CLIENT);
    succeeds(&finished, "all served\n");
    proxy
}

/// The sum of the samples of a counter.
pub(super) fn counted(proxy: &Proxy, metric: &str) -> f64 {
    let text = get(proxy.metrics(), "/metrics").unwrap().text();
    let samples = text.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn go_client_is_served() {
    let _watchdog = Watchdog::new("go_client_is_served", LIMIT);
    let folder = Directory::new();
    let Some(client) = built("client.go", folder.path()) else { return };
    let upstream = service();
    satisfies(&mut Command::new(client), &upstream.url());
}

#[test]
fn go_server_works_as_an_upstream() {
    let _watchdog = Watchdog::new("go_server_works_as_an_upstream", LIMIT);
    let folder = Directory::new();
    let Some(server) = built("server.go", folder.path()) else { return };
    let Some(client) = built("client.go", folder.path()) else { return };
    let (_server, url) = served(&mut Command::new(server));
    satisfies(&mut Command::new(client), &url);
}

#[test]
fn java_client_is_served() {
    let _watchdog = Watchdog::new("java_client_is_served", LIMIT);
    let Some(mut client) = java("Client.java") else { return };
    let upstream = service();
    let proxy = satisfies(&mut client, &upstream.url());
    // It cannot tell whether it kept its connections, but the proxy can: 1,061 requests, 100 of them at once.
    let connections = counted(&proxy, "thalweg_connections_total");
    assert!(connections <= 300.0, "{connections} connections");
}

#[test]
fn java_server_works_as_an_upstream() {
    let _watchdog = Watchdog::new("java_server_works_as_an_upstream", LIMIT);
    let Some(mut server) = java("Server.java") else { return };
    let Some(mut client) = java("Client.java") else { return };
    let (_server, url) = served(&mut server);
    let proxy = proxy(&[&url]);
    // The JDK's server keeps its small body back until its head has been acknowledged (Nagle), and resets the
    // connection when it closes with an unread upload: its early response may be lost before anybody can relay it.
    let finished = run(client.arg(format!("http://{}", proxy.web())).arg("no early response"), CLIENT);
    succeeds(&finished, "all served\n");
}
