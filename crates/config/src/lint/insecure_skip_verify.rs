//! Services that speak with whoever answers.

use super::Subject;
use crate::diagnose::{Problems, SpecError};

pub(super) fn insecure_skip_verify(subject: &Subject<'_>, problems: &mut Problems) {
    for (name, service) in &subject.spec.services.0 {
        let Some(tls) = &service.tls else { continue };
        let Some(skips) = tls.value.insecure_skip_verify.filter(|skips| skips.value) else { continue };
        let message = format!(
            "the certificates of the service `{}` are not verified: who stands in between can read and change everything",
            name.value
        );
        let mut warning = SpecError::warning("insecure_skip_verify", skips.span, message)
            .help("write `ca: FILE` with the certificate that signed them, or with a self-signed one itself");
        if let Some(ca) = &tls.value.ca {
            warning = warning.related(ca.span, "nothing is compared with this");
        }
        problems.push(warning);
    }
}
