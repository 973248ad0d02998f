//! Programs and libraries that the world uses.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::program::{Finished, find_or_skip, run};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Identity, Proxy, Upstream};

use super::super::{wait_counted, watchdog};
use super::proxy;

const LIMIT: Duration = Duration::from_secs(30);

fn echo() -> (Upstream, Proxy) {
    let upstream = Upstream::start(|request| {
        let method = request.start.split(' ').next().unwrap_or_default();
        let proto = request.value("x-forwarded-proto").unwrap_or_default();
        Some(ok(&format!("{proto} {method} {} {}", request.target(), request.body.len())))
    });
    let proxy = proxy(&[&upstream.url()]);
    (upstream, proxy)
}

fn succeeds(finished: &Finished) {
    assert_eq!(finished.code, 0, "stdout:\n{}\nstderr:\n{}", finished.stdout, finished.stderr);
}

/// Where the certificate that clients trust stands.
fn trusted(proxy: &Proxy) -> String {
    proxy.directory().join("web.pem").to_string_lossy().into_owned()
}

#[test]
fn curl_is_served_through_tls() {
    let _watchdog = watchdog("curl_is_served_through_tls");
    let Some(curl) = find_or_skip("curl") else { return };
    let (_upstream, proxy) = echo();
    let (url, trusted) = (format!("https://localhost:{}/a", proxy.web().port()), trusted(&proxy));
    let upload = proxy.directory().join("upload");
    std::fs::write(&upload, vec![b'x'; 3_000_000]).unwrap();
    let upload = upload.to_string_lossy().into_owned();
    let chunked = ["-H", "Transfer-Encoding: chunked", "-T", &upload, "-X", "PUT"];
    for (arguments, expected) in [
        (&[][..], "https GET /a 0"),
        (&["--http1.0"], "https GET /a 0"),
        (&["--tlsv1.2", "--tls-max", "1.2"], "https GET /a 0"),
        (&["--tlsv1.3"], "https GET /a 0"),
        (&["-d", "hello"], "https POST /a 5"),
        (&["-T", &upload], "https PUT /a 3000000"),
        (&chunked, "https PUT /a 3000000"),
        (&["-H", "Connection: close"], "https GET /a 0"),
        (&["-H", "Expect: 100-continue", "-d", "x"], "https POST /a 1"),
    ] {
        let mut command = Command::new(&curl);
        let finished =
            run(command.args(["-sS", "--fail", "-4", "--cacert", &trusted]).args(arguments).arg(&url), LIMIT);
        succeeds(&finished);
        assert_eq!(finished.stdout, expected, "{arguments:?}");
    }
    let kept = run(Command::new(&curl).args(["-v", "-4", "--cacert", &trusted, &url, &url, &url]), LIMIT);
    succeeds(&kept);
    assert_eq!(kept.stderr.matches("Re-using existing connection").count(), 2, "{}", kept.stderr);
}

#[test]
fn openssl_resumes_its_session_and_sees_the_farewell() {
    let _watchdog = watchdog("openssl_resumes_its_session_and_sees_the_farewell");
    let Some(openssl) = find_or_skip("openssl") else { return };
    let (_upstream, proxy) = echo();
    let (address, trusted) = (proxy.web().to_string(), trusted(&proxy));
    let request = "GET /a HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n";
    for version in ["-tls1_2", "-tls1_3"] {
        let session = proxy.directory().join("session");
        let session = session.to_string_lossy().into_owned();
        for (kind, said) in [("-sess_out", "New, "), ("-sess_in", "Reused, ")] {
            let script =
                "printf '%s' \"$REQUEST\" | \"$0\" s_client -ign_eof -servername example.test \"$@\"";
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&openssl).env("REQUEST", request);
            command.args([
                "-connect",
                &address,
                "-CAfile",
                &trusted,
                "-verify_return_error",
                version,
                kind,
                &session,
            ]);
            let finished = run(&mut command, LIMIT);
            succeeds(&finished);
            let text = finished.stdout + &finished.stderr;
            assert!(text.contains("https GET /a 0") && text.contains(said), "{version} {kind}\n{text}");
            assert!(!text.contains("unexpected eof") && !text.contains("error:"), "{version} {kind}\n{text}");
        }
    }
    wait_counted(&proxy, "thalweg_tls_handshakes_total", "result=\"full\"", 2);
    wait_counted(&proxy, "thalweg_tls_handshakes_total", "result=\"resumed\"", 2);
}

#[test]
fn openssl_with_tls_1_1_is_told_why_it_is_refused() {
    let _watchdog = watchdog("openssl_with_tls_1_1_is_told_why_it_is_refused");
    let Some(openssl) = find_or_skip("openssl") else { return };
    let (_upstream, proxy) = echo();
    let mut command = Command::new(openssl);
    // Level 0: its own default would not offer so old a version.
    command.args(["s_client", "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0", "-servername", "example.test"]);
    let finished = run(command.args(["-connect", &proxy.web().to_string()]), LIMIT);
    assert_ne!(finished.code, 0, "{}", finished.stdout);
    assert!(finished.stderr.contains("alert protocol version"), "{}", finished.stderr);
    wait_counted(&proxy, "thalweg_tls_handshakes_total", "result=\"version\"", 1);
}

#[test]
fn python_and_node_are_served_through_tls() {
    let _watchdog = watchdog("python_and_node_are_served_through_tls");
    let (_upstream, proxy) = echo();
    let (port, trusted) = (proxy.web().port().to_string(), trusted(&proxy));
    if let Some(python) = find_or_skip("python3") {
        let script = "import http.client, ssl, sys\n\
            context = ssl.create_default_context(cafile=sys.argv[2])\n\
            c = http.client.HTTPSConnection('localhost', int(sys.argv[1]), context=context, timeout=10)\n\
            for i in range(3):\n    c.request('POST', '/p%d' % i, body=b'x' * 100000)\n    print(c.getresponse().read().decode())\n";
        let finished = run(Command::new(python).args(["-c", script, &port, &trusted]), LIMIT);
        succeeds(&finished);
        assert_eq!(finished.stdout, "https POST /p0 100000\nhttps POST /p1 100000\nhttps POST /p2 100000\n");
    }
    if let Some(node) = find_or_skip("node") {
        let script = "const https = require('https'), fs = require('fs');\n\
            const [port, ca] = process.argv.slice(1);\n\
            https.get({ host: 'localhost', port, path: '/n', ca: fs.readFileSync(ca), family: 4 }, r => {\n\
              r.on('data', d => process.stdout.write(d)); r.on('end', () => process.exit(0)); });\n";
        let finished = run(Command::new(node).args(["-e", script, &port, &trusted]), LIMIT);
        succeeds(&finished);
        assert_eq!(finished.stdout, "https GET /n 0");
    }
    assert_eq!(Identity::shared().chain, std::fs::read_to_string(trusted).unwrap());
}
