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
