//! Settings for requests, of services that take whole connections or datagrams: these have no status, no cookie and no
//! `Host`.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use crate::spec::{ListSpec, ServiceSpec, SwitchSpec};
use thalweg_upstream::Endpoint;

pub(super) fn setting_ignored(subject: &Subject<'_>, problems: &mut Problems) {
    // Named services come first, in the order of the file.
    for ((name, spec), service) in subject.spec.services.0.iter().zip(&subject.plan.services) {
        let takes_none = |it: &Endpoint| it.takes_connections() || it.takes_datagrams();
        if service.endpoints.is_empty() || !service.endpoints.iter().all(takes_none) {
            continue;
        }
        for (key, span) in for_requests(spec) {
            let message = format!("the service `{}` takes no requests: `{key}` changes nothing", name.value);
            let warning = SpecError::warning("setting_ignored", span, message)
                .help("leave it out, or write `http://…` endpoints for requests");
            problems.push(warning);
        }
    }
}

/// What only requests can be served by, and where it is written.
fn for_requests(spec: &ServiceSpec) -> impl Iterator<Item = (&'static str, Span)> {
    let sticky = spec.sticky.as_ref().filter(|it| !matches!(it.value, SwitchSpec::Off));
    let hedge = spec.retry.hedge.as_ref().filter(|it| !matches!(it.value, SwitchSpec::Off));
    let first_byte = spec.timeouts.first_byte.as_ref().map(|it| it.span);
    let all = [
        ("sticky", sticky.map(|it| it.span)),
        ("host", spec.host.as_ref().map(|it| it.span)),
        ("retry.statuses", first(spec.retry.statuses.as_ref())),
        ("retry.grpc_statuses", first(spec.retry.grpc_statuses.as_ref())),
        ("retry.per_try_timeout", spec.retry.per_try_timeout.as_ref().map(|it| it.span)),
        ("retry.hedge", hedge.map(|it| it.span)),
        ("timeouts.first_byte", first_byte),
        ("timeouts.request", spec.timeouts.request.as_ref().map(|it| it.span)),
    ];
    all.into_iter().filter_map(|(key, span)| Some((key, span?)))
}

fn first<T>(list: Option<&ListSpec<T>>) -> Option<Span> {
    list?.items.first().map(|item| item.span)
}
