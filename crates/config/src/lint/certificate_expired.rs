//! Certificates that are refused because of the time.

use super::{Subject, dated};
use crate::diagnose::{Problems, SpecError};
use std::time::Duration;

pub(super) fn certificate_expired(subject: &Subject<'_>, problems: &mut Problems) {
    for (span, certificate, who) in dated(subject) {
        if let Ok(since) = subject.now.duration_since(certificate.not_after()) {
            let message = format!("this certificate has expired {} ago: {who} refuse it", in_words(since));
            let warning = SpecError::warning("certificate_expired", span, message)
                .help("put another one in its place and reload");
            problems.push(warning);
        } else if let Ok(until) = certificate.not_before().duration_since(subject.now)
            && !until.is_zero()
        {
            let message =
                format!("this certificate holds only in {}: {who} refuse it until then", in_words(until));
            let warning = SpecError::warning("certificate_expired", span, message)
                .help("look at the clock of this machine; if it is right, wait with this certificate");
            problems.push(warning);
        }
    }
}

/// A time as one would say it: in whole days, hours or minutes.
pub(super) fn in_words(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    let (number, unit) = match minutes {
        0..60 => (minutes, "minute"),
        60..1440 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}
