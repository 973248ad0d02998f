//! Who a client is, by the certificate that it has proven to have.

use std::net::IpAddr;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::certificate::digest;
use crate::distinguished_name::{self, hex};

/// What a client's certificate says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    subject: String,
    issuer: String,
    names: Vec<String>,
    fingerprint: [u8; 32],
    certificate: Vec<u8>,
}

impl Identity {
    /// Reads a certificate in DER. `None`: it cannot be read, or says a name in two ways.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let Ok(([], leaf)) = X509Certificate::from_der(der) else { return None };
        let extension = leaf.subject_alternative_name().ok()?;
        let general = extension.iter().flat_map(|extension| &extension.value.general_names);
        Some(Self {
            subject: distinguished_name::text(leaf.subject())?,
            issuer: distinguished_name::text(leaf.issuer())?,
            names: general.filter_map(name).collect(),
            fingerprint: digest([der]),
            certificate: der.to_vec(),
        })
    }

    /// Its subject as RFC 4514 writes names, in ASCII; empty where it has none.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The subject of the authority that has signed it, likewise.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Its subjectAltNames, each with its kind before it: `DNS:`, `IP:`, `URI:` or `email:`; other kinds are left out.
    /// Visible ASCII without commas and quotes; what is not is written as `#` and its bytes in hexadecimal digits.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// SHA-256 of the certificate.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// The certificate, DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }
}

fn name(general: &GeneralName<'_>) -> Option<String> {
    let (kind, value) = match general {
        GeneralName::DNSName(name) => ("DNS:", *name),
        GeneralName::URI(uri) => ("URI:", *uri),
        GeneralName::RFC822Name(address) => ("email:", *address),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?;
            return Some(format!("IP:{address}"));
        }
        _ => return None,
    };
    let mut text = kind.to_owned();
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b'"' | b'\\');
    // `#` in front says that digits follow.
    if value.bytes().all(is_plain) && !value.starts_with('#') {
        text.push_str(value);
    } else {
        text.push('#');
        value.bytes().for_each(|byte| hex(byte, &mut text));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn identity(names: Vec<SanType>) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Identity::read(made.der()).unwrap()
    }

    #[test]
    fn names_have_their_kind_before_them() {
        let names = vec![
            SanType::DnsName("a.test".try_into().unwrap()),
            SanType::IpAddress("192.0.2.1".parse().unwrap()),
            SanType::IpAddress("2001:db8::1".parse().unwrap()),
            SanType::URI("spiffe://a.test/x".try_into().unwrap()),
            SanType::Rfc822Name("a@a.test".try_into().unwrap()),
        ];
        let expected =
            ["DNS:a.test", "IP:192.0.2.1", "IP:2001:db8::1", "URI:spiffe://a.test/x", "email:a@a.test"];
        assert_eq!(identity(names).names(), expected);
        assert!(identity(Vec::new()).names().is_empty());
    }

    /// A list of names must not grow by what stands in one of them (CVE-2021-44532 of another program).
    #[test]
    fn no_name_can_pass_for_two_or_end_a_line() {
        for (uri, expected) in [
            ("x,DNS:admin", "URI:#782C444E533A61646D696E"),
            ("x\r\ny", "URI:#780D0A79"),
            ("x y", "URI:#782079"),
            ("x\"", "URI:#7822"),
            ("#78", "URI:#233738"),
            ("x#78", "URI:x#78"),
        ] {
            assert_eq!(identity(vec![SanType::URI(uri.try_into().unwrap())]).names(), [expected]);
        }
    }

    /// Whatever an authority may have signed: no panic, and no byte in a text that a head of a request cannot carry.
    #[test]
    fn damaged_certificates_say_nothing_that_could_end_a_line() {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Example, and more");
        params.subject_alt_names.push(SanType::URI("spiffe://a.test/x".try_into().unwrap()));
        params.subject_alt_names.push(SanType::IpAddress("192.0.2.1".parse().unwrap()));
        let whole = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let mut rng = fastrand::Rng::with_seed(47);
        let mut read = 0;
        for _ in 0..20_000 {
            let mut der = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(0..der.len());
                der[at] = rng.u8(..);
            }
            let Some(identity) = Identity::read(&der) else { continue };
            read += 1;
            let visible = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            assert!(visible(identity.subject()), "{}", identity.subject());
            assert!(identity.names().iter().all(|name| visible(name) && !name.contains([',', ' '])));
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn what_is_no_certificate_is_nobody() {
        assert_eq!(Identity::read(b""), None);
        let made = CertificateParams::new(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap());
        let mut der = made.unwrap().der().to_vec();
        assert!(Identity::read(&der).is_some());
        der.push(0);
        assert_eq!(Identity::read(&der), None);
        der.truncate(der.len() / 2);
        assert_eq!(Identity::read(&der), None);
    }
}
