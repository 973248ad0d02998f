//! Clients that the world uses, each with its own idea of HTTP/1.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::program::{Finished, find_or_skip, run};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Proxy, Upstream};

use super::{proxy, watchdog};

const LIMIT: Duration = Duration::from_secs(30);

/// An upstream that tells what it was asked.
pub(super) fn telling() -> Upstream {
    Upstream::start(|request| {
        let method = request.start.split(' ').next().unwrap_or_default();
        let text = format!("{method} {} {}", request.target(), request.body.len());
        Some(if method == "HEAD" { ok(&text)[..ok(&text).len() - text.len()].to_vec() } else { ok(&text) })
    })
}

/// The same, and a proxy before it.
fn echo() -> (Upstream, Proxy) {
    let upstream = telling();
    let proxy = proxy(&[&upstream.url()]);
    (upstream, proxy)
}

pub(super) fn succeeds(finished: &Finished) {
    assert_eq!(finished.code, 0, "stdout:\n{}\nstderr:\n{}", finished.stdout, finished.stderr);
}

#[test]
fn curl_is_served() {
    let _watchdog = watchdog("curl_is_served");
    let Some(curl) = find_or_skip("curl") else { return };
    let (_upstream, proxy) = echo();
    let url = format!("http://{}/a", proxy.web());
    let upload = proxy.directory().join("upload");
    std::fs::write(&upload, vec![b'x'; 3_000_000]).unwrap();
    let upload = upload.to_string_lossy().into_owned();
    let chunked = ["-H", "Transfer-Encoding: chunked", "-T", &upload, "-X", "PUT"];
    for (arguments, expected) in [
        (&[][..], "GET /a 0"),
        (&["--http1.0"], "GET /a 0"),
        (&["-d", "hello"], "POST /a 5"),
        (&["-T", &upload], "PUT /a 3000000"),
        (&chunked, "PUT /a 3000000"),
        (&["-X", "DELETE"], "DELETE /a 0"),
        (&["-H", "Connection: close"], "GET /a 0"),
        (&["--path-as-is", "-H", "Expect: 100-continue", "-d", "x"], "POST /a 1"),
    ] {
        let finished = run(Command::new(&curl).args(["-sS", "--fail"]).args(arguments).arg(&url), LIMIT);
        succeeds(&finished);
        assert_eq!(finished.stdout, expected, "{arguments:?}");
    }
    let head = run(Command::new(&curl).args(["-sS", "--fail", "--head"]).arg(&url), LIMIT);
    succeeds(&head);
    assert!(head.stdout.starts_with("HTTP/1.1 200 OK\r\n"), "{}", head.stdout);
}

#[test]
fn curl_reuses_its_connection() {
    let _watchdog = watchdog("curl_reuses_its_connection");
    let Some(curl) = find_or_skip("curl") else { return };
    let (_upstream, proxy) = echo();
    let url = format!("http://{}/", proxy.web());
    let finished = run(Command::new(&curl).args(["-v", &url, &url, &url]), LIMIT);
    succeeds(&finished);
    assert_eq!(finished.stderr.matches("Re-using existing connection").count(), 2, "{}", finished.stderr);
}

fn ab(arguments: &[&str]) -> Option<String> {
    let ab = find_or_skip("ab")?;
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let url = format!("http://{}/", proxy.web());
    let finished = run(Command::new(ab).args(arguments).args(["-q", "-n", "3000", "-c", "20", &url]), LIMIT);
    succeeds(&finished);
    let text = finished.stdout;
    assert!(text.contains("Complete requests:      3000"), "{text}");
    assert!(text.contains("Failed requests:        0"), "{text}");
    assert!(!text.contains("Non-2xx"), "{text}");
    assert!(upstream.connections() < 1000, "upstream connections are reused: {}", upstream.connections());
    Some(text)
}

#[test]
fn ab_is_served_over_http_1_0() {
    let _watchdog = watchdog("ab_is_served_over_http_1_0");
    ab(&[]);
}

#[test]
fn ab_keeps_its_connections_over_http_1_0() {
    let _watchdog = watchdog("ab_keeps_its_connections_over_http_1_0");
    if let Some(text) = ab(&["-k"]) {
        assert!(text.contains("Keep-Alive requests:    3000"), "{text}");
    }
}

#[test]
fn wrk_is_served_without_an_error() {
    let _watchdog = watchdog("wrk_is_served_without_an_error");
    let Some(wrk) = find_or_skip("wrk") else { return };
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let url = format!("http://{}/", proxy.web());
    let finished = run(Command::new(wrk).args(["-t1", "-c20", "-d1s", &url]), LIMIT);
    succeeds(&finished);
    let text = finished.stdout;
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
    assert!(upstream.served() > 200, "{text}");
}

#[test]
fn python_clients_are_served() {
    let _watchdog = watchdog("python_clients_are_served");
    let Some(python) = find_or_skip("python3") else { return };
    let (_upstream, proxy) = echo();
    let script = r#"
import http.client, sys, urllib.request
host = sys.argv[1]
connection = http.client.HTTPConnection(host, timeout=10)
for number in range(50):
    connection.request("GET", f"/{number}")
    answer = connection.getresponse()
    text = answer.read().decode()
    assert (answer.status, text) == (200, f"GET /{number} 0"), text
socket = connection.sock
assert socket is not None, "the connection was closed"
connection.request("POST", "/chunks", iter([b"hello", b" ", b"world"]), encode_chunked=True,
                   headers={"Transfer-Encoding": "chunked"})
assert connection.getresponse().read() == b"POST /chunks 11"
assert connection.sock is socket, "another connection"
connection.request("HEAD", "/head")
answer = connection.getresponse()
assert answer.status == 200 and answer.read() == b""
assert urllib.request.urlopen(f"http://{host}/form", data=b"a=b", timeout=10).read() == b"POST /form 3"
"#;
    succeeds(&run(Command::new(python).args(["-c", script, &proxy.web().to_string()]), LIMIT));
}

#[test]
fn node_with_a_keep_alive_agent_is_served() {
    let _watchdog = watchdog("node_with_a_keep_alive_agent_is_served");
    let Some(node) = find_or_skip("node") else { return };
    let (_upstream, proxy) = echo();
    let script = r#"
const http = require("http");
const [host, port] = process.argv[1].split(":");
const agent = new http.Agent({ keepAlive: true, maxSockets: 5 });
const once = (method, path, body) => new Promise((resolve, reject) => {
  const request = http.request({ host, port, method, path, agent, timeout: 10000 }, (answer) => {
    let text = "";
    answer.on("data", (data) => { text += data; });
    answer.on("end", () => answer.statusCode === 200 ? resolve(text) : reject(new Error(answer.statusCode)));
  });
  request.on("error", reject);
  if (body) { request.write(body); request.write(body); }
  request.end();
});
(async () => {
  for (let round = 0; round < 20; round += 1) {
    const all = [0, 1, 2, 3, 4].map((n) => once("GET", `/${n}`));
    (await Promise.all(all)).forEach((text, n) => { if (text !== `GET /${n} 0`) throw new Error(text); });
  }
  const posted = await once("POST", "/chunks", "hello");
  if (posted !== "POST /chunks 10") throw new Error(posted);
  agent.destroy();
})().catch((error) => { console.error(error); process.exit(1); });
"#;
    succeeds(&run(Command::new(node).args(["-e", script, &proxy.web().to_string()]), LIMIT));
}
