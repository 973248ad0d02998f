//! Forwarded fields that anybody may set.

use super::Subject;
use crate::diagnose::{Problems, SpecError};

pub(super) fn trusts_everyone(subject: &Subject<'_>, problems: &mut Problems) {
    for network in &subject.spec.trusted_proxies.items {
        if network.value.ends_with("/0") {
            let message = "every client is believed: it can give itself any address";
            let warning = SpecError::warning("trusts_everyone", network.span, message)
                .help("list the networks of the load balancers in front, such as `10.0.0.0/8`");
            problems.push(warning);
        }
    }
}
