//! What stands around the plan, and who is told of events.

use super::describe::{named, put_certificate, setting};
use super::fields::{Times, list};
use super::{Object, ObjectKind};
use crate::settings::{AccessLog, Admin, AdminTls, LogFormat, LogTarget, Settings, User};
use thalweg_observe::WebhookPolicy;

/// The settings, a top-level key each, and the webhooks.
pub(super) fn describe<'a>(settings: &'a Settings, objects: &mut Vec<Object<'a>>) {
    let Settings { admin, state, workers, user, metrics, access_log, webhooks } = settings;
    let mut times = Times::default();
    for webhook in webhooks {
        let url = format!("{}{}", webhook.url, webhook.url.target());
        objects.push(self::webhook(webhook, format!("{url} {}", times.before(&url))));
    }
    objects.push(setting("workers", move |fields| fields.or("", *workers, "auto")));
    if let Some(Admin { address, token, read_token, tls }) = admin {
        objects.push(setting("admin", move |fields| {
            fields.put("address", address);
            for (name, token) in [("token", token), ("read_token", read_token)] {
                token.iter().for_each(|token| fields.secret(name, token.reveal()));
            }
            if let Some(AdminTls { acceptor, files: _ }) = tls {
                let certificates = acceptor.certificates();
                certificates.for_each(|certificate| put_certificate("tls.cert", certificate, fields));
            }
        }));
    }
    if let Some(state) = state {
        objects.push(setting("state", move |fields| fields.put("path", state.display())));
    }
    if let Some(User { user, group }) = user {
        objects.push(setting("user", move |fields| {
            fields.put("", user);
            fields.maybe("group", group.as_ref());
        }));
    }
    if let Some(metrics) = metrics {
        objects.push(setting("metrics", move |fields| fields.put("address", metrics)));
    }
    if let Some(AccessLog { format, target }) = access_log {
        objects.push(setting("access_log", move |fields| {
            let format = match format {
                LogFormat::Json => "json",
                LogFormat::Combined => "combined",
            };
            fields.put("format", format);
            match target {
                LogTarget::Stdout => fields.put("path", "stdout"),
                LogTarget::Stderr => fields.put("path", "stderr"),
                LogTarget::File(path) => fields.put("path", format_args!("file {}", path.display())),
            }
        }));
    }
}

/// Path and query are often the secret of a webhook: as a part of `id` they tell two apart, and are not shown.
fn webhook(webhook: &WebhookPolicy, id: String) -> Object<'_> {
    let WebhookPolicy { url, events, secret, timeout, attempts, backoff, queue } = webhook;
    let mut object = named(ObjectKind::Webhook, "", String::new, move |fields| {
        let kinds = events.iter().map(|kind| kind.name());
        fields.put("events", if events.is_empty() { "all".to_owned() } else { list(kinds) });
        if let Some(secret) = secret {
            fields.secret("secret", secret.reveal().escape_ascii());
        }
        fields.time("timeout", *timeout);
        fields.put("attempts", attempts);
        fields.time("backoff", *backoff);
        fields.put("queue", queue);
    });
    object.name = url.to_string().into();
    object.id = id.into();
    object
}
