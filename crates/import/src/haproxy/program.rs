//! Rules in their order, as sets of requests of which the first one that has a request decides.
//!
//! A set begins with all requests of a frontend. A rule whose condition `when` of a filter can say becomes a filter of
//! the set. Any other splits the set: those that fit go before the rest, and a condition that is negated takes those
//! out that it does not want by a set that stands before. So `!` needs no opposite of a host or a path.

use super::acl::{Condition, Literal, Test};
use super::actions::{Action, Lost};
use super::lines::Line;
use super::listen::Listener;
use super::region::{Meet, Region};
use super::resolve::Resolved;
use super::template::Scope;
use crate::draft::literal;
use crate::yaml::{Map, Value, one};
use crate::{Grade, Report};
use std::collections::BTreeMap;

/// Sets that a frontend may be split into.
const MOST: usize = 400;

/// When a rule is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Connection,
    Request,
    Redirect,
    Choose,
    Response,
}

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) line: Line,
    pub(super) stage: Stage,
    /// The words of its action.
    pub(super) words: Vec<String>,
    pub(super) condition: Result<Condition, String>,
    pub(super) is_after: bool,
}

/// What becomes of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Fate {
    #[default]
    Open,
    Answered,
    Backend(String),
    Refused,
}

/// A set of requests and what is done with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Alternative {
    pub(super) region: Region,
    pub(super) filters: Vec<Map>,
    /// Changes of responses, in HAProxy's order.
    pub(super) responses: Vec<Map>,
    pub(super) after: Vec<Map>,
    pub(super) fate: Fate,
    pub(super) notes: Vec<String>,
    pub(super) title: String,
    pub(super) is_moved: bool,
    /// Fields that rules have changed.
    pub(super) touched: Vec<String>,
    /// No further rule of this stage is asked.
    pub(super) is_allowed: bool,
}

/// What rules are played with.
pub(super) struct Program<'a> {
    pub(super) listeners: &'a [Listener],
    pub(super) report: &'a mut Report,
    pub(super) variables: &'a BTreeMap<String, String>,
    /// What `track-sc` counts by, and the table.
    pub(super) counters: &'a BTreeMap<String, (Value, String)>,
    /// Periods of tables by name and rate.
    pub(super) periods: &'a BTreeMap<(String, String), u64>,
    pub(super) users: &'a BTreeMap<String, Map>,
    pub(super) name: String,
    /// The set may not be split further.
    pub(super) is_full: bool,
}

impl Alternative {
    /// Answers 501.
    pub(super) fn refuse(&mut self, why: &str) {
        let body = format!("501 Not Implemented: {why}\n");
        self.notes.push(format!("NOT TAKEN OVER: {why}"));
        self.filters.push(one("respond", one("status", 501_u16).with("body", literal(&body))));
        self.fate = Fate::Refused;
    }

    fn at(&mut self, line: &Line, title: &str) {
        self.notes.push(format!("{}:{}", line.place.file, line.place.line));
        title.clone_into(&mut self.title);
    }
}

impl Program<'_> {
    /// Plays rules of a stage on sets.
    pub(super) fn play(&mut self, sets: Vec<Alternative>, rules: &[Rule], stage: Stage) -> Vec<Alternative> {
        let mut sets = sets;
        for rule in rules.iter().filter(|rule| rule.stage == stage) {
            let mut out = Vec::new();
            for set in sets {
                if matches!(set.fate, Fate::Answered | Fate::Refused) || set.is_allowed {
                    out.push(set);
                    continue;
                }
                match &rule.condition {
                    Ok(condition) => self.split(set, condition, rule, &mut out),
                    Err(why) => self.lost(set, rule, why, &mut out),
                }
                if out.len() > MOST {
                    self.is_full = true;
                    return out;
                }
            }
            sets = out;
        }
        for set in &mut sets {
            set.is_allowed = false;
        }
        sets
    }

    pub(super) fn scope(&self, set: &Alternative) -> Scope {
        let mut secure = set.region.listeners.iter().map(|at| self.listeners[*at].is_secure());
        let mut ports = set.region.listeners.iter().map(|at| self.listeners[*at].port);
        let first = (secure.next(), ports.next());
        Scope {
            secure: first.0.filter(|first| secure.all(|other| other == *first)),
            port: first.1.filter(|first| *first > 0 && ports.all(|other| other == *first)),
            variables: self.variables.clone(),
            is_moved: set.is_moved,
            frontend: self.name.clone(),
        }
    }

    pub(super) fn note(&mut self, rule: &Rule, grade: Grade, about: impl Into<String>) {
        let concerns = self.name.clone();
        self.report.note(&rule.line.place, rule.line.text.as_str(), grade, about, concerns);
    }

    /// Does what a rule says to those of a set that fit one of the alternatives.
    fn split(
        &mut self,
        set: Alternative,
        alternatives: &[Vec<Literal>],
        rule: &Rule,
        out: &mut Vec<Alternative>,
    ) {
        let Some((first, rest)) = alternatives.split_first() else {
            out.push(set);
            return;
        };
        if out.len() > MOST {
            return;
        }
        let mut set = set;
        let (special, first): (Vec<Literal>, Vec<Literal>) = first
            .iter()
            .cloned()
            .partition(|literal| matches!(literal.test, Test::User(_) | Test::Rate(_) | Test::Status(_)));
        let mut resolved = match self.judged(&mut set, &first, special.is_empty(), rule) {
            Some(resolved) => resolved,
            None => return self.split(set, rest, rule, out),
        };
        if let Some(why) = resolved.unknown.take() {
            return self.undecided(set, (resolved.fits, &why), (rule, rest), out);
        }
        if self.is_told_anyway(rule, &resolved.fits) {
            return self.split(set, rest, rule, out);
        }
        let is_whole = resolved.fits == set.region && resolved.without.is_empty();
        let scope = self.scope(&Alternative { region: resolved.fits.clone(), ..set.clone() });
        let action = match self.action(rule, &special, &scope) {
            Ok(action) => action,
            Err(lost) => return self.lost_action(set, resolved, (rule, rest, lost), out),
        };
        let when =
            if is_whole { Some(Map::default()) } else { self.when(&set, &resolved.fits, &resolved.without) };
        if let Some(when) = when
            && let Some(is_over) = self.filtered(&mut set, &action, &when, (rule, rest.is_empty()))
        {
            return if is_over { out.push(set) } else { self.split(set, rest, rule, out) };
        }
        self.carve(set, resolved, (rule, rest, &action), out);
    }

    /// What the tests leave of a set, unless a filter says all of it already.
    fn judged(
        &mut self,
        set: &mut Alternative,
        tests: &[Literal],
        is_plain: bool,
        rule: &Rule,
    ) -> Option<Resolved> {
        let keeps_out =
            matches!(rule.words.first().map(String::as_str), Some("deny" | "reject" | "silent-drop"));
        if keeps_out && is_plain {
            let found = self.resolve(set, tests, true)?;
            if found.unknown.is_none()
                && let Some(filter) = self.kept_out(set, &found, rule)
            {
                set.filters.push(filter);
                return None;
            }
        }
        self.resolve(set, tests, false)
    }

    /// What becomes of requests of which it is not known whether they fit.
    fn undecided(
        &mut self,
        set: Alternative,
        (fits, why): (Region, &str),
        (rule, rest): (&Rule, &[Vec<Literal>]),
        out: &mut Vec<Alternative>,
    ) {
        if !self.is_closing(rule) {
            self.note(rule, Grade::Lost, format!("{why}; it is left out"));
            return self.split(set, rest, rule, out);
        }
        let is_all = fits == set.region;
        let mut closed = Alternative { region: fits, ..set.clone() };
        closed.at(&rule.line, "not taken over");
        closed.refuse("a condition of HAProxy that decides here is not taken over");
        self.note(rule, Grade::Lost, format!("{why}; requests that it may be for are answered 501"));
        out.push(closed);
        if !is_all {
            self.split(set, rest, rule, out);
        }
    }

    /// Makes sets of those that a condition does not want, of those that it wants, and of the rest.
    fn carve(
        &mut self,
        set: Alternative,
        Resolved { fits, without, .. }: Resolved,
        (rule, rest, action): (&Rule, &[Vec<Literal>], &Action),
        out: &mut Vec<Alternative>,
    ) {
        for test in &without {
            match fits.and(test, self.listeners) {
                Meet::Region(region) => {
                    let kept = Alternative { region, ..set.clone() };
                    self.split(kept, rest, rule, out);
                }
                Meet::Empty => {}
                Meet::Unsayable(why) => return self.undecided(set, (fits, &why), (rule, rest), out),
            }
        }
        let is_whole = fits == set.region;
        let mut taken = Alternative { region: fits, ..set.clone() };
        self.apply(&mut taken, action, rule);
        out.push(taken);
        if !is_whole {
            self.split(set, rest, rule, out);
        }
    }

    /// The condition as `when` of a filter.
    pub(super) fn when(&self, set: &Alternative, fits: &Region, without: &[Test]) -> Option<Map> {
        if !without.is_empty()
            || fits.listeners != set.region.listeners
            || fits.hosts != set.region.hosts
            || fits.query != set.region.query
        {
            return None;
        }
        // What the set asks anyway needs no `when`.
        let mut asked =
            Region { listeners: Vec::new(), hosts: Vec::new(), query: BTreeMap::new(), ..fits.clone() };
        if fits.paths == set.region.paths {
            asked.paths.clear();
        }
        if fits.methods == set.region.methods {
            asked.methods.clear();
        }
        if fits.client == set.region.client {
            asked.client.clear();
        }
        asked.headers.retain(|name, rule| set.region.headers.get(name) != Some(rule));
        asked.when()
    }

    /// Adds a filter with its condition; `None`: the set must be split, else whether no further rule has to be asked.
    fn filtered(
        &mut self,
        set: &mut Alternative,
        action: &Action,
        when: &Map,
        (rule, is_last): (&Rule, bool),
    ) -> Option<bool> {
        let is_whole = when.is_empty();
        let conditional = |filter: &Map| match is_whole {
            true => filter.clone(),
            false => filter.clone().with("when", when.clone()),
        };
        match action {
            Action::Nothing => Some(is_whole),
            Action::Change { filter, is_move, is_idempotent } => {
                if !is_whole && (*is_move || !(*is_idempotent || is_last)) {
                    return None;
                }
                self.touch(set, rule, *is_move);
                set.filters.push(conditional(filter));
                Some(is_whole)
            }
            Action::Response(filter) => {
                let both = joined_when(filter, when);
                set.responses.push(both);
                Some(is_whole)
            }
            Action::After(filter) => {
                let both = joined_when(filter, when);
                set.after.push(both);
                Some(is_whole)
            }
            Action::Auth(_) | Action::Allow | Action::Backend(_) => None,
            Action::Answer(filter) | Action::Deny(filter) if !is_whole => {
                set.filters.push(conditional(filter));
                Some(false)
            }
            Action::Answer(_) | Action::Deny(_) => None,
        }
    }

    fn touch(&self, set: &mut Alternative, rule: &Rule, is_move: bool) {
        set.is_moved |= is_move;
        if rule.words.first().is_some_and(|word| word.ends_with("-header")) {
            set.touched.push(rule.words.get(1).map_or(String::new(), |name| name.to_ascii_lowercase()));
        }
    }

    /// Does what a rule says to a whole set.
    fn apply(&mut self, set: &mut Alternative, action: &Action, rule: &Rule) {
        match action {
            Action::Change { filter, is_move, .. } => {
                self.touch(set, rule, *is_move);
                set.filters.push(filter.clone());
            }
            Action::Response(filter) => set.responses.push(filter.clone()),
            Action::After(filter) => set.after.push(filter.clone()),
            Action::Answer(filter) | Action::Deny(filter) => {
                set.filters.push(filter.clone());
                set.fate = Fate::Answered;
                set.at(&rule.line, rule.words.first().map_or("answer", String::as_str));
            }
            Action::Allow => set.is_allowed = true,
            Action::Backend(name) => {
                set.fate = Fate::Backend(name.clone());
                set.at(&rule.line, name);
                set.is_allowed = true;
            }
            Action::Auth(_) | Action::Nothing => {}
        }
    }

    /// Whether requests fall to another route where this rule is left out.
    pub(super) fn is_closing(&self, rule: &Rule) -> bool {
        match rule.stage {
            Stage::Choose | Stage::Redirect => true,
            Stage::Response => false,
            Stage::Connection | Stage::Request => rule.words.first().is_some_and(|word| {
                let kept = [
                    "set-header",
                    "add-header",
                    "del-header",
                    "replace-header",
                    "replace-value",
                    "set-var",
                    "capture",
                    "set-log-level",
                    "track-sc",
                    "cache-use",
                ];
                !kept.iter().any(|known| word.starts_with(known))
            }),
        }
    }

    /// A rule whose condition is not understood at all.
    fn lost(&mut self, set: Alternative, rule: &Rule, why: &str, out: &mut Vec<Alternative>) {
        let mut set = set;
        self.note(rule, Grade::Lost, why);
        if self.is_closing(rule) {
            set.at(&rule.line, "not taken over");
            set.refuse("a condition of HAProxy that decides here is not taken over");
        }
        out.push(set);
    }

    fn lost_action(
        &mut self,
        set: Alternative,
        Resolved { fits, without, .. }: Resolved,
        (rule, rest, lost): (&Rule, &[Vec<Literal>], Lost),
        out: &mut Vec<Alternative>,
    ) {
        self.note(rule, if lost.is_near { Grade::Near } else { Grade::Lost }, lost.why.clone());
        if lost.closes {
            for test in &without {
                if let Meet::Region(region) = fits.and(test, self.listeners) {
                    self.split(Alternative { region, ..set.clone() }, rest, rule, out);
                }
            }
            let is_all = fits == set.region;
            let mut closed = Alternative { region: fits, ..set.clone() };
            closed.at(&rule.line, "not taken over");
            closed.refuse(&format!("`{}` of HAProxy", rule.words.first().map_or("", String::as_str)));
            out.push(closed);
            if is_all {
                return;
            }
        }
        self.split(set, rest, rule, out);
    }
}

/// A filter of the response with a condition beside that on the status.
fn joined_when(filter: &Map, when: &Map) -> Map {
    let mut both = match filter.get("when") {
        Some(Value::Map(known)) => known.clone(),
        _ => Map::default(),
    };
    for (key, value) in when.entries() {
        both.put(key.as_str(), value.clone());
    }
    if both.is_empty() { filter.clone() } else { filter.clone().with("when", both) }
}
