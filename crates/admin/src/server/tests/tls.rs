//! The admin listener through TLS: who is served, who is not, and a certificate that is replaced.

use std::fs;

use thalweg_tls::{Acceptor, Certificate, Policy};

use super::*;
use crate::client::CallError;

/// An acceptor with a new certificate for these names, and the certificate in PEM.
fn acceptor(names: &[&str]) -> (Arc<Acceptor>, String) {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let certificate = Arc::new(Certificate::read(chain.as_bytes(), key.as_bytes()).unwrap());
    let acceptor = Acceptor::new(vec![(certificate, Vec::new())], Policy::default(), None).unwrap();
    (Arc::new(acceptor), chain)
}

/// Asks through TLS, trusting whom the file names.
fn ask(running: &Running, host: &str, trusted: &str) -> Result<Answer, CallError> {
    let file = running.folder.0.join("trusted.pem");
    fs::write(&file, trusted).unwrap();
    let authority = format!("{host}:{}", running.addresses().admin.unwrap().port());
    let token = Token::new("secret").unwrap();
    call(&Target::Tls(authority, Some(file)), Some(&token), "GET", "/api/v1/status")
}

#[test]
fn the_client_of_the_verbs_speaks_tls_and_looks_whom_it_speaks_with() {
    let (first, trusted) = acceptor(&["localhost", "127.0.0.1", "*.example.com"]);
    let running = Running::start_with(Some("secret"), Some(Arc::new(AdminTls::new(first))));
    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(ask(&running, host, &trusted).unwrap().status, 200, "{host}");
    }
    let (second, other) = acceptor(&["localhost"]);
    let error = ask(&running, "localhost", &other).unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
    running.handle().tls().unwrap().replace(second);
    assert_eq!(ask(&running, "localhost", &other).unwrap().status, 200, "another certificate holds at once");
    assert!(ask(&running, "localhost", &trusted).is_err());
}

#[test]
fn plain_http_is_answered_400_and_a_stranger_is_not() {
    let (acceptor, _) = acceptor(&["localhost"]);
    let running = Running::start_with(Some("secret"), Some(Arc::new(AdminTls::new(acceptor))));
    let answer =
        Raw::parse(&running.raw("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    assert_eq!((answer.status, answer.body.as_str()), (400, "a plain HTTP request came to a port for TLS"));
    let mut stream = TcpStream::connect(running.addresses().admin.unwrap()).unwrap();
    stream.write_all(b"\0\x01\x02\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    assert!(!got.starts_with(b"HTTP"), "{}", got.escape_ascii());
    assert_eq!(running.metrics("GET", "/livez").status, 200, "the metrics listener has no TLS");
}

#[test]
fn names_of_the_certificate_are_names_of_the_listener() {
    let (acceptor, _) = acceptor(&["localhost", "*.example.com", "proxy.test"]);
    let tls = AdminTls::new(acceptor);
    for (name, is) in
        [("proxy.test", true), ("a.example.com", true), ("example.com", false), ("evil.test", false)]
    {
        assert_eq!(tls.names(name), is, "{name}");
    }
}
