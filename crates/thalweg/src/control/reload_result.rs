//! What another configuration would come to or has come to: the document of plans, trial runs and reloads.

use super::admin::Shared;
use super::base::Base;
use super::drift::drift;
use super::origin::{Candidate, Origin};
use super::runtime::Runtime;
use super::weights::masked;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use thalweg_admin::{ChangeAction, ConfigChange, ConfigOutcome, FieldChange, ListenerChange};
use thalweg_config::diff::{Action, FieldChange as Field};
use thalweg_config::protections::{LostProtection, lost};
use thalweg_config::settings::Admin;
use thalweg_config::{Change, Settings, diff};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::Listener;

/// Protections that go and are each told of.
pub(super) const TOLD: usize = 20;

impl Shared {
    /// What differs between what runs and the candidate, and what that means. Nothing is changed.
    pub(super) fn outcome(&self, origin: &Origin, runtime: &Runtime, candidate: &Candidate) -> ConfigOutcome {
        let Candidate { plan, settings, warnings, inputs, apart, .. } = candidate;
        let mut changes = diff((&runtime.base.as_written(), &origin.settings), (plan, settings));
        candidate.provenance.add_places(plan, &mut changes);
        let found = (&settings.discover, runtime.base.found());
        let filled = Base::with_documents(plan.clone(), found, apart.clone());
        let mut outcome = ConfigOutcome {
            etag: inputs.etag(),
            generation: self.generation.load(Ordering::Relaxed),
            dry_run: true,
            listeners: self.listener_changes(&runtime.base, plan),
            waits_for_restart: waits_for_restart(origin, (plan, settings)),
            drift: drift(&runtime.overlay, &filled),
            notes: self.notes(runtime, &filled),
            warnings: warnings.lines().lines().map(str::to_owned).collect(),
            ..ConfigOutcome::default()
        };
        outcome.text = in_words(&changes, &outcome);
        outcome.changes = changes.into_iter().map(document).collect();
        outcome
    }

    /// Listeners that close, with who is connected there, and those that open.
    fn listener_changes(&self, before: &Plan, after: &Plan) -> Vec<ListenerChange> {
        let has =
            |plan: &Plan, listener: &Listener| plan.listeners.iter().any(|other| is_same(other, listener));
        let told = |listener: &Listener, opens: bool| {
            let workers = 0..if opens { 0 } else { self.worker_pool().workers() };
            let open = workers.map(|worker| self.registry.listener(worker, &listener.name).active.value());
            ListenerChange {
                name: listener.name.to_string(),
                address: listener.address.to_string(),
                opens,
                connections: u64::try_from(open.sum::<i64>()).unwrap_or(0),
            }
        };
        let closing = before.listeners.iter().filter(|listener| !has(after, listener));
        let opening = after.listeners.iter().filter(|listener| !has(before, listener));
        closing
            .map(|listener| told(listener, false))
            .chain(opening.map(|listener| told(listener, true)))
            .collect()
    }

    /// What becomes of exchanges to services that go, and which weights stay without effect.
    fn notes(&self, runtime: &Runtime, after: &Plan) -> Vec<String> {
        let before = &runtime.base;
        let there: HashSet<&str> = after.services.iter().map(|service| &*service.name).collect();
        let gone = before.services.iter().filter(|old| !there.contains(&*old.name));
        let under_way = gone.map(|service| {
            let workers = 0..self.worker_pool().workers();
            workers.map(|worker| self.registry.service(worker, &service.name).active.value()).sum::<i64>()
        });
        let cut = match under_way.sum::<i64>() {
            count @ 1.. => Some(format!(
                "{count} exchanges and tunnels under way to services that go are not cut: they go on to their end"
            )),
            _ => None,
        };
        // In the file, a further route with another argument is not a loss, nor is a health check.
        let is_loss = |lost: &LostProtection| !lost.is_other && !lost.is_of_check();
        let lost: Vec<_> = lost(before, after).into_iter().filter(is_loss).collect();
        let unguarded = lost.iter().take(TOLD).map(|lost| format!("a protection goes: {lost}"));
        let more = lost.len().checked_sub(TOLD).filter(|more| *more > 0);
        let more = more.map(|more| format!("and {more} more protections go"));
        let masked = masked(&runtime.overlay, (before, after));
        cut.into_iter().chain(unguarded).chain(more).chain(masked).collect()
    }
}

/// Whether a listener stays as it is bound.
fn is_same(one: &Listener, other: &Listener) -> bool {
    one.name == other.name && one.address == other.address
}

/// Keys whose value is looked at when the process starts.
fn waits_for_restart(origin: &Origin, (plan, settings): (&Plan, &Settings)) -> Vec<String> {
    let limits = &plan.limits;
    let mut keys = Vec::new();
    let mut look = |key: &str, same: bool| keys.extend((!same).then(|| key.to_owned()));
    // Objectives and webhooks take over at once, and so do tokens and the certificate of the admin listener, unless the
    // token for everything or TLS comes or goes.
    let Settings {
        admin,
        state,
        workers,
        user,
        metrics,
        access_log,
        slos: _,
        webhooks: _,
        discover: _,
        route_sources: _,
        registrations: _,
        // Followed like webhooks.
        purge_channel: _,
    } = settings;
    let now = &origin.settings;
    let fixed = |admin: &Option<Admin>| {
        admin.as_ref().map(|admin| (admin.address.clone(), admin.token.is_some(), admin.tls.is_some()))
    };
    look("admin", fixed(admin) == fixed(&now.admin));
    look("state", *state == now.state);
    look("workers", *workers == now.workers);
    look("user", *user == now.user);
    look("metrics", *metrics == now.metrics);
    look("access_log", *access_log == now.access_log);
    look("limits.max_connections", limits.max_connections == origin.limits.max_connections);
    look("limits.memory", limits.memory == origin.limits.memory);
    look("limits.max_in_flight", limits.max_in_flight == origin.limits.max_in_flight);
    look("cache.memory", plan.cache.memory == origin.cache.memory);
    look("cache.disk", plan.cache.disk == origin.cache.disk);
    keys
}

fn document(change: Change) -> ConfigChange {
    let action = match change.action {
        Action::Added => ChangeAction::Added,
        Action::Changed => ChangeAction::Changed,
        Action::Moved => ChangeAction::Moved,
        Action::Removed => ChangeAction::Removed,
    };
    let field = |field: Field| {
        let Field { field, before, after, hidden } = field;
        FieldChange { field, before, after, hidden }
    };
    let fields = change.fields.into_iter().map(field);
    let (name, service) = (change.name, change.service);
    let origin = change.place.map(|place| place.to_string());
    ConfigChange { kind: change.kind.name(), name, service, action, origin, fields: fields.collect() }
}

/// The same for people: what changes, a line or more each, then what it means.
fn in_words(changes: &[Change], outcome: &ConfigOutcome) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for change in changes {
        let _ = writeln!(text, "{change}");
    }
    if changes.is_empty() {
        text.push_str("nothing changes\n");
    }
    for ListenerChange { name, address, opens, connections } in &outcome.listeners {
        let _ = match opens {
            true => writeln!(text, "listener `{name}` opens on {address}"),
            false => writeln!(text, "listener `{name}` closes on {address}: {connections} open connections"),
        };
    }
    if !outcome.waits_for_restart.is_empty() {
        let _ = writeln!(text, "waits for a restart: {}", outcome.waits_for_restart.join(", "));
    }
    for change in &outcome.drift {
        let endpoint = change.endpoint.as_ref().map(|url| format!(", {url}")).unwrap_or_default();
        let void = if change.void { " (without effect on this configuration)" } else { "" };
        let _ = writeln!(
            text,
            "changed at run time: {} `{}`{endpoint}: {}{void}",
            change.kind, change.name, change.change
        );
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}
