//! Filters that refuse requests, as they stand on a way to something, and which of them stand for which.

use std::collections::BTreeSet;
use std::fmt;
use thalweg_filter::{Step, Written};

/// What must be the same of a guard that stands where another one stood.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Terms {
    /// Its name: an operator may change the argument of a filter that stays.
    Edit,
    /// Its argument, as it is written, and its conditions: of a route that is new.
    New,
    /// Its argument, and it has no conditions: the author of a document chooses what they are asked about.
    Document,
}

/// A filter that refuses unknown clients, and when it is called.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Guard {
    pub(super) name: &'static str,
    /// Conditions; none: always.
    when: Vec<String>,
    written: Option<Written>,
}

impl Guard {
    pub(super) fn of(step: &Step) -> Option<Self> {
        let when = || step.when.iter().map(ToString::to_string).collect();
        step.filter.guards().then(|| Self { name: step.name(), when: when(), written: step.written })
    }

    /// Whether this is there whenever `other` is.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.name == other.name && (self.when.is_empty() || self.when == other.when)
    }

    /// Whether it may stand for `wanted`.
    fn stands_for(&self, wanted: &Self, terms: Terms) -> bool {
        let has_same = |is_enough: fn(&Written, &Written) -> bool| {
            let both = self.written.as_ref().zip(wanted.written.as_ref());
            both.is_some_and(|(own, wanted)| own.argument == wanted.argument && is_enough(own, wanted))
        };
        match terms {
            Terms::Edit => self.covers(wanted),
            Terms::New if self.when.is_empty() => has_same(|_, _| true),
            Terms::New => has_same(|own, wanted| own.when == wanted.when),
            Terms::Document => self.when.is_empty() && has_same(|_, _| true),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.when.is_empty() {
            true => Ok(()),
            false => write!(f, " when {}", self.when.join(" and ")),
        }
    }
}

/// The guards on one way.
pub(super) type Guards = BTreeSet<Guard>;

/// Those that are on both ways.
pub(super) fn common(one: &Guards, other: &Guards) -> Guards {
    let covered = |guard: &&Guard, by: &Guards| by.iter().any(|known| known.covers(guard));
    let both = one.iter().filter(|guard| covered(guard, other));
    both.chain(other.iter().filter(|guard| covered(guard, one))).cloned().collect()
}

/// The guards of `wanted` that none of those that are there stands for.
pub(super) fn lacking<'a>(
    wanted: &'a Guards,
    there: &'a Guards,
    terms: Terms,
) -> impl Iterator<Item = &'a Guard> {
    wanted.iter().filter(move |guard| !there.iter().any(|known| known.stands_for(guard, terms)))
}
