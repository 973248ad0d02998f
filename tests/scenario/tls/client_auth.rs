//! Client certificates: who is let in, what the upstream is told of them, and what no client can say itself.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use thalweg_tests::message::{Kind, fetch};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::secure::Secure;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Authority, Connection, Directory, Identity, Message, Proxy, STEP, Shown, Upstream};

use super::super::{reload, wait_counted, watchdog};
use super::config;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n";

/// Fields that say who a client is.
const FAMILY: [&str; 7] = [
    "x-client-cert-verified",
    "x-client-cert-subject",
    "x-client-cert-san",
    "x-client-cert-fingerprint",
    "client-cert",
    "client-cert-chain",
    "x_client_cert_subject",
];

/// Says which of these fields came, and with which values.
fn telling() -> Upstream {
    Upstream::start(|request| {
        let lines = FAMILY
            .iter()
            .flat_map(|name| request.values(name).map(move |value| format!("{name}: {value}\n")));
        Some(ok(&lines.collect::<String>()))
    })
}

/// A proxy with TLS on `web` that asks for certificates of `authority`; `more` are further keys of `client_auth`. The
/// list of revoked certificates is `crl.pem`.
fn start(upstream: &Upstream, authority: &Authority, (more, top): (&str, &str)) -> (Proxy, String) {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let certificate = Identity::shared().write(&directory, "web");
    directory.write("ca.pem", &authority.pem);
    directory.write("crl.pem", &authority.revoke(&[66]));
    let ca = path("ca.pem");
    let more = more.replace("CRL", &path("crl.pem"));
    let tls = format!("certificates: [ {certificate} ], client_auth: {{ ca: \"{ca}\"{more} }}");
    let text = config(&[&upstream.url()], &tls, top);
    (Proxy::start_in(directory, &text), text)
}

fn nobody() -> ClientConfig {
    Identity::shared().client()
}

fn showing(shown: &Shown) -> ClientConfig {
    shown.client(Identity::shared(), rustls::DEFAULT_VERSIONS)
}

/// The answer to a request, or why there is none.
fn ask(proxy: &Proxy, client: ClientConfig, request: &str) -> Result<Message, String> {
    let stream = TcpStream::connect(proxy.web()).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let secure = Secure::connect(&stream, Arc::new(client), "example.test").map_err(|e| e.to_string())?;
    // It may have been refused already.
    let _ = (&stream).write_all(&secure.seal(request.as_bytes()));
    let (mut bytes, mut plain) = ([0; 16 * 1024], Vec::new());
    loop {
        let count = (&stream).read(&mut bytes).map_err(|e| e.to_string())?;
        assert!(count > 0, "neither an answer nor an alert");
        plain.extend(secure.open(&bytes[..count]).map_err(|e| e.to_string())?.0);
        if let Some((message, _)) = Message::parse(&plain, Kind::Response, false)? {
            return Ok(message);
        }
    }
}

fn answered(proxy: &Proxy, client: ClientConfig) -> String {
    let answer = ask(proxy, client, REQUEST).unwrap();
    assert_eq!(answer.status(), 200);
    answer.text()
}

fn refused(proxy: &Proxy, client: ClientConfig, alert: &str) {
    let why = ask(proxy, client, REQUEST).unwrap_err();
    assert!(why.contains(alert), "{why}, not {alert}");
}

fn counted(proxy: &Proxy, word: &str, times: u32) {
    let label = format!("result=\"client_certificate_{word}\"");
    wait_counted(proxy, "thalweg_tls_handshakes_total", &label, times);
}

/// The certificate as the PEM file has it, on one line.
fn base64(shown: &Shown) -> String {
    shown.chain.lines().filter(|line| !line.starts_with("-----")).collect()
}

#[test]
fn who_has_no_good_certificate_gets_an_alert_that_says_so() {
    let _watchdog = watchdog("who_has_no_good_certificate_gets_an_alert_that_says_so");
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let (proxy, _) = start(&upstream, &authority, (", crl: [ \"CRL\" ]", ""));
    for version in [&TLS12, &TLS13] {
        refused(&proxy, Identity::shared().client_of(&[version]), "CertificateRequired");
    }
    counted(&proxy, "missing", 2);
    for other in [Authority::new("Clients"), Authority::new("Others")] {
        refused(&proxy, showing(&other.issue("alice", -1..30, 1)), "UnknownCA");
    }
    counted(&proxy, "invalid", 2);
    refused(&proxy, showing(&authority.issue("bob", -1..30, 66)), "CertificateRevoked");
    counted(&proxy, "revoked", 1);
    refused(&proxy, showing(&authority.issue("late", -30..-1, 2)), "CertificateExpired");
    refused(&proxy, showing(&authority.issue("early", 1..30, 3)), "CertificateExpired");
    counted(&proxy, "expired", 2);
    assert_eq!(upstream.served(), 0);
    let said = answered(&proxy, showing(&authority.issue("alice", -1..30, 1)));
    assert_eq!(said, "x-client-cert-verified: true\nx-client-cert-subject: CN=alice,O=Example\n");
    let ended = proxy.stop();
    assert_eq!(ended.log.last().unwrap()["client_cert_subject"], "CN=alice,O=Example");
}

#[test]
fn the_upstream_is_told_on_fetches_for_the_cache_too() {
    let _watchdog = watchdog("the_upstream_is_told_on_fetches_for_the_cache_too");
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let top = "defaults: { filters: [ { cache: {} } ] }\n";
    let (proxy, _) = start(&upstream, &authority, (", mode: optional, forward: [ subject ]", top));
    for name in ["alice", "bob"] {
        let said = answered(&proxy, showing(&authority.issue(name, -1..30, 1)));
        assert_eq!(
            said,
            format!("x-client-cert-verified: true\nx-client-cert-subject: CN={name},O=Example\n")
        );
    }
    assert_eq!(answered(&proxy, nobody()), "x-client-cert-verified: false\n");
}

#[test]
fn the_upstream_is_told_what_is_asked_for_and_nothing_that_a_client_says() {
    let _watchdog = watchdog("the_upstream_is_told_what_is_asked_for_and_nothing_that_a_client_says");
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let all = ", mode: optional, forward: [ certificate, fingerprint, san, subject ]";
    let alice = authority.issue("alice", -1..30, 1);
    let spoofed: String = FAMILY.iter().map(|name| format!("{name}: evil\r\n")).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: example.test\r\n{spoofed}\r\n");
    for top in ["", "trusted_proxies: [ 127.0.0.1 ]\n"] {
        // Where we tell, not even a trusted proxy does.
        let (proxy, _) = start(&upstream, &authority, (all, top));
        let said = ask(&proxy, showing(&alice), &request).unwrap().text();
        let fingerprint = said.lines().find_map(|line| line.strip_prefix("x-client-cert-fingerprint: "));
        let fingerprint = fingerprint.unwrap().to_owned();
        assert!(fingerprint.len() == 64 && fingerprint.bytes().all(|b| b.is_ascii_hexdigit()), "{said}");
        let expected = format!(
            "x-client-cert-verified: true\nx-client-cert-subject: CN=alice,O=Example\n\
             x-client-cert-san: DNS:alice.clients.test, URI:#7370696666653A2F2F636C69656E74732E746573742F612C62\n\
             x-client-cert-fingerprint: {fingerprint}\nclient-cert: :{}:\n",
            base64(&alice)
        );
        assert_eq!(said, expected);
        assert_eq!(ask(&proxy, nobody(), &request).unwrap().text(), "x-client-cert-verified: false\n");
        refused(&proxy, showing(&Authority::new("Others").issue("alice", -1..30, 1)), "UnknownCA");
        // Lines of several workers come in any order.
        let log = proxy.stop().log;
        let subjects = log.iter().filter_map(|line| line.get("client_cert_subject")?.as_str());
        let subjects: Vec<_> = subjects.collect();
        assert_eq!((subjects, log.len()), (vec!["CN=alice,O=Example"], 2));
    }
}

#[test]
fn strangers_say_nothing_of_certificates_on_any_listener_and_trusted_proxies_do_where_we_do_not() {
    let _watchdog = watchdog("strangers_say_nothing_of_certificates_on_any_listener");
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let alice = authority.issue("alice", -1..30, 1);
    let plain: String = FAMILY.iter().map(|name| format!("{name}: evil\r\n")).collect();
    // Nor can they have it taken out of what somebody behind us believes.
    let request = format!("GET / HTTP/1.1\r\nHost: example.test\r\nConnection: Client-Cert\r\n{plain}\r\n");
    let kept: String = FAMILY[..6].iter().map(|name| format!("{name}: evil\n")).collect();
    for (top, expected) in [("", String::new()), ("trusted_proxies: [ 127.0.0.1 ]\n", kept)] {
        let clear = Proxy::start(&super::super::config(&[&upstream.url()], top));
        assert_eq!(fetch(clear.web(), &request).unwrap().text(), expected);
        let (silent, _) = start(&upstream, &authority, (", forward: []", top));
        assert_eq!(ask(&silent, showing(&alice), &request).unwrap().text(), expected);
        let directory = Directory::new();
        let certificate = Identity::shared().write(&directory, "web");
        let text = config(&[&upstream.url()], &format!("certificates: [ {certificate} ]"), top);
        let secure = Proxy::start_in(directory, &text);
        assert_eq!(ask(&secure, nobody(), &request).unwrap().text(), expected);
    }
}

#[test]
fn nobody_comes_back_without_a_certificate() {
    let _watchdog = watchdog("nobody_comes_back_without_a_certificate");
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let (proxy, _) = start(&upstream, &authority, ("", ""));
    for version in [&TLS12, &TLS13] {
        // One store of sessions for all three.
        let client = authority.issue("alice", -1..30, 1).client(Identity::shared(), &[version]);
        for _ in 0..3 {
            assert!(answered(&proxy, client.clone()).contains("CN=alice"));
        }
    }
    let counted = |word: &str, times| {
        wait_counted(&proxy, "thalweg_tls_handshakes_total", &format!("result=\"{word}\""), times);
    };
    counted("full", 6);
    counted("resumed", 0);
}

#[test]
fn authorities_and_revocations_are_exchanged_and_open_connections_go_on() {
    let _watchdog = watchdog("authorities_and_revocations_are_exchanged_and_open_connections_go_on");
    let (upstream, old, new) = (telling(), Authority::new("Clients"), Authority::new("New"));
    let (proxy, text) = start(&upstream, &old, (", crl: [ \"CRL\" ]", ""));
    let (alice, bob) = (old.issue("alice", -1..30, 1), new.issue("bob", -1..30, 1));
    let write = |name: &str, text: &str| fs::write(proxy.directory().join(name), text).unwrap();
    let mut kept = Connection::open_as(proxy.web(), Arc::new(showing(&alice)), "example.test").unwrap();
    let mut still_served = || {
        kept.send(REQUEST);
        let answer = Message::read(&mut kept, Kind::Response, Instant::now() + STEP).unwrap();
        assert!(answer.status() == 200 && answer.text().contains("CN=alice"), "{}", answer.text());
    };
    still_served();
    refused(&proxy, showing(&bob), "UnknownCA");

    write("crl.pem", &old.revoke(&[66, 1]));
    reload(&proxy, &text, 1);
    refused(&proxy, showing(&alice), "CertificateRevoked");
    still_served();

    // A new authority whose list is not there yet: nobody is let in.
    write("ca.pem", &new.pem);
    reload(&proxy, &text, 2);
    refused(&proxy, showing(&bob), "UnknownCA");
    write("crl.pem", &new.revoke(&[]));
    reload(&proxy, &text, 3);
    assert!(answered(&proxy, showing(&bob)).contains("CN=bob"));
    refused(&proxy, showing(&alice), "UnknownCA");
    still_served();

    // What cannot be read changes nothing.
    write("ca.pem", "no authority");
    proxy.process().signal(thalweg_tests::process::Signal::HUP);
    let refusal = |line: &str| line.contains("the CA file").then_some(());
    proxy.process().wait_line("the CA file", STEP, refusal);
    assert!(answered(&proxy, showing(&bob)).contains("CN=bob"));
    still_served();
}

#[test]
fn real_clients_show_theirs() {
    let _watchdog = watchdog("real_clients_show_theirs");
    let Some(openssl) = find_or_skip("openssl") else { return };
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let (proxy, _) = start(&upstream, &authority, (", forward: [ subject, fingerprint ]", ""));
    let (chain, key) = authority.issue("älice, O=x", -1..30, 1).write(proxy.directory(), "alice");
    let trusted = proxy.directory().join("web.pem");
    let limit = Duration::from_secs(30);
    let shown = |of: &[&str]| {
        let mut command = Command::new(&openssl);
        let finished = run(command.args(["x509", "-noout", "-in"]).arg(&chain).args(of), limit);
        finished.stdout.trim().split_once('=').unwrap().1.to_owned()
    };
    let subject = shown(&["-subject", "-nameopt", "RFC2253"]);
    let digest = shown(&["-fingerprint", "-sha256"]).replace(':', "").to_lowercase();
    let expected = format!(
        "x-client-cert-verified: true\nx-client-cert-subject: {subject}\nx-client-cert-fingerprint: {digest}\n"
    );
    if let Some(curl) = find_or_skip("curl") {
        let url = format!("https://localhost:{}/", proxy.web().port());
        let paths = [Path::new("--cert"), &chain, Path::new("--key"), &key, Path::new("--cacert"), &trusted];
        for version in ["1.2", "1.3"] {
            let mut command = Command::new(&curl);
            let finished = run(command.args(["-sS", "-4", "--tls-max", version, &url]).args(paths), limit);
            assert_eq!((finished.stdout, finished.stderr), (expected.clone(), String::new()));
        }
        let mut command = Command::new(&curl);
        let finished = run(command.args(["-sS", "-4", &url, "--cacert"]).arg(&trusted), limit);
        assert!(
            finished.code != 0 && finished.stderr.contains("certificate required"),
            "{}",
            finished.stderr
        );
    }
    let script = "printf 'GET / HTTP/1.1\\r\\nHost: example.test\\r\\nConnection: close\\r\\n\\r\\n' | \
                  \"$0\" s_client -ign_eof -servername example.test \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&openssl).args(["-connect", &proxy.web().to_string(), "-cert"]);
    let finished = run(command.arg(&chain).arg("-key").arg(&key).arg("-CAfile").arg(&trusted), limit);
    assert!(finished.stdout.contains(&expected), "{}{}", finished.stdout, finished.stderr);
    // The hint by which clients choose what to show.
    assert!(finished.stdout.contains("CN = Clients"), "{}", finished.stdout);
    let log = proxy.stop().log;
    assert!(upstream.served() > 0 && log.len() as u64 == upstream.served());
    assert!(log.iter().all(|line| line["client_cert_subject"] == *subject));
}

#[test]
fn the_filter_auth_says_whose_certificate_may_pass() {
    let _watchdog = watchdog("the_filter_auth_says_whose_certificate_may_pass");
    let (upstream, authority) = (telling(), Authority::new("Clients"));
    let top = "defaults: { filters: [ { auth: { mtls: { subject: \"CN=alice,*\", issuer: \"~.*Clients.*\" } } } ] }\n";
    let (proxy, _) = start(&upstream, &authority, (", mode: optional", top));
    for (client, status) in [
        (nobody(), 401),
        (showing(&authority.issue("bob", -1..30, 2)), 403),
        (showing(&authority.issue("alice", -1..30, 1)), 200),
    ] {
        assert_eq!(ask(&proxy, client, REQUEST).unwrap().status(), status);
    }
    assert_eq!(upstream.served(), 1);
    let ended = proxy.stop();
    // Two workers write their lines when they like.
    let told = |status: u16, name: &str| {
        let line = ended.log.iter().find(|line| line["status"] == status).unwrap();
        line[name].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(told(401, "reason"), "no credential (mtls)");
    assert_eq!(told(403, "reason"), "mtls: no `subject` fits the certificate of `CN=bob,O=Example`");
    assert_eq!(told(200, "user"), "CN=alice,O=Example");
}
