//! Clients that are sent to TLS where nobody here speaks it.

use super::Subject;
use crate::diagnose::{Problems, SpecError};

pub(super) fn redirect_without_tls(subject: &Subject<'_>, problems: &mut Problems) {
    if subject.plan.takes_https() {
        return;
    }
    let listeners = subject.spec.listeners.0.iter();
    for written in listeners.filter_map(|(_, spec)| spec.redirect_https).filter(|written| written.value) {
        let message = "no listener has `tls`: clients are sent to port 443 of their host";
        let warning = SpecError::warning("redirect_without_tls", written.span, message)
            .help("add a listener with `tls`; where TLS ends at a proxy in front, let that one redirect");
        problems.push(warning);
    }
}
