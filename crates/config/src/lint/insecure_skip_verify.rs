//! Services that speak with whoever answers.

use super::{Subject, targets};
use crate::diagnose::{Problems, SpecError};
use crate::spec::ToSpec;

pub(super) fn insecure_skip_verify(subject: &Subject<'_>, problems: &mut Problems) {
    let services =
        subject.spec.services.0.iter().map(|(name, it)| (format!("service `{}`", name.value), &it.tls));
    let sealed = targets(subject).filter_map(|to| match to {
        ToSpec::Sealed(sealed) => {
            Some((format!("destinations below `{}`", sealed.domain.value), &sealed.tls))
        }
        _ => None,
    });
    for (whose, tls) in services.chain(sealed) {
        let Some(tls) = tls else { continue };
        let Some(skips) = tls.value.insecure_skip_verify.filter(|skips| skips.value) else { continue };
        let message = format!(
            "the certificates of the {whose} are not verified: an attacker in between can read and change everything"
        );
        let mut warning = SpecError::warning("insecure_skip_verify", skips.span, message)
            .help("write `ca: FILE` with the certificate that signed them, or with a self-signed one itself");
        if let Some(ca) = &tls.value.ca {
            warning = warning.related(ca.span, "nothing is compared with this");
        }
        problems.push(warning);
    }
}
