//! Lists of revoked certificates that do not hold any more.

use super::certificate_expired::in_words;
use super::{Subject, client_auths};
use crate::diagnose::{Problems, SpecError};

pub(super) fn crl_expired(subject: &Subject<'_>, problems: &mut Problems) {
    for (spec, read) in client_auths(subject) {
        let files = spec.crl.as_ref().map_or(&[][..], |list| &list.value.items);
        for list in read.revocations() {
            let since = subject.now.duration_since(list.next_update).ok();
            let Some((since, file)) = since.zip(files.get(list.file)) else { continue };
            let message = format!(
                "the list of `{}` has expired {} ago: the clients of this issuer are refused",
                list.issuer,
                in_words(since)
            );
            let warning = SpecError::warning("crl_expired", file.span, message)
                .help("have the issuer's list fetched more often than it expires, and reload");
            problems.push(warning);
        }
    }
}
