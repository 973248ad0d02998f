//! Look-ups by name, and the choice by kind of key.

use rustls::version::TLS12;

use super::*;
use crate::policy::Policy;
use crate::provider::Suite;
use crate::testing::{Authority, Cuts, Link, far_client};
use crate::{Acceptor, Version};

fn names(store: &Store, name: Option<&str>) -> Vec<String> {
    store.find(name).map(|certificate| certificate.subject().to_owned()).collect()
}

fn store(given: &[(&[&str], &[&str])], unknown: UnknownName) -> Result<Store, PolicyError> {
    let authority = Authority::new("ca");
    let given = (0..).zip(given).map(|(at, (sans, names))| {
        let sans: Vec<String> = sans.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(sans).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("{at}"));
        let issued = authority.issue_params(&rcgen::PKCS_ECDSA_P256_SHA256, params);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Entry::from((issued.read(), names))
    });
    Store::new(&given.collect::<Vec<_>>(), unknown)
}

#[test]
fn exact_goes_before_wildcard_and_wildcard_before_default() {
    let given: &[(&[&str], &[&str])] = &[
        (&["other.test"], &[]),
        (&["*.a.test", "a.test"], &[]),
        (&["www.A.test"], &[]),
        (&["127.0.0.1"], &[]),
    ];
    let store = store(given, UnknownName::Default).unwrap();
    for (name, expected) in [
        (None, &["CN=0"][..]),
        (Some("other.test"), &["CN=0"]),
        (Some("unknown.test"), &["CN=0"]),
        (Some("a.test"), &["CN=1"]),
        (Some("A.TEST."), &["CN=1"]),
        (Some("b.a.test"), &["CN=1"]),
        (Some("www.a.test"), &["CN=2", "CN=1"]),
        // One label, and not none.
        (Some("c.b.a.test"), &["CN=0"]),
        (Some(".a.test"), &["CN=0"]),
        (Some(""), &["CN=0"]),
        (Some("test"), &["CN=0"]),
    ] {
        assert_eq!(names(&store, name), expected, "{name:?}");
    }
}

#[test]
fn an_unknown_name_may_be_refused_and_no_name_is_not() {
    let store = store(&[(&["a.test"], &[]), (&["*.b.test"], &[])], UnknownName::Refuse).unwrap();
    assert!(names(&store, Some("c.test")).is_empty() && names(&store, Some("b.test")).is_empty());
    assert_eq!(names(&store, None), ["CN=0"]);
    assert_eq!(names(&store, Some("c.b.test")), ["CN=1"]);
}

#[test]
fn names_that_are_given_stand_for_its_own() {
    let given: &[(&[&str], &[&str])] =
        &[(&["a.test", "b.test"], &["b.test", "*.C.test"]), (&["a.test"], &[])];
    let store = store(given, UnknownName::Refuse).unwrap();
    assert_eq!(names(&store, Some("a.test")), ["CN=1"]);
    assert_eq!(names(&store, Some("b.test")), ["CN=0"]);
    assert_eq!(names(&store, Some("x.c.test")), ["CN=0"]);
}

#[test]
fn several_certificates_of_a_name_stay_in_order() {
    let given: &[(&[&str], &[&str])] =
        &[(&["x.test", "a.test", "a.test"], &[]), (&["a.test"], &[]), (&["x.test"], &[])];
    let store = store(given, UnknownName::Default).unwrap();
    assert_eq!(names(&store, Some("a.test")), ["CN=0", "CN=1"]);
    assert_eq!(names(&store, None), ["CN=0", "CN=2"]);
}

#[test]
fn odd_names_and_no_certificates_are_flaws() {
    let none = Acceptor::new(Vec::<Entry>::new(), Policy::default(), None);
    assert_eq!(none.unwrap_err(), PolicyError::NoCertificate);
    for odd in ["", "*", "a b", "127.0.0.1", "*.127.0.0.1", "a.*.test"] {
        let flaw = store(&[(&["a.test"], &[odd])], UnknownName::Default).unwrap_err();
        assert_eq!(flaw, PolicyError::BadName(odd.to_owned()));
    }
}

#[test]
fn the_key_is_of_a_kind_that_the_client_can_check() {
    let authority = Authority::new("ca");
    let ecdsa = authority.issue_for(&rcgen::PKCS_ECDSA_P256_SHA256, &["a.test"]);
    let rsa = authority.issue_for(&rcgen::PKCS_RSA_SHA256, &["a.test"]);
    let given = vec![(ecdsa.read(), Vec::new()), (rsa.read(), Vec::new())];
    let acceptor = Arc::new(Acceptor::new(given, Policy::default(), None).unwrap());
    assert_eq!(acceptor.choose(Some("a.test")), Some(ecdsa.read()));
    let mut provider = (*crate::provider::provider(&[], &[])).clone();
    provider.cipher_suites.retain(|suite| Suite::name_of(*suite).contains("_RSA_"));
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_protocol_versions(&[&TLS12]).unwrap();
    let only_rsa = config.with_root_certificates(authority.roots()).with_no_client_auth();
    for (far, chain) in [(far_client(&authority), &ecdsa), (only_rsa, &rsa)] {
        let mut link = Link::with_client(&acceptor, &Arc::new(far), "a.test", 0, Cuts::NONE);
        link.run();
        assert_eq!(link.far.peer_certificates(), Some(&chain.ders().0[..]));
    }
}

#[test]
fn policies_that_cannot_be_spoken_are_flaws() {
    let a = Authority::new("ca").issue(&["a.test"]);
    let flaw = |policy| Acceptor::new(vec![(a.read(), Vec::new())], policy, None).unwrap_err();
    let suites = |names: &[&str]| names.iter().map(|name| Suite::named(name).unwrap()).collect();
    let crossed = Policy { min_version: Version::Tls13, max_version: Version::Tls12, ..Policy::default() };
    assert_eq!(flaw(crossed), PolicyError::Versions);
    let only13 = Policy { suites: suites(&["TLS_AES_128_GCM_SHA256"]), ..Policy::default() };
    assert_eq!(flaw(only13.clone()), PolicyError::NoSuite(Version::Tls12));
    let hybrid = vec![crate::Group::named("X25519MLKEM768").unwrap()];
    let hybrid = Policy { groups: hybrid, ..Policy::default() };
    assert_eq!(flaw(hybrid.clone()), PolicyError::NoGroup(Version::Tls12));
    for policy in [only13, hybrid] {
        let policy = Policy { min_version: Version::Tls13, ..policy };
        let good = Acceptor::new(vec![(a.read(), Vec::new())], policy, None).unwrap();
        let suites = &good.realm(None).unwrap().config.crypto_provider().cipher_suites;
        assert!(suites.iter().all(|suite| suite.tls13().is_some()) || suites.len() == Suite::ALL.len());
    }
}
