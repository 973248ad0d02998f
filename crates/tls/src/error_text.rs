//! What rustls says of a failure, in words for people. It names kinds as its types are called.

use rustls::{AlertDescription, CertificateError, Error};

/// Names of a certificate that are told.
const TOLD: usize = 4;

/// What is said behind the word of a failure.
pub(crate) fn of(why: &Error) -> String {
    match why {
        Error::AlertReceived(alert) => format!("{} ({})", snake(*alert), u8::from(*alert)),
        Error::InvalidCertificate(why) => of_certificate(why),
        why => why.to_string(),
    }
}

fn of_certificate(why: &CertificateError) -> String {
    use CertificateError as Bad;
    let words = match why {
        Bad::UnknownIssuer => "its issuer is not known",
        Bad::Expired | Bad::ExpiredContext { .. } => "it has expired",
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => "it is not valid yet",
        Bad::Revoked => "it was revoked",
        Bad::BadEncoding => "it cannot be read",
        Bad::BadSignature => "its signature is wrong",
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => "it is not meant for this use",
        Bad::NotValidForName => "it is for other names",
        Bad::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().take(TOLD).map(|name| bare(name)).collect();
            let names = names.join(", ");
            let more = if presented.len() > TOLD { " and others" } else { "" };
            let names = if names.is_empty() { "no name".to_owned() } else { names };
            return format!("it is not for {}, but for {names}{more}", expected.to_str());
        }
        Bad::ExpiredRevocationList | Bad::ExpiredRevocationListContext { .. } => {
            "the list of what its issuer has revoked has expired"
        }
        Bad::UnknownRevocationStatus => "whether it was revoked is not known",
        Bad::Other(other) => return of_other(&other.0.to_string()),
        Bad::UnhandledCriticalExtension => "it has a critical extension that is not supported",
        Bad::UnsupportedSignatureAlgorithmContext { .. }
        | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed in a way that is not supported"
        }
        Bad::ApplicationVerificationFailure => "it is not taken here",
        // More kinds come with new versions of rustls.
        _ => "it cannot be verified",
    };
    words.to_owned()
}

/// What rustls passes on of the verifier: the name of a kind.
fn of_other(kind: &str) -> String {
    let words = match kind {
        CA_AS_LEAF => "it is that of an authority, as self-signed ones are",
        "EndEntityUsedAsCa" => "one of its issuers is no authority",
        "NameConstraintViolation" => "its issuer may not sign for such names",
        "PathLenConstraintViolated" | "MaximumPathDepthExceeded" => "its chain is longer than it may be",
        "UnsupportedCertVersion" => "its version is not 3",
        "UnsupportedCriticalExtension" => "it has a critical extension that is not supported",
        "SignatureAlgorithmMismatch" => "it names two algorithms for its signature",
        // Words of verifiers of our own, or a kind that has become known since.
        kind if kind.contains(' ') => return kind.to_owned(),
        _ => "it breaks a rule of certificates (RFC 5280)",
    };
    words.to_owned()
}

/// The kind of an authority's certificate that is shown as a server's: one that somebody has signed for themselves,
/// mostly.
pub(crate) const CA_AS_LEAF: &str = "CaUsedAsEndEntity";

/// A name of a certificate without the words for its kind that rustls puts around it: `DnsName("a.test")`.
fn bare(name: &str) -> &str {
    name.split_once('"').and_then(|(_, rest)| rest.strip_suffix("\")")).unwrap_or(name)
}

/// What a server's failure comes to, in words that hold nothing of what it sent; `None`: the word of the kind says it
/// all.
pub(crate) fn fixed(why: &Error) -> Option<&'static str> {
    Some(match why {
        Error::InvalidCertificate(why) => return fixed_of_certificate(why),
        Error::AlertReceived(alert) => match alert {
            AlertDescription::HandshakeFailure => {
                "the server refused the handshake: it can use nothing that was offered, or wants a client certificate"
            }
            AlertDescription::CertificateRequired => "the server wants a client certificate",
            AlertDescription::UnknownCA => "the server does not trust the issuer of the client certificate",
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => "the server does not take the client certificate",
            AlertDescription::CertificateExpired => "the server says that the client certificate has expired",
            AlertDescription::CertificateRevoked => "the server says that the client certificate was revoked",
            AlertDescription::ProtocolVersion => "the server speaks no version of TLS that was offered",
            AlertDescription::UnrecognisedName => "the server does not know the name that it was asked for",
            AlertDescription::NoApplicationProtocol => "the server does not speak HTTP/1.1",
            AlertDescription::InternalError => "the server failed within (alert internal_error)",
            _ => return None,
        },
        // What is no TLS at all looks like a record of an unknown kind.
        Error::InvalidMessage(_) => "what the server sent is not TLS, or is damaged",
        _ => return None,
    })
}

fn fixed_of_certificate(why: &CertificateError) -> Option<&'static str> {
    use CertificateError as Bad;
    Some(match why {
        Bad::UnknownIssuer => "the issuer of the server's certificate is not trusted",
        Bad::Expired | Bad::ExpiredContext { .. } => "the server's certificate has expired",
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => "the server's certificate is not valid yet",
        Bad::Revoked => "the server's certificate was revoked",
        Bad::BadSignature => "the server's certificate was not signed by the issuer that it names",
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "the server's certificate is not meant for servers"
        }
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            "the server's certificate is for other names"
        }
        Bad::BadEncoding => "the server's certificate cannot be read",
        Bad::Other(other) if other.0.to_string() == CA_AS_LEAF => {
            "the server's certificate is self-signed: name it as `tls.ca`"
        }
        _ => return None,
    })
}

/// The name of an alert as RFC 8446 §6 writes it.
fn snake(alert: AlertDescription) -> String {
    if alert == AlertDescription::UnrecognisedName {
        return "unrecognized_name".to_owned();
    }
    let name = format!("{alert:?}");
    let mut written = String::with_capacity(name.len() + 4);
    let mut was_upper = true;
    for letter in name.chars() {
        // Letters of an abbreviation stay together.
        if letter.is_ascii_uppercase() && !was_upper {
            written.push('_');
        }
        was_upper = letter.is_ascii_uppercase();
        written.push(letter.to_ascii_lowercase());
    }
    written
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;

    use super::*;

    #[test]
    fn alerts_have_the_names_of_the_rfc() {
        for (alert, words) in [
            (AlertDescription::BadCertificate, "bad_certificate (42)"),
            (AlertDescription::UnknownCA, "unknown_ca (48)"),
            (AlertDescription::UnrecognisedName, "unrecognized_name (112)"),
            (AlertDescription::InternalError, "internal_error (80)"),
        ] {
            assert_eq!(of(&Error::AlertReceived(alert)), words);
        }
    }

    #[test]
    fn names_of_certificates_are_told_but_not_hundreds() {
        let expected = ServerName::try_from("a.test").unwrap();
        let presented = (0..100).map(|at| format!("DnsName(\"{at}.test\")")).collect();
        let why = CertificateError::NotValidForNameContext { expected, presented };
        let words = "it is not for a.test, but for 0.test, 1.test, 2.test, 3.test and others";
        assert_eq!(of(&why.into()), words);
        assert_eq!(of(&CertificateError::UnknownIssuer.into()), "its issuer is not known");
    }

    /// What rustls passes on of the verifier has the name of a type.
    #[test]
    fn no_name_of_a_type_is_told() {
        let other = |kind: &str| {
            CertificateError::Other(rustls::OtherError(std::sync::Arc::new(std::io::Error::other(
                kind.to_owned(),
            ))))
        };
        let self_signed = Error::InvalidCertificate(other("CaUsedAsEndEntity"));
        assert_eq!(of(&self_signed), "it is that of an authority, as self-signed ones are");
        let words = "the server's certificate is self-signed: name it as `tls.ca`";
        assert_eq!(fixed(&self_signed), Some(words));
        for kind in ["NameConstraintViolation", "EmptyEkuExtension", "SomethingNew"] {
            let words = of(&Error::InvalidCertificate(other(kind)));
            assert!(!words.contains(kind) && words.contains(' '), "{words}");
        }
        assert_eq!(of(&Error::InvalidCertificate(other("the list is old"))), "the list is old");
    }

    #[test]
    fn fixed_words_hold_nothing_of_the_peer() {
        let expected = ServerName::try_from("a.test").unwrap();
        let why =
            CertificateError::NotValidForNameContext { expected, presented: vec!["evil.test".to_owned()] };
        assert_eq!(fixed(&why.into()), Some("the server's certificate is for other names"));
        let alert = Error::AlertReceived(AlertDescription::CertificateRequired);
        assert_eq!(fixed(&alert), Some("the server wants a client certificate"));
    }
}
