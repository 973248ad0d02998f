//! Terms that hold, and terms that cannot.

use super::*;
use crate::testing::Authority;

fn only(pem: &str) -> PeerPolicy {
    PeerPolicy { trust: Trust::Only(pem.as_bytes().into()), ..PeerPolicy::default() }
}

#[test]
fn roots_of_a_file_are_all_usable_or_refused() {
    let (a, b) = (Authority::new("a"), Authority::new("b"));
    assert!(PeerTerms::new(only(&format!("words\n{}{}", a.pem, b.pem))).is_ok());
    for (pem, words) in [
        (String::new(), "no certificate"),
        (format!("{}{}", a.pem, &b.pem[..b.pem.len() - 40]), "certificate 2"),
        (format!("{}-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", a.pem), "certificate 2"),
    ] {
        let flaw = PeerTerms::new(only(&pem)).unwrap_err();
        assert!(matches!(&flaw, PolicyError::Roots(why) if why.contains(words)), "{flaw}");
    }
}

/// Self-signed certificates are mostly made as those of authorities: `openssl req -x509` does.
#[test]
fn a_self_signed_certificate_is_taken_where_it_is_named() {
    let made = |names: &[&str], days: std::ops::Range<i64>| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let day = |day: i64| {
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(day as u64 * 86_400)
        };
        (params.not_before, params.not_after) = (day(days.start).into(), day(days.end).into());
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap()
    };
    let (known, other) = (made(&["a.test"], 100..300), made(&["a.test"], 100..300));
    let provider = provider(&[], &[]);
    let verifier = server_verifier::verifier_of_file(known.pem().as_bytes(), &provider).unwrap();
    let verify = |leaf: &rcgen::Certificate, name: &str, day: u64| {
        let (name, now) = (
            ServerName::try_from(name.to_owned()).unwrap(),
            rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(day * 86_400)),
        );
        let verified = verifier.verify_server_cert(leaf.der(), &[], &name, &[], now);
        verified.map(drop).map_err(|why| crate::failure::Failure::of_client(why).to_string())
    };
    assert_eq!(verify(&known, "a.test", 200), Ok(()));
    let refused = |leaf: &rcgen::Certificate, name: &str, day, words: &str| {
        let why = verify(leaf, name, day).unwrap_err();
        assert!(why.contains(words), "{why}");
    };
    refused(&other, "a.test", 200, "is self-signed: name it as `tls.ca`");
    refused(&known, "b.test", 200, "it is not for b.test, but for a.test");
    refused(&known, "a.test", 50, "not valid yet");
    refused(&known, "a.test", 301, "has expired");
}

#[test]
fn terms_are_equal_when_policies_are() {
    let (a, b) = (Authority::new("a"), Authority::new("b"));
    let terms = |policy| PeerTerms::new(policy).unwrap();
    assert_eq!(terms(only(&a.pem)), terms(only(&a.pem)));
    assert_ne!(terms(only(&a.pem)), terms(only(&b.pem)));
    let skip = PeerPolicy { trust: Trust::InsecureSkipVerify, ..PeerPolicy::default() };
    assert_ne!(terms(only(&a.pem)), terms(skip));
    let shown = PeerPolicy { certificate: Some(a.issue(&["c.test"]).read()), ..only(&a.pem) };
    let other = PeerPolicy { certificate: Some(a.issue(&["c.test"]).read()), ..only(&a.pem) };
    assert_eq!(terms(shown.clone()), terms(shown.clone()));
    assert_ne!(terms(shown), terms(other));
}

#[test]
fn hosts_are_names_or_addresses() {
    let terms = Arc::new(PeerTerms::new(only(&Authority::new("a").pem)).unwrap());
    for (host, name) in
        [("A.Test", "a.test"), ("a.test.", "a.test"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1")]
    {
        assert_eq!(Connector::new(&terms, host).unwrap().name(), name);
    }
    for host in ["", "a b", "[::1]", "*.a.test", "a..test"] {
        assert!(Connector::new(&terms, host).is_err(), "{host}");
        let policy = PeerPolicy { server_name: Some(host.to_owned()), ..terms.policy().clone() };
        assert!(PeerTerms::new(policy).is_err(), "{host}");
    }
}

#[test]
fn connectors_are_equal_when_terms_and_name_are() {
    let (a, b) = (Authority::new("a"), Authority::new("b"));
    let connector =
        |pem: &str, host: &str| Connector::new(&Arc::new(PeerTerms::new(only(pem)).unwrap()), host).unwrap();
    assert_eq!(connector(&a.pem, "a.test"), connector(&a.pem, "A.test"));
    assert_ne!(connector(&a.pem, "a.test"), connector(&a.pem, "b.test"));
    assert_ne!(connector(&a.pem, "a.test"), connector(&b.pem, "a.test"));
}
