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
            let names = presented[..presented.len().min(TOLD)].join(", ");
            let more = if presented.len() > TOLD { " and others" } else { "" };
            let names = if names.is_empty() { "no name".to_owned() } else { names };
            return format!("it is not for {}, but for {names}{more}", expected.to_str());
        }
        Bad::ExpiredRevocationList | Bad::ExpiredRevocationListContext { .. } => {
            "the list of what its issuer has revoked has expired"
        }
        Bad::UnknownRevocationStatus => "whether it was revoked is not known",
        why => return why.to_string(),
    };
    words.to_owned()
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
        let presented = (0..100).map(|at| format!("{at}.test")).collect();
        let why = CertificateError::NotValidForNameContext { expected, presented };
        let words = "it is not for a.test, but for 0.test, 1.test, 2.test, 3.test and others";
        assert_eq!(of(&why.into()), words);
        assert_eq!(of(&CertificateError::UnknownIssuer.into()), "its issuer is not known");
    }
}
