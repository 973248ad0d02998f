//! Hosts that a certificate is to answer for and does not name.

use super::{Subject, certificates};
use crate::diagnose::{Problems, SpecError};

pub(super) fn certificate_lacks_name(subject: &Subject<'_>, problems: &mut Problems) {
    for (spec, certificate, names) in certificates(subject) {
        let Some(written) = &spec.names else { continue };
        for (written, name) in written.value.items.iter().zip(names) {
            if !certificate.names().iter().any(|known| covers(known, name)) {
                let message = "the certificate does not name this host: clients refuse it there";
                let warning = SpecError::warning("certificate_lacks_name", written.span, message)
                    .related(spec.cert.span, "this certificate");
                problems.push(warning);
            }
        }
    }
}

/// Whether a name of a certificate is this host; a wildcard covers one label (RFC 9525 §6.3).
fn covers(known: &str, name: &str) -> bool {
    let behind = name.split_once('.').map(|(_, rest)| rest);
    known == name || known.strip_prefix("*.").is_some_and(|rest| behind == Some(rest))
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_wildcard_covers_one_label() {
        for (known, name, is) in [
            ("a.example.com", "a.example.com", true),
            ("a.example.com", "b.example.com", false),
            ("*.example.com", "b.example.com", true),
            ("*.example.com", "*.example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", "example.com", false),
            ("a.example.com", "*.example.com", false),
        ] {
            assert_eq!(covers(known, name), is, "{known} {name}");
        }
    }
}
