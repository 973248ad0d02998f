//! Servers that the world runs, each with its own idea of HTTP/1.

use std::fs;
use std::path::Path;
use std::process::Command;

use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Directory, Process, Proxy, STEP};

use super::{proxy, watchdog};

/// A folder with a small and a large file.
fn site() -> (Directory, Vec<u8>) {
    let directory = Directory::new();
    let large: Vec<u8> = (0..2_000_000_u32).map(|number| number.to_le_bytes()[0] ^ 0x5a).collect();
    directory.write("small.txt", "hello from a file\n");
    fs::write(directory.path().join("large.bin"), &large).unwrap();
    (directory, large)
}

fn serves_files(proxy: &Proxy, large: &[u8]) {
    for _ in 0..3 {
        let small = get(proxy.web(), "/small.txt").unwrap();
        assert_eq!((small.status(), small.text().as_str()), (200, "hello from a file\n"));
        assert!(get(proxy.web(), "/large.bin").unwrap().body == large, "a large body is not what was sent");
    }
    assert_eq!(get(proxy.web(), "/missing").unwrap().status(), 404);
    let head = fetch(proxy.web(), "HEAD /large.bin HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!((head.status(), head.value("content-length")), (200, Some("2000000")));
}

/// Python's `http.server`, started on a port of the kernel's choice.
fn python(folder: &Path, protocol: &str) -> Option<(Process, String)> {
    let python = find_or_skip("python3")?;
    // It tells its address on standard output; the harness waits for lines of standard error.
    let script = format!("exec '{}' -u -m http.server 0 --bind 127.0.0.1 {protocol} 1>&2", python.display());
    let process = Process::start(Command::new("sh").args(["-c", &script]).current_dir(folder));
    let port: u16 = process.wait_line("the port", STEP, |line| {
        line.strip_prefix("Serving HTTP on 127.0.0.1 port ")?.split(' ').next()?.parse().ok()
    });
    Some((process, format!("http://127.0.0.1:{port}")))
}

#[test]
fn python_http_server_works_as_an_upstream() {
    let _watchdog = watchdog("python_http_server_works_as_an_upstream");
    let (folder, large) = site();
    // 1.0 ends every response with its connection; 1.1 keeps it.
    for protocol in ["", "--protocol HTTP/1.1"] {
        let Some((_server, url)) = python(folder.path(), protocol) else { return };
        serves_files(&proxy(&[&url]), &large);
    }
}

#[test]
fn node_works_as_an_upstream() {
    let _watchdog = watchdog("node_works_as_an_upstream");
    let Some(node) = find_or_skip("node") else { return };
    let script = r#"
const http = require("http");
const server = http.createServer((request, answer) => {
  let bytes = 0;
  request.on("data", (data) => { bytes += data.length; });
  request.on("end", () => {
    if (request.url === "/hints") answer.writeEarlyHints({ link: "</a.css>; rel=preload" });
    answer.setHeader("Trailer", "X-Sum");
    answer.write(`${request.method} ${request.url} `);
    answer.write(`${bytes} ${request.headers.host} ${request.headers["x-forwarded-for"]}`);
    answer.addTrailers({ "X-Sum": "1" });
    answer.end();
  });
});
server.on("upgrade", (request, socket) => {
  socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
  socket.pipe(socket);
});
server.listen(0, "127.0.0.1", () => console.error(`port ${server.address().port}`));
"#;
    let server = Process::start(Command::new(node).args(["-e", script]));
    let port: u16 = server.wait_line("the port", STEP, |line| line.strip_prefix("port ")?.parse().ok());
    let proxy = proxy(&[&format!("http://127.0.0.1:{port}")]);
    for _ in 0..3 {
        let post = "POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";
        let answer = fetch(proxy.web(), post).unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "POST /p 5 a.test 127.0.0.1"));
    }
    let hints = fetch(proxy.web(), "GET /hints HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!((hints.status(), hints.value("link")), (103, Some("</a.css>; rel=preload")));

    let mut tunnel = thalweg_tests::Connection::open(proxy.web()).unwrap();
    tunnel.send("GET /t HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly");
    let deadline = std::time::Instant::now() + STEP;
    let kind = thalweg_tests::message::Kind::Response;
    assert_eq!(thalweg_tests::Message::read(&mut tunnel, kind, deadline).unwrap().status(), 101);
    tunnel.send(" and late");
    while tunnel.seen() != b"early and late" {
        assert_eq!(tunnel.read(deadline), thalweg_tests::connection::Event::Bytes, "{:?}", tunnel.seen());
    }
}

#[test]
fn nginx_works_as_an_upstream_over_a_unix_socket() {
    let _watchdog = watchdog("nginx_works_as_an_upstream_over_a_unix_socket");
    let Some(nginx) = find_or_skip("nginx") else { return };
    let (folder, large) = site();
    let root = folder.path().display().to_string();
    // A unix socket, because nginx cannot be given a port of the kernel's choice.
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log stderr notice;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path {root}/b; proxy_temp_path {root}/p;\n\
           fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;\n\
           server {{ listen unix:{root}/nginx.sock; root {root}; }} }}\n"
    );
    let config = folder.write("nginx.conf", &config);
    let server = Process::start(Command::new(nginx).args(["-e", "stderr", "-p", &root, "-c"]).arg(config));
    server.wait_line("the first event loop", STEP, |line| line.contains("OS: ").then_some(()));
    let proxy = proxy(&[&format!("unix:{root}/nginx.sock")]);
    serves_files(&proxy, &large);

    let range = "GET /large.bin HTTP/1.1\r\nHost: a.test\r\nRange: bytes=10-19\r\n\r\n";
    let part = fetch(proxy.web(), range).unwrap();
    assert_eq!((part.status(), part.body.as_slice()), (206, &large[10..20]));
    let etag = get(proxy.web(), "/small.txt").unwrap().value("etag").unwrap().to_owned();
    let again = format!("GET /small.txt HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: {etag}\r\n\r\n");
    let unchanged = fetch(proxy.web(), &again).unwrap();
    assert_eq!((unchanged.status(), unchanged.body.len()), (304, 0));
}
