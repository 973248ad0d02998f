//! What differs between two configurations, object by object and field by field.
//!
//! Called for `plan`, trial runs and reloads. Each side is described as objects (`describe`, `services`,
//! `settings`), whose fields are what their plan types serialise to (`fields`); so a new field of a plan type is told
//! when it changes. What cannot serialise, TLS sessions and what names other objects of the plan, is added by hand.
//! Secrets are compared and never shown: fields that are secrets by their type show nothing, and every other text
//! passes [`Concealed::hide`].

mod describe;
mod fields;
mod order;
mod services;
mod settings;

use crate::provenance::Place;
use crate::settings::Settings;
use fields::{Field, Fields};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use thalweg_core::Concealed;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::Route;
use thalweg_upstream::Service;

/// Longest value that is shown, in characters; the rest is left out.
const SHOWN: usize = 120;

/// What an object of the configuration is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ObjectKind {
    /// A listener, by its name.
    Listener,
    /// A route, by its name.
    Route,
    /// A service, by its name.
    Service,
    /// An endpoint of a service, by its URL.
    Endpoint,
    /// A webhook, by scheme, host and port of its URL.
    Webhook,
    /// An objective, by its name.
    Slo,
    /// A top-level key, by its name.
    Setting,
}

impl ObjectKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Route => "route",
            Self::Service => "service",
            Self::Endpoint => "endpoint",
            Self::Webhook => "webhook",
            Self::Slo => "slo",
            Self::Setting => "setting",
        }
    }
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// It was not there.
    Added,
    /// Fields of it differ.
    Changed,
    /// Nothing but its place in the file differs, where that decides who takes a request.
    Moved,
    /// It is not there any more.
    Removed,
}

/// One object that differs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// What it is.
    pub kind: ObjectKind,
    /// Its stable name.
    pub name: String,
    /// Of an endpoint: its service.
    pub service: Option<String>,
    /// What happens to it.
    pub action: Action,
    /// What it is about, for people: of a route its match and target. May be empty.
    pub summary: String,
    /// The fields that differ; of one that is added or removed, all that are set.
    pub fields: Vec<FieldChange>,
    /// Where the side that is new is written, where that is known.
    pub place: Option<Place>,
}

/// One field that differs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldChange {
    /// As in the configuration: `timeouts.first_byte`.
    pub field: Cow<'static, str>,
    /// `None`: it was not set, or is not shown.
    pub before: Option<String>,
    /// `None`: it is not set, or is not shown.
    pub after: Option<String>,
    /// It differs in what is not shown: a secret, or the end of a long text.
    pub hidden: bool,
}

/// The name of a field and what is shown of it; `None`: nothing is.
pub(crate) type ShownField = (Cow<'static, str>, Option<String>);

/// Everything that is configured of a route.
pub(crate) fn route_settings(route: &Route, plan: &Plan) -> Vec<ShownField> {
    let mut fields = Fields::default();
    describe::route_fields(route, None, plan, &mut fields);
    fields.shown(&plan.secrets.concealed)
}

/// Everything that is configured of a service, its endpoints excepted.
pub(crate) fn service_settings(service: &Service, plan: &Plan) -> Vec<ShownField> {
    let mut fields = Fields::default();
    services::service_fields(service, &mut fields);
    fields.shown(&plan.secrets.concealed)
}

/// What a value of a plan consists of, below this path.
pub(crate) fn settings_of(path: &str, value: &impl Serialize, plan: &Plan) -> Vec<ShownField> {
    let mut fields = Fields::default();
    fields.all(path, value);
    fields.shown(&plan.secrets.concealed)
}

/// An object that takes part in a comparison. What it says is written down when it is its turn: of ten thousand, two at
/// a time.
struct Object<'a> {
    kind: ObjectKind,
    /// Compared; names of objects of one kind and service may be shown alike.
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    service: Option<&'a str>,
    summary: Box<dyn FnOnce() -> String + 'a>,
    describe: Box<dyn FnOnce(&mut Fields) + 'a>,
}

/// What differs between a configuration and the one that is to follow it: listeners, routes, services with their
/// endpoints, webhooks, objectives, settings; within each in the order of the file that follows, then what is removed.
pub fn diff(before: (&Plan, &Settings), after: (&Plan, &Settings)) -> Vec<Change> {
    let (old, new) = (describe::objects(before), describe::objects(after));
    let moved = order::moved(before.0, after.0);
    let concealed = before.0.secrets.concealed.with(&after.0.secrets.concealed);
    let mut known: HashMap<_, _> = old.iter().zip(0..).map(|(object, at)| (object.key(), at)).collect();
    let places: Vec<Option<usize>> = new.iter().map(|object| known.remove(&object.key())).collect();
    drop(known);
    let mut old: Vec<_> = old.into_iter().map(Some).collect();
    let mut changes = Vec::new();
    for (object, place) in new.into_iter().zip(places) {
        let moved = match object.kind {
            ObjectKind::Route => moved.get(&*object.name).cloned(),
            _ => None,
        };
        let (object, fields) = object.described();
        match place.and_then(|place| old[place].take()) {
            None => {
                let fields = fields::all(fields, true, &concealed);
                changes.push(object.change(Action::Added, fields, &concealed));
            }
            Some(before) => {
                let mut fields = fields::differences(before.described().1, fields, &concealed);
                let action = if fields.is_empty() { Action::Moved } else { Action::Changed };
                fields.extend(moved);
                if !fields.is_empty() {
                    changes.push(object.change(action, fields, &concealed));
                }
            }
        }
    }
    for gone in old.into_iter().flatten() {
        let (gone, fields) = gone.described();
        let fields = fields::all(fields, false, &concealed);
        changes.push(gone.change(Action::Removed, fields, &concealed));
    }
    // The sort is stable; an endpoint stands below its service.
    let rank = |kind| if kind == ObjectKind::Endpoint { ObjectKind::Service } else { kind };
    changes.sort_by_key(|change| rank(change.kind));
    changes
}

impl Object<'_> {
    fn key(&self) -> (ObjectKind, Option<&str>, &str) {
        (self.kind, self.service, &self.id)
    }

    /// Its fields, and what is left of it.
    fn described(mut self) -> (Self, Vec<Field>) {
        let mut fields = Fields::default();
        std::mem::replace(&mut self.describe, Box::new(|_| ()))(&mut fields);
        (self, fields.0)
    }

    fn change(self, action: Action, fields: Vec<FieldChange>, concealed: &Concealed) -> Change {
        Change {
            kind: self.kind,
            name: self.name.into_owned(),
            service: self.service.map(str::to_owned),
            action,
            summary: concealed.hide(&(self.summary)()).into_owned(),
            fields,
            place: None,
        }
    }
}

/// A line with `+`, `~`, `>` or `-`, and below it a line per field of an object that changes.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.action {
            Action::Added => '+',
            Action::Changed => '~',
            Action::Moved => '>',
            Action::Removed => '-',
        };
        write!(f, "{mark} {} `{}`", self.kind.name(), self.name)?;
        if let Some(service) = &self.service {
            write!(f, " of service `{service}`")?;
        }
        if !self.summary.is_empty() && matches!(self.action, Action::Added | Action::Removed) {
            write!(f, ": {}", self.summary)?;
        }
        // Those are told that may come from another document than one thinks.
        if let (Some(place), ObjectKind::Route | ObjectKind::Service) = (&self.place, self.kind) {
            write!(f, " ({place})")?;
        }
        if matches!(self.action, Action::Changed | Action::Moved) {
            self.fields.iter().try_for_each(|field| write!(f, "\n    {field}"))?;
        }
        Ok(())
    }
}

/// `timeouts.first_byte: 60s → 5s`
impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.field.is_empty() { "" } else { &*format!("{}: ", self.field) };
        if self.hidden {
            return write!(f, "{name}changed (not shown)");
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".into());
        write!(f, "{name}{} → {}", text(&self.before), text(&self.after))
    }
}

#[cfg(test)]
mod tests;
