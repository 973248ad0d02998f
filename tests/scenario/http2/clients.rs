//! Clients of HTTP/2 that the world uses.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Proxy, Upstream};

use super::{config, h2c, watchdog};
use crate::scenario::clients::{succeeds, telling};
use crate::scenario::tls;

const LIMIT: Duration = Duration::from_secs(30);

/// An upstream that tells what it was asked, and a proxy before it.
fn echo() -> (Upstream, Proxy) {
    let upstream = telling();
    let proxy = Proxy::start(&h2c(&config(&[&upstream.url()], "")));
    (upstream, proxy)
}

#[test]
fn curl_is_served_with_prior_knowledge() {
    let _watchdog = watchdog("curl_is_served_with_prior_knowledge");
    let Some(curl) = find_or_skip("curl") else { return };
    let (_upstream, proxy) = echo();
    let url = format!("http://{}/a", proxy.web());
    let upload = proxy.directory().join("upload");
    std::fs::write(&upload, vec![b'x'; 3_000_000]).unwrap();
    let upload = upload.to_string_lossy().into_owned();
    for (arguments, expected) in [
        (&[][..], "GET /a 0"),
        (&["-d", "hello"], "POST /a 5"),
        (&["-X", "POST"], "POST /a 0"),
        (&["-T", &upload], "PUT /a 3000000"),
        (&["-H", "Content-Length:", "-T", &upload], "PUT /a 3000000"),
        (&["-X", "DELETE"], "DELETE /a 0"),
        (&["-H", "Expect: 100-continue", "-d", "x"], "POST /a 1"),
    ] {
        let mut command = Command::new(&curl);
        command.args(["-sS", "--fail", "--http2-prior-knowledge"]).args(arguments).arg(&url);
        let finished = run(&mut command, LIMIT);
        succeeds(&finished);
        assert_eq!(finished.stdout, expected, "{arguments:?}");
    }
    let mut command = Command::new(&curl);
    command.args(["-sS", "--fail", "--head", "--http2-prior-knowledge", &url]);
    let head = run(&mut command, LIMIT);
    succeeds(&head);
    assert!(head.stdout.starts_with("HTTP/2 200"), "{}", head.stdout);
}

#[test]
fn curl_agrees_on_http2_through_tls_and_goes_without_it_otherwise() {
    let _watchdog = watchdog("curl_agrees_on_http2_through_tls_and_goes_without_it_otherwise");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = telling();
    let (secure, plain) =
        (tls::proxy(&[&upstream.url()]), Proxy::start(&h2c(&config(&[&upstream.url()], ""))));
    let trusted = secure.directory().join("web.pem").to_string_lossy().into_owned();
    let (secure, plain) = (format!("https://{}/a", secure.web()), format!("http://{}/a", plain.web()));
    for (arguments, url, expected) in [
        (&[][..], &secure, "GET /a 0 by 2"),
        (&["-d", "hello"], &secure, "POST /a 5 by 2"),
        (&["-H", "Expect: 100-continue", "-d", "x"], &secure, "POST /a 1 by 2"),
        // It offers to change from HTTP/1.1, which nobody has to take up (RFC 9113 §3.1).
        (&[], &plain, "GET /a 0 by 1.1"),
        (&["-d", "hello"], &plain, "POST /a 5 by 1.1"),
    ] {
        let mut command = Command::new(&curl);
        command.args(["-sS", "--fail", "--http2", "--cacert", &trusted, "-w", " by %{http_version}"]);
        let finished = run(command.args(arguments).arg(url), LIMIT);
        succeeds(&finished);
        assert_eq!(finished.stdout, expected, "{arguments:?} {url}");
    }
}

/// Requests of `h2load`, over 20 connections with 50 streams at one time each.
const REQUESTS: usize = 4000;

fn bears_h2load(url: &str, proxy: &Proxy) {
    let Some(h2load) = find_or_skip("h2load") else { return };
    let upload = proxy.directory().join("upload");
    std::fs::write(&upload, vec![b'x'; 20_000]).unwrap();
    let upload = format!("--data={}", upload.display());
    for (more, requests) in [(&[][..], REQUESTS), (&[&upload[..]], REQUESTS / 4)] {
        let mut command = Command::new(&h2load);
        command.args(["-c", "20", "-m", "50", "-n", &requests.to_string()]).args(more);
        let finished = run(command.arg(url), LIMIT);
        succeeds(&finished);
        let served = format!(
            "requests: {requests} total, {requests} started, {requests} done, {requests} succeeded, 0 failed, 0 errored, 0 timeout"
        );
        assert!(finished.stdout.contains(&served), "{}", finished.stdout);
        assert!(finished.stdout.contains(&format!("{requests} 2xx, 0 3xx")), "{}", finished.stdout);
        assert!(finished.stdout.contains("Application protocol: h2"), "{}", finished.stdout);
    }
}

#[test]
fn h2load_is_served_without_tls() {
    let _watchdog = watchdog("h2load_is_served_without_tls");
    let (_upstream, proxy) = echo();
    bears_h2load(&format!("http://{}/a", proxy.web()), &proxy);
}

#[test]
fn h2load_is_served_through_tls() {
    let _watchdog = watchdog("h2load_is_served_through_tls");
    let upstream = telling();
    let proxy = tls::proxy(&[&upstream.url()]);
    bears_h2load(&format!("https://{}/a", proxy.web()), &proxy);
}

/// Requests that share a connection, one of them with a body.
const NODE: &str = "
const http2 = require('node:http2');
const session = http2.connect(process.argv[1]);
let left = 50;
const done = text => {
  if (text !== 'GET /a 0' && text !== 'POST /a 5') { console.error(text); process.exit(1); }
  if (--left === 0) { console.log('ok'); session.close(); }
};
for (let i = 0; i < 50; i++) {
  const post = i % 2 === 1;
  const stream = session.request({ ':path': '/a', ':method': post ? 'POST' : 'GET' });
  let text = '';
  stream.setEncoding('utf8').on('data', part => text += part).on('end', () => done(text));
  stream.end(post ? 'hello' : undefined);
}
session.on('error', error => { console.error(error); process.exit(1); });
";

#[test]
fn node_is_served_many_streams_at_once() {
    let _watchdog = watchdog("node_is_served_many_streams_at_once");
    let Some(node) = find_or_skip("node") else { return };
    let (_upstream, proxy) = echo();
    let url = format!("http://{}", proxy.web());
    let finished = run(Command::new(node).args(["-e", NODE, &url]), LIMIT);
    succeeds(&finished);
    assert_eq!(finished.stdout, "ok\n", "{}", finished.stderr);
}
