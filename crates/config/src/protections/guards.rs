//! Guards: filters and listeners on a way that refuse requests, and the rule by which one guard may replace another.

use super::entrances::ACCESS;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use thalweg_filter::{Step, Written};

/// The properties that a guard must share with the guard that it replaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Terms {
    /// The name: an operator may change the argument of a filter that stays.
    Edit,
    /// The argument as written, and the conditions: for a new route.
    New,
    /// The argument, without conditions: the author of a document controls the input of conditions.
    Document,
    /// The argument and the conditions, for a document whose requests the file already leads through that guard.
    Same,
}

/// How the names of verified fields begin.
const FIELD: &str = "verified field ";

/// A filter that refuses unknown clients, and when it is called; or what a listener asks of them.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Guard {
    pub(super) name: Cow<'static, str>,
    /// Its conditions; empty: it always runs.
    when: Vec<String>,
    written: Option<Written>,
    /// What a listener asks, in words; `None`: it is a filter.
    asked: Option<String>,
}

impl Guard {
    /// What a listener asks of clients.
    pub(super) fn of_listener(name: &'static str, asked: String) -> Self {
        Self { name: name.into(), when: Vec::new(), written: None, asked: Some(asked) }
    }

    /// The fields that a filter sets or removes whatever a client sends in them.
    pub(super) fn of_fields(step: &Step) -> impl Iterator<Item = Self> {
        let field = |name: &str| Self {
            name: format!("{FIELD}{}", name.to_ascii_lowercase()).into(),
            when: step.when.iter().map(ToString::to_string).collect(),
            written: step.written,
            asked: None,
        };
        step.filter.own_fields().into_iter().map(field)
    }

    /// The name of the field, of what [`Self::of_fields`] gives.
    pub(super) fn field(&self) -> Option<&str> {
        self.name.strip_prefix(FIELD)
    }

    /// Whether this filter, as written, sets the field.
    pub(super) fn is_by(&self, step: &Step) -> bool {
        self.written.is_some() && self.written == step.written
    }

    pub(super) fn of(step: &Step) -> Option<Self> {
        let when = || step.when.iter().map(ToString::to_string).collect();
        let guard = || Self { name: step.name().into(), when: when(), written: step.written, asked: None };
        step.filter.guards().then(guard)
    }

    /// Whether it always runs.
    pub(super) fn is_unconditional(&self) -> bool {
        self.when.is_empty()
    }

    /// The key in the section of its listener or filter.
    pub(super) fn key(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// Whether this guard runs whenever `other` does.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.name == other.name && (self.when.is_empty() || self.when == other.when)
    }

    /// Whether it may replace `wanted`.
    fn stands_for(&self, wanted: &Self, terms: Terms) -> bool {
        if self.asked.is_some() {
            return self.name == wanted.name && (terms == Terms::Edit || self.asked == wanted.asked);
        }
        let has_same = |is_enough: fn(&Written, &Written) -> bool| {
            let both = self.written.as_ref().zip(wanted.written.as_ref());
            both.is_some_and(|(own, wanted)| own.argument == wanted.argument && is_enough(own, wanted))
        };
        match terms {
            Terms::Edit => self.covers(wanted),
            Terms::New if self.when.is_empty() => has_same(|_, _| true),
            Terms::New | Terms::Same => has_same(|own, wanted| own.when == wanted.when),
            Terms::Document => self.when.is_empty() && has_same(|_, _| true),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.when.is_empty() {
            true => Ok(()),
            false => write!(f, " when {}", self.when.join(" and ")),
        }
    }
}

/// The guards on one way.
pub(super) type Guards = BTreeSet<Guard>;

/// The guards on both ways.
pub(super) fn common(one: &Guards, other: &Guards) -> Guards {
    let covered = |guard: &&Guard, by: &Guards| by.iter().any(|known| known.covers(guard));
    let both = one.iter().filter(|guard| covered(guard, other));
    both.chain(other.iter().filter(|guard| covered(guard, one))).cloned().collect()
}

/// The guards of `wanted` that no present guard may replace.
pub(super) fn lacking<'a>(
    wanted: &'a Guards,
    there: &'a Guards,
    terms: Terms,
) -> impl Iterator<Item = &'a Guard> {
    wanted.iter().filter(move |guard| !there.iter().any(|known| known.stands_for(guard, terms)))
}

/// The guards of a listener that another listener lacks. Where the listener is the same, its `access` may have another
/// argument: an operator may change it.
pub(super) fn lacking_entrance<'a>(
    wanted: &'a Guards,
    there: &'a Guards,
    is_same: bool,
) -> impl Iterator<Item = &'a Guard> {
    let terms = move |guard: &Guard| if is_same && guard.name == ACCESS { Terms::Edit } else { Terms::New };
    wanted.iter().filter(move |guard| !there.iter().any(|known| known.stands_for(guard, terms(guard))))
}
