//! `local: true`: `localhost` and the names below it, by an authority of this machine's own.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use thalweg_tests::message::Kind;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Connection, Directory, Message, Proxy, STEP, Upstream};

use super::super::watchdog;
use super::config;

/// A proxy that keeps its state below this directory.
fn proxy(state: &Path, upstream: &Upstream) -> Proxy {
    let state = format!("state: {{ path: \"{}\" }}\n", state.display());
    Proxy::start_in(Directory::new(), &config(&[&upstream.url()], "local: true", &state))
}

/// A client that trusts the authority and nobody else.
fn trusting(state: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let pem = fs::read(state.join("local/authority.pem")).unwrap();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.unwrap().with_root_certificates(roots).with_no_client_auth())
}

fn status(proxy: &Proxy, client: &Arc<ClientConfig>, name: &str) -> io::Result<u16> {
    let mut client = Connection::open_as(proxy.web(), client.clone(), name)?;
    client.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
    Ok(Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap().status())
}

#[test]
fn localhost_and_what_is_below_it_is_trusted_by_who_trusts_this_machine_also_after_a_restart() {
    let _watchdog =
        watchdog("localhost_and_what_is_below_it_is_trusted_by_who_trusts_this_machine_also_after_a_restart");
    let (upstream, directory) = (Upstream::saying("hello"), Directory::new());
    let state = directory.path().join("state");
    let first = proxy(&state, &upstream);
    let client = trusting(&state);
    for name in ["localhost", "127.0.0.1", "cart.localhost", "a.b.localhost", "cart.localhost"] {
        assert_eq!(status(&first, &client, name).unwrap(), 200, "{name}");
    }
    let refused = status(&first, &client, "example.test").unwrap_err().to_string();
    assert!(refused.contains("UnrecognisedName"), "{refused}");
    drop(first);
    let second = proxy(&state, &upstream);
    for name in ["cart.localhost", "localhost"] {
        assert_eq!(status(&second, &client, name).unwrap(), 200, "{name}");
    }
}

/// The addresses of a certificate, in its encoding: 127.0.0.1 in a subjectAltName.
fn has_address(leaf: &CertificateDer<'_>) -> bool {
    leaf.windows(6).any(|bytes| bytes == [0x87, 4, 127, 0, 0, 1])
}

/// BoringSSL knows no constraints on addresses, and refuses every certificate with an address below an authority that
/// has one: who comes with a name gets a certificate without.
#[test]
fn addresses_have_a_certificate_of_their_own() {
    let _watchdog = watchdog("addresses_have_a_certificate_of_their_own");
    let (upstream, directory) = (Upstream::saying("hello"), Directory::new());
    let state = directory.path().join("state");
    let proxy = proxy(&state, &upstream);
    let client = trusting(&state);
    for (name, expected) in [("localhost", false), ("cart.localhost", false), ("127.0.0.1", true)] {
        let stream = TcpStream::connect(proxy.web()).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        let mut session = ClientConnection::new(client.clone(), name.try_into().unwrap()).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut &stream).unwrap();
        }
        let shown = session.peer_certificates().and_then(<[_]>::first).unwrap();
        assert_eq!(has_address(shown), expected, "{name}");
    }
}

#[test]
fn curl_takes_what_it_signs() {
    let _watchdog = watchdog("curl_takes_what_it_signs");
    let Some(curl) = find_or_skip("curl") else { return };
    let (upstream, directory) = (Upstream::saying("hello"), Directory::new());
    let state = directory.path().join("state");
    let proxy = proxy(&state, &upstream);
    let url = format!("https://cart.localhost:{}/", proxy.web().port());
    let authority = state.join("local/authority.pem");
    let output = Command::new(curl)
        .args(["--silent", "--show-error", "--max-time", "10", "--noproxy", "*", "--cacert"])
        .args([authority.as_os_str(), url.as_ref()])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{output:?}");
}
