//! Authorities of clients that have expired.

use super::certificate_expired::in_words;
use super::{Subject, client_auths};
use crate::diagnose::{Problems, SpecError};

pub(super) fn client_ca_expired(subject: &Subject<'_>, problems: &mut Problems) {
    for (spec, read) in client_auths(subject) {
        let since = |until| subject.now.duration_since(until).ok();
        for authority in read.authorities() {
            let Some(since) = since(authority.not_after) else { continue };
            let message =
                format!("the authority `{}` has expired {} ago", authority.subject, in_words(since));
            let warning = SpecError::warning("client_ca_expired", spec.ca.span, message)
                .help("remove it from the file, or put the new one in its place");
            problems.push(warning);
        }
    }
}
