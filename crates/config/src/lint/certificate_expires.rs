//! Certificates that will soon be refused.

use super::certificate_expired::in_words;
use super::{Subject, dated};
use crate::diagnose::{Problems, SpecError};
use std::time::Duration;

/// Those of Let's Encrypt hold for 90 days and are renewed 30 before their end: half of that has been missed.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

pub(super) fn certificate_expires(subject: &Subject<'_>, problems: &mut Problems) {
    for (span, certificate, _) in dated(subject) {
        let Ok(left) = certificate.not_after().duration_since(subject.now) else { continue };
        if !left.is_zero() && left <= SOON {
            let message = format!("this certificate expires in {}", in_words(left));
            let warning = SpecError::warning("certificate_expires", span, message)
                .help("put another one in its place and reload");
            problems.push(warning);
        }
    }
}
