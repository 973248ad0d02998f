//! What stands around the plan, and who is told of events.

use super::describe::{named, put_certificate, setting};
use super::fields::{Fields, Times};
use super::{Object, ObjectKind};
use crate::settings::{AdminTls, Registration, RouteSource, Settings};
use thalweg_observe::WebhookPolicy;

/// The settings, a top-level key each, the objectives and the webhooks.
pub(super) fn describe<'a>(settings: &'a Settings, objects: &mut Vec<Object<'a>>) {
    let Settings {
        admin,
        state,
        workers,
        user,
        metrics,
        access_log,
        slos,
        webhooks,
        discover: _,
        route_sources,
        registrations,
        purge_channel,
    } = settings;
    let mut times = Times::default();
    for webhook in webhooks {
        let url = format!("{}{}", webhook.url, webhook.url.target());
        objects.push(self::webhook(webhook, format!("{url} {}", times.before(&url))));
    }
    for slo in slos {
        objects.push(named(ObjectKind::Slo, &slo.name, String::new, move |fields| fields.all("", slo)));
    }
    for RouteSource { words, id, .. } in route_sources {
        let own = format!("{words} {}", times.before(words));
        objects.push(listed("route_sources", own, move |fields| fields.behind("", words, id)));
    }
    for Registration(registration) in registrations {
        let place = registration.place();
        let own = format!("{place} {}", times.before(&place));
        objects.push(listed("registrations", own, move |fields| {
            fields.behind("", &place, registration.id());
        }));
    }
    objects.push(setting("workers", move |fields| fields.or("", *workers, "auto")));
    if let Some(admin) = admin {
        objects.push(setting("admin", move |fields| {
            fields.all("", admin);
            if let Some(AdminTls { acceptor, files: _ }) = &admin.tls {
                let certificates = acceptor.certificates();
                certificates.for_each(|certificate| put_certificate("tls.cert", certificate, fields));
            }
        }));
    }
    if let Some(state) = state {
        objects.push(setting("state", move |fields| fields.put("path", state.display())));
    }
    if let Some(user) = user {
        objects.push(setting("user", move |fields| fields.all("", user)));
    }
    if let Some(metrics) = metrics {
        objects.push(setting("metrics", move |fields| fields.put("address", metrics)));
    }
    if let Some(channel) = purge_channel {
        objects.push(setting("cache.purge", move |fields| fields.all("", channel)));
    }
    if let Some(log) = access_log {
        objects.push(setting("access_log", move |fields| fields.all("", log)));
    }
}

/// One of the entries of a top-level key, told apart by `own`.
fn listed<'a>(name: &'static str, own: String, describe: impl FnOnce(&mut Fields) + 'a) -> Object<'a> {
    let mut object = setting(name, describe);
    object.id = format!("{name} {own}").into();
    object
}

/// Path and query are often the secret of a webhook: as a part of `id` they tell two apart, and are not shown.
fn webhook(webhook: &WebhookPolicy, id: String) -> Object<'_> {
    let mut object = named(ObjectKind::Webhook, "", String::new, move |fields| fields.all("", webhook));
    object.name = webhook.url.to_string().into();
    object.id = id.into();
    object
}
