//! Authorities of clients that have expired. Their own time is not looked at when a client comes: it is the signature
//! that counts (RFC 5280 §6.1.1, a trust anchor is a name and a key).

use super::certificate_expired::in_words;
use super::{Subject, client_auths};
use crate::diagnose::{Problems, SpecError};

pub(super) fn client_ca_expired(subject: &Subject<'_>, problems: &mut Problems) {
    for (spec, read) in client_auths(subject) {
        let since = |until| subject.now.duration_since(until).ok();
        for authority in read.authorities() {
            let Some(since) = since(authority.not_after) else { continue };
            let message = format!(
                "the authority `{}` has expired {} ago; it is believed as long as what it has signed is valid",
                authority.subject,
                in_words(since)
            );
            let warning = SpecError::warning("client_ca_expired", spec.ca.span, message)
                .help("remove it from the file, or put the new one in its place");
            problems.push(warning);
        }
    }
}
