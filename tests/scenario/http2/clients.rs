//! Clients of HTTP/2 that the world uses.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Proxy, Upstream};

use super::{config, h2c, watchdog};
use crate::scenario::clients::{succeeds, telling};

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
