//! Certificates that are not used for a host, because another one with a key of the same kind stands before them.

use super::{Subject, certificates};
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use std::collections::HashMap;
use thalweg_tls::Certificate;

pub(super) fn certificate_twice(subject: &Subject<'_>, problems: &mut Problems) {
    // By listener and host: those that answer for it so far.
    let mut known: HashMap<(usize, &str), Vec<(&Certificate, Span)>> = HashMap::new();
    for (listener, spec, certificate, names) in certificates(subject) {
        let own = if names.is_empty() { certificate.names() } else { names };
        let mut first = None;
        for (at, name) in own.iter().enumerate() {
            let before = known.entry((listener, name)).or_default();
            let taken = before.iter().find(|(other, _)| other.is_of_kind(certificate));
            first = first.or(taken.map(|(_, span)| (at, name, *span)));
            if taken.is_none() {
                before.push((certificate, spec.cert.span));
            }
        }
        let Some((at, name, before)) = first else { continue };
        let written = spec.names.as_ref().and_then(|names| names.value.items.get(at));
        let (span, host) = match written {
            Some(written) => (written.span, "this host".to_owned()),
            None => (spec.cert.span, format!("`{name}`")),
        };
        let message = format!("for {host} another certificate with a key of the same kind is used");
        let warning = SpecError::warning("certificate_twice", span, message)
            .related(before, "this one stands before it")
            .help("remove one of the two, or say with `names` which hosts each answers for");
        problems.push(warning);
    }
}
