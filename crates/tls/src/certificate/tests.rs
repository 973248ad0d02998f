//! Certificates made for the purpose, and what is wrong with them.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, date_time_ymd};

use super::*;
use crate::testing::{Authority, Issued};

fn flaw(chain: &str, key: &str) -> CertificateError {
    Certificate::read(chain.as_bytes(), key.as_bytes()).unwrap_err()
}

#[test]
fn tells_what_is_in_it() {
    let authority = Authority::new("The Authority");
    let mut params =
        CertificateParams::new(["A.Test".to_owned(), "*.b.test".to_owned(), "::1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "a");
    (params.not_before, params.not_after) = (date_time_ymd(1965, 1, 1), date_time_ymd(2000, 1, 2));
    let issued = authority.issue_params(&rcgen::PKCS_ECDSA_P384_SHA384, params);
    // The authority may be sent along, and blocks of other kinds stand between.
    let chain = format!("Some words\n{}\n{}{}", issued.chain, issued.key, authority.pem);
    let key = format!(
        "-----BEGIN EC PARAMETERS-----\r\nBggqhkjOPQMBBw==\r\n-----END EC PARAMETERS-----\r\n{}",
        issued.key
    );
    let certificate = Certificate::read(chain.as_bytes(), key.as_bytes()).unwrap();
    assert_eq!(certificate.names(), ["a.test", "*.b.test"]);
    assert_eq!(certificate.addresses(), ["::1".parse::<IpAddr>().unwrap()]);
    // Long expired, and read all the same. 1965 is five years, one of them a leap year, before 1970.
    assert_eq!(certificate.not_after(), SystemTime::UNIX_EPOCH + Duration::from_secs(946_771_200));
    assert_eq!(
        certificate.not_before(),
        SystemTime::UNIX_EPOCH - Duration::from_secs((5 * 365 + 1) * 86_400)
    );
    assert_eq!((certificate.subject(), certificate.is_self_signed()), ("CN=a", false));
    assert!(certificate.issuer().contains("CN=The Authority"), "{}", certificate.issuer());
    assert_eq!(certificate.key().cert.len(), 2);
    assert_eq!(certificate.digest(), digest([certificate.key().cert[0].as_ref()]));
    assert_eq!(Certificate::read(authority.pem.as_bytes(), b"").unwrap_err(), CertificateError::NoNames);
}

#[test]
fn equality_is_of_chain_and_key_and_debug_shows_no_key() {
    let authority = Authority::new("ca");
    let (a, b) = (authority.issue(&["a.test"]), authority.issue(&["a.test"]));
    assert_eq!(a.read(), a.read());
    assert_ne!(a.read(), b.read());
    let longer = Issued { chain: format!("{}{}", a.chain, authority.pem), key: a.key.clone() };
    assert_ne!(a.read(), longer.read());
    let shown = format!("{:?}", a.read());
    assert!(shown.contains("a.test") && shown.len() < 200, "{shown}");
}

#[test]
fn keys_of_all_usual_kinds_are_read() {
    let authority = Authority::new("ca");
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ] {
        authority.issue_for(algorithm, &["a.test"]).read();
    }
}

#[test]
fn the_key_must_be_the_certificates() {
    let authority = Authority::new("ca");
    let (a, b) = (authority.issue(&["a.test"]), authority.issue(&["a.test"]));
    assert_eq!(flaw(&a.chain, &b.key), CertificateError::KeyDoesNotMatch);
    let rsa = authority.issue_for(&rcgen::PKCS_RSA_SHA256, &["a.test"]);
    assert_eq!(flaw(&a.chain, &rsa.key), CertificateError::KeyDoesNotMatch);
    assert_eq!(flaw(&a.chain, &format!("{}{}", a.key, b.key)), CertificateError::SeveralKeys);
    assert_eq!(flaw(&a.chain, &a.chain), CertificateError::NoKey);
    let broken = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    assert!(matches!(flaw(&a.chain, broken), CertificateError::UnusableKey(_)));
    assert!(flaw(&a.chain, broken).is_of_key());
}

#[test]
fn encrypted_keys_are_refused_with_words() {
    let a = Authority::new("ca").issue(&["a.test"]);
    for encrypted in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\nDEK-Info: AES-128-CBC,00\r\n\r\nMAA=\r\n\
         -----END RSA PRIVATE KEY-----\r\n",
    ] {
        let flaw = flaw(&a.chain, encrypted);
        assert_eq!(flaw, CertificateError::EncryptedKey);
        assert!(flaw.to_string().contains("encrypted") && flaw.is_of_key());
    }
}

#[test]
fn chains_stand_in_order() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let a = authority.issue(&["a.test"]);
    assert_eq!(flaw(&format!("{}{}", a.chain, other.pem), &a.key), CertificateError::OutOfOrder(2));
    assert_eq!(flaw(&format!("{}{}", authority.pem, a.chain), &a.key), CertificateError::OutOfOrder(2));
    let longer = format!("{}{}{}", a.chain, authority.pem, other.pem);
    assert_eq!(flaw(&longer, &a.key), CertificateError::OutOfOrder(3));
    let many = a.chain.repeat(TLS_CHAIN_AND_ONE);
    assert_eq!(flaw(&many, &a.key), CertificateError::TooLarge { key: false });
}

const TLS_CHAIN_AND_ONE: usize = thalweg_core::limits::TLS_CHAIN + 1;

#[test]
fn what_is_no_certificate_is_said_to_be_none() {
    let a = Authority::new("ca").issue(&["a.test"]);
    assert_eq!(flaw("", &a.key), CertificateError::NoCertificate);
    assert_eq!(flaw(&a.key, &a.key), CertificateError::NoCertificate);
    let cut = &a.chain[..a.chain.len() - 40];
    assert!(matches!(flaw(cut, &a.key), CertificateError::BadPem { key: false, .. }));
    let odd = a.chain.replace('M', "*");
    assert!(matches!(flaw(&odd, &a.key), CertificateError::BadPem { key: false, .. }));
    let cut = &a.key[..a.key.len() - 40];
    assert!(matches!(flaw(&a.chain, cut), CertificateError::BadPem { key: true, .. }));
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    assert!(matches!(flaw(empty, &a.key), CertificateError::BadCertificate(1, _)));
    let second = format!("{}{empty}", a.chain);
    assert!(matches!(flaw(&second, &a.key), CertificateError::BadCertificate(2, _)));
    let large = "#".repeat(thalweg_core::limits::TLS_PEM + 1);
    assert_eq!(flaw(&large, &a.key), CertificateError::TooLarge { key: false });
    assert_eq!(flaw(&a.chain, &large), CertificateError::TooLarge { key: true });
}

#[test]
fn a_certificate_without_names_or_with_odd_ones_is_refused() {
    let authority = Authority::new("ca");
    assert_eq!(flaw_of(&authority, CertificateParams::new(Vec::new()).unwrap()), CertificateError::NoNames);
    // subjectAltName with one dNSName each.
    for name in
        [&b"a.test\0.b.test"[..], b"a b", b"", b"*", b"*.*.a.test", b"a.*.test", b"f*.a.test", b"\xff.test"]
    {
        let mut san = vec![0x30, name.len() as u8 + 2, 0x82, name.len() as u8];
        san.extend_from_slice(name);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 17], san));
        let flaw = flaw_of(&authority, params);
        assert!(matches!(flaw, CertificateError::BadCertificate(1, _)), "{name:?}: {flaw:?}");
    }
}

fn flaw_of(authority: &Authority, params: CertificateParams) -> CertificateError {
    let issued = authority.issue_params(&rcgen::PKCS_ECDSA_P256_SHA256, params);
    flaw(&issued.chain, &issued.key)
}

#[test]
fn a_self_signed_one_is_known_as_such() {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let key: &KeyPair = &made.signing_key;
    let read = Certificate::read(made.cert.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    assert!(read.is_self_signed());
}
