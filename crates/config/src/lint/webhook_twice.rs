//! Webhooks that are told everything twice.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::spec::WebhookSpec;

pub(super) fn webhook_twice(subject: &Subject<'_>, problems: &mut Problems) {
    let hooks = &subject.spec.webhooks.items;
    for (at, hook) in hooks.iter().enumerate() {
        let first =
            hooks[..at].iter().find(|first| first.url.value == hook.url.value && overlap(first, hook));
        if let Some(first) = first.filter(|_| !hook.url.span.filled) {
            let warning = SpecError::warning(
                "webhook_twice",
                hook.url.span,
                "two webhooks have this URL: it gets every event twice",
            )
            .related(first.url.span, "first here")
            .help("name all its events in one of the two, and remove the other");
            problems.push(warning);
        }
    }
}

/// Whether some event goes to both.
fn overlap(a: &WebhookSpec, b: &WebhookSpec) -> bool {
    match (&a.events, &b.events) {
        (Some(a), Some(b)) => a.items.iter().any(|a| b.items.iter().any(|b| a.value == b.value)),
        _ => true,
    }
}
