//! `webhooks:` who is told when something happens.

use super::secret::Secrets;
use super::{duration, number};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::spec::{ListSpec, Spanned, WebhookSpec};
use std::time::Duration;
use thalweg_core::{EventKind, SigningKey};
use thalweg_http::HttpUrl;
use thalweg_observe::WebhookPolicy;

/// Most webhooks: each has a queue of its own.
const WEBHOOKS: usize = 32;
/// Most attempts for one delivery.
const ATTEMPTS: u32 = 10;

/// Checks the webhooks.
pub(super) fn webhooks(
    list: &ListSpec<WebhookSpec>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Vec<WebhookPolicy> {
    if let Some(extra) = list.items.get(WEBHOOKS) {
        let message = format!("there are at most {WEBHOOKS} webhooks");
        problems.push(SpecError::new(Class::Invalid, extra.span, message));
    }
    let checked = list.items.iter().take(WEBHOOKS).map(|item| webhook(&item.value, secrets, problems));
    checked.flatten().collect()
}

/// `None` when the URL is wrong; the rest is checked all the same.
fn webhook(spec: &WebhookSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<WebhookPolicy> {
    let url = HttpUrl::parse(&spec.url);
    if let Err(message) = &url {
        let error = SpecError::new(Class::Invalid, spec.url.span, *message)
            .help("write for example `https://ops.example.com/hook`");
        problems.push(error);
    }
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(60));
    let timeout = duration(spec.timeout.as_ref(), least, most, problems);
    let attempts = number(spec.attempts.as_ref(), 1, ATTEMPTS, problems);
    let events = spec.events.as_ref().map(|list| events(list, problems)).unwrap_or_default();
    let secret = spec.secret.as_ref().and_then(|spec| secrets.read(spec, problems));
    let built_in = WebhookPolicy::new(url.ok()?);
    Some(WebhookPolicy {
        events,
        secret: secret.and_then(|secret| SigningKey::new(&secret).ok()),
        timeout: timeout.unwrap_or(built_in.timeout),
        attempts: attempts.unwrap_or(built_in.attempts),
        ..built_in
    })
}

fn events(list: &Spanned<ListSpec<String>>, problems: &mut Problems) -> Vec<EventKind> {
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "an empty list asks for no event")
            .help("remove `events` to be told of all");
        problems.push(error);
    }
    let mut events = Vec::new();
    for name in &list.value.items {
        match EventKind::from_name(name) {
            Some(kind) if events.contains(&kind) => {}
            Some(kind) => events.push(kind),
            None => {
                let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
                let error = SpecError::value(name.span, "event", format!("unknown event `{}`", name.value))
                    .class(Class::Unknown)
                    .maybe_help(suggest(name, "events", &known));
                problems.push(error);
            }
        }
    }
    events
}
