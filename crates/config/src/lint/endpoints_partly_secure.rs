//! Services of which some endpoints are reached through TLS and others are not.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use thalweg_upstream::{Address, Endpoint};

pub(super) fn endpoints_partly_secure(subject: &Subject<'_>, problems: &mut Problems) {
    // Named services come first, in the order of the file.
    for ((name, _), service) in subject.spec.services.0.iter().zip(&subject.plan.services) {
        // Nobody listens in on a unix socket.
        let plain =
            |endpoint: &&Endpoint| !endpoint.is_secure() && !matches!(endpoint.address, Address::Unix(_));
        let Some(plain) = service.endpoints.iter().find(plain) else { continue };
        if service.endpoints.iter().any(Endpoint::is_secure) {
            let message = format!(
                "some endpoints of the service `{}` are reached through TLS, `{}` is not",
                name.value, plain.url
            );
            let warning = SpecError::warning("endpoints_partly_secure", name.span, message)
                .help("each request may go to either: write `https://…` for all of them");
            problems.push(warning);
        }
    }
}
